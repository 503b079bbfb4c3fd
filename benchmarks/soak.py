"""A grader that is killed again and again: is every grade as if nobody had disturbed it? Writes soak.md.

    python benchmarks/soak.py [--students N] [--kills N] [--seed N]

A class of mixed submissions to a small unit: all the spoilt ones of `autograder/tests/test_faults.py`, what reaches
out and what does harm of `autograder/tests/attacks/`, and honest, half right, wrong and untouched ones. `nbgrader
autograde` grades it in peace, and so does `course grade` with two workers. Then each of them is started and killed
at moments drawn by chance, in turn by SIGKILL and by SIGTERM, and at last left to finish. Everything runs in the box,
which has to be there.
"""

import argparse
import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import psutil
from _table import machine
from _unit import COURSE
from nbgrader.api import Gradebook

sys.path.insert(0, str(COURSE / "autograder" / "tests"))

from _tiny_unit import ANSWERS, LAZY, NAME, UNIT, handed_in, make_course
from test_attacks import HARMING, REACHING, student, submission
from test_faults import FAULTS, honest

# The guard would leave out what is to run here. A cell is given more time than it takes on a busy machine.
SETTINGS = ["--RunNotebook.guard=False", "--RunNotebook.seconds=10"]
SETTINGS += ["--RunNotebook.memory=1", "--RunNotebook.disk=0.05", "--RunNotebook.processes=64"]
GRADE = "from autograder.classroom.command import main; main()"
WAYS = {
    "`nbgrader autograde`": ["-m", "nbgrader", "autograde", UNIT, *SETTINGS],
    "`course grade --workers 2`": ["-c", GRADE, UNIT, "--workers", "2", *SETTINGS],
}
PLAIN = {
    "honest": ANSWERS,
    "half": {"f": ANSWERS["f"]},
    "wrong": ANSWERS | {"g": "def g(x):\n    return x + x"},
    "untouched": LAZY,
}
SPOILT = [cell for cell in REACHING + HARMING if "later" not in cell.metadata["name"]]  # by chance it dies in time
KEPT = "just-in-time-cores"  # the locks of this machine's cores, which are there for every grader
PATIENCE = 30  # seconds until what a grader has started must have ended
_ADOPT = 36  # prctl's PR_SET_CHILD_SUBREAPER: whoever loses his parent becomes our child

Grades = dict[tuple[str, str], float | None]


class Soaked(NamedTuple):
    """What became of a class; `grades` are (student, check) -> points, None where a grade is missing."""

    way: str
    kills: int
    seconds: float
    grades: Grades
    running: list[str]
    lying: list[str]


def make_class(folder: Path, students: int) -> None:
    """A course with so many submissions: the spoilt ones and the attacks first, plain ones for the rest."""
    make_course(folder, judged=True)
    texts: dict[str, bytes] = {}
    for name, (_, spoil) in FAULTS.items():
        notebook = honest()
        text = spoil(notebook)
        text = json.dumps(notebook) if text is None else text
        texts[f"fault-{name}"] = text if isinstance(text, bytes) else text.encode()
    for cell in SPOILT:
        texts[student(cell)] = json.dumps(submission(cell.source)).encode()
    for number in range(students - len(texts)):
        kind = list(PLAIN)[number % len(PLAIN)]
        texts[f"{kind}-{number:03}"] = json.dumps(handed_in(PLAIN[kind])).encode()
    names = sorted(texts)
    random.Random(0).shuffle(names)
    for number, name in enumerate(names[:students]):
        place = folder / "submitted" / f"{number:03}-{name}" / UNIT
        place.mkdir(parents=True)
        (place / f"{NAME}.ipynb").write_bytes(texts[name])


