"""`speedup`: the answer on margins that no noise can turn, and what it says when the values are wrong."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from autograder import assert_allclose, partial_credit, speedup
from autograder.failure import CheckFailed
from autograder.measuring import bench
from autograder.measuring import speedup as speedup_module
from autograder.measuring.roofline import Roofline
from autograder.measuring.speedup import Decision, Speedup
from autograder.measuring.wire.messages import Contest, Load, Loaded, Outcome, Rate

REPEATS = 1000


@pytest.fixture(scope="module", autouse=True)
def one_process():
    yield
    bench.stop()


@jax.jit
def fast(x):
    return x + 1


def slow(x):
    for _ in range(REPEATS):
        y = fast(x)
    return y


X = jnp.arange(8.0)


def test_a_thousand_times_faster_passes():
    answer = speedup(fast, slow, X, at_least=5)
    assert isinstance(answer, Speedup)
    assert answer.verdict == "pass"
    assert 5 < answer.low <= answer.ratio <= answer.high


def test_a_thousand_times_slower_fails_and_does_not_raise():
    answer = speedup(slow, fast, X, at_least=5)
    assert answer.verdict == "fail"
    assert answer.ratio < 0.2
    assert "slower than fast" in str(answer)


def test_tiers_use_the_same_answer():
    answer = speedup(fast, slow, X, at_least=2)
    assert [answer.at_least(threshold) for threshold in (1.5, 2, 5, 20, 1e7)] == ["pass"] * 4 + ["fail"]
    assert answer.at_least(1e8) == "fail"


@pytest.mark.parametrize(
    ("ratios", "processes", "again"),
    [
        ([9.0] * 7, 1, False),
        ([1.0] * 7, 1, False),
        ([9.0] * 6 + [4.3], 1, True),
        ([1.0] * 6 + [1.2], 1, True),
        ([9.0] * 3, 1, True),
        ([4.3] * 7, 2, False),
        ([1.4] * 7, 2, False),
        ([4.3] * 6 + [2.9], 2, True),
        ([1.4] * 6 + [1.5], 2, True),
    ],
    ids=["above", "below", "one near", "near below", "too few", "two above", "two below", "two near", "two near below"],
)
def test_pairs_decide_another_tier_only_where_all_are_far_from_it(monkeypatch, ratios, processes, again):
    """Farther where they are of one process: what is near a bar needs a second one."""
    asked = []

    def decide(comparison, bar):
        asked.append(bar)
        return Decision(Outcome("pass", [], [], [], 0.0), None, 1)

    monkeypatch.setattr(speedup_module, "decide", decide)
    answer = an_answer(_ratios=ratios, processes=processes)
    assert answer.at_least(2.2) == ("pass" if again or ratios[0] > 2.2 else "fail")
    assert asked == [2.2] * again


def test_without_a_bar_there_is_a_ratio_and_tiers_can_be_asked():
    answer = speedup(fast, slow, X)
    assert answer.bar is None
    assert answer.at_least(5) == "pass"
    assert "bar" not in str(answer)


def test_the_line_names_both_functions_the_bar_and_the_verdict():
    line = str(speedup(fast, slow, X, at_least=5))
    assert line.startswith("fast is ")
    assert "x faster than slow (" in line
    assert ", bar 5x: pass; " in line
    assert "% of this machine's" in line


def test_the_picture_is_small_and_says_the_numbers():
    bundle = speedup(fast, slow, X, at_least=5)._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert "bar 5x" in bundle["text/html"] and " rounds from " in bundle["text/html"]
    assert (
        "how near this is to the fastest" in bundle["text/html"]
        and "% of what this machine allows" in bundle["text/html"]
    )
    assert len(bundle["text/html"]) < 12000


def test_the_answer_says_what_was_measured():
    answer = speedup(fast, slow, X, at_least=5)
    assert answer.device == jax.devices()[0].device_kind
    assert answer.results == ["float32[8]"]
    assert answer.how == {"candidate": "compiled artefact", "baseline": "source"}
    assert answer.moved == 64
    assert set(answer.seconds) == set(answer.compile_seconds) == {"candidate", "baseline"}


def test_a_plain_candidate_runs_from_source_in_its_own_process():
    answer = speedup(slow, slow, X, at_least=100)
    assert answer.how["candidate"].startswith("source")
    assert answer.verdict == "fail"


def test_static_arguments_are_found():
    @functools.partial(jax.jit, static_argnums=1)
    def once(x, n):
        return x + jnp.ones(n)

    def often(x, n):
        for _ in range(REPEATS):
            y = once(x, n)
        return y

    answer = speedup(once, often, X, 8, at_least=5)
    assert answer.how["candidate"] == "compiled artefact"
    assert answer.verdict == "pass"


def test_pytrees_and_numbers_as_arguments():
    @jax.jit
    def once(tree, scale):
        return {"sum": tree["a"] + tree["b"][0], "scale": scale * 2.0}

    def often(tree, scale):
        for _ in range(REPEATS):
            y = once(tree, scale)
        return y

    assert speedup(once, often, {"a": X, "b": [X]}, 3, at_least=5).verdict == "pass"


def test_a_donating_candidate_gets_fresh_buffers():
    @functools.partial(jax.jit, donate_argnums=0)
    def once(x):
        return x + 1

    answer = speedup(once, slow, X, at_least=5)
    assert answer.how["candidate"].startswith("source")
    assert answer.verdict == "pass"
    assert not X.is_deleted()


def test_official_grading_asks_for_a_stated_share(monkeypatch):
    asked = []
    decide = speedup_module.decide

    def spy(job, bar):
        asked.append(bar)
        return decide(job, bar)

    monkeypatch.setattr(speedup_module, "decide", spy)
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert "official grading: 4x" in str(speedup(fast, slow, X, at_least=5))
    assert asked == [5 * speedup_module.OFFICIAL]


def test_the_bar_may_depend_on_the_platform():
    answer = speedup(fast, slow, X, at_least={jax.default_backend(): 5, "other": 1e9})
    assert (answer.bar, answer.verdict) == (5, "pass")
    assert speedup(fast, slow, X, at_least={"other": 1e9, "default": 5}).bar == 5
    assert speedup(fast, slow, X, at_least={jax.default_backend(): 5, "default": 1e9}).bar == 5


@pytest.mark.parametrize("bars", [{"other": 2}, {jax.default_backend(): None}, {}])
def test_without_a_bar_for_the_platform_the_ratio_is_shown_and_not_graded(bars, capsys):
    answer = speedup(fast, slow, X, at_least=bars)
    assert (answer.bar, answer.verdict, answer.at_least(1e9)) == (None, "ungraded", "ungraded")
    assert answer.ratio > 5
    line = f", no bar for this platform ({jax.default_backend()}): shown, not graded; "
    assert line in str(answer)
    assert partial_credit(answer, {1e8: 1, 1e9: 3}) == 3.0
    printed = capsys.readouterr().out
    assert line in printed and "as there is no bar for this platform: 3 of 3 points" in printed


def test_tiers_by_platform_are_those_of_where_it_was_timed():
    answer = speedup(fast, slow, X, at_least=5)
    assert partial_credit(answer, {jax.default_backend(): {2: 1, 5: 2}, "default": {1e9: 2}}) == 2.0


# --- undecided -----------------------------------------------------------------------------------------------------


def an_answer(**changes):
    values = dict(
        candidate="f",
        baseline="g",
        bar=2.0,
        ratio=2.0,
        low=1.9,
        high=2.1,
        pairs=400,
        device="cpu",
        results=["float32[]"],
        how={},
        seconds={},
        compile_seconds={},
        others=0.0,
        _comparison=None,
    )
    return Speedup(**values | changes)


def test_undecided_says_that_the_ratio_is_at_the_bar():
    assert "bar 2x: undecided, because the ratio is too close to the bar" in str(an_answer())


@pytest.mark.parametrize(("low", "high"), [(2.0, 2.1), (1.9, 2.0)])
def test_a_bar_at_the_end_of_the_interval_is_close_too(low, high):
    assert "because the ratio is too close to the bar" in str(an_answer(low=low, high=high))


def test_a_ratio_and_its_interval_are_told_the_same_way_round():
    assert str(an_answer(ratio=4.0, low=2.5, high=5.0)).startswith("f is 4x faster than g (2.5 to 5)")
    assert str(an_answer(ratio=0.25, low=0.2, high=0.4)).startswith("f is 4x slower than g (2.5 to 5)")


def test_undecided_says_that_other_programs_disturbed():
    assert "other programs had the core for 60 % of the time" in str(an_answer(others=0.6))


@pytest.mark.parametrize(("put_aside", "told"), [(300, True), (200, False)])
def test_undecided_says_that_the_core_was_slow(put_aside, told):
    line = str(an_answer(put_aside=put_aside))
    assert ("because the core ran slowly in 75 % of the pairs" in line) == told


def test_undecided_says_that_the_calls_are_too_slow():
    assert "there was time for 3 pairs only (2 s for a call" in str(an_answer(pairs=3, seconds={"baseline": 2.0}))


def test_a_share_of_the_limit_is_at_most_all_of_it():
    assert str(an_answer(limit=1.3, binds="dispatch")).endswith(
        "; 100 % of this machine's dispatch rate (the calls that it begins in a second)"
    )
    assert str(an_answer(limit=0.054, binds="arithmetic")).endswith(
        "; 5.4 % of this machine's arithmetic rate (the operations that it does in a second)"
    )


def test_a_new_process_is_asked_before_undecided_is_said(monkeypatch):
    ask, processes = bench.Bench.ask, []

    def never_sure(self, request, *, limit):
        reply = ask(self, request, limit=limit)
        if isinstance(request, Contest):
            processes.append(self.process.pid)
            reply = dataclasses.replace(reply, answer=None, others=[0.0] * 7)
        return reply

    monkeypatch.setattr(bench.Bench, "ask", never_sure)
    assert speedup(fast, slow, X, at_least=5).verdict == "undecided"
    assert len(set(processes)) == 2


def test_a_process_is_told_how_fast_its_core_was(monkeypatch):
    ask, told = bench.Bench.ask, []

    def noted(self, request, *, limit):
        reply = ask(self, request, limit=limit)
        if isinstance(request, Contest):
            told.append((self.core, request.full_speed, reply.full_speed))
        return reply

    monkeypatch.setattr(bench.Bench, "ask", noted)
    monkeypatch.setattr(speedup_module, "_speeds", {})
    speedup(fast, slow, X, at_least=1e-3), speedup(fast, slow, X, at_least=1e-3)
    (core, nothing, first), (same, known, second) = told
    assert core == same and nothing == 0 < min(first, second)
    assert known == first and speedup_module._full_speed(core) <= first


def test_how_fast_a_core_was_is_forgotten_when_it_is_so_no_more(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(speedup_module, "_speeds", {})
    monkeypatch.setattr(speedup_module.time, "monotonic", lambda: now[0])
    speeds = []
    for taken, seconds in ((100.0, 1), (120.0, 200), (90.0, 200), (0.0, 90), (180.0, 99), (180.0, 0)):
        speedup_module._note_speed(3, taken)
        speeds.append(speedup_module._full_speed(3))
        now[0] += seconds
    assert speeds == [100, 100, 90, 90, 90, 180]
    assert speedup_module._full_speed(4) == 0


def test_slow_calls_do_not_ask_for_a_new_process(monkeypatch):
    monkeypatch.setattr(speedup_module, "BUDGET", 0.0)
    before = bench.current()
    answer = speedup(fast, slow, X, at_least=5)
    assert (answer.verdict, answer.pairs) == ("undecided", 1)
    assert bench.current() is before


# --- near the bar -----------------------------------------------------------------------------------------------------


class Processes:
    """Measuring processes without a process: each finds the same ratio in all its pairs, the next one of a list.

    A list has one ratio for each pair. None stands for a process that finds both sides of the bar, "slow" for one that
    has time for a single pair, and "dies" for one that ends. `started` has all.
    """

    def __init__(self, monkeypatch, found):
        self.left, self.started, self.contests, self.confirming = list(found), [], [], []
        monkeypatch.setattr(bench, "_benches", [])
        monkeypatch.setattr(bench, "_started", 0)
        monkeypatch.setattr(bench, "Bench", self.start)
        monkeypatch.setattr(speedup_module, "roofline", bandwidth(1e15))

    def start(self, number):
        self.started.append(Process(self, number, self.left.pop(0)))
        return self.started[-1]

    @property
    def alive(self):
        return [process.number for process in self.started if process.alive]


class Process:
    def __init__(self, family, number, ratio):
        self.family, self.number, self.ratio, self.core, self.alive = family, number, ratio, -1, True

    def ask(self, request, *, limit):
        if self.ratio == "dies":
            self.alive = False
            raise bench.BenchDied
        if isinstance(request, Load):
            return Loaded({"baseline": 1.0, "candidate": 1.0 + self.number}, "fake", "cpu", ["float32[8]"], 32, 32)
        assert isinstance(request, Contest)
        self.family.contests.append((self.number, request.bar))
        self.family.confirming += [self.number] * request.confirms
        pairs = 1 if self.ratio == "slow" else 7
        ratios = self.ratio if isinstance(self.ratio, list) else [self.ratio] * pairs
        known = all(isinstance(ratio, float) for ratio in ratios)
        times = [ratio * 1e6 if known else request.bar * 1e6 for ratio in ratios]
        answer = None if not known else "pass" if sorted(ratios)[pairs // 2] >= request.bar else "fail"
        return Outcome(answer, times, [1e6] * pairs, [0.0] * pairs, 0.01)

    def close(self):
        self.alive = False


def asked(monkeypatch, *found, bar=2.0):
    processes = Processes(monkeypatch, found)
    return speedup(fast, slow, X, at_least=bar), processes


@pytest.mark.parametrize(
    ("found", "verdict", "ratio", "alive"),
    [
        ([4.5], "pass", 4.5, [0]),
        ([0.9], "fail", 0.9, [0]),
        ([2.5, 2.6], "pass", 2.55, [0, 1]),
        ([1.5, 1.6], "fail", 1.55, [0, 1]),
        ([1.5, 2.5, 2.5], "pass", 2.5, [1, 2]),
        ([2.5, 0.5, 2.5], "pass", 2.5, [0, 2]),
        ([2.5, 1.5, 1.5], "fail", 1.5, [1, 2]),
        ([2.5, 1.5, None], "undecided", 2.0, [2]),
        ([None, None], "undecided", 2.0, [1]),
        ([None, 4.5], "pass", 4.5, [1]),
        ([2.5, "dies", 2.5], "pass", 2.5, [0, 1]),
    ],
)
def test_near_the_bar_the_verdict_is_that_of_two_processes(monkeypatch, found, verdict, ratio, alive):
    """What is shown are their pairs, and not those of the one that was outvoted, which is ended."""
    answer, processes = asked(monkeypatch, *found)
    assert answer.verdict == verdict
    assert answer.ratio == pytest.approx(ratio, rel=1e-2)
    assert processes.alive == alive and processes.left == []
    count = len(found) if verdict == "undecided" else len(alive)
    assert (answer.processes, answer.pairs, len(answer._ratios)) == (count, 7 * count, 7 * count)
    assert answer.low == min(answer._ratios) and answer.high == max(answer._ratios)


@pytest.mark.parametrize(
    ("found", "confirming"),
    [([4.5], []), ([2.5, 2.6], [1]), ([2.5, 1.5, 2.5], [1]), ([2.5, None, 2.5], [1]), ([None, 2.5, 2.5], [])],
)
def test_the_second_one_confirms_what_the_first_has_said(monkeypatch, found, confirming):
    """Where they disagree, and where the first has said nothing, the next one is asked as if it were the first."""
    assert asked(monkeypatch, *found)[1].confirming == confirming


def test_a_single_pair_far_from_the_others_does_not_ask_for_a_second_process(monkeypatch):
    answer, processes = asked(monkeypatch, [2.5, 4.5, 4.5, 4.5, 4.5, 4.5, 4.5])
    assert (answer.verdict, answer.processes) == ("pass", 1)
    answer, processes = asked(monkeypatch, [9.0, 9.0, 3.9, 3.9, 3.9, 3.9, 3.9], 3.9)
    assert (answer.verdict, answer.processes) == ("pass", 2)


def test_where_the_calls_have_become_slow_no_third_process_is_asked(monkeypatch):
    answer, processes = asked(monkeypatch, 2.5, "slow")
    assert answer.verdict == "undecided" and len(processes.contests) == 2


def test_the_second_process_stays_and_is_asked_again(monkeypatch):
    processes = Processes(monkeypatch, [2.5, 2.6])
    for _ in range(3):
        assert speedup(fast, slow, X, at_least=2).processes == 2
    assert [number for number, _ in processes.contests] == [0, 1] * 3


def test_a_tier_near_the_ratio_is_confirmed_too(monkeypatch):
    answer, processes = asked(monkeypatch, 4.5, 4.4, 4.5)
    assert (answer.at_least(10), answer.at_least(2.1)) == ("fail", "pass"), "far: the pairs of the first are enough"
    assert processes.contests == [(0, 2.0)]
    assert answer.at_least(4) == "pass" and answer.at_least(3.9) == "pass"
    assert processes.contests[1:] == [(0, 4.0), (1, 4.0)]
    assert answer.at_least(5) == "fail"
    assert processes.contests[3:] == [(0, 5.0), (1, 5.0)]


def test_official_grading_is_near_its_own_bar(monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    answer, processes = asked(monkeypatch, 3.9)
    assert (answer.verdict, answer.processes) == ("pass", 1), "3.9 is near 2, but far from 1.6"
    answer, processes = asked(monkeypatch, 0.9, 0.95)
    assert (answer.verdict, answer.processes, processes.alive) == ("fail", 2, [0, 1])


def test_processes_that_die_twice_are_told(monkeypatch):
    with pytest.raises(CheckFailed, match="ended twice without an answer"):
        asked(monkeypatch, 2.5, "dies", "dies")


def test_compile_times_are_of_a_process_whose_answer_stands(monkeypatch):
    answer, _ = asked(monkeypatch, 0.9 * 2, 2.5, 2.5)
    assert answer.compile_seconds == {"baseline": 1.0, "candidate": 2.0}


def test_a_second_real_process_confirms():
    found = speedup(fast, slow, X, at_least=5)
    again = speedup(fast, slow, X, at_least=found.ratio / 1.7)
    assert again.verdict == "pass" and (again.processes == 2 or again.ratio > 2 * again.bar)


# --- values --------------------------------------------------------------------------------------------------------


def test_wrong_values_are_told_before_any_time():
    @jax.jit
    def wrong(x):
        return jnp.where(x == 3, x + 1.01, x + 1)

    with pytest.raises(CheckFailed, match=r"wrong and slow disagree in 1 of 8 values") as caught:
        speedup(wrong, slow, X, at_least=2)
    assert "index [3]" in str(caught.value)


def test_wrong_shapes_are_told():
    with pytest.raises(CheckFailed, match=r"it returns float32\[3\], the baseline's is float32\[8\]"):
        speedup(jax.jit(lambda x: x[:3]), slow, X, at_least=2)


def test_wrong_kinds_of_numbers_are_told():
    with pytest.raises(CheckFailed, match=r"it returns int32\[8\], the baseline's is float32\[8\]"):
        speedup(jax.jit(lambda x: (x + 1).astype(int)), slow, X, at_least=2)


def one_by_one(x):
    total = jnp.float32(0)
    for value in np.asarray(x):
        total += value
    return total


@jax.jit
def scanned(x):
    return jax.lax.scan(lambda total, value: (total + value, None), jnp.float32(0), x)[0]


@jax.jit
def scanned_in_float32(x):
    return scanned(x.astype(jnp.float32))  # in double precision it is no other


# The ones are added without an error; the multiples of them that are timed are not.
@pytest.mark.parametrize("x", [jnp.linspace(0, 1, 4096), jnp.ones(4096)], ids=["linspace", "ones"])
@pytest.mark.parametrize("slow_sum", [one_by_one, scanned, scanned_in_float32])
def test_rounding_of_another_order_of_operations_is_no_disagreement(slow_sum, x):
    # A bar far below: beside a processor's slow dispatch the sum is 1.4 times as fast as the scan, or 4 times.
    assert speedup(jax.jit(jnp.sum), slow_sum, x, at_least=0.5).verdict == "pass"


def test_less_precision_than_the_baseline_is_a_disagreement():
    @jax.jit
    def half(x):
        return jnp.sin(x.astype(jnp.bfloat16)).astype(jnp.float32)

    def single(x):
        return jnp.sin(x)

    with pytest.raises(CheckFailed, match="disagree"):
        speedup(half, single, jnp.linspace(0, 1, 100), at_least=2)


def test_a_cheat_that_remembers_its_first_answer_is_found():
    kept = []

    def remembers(x):
        if not kept:
            kept.append(x + 1)
        return kept[0]

    with pytest.raises(CheckFailed, match="disagree"):
        speedup(remembers, slow, X, at_least=2)


def a_little_off(x):
    return jnp.sin(x) * (1 + 1e-4)


def test_a_baseline_that_is_right_allows_no_more_than_its_own_rounding():
    """It says so itself: it is run again in double precision."""
    with pytest.raises(CheckFailed, match="a_little_off and sin disagree in 100 of 100 values"):
        speedup(jax.jit(a_little_off), jax.jit(jnp.sin), jnp.linspace(1, 2, 100), at_least=2)


def test_a_baseline_that_rounds_much_allows_as_much():
    @jax.jit
    def rounds(x, far):
        return (x + far) - far

    x, far = jnp.linspace(1, 2, 100), jnp.full(100, 3e4)
    assert float(jnp.abs(rounds(x, far) - x).max()) > 3.5e-4 * 2, "more than is allowed where nothing is known"
    assert speedup(jax.jit(lambda x, far: x * 1.0), rounds, x, far).pairs >= 3


def test_what_assert_allclose_accepts_is_no_disagreement():
    def ninety_units_off(x):
        return slow(x) * np.float32(1 + 90 * 2.0**-23)

    exact = slow(X)
    assert_allclose(ninety_units_off(X), exact)
    assert speedup(ninety_units_off, slow, X).pairs >= 3


# --- faster than memory --------------------------------------------------------------------------------------------


def test_results_that_nobody_wrote_are_refused():
    x = np.arange(1.0, 9.0, dtype=np.float32)

    def many(x):
        return np.repeat(x[:1], 4_000_000)

    def a_view(x):
        return np.broadcast_to(x[:1], 4_000_000)

    with pytest.raises(CheckFailed, match="a_view is faster than this machine can write its results") as caught:
        speedup(a_view, many, x, at_least=2)
    text = str(caught.value)
    assert "a call that returns 16000000 bytes" in text and "is the limit at" in text
    assert "they were ready before it, are views, or come later" in text


def bandwidth(rate):
    once = Rate(rate, rate, rate)
    return lambda size, seconds: Roofline("cpu", size, once, once, once)


def test_only_code_can_be_faster_than_memory(monkeypatch):
    """What is compiled computes its results: there the limit is in doubt, and not the function."""
    monkeypatch.setattr(speedup_module, "roofline", bandwidth(1.0))  # a byte in a second
    with pytest.raises(CheckFailed, match="<lambda> is faster than this machine"):
        speedup(lambda x: fast(x), slow, X)
    assert speedup(fast, slow, X).how["candidate"] == "compiled artefact"
    monkeypatch.setattr(speedup_module, "roofline", bandwidth(1e15))
    assert speedup(lambda x: fast(x), slow, X).pairs >= 3


def test_an_exception_of_the_candidate_is_told():
    def broken(x):
        raise KeyError("weights")

    with pytest.raises(CheckFailed, match="broken raised KeyError") as caught:
        speedup(broken, slow, X, at_least=2)
    assert "weights" in str(caught.value)


def test_what_cannot_travel_is_told():
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class State:
        x: jax.Array

    def with_a_pytree(x):
        return State(x).x + 1

    with pytest.raises(CheckFailed, match="with_a_pytree cannot be sent") as caught:
        speedup(with_a_pytree, slow, X, at_least=2)
    assert "the class" in str(caught.value) and "State is registered as a pytree" in str(caught.value)


def test_the_side_that_raised_is_named():
    def moody(x):
        if x[-1] != 7:
            raise ValueError("not today")
        return fast(x)

    with pytest.raises(CheckFailed, match="moody raised ValueError") as caught:
        speedup(fast, moody, X, at_least=2)
    assert "not today" in str(caught.value)


def test_a_class_travels_with_the_function_that_uses_it():
    class State:
        def __init__(self, x):
            self.x = x

    def with_a_class(x):
        return State(x).x + 1

    assert speedup(with_a_class, slow, X, at_least=2).verdict == "pass"


@pytest.mark.parametrize("bar", [0, -1, float("nan"), float("inf"), "2", True, {"cpu": 5, "other": -1}, {"other": "2"}])
def test_a_bar_that_is_no_positive_number_is_refused(bar):
    with pytest.raises(ValueError, match="at_least"):
        speedup(fast, slow, X, at_least=bar)


def test_what_is_not_a_function_is_refused():
    with pytest.raises(TypeError, match="the baseline must be a function"):
        speedup(fast, 3, X, at_least=2)
