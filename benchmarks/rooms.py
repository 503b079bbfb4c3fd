"""In which room each graded cell can be run: finds it out, unit by unit, and writes the table that the grader reads.

    python benchmarks/rooms.py --unit 05              judge each check of a unit, and write its lines of the table
    python benchmarks/rooms.py                        of every unit
    python benchmarks/rooms.py --unit 05 --check NAME only say what becomes of these checks; writes nothing
    python benchmarks/rooms.py --stale                only judged checks whose text is another one now; the rest stays
    python benchmarks/rooms.py --fill                 lines for units that were not tried: their checks are observed
    python benchmarks/rooms.py --points               points judged and observed, unit by unit, from the table
    python benchmarks/rooms.py --unit 05 --try FILE   what the judged checks say to the answers in a file

A check may be judged if there, in the judge, the solution and every kept right answer earn every point, every kept
wrong answer that names it in `fails` loses points, and the stub is not begun. What looks at the compiler's caches or at
the process's memory is not tried, where `beside.toml` does not have it looked at in the box: in the judge there is a
stand-in. Nor may a later check that is observed need a name that a judged one binds. All kept answers run in one box,
one after the other, as in `test_answers.py`; the box needs bubblewrap.
"""

import argparse
import ast
import dis
import re
import tempfile
import time
import types
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import jupytext
from _grader import last_line
from _table import read, write
from _timed_text import timed_text
from _unit import COURSE, UNITS, Unit, answers_kept, is_answer, unit_as_built
from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_code_cell, new_notebook

from autograder.doors.box.rules import Rules
from autograder.doors.graded_notebook import is_graded, not_begun, read_notebook, score
from autograder.doors.guard.cells import course_in
from autograder.doors.guard.course import bound, parsed
from autograder.doors.judge.beside import beside
from autograder.doors.judge.table import FIELDS, TABLE, digest
from autograder.doors.judge.two_rooms import _ROOM, TwoRooms

SECONDS = 60
# Instruments that look at what a function does while it is called, in the process where it is called.
OBSERVERS = r"\b(roofline|benchmark|monitoring|_cache_size|perf_counter"
OBSERVERS += r"|checking_leaks|transfer_guard|log_compiles|memory_stats|live_arrays|getsource|subprocess)\b"
KEEPS_PROGRAMS = """
import jax
from jax.experimental.compilation_cache import compilation_cache
jax.config.update("jax_compilation_cache_dir", "/tmp/home/programs")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
compilation_cache.reset_cache()
"""
OF_THE_CACHE = "12_ahead_of_time"  # looks into the folder of a cache, also from a process that has JAX's defaults


class Found(NamedTuple):
    """What became of one check."""

    how: str
    why: str  # why it is observed


class Trial:
    """A box and a judge in which the whole unit has run, and its checks, which are all judged."""

    def __init__(self, unit: Unit, checks: list[str]):
        self.unit = unit
        notebook = new_notebook(cells=[from_dict(cell) for cell in unit.cells])
        released = read_notebook(COURSE / "exercises" / unit.name / f"{unit.name[3:]}.ipynb")
        self.stubs = {c.metadata.nbgrader.grade_id: c.source for c in released.cells if is_answer(c)}
        self._folder = tempfile.TemporaryDirectory()
        course = course_in(notebook, released)
        box = Rules(memory=6)
        self.runner = TwoRooms(notebook, Path(self._folder.name), SECONDS, box, None, checks, course)
        self.runner.for_new_boxes = 0
        self.cells = notebook.cells

    def __enter__(self) -> "Trial":
        if self.unit.name != OF_THE_CACHE:
            self.put(KEEPS_PROGRAMS)
        for index, cell in enumerate(list(self.cells)):
            if not is_graded(cell):
                self.runner.run(index)
        return self

    def __exit__(self, *exception) -> None:
        self.runner.__exit__(*exception)
        self._folder.cleanup()

    def put(self, source: str, task: str = "trial") -> None:
        """Run an answer in the place of another one."""
        self.cells.append(new_code_cell(source, id=f"answer-{task}"[:64]))
        try:
            self.runner.run(len(self.cells) - 1)
        finally:
            self.cells.pop()
        if self.runner.end is not None:
            self.begin_again()

    def begin_again(self) -> None:
        """A new box, with the solution in it."""
        self.runner.restart()
        for index, cell in enumerate(self.cells):
            if not is_graded(cell):
                self.runner.run(index)

    def says(self, what: str) -> bool:
        """Whether programs of an answer's have arrived in the last check, or its traces were counted in the box."""
        try:
            self.runner._judge.tell(f"assert {_ROOM}.{what}")
        except RuntimeError:
            return False
        return True

    def against(self, check: str) -> str:
        """Why a right answer does not earn every point of a check, or nothing."""
        result = score(self.grade(check))
        return (brief(result.message) or "it loses points") if result.earned < result.possible else ""

    def grade(self, check: str) -> NotebookNode:
        """The check as it was run, in the judge."""
        index = next(i for i, c in enumerate(self.cells) if is_graded(c) and c.metadata.nbgrader.grade_id == check)
        cell = from_dict(self.runner.run(index))
        if self.runner.end is not None:
            self.begin_again()
        return cell


