"""Does the same notebook get the same score every time? A perfect, a slow and a borderline one, graded over and over.

    python benchmarks/gradings.py                 17 gradings of each under each load: 102 of each of three units
    python benchmarks/gradings.py --unit 10       of one unit; what was measured of the others stays

Each unit's copies are a class that nbgrader's own command autogrades; half of them beside two busy loops on top of
whatever runs. The borderline answer is the solution behind a loop that changes nothing, as long as it takes to bring
its ratio to the practice bar of the lower tier: at home its verdict would be a toss, but official grading asks for 0.8
of each bar, so here it is 1.25 times the lower bar and far below the upper one, and must earn the lower tier each
time. Writes gradings.csv and gradings.md.
"""

import argparse
import collections
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import jax
import nbformat
import numpy as np
import speed_tasks
from _loads import Load
from _table import machine, read, write
from _unit import COURSE, Unit, answers_kept, unit_from_text
from nbgrader.api import Gradebook

from autograder import speedup
from autograder.doors.graded_notebook import is_graded, nbgrader_metadata, read_notebook
from autograder.measuring import bench
from autograder.measuring.speedup import OFFICIAL

TABLE = Path(__file__).with_suffix(".csv")
FIELDS = ["unit", "kind", "load", "number", "score", "of", "speed_points", "ratio", "load_average", "jax", "date"]


class Race(NamedTuple):
    """A task that is graded by the clock."""

    unit: str
    task: str
    candidate: str  # its function
    padded: str  # the argument behind which the borderline answer waits
    baseline: str
    arguments: str  # of the timed call
    slow: str  # the name of the slow answer among the kept wrong ones

    @property
    def check(self) -> str:
        return f"{self.task}-speed"

    @property
    def tiers(self) -> list[float]:
        return speed_tasks.tiers(read(speed_tasks.TABLE))[self.unit, self.check]

    @property
    def notebook(self) -> str:
        return self.unit.partition("_")[2]


RACES = [
    Race(
        "01_three_clocks",
        "fuse-me",
        "fuse_me",
        "x",
        "slow_polynomial",
        "*polynomial_inputs(8)",
        "no jit at all, and slow",
    ),
    Race("10_when_jit_changes", "day", "day", "amounts", "day_slow", "full_day", "a scan, and no jit"),
    Race(
        "09_what_xla_made",
        "brackets",
        "overlap",
        "A",
        "overlap_slow",
        "*positive(700, seed=2)",
        "spares the second product, keeps the first",
    ),
]

# So many passes that change nothing, which the compiler cannot know.
BORDERLINE = """
{solution}

solved = {candidate}


@jax.jit
def {candidate}({parameters}):
    {padded} = jax.lax.fori_loop(0, {passes}, lambda _, y: jnp.where(y == 1.5e30, 0.0, y), {padded})
    return solved({parameters})
"""


def borderline(race: Race, unit: Unit) -> tuple[str, float]:
    """The source of an answer whose true ratio is as near to the lower tier as whole passes allow, and the ratio."""
    names: dict = {"__name__": "__main__"}  # as in a kernel
    for cell in unit.cells:
        if not is_graded(cell):
            exec(cell.source, names)
    solved = names[race.candidate]
    facts = {"solution": unit.answers[race.task].source, "candidate": race.candidate, "padded": race.padded}
    facts["parameters"] = ", ".join(inspect.signature(solved).parameters)
    arguments = eval(f"[{race.arguments}]", names)

    def source(passes: int) -> str:
        return BORDERLINE.format(passes=passes, **facts)

    def ratio(passes: int) -> float:
        exec(source(passes), names)
        ratios = []
        for _ in range(5):
            bench.renew()
            ratios.append(
                speedup(names[race.candidate], names[race.baseline], *arguments, at_least=race.tiers[0]).ratio
            )
        return float(np.median(ratios))

    # The time grows by the same amount with each pass, once there are so many that little else is left.
    lower, passes = race.tiers[0], 16
    while ratio(passes) > 2 * lower:
        passes *= 2
    few, many = passes, 2 * passes
    share = (1 / ratio(many) - 1 / ratio(few)) / (many - few)
    passes = few + round((1 / lower - 1 / ratio(few)) / share)
    found = {n: ratio(n) for n in (passes - 1, passes, passes + 1) if n > 0}
    best = min(found, key=lambda n: abs(np.log(found[n] / lower)))
    return source(best), found[best]


