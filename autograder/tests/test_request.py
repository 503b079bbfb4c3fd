"""A comparison as it is sent: what each side becomes, and what it is a function of. No process is started here."""

import functools
import threading

import jax
import jax.export
import jax.numpy as jnp
import pytest

from autograder.failure import CheckFailed
from autograder.measuring.request import Comparison
from autograder.measuring.wire.messages import Artefact, Source

X = jnp.arange(4.0)


def plain(x, *rest):
    return x


def candidate(fn, *args):
    return Comparison(fn, plain, args or (X,)).load.candidate


def run(code, *values):
    """What an artefact returns."""
    return [leaf.tolist() for leaf in jax.export.deserialize(bytearray(code)).call(*values)]


def test_each_side_says_how_it_travels():
    compared = Comparison(plain, jax.jit(plain), (X,))
    assert compared.how == {"candidate": "source, in a process of its own", "baseline": "compiled artefact"}
    assert compared.names == {"candidate": "plain", "baseline": "plain"}
    assert Comparison(plain, plain, (X,)).how["baseline"] == "source"


def test_an_artefact_is_a_function_of_its_arguments():
    sent = candidate(jax.jit(lambda tree, n: {"a": tree["w"] * n, "b": tree["v"][0]}), {"v": [X], "w": X + 1}, 3)
    assert sent.slots == [0, 1, 2]
    assert run(sent.code, X, X * 10, 2) == [[0, 20, 40, 60], [0, 1, 2, 3]]


@pytest.mark.parametrize(("static", "slots"), [((1,), [0, 2]), ((2,), [0, 1]), ((1, 2), [0])])
def test_numbers_that_are_static_are_found(static, slots):
    @functools.partial(jax.jit, static_argnums=static)
    def fn(x, n, m):
        return x[: n if 1 in static else 2] + m * jnp.ones(m if 2 in static else 1)[0]

    sent = candidate(fn, X, 2, 3)
    assert isinstance(sent, Artefact) and sent.slots == slots


def test_what_donates_or_calls_back_travels_as_source():
    def called_back(x):
        return jax.pure_callback(lambda x: x, x, x)

    for fn in (jax.jit(plain, donate_argnums=0), jax.jit(called_back), plain):
        assert isinstance(candidate(fn), Source)


@jax.tree_util.register_static
class Kept:
    pass


@pytest.mark.parametrize("what", [threading.Lock(), (n for n in range(3)), X.__class__, Kept])
def test_what_cannot_travel_is_told(what):
    def fn(x):
        return x, what

    if what is X.__class__:
        assert isinstance(candidate(fn), Source), "a class of JAX travels by its name"
        return
    with pytest.raises(CheckFailed, match="the candidate fn cannot be sent to the measuring process"):
        candidate(fn)


def test_the_reference_is_the_baseline_in_double_precision():
    def reference(baseline):
        comparison = Comparison(plain, baseline, (X,))
        comparison.add_reference()
        return comparison.load.reference

    code = reference(jax.jit(lambda x: x + 1)).code
    assert jax.export.deserialize(bytearray(code)).in_avals[0].dtype == "float64"
    assert reference(jax.jit(lambda x: jax.lax.add(x, jnp.ones(4, jnp.float32)))).code is None


def test_operations_are_those_of_a_jitted_candidate():
    assert Comparison(jax.jit(lambda x: x * 2 + 1), plain, (X,)).operations() == 8
    assert Comparison(plain, plain, (X,)).operations() == 0


def test_operations_that_cannot_be_counted_are_none(monkeypatch):
    def flops(jaxpr):
        raise NotImplementedError

    monkeypatch.setattr("autograder.instruments.flops.flops", flops)
    assert Comparison(jax.jit(plain), plain, (X,)).operations() == 0
