"""The grader's side: a submission's cells are run in the box, and the checks that are judged in the judge.

For each judged check the grader makes a link and hands its ends to the two kernels. The box is told to serve; then the
judge runs those of the release's cells that it has not run yet, and the check. It is never the box that is waited for
without an end: a box that has died, hangs or does not come back costs the check, and is started again, as ever.

What has been tried crosses from one kernel to the other, but nobody has tried every right answer. So where something
has no form in which it could be handed over, and the check fails in the judge, it is run beside the answers, too, in a
new box. If it passes there, that is said: whoever grades can look at the answer, and grade it without the judge. It
earns nothing by itself, or whoever has taken over the box would let his answers not be handed over. If it fails there
as well, it is told in the check's words what is wrong, as in the student's notebook.
"""

import builtins
import contextlib
import socket
import symtable
import time
from collections.abc import Collection
from itertools import count
from pathlib import Path

from jupyter_core.utils import run_sync
from nbformat import NotebookNode, from_dict

from autograder import wording
from autograder.doors.box.kernels import BoxedKernelManager
from autograder.doors.box.rules import Rules
from autograder.doors.faults import TITLES, end_in
from autograder.doors.graded_notebook import is_graded, nbgrader_metadata
from autograder.doors.guard.cells import Guard, course_in
from autograder.doors.guard.course import Course, bound, parsed
from autograder.doors.held_folder import HeldFolder
from autograder.doors.kernel_runner import CELL_SECONDS, DRAIN_SECONDS, End, NoAnswer, Runner, has_error

from .beside import beside

_BEGINS = 60  # seconds until the judge has the names of the box
_ONCE_MORE = 5.0  # seconds for a cell that was stopped before
_FOR_NEW_BOXES = 120.0  # seconds of a submission; when they are used up, what the judge has said counts
# No word of what could not cross: that is the box's word.
_PASSES_BESIDE = "it passes beside the answers, but something of theirs cannot be handed over to where it counts. "
_PASSES_BESIDE += "Whoever grades should look at it: `--RunNotebook.judge=False` grades it beside the answers"
_PATIENCE = 1  # seconds for a box whose check has been stopped
_ROOM = '__import__("autograder.doors.judge.room", fromlist=["_"])'


