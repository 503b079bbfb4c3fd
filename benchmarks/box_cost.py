"""What the box costs a submission, and whether the clock notices it: kernels in it beside kernels without it, in turn.

    python benchmarks/box_cost.py [--rounds N]         writes box_cost.md

A submission here is a kernel that starts, imports JAX, compiles one function, has the clock compare two functions, and
ends. "warm": forked from a process that has imported JAX; "cold": a fresh Python. Seconds are wall seconds as the
grader waits for them. What the box costs is the difference of the two warm ones in each round.
"""

import argparse
import os
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from _table import machine
from nbformat.v4 import new_notebook

from autograder.doors import kernel_runner
from autograder.doors.box.rules import Rules
from autograder.doors.graded_notebook import failure_text
from autograder.doors.kernel_runner import Runner

WORK = "import jax, jax.numpy as jnp\njax.jit(lambda x: x * 2 + 1)(jnp.ones(1000)).block_until_ready()"
# An eager loop and the same compiled, as most speed tasks have them.
CLOCK = """
from autograder import speedup

def slow(coefficients, x):
    y = jnp.zeros_like(x)
    for k in range(coefficients.shape[0]):
        y = y * x + coefficients[k]
    return y

fast = jax.jit(slow)
result = speedup(fast, slow, jnp.linspace(-1.0, 1.0, 16), jnp.linspace(-1.0, 1.0, 65536), at_least=2)
"""
RESULT = "print(result.ratio, result.verdict)"
KINDS = {"cold, no box": (10**9, None), "warm, no box": (0, None), "warm, in a box": (0, Rules())}
_, UNBOXED, BOXED = KINDS


class Measured(NamedTuple):
    """Seconds until the first cell has run, for the work, for the clock, to end; and what the clock said."""

    start: float
    work: float
    clock: float
    end: float
    ratio: float
    verdict: str

    @property
    def own(self) -> float:
        """What is not the clock's."""
        return self.start + self.work + self.end


def submission(cold: int, box: Rules | None) -> Measured:
    """One submission, from its start to its end."""
    kernel_runner.COLD = cold
    with tempfile.TemporaryDirectory() as folder:
        times = [time.perf_counter()]
        with Runner(new_notebook(), Path(folder), box=box) as runner:
            for source in ("pass", WORK, CLOCK):
                cell = runner.run_new(source)
                assert not failure_text(cell), failure_text(cell)
                times.append(time.perf_counter())
            ratio, verdict = runner.run_new(RESULT).outputs[0].text.split()
        times.append(time.perf_counter())
    return Measured(*(b - a for a, b in zip(times, times[1:], strict=False)), float(ratio), verdict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    found: dict[str, list[Measured]] = {kind: [] for kind in KINDS}
    for number in range(rounds + 1):
        for kind in sorted(KINDS, reverse=bool(number % 2)):
            taken = submission(*KINDS[kind])
            if number:  # the first one pays for the process that others are forked from
                found[kind].append(taken)
    cost = [boxed.own - unboxed.own for boxed, unboxed in zip(found[BOXED], found[UNBOXED], strict=True)]
    lower, middle, upper = statistics.quantiles(cost, n=4)
    lines = [
        "# What the box costs a submission",
        "",
        f"Measured on: {machine({version('jax')})}. Medians of {rounds} submissions of each kind, in turn; seconds.",
        f"Load average at the end: {os.getloadavg()[0]:.0f}.",
        "",
        "| kernel | until its first cell has run | import JAX and compile | end | these three |"
        " the clock's cell | ratio | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind, taken in found.items():
        parts = [[m.start for m in taken], [m.work for m in taken], [m.end for m in taken], [m.own for m in taken]]
        seconds = " | ".join(f"{statistics.median(part):.2f}" for part in [*parts, [m.clock for m in taken]])
        read = sorted(m.ratio for m in taken)
        ratio = f"{statistics.median(read):.2f} ({read[0]:.2f} to {read[-1]:.2f})"
        verdicts = sorted({m.verdict for m in taken})
        told = ", ".join(f"{verdict} {sum(m.verdict == verdict for m in taken)} times" for verdict in verdicts)
        lines.append(f"| {kind} | {seconds} | {ratio} | {told} |")
    half = f"half of the rounds: {lower:+.2f} to {upper:+.2f} s"
    lines += ["", f"In a box these three take {middle:+.2f} s against a warm kernel without one ({half})."]
    text = "\n".join(lines) + "\n"
    Path(__file__).with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
