"""What the course takes from JAX that JAX does not promise: a small function or constant for each.

Each says what is relied on and what goes wrong without it. `tests/test_jax_internals.py` has a test for each, which
fails by its name. So a new JAX is tried with that file first, and what it moved is mended here and nowhere else.

Two languages have readers of their own, and tests of those: jaxprs, with the names and parameters of the primitives
(`read_jaxpr`, `read_kernel`, `flops`, `graphs.of_jaxpr`), and HLO text (`read_hlo`).
"""

import contextlib
import functools
import importlib
import inspect
import os
import re
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import jax
import jax.extend
import numpy as np
from jax.extend import source_info_util
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Primitive

# --- what JAX says while it works ---

# The names of three events of `jax.monitoring`, each with a duration in seconds. There is one trace event for each
# run of a Python body, and one compile event for each XLA module, also when the persistent cache had it. Under other
# names they are not heard: every count of traces and modules would be 0, without an error.
TRACE_EVENT = "/jax/core/compile/jaxpr_trace_duration"
LOWER_EVENT = "/jax/core/compile/jaxpr_to_mlir_module_duration"
COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"


def event_function(details: Mapping[str, Any]) -> str:
    """The function that an event is about: "f" of a trace, "jit(f)" of a module.

    Relies on the detail `fun_name`. Without it every function and module is called "?".
    """
    return str(details.get("fun_name", "?"))


# --- is JAX tracing? ---


def trace_state() -> object:
    """The state of tracing in this thread; two of them are equal when both were taken outside of every trace.

    Relies on `get_opaque_trace_state`, of which JAX says no more. Without it a function whose arguments are all
    static seems to run eagerly while it is traced.
    """
    return jax.extend.core.get_opaque_trace_state()


def under_jit() -> bool:
    """Whether a `jit` is being traced in this thread, and not only a `grad` or a `vmap`.

    The name of what this relies on warns libraries not to behave differently under `jit`. Nothing here does: it only
    decides which reason for a trace is told.
    """
    return jax.extend.core.unsafe_am_i_under_a_jit_DO_NOT_USE()


def is_tracer(value: Any) -> bool:
    """Whether a value stands for an array while JAX traces. Relies on `jax.core.Tracer`."""
    return isinstance(value, jax.core.Tracer)


def weak(value: jax.Array) -> jax.Array:
    """The same array with a weak type, such as the result of a jitted function of Python's numbers has.

    Relies on `_convert_element_type`: only a number becomes weak by what JAX promises. Without it a result that was
    handed from one kernel to another is of another type than it was.
    """
    from jax._src.lax.lax import _convert_element_type

    return _convert_element_type(value, value.dtype, weak_type=True)


# --- functions that are jitted ---


# The type of what `jax.jit` returns. Relies on there being one: a search for all jitted functions asks for the exact
# type, as `isinstance` would ask each object of the process. Without it caches of some functions are not emptied.
JITTED = type(jax.jit(lambda: None))


def is_jitted(fn: Any) -> bool:
    """Whether `fn` is traced, lowered and compiled as a whole: what `jax.jit` returns, or a method bound to that.

    A `functools.partial` of a jitted function is not, nor is its `vmap` or `grad`: they are functions that call one.
    Relies on `JITTED` and on the class behind `flax.nnx.jit`. Not on the protocol `jax.stages.Wrapped`: that is met by
    every object with methods of the right names, which may trace one function and call another. Without it an
    instrument looks at a new `jit` around the function, in which its static arguments are lost.
    """
    kind = type(_function_of(fn))
    return kind is JITTED or (_from(kind, "flax") and issubclass(kind, jax.stages.Wrapped))


def trace_jitted(fn: Callable, *args: Any) -> jax.stages.Traced:
    """Trace a function for which `is_jitted` holds; the result has the `jaxpr` and can be lowered.

    Relies on a method's own `trace` being that of the function, which knows of no object: `model.step.trace(x)` takes
    `x` for `self`. And on `flax.nnx.jit`, which meets the protocol with a class around JAX's `Traced`.
    """
    if isinstance(fn, types.MethodType):
        args = (fn.__self__, *args)
    traced = _function_of(fn).trace(*args)
    return getattr(traced, "traced", traced)


