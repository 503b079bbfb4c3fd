"""The yardstick of the speed verdict, on times that the tests make up."""

import pytest

from autograder.measuring.verdict import SLOW
from autograder.measuring.worker import yardstick
from autograder.measuring.worker.yardstick import READINGS, Yardstick


def yardstick_that_takes(*times):
    return Yardstick(iter(times).__next__)


@pytest.mark.parametrize(("share", "slow"), [(1.0, False), (SLOW - 0.01, False), (SLOW + 0.01, True), (2.0, True)])
def test_a_core_is_slow_that_takes_so_many_times_its_best(share, slow):
    assert yardstick_that_takes(100.0, 100.0 * share).slow() == slow


def test_the_best_is_the_best_of_all_that_was_seen():
    core = yardstick_that_takes(200.0, 190.0, 100.0, 150.0, 190.0, 130.0)
    assert [core.slow() for _ in range(5)] == [False, False, True, True, False]


def test_a_process_that_is_slow_from_its_start_knows_nothing_better_until_it_is_told():
    core = yardstick_that_takes(200.0, 200.0, 210.0, 205.0, 205.0)
    core.begin(0.0)
    assert not core.slow() and not core.slow() and core.lowest == 200
    core.begin(100.0)
    assert core.slow() and core.lowest == 205
    core.begin(300.0)
    assert core.lowest == 0 and core.slow()


def test_one_interruption_is_not_the_time_of_the_loop(monkeypatch):
    times = iter([100, 101, 102, 90, 9000, 9000] * 2)
    assert READINGS == 3
    monkeypatch.setattr(yardstick, "elapsed", lambda start, stop: next(times))
    core = Yardstick()
    assert core._measure() == 90
    assert not core.slow()


def test_the_loop_is_timed_on_the_clock_of_the_verdict():
    core = Yardstick()
    assert core._measure() > 1000, "nanoseconds of 5000 turns"