class TwoRooms(Runner):
    """A runner (see there) whose notebook has checks that are judged.

    Arguments:
      judged: the names of these checks.
      course: what the release holds, where there is no guard to say it.
    """

    def __init__(
        self,
        notebook: NotebookNode,
        folder: Path,
        seconds: float = CELL_SECONDS,
        box: Rules | None = None,
        guard: Guard | None = None,
        judged: Collection[str] = (),
        course: Course | None = None,
    ):
        super().__init__(notebook, folder, seconds, box, guard, linked=True)
        self._judged = frozenset(judged)
        self.judged: set[str] = set()  # the checks that have been judged
        self._course = course or (guard.course if guard is not None else course_in(notebook))
        self._numbers = count(1)
        self._answers: dict[str, tuple[str, list[str]]] = {}  # text and names of the answers' cells that were run
        self.for_new_boxes = _FOR_NEW_BOXES  # seconds in which checks may be tried beside the answers, too
        self._another = True  # whether either kernel is another one than when a check was judged last
        self._empty = HeldFolder("judge")  # no file of a submission is there
        self._judge = _Judge(notebook, Path(self._empty.path), seconds, box)

    def __exit__(self, *exception) -> None:
        self._judge.__exit__(*exception)
        super().__exit__(*exception)
        self._empty.close()

    def restart(self) -> None:
        """As in the parent class."""
        if self.end not in (None, End.NEVER_STARTED):
            self._another, self._answers = True, {}
        super().restart()

    def run(self, index: int) -> NotebookNode:
        """As in the parent class, in the cell's room."""
        cell = self.notebook.cells[index]
        if is_graded(cell) and nbgrader_metadata(cell).get("grade_id") in self._judged:
            cell.outputs = []
            if self._is_ready(cell):
                self._run_judged(index, cell)
            return cell
        super().run(index)
        if not nbgrader_metadata(cell).get("locked"):
            self._note(cell)
        return cell

    def _note(self, cell: NotebookNode) -> None:
        """Of a cell that may be a student's the judge is told the text, and has the names that are not the course's."""
        judged = self._guard.judged(cell) if self._guard is not None else None
        if judged is not None and judged.name:
            return  # it was left out
        text = cell.source if judged is None else judged.text
        kept = self._course.kept | self._course.of_checks
        names = sorted(name for name in bound(parsed(text)) if name not in kept and not name.startswith("__"))
        self._answers.pop(cell.id, None)  # the one that was run last counts
        self._answers[cell.id] = text, names

    def _run_judged(self, index: int, cell: NotebookNode) -> None:
        judge = self._judge
        judge.seconds = self.seconds
        if judge.ended():
            self._another = True
            judge.restart()
        if not judge.is_ready(cell):
            return
        number = next(self._numbers)
        try:
            self._link(number)
            serving = self._request(f"{_ROOM}.serve({number}, {self._names!r}, {self._another!r})")
            vessels = sorted(self._course.vessels)
            judge.tell(f"{_ROOM}.begin({number}, {self._names!r}, {self._another!r}, {vessels!r})")
            self._another = False
            judge.catch_up(index, self._answers)
            if names := beside(nbgrader_metadata(cell)["grade_id"]):
                judge.tell(f"{_ROOM}.run_beside({names!r})")
        except (OSError, RuntimeError):
            self._another = True
            with contextlib.suppress(RuntimeError):
                judge.tell(f"{_ROOM}.finish()")
            self._ended(cell, "the kernel of the answers does not say what is in it")
            return
        judge.run(index)
        uncrossed = judge.finish()
        stopped = _was_stopped(cell)
        if not run_sync(self._served)(serving, _PATIENCE if stopped else DRAIN_SECONDS):
            self._ended(cell, "an answer's function did not end, and did not listen to an interrupt")
            return
        self.judged.add(nbgrader_metadata(cell)["grade_id"])
        if uncrossed and not stopped and has_error(cell) and self.for_new_boxes > 1:
            found = self._as_in_a_new_box(index)
            if not has_error(found):
                end_in(cell, "NotJudged", _PASSES_BESIDE)
            elif not _was_stopped(found):
                cell.outputs = [output for output in found.outputs if output.output_type == "error"]

    @property
    def told(self) -> str:
        """In which room the checks were, as a sentence."""
        return f"{wording.count(len(self.judged), 'check')} ran in a kernel apart from the answers."

    def _as_in_a_new_box(self, index: int) -> NotebookNode:
        """A check as it ends beside the answers, in a box that is thrown away then.

        Before it, what was run in the box is run, and earlier checks that bind a name which it uses.
        """
        above, check = self.notebook.cells[:index], from_dict(self.notebook.cells[index])
        used = _mentioned(check.source)
        ran = [c for c in above if c.cell_type == "code" and not is_graded(c) and not _ended_kernel(c)]
        binding = [
            cell
            for cell in above
            if nbgrader_metadata(cell).get("grade_id") in self._judged and used & bound(parsed(cell.source))
        ]
        notebook = from_dict({**self.notebook, "cells": []})
        notebook.cells = [*map(from_dict, [*ran, *binding]), check]
        ends = time.monotonic() + self.for_new_boxes
        with Runner(notebook, self._folder, self.seconds, self._box, self._guard) as runner:
            for at, cell in enumerate(notebook.cells):
                left = ends - time.monotonic()
                if left < 1 or runner.end is not None:
                    end_in(check, "NotRun", "there was no time for it")
                    break
                runner.seconds = min(self.seconds, left, _ONCE_MORE if _was_stopped(cell) else left)
                runner.run(at)
        self.for_new_boxes = max(0.0, ends - time.monotonic())
        return check

    @property
    def _names(self) -> list[str]:
        """The names that locked cells bind."""
        return sorted(self._course.kept.difference(dir(builtins)))

    def _link(self, number: int) -> None:
        """Hand one end of a link to each kernel. Raises OSError."""
        here, there = socket.socketpair()
        with here, there:
            for runner, end in ((self, here), (self._judge, there)):
                manager = runner._client.km
                assert isinstance(manager, BoxedKernelManager)
                manager.send(str(number).encode(), end)

    async def _served(self, request: str, seconds: float) -> bool:
        """Whether the box has done with serving, after an interrupt if it must be."""
        manager = self._client.km
        assert isinstance(manager, BoxedKernelManager)
        for _ in range(int(seconds * 2)):
            try:
                await self._answered(request, 0.5)
            except NoAnswer:
                if not await manager.is_alive():
                    return False
            except RuntimeError:
                return True  # it was interrupted
            else:
                return True
        return await self._listens_again()

    def _ended(self, cell: NotebookNode, line: str) -> None:
        """The box has ended, or is ended now, because it does not do what it is told to.

        That is told as the check's end, unless the judge has told another one, as that its time was over.
        """
        kept = [o for o in cell.outputs if o.output_type != "execute_result"]
        kept = [o for o in kept if o.output_type != "error" or o.ename in TITLES]
        cell.outputs = []
        manager = self._client.km
        assert isinstance(manager, BoxedKernelManager)
        if run_sync(manager.is_alive)():
            run_sync(manager.shutdown_kernel)(now=True)
            self._died(cell, line, End.HUNG)
        else:
            self._died_by_itself(cell)
        cell.outputs = kept if any(o.output_type == "error" for o in kept) else [*kept, *cell.outputs]


