"""The limits of the machine, on a clock that the tests turn by hand, and once on its own."""

import types

import pytest

from autograder.measuring.wire.messages import Rate
from autograder.measuring.worker import limits
from autograder.measuring.worker.limits import _rate, measure_limits

MILLISECOND = 1_000_000  # nanoseconds


@pytest.fixture(autouse=True)
def nothing_measured(monkeypatch):
    monkeypatch.setattr(limits, "_measured", {})


def every_block_takes(monkeypatch, nanoseconds):
    monkeypatch.setattr(limits, "elapsed", lambda start, stop: nanoseconds())


@pytest.fixture
def ticks(monkeypatch):
    """How often the time was asked for; 10 ms pass from one time to the next."""
    asked = []
    monkeypatch.setattr(limits, "time", types.SimpleNamespace(perf_counter=lambda: asked.append(1) or len(asked) / 100))
    return asked


def test_the_work_of_a_call_is_what_is_moved_multiplied_and_dispatched(monkeypatch):
    every_block_takes(monkeypatch, lambda: MILLISECOND)
    found = measure_limits(4096, 0)
    once = [rate * 1000.0 for rate in (4096, 2 * 512**3, 1)]
    assert [found.bandwidth, found.arithmetic, found.dispatch] == [Rate(rate, rate, rate) for rate in once]


def test_it_measures_about_as_long_as_it_is_told(monkeypatch, ticks):
    every_block_takes(monkeypatch, lambda: MILLISECOND)
    measure_limits(4096, 0.8)
    assert 70 <= len(ticks) <= 90
    measure_limits(4096, 0.8)
    assert 110 <= len(ticks) <= 140, "what does not depend on the size is known"
    measure_limits(4096, 1)
    assert len(ticks) >= 210, "but it is measured again where there is time"


@pytest.mark.parametrize("call", [100, 100_000, 50 * MILLISECOND])
def test_a_block_takes_a_millisecond_where_ten_thousand_calls_do(monkeypatch, call):
    blocks = []
    every_block_takes(monkeypatch, lambda: blocks[-1] * call)
    assert _rate(blocks.append, 3, 0) == Rate(3e9 / call, 3e9 / call, 3e9 / call)
    assert all(calls * call >= MILLISECOND for calls in blocks[2:])
    assert len(blocks) >= 5 and blocks[-1] <= max(1, MILLISECOND / call)


def test_a_rate_has_its_quartiles(monkeypatch):
    times = iter([MILLISECOND, *(n * MILLISECOND for n in range(1, 100))])
    every_block_takes(monkeypatch, lambda: next(times))
    found = _rate(lambda calls: None, 1, 0)
    assert found.low < found.median < found.high


def test_this_machine_has_limits():
    found = measure_limits(2**26, 0.01)
    assert 1e6 < found.bandwidth.median < 1e14, "bytes in a second"
    assert 1e8 < found.arithmetic.median < 1e16
    assert 1e2 < found.dispatch.median < 1e9
