"""The nbgrader door: what `nbgrader_config.py` puts into nbgrader's own lists."""

import re
from pathlib import Path

from nbconvert.exporters import NotebookExporter
from nbconvert.filters import strip_ansi
from nbformat.v4 import new_markdown_cell, new_notebook
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Float

from .graded_notebook import UnreadableNotebook, is_graded, read_notebook, restore
from .kernel_runner import CELL_SECONDS, Runner

_HIDDEN = "A hidden check of this cell failed: the same specification, on inputs that are not shown."


class SubmissionExporter(NotebookExporter):
    """Reads a submission; one that is no notebook becomes an empty one that says so, and is graded.

    nbgrader would print a traceback and leave the student without a grade and without feedback.
    """

    def from_filename(self, filename, resources=None, **kwargs):
        """As in nbconvert: the notebook's text and the resources."""
        try:
            read_notebook(Path(filename))
        except UnreadableNotebook as error:
            self.log.error("%s", error)
            empty = new_notebook(cells=[new_markdown_cell(f"**Not graded.** {error}")])
            resources = self._init_resources(resources)
            resources["metadata"] |= {"name": Path(filename).stem, "path": str(Path(filename).parent)}
            return self.from_notebook_node(empty, resources=resources, **kwargs)
        return super().from_filename(filename, resources=resources, **kwargs)


class RestoreRelease(NbGraderPreprocessor):
    """Bring a submission back in line with the release before nbgrader looks at it.

    nbgrader's own steps stop the whole class at a copied cell (nbgrader issue 1083), and cannot put a
    test cell back when the cell above it is gone too.
    """

    def preprocess(self, nb, resources):
        """Runs in the course's folder, as all of nbgrader does."""
        assignment, notebook = resources["nbgrader"]["assignment"], resources["nbgrader"]["notebook"]
        restore(nb, read_notebook(Path("exercises", assignment, f"{notebook}.ipynb")))
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