def clear_cache(fn: Any) -> None:
    """Forget what was traced of `fn`, jitted or plain. A value that is no function has nothing to forget.

    Relies on the method `clear_cache`, and on one cache for all that was ever jitted from the same plain function.
    And on `flax.nnx.jit`, which keeps what `jax.jit` gave it. Without it a block of `assert_max_traces` that is run
    again finds no trace.
    """
    if in_flax(fn):
        fn = getattr(fn, "jitted_fn", fn)
    if hasattr(fn, "clear_cache"):
        fn.clear_cache()
    elif isinstance(fn, types.FunctionType) and not inspect.isgeneratorfunction(fn):  # which `jax.jit` refuses
        jitted: Any = jax.jit(fn)  # JAX's types leave `clear_cache` out
        jitted.clear_cache()


def in_jax(value: Any) -> bool:
    """Whether a value is of one of JAX's own types: a jitted or compiled function, a `ufunc`.

    Relies on the names of JAX's two packages. Without it a call of a compiled function is told as "ran eagerly".
    """
    return type(value).__module__.partition(".")[0] in {"jax", "jaxlib"}


def is_jax_array(value: Any) -> TypeGuard[jax.Array]:
    """Whether a value is one of JAX's own arrays or tracers. A class that only derives from `jax.Array` may say what it
    likes of itself, and compute when it is looked at.

    Relies on the names of JAX's two packages, as `in_jax`.
    """
    return in_jax(value) and isinstance(value, jax.Array)


def in_flax(value: Any) -> bool:
    """Whether a value is of one of Flax's own types, as what `flax.nnx.jit` returns."""
    return type(value).__module__.partition(".")[0] == "flax"


def wants_hashable_static(error: ValueError) -> bool:
    """Whether JAX refuses a call because a tracer was given for a static argument.

    Relies on the text of the error. Without it a jitted function with static numbers travels to the measuring process
    as its source, where a compiled artefact would do.
    """
    return "hashable static" in str(error)


# The code of a call of a program compiled ahead, with the program as the local variable `self`. Relies on such a call
# being a Python function. Without it no call is seen, and who compiled ahead is told that nothing is jitted.
COMPILED_CALL = jax.stages.Compiled.__call__.__code__


def _from(kind: type, package: str) -> bool:
    """Whether a class is what its name says, of this package: a class of one's own may call itself what it likes."""
    module = sys.modules.get(kind.__module__)
    return kind.__module__.partition(".")[0] == package and getattr(module, kind.__name__, None) is kind


def _function_of(fn: Any) -> Any:
    return fn.__func__ if isinstance(fn, types.MethodType) else fn


# --- the frames between a traced body and the code that called JAX ---


def frames_above(frame: types.FrameType) -> Iterator[tuple[Mapping[str, Any], frozenset[str] | None]]:
    """JAX's own frames above `frame`, nearest first: their variables, and the names of the keywords they were given.

    The second is None for a frame that takes no `**keywords`. There are no frames if Python called the body.

    Relies on JAX's files lying in one folder, and on JAX handing the user's function and the keyword arguments
    through its own frames. Without it no reason for a trace says "a new function object" or "passed by keyword", and
    every function seems to be called by JAX's innermost one.
    """
    above = frame.f_back
    while above is not None and above.f_code.co_filename.startswith(_FOLDER):
        code = above.f_code
        with _variables(above) as variables:
            keywords = None
            if code.co_flags & inspect.CO_VARKEYWORDS:
                keywords = frozenset(variables.get(_varkeywords(code), ()))
            yield variables, keywords
        above = above.f_back


_FOLDER = os.path.join(os.path.dirname(jax.__file__), "")


@contextlib.contextmanager
def _variables(frame: types.FrameType) -> Iterator[Mapping[str, Any]]:
    # Before Python 3.13 they are a copy that lives as long as the frame. It would keep tracers alive, which
    # `jax.checking_leaks` rightly minds, so it is emptied.
    values = frame.f_locals
    try:
        yield values
    finally:
        if type(values) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            values.clear()


def _varkeywords(code: types.CodeType) -> str:
    before = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
    return code.co_varnames[before]


# --- caches ---

