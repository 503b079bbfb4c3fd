"""Does the course hold on other machines? Every lesson and solution in a process of its own, one condition a row.

    python benchmarks/machines.py                     what has no field yet, on the Python it is run with; half an hour
    python benchmarks/machines.py --condition SSE4_2  one row (may be repeated)
    python benchmarks/machines.py --unit 10           one column (may be repeated)
    python benchmarks/machines.py --every-unit        the columns, too, that a row leaves out by default; hours
    python benchmarks/machines.py --table             write machines.md from what has been measured

Writes machines.csv and machines.md. A field counts as long as its notebook has the code that was run: it can be stopped
and resumed. A lesson is well when it runs to its end with nothing on standard error, an exercise when its solution
earns every point. Needs Linux, where all the other conditions can be played.
"""

import argparse
import contextlib
import ctypes
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import jax
from _notebooks import Result, run_notebook
from _table import machine, read, write

from autograder.doors.graded_notebook import read_notebook

HERE = Path(__file__).parent
COURSE = HERE.parent
TABLE = Path(__file__).with_suffix(".csv")
FIELDS = ["condition", "unit", "kind", "jax", "text", "points", "possible", "failure"]
IDENTITY = FIELDS[:5]
UNITS = tuple(sorted(folder.name for folder in (COURSE / "solutions").iterdir() if folder.is_dir()))
KINDS = ("lesson", "solution")

PR_CAPBSET_DROP = 24
Place = tuple[Path, dict[str, str]]  # the course's folder, and environment variables to add


def variables(**environment: str) -> Callable[[], contextlib.AbstractContextManager[Place]]:
    """A condition that is a matter of environment variables."""
    return lambda: contextlib.nullcontext((COURSE, environment))


def instructions(newest: str):
    """XLA compiles for a processor whose newest instructions are these."""
    return variables(XLA_FLAGS=f"--xla_cpu_max_isa={newest}")


@contextlib.contextmanager
def one_core() -> Iterator[Place]:
    """Everything on one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    yield COURSE, {}


@contextlib.contextmanager
def startup(source: str) -> Iterator[Place]:
    """Each kernel runs `source` before its first cell."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "profile_default/startup/condition.py")
        script.parent.mkdir(parents=True)
        script.write_text(f"import sys\nsys.path.insert(0, {str(HERE)!r})\n{source}", encoding="utf-8")
        yield COURSE, {"IPYTHONDIR": folder}


NATIVE_FLOAT16 = "import _native_float16\n_native_float16.emulate()\n"
# As many devices as a host with accelerators may have: the lesson then gets more than the eight it asks for.
SIXTEEN_DEVICES = """
import jax as _jax
_jax.config.update = lambda name, value, _update=_jax.config.update: _update(
    name, 16 if name == "jax_num_cpu_devices" else value
)
"""


@contextlib.contextmanager
def odd_folder() -> Iterator[Place]:
    """The course, package included, in a folder whose name has a space and an umlaut."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "Übungen für alle")
        for name in ("autograder", "lessons", "exercises", "solutions"):
            shutil.copytree(COURSE / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        yield root, {"PYTHONPATH": str(root)}


@contextlib.contextmanager
def read_only_home() -> Iterator[Place]:
    """A home folder in which nothing can be made."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        # Modes do not stop root: what this thread starts from now on has no CAP_DAC_OVERRIDE (1).
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, 1, 0, 0, 0)
        yield COURSE, {"HOME": folder}


@contextlib.contextmanager
def no_schedstat() -> Iterator[Place]:
    """No scheduler statistics and no pinning, in the kernel and in the measuring process."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE / "_no_schedstat.py", Path(folder, "sitecustomize.py"))
        yield COURSE, {"PYTHONPATH": folder}


class Condition(NamedTuple):
    """A row of the table. `units` are the columns that could feel it; `kinds` what of them is run."""

    meaning: str
    enter: Callable[[], contextlib.AbstractContextManager[Place]]
    units: str = " ".join(unit[:2] for unit in UNITS)
    kinds: tuple[str, ...] = KINDS


DIGITS = "09 10 11"  # rounding, fusions and buffers: what an instruction set decides
NUMBERS = "03 04 06 07 09 10 11 14 15"  # whatever compiles another dtype, or compares numbers, programs or times
CLOCKS = "01 05 06 07 09 16"  # exercises that are graded by the clock
FILES = "09 12 16"  # files, folders and processes
CONDITIONS = {
    "own": Condition("as the machine is (the test run has all units)", variables(), "10"),
    "SSE4_2": Condition("`--xla_cpu_max_isa=SSE4_2`: no FMA, no float16", instructions("SSE4_2"), NUMBERS),
    "AVX": Condition("`--xla_cpu_max_isa=AVX`: no FMA", instructions("AVX"), DIGITS),
    "AVX2": Condition("`--xla_cpu_max_isa=AVX2`", instructions("AVX2"), "10"),
    "AVX512": Condition("`--xla_cpu_max_isa=AVX512`", instructions("AVX512"), "10"),
    "float16": Condition("float16 has arithmetic of its own (played)", lambda: startup(NATIVE_FLOAT16), "10"),
    "one core": Condition("everything on one core", one_core, "13 14 16"),
    "8 devices": Condition("eight CPU devices from the start", variables(JAX_NUM_CPU_DEVICES="8"), "05 09 11 12"),
    "16 devices": Condition("sixteen CPU devices", lambda: startup(SIXTEEN_DEVICES), "13"),
    "odd folder": Condition("the course in `Übungen für alle/`", odd_folder, FILES),
    "LANG=C": Condition("`LANG=C LC_ALL=C`", variables(LANG="C", LC_ALL="C"), "12"),
    "ASCII": Condition(
        "the same, and Python believes it: text without an encoding is ASCII",
        variables(LANG="C", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"),
        FILES,
    ),
    "read-only home": Condition("nothing can be written below `~`", read_only_home, "12 14"),
    "no schedstat": Condition("no scheduler statistics, no pinning (as macOS)", no_schedstat, CLOCKS, ("solution",)),
}


def path_of(root: Path, unit: str, kind: str) -> Path:
    """The notebook of a unit, in the course at `root`."""
    return root / (f"lessons/{unit}.ipynb" if kind == "lesson" else f"solutions/{unit}/{unit[3:]}.ipynb")


def text_of(unit: str, kind: str) -> str:
    """A digest of a notebook's code as it is now."""
    cells = [cell.source for cell in read_notebook(path_of(COURSE, unit, kind)).cells if cell.cell_type == "code"]
    return hashlib.sha256("\n".join(cells).encode()).hexdigest()[:12]


