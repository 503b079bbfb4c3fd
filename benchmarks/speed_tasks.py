"""The true ratio of every task that is graded by the clock, for its solution and for each of its wrong answers.

    python benchmarks/speed_tasks.py            every task; about ten seconds for an answer and a load
    python benchmarks/speed_tasks.py 07         the tasks of unit 07 only

Writes speed_tasks.csv and speed_tasks.md. An answer that has a row for the text it has today is not measured again.
The check cell runs as it stands and as it is handed out, in a kernel that has run the notebook, with a new bench; then
its two functions are timed 20 times, by four measuring processes (a wrong answer's 10 times, by two; first calls, which
take seconds, a third as often). The answers of a unit follow each other in one kernel. A bar is fit to grade by when
the slowest of a solution's ratios is 1.6 times the highest tier or more, and the fastest of a wrong answer's is 0.6 of
the lowest tier or less: `test_speed_tasks.py` holds the table to that, and to what the timing depends on as it is today
(`_timed_text.py`).
"""

import argparse
import hashlib
import json
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple

import jax
from _loads import Load
from _table import machine, read, write
from _timed_text import timed_text
from _unit import answers_kept, without_hidden_tests

from autograder.doors.graded_notebook import is_graded, nbgrader_metadata, read_notebook, score
from autograder.doors.kernel_runner import Runner

COURSE = Path(__file__).parents[1]
TABLE = Path(__file__).with_suffix(".csv")
FIELDS = ["unit", "check", "answer", "load", "jax", "text", "tiers", "low", "median", "high", "cell_s", "again_s"]
FIELDS += ["earned", "refused", "load_average", "date"]
IDENTITY = FIELDS[:6]
MEASURED_UNDER = ("quiet", "two hogs")
RUNS, OF_WRONG = 20, 10
RARER = 3  # first calls take seconds, and each has a process of its own: a third of the runs

# Run in the kernel before a check: what the cell hands to the two functions is kept.
LISTEN = """
import json as _json
from autograder import partial_credit as _partial_credit, speedup as _speedup
from autograder.measuring import bench as _bench

def speedup(*args, **options):
    answer = _speedup(*args, **options)
    _races.append((answer, args, options))
    return answer

def partial_credit(value, tiers):
    global _call, _options, _tiers
    _call, _options = next(rest for answer, *rest in _races if answer is value)  # hidden tests may have others
    _tiers = tiers
    return _partial_credit(value, tiers)

_races, _call, _options, _tiers = [], None, None, None
# A learner has read and written since the process was started; here its start may not be over yet.
_bench.renew()
_bench.current().wait_until_ready()
"""
TIME_AGAIN = """
_ratios = []
for _run in range({runs} // ({rarer} if _options.get("cold") else 1)):
    if _run % 5 == 0:
        _bench.renew()
    _ratios.append(_speedup(*_call, **_options).ratio)
print(_json.dumps([list(_tiers), _ratios]) if _tiers else "null")
"""


class Answer(NamedTuple):
    """One answer to a speed task: the solution ("solution") or a wrong one, by its name."""

    unit: str
    check: str
    name: str
    source: str | None  # replaces the solution's cell `task`; None for the solution itself
    task: str | None
    text: str  # a digest of what the timing depends on, see `timed_text`


def answers() -> Iterator[Answer]:
    """Every answer to every graded cell that calls `speedup`, in the solutions as they are now."""
    for path in sorted(COURSE.glob("solutions/*/*.ipynb")):
        if "speedup(" not in path.read_text():
            continue  # to read a notebook takes ten times as long
        unit = path.parent.name
        notebook = read_notebook(path)
        checks = {c.metadata.nbgrader.grade_id: c.source for c in notebook.cells if is_graded(c)}
        checks = {name: source for name, source in checks.items() if "speedup(" in source}
        if not checks:
            continue
        ungraded = [c.source for c in notebook.cells if c.cell_type == "code" and not is_graded(c)]
        wrong = answers_kept("wrong_answers", unit)
        for check, source in checks.items():
            yield Answer(unit, check, "solution", None, None, _digest(source, *ungraded))
            for cell in wrong:
                if check in cell.metadata["fails"]:
                    text = _digest(source, *ungraded, cell.source)
                    yield Answer(unit, check, cell.metadata["name"], cell.source, cell.metadata["task"], text)


def _digest(check: str, *cells: str) -> str:
    return hashlib.sha256(timed_text(without_hidden_tests(check), cells).encode()).hexdigest()[:12]


@contextmanager
def solved(unit: str) -> Iterator[Runner]:
    """A kernel that has run the solution of a unit, but for its checks."""
    folder = COURSE / "solutions" / unit
    notebook = read_notebook(folder / f"{unit[3:]}.ipynb")
    with Runner(notebook, folder, seconds=300) as runner:
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type == "code" and not is_graded(cell):
                runner.run(index)
        yield runner


