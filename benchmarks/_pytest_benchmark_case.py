"""One work of `_work`, timed by pytest-benchmark as a learner would: `other_methods.py` runs this file with pytest."""

import os

import pytest
from _work import calls

CALLS = dict(zip(("candidate", "baseline"), calls(os.environ["WORK"], float(os.environ["RATIO"])), strict=True))


@pytest.mark.parametrize("side", CALLS)
@pytest.mark.parametrize("run", range(int(os.environ["RUNS"])))
def test_time(benchmark, side, run):
    benchmark(CALLS[side])
