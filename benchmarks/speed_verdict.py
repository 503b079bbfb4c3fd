"""The operating characteristic of the speed verdict: how often is it wrong, how often undecided, how long does it take?

    python benchmarks/speed_verdict.py --quick        about 3 minutes: 20 verdicts a condition
    python benchmarks/speed_verdict.py                300 verdicts a condition (an hour and a half; can be resumed)
    python benchmarks/speed_verdict.py --table        write the tables from what has been measured
    python benchmarks/speed_verdict.py --cold         the verdict about first calls: 100 a condition, 3 to 6 s for each

Every row of speed_verdict.csv is a batch of verdicts under one condition. All conditions get a first batch, then a
second one, until each has its number; what is there already counts. Work whose true
ratio is known is set to 0.8 and 1.25 times the bar; what is counted is false passes at 0.8 and false fails at 1.25.
The curve has the same at thirteen ratios from 0.8 to 1.25. Each condition runs under five loads that this script makes.
"""

import argparse
import dataclasses
import functools
import os
import statistics
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import other_methods
from _loads import LOADS, Load
from _table import machine, processor, read, write
from _work import KNOWN, KNOWN_COLD, REAL, REAL_COLD

from autograder.measuring import bench
from autograder.measuring import speedup as speedup_module
from autograder.measuring.request import Comparison
from autograder.measuring.wire.messages import Contest, Source

HERE = Path(__file__).parent
TABLE = HERE / "speed_verdict.csv"
COLD_TABLE = HERE / "cold_verdict.csv"
IDENTITY = ["work", "load", "bar", "factor"]
COUNTS = ["verdicts", "passes", "fails", "undecided", "median_s", "p95_s", "worst_s", "true_ratio"]
FIELDS = [*IDENTITY, *COUNTS, "load_average", "jax", "date", "processor"]
BARS = (1.5, 2.0, 5.0, 20.0)
COLD_BARS = BARS[:3]
BATCH, COLD_BATCH = 150, 10  # verdicts of a condition before the next condition has its turn
PER_PROCESS, COLD_PER_PROCESS = 50, 5  # verdicts by the same measuring processes
CURVE = (0.8, 0.85, 0.9, 0.93, 0.96, 0.98, 1.0, 1.02, 1.05, 1.1, 1.15, 1.2, 1.25)

# --- the work as comparisons -----------------------------------------------------------------------------------------


class TwoArguments(Comparison):
    """A comparison whose two sides get arguments of their own; their results are not compared (they differ)."""

    def __init__(self, work: str, candidate, baseline, fast_args, slow_args, cold: bool):
        def at(fn, number):
            if not hasattr(fn, "lower"):
                return functools.partial(_pick_plain, fn, number)
            return jax.jit(functools.partial(_pick_same, fn, number))

        super().__init__(at(candidate, 1), at(baseline, 2), (fast_args[0], fast_args[1], slow_args[1]), cold=cold)
        if isinstance(self.load.candidate, Source):
            sent = dataclasses.replace(self.load.candidate, own_process=work.endswith("own process"))
            self.load = dataclasses.replace(self.load, candidate=sent)


def _pick_same(fn, number, x, n_fast, n_slow):
    # Both sides return the same: the loop's result does not enter, but cannot be left out either.
    return x + jnp.where(fn(x, (n_fast, n_slow)[number - 1]) < 2, 0.0, 1.0)


def _pick_plain(fn, number, x, n_fast, n_slow):
    return fn(x, (n_fast, n_slow)[number - 1])


class Verdict:
    """The rule of this package. Each verdict calibrates afresh; every 50th (5th of first calls) gets new processes."""

    def __init__(self, comparison: Comparison):
        self.comparison, self.count = comparison, 0

    def __call__(self, bar: float) -> tuple[str, float]:
        cold = self.comparison.cold
        if self.count % (COLD_PER_PROCESS if cold else PER_PROCESS) == 0:
            bench.renew()
            for place in range(1 if cold else 2):
                speedup_module.deliver(self.comparison, bench.current(place))
        self.count += 1
        began = time.perf_counter()
        decision = speedup_module.decide(self.comparison, bar, calibrate=True)
        return decision.outcome.answer or "undecided", time.perf_counter() - began


# --- conditions ------------------------------------------------------------------------------------------------