def fields(conditions: list[str], units: list[str], every_unit: bool) -> Iterator[tuple[str, str, str]]:
    """(condition, unit, kind) of everything that was asked for, row by row."""
    for name in conditions:
        for unit in UNITS:
            if unit[:2] in units and (every_unit or unit[:2] in CONDITIONS[name].units.split()):
                for kind in CONDITIONS[name].kinds:
                    yield name, unit, kind


def measure(name: str, unit: str, kind: str) -> dict:
    """Run one notebook under one condition."""

    def run() -> Result:
        with CONDITIONS[name].enter() as (root, environment):
            return run_notebook(path_of(root, unit, kind), environment)

    # In a thread of its own: what a condition takes away from it, its processes lack, and the next thread has again.
    with ThreadPoolExecutor(1) as threads:
        result = threads.submit(run).result()
    return {"points": f"{result.points:g}", "possible": f"{result.possible:g}", "failure": result.failure}


def is_green(row: dict) -> bool:
    return not row["failure"] and row["points"] == row["possible"]


def save(measured: dict) -> None:
    places = {name: place for place, name in enumerate(CONDITIONS)}
    rows = [row for row in measured.values() if row["condition"] in places]
    write(TABLE, FIELDS, sorted(rows, key=lambda row: (row["jax"], places[row["condition"]], row["unit"], row["kind"])))


def table(rows: list[dict]) -> str:
    """The measurements as markdown: conditions down, units across; below, what went wrong in a red field."""
    lines = [
        "# The course on other machines",
        "",
        f"Run on: {machine({row['jax'] for row in rows})}, newest instructions {newest_instructions()}. Everything but "
        "the machine's own is played on it.",
        "",
        "A field: the lesson, then the points of the solution. An empty one was not run: as far as reading tells, the "
        "condition makes no difference to it. `--every-unit` runs it too. ° stands where the notebook's code has "
        "changed since.",
    ]
    numbers = [unit[:2] for unit in UNITS]
    for version in sorted({row["jax"] for row in rows}):
        found = {(row["condition"], row["unit"], row["kind"]): row for row in rows if row["jax"] == version}
        lines += ["", f"## JAX {version}", "", f"| | {' | '.join(numbers)} |", "|---|" + ":-:|" * len(numbers)]
        for name, condition in CONDITIONS.items():
            cells = [" ".join(_field(found.get((name, unit, kind))) for kind in KINDS).strip() for unit in UNITS]
            if any(cells):
                lines.append(f"| **{name}**: {condition.meaning} | {' | '.join(cells)} |")
        red = [row for row in found.values() if not is_green(row)]
        lines += ["", "Red:", ""] if red else ["", "No field is red."]
        lines += [f"- {row['condition']}, {row['unit']}, {row['kind']}: {row['failure']}" for row in red]
    return "\n".join(lines).rstrip() + "\n"


def _field(row: dict | None) -> str:
    if row is None:
        return ""
    mark = "" if row["text"] == text_of(row["unit"], row["kind"]) else "°"
    if row["kind"] == "lesson":
        return mark + ("✓" if is_green(row) else "**✗**")
    return mark + (row["points"] if is_green(row) else f"**{row['points']} of {row['possible']}**")


def newest_instructions() -> str:
    """The newest of the instruction sets that XLA distinguishes, as the system lists them."""
    info = Path("/proc/cpuinfo")
    flags = set(info.read_text().split()) if info.exists() else set()
    names = ["avx512_fp16", "amx_bf16", "avx512_bf16", "avx512_vnni", "avx512f", "avx2", "avx", "sse4_2"]
    return next((name for name in names if name in flags), "unknown")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--condition", action="append", choices=CONDITIONS, help="a row, all without")
    parser.add_argument("--unit", action="append", help="the number of a unit, all without")
    parser.add_argument("--every-unit", action="store_true", help="leave no column of a row out")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    asked = parser.parse_args()
    measured = {tuple(row[field] for field in IDENTITY): row for row in read(TABLE)}
    chosen = asked.condition or list(CONDITIONS), asked.unit or [unit[:2] for unit in UNITS], asked.every_unit
    for name, unit, kind in [] if asked.table else fields(*chosen):
        identity = (name, unit, kind, jax.__version__, text_of(unit, kind))
        if identity in measured and is_green(measured[identity]):
            continue
        row = dict(zip(IDENTITY, identity, strict=True)) | measure(name, unit, kind)
        measured = {key: old for key, old in measured.items() if key[:4] != identity[:4]}  # of an earlier text
        measured[identity] = row
        print("ok " if is_green(row) else "RED", name, unit, kind, row["points"], row["failure"], flush=True)
        save(measured)
    save(measured)
    TABLE.with_suffix(".md").write_text(table(list(measured.values())), encoding="utf-8")


if __name__ == "__main__":
    main()