def submission(race: Race, unit: Unit, answer: str | None) -> nbformat.NotebookNode:
    """The unit, solved, with `answer` in place of the speed task's solution."""
    notebook = read_notebook(COURSE / "exercises" / race.unit / f"{race.notebook}.ipynb")
    answers = {task: cell.source for task, cell in unit.answers.items()} | ({race.task: answer} if answer else {})
    for cell in notebook.cells:
        if nbgrader_metadata(cell).get("solution"):
            cell.source = answers[cell.metadata.nbgrader.grade_id]
    return notebook


def grade(race: Race, submissions: dict, load: str, gradings: int, ratio: float) -> list[dict]:
    """Autograde `gradings` copies of each kind of notebook, as a class of a course that is made for it."""
    root = Path(tempfile.mkdtemp())
    shutil.copy(COURSE / "nbgrader_config.py", root)
    shutil.copytree(COURSE / "solutions" / race.unit, root / "solutions" / race.unit)
    copies = [(kind, number) for number in range(gradings) for kind in submissions]
    for kind, number in copies:
        folder = root / "submitted" / f"{number:03}-{kind}" / race.unit  # graded in this order
        folder.mkdir(parents=True)
        nbformat.write(submissions[kind], folder / f"{race.notebook}.ipynb")

    def nbgrader(*args: str) -> None:
        command = [sys.executable, "-m", "nbgrader", *args]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)

    nbgrader("generate_assignment", race.unit)
    with Load(load):
        nbgrader("autograde", race.unit)
        busy = f"{os.getloadavg()[0]:.1f}"
    rows = []
    with Gradebook(f"sqlite:///{root}/gradebook.db") as gradebook:
        for kind, number in copies:
            student = f"{number:03}-{kind}"
            grades = gradebook.find_submission_notebook(race.notebook, race.unit, student).grades
            points = {grade.name: (grade.auto_score, grade.max_score) for grade in grades}
            total, possible = (sum(column) for column in zip(*points.values(), strict=True))
            facts = [race.unit[:2], kind, load, number, total, possible, points[race.check][0], f"{ratio:.3g}", busy]
            rows.append(dict(zip(FIELDS, [*facts, jax.__version__, time.strftime("%Y-%m-%d")], strict=True)))
    shutil.rmtree(root)
    return rows


def table(rows: list[dict]) -> str:
    """The scores as markdown."""
    lines = [
        "# One notebook, graded again and again",
        "",
        f"Measured on: {machine({row['jax'] for row in rows})}. Each unit's copies by one `nbgrader autograde`.",
        "",
        "| unit | tiers, officially | borderline | notebook | load | gradings | scores | points by the clock |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault((row["unit"], row["kind"], row["load"]), []).append(row)
    for (unit, kind, load), group in groups.items():
        scores, speed = (
            ", ".join(f"{float(points):g} ({n} times)" for points, n in sorted(counted.items()))
            for counted in (
                collections.Counter(float(row["score"]) for row in group),
                collections.Counter(float(row["speed_points"]) for row in group),
            )
        )
        race = next(race for race in RACES if race.unit.startswith(unit))
        tiers = ", ".join(f"{OFFICIAL * tier:g}x" for tier in race.tiers)
        facts = [unit, tiers, f"{group[0]['ratio']}x", kind, load, str(len(group)), scores, speed]
        lines.append(f"| {' | '.join(facts)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gradings", type=int, default=17, help="of each notebook under each load")
    parser.add_argument("--unit", action="append", help="the number of a unit; else all three")
    args = parser.parse_args()
    rows = read(TABLE)
    for race in RACES:
        if args.unit and race.unit[:2] not in args.unit:
            continue
        unit = unit_from_text(race.unit)
        source, ratio = borderline(race, unit)
        print(f"{race.unit}: the borderline answer is at {ratio:.3g}x", flush=True)
        slow = next(
            cell.source for cell in answers_kept("wrong_answers", race.unit) if cell.metadata["name"] == race.slow
        )
        kinds = {"perfect": None, "slow": slow, "borderline": source}
        submissions = {kind: submission(race, unit, answer) for kind, answer in kinds.items()}
        rows = [row for row in rows if row["unit"] != race.unit[:2]]
        for load in ("quiet", "two hogs"):
            rows += grade(race, submissions, load, args.gradings, ratio)
            rows.sort(key=lambda row: row["unit"])
            write(TABLE, FIELDS, rows)
            TABLE.with_suffix(".md").write_text(table(rows))
            print(table(rows), flush=True)


if __name__ == "__main__":
    main()
