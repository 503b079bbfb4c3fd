"""What 5,000 students and all units take, on one machine and on a cluster; from measured costs; writes class_size.md.

    python benchmarks/class_size.py [--check N]      a quarter of an hour; as root, or where a control group can be made

Each unit's solution is graded on one core, as a worker of `course grade` does it: the first time, with what is done
once on each machine, and once more. The one writer of grades is timed with what came out. A simulation of the engine
(`autograder/classroom/engine.py`) with these costs gives the hours. It is held to a real run: N solutions of unit 05.
"""

import argparse
import heapq
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from _table import machine
from _unit import COURSE, UNITS
from class_cost import MOST, UNIT, WAYS, control_group, cost, seconds_in
from nbgrader.api import Gradebook

from autograder.classroom.execution import Executed, Order, execute
from autograder.classroom.replay import Course
from autograder.classroom.roll import Unit
from autograder.doors import solved_programs
from autograder.doors.box.kernels import stop

sys.path.insert(0, str(COURSE / "autograder" / "tests"))

from _postgresql import server, why_none

STUDENTS = 5000
CLUSTERS = (10, 100, 1000)  # workers


class Costs(NamedTuple):
    """Processor seconds for a unit: of a worker for each submission, once on each machine, of the writer for each."""

    each: float
    once: float
    write: float


def make_course(folder: Path, students: int, units: list[str]) -> None:
    """A course in which everybody has handed in the solutions."""
    shutil.copy(COURSE / "nbgrader_config.py", folder)
    for unit in units:
        shutil.copytree(COURSE / "solutions" / unit, folder / "solutions" / unit)
        for number in range(students):
            place = folder / "submitted" / f"student-{number:04}" / unit
            place.mkdir(parents=True)
            for notebook in (COURSE / "solutions" / unit).glob("*.ipynb"):
                shutil.copy(notebook, place)


def measured(folder: Path, used: Callable[[], float]) -> tuple[dict[str, Costs], float | None]:
    """The costs of all units, and what the writer takes with a PostgreSQL server on this machine.

    Arguments:
      used: the processor seconds of this process and of all that it has started, up to now.
    """
    os.chdir(folder)
    solved_programs.KEPT = folder / "programs"
    course, found = Course([]), {}
    graded: list[tuple] = []
    for name in UNITS:
        unit = Unit(name, course.directory, course.parent)
        (submission,) = unit.submissions()
        order = unit.order(submission, course.conditions)
        if name == UNITS[0]:
            execute(order)  # and the process that kernels are forked from is there
            shutil.rmtree(folder / "programs", ignore_errors=True)
        first, _ = _timed(used, order)
        each, executed = _timed(used, order)
        _write(course, submission, executed)  # the unit is registered now
        began = time.process_time()
        _write(course, submission, executed)
        found[name] = Costs(each, max(0.0, first - each), time.process_time() - began)
        graded.append((submission, executed))
        print(name, found[name], flush=True)
    stop()
    if why_none():
        return found, None
    with server() as url:
        other = Course([f"--CourseDirectory.db_url={url}"])
        for submission, executed in graded:
            _write(other, submission, executed)
        began = time.perf_counter()
        for submission, executed in graded:
            _write(other, submission, executed)
        on_server = (time.perf_counter() - began) / len(graded)
    return found, on_server


def _timed(used: Callable[[], float], order: Order) -> tuple[float, Executed]:
    began = used()
    executed = execute(order)
    time.sleep(1)  # its box ends a moment later
    return used() - began, executed


def _write(course: Course, submission, executed: Executed) -> None:
    if failed := course.write(submission, executed).failed:
        raise SystemExit(failed)


def simulated(each: list[float], write: list[float], workers: int) -> float:
    """Seconds until all is written, if submissions take so long and go out in this order.

    As in the engine, one process hands out and writes: free workers get work, then what has come back is written.
    """
    now, running, back = 0.0, [], []
    waiting = list(zip(each, write, strict=True))[::-1]
    while waiting or running:
        while waiting and len(running) < workers:
            taken, written = waiting.pop()
            heapq.heappush(running, (now + taken, written))
        now += sum(back)
        now, back = max(now, running[0][0]), []
        while running and running[0][0] <= now:
            back.append(heapq.heappop(running)[1])
    return now + sum(back)


