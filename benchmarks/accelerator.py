"""The first hour on an accelerator: every lesson, every solution and every speed task on the device that is there.

    python benchmarks/accelerator.py                 everything: one to two hours on a CPU with two cores
    python benchmarks/accelerator.py 09 12           these units only
    python benchmarks/accelerator.py --lower         no notebook is graded or timed; only lowered for cuda and tpu

Writes one page, accelerator_<platform>.md, anew after each unit, so that a run that is stopped leaves what it has seen.
A notebook that keeps to the CPU is run beside an accelerator a second time without the line that keeps it there: what
then fails is what stands between it and the device. This process never touches the device itself, because the first to
do so takes most of its memory.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile

import nbformat
import speed_tasks
from _lowering import lower_notebooks
from _notebooks import Result, run_notebook
from _table import machine

COURSE = Path(__file__).parents[1]
UNITS = sorted(folder.name for folder in (COURSE / "solutions").iterdir() if folder.is_dir())
PIN = 'jax.config.update("jax_platforms", "cpu")'
PROBE = """
import json, jax
from autograder.measuring.worker.product import product_roundoff
device = jax.devices()[0]
facts = device.platform, device.device_kind, len(jax.devices()), jax.__version__, product_roundoff(None)
print(json.dumps(facts))
"""


def device() -> tuple[str, str, int, str, float]:
    """Platform, kind of device, how many of them, version of JAX, unit roundoff of a product; asked in a process."""
    return tuple(json.loads(subprocess.check_output([sys.executable, "-c", PROBE], text=True).splitlines()[-1]))


def notebooks(unit: str) -> dict[str, Path]:
    """The lesson and the solution of a unit."""
    return {"lesson": COURSE / f"lessons/{unit}.ipynb", "solution": COURSE / f"solutions/{unit}/{unit[3:]}.ipynb"}


def unpinned(path: Path) -> Result | None:
    """The notebook without the line that keeps it on the CPU, or None if there is no such line."""
    notebook = nbformat.read(path, as_version=4)
    if not any(PIN in cell.source for cell in notebook.cells):
        return None
    for cell in notebook.cells:
        cell.source = cell.source.replace(PIN, "pass")
    with NamedTemporaryFile("w", suffix=".ipynb", prefix="unpinned_", dir=path.parent) as copy:
        nbformat.write(notebook, copy)
        copy.flush()
        return run_notebook(Path(copy.name), {})


def cell(result: Result) -> str:
    """A result as a field of the page."""
    points = f"{result.points:g} of {result.possible:g} points" if result.possible else "runs"
    if result.failure:
        points = f"{points if result.possible else '**stops**'}; {escaped(result.failure)}"
    return f"{points} ({result.seconds:.0f} s)"


def escaped(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")


class Page:
    """What has been seen so far, as markdown."""

    def __init__(self, path: Path, facts: tuple):
        self.path = path
        platform, kind, count, version, roundoff = facts
        self._head = [
            f"# The course on {platform}",
            "",
            f"{count} x {kind}; {machine({version})}, Python {sys.version.split()[0]}. The operands of a float32"
            f" product are rounded to {roundoff:.2g}. Written by `python benchmarks/accelerator.py`.",
        ]
        self._sections: dict[str, tuple[list[str], list[list[str]]]] = {}

    def add(self, section: str, columns: list[str], row: list[str]) -> None:
        """A row of the table of a section; the page is written."""
        self._sections.setdefault(section, (columns, []))[1].append(row)
        print(" | ".join(row), flush=True)
        lines = list(self._head)
        for title, (names, rows) in self._sections.items():
            lines += ["", f"## {title}", "", f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
            lines += [f"| {' | '.join(fields)} |" for fields in rows]
        self.path.write_text("\n".join(lines) + "\n")


def run(unit: str, page: Page, on_cpu: bool) -> None:
    """Run the unit's two notebooks as they are and, beside an accelerator, without the line that keeps them off it."""
    for what, path in notebooks(unit).items():
        row = [unit[:2], what, cell(run_notebook(path, {}))]
        free = None if on_cpu else unpinned(path)
        page.add("Notebooks", ["unit", "", "as it is", "not kept on the CPU"], [*row, cell(free) if free else ""])


def lower(unit: str, page: Page) -> None:
    """Lower the programs of the unit's two notebooks for cuda and tpu."""
    paths = notebooks(unit)
    for what, lowered in zip(paths, lower_notebooks(path.with_suffix(".py") for path in paths.values()), strict=True):
        refused = "; ".join(f"{name}: {why}" for name, why in lowered.refused.items())
        row = [unit[:2], what, str(lowered.programs), ", ".join(lowered.callbacks), escaped(refused)]
        columns = ["unit", "", "programs", "with a callback, in no file", "refused"]
        page.add("Lowered for cuda and tpu", columns, row)


def time(unit: str, page: Page) -> None:
    """Measure every answer to the unit's speed tasks, as `speed_tasks.py` does."""
    for answer in speed_tasks.answers():
        if answer.unit == unit:
            found = speed_tasks.measure(answer)
            ratios = [found[which] and f"{found[which]}x" for which in ("low", "median", "high")]
            row = [unit[:2], answer.check, answer.name, found["tiers"], *ratios, found["earned"]]
            row.append(escaped(found["refused"]))
            columns = ["unit", "check", "answer", "tiers", "slowest", "median", "fastest", "earned", "refused"]
            page.add("Speed tasks", columns, row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("units", nargs="*", help="numbers of units, all without")
    parser.add_argument("--lower", action="store_true", help="only lower the programs")
    options = parser.parse_args()
    facts = device()
    name = "_".join(["accelerator", facts[0], *options.units, *["lowered"] * options.lower])  # a part is no whole
    page = Page(Path(__file__).with_name(f"{name}.md"), facts)
    for unit in UNITS:
        if options.units and unit[:2] not in options.units:
            continue
        lower(unit, page)
        if not options.lower:
            run(unit, page, on_cpu=facts[0] == "cpu")
            time(unit, page)
    print(f"written: {page.path.name}")


if __name__ == "__main__":
    main()
