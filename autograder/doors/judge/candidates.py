"""A student's function as a candidate of `speedup`: the judge times its program, in a measuring process of its own.

What the box says of time counts nothing. It says which arguments of a jitted function are static, and traces the
function when the judge asks for it, as for any other program. A function that is not jitted is timed as JAX runs it:
one equation of its program after the other. What its Python does besides is left out, in its favour; but what it
defines or jits anew in each call (the box says what) is traced and compiled in each call here, too.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from autograder.instruments.read_jaxpr import is_jaxpr
from autograder.instruments.watch_functions import function_name
from autograder.jax_internals import is_jitted, trace_jitted, wants_hashable_static

from . import programs
from .values import CannotCross, Pack, Unpack, Unreadable

_NUMBERS = (bool, int, float, complex)
_JITTED = ("jit", "pjit")
_TRACED_APART = (*_JITTED, "scan", "while", "cond")  # equations of functions that JAX traces by themselves


def static_arguments(fn: Callable, *args: Any) -> list[int] | None:
    """In the box: which of the Python numbers among the arguments are static; None if `fn` is not jitted.

    Its own errors, when it is traced, pass through.
    """
    if not is_jitted(fn):
        return None
    numbers = [i for i, arg in enumerate(args) if isinstance(arg, _NUMBERS)]
    for count in range(len(numbers) + 1):
        for static in itertools.combinations(numbers, count):
            try:
                trace_jitted(jax.jit(lambda *args: fn(*args), static_argnums=static), *args)
            except ValueError as error:
                if not wants_hashable_static(error):
                    raise
            else:
                return list(static)
    return numbers


def traced_anew(fn: Callable, *args: Any) -> list[bool]:
    """In the box: for each loop, branch and jitted function of its program, whether every call of `fn` traces it again.

    It does if two calls have different functions there: then JAX has traced each by itself.
    """
    once, again = (_traced_apart(_Flat(fn, args).program()) for _ in range(2))
    return [one is not other for one, other in itertools.zip_longest(once, again)]


def _traced_apart(program: ClosedJaxpr) -> list[Any]:
    apart = (eqn.params for eqn in program.eqns if eqn.primitive.name in _TRACED_APART)
    return [next(filter(is_jaxpr, jax.tree.leaves(params, is_leaf=is_jaxpr)), None) for params in apart]


def of_this_process(fn: Callable, args: tuple, ask: Callable[..., Any]) -> Callable:
    """In the judge: a function that does what `fn`, a stand-in, does, and of which nothing is in the box.

    ask: for an instrument of the box.

    Raises what the function raises when it is traced, and `CannotCross` for a program that cannot cross.
    """
    static = ask("static_arguments", fn, *args)
    if static is None:
        return _eager(fn, args, ask("traced_anew", fn, *args))
    if type(static) is not list or not all(type(i) is int and 0 <= i < len(args) for i in static):
        raise Unreadable("these are no arguments")
    return jax.jit(fn, static_argnums=tuple(static))


class _Flat:
    """A function of the arrays among some arguments; Python numbers are what they are."""

    def __init__(self, fn: Callable, args: tuple):
        self._fn = fn
        self._leaves, self._tree = jax.tree.flatten(args)
        self.structure: Any = None  # of the results, when it was traced

    def __call__(self, *arrays: Any) -> list[Any]:
        given = iter(arrays)
        whole = [leaf if isinstance(leaf, _NUMBERS) else next(given) for leaf in self._leaves]
        results, self.structure = jax.tree.flatten(self._fn(*jax.tree.unflatten(self._tree, whole)))
        return results

    def program(self) -> ClosedJaxpr:
        return jax.make_jaxpr(self)(*_arrays(self._leaves))


def _eager(fn: Callable, args: tuple, anew: Any) -> "_Eager":
    flat, pack = _Flat(fn, args), Pack(_left_out, {})
    form = programs.written(flat.program(), pack)
    apart = [i for i, eqn in enumerate(form["equations"]) if eqn["do"] in _TRACED_APART]
    if type(anew) is not list or len(anew) != len(apart):  # it did not say of which
        anew = [True] * len(apart)
    every_time = {i for i, again in zip(apart, anew, strict=True) if again is not False}
    return _Eager(function_name(fn), form, pack.parts, flat.structure, every_time)


class _Eager:
    """A program that runs one equation after the other. It travels to the measuring process as it crossed the link.

    every_time: the places of the equations that are traced again in every call.
    """

    def __init__(self, name: str, form: Any, parts: list[bytes], structure: Any, every_time: set[int]):
        self.__name__ = self.__qualname__ = name
        self._form, self._parts, self._structure, self._every_time = form, parts, structure, every_time

    def __call__(self, *args: Any) -> Any:
        # Where something is traced every time, a new one in each call: what one has jitted, it calls again.
        program = self._read() if self._every_time else self._program
        return jax.tree.unflatten(self._structure, program(*_arrays(jax.tree.leaves(args)), step=self._step))

    def _read(self) -> programs.Program:
        return programs.Program(self._form, Unpack(self._parts, _missing, _refuses, {}))

    _program = functools.cached_property(_read)

    @functools.cached_property
    def _known(self) -> dict[int, Callable[..., list[Any]] | None]:
        """What each equation does, by its identity, once it was traced; None for those that are traced every time."""
        return {id(eqn): None for i, eqn in enumerate(self._form["equations"]) if i in self._every_time}

    def _step(self, eqn: dict[str, Any], values: list[Any], given: programs.Reader) -> list[Any]:
        def run(*values: Any) -> list[Any]:
            return programs.do(eqn, list(values), given)

        if id(eqn) not in self._known:  # what was jitted is called as one calls what one has jitted: by the quick way
            self._known[id(eqn)] = jax.jit(run) if eqn["do"] in _JITTED else jaxpr_as_fun(jax.make_jaxpr(run)(*values))
        return (self._known[id(eqn)] or run)(*values)


def _arrays(leaves: list[Any]) -> list[Any]:
    return [leaf for leaf in leaves if not isinstance(leaf, _NUMBERS)]


def _left_out(value: Any, pack: Pack) -> dict[str, Any]:
    """Rules of differentiation stay here: what is timed is differentiated already."""
    return {"is": "lent"} if isinstance(value, programs.Rule) else _refuses()


def _missing(form: dict[str, Any], unpack: Unpack) -> Callable[..., Any]:
    return _refuses


def _refuses(*what: Any) -> Any:
    raise CannotCross("a program that holds more than numbers cannot be timed here")
