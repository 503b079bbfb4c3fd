"""What travels to the measuring process: functions with what they name, the leaves of their arguments, messages."""

import dataclasses
import functools
import importlib
import os
import pickle
import subprocess
import sys
from typing import NamedTuple

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from autograder.measuring.wire import arrays, messages
from autograder.measuring.wire.functions import dumps, loads


@jax.jit
def double(x):
    return 2 * x


OFFSET = 3.0


def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


def through(value):
    """`value` after its journey: in this process, but from bytes alone."""
    return loads(dumps(value))


def test_a_function_travels_with_what_it_names():
    factor = 2.0

    def inner(x):
        return double(x) * factor + OFFSET + factorial(3)

    arrived = through(inner)
    assert arrived is not inner
    assert arrived(1.0) == inner(1.0) == 13.0


def test_a_recursive_function_travels():
    assert through(factorial)(5) == 120


def test_defaults_and_keywords_travel():
    def f(x, y=2, *, z=3):
        return x + y + z

    assert through(f)(1) == 6


def test_options_of_jit_travel():
    fixed = jax.jit(lambda x, n: x * n, static_argnums=1, donate_argnums=0)
    x = jnp.ones(3)
    assert through(fixed)(x, 2).tolist() == [2, 2, 2]
    assert x.is_deleted()
    named = jax.jit(lambda x, n: x * n, static_argnames="n")
    assert through(named)(jnp.ones(3), n=2).tolist() == [2, 2, 2]


def test_a_jitted_function_arrives_whole():
    arrived = through(double)
    assert arrived is not double and arrived.__name__ == "double"
    assert arrived.__wrapped__(3) == 6
    assert arrived.lower(1.0).as_text() == double.lower(1.0).as_text()
    assert str(arrived.trace(1.0).jaxpr) == str(double.trace(1.0).jaxpr)


@pytest.mark.parametrize("name", ["jnp.sin", "jnp.add", "jax.nn.relu", "jax.lax.scan", "np.sin", "np.linalg.norm"])
def test_library_functions_travel_by_name(name):
    fn = eval(name)
    assert through(fn) is fn


def test_this_package_travels_by_name_wherever_it_lies():
    assert through(arrays.encode) is arrays.encode
    assert through(arrays.Slot(3)).__class__ is arrays.Slot


def test_what_remembers_its_answers_travels():
    @functools.cache
    def fibonacci(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    arrived = through(fibonacci)
    assert arrived(50) == 12586269025
    assert arrived.cache_parameters() == {"maxsize": None, "typed": False}


def test_keys_travel():
    key = jax.random.key(7, impl="rbg")
    drawn = through(lambda: jax.random.normal(key))()
    assert drawn == jax.random.normal(key)


IN_A_FRESH_PROCESS = """
import pickle, sys
fn = pickle.load(open(sys.argv[1], "rb"))
print(fn(2.0), fn.__module__ in sys.modules)
"""


def test_a_module_that_is_not_installed_travels_with_its_functions(tmp_path, monkeypatch):
    """The measuring process cannot import what lies beside a notebook."""
    tmp_path.joinpath("beside.py").write_text("FACTOR = 5\ndef times(x):\n    return FACTOR * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    beside = importlib.import_module("beside")

    def by_module(x):
        return beside.times(x) + beside.FACTOR

    for number, (fn, value) in enumerate([(beside.times, 10.0), (by_module, 15.0)]):
        file = tmp_path / f"{number}.pickle"
        file.write_bytes(dumps(fn))
        command = [sys.executable, "-P", "-c", IN_A_FRESH_PROCESS, str(file)]
        output = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=os.sep, check=True).stdout
        assert output == f"{value} False\n"
    assert not cloudpickle.list_registry_pickle_by_value(), "nobody else's pickles are changed"


class Pair(NamedTuple):
    a: float
    b: float


@dataclasses.dataclass(frozen=True)
class Settings:
    factor: float = 3.0


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    x: jax.Array


def test_a_class_of_the_notebook_travels():
    def f(x):
        return Pair(x, Settings().factor)

    got = through(f)(2.0)
    assert tuple(got) == (2.0, 3.0)
    assert jax.tree.leaves(got) == [2.0, 3.0]


def test_a_class_that_is_registered_as_a_pytree_is_refused_by_name():
    """It would arrive, but not as a pytree."""

    def f(x):
        return State(x)

    with pytest.raises(pickle.PicklingError, match="the class State is registered as a pytree"):
        dumps(f)


@pytest.mark.parametrize(
    "leaf",
    [
        jnp.arange(3.0),
        jnp.ones((2, 2), jnp.bfloat16),
        np.float64([1, 2]),
        jnp.zeros((0, 3), jnp.int32),
        jnp.asarray(1.5),  # its type is weak
        jax.random.key(7),
        np.float32(2),
        3,
        2.5,
        True,
        1 + 2j,
    ],
    ids=str,
)
def test_leaves_arrive_as_they_were(leaf):
    arrived = arrays.decode(arrays.encode(leaf))
    assert type(arrived) is type(leaf) or isinstance(leaf, np.generic)
    if hasattr(leaf, "dtype"):
        assert (arrived.dtype, arrived.shape) == (leaf.dtype, leaf.shape)
        assert getattr(arrived, "weak_type", False) == getattr(leaf, "weak_type", False)
    assert np.array_equal(*(jax.random.key_data(x) if _is_key(x) else x for x in (arrived, leaf)))


def _is_key(x):
    return isinstance(x, jax.Array) and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def test_floating_point_numbers_are_made_double_and_nothing_else():
    leaves = [jnp.float32(0.1), np.float16([1, 2]), np.complex64(1j), jnp.arange(3), jax.random.key(1), 3, 0.5]
    with jax.enable_x64(True):
        single, halves, number, *others = arrays.wide(leaves)
    assert (single.dtype, halves.dtype, number.dtype) == (np.float64, np.float64, np.complex128)
    assert (float(single), halves.tolist(), complex(number)) == (float(np.float32(0.1)), [1, 2], 1j)
    assert all(other is leaf for other, leaf in zip(others, leaves[3:], strict=True))


def test_what_is_sent_cannot_be_changed():
    kinds = [kind for kind in vars(messages).values() if dataclasses.is_dataclass(kind)]
    assert len(kinds) > 20
    for kind in kinds:
        with pytest.raises(dataclasses.FrozenInstanceError):
            kind.__new__(kind).job = "other"