# A context manager factory: its value is a part of every key in every cache of JAX (traces, lowerings, executables),
# so that under a new value nothing is found, and what is made is found under that value only. Without this an
# instrument that looks at a function would take the next trace away from it. JAX starts to look at the value as soon
# as the context exists: made in the middle of a session, it has every function compiled so far traced and compiled
# once more. And in JAX 0.12 the first import of `jax.extend` empties all caches. So both happen when this module is
# imported, which the first use of any public name of the course does.
in_every_key = jax.make_user_context(None)


# --- what JAX writes ---


def type_notation(aval: Any) -> str:
    """An abstract value as JAX writes it, mesh axes included: "float32[4]", "float32[16@i]", "key<fry>[]".

    Relies on `str`, less the mark of a weak type. Without it messages about arguments are written in another way.
    """
    return str(aval).removeprefix("~")


def tree_notation(structure: Any) -> str:
    """The containers of a pytree, each leaf a star: "{'b': *, 'w': [*, *]}", "*".

    Relies on `str` of a `PyTreeDef`. Without it messages about structures are written in another way.
    """
    return str(structure).removeprefix("PyTreeDef(").removesuffix(")")


class Source(NamedTuple):
    """A place in a program: "/home/ada/lesson.py", 12, "f"."""

    file: str
    line: int
    function: str


def source_of(eqn: JaxprEqn) -> Source | None:
    """Where the user wrote what became this equation; None in a function that is JAX's own throughout.

    Relies on the text of JAX's summary. Without it no line of a message says where an equation comes from.
    """
    found = re.fullmatch(r"(.*?):(\d+)(?::\d+)? \((.*)\)", source_info_util.summarize(eqn.source_info))
    return Source(found[1], int(found[2]), found[3]) if found else None


def argument_names(jaxpr: Jaxpr | ClosedJaxpr) -> tuple[str | None, ...]:
    """The names of a jaxpr's inputs in the function that was traced, "x" or "state['w']"; () if JAX kept none.

    Relies on `debug_info.arg_names`. Without it the inputs in a picture are called "input 0", "input 1".
    """
    return tuple(getattr(jaxpr.debug_info, "arg_names", None) or ())


def expansion(eqn: JaxprEqn) -> ClosedJaxpr:
    """What a call of a hijax primitive stands for: such an equation holds no jaxpr, but an object that makes one.

    Relies on the parameter `_prim` and its methods and trees, as `jax.experimental.hijax` documents `expand`. Without
    it the work behind `lax.custom_root` and, since JAX 0.12, `jnp.searchsorted` is not seen.
    """
    primitive = eqn.params["_prim"]
    arguments = jax.tree.unflatten(primitive.in_tree, [variable.aval for variable in eqn.invars])
    return jax.make_jaxpr(primitive.expand)(*arguments)


def has_own_rule(eqn: JaxprEqn) -> bool:
    """Whether a call of a hijax primitive has another derivative than what it stands for, as `lax.custom_root` has: it
    stands for a search, and has the derivative of the root.

    Relies on the parameter `_prim` and the name of its class; before JAX 0.12 there is no such call. Without it a root
    that is judged in a kernel of its own has no way back.
    """
    return type(eqn.params["_prim"]).__name__ == "CustomRoot"


def run_equation(eqn: JaxprEqn, inputs: list[Any]) -> list[Any]:
    """The results of one equation for these inputs, traced or not.

    Relies on `get_bind_params`, as `jax.core.eval_jaxpr` does. Without it the FLOPs of a run cannot be counted.
    """
    results = eqn.primitive.bind(*inputs, **eqn.primitive.get_bind_params(eqn.params))
    return list(results) if eqn.primitive.multiple_results else [results]


def jaxpr_text(jaxpr: ClosedJaxpr) -> str:
    """The jaxpr as JAX prints it, without the colours that `str` adds in a notebook, which break comparisons.

    Relies on `pretty_print`.
    """
    return jaxpr.pretty_print(use_color=False)


# --- programs as data (doors/judge) ---

# Where JAX keeps the primitives of programs that compute. What is kept elsewhere, or under one of these words, reaches
# out of the program, and is none that may cross. A module that moved is missing without an error: its primitives cannot
# cross then.
_HOMES = """lax.lax lax.slicing lax.convolution lax.control_flow.loops lax.control_flow.conditionals lax.linalg lax.fft
    lax.ann lax.special lax.windowed_reductions lax.other lax.control_flow.solves random.prng prng ad_util random.random
    random random.core"""