class _Judge(Runner):
    """The kernel in which nothing of a student's is run."""

    def __init__(self, notebook: NotebookNode, folder: Path, seconds: float, box: Rules | None):
        super().__init__(notebook, folder, seconds, box, linked=True)
        self._done: set[str] = set()  # the cells that it has run
        ours = (cell for cell in notebook.cells if cell.cell_type == "code" and nbgrader_metadata(cell).get("locked"))
        self._wanted = {name for cell in ours for name in _mentioned(cell.source)}  # names that the release uses

    def ended(self) -> bool:
        """Whether there is to be a new one."""
        return self.end not in (None, End.NEVER_STARTED)

    def restart(self) -> None:
        """As in the parent class."""
        self._done = set()
        super().restart()

    def is_ready(self, cell: NotebookNode) -> bool:
        """As `_is_ready`."""
        return self._is_ready(cell)

    def tell(self, source: str) -> None:
        """Let the kernel do what the grader asks for. Raises RuntimeError."""
        if self._started and not self._dead:
            run_sync(self._answered)(self._request(source), _BEGINS)

    def finish(self) -> bool:
        """The check is done: whether something could not be handed over."""
        if not self._started or self._dead:
            return False
        with contextlib.suppress(RuntimeError):
            return self._value(f"bool({_ROOM}.uncrossed)", _BEGINS, f"{_ROOM}.finish()") == "True"
        return False

    def catch_up(self, index: int, answers: dict[str, tuple[str, list[str]]]) -> None:
        """Run the release's cells above this one that were not run here, and take the names of the box.

        Raises RuntimeError where the box does not say what they mean.
        """
        elsewhere = {name for text, binds in answers.values() for name in _mentioned(text).difference(binds)}
        names = {name for _, binds in answers.values() for name in binds}
        its_own = sorted(names.difference(self._wanted, elsewhere))  # may be anything, and large
        bind = f"{_ROOM}.bind({list(answers.values())!r}, {its_own!r})"
        for at, shown in enumerate(self.notebook.cells[:index]):
            if shown.cell_type != "code" or is_graded(shown) or not nbgrader_metadata(shown).get("locked"):
                continue
            if shown.id in self._done:
                continue
            self._done.add(shown.id)
            if names & _mentioned(shown.source):
                self.tell(bind)
            self.notebook.cells[at] = from_dict(shown)
            try:
                self.run(at)
            finally:
                self.notebook.cells[at] = shown
        self.tell(bind)


def _was_stopped(cell: NotebookNode) -> bool:
    return any(output.get("ename") in TITLES for output in cell.outputs)


def _ended_kernel(cell: NotebookNode) -> bool:
    return any(output.get("ename") == "KernelDied" for output in cell.outputs)


def _mentioned(source: str) -> set[str]:
    """The names that a cell uses anywhere."""
    try:
        ahead = [symtable.symtable(source, "cell", "exec")]
    except (SyntaxError, ValueError):
        return set()
    found: set[str] = set()
    while ahead:
        table = ahead.pop()
        found.update(symbol.get_name() for symbol in table.get_symbols())
        ahead += table.get_children()
    return found