def measure(answer: Answer, runner: Runner) -> dict:
    """The check cell's score and seconds, and the ratios of its two functions. The solution is put back."""
    cells = {nbgrader_metadata(cell).get("grade_id"): cell for cell in runner.notebook.cells}
    check = cells[answer.check]
    if answer.source:
        runner.run_new(answer.source)
    runner.run_new(LISTEN)
    # The first run compiles both functions in the measuring process, and may start a process for the candidate.
    # The second one is what a learner waits for, who has no hidden tests.
    checked, seconds = [], []
    for source in (check.source, without_hidden_tests(check.source)):
        began = time.perf_counter()
        checked.append(runner.run_new(source, check.metadata))
        seconds.append(f"{time.perf_counter() - began:.2f}")
    result = score(checked[0])
    outputs = runner.run_new(TIME_AGAIN.format(runs=OF_WRONG if answer.source else RUNS, rarer=RARER)).outputs
    if answer.source:
        runner.run_new(cells[answer.task].source)
    printed = next((o.text for o in outputs if o.output_type == "stream"), "null")
    tiers, ratios = json.loads(printed) or (None, None)
    if answer.name == "solution" and not ratios:
        raise SystemExit(f"{answer.check}: the solution was not timed: {result.message}")
    return {
        "tiers": " ".join(f"{tier:g}" for tier in tiers) if ratios else "",
        "low": f"{min(ratios):.3g}" if ratios else "",
        "median": f"{statistics.median(ratios):.3g}" if ratios else "",
        "high": f"{max(ratios):.3g}" if ratios else "",
        "cell_s": seconds[0],
        "again_s": seconds[1],
        "earned": f"{result.earned:g} of {result.possible:g}",
        "refused": "" if ratios else _brief(result.message),
        "load_average": f"{os.getloadavg()[0]:.1f}",
        "date": time.strftime("%Y-%m-%d"),
    }


def _brief(message: str) -> str:
    """The line of a message that says what happened: the last one of a traceback."""
    lines = [line for line in message.splitlines() if line.strip()]
    return lines[-1 if "Traceback" in lines[0] else 0][:120]


def save(measured: list[dict]) -> None:
    write(TABLE, FIELDS, sorted(measured, key=lambda row: [row[field] for field in IDENTITY]))


def tiers(measured: list[dict]) -> dict[tuple[str, str], list[float]]:
    """The tiers of each check, by its unit and name, as its solution was measured."""
    solutions = [row for row in measured if row["answer"] == "solution"]
    return {(row["unit"], row["check"]): [float(tier) for tier in row["tiers"].split()] for row in solutions}


def table() -> str:
    """The measurements as markdown."""
    measured = read(TABLE)
    tiers_of = tiers(measured)
    lines = [
        "# Every task that is graded by the clock",
        "",
        f"Measured on: {machine({row['jax'] for row in measured})}. Ratios: {RUNS} runs by four measuring processes",
        f"({OF_WRONG} by two, of most wrong answers); of first calls a third as many.",
        "`refused` is an answer that the check turned down without the clock, or whose values were wrong.",
        "",
        "| unit | check | tiers | answer | JAX | load | slowest | median | fastest | cell, s | again, s | earned |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in measured:
        steps = ", ".join(f"{tier:g}x" for tier in tiers_of[row["unit"], row["check"]])
        ratios = f"{row['low']}x | {row['median']}x | {row['high']}x" if row["median"] else "refused | – | –"
        lines.append(
            f"| {row['unit'][:2]} | {row['check']} | {steps} | {row['answer']} | {row['jax']} | {row['load']} "
            f"| {ratios} | {row['cell_s']} | {row['again_s']} | {row['earned']} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("units", nargs="*", help="numbers of units, all without")
    chosen = parser.parse_args().units
    known = {tuple(row[field] for field in IDENTITY): row for row in read(TABLE)}
    current = list(answers())
    texts = {answer.text for answer in current}
    known = {identity: row for identity, row in known.items() if row["text"] in texts}  # drop what no longer exists
    for load, unit in product(MEASURED_UNDER, sorted({answer.unit for answer in current})):
        here = {(*answer[:3], load, jax.__version__, answer.text): answer for answer in current if answer.unit == unit}
        missing = [identity for identity in here if identity not in known]
        if not missing or (chosen and unit[:2] not in chosen):
            continue
        with solved(unit) as runner, Load(load):
            for identity in missing:
                known[identity] = dict(zip(IDENTITY, identity, strict=True)) | measure(here[identity], runner)
                print({key: value for key, value in known[identity].items() if value}, flush=True)
                save(list(known.values()))
    save(list(known.values()))
    TABLE.with_suffix(".md").write_text(table())


if __name__ == "__main__":
    main()
