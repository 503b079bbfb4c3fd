"""A notebook whose graded cells are run one by one, as a grader would: put back in line with the release, and guarded.

The pytest door and the learner's `course check` share it.
"""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from nbformat import NotebookNode

from .graded_notebook import is_graded, read_notebook, restore
from .guard.cells import Guard, course_in
from .missing_names import explain_missing_name

if TYPE_CHECKING:
    from .kernel_runner import Runner


class CheckedNotebook:
    """One notebook and one kernel, which starts with the first cell that is run; `with` ends it.

    Arguments:
      path: the notebook, which is read and never written.
      release: the exercise that it belongs to; None if it belongs to none.
      guarded: whether answers that grading would leave out are left out.
      seconds: time limit of each cell.

    `graded` has the name and the place of each graded cell. Raises `UnreadableNotebook`.
    """

    def __init__(self, path: Path, release: Path | None, *, guarded: bool, seconds: float):
        self.path, self.seconds = path, seconds
        self.notebook = read_notebook(path)
        released = None
        if release is not None:
            released = read_notebook(release)
            restore(self.notebook, released)
        cells = enumerate(self.notebook.cells)
        self.graded = [(cell.metadata.nbgrader["grade_id"], i) for i, cell in cells if is_graded(cell)]
        self._guard = None
        if guarded and self.graded:
            self._guard = Guard(self.notebook, None if released is None else course_in(self.notebook, released))
        self._executed: set[int] = set()

    @cached_property
    def runner(self) -> "Runner":
        """The notebook's kernel, made when it is first asked for: pytest reads many notebooks before it runs one."""
        from .kernel_runner import Runner

        return Runner(self.notebook, self.path.parent, self.seconds, guard=self._guard)

    def __enter__(self) -> "CheckedNotebook":
        return self

    def __exit__(self, *exception) -> None:
        if "runner" in vars(self):
            self.runner.__exit__()

    def check(self, index: int) -> NotebookNode:
        """Run the graded cell at `index`, and before it the ordinary cells above that have not run yet.

        Other graded cells are left out: none needs another's outcome. Where a name is missing, its error says why.
        """
        for i, cell in enumerate(self.notebook.cells[:index]):
            if cell.cell_type == "code" and not is_graded(cell) and i not in self._executed:
                self._executed.add(i)
                self.runner.run(i)
        cell = self.runner.run(index)
        explain_missing_name(self.notebook, index, self._guard)
        return cell
