"""Calibration and contest, on a clock that the tests turn by hand."""

import itertools

import pytest

from autograder.measuring.verdict import CONFIRM, LEAD
from autograder.measuring.wire.messages import Contest
from autograder.measuring.worker import contest as contest_module
from autograder.measuring.worker import jobs as jobs_module
from autograder.measuring.worker.clock import Reading
from autograder.measuring.worker.cold import Cold
from autograder.measuring.worker.contest import CLOSE, REPEATS, calibrate, contest, plan
from autograder.measuring.worker.inputs import Fresh, Repeated

CALL = 50_000  # nanoseconds


class Scripted:
    """A side whose calls take `call` nanoseconds, and whose n-th block is stopped for pauses[n] more."""

    overhead = 0

    def __init__(self, call, pauses=(), role="baseline", supply=None):
        self.call, self.pauses, self.now, self.blocks, self.calls = call, dict(pauses), 0, 0, 0
        self.clock = self
        self.block = 300_000
        self.role, self.supply = role, supply or Repeated([])
        self.draws = []
        self.order = []  # the role of each block; of both sides, where they share it

    def read(self):
        return Reading(self.now, 0)

    def prepare(self, calls, draw):
        self.calls = calls
        self.draws.append(draw)

    def run(self):
        self.now += self.calls * self.call + self.pauses.get(self.blocks, 0)
        self.blocks += 1
        self.order.append(self.role)

    def watch(self, calls, draw):
        self.draws.append(draw)

    def result(self):
        return [self.draws[-1]]


def test_more_calls_until_a_block_is_long_enough():
    assert calibrate(Scripted(CALL)) == CALL


@pytest.mark.parametrize("pause", [1_000_000, 50_000_000, 250_000_000])
@pytest.mark.parametrize("block", range(6))
def test_a_pause_is_not_the_length_of_a_call(block, pause):
    """The machine stands still for a while: neither work nor a wait for the core, so T* counts it."""
    assert calibrate(Scripted(CALL, {block: pause})) == CALL


def test_a_call_of_half_a_second_is_made_once():
    side = Scripted(500_000_000)
    assert calibrate(side) == 500_000_000
    assert side.blocks == 1


def test_every_block_of_a_calibration_is_on_new_inputs():
    side = Scripted(CALL, supply=Fresh([]))
    calibrate(side)
    assert len(set(side.draws)) == len(side.draws) > 3


def a_contest(call, supply, bar=2.0, budget=1.5, **more):
    """A contest of two scripted sides: (outcome, baseline, candidate, what was compared in each pair)."""
    baseline = Scripted(CALL, role="baseline", supply=supply)
    candidate = Scripted(call, role="candidate", supply=supply)
    candidate.order = baseline.order
    compared = []
    outcome = contest(baseline, candidate, bar, [CALL, call], budget, lambda *what: compared.append(what), **more)
    return outcome, baseline, candidate, compared


def test_a_contest_says_the_times_of_a_call_and_the_answer():
    outcome, *_ = a_contest(CALL / 3, Repeated([]))
    assert outcome.answer == "pass"
    assert set(outcome.baseline) == {CALL}
    assert outcome.candidate == pytest.approx([CALL / 3] * len(outcome.baseline))
    assert a_contest(CALL, Repeated([]))[0].answer == "fail"


@pytest.mark.parametrize(("bar", "answer"), [(2.0, "pass"), (None, None)])
def test_a_contest_ends_when_it_knows_enough(bar, answer):
    outcome, *_ = a_contest(CALL / 3, Repeated([]), bar)
    assert outcome.answer == answer
    assert 7 <= len(outcome.baseline) < 50, "there is time for many more"


@pytest.mark.parametrize(("lead", "pairs"), [({}, LEAD), ({"lead": CONFIRM}, CONFIRM)])
def test_a_contest_ends_with_its_lead(monkeypatch, lead, pairs):
    monkeypatch.setattr(contest_module, "ESTIMATE_SECONDS", 0)  # no more pairs for the sake of the interval
    outcome, *_ = a_contest(CALL / 3, Repeated([]), **lead)
    assert (outcome.answer, len(outcome.baseline)) == ("pass", pairs)


@pytest.mark.parametrize(("confirms", "lead"), [(False, LEAD), (True, CONFIRM)])
def test_what_confirms_another_process_needs_a_smaller_lead(monkeypatch, confirms, lead):
    asked = []
    monkeypatch.setattr(jobs_module, "contest", lambda *request: asked.append(request[-1]))
    jobs = jobs_module.Jobs(None)
    jobs._jobs["a"] = jobs_module.Job(Scripted(CALL), Scripted(CALL), [], None, [CALL, CALL])
    jobs.answer(Contest("a", 2.0, 1.5, confirms=confirms))
    assert asked == [lead]


def test_code_gets_new_inputs_in_every_block_and_the_baseline_the_same():
    _, baseline, candidate, _ = a_contest(CALL / 3, Fresh([]))
    assert len(set(candidate.draws)) == len(candidate.draws) >= 7 * 7
    assert baseline.draws == candidate.draws


def test_what_is_compiled_keeps_its_inputs_for_a_pair_and_gets_others_in_the_next():
    outcome, baseline, candidate, _ = a_contest(CALL / 3, Repeated([]))
    pairs = len(outcome.baseline)
    assert len(set(candidate.draws)) == 1 + pairs, "one for the round that does not count"
    assert baseline.draws == candidate.draws


