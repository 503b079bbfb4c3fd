"""What a notebook cell says beyond its checks: a task not begun, cells to run first, the points of a check.

A check is called with results, so it never meets a stub, or a name that is missing after a restart of the kernel. The
notebook's own machinery does, and is told here what to say. Errors stay errors: nbgrader gives them no points.
"""

import builtins
import json
import os
import re
import symtable
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from autograder.failure import CheckFailed, cell_line, frames_in_cells
from autograder.not_begun import NotBegun, unwritten

from . import check_display
from .kept_copies import is_kept_copy
from .learner_record import note_points, place_of
from .names_apart import NamesApart

if TYPE_CHECKING:
    from .guard.course import Course
    from .guard.judge import Judged

_POINTS = re.compile(r'"""(\d+) points?\. ')
_DEFINES = re.compile(r"^(?:def|class) +(\w+)", re.MULTILINE)
_WIDTH = 80
_CALLS = 3  # of a line that calls itself: the first ones and the last ones are shown


class CellsNotRun(NameError):
    """A cell used `name`, which other cells define that have not been run: `cells`, as the reader finds them."""

    def __init__(self, name: str, cells: list[str]):
        self.cells = cells
        super().__init__(f"{name} is not defined yet, because cells above have not been run since the kernel started")

    def _render_traceback_(self) -> list[str]:
        number = cell_line(self)
        place = "" if number is None else f" (line {number} of this cell)"
        return [f"{self}{place}.", "Run first, in this order:", *(f"  {cell}" for cell in self.cells)]


class Cell(NamedTuple):
    """A code cell of the notebook's file, and the heading it stands under."""

    source: str
    heading: str
    graded: bool
    locked: bool = False
    answer: bool = False
    name: str = ""  # by which nbgrader knows it


def register() -> None:
    """In a notebook, say these things from now on, each once; anywhere else nothing happens."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        say_what_is_missing(shell)
        shell.events.register("pre_run_cell", _begin)
        shell.events.register("post_run_cell", _end)
        shell.events.register("post_run_cell", _say_left_out)
        if not any(isinstance(known, NamesApart) for known in shell.ast_transformers):
            NamesApart(shell, names_of_check, names_of_answer)


def say_what_is_missing(shell: Any) -> None:
    """From now on an error that a stub, a cell not run or an endless recursion ends in is shown in few lines."""
    shell.set_custom_exc((NotImplementedError, NameError, CheckFailed, RecursionError), _show)


def register_in_the_course() -> None:
    """Register if the notebook of this kernel uses the package: a kernel that was restarted has not imported it yet."""
    path = notebook_file()
    if path is not None and any("autograder" in cell.source for cell in code_cells(path)):
        register()


def _show(shell, kind: type, error: BaseException, frames, tb_offset=None) -> None:
    global _cells_missing
    if isinstance(error, CheckFailed):
        check_display.failed(error)
    instead: NotBegun | CellsNotRun | None = None
    if name := unwritten(error):
        instead = NotBegun(name)
    elif type(error) is NameError and error.name:
        instead = _cells_not_run(shell, error.name)
    _cells_missing = isinstance(instead, CellsNotRun)
    short = _without_repeats(frames)
    if isinstance(error, RecursionError):
        error.__traceback__ = short  # IPython writes it out once more, for what it keeps of the cell
    if instead is not None:
        kind, error = type(instead), instead.with_traceback(frames)
    shell.showtraceback((kind, error, short), tb_offset=tb_offset)


def _without_repeats(frames: TracebackType | None) -> TracebackType | None:
    """A traceback with the first and the last calls alone of a line that was reached again and again.

    IPython does this itself, but not where a file of more than 10,000 lines is among the frames, as JAX's `lax.py` is:
    a recursion without an end fills some 9,000 lines of the notebook then.
    """
    steps = []
    while frames is not None:
        steps.append(frames)
        frames = frames.tb_next
    places = [(step.tb_frame.f_code, step.tb_lineno) for step in steps]
    often, before = Counter(places), Counter[tuple[CodeType, int]]()
    short = None
    for step, place in zip(reversed(steps), reversed(places), strict=True):
        before[place] += 1
        if before[place] <= _CALLS or before[place] > often[place] - _CALLS:
            short = TracebackType(short, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return short


def _cells_not_run(shell, name: str) -> CellsNotRun | None:
    """What to say of a missing name; None if no cell defines it, or if the kernel has run one that does."""
    inputs = shell.history_manager.input_hist_raw
    path = notebook_file()
    if path is None or not inputs or any(name in _names(shell, source)[0] for source in inputs):
        return None
    needed = cells_to_run(shell, code_cells(path), inputs[-1], name)
    if not needed:
        return None
    return CellsNotRun(name, [f"{cell.heading}: {_first_line(cell.source)}"[:_WIDTH] for cell in needed])


def cells_to_run(shell, cells: list[Cell], source: str, name: str) -> list[Cell]:
    """The cells above the one with this source that it needs, and they need, for names that the kernel lacks.

    Empty if none of them defines `name`. Graded cells are left out: none needs another's outcome.
    """
    place = next((i for i, cell in enumerate(cells) if cell.source == source), len(cells))
    cells = [cell for cell in cells[:place] if not cell.graded]
    names = [_names(shell, cell.source) for cell in cells]
    home = {bound: i for i, (binds, _) in enumerate(names) for bound in binds}  # the last one counts
    if name not in home:
        return []
    needed, missing = set(), {name, *_names(shell, source)[1]}
    while missing:
        wanted = missing.pop()
        if wanted in home and home[wanted] not in needed and wanted not in shell.user_ns:
            needed.add(home[wanted])
            missing |= names[home[wanted]][1]
    return [cells[i] for i in sorted(needed)]


def _names(shell, source: str) -> tuple[set[str], set[str]]:
    """The names that a cell binds for other cells, and those that it takes from elsewhere."""
    try:
        top = symtable.symtable(shell.transform_cell(source), "cell", "exec")
    except SyntaxError:  # a cell that cannot be run
        return set(), set()
    symbols = top.get_symbols()
    bound = {s.get_name() for s in symbols if s.is_assigned() or s.is_imported() or s.is_namespace()}
    used = {s.get_name() for table in _tables(top) for s in table.get_symbols() if s.is_referenced() and s.is_global()}
    used |= {s.get_name() for s in symbols if s.is_referenced()}
    return bound, used - bound - set(dir(builtins))


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def notebook_file() -> Path | None:
    """The notebook that this kernel belongs to: Jupyter's server names it; else the only one in its folder."""
    named = os.environ.get("JPY_SESSION_NAME", "")
    if named.endswith(".ipynb") and os.path.isfile(named):
        return Path(named)
    found = [path for path in Path.cwd().glob("*.ipynb") if not is_kept_copy(path)]
    return found[0] if len(found) == 1 else None


