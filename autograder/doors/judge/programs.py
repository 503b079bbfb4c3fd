"""A traced program as plain data: a jaxpr is written down equation by equation, and traced again where it is read.

What JAX is doing with a stand-in (`jit`, `grad`, `vmap`, `make_jaxpr`) it does then with the program itself, in the
kernel that asked. Reading it runs primitives of JAX that are on a list, with parameters that are plain values; nothing
of the other kernel's Python. Loops, branches and the like are made by JAX's own functions, of sub-programs that are
such data too, and so are Pallas kernels (`kernels`) and what is said of several devices (`spread_programs`). A program
that stands in another one more than once is written once, and is one object where it is read. A rule of differentiation
stays where it is: its program is asked for, by the types of its arguments alone, where JAX differentiates. What is
printed from within a program (`jax.debug.print`) is printed nowhere, and is seen to be there. What has no such form
(foreign calls, other effects) cannot cross. Nor can a callback, but from the judge: in the box it is made again
with a call of the judge.
"""

import dataclasses
import enum
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import DropVar, jaxpr_as_fun

from autograder.jax_internals import (
    POLICIES,
    LinearSolve,
    called_back,
    collective_primitives,
    computing_primitives,
    expansion,
    has_own_rule,
    is_ref,
    key_name,
    linear_solve,
    only_on_refs,
    only_says,
    parameter_kind,
    plain_type,
    policy_name,
    random_bits_of,
    run_equation,
    scan_counts,
    unspecified,
)

from . import kernels, spread_programs
from .values import CannotCross, Pack, Unpack, Unreadable, dtype_name, dtype_of, shape_of, text_of

_DEEPEST = 40  # programs in programs
_RULES_KEPT = 1000  # programs of rules of differentiation that have been asked for
_CHOICES = ("jax.", "jaxlib.")
_PARTS = {"GatherDimensionNumbers", "ScatterDimensionNumbers", "ConvDimensionNumbers", "RaggedDotDimensionNumbers"}


# --- where the function is ---


def traced(fn: Callable[..., Any], avals: list[Any], pack: Pack) -> Any:
    """The program of a function of arrays, as it travels."""
    return written(jax.make_jaxpr(fn)(*avals), pack)


def written(program: Any, pack: Pack) -> Any:
    """A jaxpr, closed or not, as it travels."""
    writer = _Writer(pack)
    return _written(program, writer, 0) | {"boxes": writer.boxes}


class _Writer:
    """Values as they travel, and the programs that stand in jits and branches, each written once."""

    def __init__(self, pack: Pack):
        self.pack, self.lend_callback = pack.pack, pack.lend_callback
        self.boxes: list[dict[str, Any]] = []
        self._known: dict[int, tuple[int, Any]] = {}  # with the program, so that its address stays its own
        self._in_place = False

    def box(self, program: Any, deep: int) -> int | dict[str, Any]:
        """The number of a program within a program. Those in it have lower ones. In a kernel it is the program."""
        if self._in_place:
            return _written(program, self, deep)
        if id(program) not in self._known:
            form = _written(program, self, deep)
            self.boxes.append(form)
            self._known[id(program)] = len(self.boxes) - 1, program
        return self._known[id(program)][0]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """While a kernel is written: of its programs none stands anywhere else."""
        before, self._in_place = self._in_place, True
        try:
            yield
        finally:
            self._in_place = before


def _written(program: Any, pack: _Writer, deep: int) -> dict[str, Any]:
    """A jaxpr, closed or not."""
    consts, jaxpr = list(getattr(program, "consts", None) or ()), getattr(program, "jaxpr", program)
    # Inside of a kernel its memory is read and written; no whole program has any.
    crosses = only_says(jaxpr.effects) or (deep and only_on_refs(jaxpr.effects))
    if not crosses or deep > _DEEPEST:
        raise CannotCross("a program with effects, such as a write to a ref, cannot be handed to the other kernel")
    numbers: dict[Any, int] = {}

    def new(variable: Any) -> dict[str, Any]:
        numbers[variable] = len(numbers)
        return aval_form(variable.aval)

    def atom(value: Any) -> Any:
        if hasattr(value, "val"):
            array = np.asarray(value.val, value.aval.dtype)
            return {"literal": pack.pack(array), "weak": bool(value.aval.weak_type)}
        return numbers[value]

    constvars = [new(variable) for variable in jaxpr.constvars]
    return {
        "consts": [pack.pack(_plain_array(const)) for const in consts] if len(consts) == len(constvars) else None,
        "constants": constvars,
        "inputs": [new(variable) for variable in jaxpr.invars],
        "equations": [
            {
                "inputs": [atom(value) for value in eqn.invars],
                "made": [not isinstance(v, DropVar) and bool(new(v)) for v in eqn.outvars],
            }
            | _equation(eqn, pack, deep)
            for eqn in jaxpr.eqns
        ],
        "outputs": [atom(value) for value in jaxpr.outvars],
    }