def try_unit(name: str, only: list[str]) -> dict[str, Found]:
    """What becomes of each check of a unit."""
    unit = unit_as_built(name)
    found = {check: Found("observed", why) for check in unit.checks if (why := observes(unit, check))}
    tried = [check for check in unit.checks if check not in found and (not only or check in only)]
    if not tried:
        return found

    def lose(check: str, why: str) -> None:
        if check in tried:
            tried.remove(check)
            found[check] = Found("observed", why)
            print(f"  {check}: observed: {why}", flush=True)

    with Trial(unit, tried) as trial:
        for check in list(tried):
            if why := trial.against(check):
                lose(check, f"the solution: {why}")
        for answer in answers_kept("right_answers", name):
            task = answer.metadata["task"]
            checks = [check for check in unit.fed_by(task) if check in tried]
            if not checks:
                continue
            trial.put(answer.source, task)
            for check in checks:
                if why := trial.against(check):
                    lose(check, f"right answer {answer.metadata['name']!r}: {why}")
            trial.put(unit.answers[task].source, task)
        for task, stub in trial.stubs.items():
            checks = [check for check in with_its_stub(unit, task) if check in tried]
            if checks:
                trial.put(stub, task)
                for check in checks:
                    cell = trial.grade(check)
                    if score(cell).earned or not not_begun(cell):
                        lose(check, f"the stub: {brief(score(cell).message) or 'earns points'}")
                trial.put(unit.answers[task].source, task)
        for answer in answers_kept("wrong_answers", name):
            task = answer.metadata["task"]
            checks = [check for check in answer.metadata["fails"] if check in tried]
            if not checks:
                continue
            trial.put(answer.source, task)
            for check in checks:
                result = score(trial.grade(check))
                if result.earned >= result.possible:
                    lose(check, f"wrong answer {answer.metadata['name']!r} earns every point")
                elif answer.metadata["message"] not in result.message:
                    print(f"  {check}: {answer.metadata['name']!r} is told: {brief(result.message)}")
            trial.put(unit.answers[task].source, task)
        for check in list(tried):  # does it still pass, after all of them?
            if why := trial.against(check):
                lose(check, f"the solution again: {why}")
            else:
                counted, artefact = trial.says("counted"), trial.says("programs")
                found[check] = Found("counted" if counted else "artefact" if artefact else "outside", "")
    for check, other in needed(unit, set(tried), only):
        lose(check, f"needed by {other}")
    return {check: one for check, one in found.items() if not only or check in only}


def try_file(name: str, file: Path) -> None:
    """What the judged checks of a unit say to the cells of a file of answers (metadata `task`, `name`)."""
    unit = unit_as_built(name)
    judged = [row["check"] for row in read(TABLE) if row["unit"] == name and row["how"] != "observed"]
    with Trial(unit, judged) as trial:
        for answer in (c for c in jupytext.read(file).cells if "task" in c.metadata):
            task = answer.metadata["task"]
            checks = [check for check in unit.near(task) if check in judged]
            if checks:
                trial.put(answer.source, task)
                results = [score(trial.grade(check)) for check in checks]
                trial.put(unit.answers[task].source, task)
                lost = [
                    f"{c}: {brief(r.message)}" for c, r in zip(checks, results, strict=True) if r.earned < r.possible
                ]
                print(f"{task}, {answer.metadata['name']!r}: {'; '.join(lost) or 'earns every point'}", flush=True)


def observes(unit: Unit, check: str) -> str:
    """The instrument that a check uses itself or by the course's cells; empty if it uses none."""
    locked = [without(cell.source, beside(check)) for cell in unit.ungraded if not is_answer(cell)]
    text = timed_text(without(unit.checks[check].source, beside(check)), locked)
    used = re.findall(OBSERVERS, re.sub(r"^(import|from) .*$", "", text, flags=re.M))
    return f"it uses {', '.join(sorted(set(used)))}" if used else ""


