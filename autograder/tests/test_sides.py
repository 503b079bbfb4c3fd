"""A side in this process: which of its calls is checked, what it keeps, and which threads its clock watches."""

import io
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from autograder.measuring.request import Comparison
from autograder.measuring.wire.messages import Artefact, Done, Drop, Run, SideRaised
from autograder.measuring.worker import sides
from autograder.measuring.worker.inputs import AS_GIVEN, Block
from autograder.measuring.worker.refusal import Refused
from autograder.measuring.worker.sides import Candidates, Guest, Local, Timed, build


class Numbered:
    """Inputs that are the numbers of their calls; the result of call `checked` is compared."""

    def __init__(self, checked):
        self.checked = checked

    def block(self, calls, draw, arrange):
        return Block([arrange([n]) for n in range(calls)], self.checked)


@pytest.mark.parametrize(("calls", "checked"), [(1, 0), (4, 0), (4, 2), (4, 3)])
def test_every_call_is_made_once_in_order_and_one_is_checked(calls, checked):
    seen = []

    def call(n):
        seen.append(n)
        return {"twice": 2 * n}

    side = Local("candidate", call, [], supply=Numbered(checked))
    side.prepare(calls, 1)
    side.run()
    assert seen == list(range(calls))
    assert side.result() == [2 * checked]
    side.run()
    assert seen == list(range(calls)), "what was called is not kept"
    side.clock.close()


def test_a_result_outlasts_the_next_call_that_uses_its_buffer():
    buffer = np.zeros(2)

    def call(n):
        buffer[:] = n
        return buffer

    side = Local("candidate", call, [], supply=Numbered(1))
    side.prepare(3, 1)
    side.run()
    assert side.result()[0].tolist() == [1, 1]
    side.clock.close()


@pytest.mark.parametrize("checked", [0, 1, 2])
def test_what_computes_when_it_is_looked_at_is_looked_at_once_a_call_and_within_the_time(checked):
    looks = []

    @jax.tree_util.register_pytree_node_class
    class Later:
        def __init__(self, n):
            self.n = n

        def tree_flatten(self):
            looks.append(self.n)
            return (np.float32(self.n),), None

        @classmethod
        def tree_unflatten(cls, _, children):
            return cls(*children)

    side = Local("candidate", Later, [], supply=Numbered(checked))
    side.prepare(3, 1)
    side.run()
    assert looks == [0, 1, 2]
    assert side.result() == [checked]
    assert looks == [0, 1, 2]
    side.clock.close()


def test_a_block_without_a_call_calls_nothing():
    side = Local("baseline", pytest.fail, [])
    side.prepare(0, AS_GIVEN)
    side.run()
    side.clock.close()


def test_what_a_side_must_do_has_to_be_written():
    with pytest.raises(TypeError, match="abstract"):
        Timed("candidate", None, 0, None)
    for method in ("prepare", "run", "result"):
        assert method in Timed.__abstractmethods__


def test_the_clock_watches_the_threads_that_worked_for_a_call(monkeypatch):
    ran = iter([{(7, 1): 10, (7, 2): 20}, {(7, 1): 10, (7, 2): 21, (7, 3): 5}])
    watched = []

    class Clock:
        scheduled = True

        def __init__(self, *helpers, **options):
            watched.append(list(helpers))

        def close(self):
            pass

    monkeypatch.setattr(sides, "workers", lambda process: next(ran))
    monkeypatch.setattr(sides, "Clock", Clock)
    side = Local("baseline", jax.jit(lambda x: x), [jnp.ones(2)])
    side.watch(1, AS_GIVEN)
    assert watched == [[], [(7, 2), (7, 3)]], "the first ran before, and not for this"


@pytest.mark.parametrize("error", [EOFError, BrokenPipeError])
def test_a_guest_that_has_ended_is_told_of_and_collected(monkeypatch, error):
    def receive(stream, declared):
        raise error

    ended = []
    guest = object.__new__(Guest)
    guest.process = types.SimpleNamespace(kill=lambda: ended.append("killed"), wait=lambda: ended.append("waited"))
    guest._requests, guest._replies = io.BytesIO(), io.BytesIO()
    monkeypatch.setattr(sides.messages, "send", lambda stream, message: None)
    monkeypatch.setattr(sides.messages, "receive", receive)
    with pytest.raises(Refused) as caught:
        guest.ask(Done())
    assert caught.value.reply == SideRaised("candidate", "SystemExit", "its process ended without an answer")
    assert ended == ["killed", "waited"]


def test_what_a_compiled_function_is_given_lies_on_the_device():
    sent = Comparison(jax.jit(jnp.sin), jax.jit(jnp.sin), (np.ones(4, np.float32),)).load
    assert isinstance(sent.candidate, Artefact)
    side = build("candidate", sent.candidate, sent.inputs, fresh=False)
    assert [type(leaf) for leaf in side.leaves] == [type(jnp.ones(4))]
    side.clock.close()


def test_an_error_in_the_guest_is_told_and_ends_nothing():
    candidates = Candidates()
    assert candidates.answer(Run()).kind == "AttributeError"  # nothing was prepared
    assert isinstance(candidates.answer(Drop("none")), Done)
