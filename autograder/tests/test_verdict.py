"""The rule and the clock, on streams of numbers: no time is measured here."""

import math
import random

import pytest

from autograder.measuring.verdict import CLEAR, LEAD, Verdict, interval, settle
from autograder.measuring.worker.clock import Reading, elapsed, parse


def decide(bar, ratios):
    """(answer, pairs used) of the rule on a stream."""
    rule = Verdict(bar)
    for ratio in ratios:
        rule.add(ratio)
        if rule.answer:
            break
    return rule.answer, rule.pairs


def stream(rng, truth, noise, outliers=0.0):
    """Pair ratios around `truth`: log-normal noise, and a share of pairs that are off by up to a factor of 30."""
    while True:
        ratio = truth * math.exp(rng.gauss(0, noise))
        if rng.random() < outliers:
            ratio *= math.exp(rng.choice((-1, 1)) * rng.uniform(0, math.log(30)))
        yield ratio


def test_seven_pairs_just_on_one_side_decide():
    assert decide(2, [2.1] * 20) == ("pass", LEAD)
    assert decide(2, [1.9] * 20) == ("fail", LEAD)


def test_far_from_the_bar_a_clear_start_is_enough():
    assert decide(2, [100] * 20) == ("pass", CLEAR)
    assert decide(2, [0.1] * 20) == ("fail", CLEAR)
    assert decide(2, [4.1] * 20) == ("pass", CLEAR)
    assert decide(2, [3.9] * 20) == ("pass", LEAD)


def test_one_pair_that_is_not_clear_asks_for_the_full_lead():
    assert decide(2, [100, 100, 3.9, 100] + [100] * 20) == ("pass", LEAD)
    assert decide(2, [100, 0.1] + [100] * 20) == ("pass", LEAD + 2)


def test_a_ratio_equal_to_the_bar_is_a_vote_for_the_candidate():
    assert decide(2, [2.0] * 20) == ("pass", LEAD)


def test_pairs_that_alternate_decide_nothing():
    assert decide(2, [1.9, 2.1] * 200) == (None, 400)


def test_pairs_after_the_decision_change_nothing():
    rule = Verdict(2)
    for ratio in [3.0] * 7 + [0.5] * 100:
        rule.add(ratio)
    assert (rule.answer, rule.pairs) == ("pass", 7)


@pytest.mark.parametrize("bar", [1.5, 2, 5, 20])
@pytest.mark.parametrize(("factor", "right"), [(0.8, "fail"), (1.25, "pass")])
@pytest.mark.parametrize(("noise", "outliers"), [(0.03, 0.0), (0.1, 0.0), (0.1, 0.1)])
def test_no_wrong_verdict_at_the_declared_margin(bar, factor, right, noise, outliers):
    rng = random.Random(f"{bar} {factor} {noise} {outliers}")
    answers = [decide(bar, stream(rng, bar * factor, noise, outliers))[0] for _ in range(1000)]
    assert answers.count(right) == 1000


def test_at_the_bar_itself_the_rule_is_a_fair_coin():
    rng = random.Random(3)
    answers = [decide(2, stream(rng, 2, 0.1))[0] for _ in range(2000)]
    assert 900 < answers.count("pass") < 1100


def test_tiers_on_one_stream_are_monotone():
    rng = random.Random(4)
    for _ in range(200):
        pairs = [ratio for ratio, _ in zip(stream(rng, 5, 0.3, 0.1), range(60), strict=False)]
        answers = [decide(bar, pairs)[0] for bar in (1, 2, 4, 5, 6, 10, 20)]
        passed = [answer == "pass" for answer in answers if answer]
        assert passed == sorted(passed, reverse=True)


# --- several processes ------------------------------------------------------------------------------------------------

PASS, FAIL, NONE = ("pass", 3.0), ("fail", 1.5), (None, 2.0)  # near a bar of 2
FAR_PASS, FAR_FAIL = ("pass", 4.1), ("fail", 0.9)


@pytest.mark.parametrize(
    ("found", "together"),
    [
        ([FAR_PASS], "pass"),
        ([FAR_FAIL], "fail"),
        ([("pass", 4.0)], None),
        ([("fail", 1.0)], None),
        ([PASS], None),
        ([PASS, PASS], "pass"),
        ([PASS, FAR_PASS], "pass"),
        ([FAIL, FAIL], "fail"),
        ([PASS, FAIL], None),
        ([FAIL, PASS, FAIL], "fail"),
        ([PASS, FAR_FAIL], None),
        ([PASS, FAR_FAIL, PASS], "pass"),
        ([NONE], None),
        ([NONE, NONE], "undecided"),
        ([NONE, FAR_PASS], "pass"),
        ([NONE, PASS], None),
        ([NONE, PASS, PASS], "pass"),
        ([PASS, NONE], None),
        ([PASS, NONE, NONE], "undecided"),
        ([PASS, FAIL, NONE], "undecided"),
        ([FAR_FAIL, NONE, PASS], "undecided"),
    ],
)
def test_near_the_bar_two_processes_must_say_the_same(found, together):
    assert settle(found, 2.0) == together


def test_a_process_that_is_off_for_life_turns_no_verdict():
    """Whichever of the three it is, and whatever the others' ratio: only far from the bar is it taken at its word."""
    for bar in (1.5, 2, 20):
        for truth in (0.8 * bar, 1.25 * bar):
            right = "pass" if truth > bar else "fail"
            for off in (0.55, 0.7, 1.4, 1.8):
                for place in range(3):
                    ratios = [truth * (off if i == place else 1) for i in range(3)]
                    found = [("pass" if ratio >= bar else "fail", ratio) for ratio in ratios]
                    together = next(filter(None, (settle(found[:count], bar) for count in (1, 2, 3))))
                    assert together == (right if 0.5 <= ratios[0] / bar <= 2 else found[0][0])


def test_interval_holds_the_truth_as_often_as_it_says():
    rng = random.Random(5)
    held = 0
    for _ in range(1000):
        low, middle, high = interval([ratio for ratio, _ in zip(stream(rng, 3, 0.2), range(25), strict=False)])
        assert low <= middle <= high
        held += low <= 3 <= high
    assert 930 <= held <= 970, "of 1000, each with 95 %"


def test_interval_of_few_pairs_is_their_range():
    assert interval([4.0, 2.0, 3.0]) == (2.0, 3.0, 4.0)
    assert interval([8.0, 2.0]) == (2.0, 4.0, 8.0)  # of ratios, the middle of two is their geometric mean
    assert all(math.isnan(value) for value in interval([]))


def test_schedstat_is_two_times_and_a_count():
    assert parse(b"123456789 4242 17\n") == (123456789, 4242)


def test_a_kernel_without_scheduler_statistics_is_refused():
    with pytest.raises(ValueError, match="scheduler statistics"):
        parse(b"0 0 0\n")


def test_elapsed_takes_the_run_delay_out():
    assert elapsed(Reading(1000, 50), Reading(3000, 650)) == 1400


def test_elapsed_is_never_less_than_what_the_threads_ran():
    # Pushed off the core by its own helper: the run delay is the helper's work.
    assert elapsed(Reading(1000, 0, 100), Reading(3000, 1900, 1900)) == 1800
    # A helper that sleeps is not faster for it.
    assert elapsed(Reading(1000, 0, 100), Reading(3000, 0, 150)) == 2000


def test_elapsed_is_positive():
    assert elapsed(Reading(1000, 0), Reading(1000, 0)) == 1
