"""The pytest door: every graded cell of a notebook is a test item, and the run ends with a table of points.

    pytest exercises/05_the_cache
    pytest solutions -k lambda-loop

A notebook without graded cells (a lesson) is one item: it runs through with nothing on standard error.

The plugin is loaded in every project of an environment, and collects notebooks only in those that ask for it: below the
folders that `autograder_notebooks` names in the project's own pytest configuration, and where the command line names a
notebook that has graded cells. A copy that `course reset` has kept is collected where it is named, and there alone.
"""

from pathlib import Path

import pytest

from autograder.versions import unsupported

from .kept_copies import is_kept_copy

POINTS = "autograder_points"
NOT_BEGUN = "autograder_not_begun"


def pytest_addoption(parser):
    parser.addoption(
        "--cell-seconds",
        type=float,
        default=60.0,
        help="time limit of each notebook cell in seconds (default: 60)",
    )
    parser.addoption("--no-guard", action="store_true", help="run answers that grading would leave out, too")
    parser.addini("autograder_notebooks", "folders whose notebooks are collected, e.g. lessons exercises", type="paths")


def pytest_configure(config):
    if config.getini("autograder_notebooks") and (line := unsupported()):
        raise pytest.UsageError(line)
    config.addinivalue_line("markers", "xdist_group(name): run in one process with the others of this name")


def pytest_collect_file(file_path: Path, parent):
    if file_path.suffix != ".ipynb":
        return None
    asked_for = any(folder in file_path.parents for folder in parent.config.getini("autograder_notebooks"))
    if (asked_for and not is_kept_copy(file_path)) or parent.session.isinitpath(file_path):
        return NotebookFile.from_parent(parent, path=file_path, lessons=asked_for)
    return None


class NotebookFile(pytest.File):
    """One notebook, one kernel. With `lessons`, one that has no graded cells is run as well."""

    def __init__(self, *, lessons: bool, **kwargs):
        super().__init__(**kwargs)
        self.lessons = lessons

    def collect(self):
        from .checked_notebook import CheckedNotebook
        from .graded_notebook import UnreadableNotebook

        if line := unsupported():
            raise self.CollectError(line)
        guarded = not (self.is_solution or self.config.getoption("no_guard"))
        seconds = self.config.getoption("cell_seconds")
        try:
            self.checked = CheckedNotebook(self.path, self._release(), guarded=guarded, seconds=seconds)
        except UnreadableNotebook as error:
            raise self.CollectError(str(error)) from None
        for name, index in self.checked.graded:
            yield GradedCell.from_parent(self, name=name, index=index)
        if self.lessons and not self.checked.graded:
            yield WholeNotebook.from_parent(self, name="runs")

    @property
    def is_solution(self) -> bool:
        """Whether this is the course's own."""
        return (self.config.rootpath / "solutions") in self.path.parents

    def _release(self) -> Path | None:
        """The released notebook that a student's copy belongs to; None for a lesson or a solution."""
        if self.is_solution:
            return None
        return next(iter(sorted((self.config.rootpath / "exercises").glob(f"*/{self.path.name}"))), None)

    def teardown(self):
        self.checked.__exit__()


class CellFailed(Exception):
    """What a notebook cell ended in, as text."""


class _Item(pytest.Item):
    parent: NotebookFile

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.add_marker(pytest.mark.xdist_group(self.parent.nodeid))  # its cells share a kernel

    def repr_failure(self, excinfo, style=None):
        if isinstance(excinfo.value, CellFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, None, f"{self.path.parent.name}: {self.name}"


class GradedCell(_Item):
    """A graded cell: passes when it earns every point."""

    def __init__(self, *, index: int, **kwargs):
        super().__init__(**kwargs)
        self.index = index

    def runtest(self):
        from .graded_notebook import not_begun, score, task_of
        from .learner_record import note_points

        checked = self.parent.checked
        cell = checked.check(self.index)
        result = score(cell)
        self.user_properties.append((POINTS, (result.earned, result.possible)))
        note_points(self.path, {self.name: (result.earned, result.possible)})
        if stub := not_begun(cell):
            self.user_properties.append((NOT_BEGUN, (task_of(checked.notebook.cells, self.index), stub)))
        if result.message:
            raise CellFailed(result.message)


class WholeNotebook(_Item):
    """A lesson: every cell runs, and nothing is written to standard error."""

    def runtest(self):
        from .graded_notebook import failure_text

        for index, cell in enumerate(self.parent.checked.notebook.cells):
            if cell.cell_type != "code":
                continue
            self.parent.checked.runner.run(index)
            if message := failure_text(cell):
                raise CellFailed(f"cell {index}:\n{message}")
            noise = [o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stderr"]
            if noise:
                raise CellFailed(f"cell {index} wrote to standard error:\n{''.join(noise)}")


def pytest_report_teststatus(report):
    """A task that is not begun has not passed; but it is told apart, in one line, from one that was tried."""
    if report.when == "call" and NOT_BEGUN in dict(report.user_properties):
        return "not begun", "-", "NOT BEGUN"
    return None


def pytest_terminal_summary(terminalreporter):
    """One line for each task that is not begun, and the table of points."""
    if waiting := terminalreporter.stats.get("not begun"):
        terminalreporter.write_sep("=", "not begun")
        stubs: dict[tuple[str, str], list[str]] = {}
        for report in waiting:
            task, stub = dict(report.user_properties)[NOT_BEGUN]
            stubs.setdefault((Path(report.nodeid.split("::")[0]).parent.as_posix(), task), []).append(stub)
        for (unit, task), names in stubs.items():
            terminalreporter.write_line(f"{unit}: {task} is not begun ({', '.join(dict.fromkeys(names))})")
    _write_points(terminalreporter)


def _write_points(terminalreporter) -> None:
    """The table of points: unit, cells passed, points of points."""
    units: dict[str, list[tuple[float, float]]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for key, value in getattr(report, "user_properties", ()):
                if key == POINTS and report.when == "call":
                    units.setdefault(report.nodeid.split("::")[0], []).append(value)
    if not units:
        return
    rows = [(Path(name).parent.as_posix(), cells) for name, cells in sorted(units.items())]
    if len(rows) > 1:
        rows.append(("total", [cell for _, cells in rows for cell in cells]))
    width = max(len("unit"), *(len(name) for name, _ in rows))
    terminalreporter.write_sep("=", "points")
    terminalreporter.write_line(f"{'unit':<{width}}  {'cells passed':>14}  {'points':>14}")
    for name, cells in rows:
        passed = f"{sum(earned >= possible for earned, possible in cells)} of {len(cells)}"
        points = f"{sum(e for e, _ in cells):g} of {sum(p for _, p in cells):g}"
        terminalreporter.write_line(f"{name:<{width}}  {passed:>14}  {points:>14}")
