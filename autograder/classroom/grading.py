"""A class is graded: what has no grade goes out to workers, what comes back is written, and a person sees it."""

import difflib
import json
import os
import signal
import sys
import webbrowser
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.converters.base import NbGraderException
from rich.console import Console
from sqlalchemy.exc import SQLAlchemyError
from traitlets import TraitError

from autograder.doors.box.rules import REDUCED as REDUCED_BOX
from autograder.doors.faults import TITLES, fault
from autograder.doors.graded_notebook import UnreadableNotebook, read_notebook
from autograder.doors.register_units import register

from .cores import usable, writers_core
from .engine import Back, Lost, cluster_at, local_cluster, run
from .execution import Executed, NoBox, Order
from .replay import Course
from .roll import Submission, Unit
from .screen import Row, Screen, table, write_csv

if sys.platform != "win32":
    import fcntl

# How the command ends: every submission has a grade, whatever it earned and whatever went wrong while it ran; one has
# none, or a file could not be written, or it was stopped; nothing was begun.
GOOD, INCOMPLETE, REFUSED = 0, 1, 2


@dataclass(frozen=True)
class Wishes:
    """What was asked for on the command line; `units` are names as a person types them."""

    units: list[str]
    every: bool = False
    workers: int | None = None
    scheduler: str | None = None
    students: list[str] = field(default_factory=list)
    again: bool = False
    dashboard: bool = False
    csv: Path | None = None
    report: bool = False
    settings: list[str] = field(default_factory=list)


class Refused(Exception):
    """Nothing can be graded. The message is one line."""


class _Stopped(Exception):
    """Somebody has asked this command to end."""


def grade_class(wishes: Wishes, console: Console) -> int:
    """Do what was asked for, in the course's folder. Returns the exit status."""
    try:
        with _the_only_one(Path.cwd()):
            return _Grading(wishes, console).run()
    except (Refused, Lost) as error:
        _say(console, str(error))
    except NoBox as error:
        _say(console, f"{_NO_BOX} {error}. {_WITHOUT}")
    except SQLAlchemyError as error:  # the gradebook's server is gone
        _say(console, f"Stopped, because the gradebook cannot be used: {_first_line(error)} The same command goes on.")
        return INCOMPLETE
    return REFUSED


_NO_GRADE = "no grade"  # how the note of a submission begins that could not be graded
_NO_BOX = "Students' code runs in a box, and a machine that is to grade can make none:"
_WITHOUT = "To let it run with your rights, say --RunNotebook.box=False."


def _first_line(error: Exception) -> str:
    """What an exception of the gradebook's says, in one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _the_only_one(folder: Path) -> Iterator[None]:
    """Hold the course's folder: two graders would do the same work twice. Raises `Refused`."""
    if not (folder / "nbgrader_config.py").exists():
        raise Refused("Run this in the course's folder, the one that holds nbgrader_config.py.")
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused("Another grader is at work in this folder; wait for it, or stop it.") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)


