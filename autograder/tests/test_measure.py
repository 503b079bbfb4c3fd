"""Calibration and contest, on a clock that the tests turn by hand."""

import pytest

from autograder.measuring.verdict import CONFIRM, LEAD
from autograder.measuring.wire.messages import Contest
from autograder.measuring.worker import contest as contest_module
from autograder.measuring.worker import jobs as jobs_module
from autograder.measuring.worker.clock import Reading
from autograder.measuring.worker.contest import calibrate, contest, plan
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

    def read(self):
        return Reading(self.now, 0)

    def prepare(self, calls, draw):
        self.calls = calls
        self.draws.append(draw)

    def run(self):
        self.now += self.calls * self.call + self.pauses.get(self.blocks, 0)
        self.blocks += 1

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


def a_contest(call, supply, bar=2.0, **more):
    """A contest of two scripted sides: (outcome, baseline, candidate, what was compared in each pair)."""
    baseline = Scripted(CALL, role="baseline", supply=supply)
    candidate = Scripted(call, role="candidate", supply=supply)
    compared = []
    outcome = contest(baseline, candidate, bar, [CALL, call], 1.5, lambda *what: compared.append(what), **more)
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