def without(source: str, names: list[str]) -> str:
    """A cell without what is in these functions."""
    lines = source.split("\n")
    for node in ast.parse(source).body if names else ():
        if isinstance(node, ast.FunctionDef) and node.name in names:
            first, *others = range(node.lineno - 1, node.end_lineno or node.lineno)
            lines[first] = f"def {node.name}(): ..."
            for number in others:
                lines[number] = ""
    return "\n".join(lines)


def with_its_stub(unit: Unit, task: str) -> list[str]:
    """The checks of a task, which are not begun with its stub: where two answers follow each other, of the second one
    only those that need it, and of the first one those that name it."""
    near = unit.near(task)
    return [check for check in unit.fed_by(task) if check in near or not near]


def needed(unit: Unit, judged: set[str], only: list[str]) -> list[tuple[str, str]]:
    """Judged checks that bind a name which a later one uses that is observed, and binds nowhere itself."""
    pairs = []
    binds: dict[str, set[str]] = {}
    known = {name for cell in unit.ungraded for name in bound(parsed(cell.source))}
    for name, cell in unit.checks.items():
        own = bound(parsed(cell.source))
        if name not in judged and not only:
            for earlier, names in binds.items():
                if earlier in judged and (used := (names - known - own) & looked_up(cell.source)):
                    pairs.append((earlier, f"{name} ({', '.join(sorted(used))})"))
        binds[name] = own
    return pairs


def looked_up(source: str) -> set[str]:
    """The names that a cell looks up in its notebook."""
    found, ahead = set(), [compile(source, "cell", "exec")]
    while ahead:
        code = ahead.pop()
        loads = (step for step in dis.get_instructions(code) if step.opname in ("LOAD_NAME", "LOAD_GLOBAL"))
        found |= {step.argval for step in loads}
        ahead += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return found


def brief(message: str) -> str:
    return last_line(message)[:200] if message else ""


def write_unit(name: str, found: dict[str, Found]) -> None:
    """Put the lines of a unit into the table."""
    unit = unit_as_built(name)
    lines = [
        {
            "unit": name,
            "check": check,
            "points": cell.metadata.nbgrader.points,
            "how": found[check].how,
            "text": digest(cell.source),
        }
        for check, cell in unit.checks.items()
    ]
    rows = [row for row in read(TABLE) if row["unit"] != name] + lines
    write(TABLE, list(FIELDS), sorted(rows, key=lambda row: row["unit"]))


def renew_unit(name: str) -> None:
    """Try the judged checks of a unit again whose text has changed; all others stay what they were."""
    unit = unit_as_built(name)
    known = {row["check"]: row for row in read(TABLE) if row["unit"] == name}
    found = {check: Found(known[check]["how"] if check in known else "observed", "") for check in unit.checks}
    changed = [check for check, cell in unit.checks.items() if known.get(check, {}).get("text") != digest(cell.source)]
    if again := [check for check in changed if found[check].how != "observed"]:
        found |= try_unit(name, again)
    if changed:
        write_unit(name, found)
        print(f"{name}: {changed}", flush=True)


def points() -> str:
    """Points judged and observed in each unit."""
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row in read(TABLE):
        for unit in (row["unit"], "all"):
            sums[unit][row["how"]] += float(row["points"])
    lines = [
        f"{unit:28} " + "  ".join(f"{how} {n:g}" for how, n in sorted(hows.items())) for unit, hows in sums.items()
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unit", action="append", default=[])
    parser.add_argument("--check", action="append", default=[])
    parser.add_argument("--stale", action="store_true")
    parser.add_argument("--fill", action="store_true")
    parser.add_argument("--points", action="store_true")
    parser.add_argument("--try", dest="file", type=Path)
    chosen = parser.parse_args()
    if chosen.fill:
        tried = {row["unit"] for row in read(TABLE)}
        for name in UNITS:
            if name not in tried:
                write_unit(name, dict.fromkeys(unit_as_built(name).checks, Found("observed", "")))
    if chosen.points:
        print(points())
    if chosen.points or chosen.fill:
        return
    for name in UNITS:
        if chosen.unit and name[:2] not in chosen.unit:
            continue
        if chosen.file:
            try_file(name, chosen.file)
            continue
        if chosen.stale:
            renew_unit(name)
            continue
        began = time.perf_counter()
        found = try_unit(name, chosen.check)
        if not chosen.check:
            write_unit(name, found)
        judged = [check for check, one in found.items() if one.how != "observed"]
        print(
            f"{name}: {len(judged)} of {len(found)} judged, {time.perf_counter() - began:.0f} s: {judged}", flush=True
        )
        for check, one in found.items():
            if one.why:
                print(f"    {check}: {one.why}", flush=True)


if __name__ == "__main__":
    main()
