"""The nbgrader door: what `nbgrader_config.py` puts into nbgrader's own lists."""

import re
from pathlib import Path

from nbconvert.exporters import NotebookExporter
from nbconvert.filters import strip_ansi
from nbformat.v4 import new_markdown_cell, new_notebook
from nbgrader.converters import Autograde
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Float

from .graded_notebook import UnreadableNotebook, is_graded, read_notebook, restore
from .kernel_runner import CELL_SECONDS, Runner
from .register_units import graded_form, register, released_form

_HIDDEN = "A hidden check of this cell failed: the same specification, on inputs that are not shown."


class SubmissionExporter(NotebookExporter):
    """Reads a submission, as every door does; one that is no notebook becomes an empty one, and is graded.

    nbgrader would print a traceback and leave the student without a grade and without feedback.

    nbgrader makes one exporter a run, before it asks the gradebook for the first unit: that is where the units that
    are to be graded are registered, so that nothing has to be generated before.
    """

    def __init__(self, config=None, *, parent=None, **kwargs):
        super().__init__(config=config, parent=parent, **kwargs)
        if isinstance(parent, Autograde):
            for unit in sorted({Path(folder).name for folder in parent.assignments}):
                register(unit, parent.coursedir, self)

    def from_filename(self, filename, resources=None, **kwargs):
        """As in nbconvert: the notebook's text and the resources."""
        path = Path(filename)
        resources = self._init_resources(resources)
        resources["metadata"] |= {"name": path.stem, "path": str(path.parent)}
        try:
            notebook = read_notebook(path)
        except UnreadableNotebook as error:
            self.log.error("%s", error)
            notebook, resources["unreadable"] = new_notebook(), str(error)
        return self.from_notebook_node(notebook, resources=resources, **kwargs)


class RestoreRelease(NbGraderPreprocessor):
    """Bring a submission back in line with the release, and put the hidden tests in.

    It does the work of nbgrader's OverwriteKernelspec and OverwriteCells, which keep metadata and warn of each cell
    with hidden tests, and of DeduplicateIds, after which a copied cell stops the whole class (nbgrader issue 1083).
    """

    def preprocess(self, nb, resources):
        """Runs in the course's folder, as all of nbgrader does."""
        unit, name = resources["nbgrader"]["assignment"], resources["nbgrader"]["notebook"]
        graded = graded_form(Path("solutions", unit, f"{name}.ipynb"), self)
        changes = restore(nb, released_form(graded, self))
        restore(nb, graded)
        if "unreadable" in resources:
            nb.cells.insert(0, new_markdown_cell(f"**Not graded.** {resources['unreadable']}"))
        elif changes:
            path = Path(resources["metadata"]["path"], f"{name}.ipynb")
            self.log.warning("%s: put back as released: %s", path, ", ".join(changes))
        return nb, resources


class RunNotebook(NbGraderPreprocessor):
    """Execute a submission as the pytest door does, so that both give the same points.

    nbgrader's own Execute gives no grade at all when a kernel dies; here the cells that ran keep theirs.
    """

    seconds = Float(CELL_SECONDS, help="time limit of each cell in seconds").tag(config=True)

    def preprocess(self, nb, resources):
        """Fill in the outputs of every code cell."""
        with Runner(nb, Path(resources["metadata"]["path"]), self.seconds) as runner:
            runner.run_all()
        return nb, resources


class HideHiddenTests(NbGraderPreprocessor):
    """Take the hidden tests, and whatever shows them, out of the feedback.

    Stripping the source is not enough: a traceback quotes the lines around the one that failed. So a graded
    cell with hidden tests keeps of a traceback only its last line, and of a hidden failure only that there
    was one.
    """

    def preprocess_cell(self, cell, resources, index):
        """Clean one cell: its outputs by line number, then its source."""
        lines = cell.source.split("\n")
        begin = next((i for i, line in enumerate(lines) if "BEGIN HIDDEN TESTS" in line), None)
        if begin is None or not is_graded(cell):
            return cell, resources
        end = next(i for i, line in enumerate(lines) if "END HIDDEN TESTS" in line)
        for output in cell.outputs:
            if output.output_type == "error":
                number = _line_number(output)
                if number is None or begin < number <= end:
                    output.ename, output.evalue, output.traceback = "HiddenCheck", _HIDDEN, [_HIDDEN]
                elif output.ename not in ("CheckFailed", "NotBegun", "TimeLimit", "KernelDied"):
                    output.traceback = [f"{output.ename}: {output.evalue} (line {number} of this cell)"]
        cell.source = "\n".join(lines[:begin] + lines[end + 1 :])
        return cell, resources


def _line_number(output) -> int | None:
    """The line of the graded cell in which it failed, counted from 1; 0 if no line of it is shown."""
    if output.ename in ("TimeLimit", "KernelDied"):
        return 0
    text = strip_ansi("\n".join(output.traceback))
    found = re.search(r"Cell In\[\d+\], line (\d+)|\(line (\d+) of this cell\)", text)
    return int(found[1] or found[2]) if found else None
