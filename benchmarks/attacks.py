"""Every attack and every fault that the tests know, graded three ways; writes attacks.csv and attacks.md.

    python benchmarks/attacks.py              those that have no row for today's text; some forty minutes for all
    python benchmarks/attacks.py --table      only write attacks.md again

As the course grades (a guard reads cells first, a box holds what runs, a judge has the checks), by the course without
them, and by nbgrader with its own settings. The last two run strangers' code as it is: each of their gradings has a
sandbox of its own (`_sandbox`). What tries to reach others is graded alone, between an honest student who has a grade
and one who has none yet; tricks inside a kernel and spoilt notebooks are graded as classes, and whatever stops one is
taken out of it.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import nbformat
from _sandbox import PACKAGE, Sandbox
from _table import machine, read, write
from _unit import COURSE

sys.path.insert(0, str(COURSE / "autograder" / "tests"))

from _tiny_unit import ALL, NAME, ONLY_F, UNIT, make_course
from test_attacks import HARMING, KERNEL, REACHING, submission
from test_faults import FAULTS, honest

LIMITS = [f"--RunNotebook.{limit}" for limit in ("seconds=5", "memory=1", "disk=0.05", "processes=64")]
WAYS = {
    "the course": LIMITS,
    "without guard and box": [*LIMITS, "--RunNotebook.guard=False", "--RunNotebook.box=False"],
    "nbgrader alone": ["--Execute.timeout=5"],
}
BOXED, _, STOCK = WAYS
SECONDS, PER_STUDENT = 120, 10  # of a grading
FIRST, LAST = "honest", "zoe"  # graded before, and after
PORT = 40_000
SCRIPT = Path(__file__).with_name("_graded_class.py")
TABLE = Path(__file__).with_suffix(".csv")
FIELDS = ["way", "kind", "name", "digest", "points", "stopped", "harm", "reached"]


class Tried(NamedTuple):
    """One submission: its file, what a fair human would give, and whether others are looked at, too."""

    kind: str
    name: str
    content: bytes
    fair: float
    alone: bool

    @property
    def student(self) -> str:
        return "m-" + re.sub(r"\W+", "-", self.name)

    @property
    def digest(self) -> str:
        """Twelve digits that change with its text."""
        return hashlib.sha256(self.content).hexdigest()[:12]


class Found(NamedTuple):
    """What came of it in one way: the points, None for no grade; what it did to others; what it reached."""

    points: float | None
    stopped: bool
    harm: tuple[str, ...] = ()
    reached: bool = False


KINDS = {
    "trick": "tricks in the kernel, above a wrong answer",
    "reach": "reaching out, above a right answer",
    "harm": "doing harm, above a right answer",
    "fault": "spoilt notebooks of honest students",
}


def everything() -> list[Tried]:
    """All that is tried; the words for places are still in it."""
    found = []
    for cell in KERNEL:
        notebook = submission()
        notebook.cells[3].source = f"{cell.source}\n\ndef g(x):\n    return x + x"
        found.append(Tried("trick", cell.metadata["name"], _file(notebook), ONLY_F, False))
    for kind, cells in {"reach": REACHING, "harm": HARMING}.items():
        found += [Tried(kind, cell.metadata["name"], _file(submission(cell.source)), ALL, True) for cell in cells]
    for name, (points, spoil) in FAULTS.items():
        notebook = honest()
        text = spoil(notebook)
        text = json.dumps(notebook) if text is None else text
        content = text if isinstance(text, bytes) else text.encode()
        found.append(Tried("fault", name.replace("_", " "), content, points, False))
    return found


def _file(notebook: nbformat.NotebookNode) -> bytes:
    return nbformat.writes(notebook).encode()


class Classroom:
    """A course in a sandbox, in which the first honest student has a grade."""

    def __init__(self, way: str, place: Path, before: "Classroom | None" = None):
        self.way, self.place = way, place
        self.sandbox = Sandbox(place)
        self.course, self.outside = place / "course", place / "outside"
        if before is None:
            make_course(self.course, judged=way == BOXED)
            if way == STOCK:
                (self.course / "nbgrader_config.py").write_text(_OF_NBGRADER)
            self.outside.mkdir()
            (self.outside / "diary.txt").write_text("secret")
            if way == STOCK:
                self.sandbox.run(
                    [self._python, "-m", "nbgrader", "generate_assignment", UNIT, "--force"], SECONDS, self.course
                )
            self.submit(FIRST, _file(submission()))
            self.grade(1)
        else:
            for old, new in ((before.course, self.course), (before.outside, self.outside)):
                shutil.copytree(old, new, symlinks=True)

    @property
    def _python(self) -> str:
        return str(self.sandbox.python)

    def submit(self, student: str, content: bytes) -> None:
        """Hand in a notebook; the words in it for places become those of this sandbox."""
        package = PACKAGE if self.way == BOXED else self.sandbox.package
        places = {"CLASSROOM": self.course, "PACKAGE": package, "OUTSIDE": self.outside, "PORT": PORT}
        for word, where in places.items():
            content = content.replace(word.encode(), str(where).encode())
        folder = self.course / "submitted" / student / UNIT
        folder.mkdir(parents=True)
        (folder / f"{NAME}.ipynb").write_bytes(content)

    def grade(self, students: int, *more: str) -> str:
        """Grade whoever has no grade, with further settings. Returns what nbgrader said."""
        command, seconds = [str(SCRIPT), str(PORT), UNIT, *WAYS[self.way], *more], SECONDS + PER_STUDENT * students
        if self.way == BOXED:
            return _in_its_box(command, self.course, seconds)
        return self.sandbox.run([self._python, *command], seconds, self.course, SCRIPT)

    def seen(self) -> dict:
        """What has become of the course: `points` and `reached` of each student, `left` running or lying."""
        command = [sys.executable, "-I", str(SCRIPT), "--look"]
        return json.loads(self.sandbox.run(command, SECONDS, self.course, SCRIPT, writes=False))

    def kept_safe(self) -> dict[str, str]:
        """A digest of each file that no submission may change."""
        kept = [self.course / name for name in ("solutions", "exercises", "submitted")]
        kept += [self.course / "autograded" / FIRST, self.outside, self.sandbox.package]
        kept += [self.place / "environment" / "lib"]
        files = [path for folder in kept for path in folder.rglob("*") if "__pycache__" not in path.parts]
        return {
            str(path.relative_to(self.place)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(files)
            if path.is_file() and not path.is_symlink()
        }


# Its own settings, but for the names of two folders.
_OF_NBGRADER = """c = get_config()
c.CourseDirectory.course_id = "course"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
"""


def _in_its_box(command: list[str], folder: Path, seconds: float) -> str:
    """The course's own way needs no sandbox: students' code has a box, and is not run without one."""
    with subprocess.Popen(
        [sys.executable, *command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as grader:
        try:
            return grader.communicate(timeout=seconds)[0].decode(errors="replace")
        finally:
            grader.kill()


def tried_alone(tried: Tried, before: Classroom, place: Path) -> Found:
    """Between two honest students."""
    room = Classroom(before.way, place, before)
    room.submit(tried.student, tried.content)
    room.submit(LAST, _file(submission()))
    safe = room.kept_safe()
    room.grade(2, *([] if before.way == STOCK else ["--RunNotebook.guard=False"]))  # it would leave such lines out
    seen = room.seen()
    points, now = seen["points"], room.kept_safe()
    others = [points[name] for name in (FIRST, LAST) if points.get(name) not in (ALL, None)]
    harm = [f"another student has {other:g} points" for other in others]
    harm += ["the grade of others is gone"] if points.get(FIRST) is None else []
    harm += [f"changed: {_place(name)}" for name in sorted({n for n in safe | now if safe.get(n) != now.get(n)})]
    harm += ["ran in another's kernel"] if LAST in seen["reached"] else []
    harm += [f"left: {what}" for what in sorted(set(seen["left"]))]
    reached = tried.student in seen["reached"] or bool(seen["heard"])
    return Found(points.get(tried.student), points.get(LAST) is None, tuple(dict.fromkeys(harm)), reached)


def _place(path: str) -> str:
    """Where a file lies, as much as a reader wants to know of it."""
    first, second, *_ = (*Path(path).parts, "")
    return {"course": f"{second}/", "environment": "Python's packages", "package": "the package"}.get(first, first)


def tried_in_a_class(all_tried: list[Tried], before: Classroom, place: Path) -> dict[str, Found]:
    """All of them, and the last honest student. Whoever stops the class is taken out of it, and it goes on."""
    room = Classroom(before.way, place, before)
    by_student = {tried.student: tried for tried in all_tried}
    for tried in all_tried:
        room.submit(tried.student, tried.content)
    room.submit(LAST, _file(submission()))
    stopped: set[str] = set()
    while True:
        said = room.grade(len(by_student))
        points = room.seen()["points"]
        if points.get(LAST) is not None:
            break
        reached = [name for name in re.findall(rf"submitted/([^/]+)/{UNIT}", said) if name in by_student]
        if not reached or reached[-1] in stopped:
            print(f"{before.way}: the class ends, and nobody knows why:\n{said[-3000:]}", flush=True)
            break
        stopped.add(reached[-1])
        shutil.rmtree(room.course / "submitted" / reached[-1])
        shutil.rmtree(room.course / "autograded" / reached[-1], ignore_errors=True)
    return {
        tried.name: Found(None if name in stopped else points.get(name), name in stopped)
        for name, tried in by_student.items()
    }


def known(wanted: list[Tried]) -> dict[str, dict[str, Found]]:
    """way -> name -> what was found, of what the table has of today's texts."""
    digests = {tried.name: tried.digest for tried in wanted}
    found: dict[str, dict[str, Found]] = {way: {} for way in WAYS}
    for row in read(TABLE):
        if digests.get(row["name"]) == row["digest"]:
            points = float(row["points"]) if row["points"] else None
            harm = tuple(row["harm"].split("; ")) if row["harm"] else ()
            found[row["way"]][row["name"]] = Found(points, row["stopped"] == "True", harm, row["reached"] == "True")
    return found


