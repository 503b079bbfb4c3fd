"""What the tests share: where the course is, and how to make a notebook."""

import contextlib
import gc
import itertools
import linecache
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from _unit import COURSE as COURSE
from _unit import UNITS as UNITS
from _unit import answers_kept

UNTIL = float(os.environ.get("THOROUGH_UNTIL", 0))  # seconds since 1970: then no `thorough` test is begun any more
UNITS_UNTIL = float(os.environ.get("UNITS_UNTIL", 0))  # and then no lesson, and no unit's stubs and solution


def wrong_answers(unit: str) -> list[nbformat.NotebookNode]:
    """The wrong answers of a unit: cells whose metadata hold `name`, `task`, `fails` (checks) and `message`.

    With `hidden=1` as well, the answer passes all that is visible and fails in the first hidden region of each of them.
    """
    return answers_kept("wrong_answers", unit)


def right_answers(unit: str) -> list[nbformat.NotebookNode]:
    """The answers of a unit in other styles than the solution's: cells whose metadata hold `name` and `task`."""
    return answers_kept("right_answers", unit)


def listed(file: str, unit: str) -> set[str]:
    """The entries of a list that belong to a unit."""
    lines = (Path(__file__).parent / file).read_text().splitlines()
    entries = [line for line in lines if line.split()[:1] == [unit]]
    assert len(set(entries)) == len(entries), f"{file}: a line stands there twice"
    return set(entries)


def assert_only_listed(missing: set[str], file: str, unit: str, how: str) -> None:
    new, done = missing - listed(file, unit), listed(file, unit) - missing
    assert not new, f"{how}:\n" + "\n".join(sorted(new))
    assert not done, f"that is done: take it out of autograder/tests/{file}:\n" + "\n".join(sorted(done))


# A test of each unit is made from the list of units, or from one that begins with it.
OF_EACH_UNIT = re.compile(r"(?:parametrize\(|params=).*(?:UNITS|LESSONS)")


class _OneUnit:
    """With `-k NN_name`, one unit's name and no more, neither modules without tests of each unit are imported, nor
    notebooks of other units read. (A hook of this file would not see those.)"""

    def pytest_ignore_collect(self, collection_path, config):
        """None leaves the question to others."""
        unit = config.getoption("keyword")
        if collection_path.match("test_*.py"):
            return None if OF_EACH_UNIT.search(collection_path.read_text()) else True
        of_another = collection_path.suffix == ".ipynb" and unit not in str(collection_path)
        return True if of_another else None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Modules are read, and stay: a search for garbage among them takes a quarter of the time, and finds none.

    Nor is a search for functions to find them there: what it is to find, a test makes itself.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


class _EndsInTime:
    """Skips lessons and solutions that are not begun in time. (A hook of this file would not see those of lessons/.)"""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        if time.time() > UNITS_UNTIL and item.nodeid.startswith(("lessons/", "autograder/tests/test_answers.py")):
            pytest.skip("no time was left")


def pytest_configure(config):
    if UNITS_UNTIL:
        config.pluginmanager.register(_EndsInTime())
    if config.getoption("keyword") in UNITS:
        config.pluginmanager.register(_OneUnit())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """What looks at every object of the process goes first: there are ten times as many when other tests have run.

    What is about one unit is left to one process, which then reads its texts once.

    Where time may run out, another unit is the first one in each hour, and what is of no unit comes before all of them
    (THOROUGH_UNTIL) or after them (UNITS_UNTIL; there the oldest and the newest Python begin half a course apart, so
    that what one has no time for the other may have).
    """
    if UNTIL or UNITS_UNTIL:
        apart = len(UNITS) // 2 if UNITS_UNTIL and sys.version_info >= (3, 12) else 0
        first = (int((UNTIL or UNITS_UNTIL) / 3600) + apart) % len(UNITS)
        order = {unit: (number - first) % len(UNITS) for number, unit in enumerate(UNITS)}
        others = -1 if UNTIL else len(UNITS)
        items.sort(key=lambda item: next((n for unit, n in order.items() if unit in item.nodeid), others))
    items.sort(key=lambda item: item.get_closest_marker("small_heap") is None)
    for item in items:
        if not item.get_closest_marker("xdist_group"):
            about = next((unit for unit in UNITS if unit in item.name), None)
            if about:
                item.add_marker(pytest.mark.xdist_group(f"texts {about}"))


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Of `-n auto`: one process more than cores, for kernels start, pages load, and limits are waited for.

    Of one unit there is little to wait for, and each process collects it anew.
    """
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" not in os.environ:
        cores = len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))
        return max(2, cores) if config.getoption("keyword") in UNITS else cores + 1


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if UNTIL and time.time() > UNTIL and item.get_closest_marker("thorough"):
        pytest.skip("no time was left")


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop():
    """Under coverage.py the measuring process is told to measure itself, and not killed: it would save nothing.

    Kernels are killed, so they are not told.
    """
    told = {name for name in os.environ if name.startswith("COVERAGE_")}
    if not told:
        return (yield)
    from autograder.doors.kernel_runner import Runner
    from autograder.measuring import bench

    def close(process: bench.Bench, kill=bench.Bench.close) -> None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            process.process.stdin.close()
            process.process.wait(10)
        kill(process)

    def untold(runner: Runner, environment=Runner._environment) -> dict[str, str]:
        return {name: value for name, value in environment(runner).items() if name not in told}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "KEPT_ENVIRONMENT", bench.KEPT_ENVIRONMENT | told)
        patch.setattr(bench.Bench, "close", close)
        patch.setattr(Runner, "_environment", untold)
        result = yield
        bench.stop()
        return result


@pytest.fixture(scope="session")
def keeps_programs(tmp_path_factory) -> dict[str, str]:
    """The environment of notebooks that share what they compile: a class asks for the same programs many times.

    What a check counts stays the same: for JAX a program that is read from the folder has been compiled.
    """
    return {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.mktemp("programs")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


@pytest.fixture
def course() -> Path:
    """The folder of the course."""
    return COURSE


@pytest.fixture
def make_notebook():
    """A function that makes a notebook of code cells; a pair (source, metadata) gives a cell its nbgrader entry."""

    def make(*cells):
        notebook = nbformat.v4.new_notebook()
        for number, cell in enumerate(cells):
            source, metadata = (cell, None) if isinstance(cell, str) else cell
            new = nbformat.v4.new_code_cell(source, id=f"cell-{number}")
            if metadata:
                new.metadata["nbgrader"] = metadata
            notebook.cells.append(new)
        return notebook

    return make


def graded(grade_id: str, points: float) -> dict:
    """The nbgrader entry of a check cell."""
    return _entry(grade_id, grade=True, locked=True, solution=False) | {"points": points}


def solution(grade_id: str) -> dict:
    """The nbgrader entry of a cell that the student fills in."""
    return _entry(grade_id, grade=False, locked=False, solution=True)


def locked(grade_id: str) -> dict:
    """The nbgrader entry of a cell that the student reads."""
    return _entry(grade_id, grade=False, locked=True, solution=False)


def _entry(grade_id, **flags):
    return {"grade_id": grade_id, "schema_version": 3, "task": False, **flags}


_cells = itertools.count(1)


def run_cell(source: str, names: dict | None = None, **more: object) -> dict:
    """Run a cell as a notebook does: its names are the notebook's, and its text can be found again."""
    names = {} if names is None else names
    file = f"<cell {next(_cells)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names |= {"__name__": "__main__", **more}
    exec(compile(source, file, "exec"), names)
    return names
