"""What a submission costs: `nbgrader autograde`, and `course grade` with one worker and with two; writes class_cost.md.

    python benchmarks/class_cost.py [--students N] [--rounds N]

The same class for each: copies of the solution of unit 05 in which fewer or more tasks are solved. Processor seconds
are those of a control group, which holds every process that a command starts, boxes and measuring processes included;
it needs the right to make one. The grades must be the same, and the table shows the ratios that the clock's task found.
"""

import argparse
import itertools
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import nbformat
from _table import machine
from _unit import COURSE, unit_as_built
from nbgrader.api import Gradebook

from autograder.doors.graded_notebook import nbgrader_metadata, read_notebook

UNIT, NOTEBOOK, CLOCK = "05_the_cache", "the_cache", "bucket-speed"
GRADE = "from autograder.classroom.command import main; main()"
WAYS = {
    "`nbgrader autograde`": ["-m", "nbgrader", "autograde", UNIT],
    "`course grade`, 1 worker": ["-c", GRADE, UNIT, "--workers", "1"],
    "`course grade`, 2 workers": ["-c", GRADE, UNIT, "--workers", "2"],
}
_numbers = itertools.count(1)


@contextmanager
def control_group() -> Iterator[tuple[Path, Path, float]]:
    """The file that a process writes its number into to be counted; where its time stands; how many make a second."""
    name = f"class-cost-{os.getpid()}-{next(_numbers)}"
    old, new = Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup")
    folder = (old if old.exists() else new) / name
    try:
        folder.mkdir()
    except OSError as error:
        raise SystemExit(f"No control group can be made here ({error.strerror}); run this as root.") from None
    try:
        yield (
            folder / "cgroup.procs",
            *((folder / "cpuacct.usage", 1e9) if old.exists() else (folder / "cpu.stat", 1e6)),
        )
    finally:
        for _ in range(100):  # until its last process has ended
            try:
                folder.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def cost(command: list[str], folder: Path) -> tuple[float, float]:
    """Seconds by the wall, and of processors, of a command and of all that it starts."""
    with control_group() as (members, used, scale):
        began = time.perf_counter()
        done = subprocess.run(
            ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(members), sys.executable, *command],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        seconds = time.perf_counter() - began
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        time.sleep(0.5)  # boxes end a moment after the command
        return seconds, float(re.search(r"(?:usage_usec )?(\d+)", used.read_text())[1]) / scale


def make_class(folder: Path, students: int) -> None:
    """The course with so many submissions: the first has nothing solved, the last everything."""
    shutil.copy(COURSE / "nbgrader_config.py", folder)
    shutil.copytree(COURSE / "solutions" / UNIT, folder / "solutions" / UNIT)
    answers = {task: cell.source for task, cell in unit_as_built(UNIT).answers.items()}
    for number in range(students):
        solved = dict(list(answers.items())[: round(len(answers) * number / max(1, students - 1))])
        notebook = read_notebook(COURSE / "exercises" / UNIT / f"{NOTEBOOK}.ipynb")
        for cell in notebook.cells:
            if nbgrader_metadata(cell).get("solution"):
                cell.source = solved.get(cell.metadata.nbgrader.grade_id, cell.source)
        place = folder / "submitted" / f"student-{number:02}" / UNIT
        place.mkdir(parents=True)
        nbformat.write(notebook, place / f"{NOTEBOOK}.ipynb")


def grades(folder: Path) -> dict[tuple[str, str], float]:
    """(student, check) -> points."""
    found = {}
    with Gradebook(f"sqlite:///{folder}/gradebook.db", "just-in-time") as gradebook:
        for submission in gradebook.assignment_submissions(UNIT):
            for grade in submission.notebooks[0].grades:
                found[submission.student.id, grade.name] = grade.auto_score
    return found


def ratios(folder: Path) -> list[float]:
    """What the clock's task printed, of each submission that it had something to measure in."""
    found = []
    for path in folder.glob(f"autograded/*/{UNIT}/{NOTEBOOK}.ipynb"):
        (cell,) = (c for c in read_notebook(path).cells if nbgrader_metadata(c).get("grade_id") == CLOCK)
        texts = [o.get("text", "") + str(o.get("data", {}).get("text/plain", "")) for o in cell.outputs]
        if said := re.search(r"is ([\d.]+)x faster than", "\n".join(texts)):
            found.append(float(said[1]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=1)
    asked = parser.parse_args()
    times: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    read: dict[str, list[float]] = {way: [] for way in WAYS}
    seen: list[dict] = []
    for number in range(asked.rounds):
        for way in sorted(WAYS, reverse=bool(number % 2)):
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                make_class(folder, asked.students)
                times[way].append(cost(WAYS[way], folder))
                read[way] += ratios(folder)
                seen.append(grades(folder))
                print(way, times[way][-1], sorted(read[way]), flush=True)
    if any(points != seen[0] for points in seen):
        raise SystemExit("the grades differ")
    libraries = f"distributed {version('distributed')}, nbgrader {version('nbgrader')}"
    lines = [
        "# What a submission costs when a class is graded",
        "",
        f"Measured on: {machine({version('jax')})}, {libraries}.",
        f"{asked.students} submissions of unit 05, from nothing solved to everything, {asked.rounds} times each way; "
        f"{len(seen[0])} grades, the same in all {len(seen)} gradings.",
        "",
        "| | processor seconds a submission | wall seconds | submissions a minute | ratio of the clock's task |",
        "|---|---|---|---|---|",
    ]
    for way, taken in times.items():
        wall, used = (statistics.mean(column) / asked.students for column in zip(*taken, strict=True))
        spread = f"{statistics.median(read[way]):.3g} ({min(read[way]):.3g} to {max(read[way]):.3g})"
        lines.append(f"| {way} | {used:.2f} | {wall:.2f} | {60 / wall:.1f} | {spread} |")
    text = "\n".join(lines) + "\n"
    Path(__file__).with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
