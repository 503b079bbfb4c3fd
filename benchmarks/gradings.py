"""Does the same notebook get the same score every time? A perfect, a slow and a borderline one, graded over and over.

    python benchmarks/gradings.py                 17 gradings of each under each load: 102 in all, a quarter of an hour

Unit 01 is autograded by nbgrader's own command, once for every copy; half of the gradings beside two busy loops on top
of whatever runs. The borderline answer's true ratio is set to the practice bar of the lower tier: at home its verdict
would be a toss, but official grading asks for 0.8 of each bar, so here it is 1.25 times the lower bar and far below
the upper one, and must earn the lower tier each time. Writes gradings.csv and gradings.md.
"""

import argparse
import collections
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import nbformat
import numpy as np
import speed_tasks
from _loads import Load
from _table import machine, read, write
from nbgrader.api import Gradebook

from autograder import speedup
from autograder.doors.graded_notebook import nbgrader_metadata, read_notebook
from autograder.measuring import bench
from autograder.measuring.speedup import OFFICIAL

COURSE = Path(__file__).parents[1]
TABLE = Path(__file__).with_suffix(".csv")
FIELDS = ["kind", "load", "number", "score", "of", "speed_points", "load_average", "jax", "date"]
UNIT, NOTEBOOK, TASK, CHECK = "01_three_clocks", "three_clocks", "fuse-me", "fuse-me-speed"
LOWER_TIER, UPPER_TIER = speed_tasks.tiers(read(speed_tasks.TABLE))[CHECK]
SOLVED = COURSE / "solutions" / UNIT / f"{NOTEBOOK}.ipynb"

SLOW = """
def fuse_me(coefficients, x):
    y = jnp.zeros_like(x)
    for k in range(coefficients.shape[0]):
        y = y * x + coefficients[k]
    return y
"""
BORDERLINE = """
@jax.jit
def fuse_me(coefficients, x):
    y = jnp.zeros_like(x)
    for k in range(coefficients.shape[0]):
        y = y * x + coefficients[k]
    # So many passes that change nothing, which the compiler cannot know.
    return jax.lax.fori_loop(0, {passes}, lambda _, y: jnp.where(y == 1234.5, 0.0, y), y)
"""


def borderline() -> tuple[str, float]:
    """The source of an answer whose true ratio is as near to the lower tier as whole passes allow, and the ratio."""
    names = {"jax": jax, "jnp": jnp, "np": np}
    cells = {nbgrader_metadata(cell).get("grade_id"): cell.source for cell in read_notebook(SOLVED).cells}
    exec(cells[f"{TASK}-spec"], names)
    slow, inputs = names["slow_polynomial"], names["polynomial_inputs"](8)

    def ratio(passes: int) -> float:
        exec(BORDERLINE.format(passes=passes), names)
        fuse_me = names["fuse_me"]
        ratios = []
        for _ in range(5):
            bench.renew()
            ratios.append(speedup(fuse_me, slow, *inputs, at_least=LOWER_TIER).ratio)
        return float(np.median(ratios))

    # The time grows by the same amount with each pass.
    few, many = 10, 40
    share = (1 / ratio(many) - 1 / ratio(few)) / (many - few)
    passes = few + round((1 / LOWER_TIER - 1 / ratio(few)) / share)
    found = {n: ratio(n) for n in (passes - 1, passes, passes + 1) if n > 0}
    best = min(found, key=lambda n: abs(np.log(found[n] / LOWER_TIER)))
    return BORDERLINE.format(passes=best), found[best]


def submission(answer: str | None) -> nbformat.NotebookNode:
    """Unit 01, solved, with `answer` in place of the speed task's solution."""
    notebook = read_notebook(COURSE / "exercises" / UNIT / f"{NOTEBOOK}.ipynb")
    solved = read_notebook(SOLVED).cells
    answers = {c.metadata.nbgrader.grade_id: c.source for c in solved if nbgrader_metadata(c).get("solution")}
    if answer:
        answers[TASK] = answer
    for cell in notebook.cells:
        if nbgrader_metadata(cell).get("solution"):
            cell.source = answers[cell.metadata.nbgrader.grade_id]
    return notebook


def grade(kinds: dict, load: str, gradings: int) -> list[dict]:
    """Autograde `gradings` copies of each kind in a classroom made for it."""
    root = Path(tempfile.mkdtemp())
    shutil.copy(COURSE / "nbgrader_config.py", root)
    shutil.copytree(COURSE / "solutions" / UNIT, root / "solutions" / UNIT)
    copies = [(kind, number) for number in range(gradings) for kind in kinds]
    for kind, number in copies:
        folder = root / "submitted" / f"{kind}-{number:03}" / UNIT
        folder.mkdir(parents=True)
        nbformat.write(submission(kinds[kind]), folder / f"{NOTEBOOK}.ipynb")

    def nbgrader(*args: str) -> None:
        command = [sys.executable, "-m", "nbgrader", *args]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)

    nbgrader("generate_assignment", UNIT)
    rows = []
    with Load(load):
        for kind, number in copies:
            student = f"{kind}-{number:03}"
            nbgrader("autograde", UNIT, "--student", student)
            with Gradebook(f"sqlite:///{root}/gradebook.db") as gradebook:
                grades = gradebook.find_submission_notebook(NOTEBOOK, UNIT, student).grades
                points = {grade.name: (grade.auto_score, grade.max_score) for grade in grades}
            total, possible = (sum(column) for column in zip(*points.values(), strict=True))
            facts = [kind, load, number, total, possible, points[CHECK][0], f"{os.getloadavg()[0]:.1f}"]
            rows.append(dict(zip(FIELDS, [*facts, jax.__version__, time.strftime("%Y-%m-%d")], strict=True)))
            print(rows[-1], flush=True)
    shutil.rmtree(root)
    return rows


def table(rows: list[dict], ratio: float) -> str:
    """The scores as markdown."""
    lines = [
        "# One notebook, graded again and again",
        "",
        f"Measured on: {machine({row['jax'] for row in rows})}. Unit 01 by `nbgrader autograde`.",
        f"The borderline answer's true ratio was {ratio:.3g}; the tiers are {LOWER_TIER:g}x and "
        f"{UPPER_TIER:g}x, officially {OFFICIAL * LOWER_TIER:g}x and {OFFICIAL * UPPER_TIER:g}x.",
        "",
        "| notebook | load | gradings | scores | points of the speed task |",
        "|---|---|---|---|---|",
    ]
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault((row["kind"], row["load"]), []).append(row)
    for (kind, load), group in groups.items():
        scores, speed = (
            ", ".join(f"{float(points):g} ({n} times)" for points, n in sorted(counted.items()))
            for counted in (
                collections.Counter(float(row["score"]) for row in group),
                collections.Counter(float(row["speed_points"]) for row in group),
            )
        )
        lines.append(f"| {kind} | {load} | {len(group)} | {scores} | {speed} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gradings", type=int, default=17, help="of each notebook under each load")
    gradings = parser.parse_args().gradings
    source, ratio = borderline()
    print(f"borderline: {ratio:.3g}x", flush=True)
    kinds = {"perfect": None, "slow": SLOW, "borderline": source}
    rows = [row for load in ("quiet", "two hogs") for row in grade(kinds, load, gradings)]
    write(TABLE, FIELDS, rows)
    TABLE.with_suffix(".md").write_text(table(rows, ratio))


if __name__ == "__main__":
    main()