_REACH_OUT = ("infeed", "outfeed", "create_token", "after_all", "rng_uniform", "composite", "custom", "callback", "ffi")


@functools.cache
def computing_primitives() -> dict[str, Primitive]:
    """The primitives of programs that compute and do nothing else, by name.

    Relies on the modules of JAX in which they are made. Without one of them a program that uses its primitives is not
    judged in a kernel of its own.
    """
    found: dict[str, Primitive] = {}
    for home in _HOMES.split():
        try:
            module = importlib.import_module(f"jax._src.{home}")
        except ImportError:  # of another version of JAX
            continue
        for value in list(vars(module).values()):
            if isinstance(value, Primitive) and not any(word in value.name for word in _REACH_OUT):
                found[value.name] = value
    return found


# Talk between the devices of one program. What is asynchronous, or sent to one who may not listen, is left out.
_COLLECTIVES = """psum psum_invariant pmax pmin ppermute all_to_all all_gather all_gather_invariant
    reduce_scatter axis_index pvary"""


@functools.cache
def collective_primitives() -> dict[str, Primitive]:
    """The primitives by which devices talk inside a `shard_map`, by name, with those that only say who has what.

    Relies on the two modules of JAX in which they are made. Without them a program with a `shard_map` is not judged in
    a kernel of its own.
    """
    homes = [importlib.import_module(f"jax._src.{home}") for home in ("core", "lax.parallel")]
    made = [value for home in homes for value in vars(home).values() if isinstance(value, Primitive)]
    return {value.name: value for value in made if value.name in _COLLECTIVES.split()}


@contextlib.contextmanager
def on_each_device(mesh: Any, axes: Collection[str], *, checked: bool) -> Iterator[None]:
    """What JAX traces in the block is traced as in the body of a `shard_map` over these axes of a mesh.

    Relies on the three contexts that JAX enters around such a body. Without them a program with a call in there that
    JAX expands when it is asked, as `jnp.searchsorted`, is not judged in a kernel of its own.
    """
    from jax._src import config, shard_map

    names = frozenset(axes)
    around = jax.sharding.use_abstract_mesh(shard_map._as_manual_mesh(mesh, names))
    with shard_map._extend_axis_env(mesh, names), around, config._check_vma(checked):
        yield


def plain_type(aval: Any, *, weak_type: bool) -> jax.ShapeDtypeStruct:
    """An abstract value to be traced with: what it says of an array, and along which axes devices differ in it.

    Relies on `manual_axis_type`. Without it nothing can be traced again that stands in a `shard_map`.
    """
    weak_type = weak_type and bool(getattr(aval, "weak_type", False))
    by_device = getattr(aval, "manual_axis_type", None)
    options = {"sharding": aval.sharding, "manual_axis_type": by_device} if getattr(by_device, "varying", ()) else {}
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=weak_type, **options)


def same_devices(mesh: jax.sharding.AbstractMesh) -> jax.sharding.AbstractMesh:
    """A mesh without devices as JAX makes it from one that has such as are here.

    Relies on `abstract_device`, by which JAX tells two such meshes apart. Without it a program that was made with one
    of them is not traced again with the other.
    """
    of_one = jax.sharding.Mesh(np.array(jax.devices()[:1]), "i").abstract_mesh
    sizes, names, kinds = mesh.axis_sizes, mesh.axis_names, mesh.axis_types
    return jax.sharding.AbstractMesh(sizes, names, axis_types=kinds, abstract_device=of_one.abstract_device)


def has_devices(mesh: jax.sharding.AbstractMesh) -> bool:
    """Whether `same_devices` makes this mesh."""
    return same_devices(mesh) is mesh


def scan_counts(eqn: JaxprEqn) -> tuple[int, int]:
    """How many inputs of a `scan` are constants, and how many are carried.

    Relies on the parameters `num_consts` and `num_carry`, or on `ft_in`, which holds the two and the rows.
    """
    params = eqn.params
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(list(consts)), len(list(carry))