def true_ratio(comparison: Comparison) -> float:
    """The ratio of a real pair under the load that runs: the median of 9 processes' medians."""
    ratios = []
    for _ in range(9):
        speedup_module.deliver(comparison, bench.renew())
        budget = 20.0 if comparison.cold else 1.0
        outcome = bench.current().ask(Contest(comparison.load.job, bar=None, budget=budget), limit=60)
        ratios.append(statistics.median(np.divide(outcome.baseline, outcome.candidate)))
    return statistics.median(ratios)


def conditions(args):
    """(work, load, bar, factor, maker of the verdict) in the order in which they are measured."""
    known, real = (KNOWN_COLD, REAL_COLD) if args.cold else (KNOWN, REAL)
    works = args.work or [*known, *real]
    ratios: dict[tuple, float] = {}

    def rule(work, load, bar, factor):
        def make():
            if work in known:
                return Verdict(TwoArguments(work, *known[work](bar * factor), args.cold)), bar, bar * factor
            comparison = Comparison(*real[work], cold=args.cold)
            if (work, load) not in ratios:
                ratios[work, load] = true_ratio(comparison)
            truth = ratios[work, load]
            return Verdict(comparison), truth / factor, truth

        return make

    for load in args.load or LOADS:
        for work in works:
            bars = (COLD_BARS if args.cold else BARS) if work in known else ("its own",)
            factors = CURVE if args.curve else (0.8, 1.25)
            for bar in (2.0,) if args.curve and work in known else bars:
                for factor in factors:
                    yield work, load, bar, factor, rule(work, load, bar, factor)


def measure(make, load: str, verdicts: int) -> dict:
    answers, seconds = [], []
    with Load(load):
        verdict, bar, truth = make()
        for _ in range(verdicts):
            answer, taken = verdict(bar)
            answers.append(answer)
            seconds.append(taken)
    cut = statistics.quantiles(seconds, n=20)
    return {
        "verdicts": verdicts,
        "passes": answers.count("pass"),
        "fails": answers.count("fail"),
        "undecided": answers.count("undecided"),
        "median_s": f"{statistics.median(seconds):.4f}",
        "p95_s": f"{cut[-1]:.4f}",
        "worst_s": f"{max(seconds):.3f}",
        "load_average": f"{os.getloadavg()[0]:.1f}",
        "true_ratio": f"{truth:.3g}",
        "jax": jax.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "processor": processor(),
    }


def key(row) -> tuple:
    return tuple(str(row[field]) for field in IDENTITY)


def merged() -> list[dict]:
    """One row a condition: batches added up, the median of their medians, the worst of their worst, all their days."""
    groups: dict[tuple, list[dict]] = {}
    for row in read(TABLE):
        groups.setdefault(key(row), []).append(row)
    return [
        batches[-1]
        | {name: str(_sum(batches, name)) for name in ("verdicts", "passes", "fails", "undecided")}
        | {name: _noted(name, batches) for name in ("date", "processor")}
        | {"median_s": f"{statistics.median(float(row['median_s']) for row in batches):.4f}"}
        | {"worst_s": f"{max(float(row['worst_s']) for row in batches):.3f}"}
        for batches in groups.values()
    ]


def run(args) -> None:
    batch = COLD_BATCH if args.cold else BATCH
    for target in [*range(batch, args.verdicts, batch), args.verdicts]:
        measured = {key(row): int(row["verdicts"]) for row in merged()}
        for work, load, bar, factor, make in conditions(args):
            identity = dict(zip(IDENTITY, (work, load, bar, factor), strict=True))
            missing = target - measured.get(key(identity), 0)
            if missing < 5:
                continue
            result = measure(make, load, missing)
            line = ", ".join(f"{name} {result[name]}" for name in COUNTS)
            print(f"{work} | {load} | bar {bar} x {factor}: {line}", flush=True)
            write(TABLE, FIELDS, [*read(TABLE), {**identity, **result}])