def code_cells(path: Path) -> list[Cell]:
    """The code cells of a notebook as it was last saved; none if it cannot be read."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells, heading = [], "At the top"
        for cell in notebook["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "code":
                entry = cell["metadata"].get("nbgrader", {})
                graded, locked, answer = (bool(entry.get(name)) for name in ("grade", "locked", "solution"))
                cells.append(Cell(source, heading, graded, locked, answer, str(entry.get("grade_id", ""))))
            elif title := re.search(r"^#+ (.+?)( \(\d+ points?\))?$", source, re.MULTILINE):
                heading = title[1]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # half saved, or no notebook
        return []
    return cells


def _first_line(source: str) -> str:
    return next((line for line in source.split("\n") if line.strip() and not line.startswith("#")), "")


_cells_missing = False  # whether the cell that ran last said which cells to run first

# What can be done next after a check of the learner's room, as texts and links; see workbench/in_notebook.
what_next: list[Callable[[Path, str, str], Sequence[tuple[str, str]]]] = []


def _begin(info) -> None:
    found = _POINTS.match(info.raw_cell)
    check_display.begin(float(found[1]) if found else None)


def _end(result) -> None:
    """After a cell: what a check earned is said, and in the learner's room it is noted for the map."""
    global _cells_missing
    missing, _cells_missing = _cells_missing, False
    found = _POINTS.match(result.info.raw_cell)
    error = result.error_before_exec or result.error_in_exec
    judged = not missing and (error is None or isinstance(error, Exception))  # not stopped, nothing lacking
    if not found:
        check_display.end(None)
        return
    possible = float(found[1])
    with_tiers = isinstance(result.result, float)  # one with tiers returns its points; `partial_credit` has said them
    earned = 0.0 if not result.success else min(max(result.result, 0.0), possible) if with_tiers else possible
    after = _note_points(result.info.raw_cell, earned, possible) if judged else ()
    shown = check_display.end(earned if judged else None, _trouble(error, missing), after)
    if result.success and not with_tiers and not shown:
        print(f"{found[1]} of {found[1]} points")


def _trouble(error: BaseException | None, missing: bool) -> str:
    """What kept a check from being made, in a line; empty if nothing did."""
    if error is None or isinstance(error, CheckFailed):
        return ""
    if missing:
        return "Cells above have not been run yet: they are named below."
    if name := unwritten(error):
        return str(NotBegun(name)) + "."
    if not isinstance(error, Exception):
        return "The check was stopped."
    ended = f"It ended in an error, a `{type(error).__name__}`"
    # The check's cell: an answer that had been called would have one of its own.
    if len({frame.filename for frame in frames_in_cells(error)}) == 1:
        return f"{ended}, in a line of the check's: see below what it does with your result, above what was asked."
    return f"{ended}: where, stands below."


