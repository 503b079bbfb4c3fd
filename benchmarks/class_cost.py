"""What a submission costs when a class is graded, by nbgrader and by `course grade`; writes class_cost.md.

    python benchmarks/class_cost.py [--students 12,100,...] [--rounds N]

The same class for each: copies of the solution of unit 05 in which fewer or more tasks are solved. A class of the first
size is graded every way, larger ones by `course grade` with two workers alone: does a submission cost the same there?
The floor is what the notebooks' own cells take (see `_floor.py`). Every way has graded one submission before, which
is not counted: Python has compiled its libraries then, and JAX the solution's programs (`doors/solved_programs.py`).

Processor seconds are those of a control group, which holds every process that a command starts, boxes and measuring
processes included; without the right to make one (as root), that column is empty. Memory is looked at twice a second:
of a worker and all that it has started, pages that several share counted in parts. The grades must be the same.
"""

import argparse
import contextlib
import itertools
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import nbformat
import psutil
from _table import machine
from _unit import COURSE, unit_as_built
from nbgrader.api import Gradebook

from autograder.doors.graded_notebook import nbgrader_metadata, read_notebook

UNIT, NOTEBOOK, CLOCK = "05_the_cache", "the_cache", "bucket-speed"
GRADE = "from autograder.classroom.command import main; main()"
FLOOR, STOCK, MOST = "the cells alone: the floor", "`nbgrader autograde`, its own settings", "`course grade`, 2 workers"
WAYS = {
    FLOOR: [str(Path(__file__).with_name("_floor.py")), UNIT],
    STOCK: ["-m", "nbgrader", "autograde", UNIT],
    "`nbgrader autograde`, the course's": ["-m", "nbgrader", "autograde", UNIT],
    "`course grade`, 1 worker": ["-c", GRADE, UNIT, "--workers", "1"],
    MOST: ["-c", GRADE, UNIT, "--workers", "2"],
}
# But for the names of two folders.
OF_NBGRADER = """c = get_config()
c.CourseDirectory.course_id = "just-in-time"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
"""
LOOK = 0.5  # seconds between two looks at the memory
_numbers = itertools.count(1)


class Cost(NamedTuple):
    """Of a command: seconds by the wall, of processors (None: unknown), and of processors that others used meanwhile;
    bytes of its largest worker with all that this has started."""

    wall: float
    used: float | None
    others: float
    memory: int


@contextmanager
def control_group() -> Iterator[tuple[Path, Path, float] | None]:
    """The file that a process writes its number into to be counted; where its time stands; how many make a second.

    None where none can be made.
    """
    name = f"class-cost-{os.getpid()}-{next(_numbers)}"
    old, new = Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup")
    folder = (old if old.exists() else new) / name
    try:
        folder.mkdir()
    except OSError:
        yield None
        return
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


def cost(command: list[str], folder: Path) -> Cost:
    """What a command of Python's, and all that it starts, costs."""
    with control_group() as group:
        members, used, scale = group or (Path(os.devnull), None, 1.0)
        busy, began = _busy(), time.perf_counter()
        with subprocess.Popen(
            ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(members), sys.executable, *command],
            cwd=folder,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            peaks = [0]
            watcher = threading.Thread(target=_watch, args=[process, GRADE in command, peaks], daemon=True)
            watcher.start()
            said, _ = process.communicate()
            seconds = time.perf_counter() - began
            watcher.join()
        if process.returncode:
            raise SystemExit(said)
        time.sleep(0.5)  # boxes end a moment after the command
        own = seconds_in(used, scale) if used else None
        return Cost(seconds, own, max(0.0, _busy() - busy - (own or 0)), max(peaks))


def seconds_in(used: Path, scale: float) -> float:
    """What a control group has used up to now."""
    found = re.search(r"(?:usage_usec )?(\d+)", used.read_text())
    assert found
    return float(found[1]) / scale


def _environment() -> dict[str, str]:
    """nbgrader starts `alembic` from the PATH, and Python keeps what it has compiled of a library, as pip does."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def _busy() -> float:
    """Seconds for which this machine's processors have worked."""
    times = psutil.cpu_times()
    return times.user + times.nice + times.system


def _watch(process: subprocess.Popen, has_workers: bool, peaks: list[int]) -> None:
    """Note, until it ends, how much memory its largest worker holds; without workers, it is the worker."""
    while process.poll() is None:
        with contextlib.suppress(psutil.Error):
            command = psutil.Process(process.pid)
            workers = command.children() if has_workers else [command]
            peaks.append(max((sum(map(_memory, [w, *w.children(recursive=True)])) for w in workers), default=0))
        time.sleep(LOOK)


def _memory(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error, OSError):
        return process.memory_full_info().pss
    return 0