@pytest.mark.parametrize("supply", [Fresh([]), Repeated([])])
def test_the_results_of_every_pair_are_compared_on_the_same_inputs(supply):
    outcome, _, _, compared = a_contest(CALL / 3, supply)
    assert len(compared) == len(outcome.baseline) >= 7
    assert all(got == want == [draw] for got, want, draw in compared)
    assert len({draw for _, _, draw in compared}) == len(compared)


def test_the_blocks_of_a_side_follow_each_other(monkeypatch):
    """The first one fills the caches. In turns with the other side, each block would find them emptied."""
    fresh_slices = []
    monkeypatch.setattr(contest_module, "give_way", lambda: fresh_slices.append(True))
    outcome, baseline, _, compared = a_contest(CALL / 3, Repeated([]))
    counted = baseline.order[2:]  # the first pair is one block of each, and does not count
    stretches = [(role, len(list(blocks))) for role, blocks in itertools.groupby(counted)]
    assert {role for role, _ in stretches} == {"baseline", "candidate"}
    assert all(blocks % REPEATS == 0 for _, blocks in stretches)
    assert len(counted) == 2 * REPEATS * len(compared)
    assert len(fresh_slices) == 2 * (1 + len(compared)), "one before the blocks of a side, and none between them"


def slow_for(pairs):
    """The answers of a yardstick that sees the core slow in the first `pairs` pairs."""
    return itertools.chain([True] * pairs, itertools.repeat(False)).__next__


def test_near_the_bar_the_rule_does_not_see_what_was_timed_while_the_core_was_slow(monkeypatch):
    monkeypatch.setattr(contest_module, "ESTIMATE_SECONDS", 0)
    outcome, _, _, compared = a_contest(CALL / 2.2, Repeated([]), core_is_slow=slow_for(5))
    assert (outcome.answer, outcome.put_aside) == ("pass", 5)
    assert len(outcome.baseline) == len(outcome.candidate) == len(outcome.others) == LEAD
    assert len(compared) == 5 + LEAD, "their results are looked at all the same"


@pytest.mark.parametrize(("times", "put_aside"), [(1.01, 0), (0.99, 5)])
@pytest.mark.parametrize("far", [CLOSE, 1 / CLOSE])
def test_far_from_the_bar_it_sees_them(far, times, put_aside):
    ratio = 2.0 * (far * times if far > 1 else far / times)
    outcome, *_ = a_contest(CALL / ratio, Repeated([]), core_is_slow=slow_for(5))
    assert outcome.answer == ("pass" if far > 1 else "fail")
    assert outcome.put_aside == put_aside


def test_a_core_that_stays_slow_leaves_no_answer_and_all_pairs():
    outcome, _, _, compared = a_contest(CALL / 2.2, Repeated([]), budget=0.0, core_is_slow=slow_for(10**9))
    assert outcome.answer is None
    assert outcome.put_aside == len(outcome.baseline) == len(compared) >= 1


def test_without_a_bar_all_pairs_are_seen():
    outcome, *_ = a_contest(CALL / 2.2, Repeated([]), bar=None, core_is_slow=slow_for(10**9))
    assert outcome.put_aside == 0 and len(outcome.baseline) >= 7


@pytest.mark.parametrize("cold", [False, True])
def test_the_yardstick_is_not_asked_about_first_calls(monkeypatch, cold):
    asked = []
    monkeypatch.setattr(jobs_module, "contest", lambda *request: asked.append(request[-2]()))
    jobs = jobs_module.Jobs(None)
    monkeypatch.setattr(jobs._yardstick, "slow", lambda: True)
    baseline = Cold.__new__(Cold) if cold else Scripted(CALL)
    jobs._jobs["a"] = jobs_module.Job(baseline, baseline, [], None, [CALL, CALL])
    jobs.answer(Contest("a", 2.0, 1.5))
    assert asked == [not cold]


def test_what_the_comparison_raises_ends_the_contest():
    def refuse(got, want, draw):
        raise ValueError("they disagree")

    sides = Scripted(CALL), Scripted(CALL, role="candidate")
    with pytest.raises(ValueError, match="they disagree"):
        contest(*sides, 2.0, [CALL, CALL], 1.5, refuse)


@pytest.mark.parametrize("call", [10, 1000, CALL])
def test_a_calibration_ends_with_a_block_that_is_long_enough(call):
    side = Scripted(call)
    assert calibrate(side) == call
    assert side.calls * call >= side.block / 4


@pytest.mark.parametrize(
    ("bar", "call", "calls"),
    [
        pytest.param(2.0, CALL / 2, 12, id="at the bar, as long as the baseline's"),
        pytest.param(5.0, CALL, 12, id="far below, no more than twice as long"),
        pytest.param(2.0, CALL / 1000, 1500, id="far above, long enough for the clock"),
        pytest.param(2.0, 100 * CALL, 1, id="a call takes longer than a block"),
    ],
)
def test_a_block_of_the_candidate_is(bar, call, calls):
    sides = Scripted(CALL), Scripted(call, role="candidate")
    assert plan(bar, *sides, [CALL, call]) == (6, calls)