def table(costs: dict[str, Costs]) -> list[str]:
    """The lines about one machine and about clusters."""
    units = list(costs.values())
    each, write = mean(u.each for u in units), mean(u.write for u in units)
    count, once = STUDENTS * len(units), sum(u.once for u in units)
    lines = ["| workers | hours | of these the writer works | workers compute | processor hours that wait |"]
    lines += ["|---|---|---|---|---|"]
    cores = os.cpu_count() or 1
    hours = (count * (each + write) + once) / cores / 3600  # there the writer shares the cores
    lines.append(f"| this machine, {cores} | {hours:.0f} | {count * write / 3600:.1f} | 100 % | 0 |")
    for workers in CLUSTERS:
        taken = [u.each for u in units for _ in range(STUDENTS)]
        written = [u.write for u in units for _ in range(STUDENTS)]
        hours = (simulated(taken, written, workers) + once) / 3600
        busy = sum(taken) / 3600 / workers / hours
        wait = hours * workers * (1 - busy)
        lines.append(f"| {workers} | {hours:.1f} | {count * write / 3600:.1f} | {100 * busy:.0f} % | {wait:.0f} |")
    return lines


def page(costs: dict[str, Costs], on_server: float | None, checked: list[str]) -> str:
    units = list(costs.values())
    each, write = mean(u.each for u in units), mean(u.write for u in units)
    count = STUDENTS * len(units)
    other = "" if on_server is None else f" On a PostgreSQL server on the same machine it takes {on_server:.2f} s."
    lines = [
        f"# {STUDENTS:,} students and {len(units)} units",
        "",
        f"Measured on: {machine({version('jax')})}, distributed {version('distributed')}, nbgrader "
        f"{version('nbgrader')}. Load average at the end: {os.getloadavg()[0]:.1f}. Seconds are those of a processor.",
        "Every submission is the solution, which takes the longest; the hours are an upper bound for a real class.",
        "",
        "| unit | a worker, each submission | once on each machine | the writer, each |",
        "|---|---|---|---|",
        *(f"| {name} | {u.each:.2f} | {u.once:.1f} | {u.write:.2f} |" for name, u in costs.items()),
        f"| mean | {each:.2f} | {mean(u.once for u in units):.1f} | {write:.2f} |",
        "",
        f"{count:,} submissions take {count * each / 3600:.0f} hours of workers' cores, and {count * write / 3600:.1f} "
        f"of the one writer.{other}",
        "",
        *table(costs),
        "",
        f"The first bottleneck is the writer: it keeps {each / write:.0f} workers busy, as many as fit into one "
        f"submission's {each:.1f} s at {write:.2f} s each. More workers end no sooner than the "
        f"{count * write / 3600:.1f} hours that it needs; the last column is what they cost for nothing. One process "
        "writes, so that nbgrader's own code may do it. Copies of the course's folder, one for each unit, have writers "
        "of their own.",
        "",
        *checked,
    ]
    return "\n".join(lines) + "\n"


def check(costs: Costs, students: int) -> list[str]:
    """What a real run says of the model."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "one").mkdir()
        make_course(folder / "one", 1, [UNIT])
        cost(WAYS[MOST], folder / "one")  # and the solution's programs are kept
        start = cost([*WAYS[MOST], "--again"], folder / "one")
        make_course(folder, students, [UNIT])
        run = cost(WAYS[MOST], folder)
        with Gradebook(f"sqlite:///{folder}/gradebook.db", "just-in-time") as gradebook:
            graded = sum(row["score"] == row["max_score"] for row in gradebook.submission_dicts(UNIT))
    assert start.used is not None and run.used is not None
    each = costs.each + costs.write
    expected = start.used + (students - 1) * each
    wall = start.wall + (students - 1) * each / 2
    return [
        f"Checked: {students} solutions of unit 05, graded with two workers here, of which {graded} have all points: "
        f"{run.used:.0f} processor seconds, {expected:.0f} by these costs and a class of one ({start.used:.0f}): "
        f"{100 * (run.used / expected - 1):+.0f} %. It took {run.wall:.0f} s; {wall:.0f} s had the machine been quiet, "
        f"but other programs used {run.others / run.wall:.1f} of its cores.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=int, default=50, help="submissions of the run that the model is held to")
    asked = parser.parse_args()
    with control_group() as group, tempfile.TemporaryDirectory() as place:
        if group is None:
            raise SystemExit("No control group can be made here; run this as root.")
        members, used, scale = group
        old = members.parents[1] / "cgroup.procs"
        make_course(Path(place), 1, UNITS)
        members.write_text(str(os.getpid()))
        try:
            costs, on_server = measured(Path(place), lambda: seconds_in(used, scale))
        finally:
            os.chdir(COURSE)
            old.write_text(str(os.getpid()))
    text = page(costs, on_server, check(costs[UNIT], asked.check))
    Path(__file__).with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