def keep(wanted: list[Tried], found: dict[str, dict[str, Found]]) -> None:
    """Write the table."""
    rows = []
    for way in WAYS:
        for tried in (tried for tried in wanted if tried.name in found[way]):
            it = found[way][tried.name]
            points, harm = "" if it.points is None else f"{it.points:g}", "; ".join(it.harm)
            row = [way, tried.kind, tried.name, tried.digest, points, it.stopped, harm, it.reached]
            rows.append(dict(zip(FIELDS, row, strict=True)))
    write(TABLE, FIELDS, rows)


def grade_what_is_missing(everything: list[Tried]) -> None:
    """In all ways; what is found is kept kind by kind."""
    found = known(everything)
    for way in WAYS:
        wanted = [tried for tried in everything if tried.name not in found[way]]
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            place = Path(folder)
            place.chmod(0o755)  # the sandbox is another user's
            if not wanted:
                continue
            before = Classroom(way, place / "before")
            for kind in KINDS:
                in_class = [tried for tried in wanted if tried.kind == kind and not tried.alone]
                if in_class:
                    found[way] |= tried_in_a_class(in_class, before, place / kind)
                    keep(everything, found)
            for tried in wanted:
                if tried.alone:
                    found[way][tried.name] = tried_alone(tried, before, place / "alone")
                    shutil.rmtree(place / "alone")
                print(way, tried.name, found[way][tried.name], sep=" | ", flush=True)
            keep(everything, found)


