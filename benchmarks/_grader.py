"""Grade many answers to the tasks of one unit in one kernel."""

import time
from pathlib import Path
from typing import NamedTuple

from _unit import COURSE, VISIBLE, Unit, failed_in
from nbformat.v4 import new_notebook

from autograder.doors.graded_notebook import failure_text, is_graded, score
from autograder.doors.kernel_runner import CELL_SECONDS, Runner

MEMORY = 12 * 2**30  # bytes of address space: a mutant may ask for any number of them
BOUNDED = f"__import__('resource').setrlimit(__import__('resource').RLIMIT_AS, ({MEMORY}, {MEMORY}))"
PATIENCE = 5
SPEED_SECONDS = 5  # a check that asks the clock, which a new kernel does not run


class Verdict(NamedTuple):
    """What became of an answer."""

    killed: bool
    by: str  # the check that took points; "" if it survived or if its cell did not run
    region: int | None  # the hidden region of that check in which it failed; see `failed_in`
    proves: tuple[str, ...]  # "check region": it passed all that is visible, and failed here
    said: str  # the message


class NotSolved(Exception):
    """The solution itself does not earn every point, so that nothing can be said about other answers."""


class Grader:
    """A kernel that has run the whole unit; `with Grader(unit) as grader: grader.grade(task, source)`.

    Arguments:
      unit: as its text is now.
      seconds: time limit of a cell, or `PATIENCE` times what it took the solution if that is more. A check that runs
        longer has killed the answer.
    """

    def __init__(self, unit: Unit, seconds: float):
        self.unit, self.seconds = unit, seconds
        self._runner: Runner | None = None
        self._took: dict[str, float] = {}  # seconds of each check with the solution

    def __enter__(self) -> "Grader":
        return self

    def __exit__(self, *exception) -> None:
        self._close()

    def _close(self) -> None:
        if self._runner:
            self._runner.__exit__(None, None, None)
        self._runner = None

    def _open(self) -> Runner:
        """A kernel in which everything has run once: later checks may use what earlier ones define."""
        folder: Path = COURSE / "solutions" / self.unit.name
        self._runner = Runner(new_notebook(), folder, max(self.seconds, CELL_SECONDS)).__enter__()
        self._runner.run_new(BOUNDED)
        self._runner.run_new(self.unit.names_apart)
        for cell in self.unit.cells:
            if not is_graded(cell):
                done = self._runner.run_new(cell.source)
                if message := failure_text(done):
                    raise NotSolved(f"a cell of {self.unit.name} does not run: {last_line(message)}")
        for name, cell in self.unit.checks.items():
            if not self.unit.asks_the_clock(name):
                began = time.perf_counter()
                result = score(self._runner.run_new(cell.source, cell.metadata))
                self._took[name] = time.perf_counter() - began
                if result.earned < result.possible:
                    raise NotSolved(f"{name}: {result.message}")
        return self._runner

    def grade(self, task: str, source: str) -> Verdict:
        """Run an answer cell in place of the solution's, its checks until one takes points, and the solution's again.

        An answer that fails in a hidden region goes through the rest of its checks: does it pass all that is visible?
        """
        runner = self._runner or self._open()
        try:
            runner.seconds = self.seconds
            answered = runner.run_new(source)
            if message := failure_text(answered):
                return Verdict(True, "", VISIBLE, (), last_line(message))
            return self._checked(task, runner)
        finally:
            restored = runner.run_new(self.unit.answers[task].source)
            if failure_text(restored):
                self._close()  # it died, or cannot be trusted: the next answer gets a new one

    def solution_passes(self, task: str) -> bool:
        """Whether the solution still earns every point: if not, an answer before has left something behind."""
        passes = not self.grade(task, self.unit.answers[task].source).killed
        if not passes:
            self._close()
        return passes

    def _checked(self, task: str, runner: Runner) -> Verdict:
        first: Verdict | None = None
        proves = []
        for name in self.unit.in_order(task):
            check = self.unit.checks[name]
            runner.seconds = max(self.seconds, PATIENCE * self._took.get(name, SPEED_SECONDS))
            done = runner.run_new(check.source, check.metadata)
            result = score(done)
            if result.earned >= result.possible:
                continue
            region = failed_in(done)
            if first is None:
                first = Verdict(True, name, region, (), result.message)
            if not region:
                return first
            proves.append(f"{name} {region}")
        return first._replace(proves=tuple(proves)) if first else Verdict(False, "", None, (), "")


def last_line(message: str) -> str:
    """The line of a message that says what happened: the last one of a traceback, else the first."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1 if "Traceback" in message else 0] if lines else ""