def _plain_array(value: Any) -> Any:
    """JAX keeps an array of NumPy's in a class of its own."""
    return value if isinstance(value, jax.Array) else np.asarray(value)


def aval_form(aval: Any) -> dict[str, Any]:
    """The type of an array. That of a kernel's memory is told, and is never read."""
    if is_ref(aval):
        return {"memory": list(aval.shape)}
    if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key):
        return {"shape": list(aval.shape), "key": key_name(aval.dtype)}
    name = dtype_name(aval.dtype)
    if not name:
        raise CannotCross(f"an array of {aval.dtype} cannot be handed to the other kernel")
    return {"shape": list(aval.shape), "dtype": name, "weak": bool(getattr(aval, "weak_type", False))}


def _equation(eqn: Any, pack: _Writer, deep: int) -> dict[str, Any]:
    """What an equation does."""
    params, name = eqn.params, eqn.primitive.name

    def inner(program: Any) -> dict[str, Any]:
        return _written(program, pack, deep + 1)

    if name in ("jit", "pjit"):
        form = {"do": "jit", "name": str(params["name"])[:200], "box": pack.box(params["jaxpr"], deep + 1)}
        return form | spread_programs.layouts_of_jit(params, pack)
    if name == "scan":
        plain = dict(zip(("num_consts", "num_carry"), scan_counts(eqn), strict=True))
        plain |= {"length": params["length"], "reverse": params["reverse"], "unroll": params["unroll"]}
        return {"do": "scan", "body": inner(params["jaxpr"]), **plain}
    if name == "while":
        plain = {key: params[key] for key in ("cond_nconsts", "body_nconsts")}
        return {"do": "while", "test": inner(params["cond_jaxpr"]), "body": inner(params["body_jaxpr"]), **plain}
    if name == "reduce":
        return {"do": "reduce", "body": inner(params["jaxpr"]), "dimensions": list(params["dimensions"])}
    if name in ("checkpoint", "remat", "remat2"):
        cse, policy = bool(params.get("prevent_cse", True)), _policy(params.get("policy"))
        return {"do": "checkpoint", "body": inner(params["jaxpr"]), "prevent_cse": cse, "policy": policy}
    if name == "name":
        return {"do": "name", "name": str(params["name"])[:200]}
    if name in ("debug_print", "debug_callback"):
        return {"do": "say"}
    hidden = name == "call_hi_primitive"
    if name == "custom_jvp_call" or (hidden and has_own_rule(eqn)):
        body = inner(expansion(eqn) if hidden else params["call_jaxpr"])
        return {"do": "jvp", "name": str(params.get("name", "f"))[:200], "body": body, "rule": pack.pack(_jvp(eqn))}
    if name.startswith("custom_vjp_call"):
        body = inner(params.get("call_jaxpr", params.get("fun_jaxpr")))
        return {"do": "vjp", "name": "f", "body": body, "rule": [pack.pack(rule) for rule in _vjp(eqn)]}
    if name == "custom_linear_solve":
        return _solver(linear_solve(eqn), inner)
    if hidden:
        return {"do": "expanded", "body": inner(expansion(eqn))}
    if name in kernels.EQUATIONS:
        with pack.in_place():
            return kernels.written(eqn, inner)
    if name in spread_programs.KINDS:
        return spread_programs.written(eqn, pack, inner)
    if name == "pure_callback" and pack.lend_callback is not None:
        return _calling_back(eqn, pack.lend_callback)
    spread_programs.refuse_groups(params)
    if name not in computing_primitives() and name not in collective_primitives():
        raise CannotCross(f"a program with the primitive {name} cannot be handed to the other kernel")
    branches = {}
    if name == "cond":
        branches["branches"] = [pack.box(branch, deep + 1) for branch in params["branches"]]
        params = {key: value for key, value in params.items() if key != "branches"}
    return {"do": name, "params": {key: _param(value, pack, deep) for key, value in params.items()}} | branches