def make_class(folder: Path, students: int, way: str = "") -> None:
    """The course with so many submissions: the first has nothing solved, the last everything."""
    shutil.copy(COURSE / "nbgrader_config.py", folder)
    shutil.copytree(COURSE / "solutions" / UNIT, folder / "solutions" / UNIT)
    if way == STOCK:
        (folder / "nbgrader_config.py").write_text(OF_NBGRADER)
        cost(["-m", "nbgrader", "generate_assignment", UNIT], folder)
    answers = {task: cell.source for task, cell in unit_as_built(UNIT).answers.items()}
    for number in range(students):
        solved = dict(list(answers.items())[: round(len(answers) * number / max(1, students - 1))])
        notebook = read_notebook(COURSE / "exercises" / UNIT / f"{NOTEBOOK}.ipynb")
        for cell in notebook.cells:
            if nbgrader_metadata(cell).get("solution"):
                cell.source = solved.get(cell.metadata.nbgrader.grade_id, cell.source)
        place = folder / "submitted" / f"student-{number:04}" / UNIT
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


class Graded(NamedTuple):
    """A class that was graded; the floor gives no grades and shows no ratio."""

    cost: Cost
    grades: dict[tuple[str, str], float]
    ratios: list[float]


def graded(way: str, students: int) -> Graded:
    """Grade a new class."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_class(folder, students, way)
        spent = cost(WAYS[way], folder)
        return Graded(spent, {} if way == FLOOR else grades(folder), ratios(folder))


def row(way: str, students: int, all_graded: list[Graded], floor: float | None) -> str:
    """A line of the table."""
    costs = [each.cost for each in all_graded]
    wall = statistics.mean(cost.wall for cost in costs) / students
    cells = [way, str(students), "", "", f"{wall:.2f}", f"{60 / wall:.1f}"]
    if (used := _used(all_graded, students)) is not None:
        cells[2] = f"{used:.2f}"
        cells[3] = "" if floor is None or way == FLOOR else f"{used - floor:.2f}"
    cells.append(f"{max(cost.memory for cost in costs) / 2**20:.0f}")
    read = [ratio for each in all_graded for ratio in each.ratios]
    cells.append(f"{statistics.median(read):.3g} ({min(read):.3g} to {max(read):.3g})" if read else "")
    return f"| {' | '.join(cells)} |"


def _used(all_graded: list[Graded], students: int) -> float | None:
    used = [each.cost.used for each in all_graded]
    return None if None in used else statistics.mean(used) / students


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", default="12", help="sizes of classes: 12,100")
    parser.add_argument("--rounds", type=int, default=1)
    asked = parser.parse_args()
    first, *larger = map(int, asked.students.split(","))
    for way in WAYS:  # not counted: Python compiles what it imports, JAX the solution's programs
        graded(way, 1)
    found: dict[tuple[str, int], list[Graded]] = {}
    for number in range(asked.rounds):
        for way in sorted(WAYS, reverse=bool(number % 2)):
            found.setdefault((way, first), []).append(graded(way, first))
            print(way, first, found[way, first][-1].cost, flush=True)
    for students in larger:
        found[MOST, students] = [graded(MOST, students)]
        print(MOST, students, found[MOST, students][-1].cost, flush=True)
    seen = [each.grades for (way, students), all_graded in found.items() if students == first for each in all_graded]
    seen = [points for points in seen if points]
    if any(points != seen[0] for points in seen):
        raise SystemExit("the grades differ")
    costs = [each.cost for all_graded in found.values() for each in all_graded]
    others = sum(cost.others for cost in costs) / sum(cost.wall for cost in costs)
    floor = _used(found[FLOOR, first], first)
    libraries = f"distributed {version('distributed')}, nbgrader {version('nbgrader')}"
    lines = [
        "# What a submission costs when a class is graded",
        "",
        f"Measured on: {machine({version('jax')})}, {libraries}. Other programs used {others:.1f} cores meanwhile.",
        f"Submissions of unit 05, from nothing solved to everything; classes of {first} {asked.rounds} times each way: "
        f"{len(seen[0])} grades, the same in all {len(seen)} gradings.",
        "",
        "| | students | processor seconds a submission | over the floor | wall seconds | submissions a minute "
        "| MiB of a worker | ratio of the clock's task |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for way in WAYS:
        lines += [row(way, size, found[key], floor) for key in found if key[0] == way for size in [key[1]]]
    if larger and floor is not None:
        (small, big), last = [found[MOST, size][0].cost for size in (first, larger[-1])], larger[-1]
        further = (big.used - small.used) / (last - first)
        lines += ["", f"From {first} to {last}, each further one costs {further:.2f} s; the first one costs "]
        lines[-1] += f"{small.used - (first - 1) * further:.1f} s, with the start of two workers."
    text = "\n".join(lines) + "\n"
    Path(__file__).with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
