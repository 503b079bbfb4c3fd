"""The usual ways to time, on the work of speed_verdict.py: how far do they scatter, how often are they wrong?

    pip install pytest-benchmark               nothing else here needs it
    python benchmarks/other_methods.py         16 ratios of each work under each load: an hour, in parts if need be
    python benchmarks/speed_verdict.py --table     shows them beside this package's verdicts

Best of 5 by `timeit`, and pytest-benchmark's minimum, both with their defaults and in an ordinary process, as a
notebook's is: asynchronous dispatch, all cores; eight ratios a process. The true ratio of the loops is known, 2. That
of a real pair is taken to be the median of the method's own 16, so that nothing but scatter counts against it.
A ratio that comes out 1.25 times the true one or more is a false pass where the true one is 0.8 of the bar; one that
comes out below 0.8 of the true one is a false fail where the true one is 1.25 times the bar.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from pathlib import Path

import jax
from _loads import LOADS, Load
from _table import read, write
from _work import KNOWN, REAL, calls

TABLE = Path(__file__).with_suffix(".csv")
IDENTITY = ["method", "work", "load"]
FIELDS = [*IDENTITY, "true_ratio", "median_s", "ratios", "load_average", "jax", "date"]
WORKS = ("spin", "jitted loop", *REAL)
KNOWN_RATIO = 2.0
PROCESSES, RUNS = 2, 8


def best_of_5(work: str) -> list[tuple[float, float]]:
    """(ratio, seconds it took) of `RUNS` measurements by `timeit`, in this process."""

    def seconds(call) -> float:
        timer = timeit.Timer(call)
        number, _ = timer.autorange()
        return min(timer.repeat(5, number)) / number

    measured = []
    both = calls(work, KNOWN_RATIO)
    for _ in range(RUNS):
        began = time.perf_counter()
        fast, slow = map(seconds, both)
        measured.append((slow / fast, time.perf_counter() - began))
    return measured


def in_new_process(work: str) -> list[tuple[float, float]]:
    """`best_of_5` in a process of its own."""
    program = f"import json, other_methods; print(json.dumps(other_methods.best_of_5({work!r})))"
    done = subprocess.run([sys.executable, "-c", program], cwd=TABLE.parent, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def pytest_benchmark(work: str) -> list[tuple[float, float]]:
    """The same by the minima that pytest-benchmark reports."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        case = TABLE.with_name("_pytest_benchmark_case.py")
        # No settings of this repository: as in a folder of the learner's own.
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", folder, str(case)]
        environment = os.environ | {"WORK": work, "RATIO": str(KNOWN_RATIO), "RUNS": str(RUNS)}
        command += ["-p", "no:cacheprovider", f"--benchmark-json={report}"]
        done = subprocess.run(command, cwd=TABLE.parent, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        results = json.loads(report.read_text())["benchmarks"]
    measured = []
    for run in range(RUNS):
        stats = {r["params"]["side"]: r["stats"] for r in results if r["params"]["run"] == run}
        taken = sum(side["total"] for side in stats.values())
        measured.append((stats["baseline"]["min"] / stats["candidate"]["min"], taken))
    return measured


METHODS = {"timeit, best of 5": in_new_process, "pytest-benchmark, minimum": pytest_benchmark}


def measure(method: str, work: str, load: str) -> dict:
    with Load(load):
        measured = [pair for _ in range(PROCESSES) for pair in METHODS[method](work)]
        load_average = os.getloadavg()[0]
    ratios = [ratio for ratio, _ in measured]
    return {
        "true_ratio": f"{KNOWN_RATIO if work in KNOWN else statistics.median(ratios):.3g}",
        "median_s": f"{statistics.median(seconds for _, seconds in measured):.2f}",
        "ratios": " ".join(f"{ratio:.3g}" for ratio in ratios),
        "load_average": f"{load_average:.1f}",
        "jax": jax.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def table() -> list[str]:
    """The lines of the table in markdown."""
    lines = [
        "| method | work | load | true ratio | measured | false passes | false fails | median s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in read(TABLE):
        ratios, truth = [float(ratio) for ratio in row["ratios"].split()], float(row["true_ratio"])
        measured = f"{min(ratios):.3g} to {max(ratios):.3g}"
        passes = sum(ratio >= 1.25 * truth for ratio in ratios)
        fails = sum(ratio < 0.8 * truth for ratio in ratios)
        lines.append(
            f"| {row['method']} | {row['work']} | {row['load']} | {row['true_ratio']} "
            f"| {measured} | {passes} of {len(ratios)} | {fails} of {len(ratios)} | {row['median_s']} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", action="append", choices=WORKS)
    parser.add_argument("--load", action="append", choices=list(LOADS))
    args = parser.parse_args()
    if not importlib.util.find_spec("pytest_benchmark"):
        raise SystemExit("pytest-benchmark is not installed: pip install pytest-benchmark")
    known = {tuple(row[field] for field in IDENTITY): row for row in read(TABLE)}
    order = [(method, work, load) for load in LOADS for method in METHODS for work in WORKS]
    for method, work, load in order:
        chosen = work in (args.work or WORKS) and load in (args.load or LOADS)
        if (method, work, load) in known or not chosen:
            continue
        identity = dict(zip(IDENTITY, (method, work, load), strict=True))
        known[method, work, load] = identity | measure(method, work, load)
        print(known[method, work, load], flush=True)
        write(TABLE, FIELDS, [known[one] for one in order if one in known])


if __name__ == "__main__":
    main()