class _Grading:
    def __init__(self, wishes: Wishes, console: Console):
        self.wishes, self.console = wishes, console
        if wishes.workers and wishes.scheduler:
            raise Refused("A cluster has the workers that it has: say --workers or --scheduler, not both.")
        try:
            self.course = Course(wishes.settings)
            self.conditions = self.course.conditions
        except (ValueError, TraitError) as error:
            raise Refused(str(error).splitlines()[0]) from None
        self.units = [self._unit(name) for name in self._names()]
        for line in (line for unit in self.units for line in unit.left_out()):
            _say(console, line)
        self.submissions = [s for unit in self.units for s in self._of_students(unit.submissions())]
        there = {submission.student for submission in self.submissions}
        named = ", ".join(unit.name for unit in self.units)
        if missing := [student for student in wishes.students if student not in there]:
            raise Refused(f"Of {', '.join(missing)} there is nothing in submitted/ for {named}.")
        if not there:
            raise Refused(f"There is nothing to grade: put what you collect into submitted/<student>/ for {named}.")
        self.took: dict[Submission, float] = {}
        self.notes: dict[Submission, str] = {}
        self.stop = False

    def _names(self) -> list[str]:
        known = self.course.units()
        if self.wishes.every:
            return known
        if not self.wishes.units:
            raise Refused("Say which unit, such as 05_the_cache, or --all.")
        return list(dict.fromkeys(_named(name, known) for name in self.wishes.units))

    def _unit(self, name: str) -> Unit:
        directory = self.course.directory
        try:
            unit = Unit(name, directory, self.course.parent)
            if unit.submissions():
                register(name, directory, self.course.parent)
        except (UnreadableNotebook, NbGraderException) as error:
            raise Refused(str(error)) from None
        except (SQLAlchemyError, ModuleNotFoundError) as error:  # no such server, or no driver for it
            raise Refused(f"The gradebook, c.CourseDirectory.db_url, cannot be opened: {_first_line(error)}") from None
        return unit

    def _of_students(self, submissions: list[Submission]) -> list[Submission]:
        wanted = set(self.wishes.students)
        return [s for s in submissions if not wanted or s.student in wanted]

    def run(self) -> int:
        """Grade, and say how it went."""
        waiting = self.submissions if self.wishes.again else list(self._without_grade())
        if graded := len(self.submissions) - len(waiting):
            line = f"{graded} of {len(self.submissions)} have a grade for what was handed in (--again: anew)."
            _say(self.console, line)
        stopped, lost = False, ""
        if waiting:
            screen = Screen(self.console, len(waiting))
            with _asked_to_stop(self), self._cluster() as client, screen:
                try:
                    self._grade(client, waiting, screen)
                except _Stopped:
                    stopped = True
                except Lost as error:
                    lost = str(error)
        return self._end(waiting, stopped, lost)

    def _without_grade(self) -> Iterator[Submission]:
        for unit in self.units:
            yield from unit.without_grade([s for s in self.submissions if s.unit == unit.name])

    def _cluster(self) -> AbstractContextManager:
        if self.wishes.scheduler:
            return cluster_at(self.wishes.scheduler)
        if self.conditions.box and (why := self.conditions.box.why_not()):
            raise NoBox(why)
        if self.conditions.box and (line := self.conditions.box.notice()):
            _say(self.console, line)
        cores = len(usable())
        workers = min(self.wishes.workers or cores, cores)
        if (self.wishes.workers or 0) > cores:
            _say(self.console, f"This machine has {cores} cores: as many are graded at once.")
        return local_cluster(workers, self.wishes.dashboard and find_spec("bokeh") is not None)

    def _grade(self, client, waiting: list[Submission], screen: Screen) -> None:
        if self.wishes.dashboard:
            self._show_dashboard(client)
        units, by_name = {unit.name: unit for unit in self.units}, {str(s): s for s in waiting}

        def write(back: Back) -> None:
            submission = by_name[str(back.order)]
            with core.busy():
                self._write(submission, back, screen)

        def orders() -> Iterator[Order]:
            for submission in waiting:
                order = units[submission.unit].order(submission, self.conditions)
                if order.notebooks:
                    yield order
                else:
                    write(Back(order, Executed({}, 0.0, "")))

        def on_look(workers: int) -> None:
            if self.stop:
                raise _Stopped
            screen.workers(workers)

        with writers_core() as core, core.kept_to():
            for back in run(client, orders(), on_start=screen.started, on_look=on_look):
                write(back)

    def _write(self, submission: Submission, back: Back, screen: Screen) -> None:
        if back.failed:
            self.notes[submission] = f"{_NO_GRADE}: {back.failed}"
        else:
            written = self.course.write(submission, back.executed, back.given_up)
            self.notes[submission] = f"{_NO_GRADE}: {written.failed}" if written.failed else written.fault
            for line in written.lines:
                screen.line(line)
        if back.executed:
            self.took[submission] = back.executed.seconds
        if note := self.notes[submission]:
            screen.line(f"{submission}: {note}")
        screen.done(str(submission))

    def _show_dashboard(self, client) -> None:
        if find_spec("bokeh") is None:
            _say(self.console, "Dask's pages need bokeh: `pip install bokeh`. Grading goes on without them.")
            return
        _say(self.console, f"Dask's pages: {client.dashboard_link}")
        webbrowser.open(client.dashboard_link)

    def _end(self, waiting: list[Submission], stopped: bool, lost: str) -> int:
        rows = self.rows()
        self.console.print(table(rows))
        for how, count in Counter(row.reduced for row in rows if row.reduced).items():
            _say(self.console, f"{count} of {len(rows)}: {how}")
        try:
            if self.wishes.csv:
                write_csv(rows, self.wishes.csv)
            if self.wishes.report:
                for unit in self.units:
                    self._report(unit, [row for row in rows if row.unit == unit.name])
        except OSError as error:
            _say(self.console, f"{error.filename} could not be written: {error.strerror}.")
            return INCOMPLETE
        done = sum(
            submission in self.notes and not self.notes[submission].startswith(_NO_GRADE) for submission in waiting
        )
        if stopped or lost:
            why = "Stopped" if stopped else f"Stopped, because {lost}"
            how = "Without --again the command goes on." if self.wishes.again else "The same command goes on."
            _say(self.console, f"{why}: {done} of {len(waiting)} were graded. {how}")
            return INCOMPLETE
        return INCOMPLETE if any(row.points is None or row.note.startswith(_NO_GRADE) for row in rows) else GOOD

    def rows(self) -> list[Row]:
        """The table of all submissions that were asked for, from the gradebook."""
        directory, rows = self.course.directory, []
        for unit in self.units:
            with Gradebook(directory.db_url, directory.course_id) as gradebook:
                scores = {row["student"]: row for row in gradebook.submission_dicts(unit.name)}
            for submission in (s for s in self.submissions if s.unit == unit.name):
                entry = scores.get(submission.student)
                graded = entry if entry and not entry["needs_manual_grade"] else None
                points = graded["score"] if graded else None
                possible = entry["max_score"] if entry else unit.points
                note = self.notes.get(submission)
                if note is None:
                    note = self._earlier_note(unit, submission) if graded else "not graded yet"
                how = self._reduced(unit, submission) if graded else ""
                rows.append(Row(unit.name, submission.student, points, possible, self.took.get(submission), note, how))
        return rows

    def _report(self, unit: Unit, rows: list[Row]) -> None:
        """Write the page about a unit. Raises OSError."""
        # Half a second, with what draws the pictures.
        from .marks import forms, possible_points, read_paper, tasks, titles
        from .report import write_report

        papers = []
        for row in rows:
            if row.points is not None:
                with suppress(UnreadableNotebook):  # it is not there: who handed in nothing has a grade and no notebook
                    notebooks = [read_notebook(path) for path in self._graded(unit, row.student)]
                    papers.append(read_paper(row.student, notebooks))
        if papers:
            path = Path("report", f"{unit.name}.html")
            graded = unit.graded.values()
            told = tasks(papers, possible_points(graded), titles(graded))
            write_report(path, unit.name, papers, told, rows, forms(graded))
            _say(self.console, f"{path}: what the points say of the tasks.")

    def _graded(self, unit: Unit, student: str) -> list[Path]:
        """Where a student's graded notebooks lie."""
        directory = self.course.directory
        folder = Path(directory.format_path(directory.autograded_directory, student, unit.name))
        return [folder / f"{name}.ipynb" for name in unit.graded]

    def _reduced(self, unit: Unit, submission: Submission) -> str:
        """How it was graded, if that was in a reduced box."""
        for path in self._graded(unit, submission.student):
            with suppress(OSError, ValueError, AttributeError):
                how = json.loads(path.read_text(encoding="utf-8"))["metadata"].get("boxed", "")
                if how.startswith(f"Graded in {REDUCED_BOX}"):
                    return how
        return ""

    def _earlier_note(self, unit: Unit, submission: Submission) -> str:
        """What went wrong when it was graded by an earlier run."""
        for path in self._graded(unit, submission.student):
            try:
                if any(title in path.read_text(encoding="utf-8") for title in TITLES):
                    notebook = read_notebook(path)
                    if (found := fault(notebook)) and not found.is_harmless:
                        why = notebook.metadata.get("not_graded") or f"{found.title.lower()} in {found.cell}"
                        return found.told(why)
            except (OSError, UnicodeError, UnreadableNotebook):
                continue
        return ""


@contextmanager
def _asked_to_stop(grading: _Grading) -> Iterator[None]:
    """Within the block Ctrl-C and SIGTERM ask for an end; what is being written is written first. Again: at once."""
    before: dict[int, Any] = {}

    def stop(number, frame) -> None:
        grading.stop = True
        signal.signal(number, before[number] if number == signal.SIGINT else signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for caught, handler in before.items():
            signal.signal(caught, handler)


def _named(name: str, known: list[str]) -> str:
    """The unit that somebody means: by its name, its number, or its name without the number. Raises `Refused`."""
    number = f"{int(name):02}" if name.isascii() and name.isdigit() else ""
    for unit in known:
        head, _, rest = unit.partition("_")
        if name in (unit, rest) or number == head:
            return unit
    names = {form: unit for unit in known for form in (unit, unit.partition("_")[2])}
    near = {names[form]: None for form in difflib.get_close_matches(name, names, cutoff=0.4)}
    raise Refused(f"There is no unit {name!r}; is it one of these: {', '.join(near or known)}?")
