"""The nbgrader door: what `nbgrader_config.py` puts into nbgrader's own lists."""

from pathlib import Path

from nbconvert.exporters import NotebookExporter
from nbformat.v4 import new_notebook, new_output
from nbgrader.converters import Autograde
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Float

from .graded_notebook import UnreadableNotebook, is_graded, read_notebook, restore
from .hidden_tests import hidden_output_dropped
from .kernel_runner import CELL_SECONDS, Runner
from .register_units import graded_form, register, released_form


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
            # The student's page names the file, not where the instructor keeps it.
            notebook, resources["not_graded"] = new_notebook(), str(error).replace(str(path), path.name)
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
        if "not_graded" in resources:
            nb.metadata["not_graded"] = resources["not_graded"]  # for `RunNotebook`, and for the page
        elif changes:
            path = Path(resources["metadata"]["path"], f"{name}.ipynb")
            self.log.warning("%s: put back as released: %s", path, ", ".join(changes))
        return nb, resources


class RunNotebook(NbGraderPreprocessor):
    """Execute a submission as the pytest door does. Both give the same points, except where the clock decides:

    nbgrader sets NBGRADER_EXECUTION to "autograde", and then 0.8 of a bar is enough (see `speedup`).

    nbgrader's own Execute gives no grade at all when a kernel dies; here the cells that ran keep theirs.
    """

    seconds = Float(CELL_SECONDS, help="time limit of each cell in seconds").tag(config=True)

    def preprocess(self, nb, resources):
        """Fill in the outputs of every code cell."""
        if "not_graded" in nb.metadata:
            line = "NotGraded: there was no notebook to run"
            for cell in filter(is_graded, nb.cells):
                cell.outputs = [new_output("error", ename="NotGraded", evalue=line, traceback=[line])]
            return nb, resources
        with hidden_output_dropped(nb), Runner(nb, Path(resources["metadata"]["path"]), self.seconds) as runner:
            runner.run_all()
        return nb, resources