class LinearSolve(NamedTuple):
    """What an equation of `custom_linear_solve` holds: four programs, and how many inputs belong to each."""

    counts: tuple[int, ...]
    matrix: Any
    transposed: Any  # is `matrix` where that is symmetric
    solve: Any
    back: Any  # solves the transposed equation; None if there is no way back


def linear_solve(eqn: JaxprEqn) -> LinearSolve:
    """The parts of an equation of `custom_linear_solve`.

    Relies on the order in the parameters `const_lengths` and `jaxprs`, and on a symmetric matrix being there twice.
    """
    return LinearSolve(tuple(eqn.params["const_lengths"]), *eqn.params["jaxprs"])


def key_name(kind: Any) -> str:
    """The name of what makes random numbers ("threefry2x32"), from a dtype of keys, or from that itself in a parameter.

    Relies on `_impl.name`.
    """
    return str(getattr(kind, "_impl", kind).name)


def random_bits_of(name: str, *, dtype: bool) -> Any:
    """The inverse of `key_name`: a dtype of keys, or what makes their numbers."""
    kind = jax.random.key(0, impl=name).dtype
    return kind if dtype else getattr(kind, "_impl")  # noqa: B009


class CalledBack(NamedTuple):
    """A `jax.pure_callback` in a program."""

    function: Callable[..., Sequence[Any]]  # of arrays, with a list of results
    vmap_method: str | None
    anywhere: bool  # whether it is left to JAX on which device the results are


def called_back(eqn: JaxprEqn) -> CalledBack:
    """What an equation of `pure_callback` calls.

    Relies on its parameters `callback`, a function of flat arrays, `vmap_method` and `sharding`. Without it a program
    that calls back is not handed to another kernel.
    """
    params = eqn.params
    return CalledBack(params["callback"], params["vmap_method"], params["sharding"] is None)


def parameter_kind(value: Any) -> str:
    """What a parameter of a primitive is that has no form of its own: "random", "key", "unspecified", "no mesh" or "".

    Relies on the names of JAX's classes for them.
    """
    name = type(value).__name__
    if name == "AbstractMesh":
        return "" if value.shape else "no mesh"
    return {"PRNGImpl": "random", "KeyTy": "key", "UnspecifiedValue": "unspecified"}.get(name, "")


# Policies of `jax.checkpoint_policies` that look at the program alone, and whether they are made of names.
POLICIES: dict[str, bool] = {
    "everything_saveable": False,
    "nothing_saveable": False,
    "dots_saveable": False,
    "dots_with_no_batch_dims_saveable": False,
    "save_only_these_names": True,
    "save_any_names_but_these": True,
}


def policy_name(policy: Any) -> tuple[str, list[str]] | None:
    """What an equation of `jax.checkpoint` says of its policy: its public name, and the names that it was given.

    Relies on a policy of names being an object of a class that holds one set, or a function that captures one. None for
    any other policy: its program is not judged in a kernel of its own.
    """
    for name, of_names in POLICIES.items():
        known = getattr(jax.checkpoint_policies, name)
        if not of_names and policy is known:
            return name, []
        if of_names and _made_alike(policy, known()):
            held = [cell.cell_contents for cell in getattr(policy, "__closure__", None) or ()]
            sets = [value for value in (*held, *vars(policy).values()) if isinstance(value, set | frozenset)]
            if len(sets) == 1 and all(type(text) is str for text in sets[0]):
                return name, sorted(sets[0])
    return None


def _made_alike(value: Any, other: Any) -> bool:
    """Whether two come from the same class, or are the same inner function."""
    if isinstance(other, types.FunctionType):
        return isinstance(value, types.FunctionType) and value.__code__ is other.__code__
    return type(value) is type(other)


def unspecified() -> Any:
    """What a program holds where no layout over devices is asked for.

    Relies on the parameter `in_shardings` of an equation of `jit`.
    """
    return jax.make_jaxpr(jax.jit(lambda x: x))(1.0).jaxpr.eqns[0].params["in_shardings"][0]


# --- kernels as data (doors/judge) ---


def is_ref(aval: Any) -> bool:
    """Whether a type is that of memory which a kernel reads and writes. Relies on the class `AbstractRef`."""
    from jax._src.state.types import AbstractRef

    return isinstance(aval, AbstractRef)


