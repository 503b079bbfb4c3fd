"""First calls: each in a process of its own, which has compiled nothing, and the verdict about them."""

import os

import jax
import jax.numpy as jnp
import pytest

from autograder import speedup
from autograder.failure import CheckFailed
from autograder.measuring import bench
from autograder.measuring import speedup as speedup_module
from autograder.measuring.fork_server import AVAILABLE
from autograder.measuring.request import Comparison
from autograder.measuring.wire.messages import Artefact, Contest, Load, Loaded, Outcome, SideRaised, Source
from autograder.measuring.worker.clock import ProcessClock
from autograder.measuring.worker.cold import Cold
from autograder.measuring.worker.jobs import Jobs
from autograder.measuring.worker.refusal import Refused
from autograder.measuring.worker.sides import Candidates

linux = pytest.mark.skipif(not AVAILABLE, reason="reads /proc")
X = jnp.arange(1.0, 9.0)


@pytest.fixture(autouse=True)
def no_process_is_left():
    yield
    bench.stop()


@jax.jit
def once(x):
    return x + 1


def often(x):
    for size in range(6):  # as many programs
        y = jax.jit(lambda x, size=size: jnp.zeros(size).sum() + x + 1)(x)
    return y


KEPT = []


def remembers(x):
    KEPT.append(x)
    return KEPT[0] + len(KEPT)


# --- how it travels -------------------------------------------------------------------------------------------------


def test_both_sides_travel_as_source_and_nothing_is_compiled_before():
    cold = Comparison(once, often, (X,), cold=True)
    assert cold.load.cold and isinstance(cold.load.baseline, Source) and isinstance(cold.load.candidate, Source)
    assert set(cold.how.values()) == {"source, in a new process for each call"}
    warm = Comparison(once, often, (X,))
    assert not warm.load.cold and isinstance(warm.load.candidate, Artefact)


# --- in the measuring process -----------------------------------------------------------------------------------------


class Newborn:
    """A process for one call, without a process."""

    def __init__(self):
        self.pid, self.asked, self.closed, self.candidates = os.getpid(), [], 0, Candidates()

    def ask(self, request):
        self.asked.append(type(request).__name__)
        reply = self.candidates.answer(request)
        if isinstance(reply, SideRaised):
            raise Refused(reply)
        return reply

    def close(self):
        self.closed += 1


@pytest.fixture
def born():
    return []


@pytest.fixture
def jobs(born):
    def start():
        born.append(Newborn())
        return born[-1]

    return Jobs(start)


def load(candidate, baseline):
    return Comparison(candidate, baseline, (X,), cold=True).load


def test_each_call_is_the_first_and_last_one_of_a_process(jobs, born):
    sent = load(remembers, remembers)
    loaded = jobs.answer(sent)
    assert isinstance(loaded, Loaded) and (loaded.results, loaded.taken, loaded.returned) == (["float32[8]"], 32, 32)
    outcome = jobs.answer(Contest(sent.job, bar=None, budget=0, calibrate=True))
    assert isinstance(outcome, Outcome) and len(outcome.baseline) == len(outcome.candidate) >= 1
    assert all(one.asked == ["LoadCandidate", "Prepare", "Run", "GetResult"] for one in born[:2])
    assert all(one.asked.count("Run") == one.asked.count("Prepare") == 1 for one in born)
    assert all(one.closed == 1 for one in born)


def test_a_call_that_is_not_looked_at_is_ended_by_the_next_or_with_its_job(jobs, born):
    sent = load(once, once)
    jobs.answer(sent)
    side = jobs._jobs[sent.job].candidate
    before = len(born)
    side.prepare(1, 1)
    side.prepare(1, 2)
    assert [one.closed for one in born[before:]] == [1, 0]
    jobs._drop(sent.job)
    assert [one.closed for one in born[before:]] == [1, 1]


def raises(x):
    raise KeyError("weights")


@pytest.mark.parametrize(
    ("candidate", "baseline", "side"),
    [(raises, once, "candidate"), (once, raises, "baseline"), (raises, raises, "baseline")],
)
def test_the_side_that_raised_is_named(jobs, candidate, baseline, side):
    found = jobs.answer(load(candidate, baseline))
    assert isinstance(found, SideRaised) and (found.side, found.kind) == (side, "KeyError")


