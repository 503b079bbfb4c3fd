"""What grading a class cannot go below: `python _floor.py UNIT` in a course's folder runs each submission, and no more.

JAX is imported once; each notebook, its hidden tests in it, runs cell by cell in a process that is forked from there.
No kernel, no box, no guard, no grade. The solution's programs and the clock's measuring process are those of kernels.
"""

import contextlib
import importlib
import io
import os
import sys
import types
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell

from autograder.doors import warm_kernels
from autograder.measuring.fork_server import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is loaded

from autograder.classroom.replay import Course  # noqa: E402
from autograder.classroom.roll import Unit  # noqa: E402
from autograder.doors.box.rules import Rules  # noqa: E402
from autograder.doors.graded_notebook import parse_notebook, read_notebook  # noqa: E402
from autograder.doors.run_submission import in_line  # noqa: E402
from autograder.doors.solved_programs import with_programs  # noqa: E402
from autograder.measuring import bench  # noqa: E402
from autograder.measuring.programs import Programs, look_for  # noqa: E402


def run(sources: list[str], folder: Path, programs: str) -> None:
    """The cells, one after another; as in a notebook, an error ends its cell alone."""
    warm_kernels.move_in({**os.environ, "NBGRADER_EXECUTION": "autograde"}, str(folder), sys.path)
    if programs:
        bench.programs = Programs(programs, False)
        look_for(bench.programs)
    sys.modules["__main__"] = types.ModuleType("__main__")
    shell = InteractiveShell.instance(user_module=sys.modules["__main__"], history_load_length=0)
    for source in sources:
        with contextlib.redirect_stdout(io.StringIO()):
            shell.run_cell(source)


def main() -> None:
    course = Course([])
    unit = Unit(sys.argv[1], course.directory, course.parent)
    for module in warm_kernels.IMPORTED:
        importlib.import_module(module)
    (solution,) = unit.solutions
    programs = with_programs(Rules(), unit.name, read_notebook(solution), print).compiled
    for submission in unit.submissions():
        sources = []
        for name, data in unit.notebooks(submission).items():
            notebook = parse_notebook(data, name)
            in_line(notebook, unit.graded[name], unit._released[name])
            sources += [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        if not (child := os.fork()):
            try:
                run(sources, submission.folder, programs)
            finally:
                os._exit(0)  # at once, as a kernel is ended
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