def _note_points(source: str, earned: float, possible: float) -> Sequence[tuple[str, str]]:
    """Note the points of a check of an exercise in the learner's room. Returns what can be done next.

    Nothing is noted where nbgrader runs the notebook.
    """
    path = notebook_file()
    place = place_of(path) if path is not None and "NBGRADER_EXECUTION" not in os.environ else None
    if path is None or place is None:
        return ()
    name = next((cell.name for cell in code_cells(path) if cell.graded and cell.source == source), "")
    if not name:
        return ()
    note_points(path, {name: (earned, possible)})
    return [one for tell in what_next for one in tell(*place, name)]


class _Answers(NamedTuple):
    """What is known of the notebook's file as it was when it was read: its answers, and what of it is the course's."""

    version: tuple
    defined: set[str]
    read: set[str]  # names that an answer reads, or may come by through other cells of the reader's
    theirs: list[str]  # what is not locked
    course: "Course"
    of_checks: frozenset[str]
    judged: dict[tuple[str, bool], "Judged"]  # what was said of an answer: it is asked for before it runs, and after

    def has(self, source: str) -> bool:
        """Whether a cell is one of the answers."""
        return any(name in self.defined for name in _DEFINES.findall(source))

    def needs(self, source: str) -> bool:
        """Whether an answer may need what a cell defines."""
        from .guard.course import bound, parsed

        return bool(bound(parsed(source)) & self.read)


_answers: _Answers | None = None


def _say_left_out(result) -> None:
    """After a cell that an answer needs and that would not be run when it is graded, or not all of it: why."""
    if line := left_out(result.info.raw_cell):
        print(f"When this is graded, {line}")


def left_out(source: str) -> str:
    """What of a cell would not be run when its notebook is graded, and why; empty if all would, or if no answer needs
    the cell.

    What no answer needs, such as an import that nobody uses, is not spoken of.
    """
    judged = _judged(source, of_helpers=True)
    if judged is not None and judged.text and judged.why:  # an import would be left out, unless another cell uses it
        judged = _judged(source, of_helpers=True, beside_others=True)
    if judged is None:
        return ""
    if judged.parts:
        return "\n".join(["a part of the cell is left out:", *judged.parts])
    return f"the cell is left out: {judged.why}" if judged.name == "NotAllowed" else ""


def names_of_answer(source: str) -> frozenset[str]:
    """The names of the course's and of Python's that an answer calls things of its own by; empty if it is no answer."""
    judged = _judged(source)
    return frozenset() if judged is None else judged.apart


def _judged(source: str, *, of_helpers: bool = False, beside_others: bool = False) -> "Judged | None":
    """What is done with an answer when its notebook is graded, alone or beside all others; None if it is none.

    `of_helpers`: and with a cell that an answer needs.
    """
    path = notebook_file()
    if path is None:
        return None
    from .guard.parts import judge_in_parts  # a notebook that is no exercise does without

    known = _read_answers(path)
    if not known.has(source) and not (of_helpers and known.needs(source)):
        return None
    if (source, beside_others) not in known.judged:
        sources = [source, *known.theirs] if beside_others else [source]
        known.judged[source, beside_others] = judge_in_parts(sources, known.course)[source]
    return known.judged[source, beside_others]


def names_of_check(source: str) -> frozenset[str]:
    """The names that checks alone bind, if this cell is a check; without what the course's other cells bind."""
    path = notebook_file()
    if path is None or not any(cell.graded and cell.source == source for cell in code_cells(path)):
        return frozenset()
    return _read_answers(path).of_checks


def _read_answers(path: Path) -> _Answers:
    global _answers
    from .guard.course import course_of

    status = path.stat()
    version = (path, status.st_mtime_ns, status.st_size)
    if _answers is None or _answers.version != version:
        cells = code_cells(path)
        defined = {name for cell in cells if cell.answer for name in _DEFINES.findall(cell.source)}
        locked = [cell.source for cell in cells if cell.locked and not cell.graded]
        checks = [cell.source for cell in cells if cell.graded]
        theirs = [cell.source for cell in cells if not cell.locked]
        released = course_of(locked, checks)  # no cell that is handed out open binds a name of a locked one
        course = course_of(locked, checks, theirs)._replace(kept=released.kept)
        answers = [cell.source for cell in cells if cell.answer]
        _answers = _Answers(version, defined, _read_by(answers, theirs), theirs, course, released.of_checks, {})
    return _answers


def _read_by(answers: list[str], theirs: list[str]) -> set[str]:
    """The names that answers read, and those that are read in what the reader's cells bind to these."""
    from .guard.course import bound, parsed
    from .guard.names_of_answers import behind_all, read_in

    behind: dict[str, set[str]] = {}
    for tree in map(parsed, theirs):
        for name in bound(tree):
            behind.setdefault(name, set()).update(read_in(tree))
    return behind_all({name for answer in answers for name in read_in(parsed(answer))}, behind)