class Compiles(dict):
    """Each time it is filled, and so when it is unpacked."""

    def __setitem__(self, key, value):
        jax.jit(lambda x: x * 3)(value)


FILLED = Compiles()
dict.__setitem__(FILLED, "a", 1)


def looks(x):
    return x + len(FILLED)


def test_nothing_is_compiled_while_a_function_is_unpacked(jobs):
    loaded = jobs.answer(Comparison(looks, looks, (X,), cold=True).load)
    assert isinstance(loaded, SideRaised) and "compiles while the function is unpacked" in loaded.text


def test_an_artefact_has_no_first_call(jobs):
    artefact = Comparison(once, once, (X,)).load
    sent = Load(artefact.job, artefact.inputs, artefact.baseline, artefact.candidate, None, cold=True)
    assert "compiled artefact has nothing left to compile" in jobs.answer(sent).text


@linux
def test_the_clock_counts_what_all_threads_of_a_process_ran():
    own = ProcessClock(os.getpid())
    reading = own.read()
    assert own.scheduled and reading.running > 0 and reading.delay >= 0
    own.close()
    wall = ProcessClock(os.getpid(), wall_only=True).read()
    assert (wall.delay, wall.running) == (0, 0) and wall.wall > reading.wall


# --- the verdict -----------------------------------------------------------------------------------------------------


def test_the_way_to_the_first_answer_is_compared():
    answer = speedup(once, often, X, at_least=1.5, cold=True)
    assert (answer.verdict, answer.cold) == ("pass", True)
    assert answer.ratio > 1.5 and answer.pairs >= 4
    assert "faster than often to the first answer (" in str(answer) and ", bar 1.5x: pass; " in str(answer)
    assert answer.at_least(1.2) == "pass"
    with pytest.raises(CheckFailed, match="a_little_more and once disagree in 8 of 8 values"):
        speedup(a_little_more, once, X, cold=True)


def a_little_more(x):
    return x + 1.01


def fake(monkeypatch, ratios):
    """The measuring process finds these ratios."""
    contests = []

    class Process:
        number, core, alive = 0, -1, True

        def __init__(self, number):
            pass

        def ask(self, request, *, limit):
            if isinstance(request, Load):
                return Loaded({"baseline": 1.0, "candidate": 1.0}, "fake", "cpu", ["float32[8]"], 32, 32)
            contests.append(request)
            answer = None if len(ratios) < 7 else "pass" if min(ratios) > request.bar else "fail"
            return Outcome(answer, [ratio * 1e8 for ratio in ratios], [1e8] * len(ratios), [0.0] * len(ratios), 3.0)

        def close(self):
            pass

    monkeypatch.setattr(bench, "_benches", [])
    monkeypatch.setattr(bench, "Bench", Process)
    monkeypatch.setattr(speedup_module, "_compare_with_limit", lambda answer, returned: None)
    return contests


def test_no_second_process_is_asked_near_the_bar_as_each_call_had_its_own(monkeypatch):
    contests = fake(monkeypatch, [2.5] * 7)
    answer = speedup(once, often, X, at_least=2, cold=True)
    assert (answer.verdict, len(bench._benches)) == ("pass", 1)
    assert answer.at_least(2.4) == "pass" and answer.at_least(2.6) == "fail"
    assert [(one.bar, one.budget) for one in contests] == [(2, speedup_module.COLD_BUDGET)], "the same pairs decide"


def test_too_few_first_calls_decide_nothing(monkeypatch):
    contests = fake(monkeypatch, [2.5] * 5)
    answer = speedup(once, often, X, at_least=2, cold=True)
    assert (answer.verdict, answer.at_least(3), len(contests)) == ("undecided", "undecided", 2)
    assert "there was time for 5 pairs only" in str(answer)


def test_a_supply_of_first_calls_makes_none_here():
    side = Cold("baseline", Source(b"", False), Comparison(once, once, (X,)).load.inputs, Newborn)
    assert side.supply.most_calls(100) == 1
    assert side.supply.again(5) != side.supply.again(5)
    with pytest.raises(NotImplementedError):
        side.supply.block(1, 0, tuple)
    side.close()
