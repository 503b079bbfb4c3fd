"""Run a whole submission so that what one task does costs no other task.

An answer that ends its kernel, or hangs in compiled code, costs the checks of its own task that are still to come, and
so does a check in which that happens; a cell of the student's own costs none. For what follows a new kernel is started,
and what may be needed is run again in it: every cell above that is no check, but for the one that did it. A kernel can
also die a while after the cell that is to blame; so a cell in which it died without a word is run once more. A
student's own cells share a part of the time for the whole: however slow they are, the answers below them are run.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from nbformat import from_dict

from .faults import NOT_RUN, cell_name, end_in
from .graded_notebook import asks_the_clock, bound_in, is_graded, nbgrader_metadata, task_of
from .kernel_runner import End, Runner

_ONCE_MORE = 5.0  # seconds for a student's own cell that was stopped, when a new kernel runs it again
_OF_OWN_CELLS = 0.4  # of the time for the whole notebook; when it is used up, each of them gets `_ONCE_MORE` seconds
Alone = Callable[[], AbstractContextManager[object]]  # a block in which nothing else computes where this notebook does


def run_fairly(runner: Runner, budget: float, alone: Alone = nullcontext) -> None:
    """Execute every code cell of the runner's notebook, in at most `budget` seconds.

    A cell whose points depend on measured time is run in a block of `alone`; waiting for it costs no time.
    """
    _FairRun(runner, budget, alone).run()


class _FairRun:
    def __init__(self, runner: Runner, budget: float, alone: Alone):
        self.runner, self.budget, self.each = runner, budget, runner.seconds
        self.alone = alone
        self.cells = runner.notebook.cells
        self.end = time.monotonic() + budget
        self.for_own = _OF_OWN_CELLS * budget
        self.again: dict[int, float] = {}  # cells that a new kernel runs again, and their seconds
        self.guilty: dict[str, str] = {}  # for a task, the cell that ended a kernel

    def run(self) -> None:
        for index, cell in enumerate(self.cells):
            if cell.cell_type != "code" or not cell.source.strip():
                continue
            task = task_of(self.cells, index)
            cell.outputs = []
            if is_graded(cell) and task in self.guilty:
                line = f"{NOT_RUN}, because {self.guilty[task]} ended the kernel, and this check is of the same task"
                end_in(cell, "KernelDied", line)
                continue
            self._run(index)
            if self.runner.end in (End.DIED, End.HUNG, End.LIMIT):
                if not self._is_own(index):  # one of the student's own is missed by no check
                    self.guilty[task] = cell_name(cell)
            elif not is_graded(cell) and not any(o.get("ename") == "TimeLimit" for o in cell.outputs):
                self.again[index] = self.each
            elif self._is_own(index) and bound_in(cell):  # what it binds above an endless loop may be asked for
                self.again[index] = min(_ONCE_MORE, self.each)

    def _run(self, index: int) -> None:
        for _ in range(2):
            if not self._has_kernel():
                line = f"{NOT_RUN}, because the {self.budget:g} s for the whole notebook were over"
                end_in(self.cells[index], "TimeLimit", line)
                return
            waits = time.monotonic()
            with self.alone() if asks_the_clock(self.cells[index]) else nullcontext():
                begins = time.monotonic()
                self.end += begins - waits
                if self._is_own(index):
                    self.runner.seconds = min(self.runner.seconds, max(self.for_own, _ONCE_MORE))
                self.runner.run(index)
                if self._is_own(index):
                    self.for_own -= time.monotonic() - begins
            if self.runner.end is not End.DIED:
                return

    def _has_kernel(self) -> bool:
        """Whether there is time left for a cell; if the kernel has ended, there is a new one then."""
        while self._time() and self.runner.end in (End.DIED, End.HUNG, End.LIMIT):
            self.runner.restart()
            for index in list(self.again):
                if not self._time():
                    return False
                self._run_again(index)
                if self.runner.end:
                    del self.again[index]
                    if not self._is_own(index):
                        self.guilty[task_of(self.cells, index)] = cell_name(self.cells[index])
                    break
        return self._time()

    def _is_own(self, index: int) -> bool:
        """Whether a cell is the student's own."""
        return not nbgrader_metadata(self.cells[index])

    def _run_again(self, index: int) -> None:
        """What the cell showed the first time is what its reader sees."""
        shown = self.cells[index]
        self.cells[index] = from_dict(shown)
        self.runner.seconds = min(self.runner.seconds, self.again[index])
        try:
            self.runner.run(index)
        finally:
            self.cells[index] = shown

    def _time(self) -> bool:
        left = self.end - time.monotonic()
        self.runner.seconds = min(self.each, max(left, 1.0))
        return left > 0