def grades(folder: Path) -> Grades:
    """What the gradebook holds of everybody who has handed in."""
    found: Grades = {}
    with Gradebook(f"sqlite:///{folder}/gradebook.db", "just-in-time") as gradebook:
        graded = {s.student.id: s for s in gradebook.assignment_submissions(UNIT)}
        for place in sorted((folder / "submitted").iterdir()):
            if place.name not in graded:
                found[place.name, ""] = None
                continue
            for grade in graded[place.name].notebooks[0].grades:
                found[place.name, grade.name] = None if grade.needs_manual_grade else grade.auto_score
    return found


def running() -> list[str]:
    """What has been started here and has not ended, whoever started it."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                process.wait(0)
            else:
                found.append(" ".join(process.cmdline())[:80] or process.name())
        except (psutil.Error, OSError):
            continue
    return found


def graded(way: str, folder: Path, moments: list[float]) -> Soaked:
    """Grade the course in a folder; graders are killed so many seconds after their start, then one finishes."""
    temporary = folder.with_name(f"{folder.name}-tmp")
    temporary.mkdir()
    kills, began = 0, time.perf_counter()
    for moment in [*moments, None]:
        with open(folder / "log", "ab") as log:
            grader = subprocess.Popen(
                [sys.executable, *WAYS[way]],
                cwd=folder,
                env={**os.environ, "TMPDIR": str(temporary)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            grader.wait(moment)
        except subprocess.TimeoutExpired:
            grader.send_signal(signal.SIGTERM if kills % 2 else signal.SIGKILL)
            grader.wait()
            kills += 1
    seconds = time.perf_counter() - began
    end = time.monotonic() + PATIENCE
    while (left := running()) and time.monotonic() < end:
        time.sleep(0.1)
    lying = [path for path in temporary.iterdir() if path.name != KEPT]
    lying += [path for path in folder.rglob(".*.being-graded")]
    return Soaked(way, kills, seconds, grades(folder), left, sorted(path.name for path in lying))


def row(soaked: Soaked, peace: Grades, way: str) -> str:
    """A line of the table."""
    names = soaked.grades.keys() | peace.keys()
    other = sorted(name for name in names if soaked.grades.get(name) != peace.get(name))
    for name in other:
        print(way, name, peace.get(name), "->", soaked.grades.get(name), flush=True)
    without = sum(points is None for points in soaked.grades.values())
    counts = [len(soaked.grades), len(other), without, len(soaked.running), len(soaked.lying)]
    return " | ".join([f"| {way}", str(soaked.kills), f"{soaked.seconds:.0f}", *map(str, counts)]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=300)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit("stopped"))
    ctypes.CDLL(None).prctl(_ADOPT, 1, 0, 0, 0)
    lines = [
        "# A grader that is killed again and again",
        "",
        f"Run on: {machine({version('jax')})}, nbgrader {version('nbgrader')}, distributed {version('distributed')}.",
        f"{asked.students} submissions to a unit of two tasks: {len(FAULTS)} spoilt ones, {len(SPOILT)} that reach "
        "out of their kernel or do harm, the rest honest, half right, wrong and untouched, in a mixed order.",
        "Graders were killed at moments drawn by chance, in turn by SIGKILL and SIGTERM; then one was left to finish.",
        "Every grade is compared with the first line's.",
        "",
        "| | killed | seconds in all | grades | other than in peace | missing | left running | left lying |",
        "|---|---|---|---|---|---|---|---|",
    ]
    draw = random.Random(asked.seed)
    peace: Grades = {}
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        make_class(place / "course", asked.students)
        for number, way in enumerate(WAYS):
            longest = 0.0
            for kills in (0, asked.kills):
                folder = place / f"{number}-{kills}"
                shutil.copytree(place / "course", folder)
                soaked = graded(way, folder, [draw.uniform(0.1, longest) for _ in range(kills)])
                longest = 1.5 * soaked.seconds / asked.kills
                peace = peace or soaked.grades
                lines.append(row(soaked, peace, way + ("" if kills else ", in peace")))
                print(lines[-1], *soaked.running, *soaked.lying, sep="\n", flush=True)
    finally:
        for process in psutil.Process().children(recursive=True):
            process.kill()
        shutil.rmtree(place)
    Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