def tables(cold: bool) -> str:
    """All tables as markdown."""
    measured_on = f"Measured on: {machine({row['jax'] for row in read(TABLE)})}."
    lines = [
        "# Operating characteristic of the speed verdict",
        "",
        measured_on,
        "The true ratio of `selu`, the scan and the rows is itself measured, and moves (`true_ratio.md`).",
        "Where a verdict of theirs is wrong, README.md says what is known of the cause.",
        "",
    ]
    if cold:
        lines = [
            "# Operating characteristic of the verdict about first calls",
            "",
            measured_on,
            "Each call is the first one of a new process. The true ratio of all but `spin` is itself measured.",
            "",
        ]
    ends = [row for row in merged() if float(row["factor"]) in (0.8, 1.25)]
    between = [row for row in merged() if float(row["factor"]) not in (0.8, 1.25)]
    lines += ["## Wrong verdicts at 0.8 and 1.25 times the bar", "", *_errors(ends), ""]
    if between:
        lines += ["## Probability of a pass against true ratio / bar", "", f"Between the ends: {_dates(between)}", ""]
        lines += [*_curve(), ""]
    if not cold and other_methods.TABLE.exists():
        lines += ["## The same work by `timeit` and by pytest-benchmark", "", *other_methods.table(), ""]
    return "\n".join(lines)


def _dates(rows: list[dict]) -> str:
    """When these were measured."""
    dates = _noted("date", rows).split("; ")
    return f"Measured on {dates[0]}." if len(dates) == 1 else f"Measured from {dates[0]} to {dates[-1]}."


def _errors(chosen: list[dict]) -> list[str]:
    groups: dict[tuple, list[dict]] = {}
    for row in chosen:
        groups.setdefault((row["work"], row["load"]), []).append(row)
    lines = [
        "| work | load | measured | on | verdicts | false passes | false fails | undecided | median s | worst s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (work, load), group in sorted(groups.items(), key=lambda item: list(LOADS).index(item[0][1])):
        low = [row for row in group if float(row["factor"]) < 1]
        high = [row for row in group if float(row["factor"]) > 1]
        total = _sum(group, "verdicts")
        median = statistics.median(float(row["median_s"]) for row in group)
        worst = max(float(row["worst_s"]) for row in group)
        lines.append(
            f"| {work} | {load} | {_noted('date', group)} | {_noted('processor', group)} | {total} "
            f"| {_sum(low, 'passes')} of {_sum(low, 'verdicts')} "
            f"| {_sum(high, 'fails')} of {_sum(high, 'verdicts')} | {_sum(group, 'undecided')} "
            f"| {median:.3f} | {worst:.2f} |"
        )
    return lines


def _noted(field: str, group: list[dict]) -> str:
    """The dates, or processors, of these rows, one after the other; of some older ones the processor is not known."""
    return "; ".join(sorted({one for row in group for one in (row.get(field) or "not noted").split("; ")}))


def _curve() -> list[str]:
    chosen = [row for row in merged() if row["bar"] in ("2.0", "its own")]
    groups: dict[tuple, dict[float, dict]] = {}
    for row in chosen:
        groups.setdefault((row["work"], row["load"]), {})[float(row["factor"])] = row
    lines = ["| work | load | " + " | ".join(map(str, CURVE)) + " |", "|---|---" + "|---" * len(CURVE) + "|"]
    for (work, load), by_factor in groups.items():
        if len(by_factor) > 2:
            cells = [f"{int(r['passes']) / int(r['verdicts']):.3g}" if (r := by_factor.get(f)) else "" for f in CURVE]
            lines.append(f"| {work} | {load} | " + " | ".join(cells) + " |")
    return lines


def _sum(group: list[dict], name: str) -> int:
    return sum(int(row[name]) for row in group)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20 verdicts a condition")
    parser.add_argument("--cold", action="store_true", help="the verdict about first calls, into cold_verdict.csv")
    parser.add_argument("--verdicts", type=int, help="verdicts a condition; 300, and 100 of first calls")
    parser.add_argument("--curve", action="store_true", help="thirteen ratios from 0.8 to 1.25 times the bar")
    parser.add_argument("--work", action="append", choices=[*KNOWN, *REAL, *REAL_COLD])
    parser.add_argument("--load", action="append", choices=list(LOADS))
    parser.add_argument("--out", type=Path, help="another file than the committed one")
    parser.add_argument("--table", action="store_true", help="only write the tables")
    args = parser.parse_args()
    global TABLE
    TABLE = args.out or (COLD_TABLE if args.cold else TABLE)
    args.verdicts = args.verdicts or (20 if args.quick else 100 if args.cold else 300)
    if not args.table:
        run(args)
    TABLE.with_suffix(".md").write_text(tables(args.cold) + "\n")


if __name__ == "__main__":
    main()