def counts(kind: str, wanted: list[Tried], found: dict[str, Found]) -> dict[str, int]:
    """How often something went wrong; a fault never wins by a trick, so more than its fair points is unfair, too."""
    of_kind = [(tried, found[tried.name]) for tried in wanted if tried.kind == kind]
    return {
        "won points": sum((it.points or 0) > tried.fair for tried, it in of_kind),
        "got less than is fair": sum(it.points is not None and it.points < least(tried) for tried, it in of_kind),
        "got no grade": sum(it.points is None for _, it in of_kind),
        "reached what is not theirs": sum(it.reached for _, it in of_kind),
        "harmed others": sum(bool(it.harm) for _, it in of_kind),
        "stopped the class": sum(it.stopped for _, it in of_kind),
    }


def least(tried: Tried) -> float:
    """Whoever attacks may lose the task in which he does it, and no other."""
    return tried.fair - ONLY_F if tried.alone else tried.fair


def told(tried: Tried, it: Found) -> str:
    """One field of the table."""
    words = ["no grade" if it.points is None else f"{it.points:g}"]
    words += ["**won**"] if (it.points or 0) > tried.fair else []
    words += ["**unfair**"] if it.points is not None and it.points < least(tried) else []
    words += ["**reached it**"] if it.reached else []
    words += [f"**{what}**" for what in it.harm] + ["**stopped the class**"] * it.stopped
    return ", ".join(words)


def page(wanted: list[Tried], found: dict[str, dict[str, Found]]) -> str:
    """The tables, as Markdown."""
    versions = f"nbgrader {version('nbgrader')}, ipykernel {version('ipykernel')}"
    lines = [
        "# Attacks and faults, graded three ways",
        "",
        f"Graded on: {machine({version('jax')})}, {versions}. A cell had 5 s.",
        "The second and the third way ran in sandboxes of 3 GiB: what fills the memory there stops the class. What",
        "reaches out or does harm is graded without the guard, which would leave those lines out: the box is tried.",
        "",
        "How many of them did what they should not:",
        "",
        f"| | | {' | '.join(WAYS)} |",
        f"|---|---|{'---|' * len(WAYS)}",
    ]
    for kind, title in KINDS.items():
        numbers = {way: counts(kind, wanted, found[way]) for way in WAYS}
        title = f"{sum(tried.kind == kind for tried in wanted)} {title}"
        for what in numbers[STOCK]:
            if any(numbers[way][what] for way in WAYS):
                lines.append(f"| {title} | {what} | {' | '.join(str(numbers[way][what]) for way in WAYS)} |")
                title = ""
    for kind, title in KINDS.items():
        lines += ["", f"## {title[0].upper()}{title[1:]}", "", f"| | fair | {' | '.join(WAYS)} |"]
        lines += [f"|---|---|{'---|' * len(WAYS)}"]
        for tried in (tried for tried in wanted if tried.kind == kind):
            fields = [told(tried, found[way][tried.name]) for way in WAYS]
            lines.append(f"| {tried.name} | {tried.fair:g} | {' | '.join(fields)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    tried = everything()
    if not parser.parse_args().table:
        grade_what_is_missing(tried)
    TABLE.with_suffix(".md").write_text(page(tried, known(tried)))


if __name__ == "__main__":
    main()
