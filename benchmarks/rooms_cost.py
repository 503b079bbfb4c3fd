"""What the second room costs: processor seconds and wall seconds of one submission, with it and without, in turn.

    python benchmarks/rooms_cost.py --unit 05 [--rounds N]

The submission is the unit's solution, graded with the guard in a full box. Processor seconds are those of all processes
that the grader has started, looked at twenty times a second, without what the server needs to start.
"""

import argparse
import contextlib
import statistics
import tempfile
import threading
import time
from pathlib import Path

import psutil
from _unit import COURSE, UNITS

from autograder.doors.graded_notebook import is_graded, read_notebook, score
from autograder.doors.register_units import graded_form, released_form
from autograder.doors.run_submission import Conditions, in_line, run_submission


class Processors:
    """Seconds that the processes below this one have computed since the block began."""

    def __enter__(self) -> "Processors":
        self._last: dict[tuple[int, float], float] = {}
        self._first: dict[tuple[int, float], float] = dict(self._look())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *exception) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def seconds(self) -> float:
        return sum(last - self._first.get(process, 0.0) for process, last in self._last.items())

    def _look(self):
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                yield (process.pid, process.create_time()), times.user + times.system

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            self._last.update(self._look())


def graded(unit: str, judge: bool) -> tuple[float, float, float]:
    """Processor seconds, wall seconds and points."""
    from nbgrader.apps import NbGraderApp

    app = NbGraderApp()
    path = COURSE / "solutions" / unit / f"{unit[3:]}.ipynb"
    form, notebook = graded_form(path, app), read_notebook(path)
    _, course = in_line(notebook, form, released_form(form, app))
    with tempfile.TemporaryDirectory() as folder, Processors() as processors:
        began = time.perf_counter()
        run_submission(notebook, Path(folder), Conditions(judge=judge), course)
        wall = time.perf_counter() - began
    return processors.seconds, wall, sum(score(cell).earned for cell in notebook.cells if is_graded(cell))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unit", default="05")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    unit = next(name for name in UNITS if name.startswith(chosen.unit))
    graded(unit, False)  # the server starts
    found: dict[bool, list[tuple[float, float, float]]] = {False: [], True: []}
    for _ in range(chosen.rounds):
        for judge in found:
            found[judge].append(graded(unit, judge))
    for judge, each in found.items():
        processor, wall, points = (statistics.median(column) for column in zip(*each, strict=True))
        rooms = "two rooms" if judge else "one room"
        print(f"{unit}, {rooms}: {processor:.2f} processor seconds, {wall:.2f} wall seconds, {points:g} points")


if __name__ == "__main__":
    main()
