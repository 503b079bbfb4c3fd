"""The jobs of a measuring process, asked in the process of the tests; the guest is an object beside it."""

import types
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from autograder.measuring.request import Comparison
from autograder.measuring.wire.messages import (
    Contest,
    Drop,
    Forgotten,
    Loaded,
    MeasureLimits,
    NeedsReference,
    OtherStructure,
    OtherValues,
    Outcome,
    SideRaised,
)
from autograder.measuring.worker import jobs as jobs_module
from autograder.measuring.worker.jobs import Jobs
from autograder.measuring.worker.refusal import Refused
from autograder.measuring.worker.sides import Candidates

X = jnp.arange(1.0, 5.0)


@jax.jit
def double(x):
    return 2 * x


def plain_double(x):
    return x + x


class Guest:
    """What runs candidates, without a process of its own."""

    def __init__(self):
        self.process = types.SimpleNamespace(pid=0, poll=lambda: None)  # of no process: the wall clock counts
        self.candidates, self.asked, self.closed = Candidates(), [], False

    def ask(self, request):
        self.asked.append(request)
        reply = self.candidates.answer(request)
        if isinstance(reply, SideRaised | OtherStructure):
            raise Refused(reply)
        return reply

    def close(self):
        self.closed = True


@pytest.fixture
def guest():
    return Guest()


@pytest.fixture
def jobs(guest):
    return Jobs(lambda: guest)


def load(candidate=double, baseline=double):
    return Comparison(candidate, baseline, (X,)).load


@pytest.mark.parametrize("candidate", [double, plain_double], ids=["here", "in the guest"])
def test_what_agrees_is_loaded_and_timed(jobs, candidate):
    sent = load(candidate)
    loaded = jobs.answer(sent)
    assert isinstance(loaded, Loaded) and (loaded.results, loaded.taken, loaded.returned) == (["float32[4]"], 16, 16)
    assert all(1e-7 < seconds < 100 for seconds in loaded.first_call.values())
    outcome = jobs.answer(Contest(sent.job, bar=None, budget=0))
    assert isinstance(outcome, Outcome) and len(outcome.baseline) == len(outcome.candidate) >= 1
    assert isinstance(jobs.answer(Contest(sent.job, bar=None, budget=0, calibrate=True)), Outcome)


def fills_later(x):
    """What it returns is right once its argument is thrown away."""
    given, found = np.array(x), np.zeros(4, np.float32)

    def late():
        found[...] = 2 * given

    weakref.finalize(x, late)
    return found


def test_what_the_guest_returns_is_what_it_was_when_the_time_was_over(jobs):
    refused = jobs.answer(Comparison(fills_later, plain_double, (X,)).load)
    assert isinstance(refused, OtherValues), refused


class Computes(np.matrix):
    """Passes for an array of one's own kind."""


def test_an_array_of_a_class_of_ones_own_is_none(jobs):
    refused = jobs.answer(Comparison(lambda x: np.zeros(4, np.float32).view(Computes), double, (X,)).load)
    assert isinstance(refused, OtherStructure) and "returns a Computes, which is neither" in refused.what


def test_the_time_of_asking_the_guest_is_not_the_candidate_s(jobs, guest):
    sent = load(plain_double)
    jobs.answer(sent)
    assert 0 < jobs._jobs[sent.job].candidate.overhead < 1e9
    assert 0 in [request.calls for request in guest.asked if hasattr(request, "calls")]


def wrong(x):
    return 2 * x + 1


def fails(x):
    raise KeyError("weights")


def once(x):
    """Right for the arguments as they are given, and for no others."""
    return 2 * jnp.arange(1.0, 5.0)


@pytest.mark.parametrize(
    ("candidate", "baseline", "reply"),
    [
        (jax.jit(wrong), plain_double, OtherValues),
        (jax.jit(wrong), double, NeedsReference),
        (jax.jit(lambda x: x[:2]), double, OtherStructure),
        (fails, double, SideRaised),
        (double, fails, SideRaised),
    ],
)
def test_what_does_not_agree_is_refused_and_not_kept(jobs, candidate, baseline, reply):
    sent = load(candidate, baseline)
    found = jobs.answer(sent)
    assert type(found) is reply
    if reply is SideRaised:
        assert (found.side, found.kind) == ("candidate" if candidate is fails else "baseline", "KeyError")
    assert jobs.answer(Contest(sent.job, bar=None, budget=0)) == Forgotten(sent.job)


@pytest.mark.parametrize(("candidate", "repeats"), [(once, True), (lambda x: 2 * x + (x != X), False)])
def test_a_contest_ends_when_new_inputs_have_other_results(jobs, candidate, repeats):
    comparison = Comparison(candidate, double, (X,))
    assert isinstance(jobs.answer(comparison.load), Loaded)
    race = Contest(comparison.load.job, bar=2, budget=1)
    assert isinstance(jobs.answer(race), NeedsReference)  # it may be rounding: only double precision can say
    comparison.add_reference()
    assert isinstance(jobs.answer(comparison.load), Loaded)
    found = jobs.answer(race)
    assert isinstance(found, OtherValues) and (found.on, found.repeats) == ("new", repeats)


def test_only_the_latest_jobs_are_kept(jobs, guest):
    sent = [load(candidate) for candidate in (double, plain_double, *[double] * 6)]
    for one in sent:
        jobs.answer(one)
    asked = [jobs.answer(Contest(one.job, bar=None, budget=0)) for one in sent]
    assert [isinstance(reply, Forgotten) for reply in asked] == [True] * 2 + [False] * 6
    assert guest.asked[-1] == Drop(sent[1].job)


def test_what_fails_in_here_is_told(jobs, monkeypatch):
    def measure(size, seconds):
        raise RuntimeError("no memory")

    monkeypatch.setattr(jobs_module, "measure_limits", measure)
    assert jobs.answer(MeasureLimits(4096, 1)).text == "RuntimeError: no memory"


def test_each_side_of_a_first_call_is_its_own_function(jobs):
    sent = Comparison(plain_double, lambda x: x * 2, (X,), cold=True).load
    assert sent.candidate != sent.baseline
    for role, function in (("candidate", sent.candidate), ("baseline", sent.baseline)):
        assert jobs._cold(role, sent)._load.candidate == function


def test_the_guest_is_ended_with_the_jobs_where_there_is_one(jobs, guest):
    jobs.close()
    assert not guest.closed
    jobs.answer(load(plain_double))
    jobs.close()
    assert guest.closed