def only_says(effects: Iterable[Any]) -> bool:
    """Whether a program does no more than compute, and say something in no order (`jax.debug.print`). That it talks
    along an axis of devices does not count.

    Relies on the names of JAX's classes for that. Without them no program with a print or a collective crosses.
    """
    return all(type(effect).__name__ in ("DebugEffect", "NamedAxisEffect") for effect in effects)


def only_on_refs(effects: Iterable[Any]) -> bool:
    """Whether nothing is done but reading and writing the memory of a kernel. Relies on the class `RefEffect`."""
    from jax._src.state.types import RefEffect

    return all(isinstance(effect, RefEffect) for effect in effects)


@functools.cache
def ref_primitives() -> dict[str, Primitive]:
    """The primitives that read and write a kernel's memory, by name.

    Relies on two modules of JAX, and on the names `get_p`, `swap_p`, `addupdate_p` and `load_p`. Without them no kernel
    is judged in a kernel of its own.
    """
    from jax._src.pallas import primitives as of_pallas
    from jax._src.state import primitives as of_state

    found = of_state.get_p, of_state.swap_p, of_state.addupdate_p, of_pallas.load_p, of_pallas.swap_p
    return {primitive.name: primitive for primitive in (*found, of_state.broadcast_to_p)}


def without_captures(jaxpr: Any) -> Any:
    """The same jaxpr, but what it captured are inputs, before all others. Relies on `convert_constvars_jaxpr`."""
    from jax._src.interpreters.partial_eval import convert_constvars_jaxpr

    return convert_constvars_jaxpr(jaxpr)


class RefIndex(NamedTuple):
    """Which part of a kernel's memory is meant: for each axis a place, or a slice (start, size, stride)."""

    shape: tuple[int, ...]  # of the memory
    places: tuple[int, ...]  # the shape of all places together
    axes: list[Any]


def ref_index(transform: Any) -> RefIndex | None:
    """What stands in the brackets behind a kernel's memory; None for what is no index (`reshape`, `bitcast`).

    Relies on the classes `NDIndexer` and `Slice`, and on their attributes. The same goes for `indexer_of`.
    """
    from jax._src.state.indexing import NDIndexer, Slice

    if not isinstance(transform, NDIndexer):
        return None
    axes = [(i.start, i.size, i.stride) if isinstance(i, Slice) else i for i in transform.indices]
    places: Any = transform.int_indexer_shape
    return RefIndex(tuple(transform.shape), tuple(places), axes)


def indexer_of(index: RefIndex) -> Any:
    """The inverse of `ref_index`. Raises ValueError for what cannot be one."""
    from jax._src.state import indexing

    made: Any = indexing.NDIndexer  # abstract, JAX's types say
    axes = tuple(indexing.Slice(*axis) if isinstance(axis, tuple) else axis for axis in index.axes)
    return made(axes, index.shape, index.places, validate=True)


# --- what the compiler estimates ---


class Estimates(NamedTuple):
    """XLA's figures for one module; None where the backend gives none."""

    bytes: int | None  # read and written
    flops: int | None  # transcendental functions left out
    temp_bytes: int | None  # of scratch memory; None before compilation


def estimates(program: jax.stages.Lowered | jax.stages.Compiled) -> Estimates:
    """The estimates for a lowered or compiled program.

    Relies on the names "bytes accessed" and "flops", where a figure of 0 is left out and an unknown one is negative,
    and on `temp_size_in_bytes`. Under other names all figures would be 0 or None, and every limit would hold.
    """
    costs = program.cost_analysis()
    costs = costs[0] if isinstance(costs, list) else costs
    memory = program.memory_analysis() if isinstance(program, jax.stages.Compiled) else None

    def figure(name: str) -> int | None:
        value = -1.0 if costs is None else costs.get(name, 0.0)
        return int(value) if value >= 0 else None

    return Estimates(figure("bytes accessed"), figure("flops"), getattr(memory, "temp_size_in_bytes", None))


def listeners() -> list[list[Callable[..., None]]]:
    """The lists in which `jax.monitoring` keeps its listeners, themselves and no copies.

    Relies on a private module of JAX's. Without it a listener that an answer leaves behind hears what checks do.
    """
    from jax._src import monitoring

    return [known for name, known in vars(monitoring).items() if name.endswith("_listeners") and type(known) is list]
