"""The ratio itself: how far does it wander from process to process, and under load?

    python benchmarks/true_ratio.py     20 measuring processes for each real pair under each load: about ten minutes

No verdict can be steadier than what it measures. Each process takes turns on the cores and compares the two functions
five times without a bar; the median of the five is its ratio. Writes true_ratio.csv and true_ratio.md.
"""

import os
import statistics
import time
from pathlib import Path

import jax
from _loads import LOADS, Load
from _table import machine, read, write
from _work import REAL

from autograder.measuring import bench
from autograder.measuring import speedup as speedup_module
from autograder.measuring.request import Comparison
from autograder.measuring.wire.messages import Contest

TABLE = Path(__file__).with_suffix(".csv")
FIELDS = ["work", "load", "ratios", "baseline_us", "candidate_us", "load_average", "jax", "date"]
PROCESSES, TURNS = 20, 5


def in_new_process(comparison: Comparison) -> tuple[float, float, float]:
    """(ratio, microseconds of the baseline, of the candidate): medians of one measuring process."""
    speedup_module.deliver(comparison, bench.renew())
    ratios, slow, fast = [], [], []
    for _ in range(TURNS):
        outcome = bench.current().ask(Contest(comparison.load.job, None, 1.0, calibrate=True), limit=30)
        slow.append(statistics.median(outcome.baseline) / 1e3)
        fast.append(statistics.median(outcome.candidate) / 1e3)
        ratios.append(slow[-1] / fast[-1])
    return statistics.median(ratios), statistics.median(slow), statistics.median(fast)


def measure(work: str, load: str) -> dict:
    comparison = Comparison(*REAL[work])
    with Load(load):
        columns = zip(*(in_new_process(comparison) for _ in range(PROCESSES)), strict=True)
        load_average = os.getloadavg()[0]
    ratios, slow, fast = (" ".join(f"{value:.3g}" for value in column) for column in columns)
    machine_now = {"load_average": f"{load_average:.1f}", "jax": jax.__version__, "date": time.strftime("%Y-%m-%d")}
    return {"work": work, "load": load, "ratios": ratios, "baseline_us": slow, "candidate_us": fast} | machine_now


def table(rows: list[dict]) -> str:
    """The measurements as markdown."""
    lines = [
        "# The ratio itself",
        "",
        f"Measured on: {machine({row['jax'] for row in rows})}. {PROCESSES} processes a row, each with its own ratio.",
        "",
        "| work | load | median | lowest to highest | baseline, µs | candidate, µs |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        ratios, slow, fast = ([float(x) for x in row[f].split()] for f in ("ratios", "baseline_us", "candidate_us"))
        ranges = " | ".join(f"{min(column):.3g} to {max(column):.3g}" for column in (ratios, slow, fast))
        lines.append(f"| {row['work']} | {row['load']} | {statistics.median(ratios):.3g} | {ranges} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    rows = read(TABLE)
    known = {(row["work"], row["load"]) for row in rows}
    for load in LOADS:
        for work in REAL:
            if (work, load) not in known:
                rows.append(measure(work, load))
                print(rows[-1], flush=True)
                write(TABLE, FIELDS, rows)
    TABLE.with_suffix(".md").write_text(table(rows))


if __name__ == "__main__":
    main()