def _solver(parts: LinearSolve, inner: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """A linear equation that is solved by the function's own programs. The transposed matrix is made of the matrix."""
    back = None if parts.back is None else inner(parts.back)
    form = {"do": "solve", "counts": list(parts.counts), "symmetric": parts.transposed is parts.matrix}
    return form | {"matrix": inner(parts.matrix), "solve": inner(parts.solve), "back": back}


def _policy(policy: Any) -> list[Any] | None:
    """What a `jax.checkpoint` keeps: the name of a policy, and those that it was given."""
    if policy is None:
        return None
    if (known := policy_name(policy)) is None:
        raise CannotCross("a jax.checkpoint with a policy of one's own cannot be handed to the other kernel")
    return list(known)


def _calling_back(eqn: Any, lend: Callable[[Any], Any]) -> dict[str, Any]:
    """A call from within a program of a function of the check's, which stays where it is."""
    fn, vmap_method, anywhere = called_back(eqn)
    if not anywhere:
        raise CannotCross("a callback that is placed on a device cannot be handed to the other kernel")
    results = [aval_form(variable.aval) for variable in eqn.outvars]
    return {"do": "call back", "to": lend(Callback(fn)), "results": results, "vmap_method": vmap_method}


class Callback:
    """What the judge lends of a callback: it takes arrays, and nothing else."""

    def __init__(self, fn: Callable[..., Sequence[Any]]):
        self._fn = fn

    def __call__(self, *values: Any) -> list[Any]:
        """The results for these arrays. Raises `Unreadable` for anything else."""
        if not all(isinstance(value, jax.Array) for value in values):
            raise Unreadable("a callback takes arrays")
        return [np.asarray(result) for result in self._fn(*values)]


def _called(eqn: Any) -> Callable[..., list[Any]]:
    """An equation as a function."""
    return lambda *values: run_equation(eqn, list(values))


def _avals(eqn: Any) -> list[jax.ShapeDtypeStruct]:
    return [plain_type(v.aval, weak_type=True) for v in eqn.invars]


def _is_inexact(aval: Any) -> bool:
    return bool(jnp.issubdtype(aval.dtype, jnp.inexact))


def _tangents(given: Any, avals: Any) -> tuple[Any, ...]:
    """Tangents for all inputs, of those that have any."""
    some = iter(given)
    return tuple(next(some) if _is_inexact(a) else np.zeros(a.shape, jax.dtypes.float0) for a in avals)


class Rule:
    """A rule of differentiation, a function of arrays. It stays where it is, and is lent: JAX asks for one only where
    it differentiates, and in the program of a rule there may be others, without end."""

    def __init__(self, run: Callable[..., list[Any]]):
        self._run = run

    def __call__(self, *values: Any) -> list[Any]:
        return self._run(*values)


def _jvp(eqn: Any) -> Rule:
    """Of an equation's inputs and the tangents of those that are real, its results and theirs."""
    avals, call = _avals(eqn), _called(eqn)

    def rule(*values: Any) -> list[Any]:
        primals = values[: len(avals)]
        results, changes = jax.jvp(call, primals, _tangents(values[len(avals) :], avals))
        return [*results, *(t for r, t in zip(results, changes, strict=True) if _is_inexact(r))]

    return Rule(rule)


def _vjp(eqn: Any) -> list[Rule]:
    """The way there: of the inputs, the results and what is kept; and back: of this and the results' cotangents, those
    of the inputs that are real. The way back is known once the way there was gone."""
    avals, call = _avals(eqn), _called(eqn)
    real = [i for i, aval in enumerate(avals) if _is_inexact(aval)]
    kept: dict[str, Any] = {}

    def forward(*values: Any) -> list[Any]:
        def of_the_real(*some: Any) -> list[Any]:
            every = list(values)
            for i, value in zip(real, some, strict=True):
                every[i] = value
            return call(*every)

        results, back = jax.vjp(of_the_real, *(values[i] for i in real))
        leaves, kept["tree"] = jax.tree.flatten(back)
        kept["results"] = [plain_type(jax.typeof(r), weak_type=False) for r in results]
        return [*results, *leaves]

    def backward(*values: Any) -> list[Any]:
        count = kept["tree"].num_leaves
        changes = list(_tangents(values[count:], kept["results"]))
        return list(jax.tree.unflatten(kept["tree"], values[:count])(changes))

    return [Rule(forward), Rule(backward)]


def _param(value: Any, pack: _Writer, deep: int) -> Any:
    """A parameter of a primitive."""
    kind: Any = type(value)
    if kind in (tuple, list) or (isinstance(value, tuple) and not hasattr(value, "_fields")):
        return {"is": "tuple", "v": [_param(item, pack, deep) for item in value]}
    if isinstance(value, enum.Enum):
        return {"is": "choice", "of": [kind.__module__, kind.__qualname__], "v": value.name}
    if kind.__name__ in _PARTS:
        names = [f.name for f in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else kind._fields
        inner = [[name, _param(getattr(value, name), pack, deep)] for name in names]
        return {"is": "numbers", "of": [kind.__module__, kind.__qualname__], "v": inner}
    if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
        return {"is": "program", "closed": hasattr(value, "jaxpr"), "v": _written(value, pack, deep + 1)}
    if (what := parameter_kind(value)) in ("random", "key"):
        return {"is": what, "v": key_name(value)}
    if what:
        return {"is": "nothing", "v": what}
    if callable(value) and not isinstance(value, type):
        raise CannotCross("a program that holds a Python function cannot be handed to the other kernel")
    return pack.pack(np.asarray(value) if kind.__name__.startswith("Typed") else value)


# --- where it is asked for ---


class Program:
    """A program that has arrived; it is called with arrays, or with what JAX traces in their place."""

    def __init__(self, form: Any, unpack: Unpack):
        self._form, self._given = form, Reader(form, unpack)

    def __call__(self, *values: Any, step: "Step | None" = None) -> list[Any]:
        """The results. `step` does an equation in the place of `do`. Raises `Unreadable` for what is no program."""
        return self._run(values, None, step)

    def _run(self, values: Any, consts: Any, step: "Step | None" = None) -> list[Any]:
        try:
            return _run(self._form, values, self._given, consts, step)
        except (KeyError, IndexError, AttributeError, RecursionError) as error:
            raise Unreadable(f"this is no program ({type(error).__name__}: {error})") from None

    def jaxpr(self) -> Any:
        """The program as JAX has it."""
        form, consts = self._form, None
        if form["consts"] is None:  # it is not closed: what it captured is handed on apart
            consts = [jnp.zeros(aval.shape, aval.dtype) for aval in map(of_aval, form["constants"])]
        return jax.make_jaxpr(lambda *values: self._run(values, consts))(*map(of_aval, form["inputs"]))


class Reader:
    """Values that have arrived, and the programs that stand in jits and branches.

    A program that is called by two equations is one function here. So JAX traces it once, and writes one jaxpr with
    one set of variables into both, as it does where a jitted function is called twice.
    """

    def __init__(self, form: Any, unpack: Unpack):
        self.unpack, self.callbacks = unpack.unpack, unpack.callbacks
        boxes = form.get("boxes") if isinstance(form, dict) else None
        self._boxes: list[Any] = boxes if type(boxes) is list else []
        self._jitted: dict[tuple[int, str], Callable[..., list[Any]]] = {}
        self._branches: dict[tuple[int, Any], Any] = {}
        self._deep = 0

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """While a program runs."""
        if self._deep >= _DEEPEST:
            raise Unreadable("programs in programs without end")
        self._deep += 1
        try:
            yield
        finally:
            self._deep -= 1

    def _box(self, number: Any) -> dict[str, Any]:
        if isinstance(number, dict):
            return number
        if not 0 <= _count(number) < len(self._boxes):
            raise Unreadable("a program is missing")
        return self._boxes[number]

    def jitted(self, eqn: dict[str, Any], count: int) -> Callable[..., list[Any]]:
        """The program of an equation of so many inputs, jitted."""
        form, name = self._box(eqn["box"]), eqn["name"]
        key = id(form), str((name, eqn.get("in"), eqn.get("out")))
        if key not in self._jitted:
            options = spread_programs.options_of_jit(eqn, count, self)
            self._jitted[key] = jax.jit(_function(form, self, name), **options)
        return self._jitted[key]

    def branch(self, number: Any, values: list[Any]) -> Any:
        """The program of this number, traced for these values."""
        form = self._box(number)
        key = id(form), tuple(map(jax.typeof, values))
        if key not in self._branches:
            self._branches[key] = _retraced(form, values, self)
        return self._branches[key]


Step = Callable[[dict[str, Any], list[Any], Reader], list[Any]]


def _run(form: dict[str, Any], values: Any, given: Reader, consts: Any = None, step: Step | None = None) -> list[Any]:
    held = [given.unpack(const) for const in form["consts"]] if consts is None else list(consts)
    known: list[Any] = [*held, *values]
    if len(held) != len(form["constants"]) or len(values) != len(form["inputs"]):
        raise Unreadable("a program with other inputs than it says")

    def read(atom: Any) -> Any:
        if type(atom) is int and 0 <= atom < len(known):
            return known[atom]
        value = given.unpack(atom["literal"])
        if not isinstance(value, np.ndarray) or value.shape:
            raise Unreadable("a literal is a number")
        return value.item() if atom["weak"] is True else value[()]

    with given.deeper():
        for eqn in form["equations"]:
            found = (step or do)(eqn, [read(atom) for atom in eqn["inputs"]], given)
            if len(found) != len(eqn["made"]):
                raise Unreadable("an equation with other results than it says")
            known += [value for value, made in zip(found, eqn["made"], strict=True) if made]
    return [read(atom) for atom in form["outputs"]]


def _function(form: dict[str, Any], given: Reader, name: Any = "f") -> Callable[..., list[Any]]:
    def f(*values: Any) -> list[Any]:
        return _run(form, values, given)

    f.__name__ = f.__qualname__ = name if type(name) is str and name else "f"
    return f


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 10**9:
        raise Unreadable("a count is missing")
    return value


def do(eqn: dict[str, Any], values: list[Any], given: Reader) -> list[Any]:
    """The results of an equation."""
    what = eqn["do"]
    if what == "jit":
        return given.jitted(eqn, len(values))(*values)
    if what == "expanded":
        return _run(eqn["body"], values, given)
    if what == "checkpoint":
        body = _function(eqn["body"], given)
        return jax.checkpoint(body, prevent_cse=eqn["prevent_cse"] is True, policy=_policy_of(eqn["policy"]))(*values)
    if what == "name":
        return [checkpoint_name(value, text_of(eqn["name"])) for value in values]
    if what == "say":  # in the judge there is nobody to be told
        jax.debug.callback(_hears_nothing, *values)
        return []
    if what == "scan":
        return _scan(eqn, values, given)
    if what == "while":
        return _while(eqn, values, given)
    if what == "reduce":
        return _reduce(eqn, values, given)
    if what == "solve":
        return _solve(eqn, values, given)
    if what == "jvp":
        return _with_jvp(eqn, given)(*values)
    if what == "vjp":
        return _with_vjp(eqn, given)(*values)
    if what == "call back":
        return _called_back(eqn, values, given)
    if type(what) is str and what in kernels.EQUATIONS:
        return kernels.made(eqn, values, lambda form, *more: _function(form, given, *more))
    if what in spread_programs.KINDS:
        return spread_programs.done(eqn, values, given, lambda form: _function(form, given))
    primitive = computing_primitives().get(text_of(what)) or collective_primitives().get(what)
    if primitive is None:
        raise Unreadable("a primitive that no program may hold")
    params = {key: _param_of(value, given, values, eqn) for key, value in eqn["params"].items()}
    if what in collective_primitives():
        spread_programs.check_collective(what, params)
    if what == "cond":
        params["branches"] = tuple(given.branch(number, values[1:]) for number in eqn["branches"])
    found = primitive.bind(*values, **params)
    return list(found) if primitive.multiple_results else [found]


def _hears_nothing(*values: Any) -> None:
    pass


def _policy_of(form: Any) -> Callable[..., Any] | None:
    if form is None:
        return None
    if type(form) is not list or len(form) != 2 or type(form[1]) is not list:
        raise Unreadable("a policy is missing")
    name, names = form
    if text_of(name) not in POLICIES or (names and not POLICIES[name]):
        raise Unreadable("a policy of an unknown name")
    found = getattr(jax.checkpoint_policies, name)
    return found(*map(text_of, names)) if POLICIES[name] else found


def _called_back(eqn: dict[str, Any], values: list[Any], given: Reader) -> list[Any]:
    if not given.callbacks:
        raise Unreadable("a program that calls back")
    results, there = [of_aval(aval) for aval in eqn["results"]], given.unpack(eqn["to"])

    def callback(*arrays: Any) -> Any:  # which can be printed, as what stands for it cannot
        return there(*arrays)

    return jax.pure_callback(callback, results, *values, vmap_method=eqn["vmap_method"])


def _retraced(form: dict[str, Any], values: list[Any], given: Reader) -> Any:
    return jax.make_jaxpr(_function(form, given))(*values)


def _scan(eqn: dict[str, Any], values: list[Any], given: Reader) -> list[Any]:
    consts, carry = _count(eqn["num_consts"]), _count(eqn["num_carry"])
    body = _function(eqn["body"], given)

    def step(held: Any, row: Any) -> Any:
        found = body(*values[:consts], *held, *row)
        return list(found[:carry]), list(found[carry:])

    rows = values[consts + carry :]
    options: dict[str, Any] = {"length": _count(eqn["length"]), "reverse": eqn["reverse"] is True}
    last, every = jax.lax.scan(step, values[consts : consts + carry], rows, unroll=eqn["unroll"], **options)
    return [*last, *every]


def _while(eqn: dict[str, Any], values: list[Any], given: Reader) -> list[Any]:
    of_test, of_body = _count(eqn["cond_nconsts"]), _count(eqn["body_nconsts"])
    test, body = (_function(eqn[part], given) for part in ("test", "body"))
    mine, its = values[:of_test], values[of_test : of_test + of_body]
    return jax.lax.while_loop(lambda v: test(*mine, *v)[0], lambda v: body(*its, *v), values[of_test + of_body :])


def _reduce(eqn: dict[str, Any], values: list[Any], given: Reader) -> list[Any]:
    body, half = _function(eqn["body"], given), len(values) // 2
    dimensions = [_count(dimension) for dimension in eqn["dimensions"]]
    both = lambda x, y: tuple(body(*x, *y))  # noqa: E731
    return list(jax.lax.reduce(tuple(values[:half]), tuple(values[half:]), both, dimensions))


def _solve(eqn: dict[str, Any], values: list[Any], given: Reader) -> list[Any]:
    parts: list[list[Any]] = []
    if len(eqn["counts"]) != 4:
        raise Unreadable("a count is missing")
    for count in map(_count, eqn["counts"]):
        held, values = values[:count], values[count:]
        parts.append(held)
    of_matrix, _, of_solve, of_back = parts
    matrix, solve = (_function(eqn[part], given) for part in ("matrix", "solve"))
    back = None if eqn["back"] is None else _function(eqn["back"], given)
    return jax.lax.custom_linear_solve(
        lambda v: matrix(*of_matrix, *v),
        values,
        lambda _, v: solve(*of_solve, *v),
        back and (lambda _, v: back(*of_back, *v)),
        symmetric=eqn["symmetric"] is True,
    )


@functools.lru_cache(_RULES_KEPT)
def _asked_for(rule: Callable[..., Any], types: tuple[jax.ShapeDtypeStruct, ...]) -> Any:
    """The program of a rule that was lent, for arguments of these types. What they are is never said."""
    return jax.make_jaxpr(lambda *values: rule(*values))(*types)


def _lent(form: Any, given: Reader) -> Callable[..., Any]:
    """A rule that can be asked for its program."""
    if not isinstance(form, dict) or form.get("is") != "lent":
        raise Unreadable("a rule is lent")
    rule = given.unpack(form)
    if not callable(rule):
        raise Unreadable("a rule is a function")
    return rule


def _real(values: Any) -> list[Any]:
    return [value for value in values if _is_inexact(value)]


def _with_jvp(eqn: dict[str, Any], given: Reader) -> Callable[..., list[Any]]:
    made = jax.custom_jvp(_function(eqn["body"], given, eqn["name"]))
    rule, types = _lent(eqn["rule"], given), list(map(of_aval, eqn["body"]["inputs"]))
    count = len(eqn["body"]["outputs"])

    def derive(primals: Any, tangents: Any) -> Any:
        program = jaxpr_as_fun(_asked_for(rule, (*types, *_real(types))))
        found = program(*primals, *(t for p, t in zip(types, tangents, strict=True) if _is_inexact(p)))
        return found[:count], list(_tangents(found[count:], [jax.typeof(value) for value in found[:count]]))

    made.defjvp(derive)
    return made


def _with_vjp(eqn: dict[str, Any], given: Reader) -> Callable[..., list[Any]]:
    made = jax.custom_vjp(_function(eqn["body"], given, eqn["name"]))
    there, back = (_lent(form, given) for form in eqn["rule"])
    types, count = tuple(map(of_aval, eqn["body"]["inputs"])), len(eqn["body"]["outputs"])

    def forward(*values: Any) -> Any:
        found = jaxpr_as_fun(_asked_for(there, types))(*values)
        return found[:count], found[count:]

    def backward(leaves: Any, changes: Any) -> Any:
        some = [c for c in changes if getattr(c, "dtype", None) != jax.dtypes.float0]
        kept = _asked_for(there, types).out_avals[count:]
        asked = tuple(jax.ShapeDtypeStruct(value.shape, value.dtype) for value in (*kept, *some))
        gradients = iter(jaxpr_as_fun(_asked_for(back, asked))(*leaves, *some))
        return tuple(next(gradients) if _is_inexact(kind) else None for kind in types)

    made.defvjp(forward, backward)
    return made


def _param_of(form: Any, given: Reader, values: list[Any], eqn: dict[str, Any]) -> Any:
    kind = form.get("is") if isinstance(form, dict) else None
    if kind == "tuple":
        return tuple(_param_of(item, given, values, eqn) for item in form["v"])
    if kind in ("choice", "numbers"):
        return _of_jax(form, given, values, eqn)
    if kind == "program":
        inputs = [of_aval(aval) for aval in form["v"]["inputs"]]
        made = _retraced(form["v"], inputs, given)
        return made if form["closed"] is True else made.jaxpr
    if kind in ("random", "key"):
        return random_bits_of(form["v"], dtype=kind == "key")
    if kind == "nothing":
        return unspecified() if form["v"] == "unspecified" else jax.sharding.AbstractMesh((), ())
    found = given.unpack(form)
    if not _is_plain(found):
        raise Unreadable("a parameter that is no number, text or layout")
    return found


_PLAIN: tuple[type, ...] = (type(None), bool, int, float, complex, str, bytes, np.dtype, np.ndarray, slice, type(...))
_PLAIN += (jax.P, jax.sharding.Mesh, jax.sharding.AbstractMesh, jax.sharding.NamedSharding, jax.ShapeDtypeStruct)


def _is_plain(value: Any) -> bool:
    """Whether a primitive can do nothing with this but read it: nothing that is called, nor asks the other kernel."""
    if type(value) in (tuple, list, frozenset, set):
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(map(_is_plain, (*value.keys(), *value.values())))
    return type(value) in _PLAIN or isinstance(value, np.dtype | np.generic | jax.Array) or _is_type(value)


def _is_type(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, np.generic)


def _of_jax(form: dict[str, Any], given: Reader, values: list[Any], eqn: dict[str, Any]) -> Any:
    """A choice among JAX's own, or numbers of dimensions under JAX's own names."""
    module, name = form["of"]
    found = getattr(sys.modules.get(module), name, None) if type(name) is str and name.isidentifier() else None
    if not isinstance(found, type) or not found.__module__.startswith(_CHOICES):
        raise Unreadable("a parameter of an unknown class")
    kind: Any = found
    if form["is"] == "choice":
        if not issubclass(kind, enum.Enum):
            raise Unreadable("this is no choice")
        return kind.__members__[form["v"]]
    if kind.__name__ not in _PARTS:
        raise Unreadable("a parameter of an unknown class")
    return kind(**{key: _param_of(value, given, values, eqn) for key, value in form["v"]})


def left_form(tracer: Any) -> dict[str, Any]:
    """What stands for a tracer that an answer has kept: its trace has ended, and all that is left is its type."""
    return {"is": "left"} | aval_form(jax.typeof(tracer))


def left(form: Any) -> Any:
    """The inverse of `left_form`: one of this type that is as little an array."""
    kept: list[Any] = []
    jax.make_jaxpr(lambda x: kept.append(x))(of_aval(form))
    return kept[0]


def of_aval(form: Any) -> jax.ShapeDtypeStruct:
    """The inverse of `aval_form`."""
    if not isinstance(form, dict):
        raise Unreadable("a type is missing")
    shape = shape_of(form.get("shape"))
    if "key" in form:
        if type(form["key"]) is not str:
            raise Unreadable("a kind of key is missing")
        return jax.ShapeDtypeStruct(shape, random_bits_of(form["key"], dtype=True))
    return jax.ShapeDtypeStruct(shape, dtype_of(form.get("dtype")), weak_type=form.get("weak") is True)
