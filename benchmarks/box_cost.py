"""What the box costs a submission: kernels in it beside kernels without it, in turn; writes box_cost.md.

    python benchmarks/box_cost.py [--rounds N]

A submission here is a kernel that starts, imports JAX, compiles one function, and ends. "warm": forked from a process
that has imported JAX; "cold": a fresh Python. Seconds are wall seconds as the grader waits for them.
"""

import argparse
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from _table import machine
from nbformat.v4 import new_notebook

from autograder.doors import kernel_runner
from autograder.doors.box.rules import Rules
from autograder.doors.kernel_runner import Runner

WORK = "import jax, jax.numpy as jnp\njax.jit(lambda x: x * 2 + 1)(jnp.ones(1000)).block_until_ready()"
KINDS = {"cold, no box": (10**9, None), "warm, no box": (0, None), "warm, in a box": (0, Rules())}


def submission(cold: int, box: Rules | None) -> tuple[float, float, float]:
    """Seconds until the kernel has run its first cell, for the work, and to end it."""
    kernel_runner.COLD = cold
    with tempfile.TemporaryDirectory() as folder:
        times = [time.perf_counter()]
        with Runner(new_notebook(), Path(folder), box=box) as runner:
            for source in ("pass", WORK):
                cell = runner.run_new(source)
                assert not any(output.output_type == "error" for output in cell.outputs), cell.outputs
                times.append(time.perf_counter())
        times.append(time.perf_counter())
    first, second, third = (b - a for a, b in zip(times, times[1:], strict=False))
    return first, second, third


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    found: dict[str, list[tuple[float, float, float]]] = {kind: [] for kind in KINDS}
    for number in range(rounds + 1):
        for kind in sorted(KINDS, reverse=bool(number % 2)):
            taken = submission(*KINDS[kind])
            if number:  # the first one pays for the process that others are forked from
                found[kind].append(taken)
    lines = [
        "# What the box costs a submission",
        "",
        f"Measured on: {machine({version('jax')})}. Medians of {rounds} submissions of each kind, in turn; seconds.",
        "",
        "| kernel | until its first cell has run | import JAX and compile | end | in all |",
        "|---|---|---|---|---|",
    ]
    for kind, taken in found.items():
        parts = [statistics.median(part) for part in zip(*taken, strict=True)]
        whole = statistics.median(map(sum, taken))
        lines.append(f"| {kind} | " + " | ".join(f"{part:.2f}" for part in [*parts, whole]) + " |")
    text = "\n".join(lines) + "\n"
    Path(__file__).with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
