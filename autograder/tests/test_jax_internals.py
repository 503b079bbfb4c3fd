"""What the course takes from JAX without a promise: a test for each, whose name and message say what to mend.

A new version of JAX is tried with this file first.
"""

import ast
import functools
import inspect
import itertools
import subprocess
import sys

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from autograder import jax_internals
from autograder.instruments.watch_functions import Watch
from autograder.jax_internals import COMPILE_EVENT, LOWER_EVENT, TRACE_EVENT

X = jnp.arange(4.0)


def moved(name, promise):
    """What a failing test says."""
    return f"JAX no longer {promise}: mend jax_internals.{name}"


def test_each_use_has_a_test_of_its_own():
    uses = set()
    for node in ast.parse(inspect.getsource(jax_internals)).body:
        uses |= {node.name} if isinstance(node, ast.FunctionDef) else set()
        uses |= {target.id for target in node.targets} if isinstance(node, ast.Assign) else set()
    uses = {name for name in uses if not name.startswith("_")}
    assert {"TRACE_EVENT", "is_jitted", "in_every_key"} <= uses
    assert {f"test_{name}" for name in uses} <= set(globals())


# --- what JAX says while it works ---


def events_of(*calls):
    """What JAX reports while the calls run: (event, details), in order."""
    heard = []

    def listen(event, duration, **details):
        heard.append((event, details))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for call in calls:
            jax.block_until_ready(call())
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    return heard


@pytest.fixture
def heard_once():
    """A new jitted function called three times, with two shapes, and what was heard of it."""

    @jax.jit
    def heard_function(x):
        return x + 1

    shorter = jax.block_until_ready(X[:3])
    return events_of(lambda: heard_function(X), lambda: heard_function(X), lambda: heard_function(shorter))


def about(heard, event, name="heard_function"):
    return sum(found == event and details.get("fun_name") == name for found, details in heard)


def test_TRACE_EVENT(heard_once):
    found = [event for event, _ in heard_once]
    assert about(heard_once, TRACE_EVENT) == 2, moved("TRACE_EVENT", f"reports each trace under this name, but {found}")


def test_LOWER_EVENT(heard_once):
    found = [event for event, _ in heard_once]
    number = found.count(LOWER_EVENT)
    assert number == 2, moved("LOWER_EVENT", f"reports each lowering under this name, but {found}")


def test_COMPILE_EVENT(heard_once):
    found = [event for event, _ in heard_once]
    number = about(heard_once, COMPILE_EVENT, "jit(heard_function)")
    assert number == 2, moved("COMPILE_EVENT", f"reports each module under this name, but {found}")


def test_a_module_from_the_persistent_cache_is_a_COMPILE_EVENT_too(tmp_path):
    """In a process of its own: the cache is chosen once."""
    program = f"""
import jax
jax.config.update("jax_compilation_cache_dir", {str(tmp_path)!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
heard, hits = [], []
jax.monitoring.register_event_duration_secs_listener(lambda event, duration, **details: heard.append(event))
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event))
for _ in range(2):
    jax.clear_caches()
    jax.jit(lambda x: x * 3)(1.0)
print(heard.count({COMPILE_EVENT!r}), "/jax/compilation_cache/cache_hits" in hits)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["2", "True"], moved(
        "COMPILE_EVENT", f"reports what it reads from disk {done.stderr}"
    )


def test_event_function(heard_once):
    names = {event: jax_internals.event_function(details) for event, details in heard_once}
    assert names[TRACE_EVENT] == "heard_function", moved("event_function", "names the function in `fun_name`")
    assert names[COMPILE_EVENT] == "jit(heard_function)", moved("event_function", "names a module after its function")


# --- is JAX tracing? ---


def inside(transform, look, *args):
    """What `look()` returns while JAX traces the body of a function that is transformed so."""
    seen = []

    def body(x):
        seen.append(look())
        return x * 2.0

    transform(body)(*args)
    return seen[0]


@pytest.mark.parametrize("transform", [jax.jit, jax.grad, functools.partial(jax.jit, static_argnums=0)])
def test_trace_state(transform):
    outside = jax_internals.trace_state()
    assert jax_internals.trace_state() == outside, moved("trace_state", "has one state outside of every trace")
    during = inside(transform, jax_internals.trace_state, 1.0)
    assert during != outside, moved("trace_state", "has another state while it traces")
    assert jax_internals.trace_state() == outside, moved("trace_state", "comes back to its state after a trace")


def test_under_jit():
    found = [
        inside(jax.jit, jax_internals.under_jit, 1.0),
        inside(lambda body: jax.jit(jax.grad(body)), jax_internals.under_jit, 1.0),
        inside(jax.grad, jax_internals.under_jit, 1.0),
        inside(jax.vmap, jax_internals.under_jit, X),
        jax_internals.under_jit(),
    ]
    assert found == [True, True, False, False, False], moved("under_jit", "tells jit from grad and vmap")


@pytest.mark.parametrize(("transform", "x"), [(jax.jit, 1.0), (jax.grad, 1.0), (jax.vmap, X)])
def test_is_tracer(transform, x):
    seen = []

    def body(x):
        seen.append(x)
        return x * 2.0

    transform(body)(x)
    assert jax_internals.is_tracer(seen[0]), moved("is_tracer", f"hands a Tracer to the body of a {transform}")
    assert not jax_internals.is_tracer(X)


def test_weak():
    made = jax_internals.weak(jnp.arange(3.0))
    assert made.weak_type and made.tolist() == [0, 1, 2], moved("weak", "makes an array weak by _convert_element_type")


# --- functions that are jitted ---


@jax.tree_util.register_static
class Model:
    """Its object is hashable and a pytree without leaves, so that each kind of method can be jitted."""

    scale = 3.0

    @jax.jit
    def traced(self, x):
        return self.scale * x

    @functools.partial(jax.jit, static_argnums=(0, 2))
    def static(self, x, times):
        for _ in range(times):
            x = self.scale * x
        return x

    @staticmethod
    @jax.jit
    def free(x):
        return 3.0 * x

    @classmethod
    def plain(cls, x):
        return cls.scale * x


def double(x):
    return 2 * x


class Duck:
    """What the protocol of jitted functions asks for, and another function when called."""

    def __call__(self, x):
        return x

    def trace(self, *args):
        return jax.jit(double).trace(*args)

    lower = eval_shape = clear_cache = trace


Posing = type("JitWrapped", (Duck,), {"__module__": type(nnx.jit(double)).__module__})


JITTED = {
    "jax.jit of a function": jax.jit(double),
    "jax.jit of a partial": jax.jit(functools.partial(double)),
    "jax.jit of a method": jax.jit(Model().plain),
    "a bound method": Model().traced,
    "a bound method with static arguments": Model().static,
    "a method of the class": Model.traced,
    "a static method": Model().free,
    "a function of jax.numpy": jnp.sin,
    "flax.nnx.jit": nnx.jit(double),
}
NOT_JITTED = {
    "a function": double,
    "a bound method": Model().plain,
    "a partial of a jitted function": functools.partial(jax.jit(double)),
    "vmap of a jitted function": jax.vmap(jax.jit(double)),
    "grad of a jitted function": jax.grad(jax.jit(double)),
    "a wrapper of a jitted function": functools.wraps(jnp.sin)(lambda x: jnp.sin(x)),
    "what is compiled already": jax.jit(double).lower(1.0).compile(),
    "a class": Model,
    "an array": X,
    "an object with the methods of a jitted function": Duck(),
    "an object whose class has the name of flax's": Posing(),
}


@pytest.mark.parametrize("name", JITTED)
def test_is_jitted(name):
    assert jax_internals.is_jitted(JITTED[name]), moved("is_jitted", f"tells jitted functions, such as {name}")


@pytest.mark.parametrize("name", NOT_JITTED)
def test_is_not_jitted(name):
    assert not jax_internals.is_jitted(NOT_JITTED[name]), moved("is_jitted", f"tells {name} from a jitted function")


@pytest.mark.parametrize(
    ("fn", "args", "primitives"),
    [
        (jax.jit(double), (X,), ["mul"]),
        (Model().traced, (X,), ["mul"]),
        (Model().static, (X, 2), ["mul", "mul"]),
        (Model.static, (Model(), X, 2), ["mul", "mul"]),
        (Model().free, (X,), ["mul"]),
        (nnx.jit(double), (X,), ["mul"]),
    ],
    ids=["function", "bound method", "with static arguments", "of the class", "static method", "flax.nnx.jit"],
)
def test_trace_jitted(fn, args, primitives):
    traced = jax_internals.trace_jitted(fn, *args)
    assert isinstance(traced, jax.stages.Traced), moved("trace_jitted", "gives a Traced")
    found = [eqn.primitive.name for eqn in traced.jaxpr.eqns]
    assert found == primitives, moved("trace_jitted", f"traces the function itself, but {traced.jaxpr}")
    assert traced.lower().compile()


@pytest.mark.parametrize(
    ("jit", "plain"), [(jax.jit, False), (jax.jit, True), (nnx.jit, False)], ids=["jitted", "plain", "flax.nnx.jit"]
)
def test_clear_cache(jit, plain):
    runs = []

    def body(x):
        runs.append(x)
        return x

    jitted = jit(body)
    jitted(1.0)
    jitted(1.0)
    assert len(runs) == 1
    jax_internals.clear_cache(body if plain else jitted)
    jitted(1.0)
    assert len(runs) == 2, moved("clear_cache", "traces again after clear_cache()")
    jax_internals.clear_cache(X)
    jax_internals.clear_cache(generator)  # cannot be jitted


def generator():
    yield


def test_JITTED():
    ways = [jax.jit(double), jax.jit(double, static_argnums=0), jax.jit(Model().plain, donate_argnums=0), jnp.sin]
    assert {type(fn) for fn in ways} == {jax_internals.JITTED}, moved("JITTED", "returns one type from jit")


def test_COMPILED_CALL():
    program, called = jax.jit(double).lower(X).compile(), []
    watch = Watch(lambda frame: called.append(frame.f_locals.get("self")))
    watch.add(jax_internals.COMPILED_CALL)
    program(X)
    functools.partial(program)(X)
    watch.close()
    assert [one is program for one in called] == [True, True], moved("COMPILED_CALL", "calls a program in Python")


def test_in_jax():
    theirs = [jax.jit(double), jax.jit(double).lower(1.0).compile(), jnp.add, X]
    for value in theirs:
        assert jax_internals.in_jax(value), moved("in_jax", f"keeps {type(value)} in its own packages")
    assert not any(map(jax_internals.in_jax, [double, Model(), 1.0]))


def test_in_flax():
    held = nnx.jit(double)
    assert jax_internals.in_flax(held), moved("in_flax", f"keeps {type(held)} in flax's own package")
    assert not any(map(jax_internals.in_flax, [double, jax.jit(double), Model(), 1.0]))


class Derived(jax.Array):
    """Says of itself what it likes."""


Derived.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]


def test_is_jax_array():
    seen = []
    jax.jit(lambda x: seen.append(jax_internals.is_jax_array(x)) or x)(X)
    theirs = [X, jnp.bfloat16(1), jax.random.key(0)]
    assert seen == [True] and all(map(jax_internals.is_jax_array, theirs)), moved("is_jax_array", "has other arrays")
    assert not any(map(jax_internals.is_jax_array, [Derived(), np.ones(2), 1.0, double]))


def test_wants_hashable_static():
    power = jax.jit(lambda x, n: x**n, static_argnums=1)
    with pytest.raises(ValueError) as refused:
        jax.jit(lambda x, n: power(x, n))(2.0, 3)
    assert jax_internals.wants_hashable_static(refused.value), moved("wants_hashable_static", f"says: {refused.value}")
    assert not jax_internals.wants_hashable_static(ValueError("something else"))


# --- the frames between a traced body and the code that called JAX ---


def seen_above(call):
    """(the variables' values of each frame of JAX, the keywords of each) above a traced body that `call` reaches."""
    found = []

    def body(x, n=1.0):
        # A proxy of a frame's variables, or a copy that is emptied: both are to be read at once.
        found.extend((list(values.values()), given) for values, given in jax_internals.frames_above(sys._getframe()))
        return x * n

    call(body)
    return body, found


@pytest.mark.parametrize("transform", [jax.jit, jax.grad, jax.vmap, jax.make_jaxpr])
def test_frames_above(transform):
    body, found = seen_above(lambda body: transform(body)(X if transform is jax.vmap else 1.0))
    assert found, moved("frames_above", "has all its files in one folder")
    handed = any(value is body for values, _ in found for value in values)
    assert handed, moved("frames_above", f"hands the function given to {transform.__name__} through its frames")


def test_frames_above_know_the_keywords():
    last = []
    for call in (lambda body: jax.jit(body)(1.0, n=2.0), lambda body: jax.jit(body)(1.0, 2.0)):
        _, found = seen_above(call)
        given = [keywords for _, keywords in found if keywords is not None]
        assert given, moved("frames_above", "has a frame with **keywords above a traced body")
        last.append(given[-1] & {"x", "n"})
    assert last == [{"n"}, set()], moved("frames_above", "hands the keyword arguments through its frames")


def test_frames_above_a_body_that_python_called_are_none():
    _, found = seen_above(lambda body: body(1.0))
    assert found == []


# --- caches ---


def test_in_every_key():
    runs, tokens = [], itertools.count(10**6)  # other values than those of `fresh_caches`

    @jax.jit
    def body(x):
        runs.append(x)
        return x

    body(X)
    before = len(events_of(lambda: body(X)))
    with jax_internals.in_every_key(next(tokens)):
        assert any(event == COMPILE_EVENT for event, _ in events_of(lambda: body(X))), moved(
            "in_every_key", "has the value of a user context in the keys of its caches of executables"
        )
    assert len(runs) == 2, moved("in_every_key", "has the value of a user context in the keys of its caches of traces")
    assert before == len(events_of(lambda: body(X))) == 0 and len(runs) == 2, moved(
        "in_every_key", "finds what it had cached before, when the context is left"
    )
    with jax_internals.in_every_key(next(tokens)):
        body(X)
    assert len(runs) == 3, moved("in_every_key", "tells two values of a user context apart")


# --- what JAX writes ---


def test_type_notation():
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))
    values = [X, 1.0, jnp.ones((2, 3), jnp.bfloat16), jax.random.key(0)]
    values.append(jax.device_put(X, jax.NamedSharding(mesh, jax.P("i"))))
    found = [jax_internals.type_notation(jax.typeof(value)) for value in values]
    expected = ["float32[4]", "float32[]", "bfloat16[2,3]", "key<fry>[]", "float32[4@i]"]
    assert found == expected, moved("type_notation", "writes types so")


def test_tree_notation():
    found = [jax_internals.tree_notation(jax.tree.structure(tree)) for tree in (1.0, {"w": [1, (2, None)], "b": 3})]
    assert found == ["*", "{'b': *, 'w': [*, (*, None)]}"], moved(
        "tree_notation", "writes the structure of a pytree so"
    )


def test_source_of():
    def body(x):
        return jnp.tanh(x)

    (eqn,) = jax.make_jaxpr(body)(1.0).eqns
    eqn = eqn.params["jaxpr"].eqns[0] if "jaxpr" in eqn.params else eqn
    source = jax_internals.source_of(eqn)
    assert source is not None, moved("source_of", "summarises the source of an equation as `file:line (function)`")
    expected = (__file__, body.__code__.co_firstlineno + 1, body.__qualname__)
    assert source == expected, moved("source_of", "names the user's file, line and function")


def test_argument_names():
    names = jax_internals.argument_names(jax.make_jaxpr(lambda x, state: x + state["w"])(X, {"w": X}))
    assert names == ("x", "state['w']"), moved("argument_names", "keeps the names of arguments so")


def test_expansion():
    def root(x):
        return jax.lax.custom_root(lambda y: y * y - x, x, lambda f, y: y - f(y) / 2, lambda g, y: y / g(1.0))

    program = jax.make_jaxpr(root)(2.0)
    calls = [eqn for eqn in program.eqns if eqn.primitive.name == "call_hi_primitive"]
    for eqn in calls:
        found = [inner.primitive.name for inner in jax_internals.expansion(eqn).eqns]
        assert found, moved("expansion", "expands a hijax primitive with `_prim.expand`")
    names = [eqn.primitive.name for eqn in program.eqns]
    known = calls or "custom_jvp_call" in names
    assert known, moved("expansion", f"writes custom_root as call_hi_primitive or custom_jvp_call, but as {names}")


def test_run_equation():
    program = jax.make_jaxpr(lambda x: jax.jit(jnp.sin)(x) + jax.nn.relu(x) + jax.lax.sort((x, x))[1])(X)
    values = dict(zip(program.invars, [X], strict=True))
    for eqn in program.eqns:
        results = jax_internals.run_equation(eqn, [values[atom] for atom in eqn.invars])
        values.update(zip(eqn.outvars, results, strict=True))
    found = values[program.outvars[0]]
    expected = jnp.sin(X) + jax.nn.relu(X) + X
    assert jnp.allclose(found, expected), moved("run_equation", "evaluates an equation with get_bind_params")


def test_jaxpr_text():
    text = jax_internals.jaxpr_text(jax.make_jaxpr(jnp.sin)(1.0))
    assert text == "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }", moved("jaxpr_text", "prints a jaxpr so")


# --- programs as data ---


def equations_of(fn, *args):
    return jax.make_jaxpr(fn)(*args).eqns


def test_computing_primitives():
    known = jax_internals.computing_primitives()
    wanted = "add dot_general gather scatter conv_general_dilated cond while scan cholesky fft top_k sort reduce_sum"
    wanted += " random_bits random_wrap cumsum erf copy"
    missing = [name for name in wanted.split() if name not in known]
    assert not missing, moved("computing_primitives", "makes its primitives in the modules that are named there")
    assert not [name for name in known if "callback" in name or "ffi" in name]


def in_shard_map(fn, **options):
    """The equations of the body of a shard_map over one device, which is called "i"."""
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:1])
    whole = jax.shard_map(fn, mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P("i"), **options)
    (eqn,) = equations_of(whole, X)
    return mesh, eqn.params["jaxpr"]


def talk(x):
    lax, summed = jax.lax, jax.lax.psum(x, "i")
    return lax.ppermute(x, "i", [(0, 0)]) + summed + lax.axis_index("i") + lax.all_gather(x, "i", tiled=True)


def test_collective_primitives():
    known = jax_internals.collective_primitives()
    _, body = in_shard_map(talk)
    used = {eqn.primitive.name for eqn in body.eqns} - {"add", "convert_element_type", "broadcast_in_dim", "mul"}
    assert used and used <= known.keys(), moved("collective_primitives", f"has known names for all of {used}")
    assert known["pvary"] and not [name for name in known if "start" in name or "send" in name]


def test_only_says():
    prints = jax.make_jaxpr(lambda x: jax.debug.print("{}", x))(1.0).jaxpr
    assert jax_internals.only_says(prints.effects), moved("only_says", "calls the effect of a print DebugEffect")
    ordered = jax.make_jaxpr(lambda x: jax.debug.print("{}", x, ordered=True))(1.0).jaxpr
    assert not jax_internals.only_says(ordered.effects)
    _, body = in_shard_map(talk)
    assert jax_internals.only_says(body.effects), moved("only_says", "calls the effect of a collective NamedAxisEffect")


def test_on_each_device():
    mesh, body = in_shard_map(jnp.sin)
    with jax_internals.on_each_device(mesh, {"i"}, checked=True):
        aval = jax_internals.plain_type(body.invars[0].aval, weak_type=False)
        program = jax.make_jaxpr(lambda x: jax.lax.psum(x, "i"))(aval)
    names = [eqn.primitive.name for eqn in program.eqns]
    assert names == ["psum_invariant"], moved("on_each_device", "enters three contexts around the body of a shard_map")


def test_plain_type():
    _, body = in_shard_map(jnp.sin)
    found = jax_internals.plain_type(body.invars[0].aval, weak_type=True)
    assert getattr(found.manual_axis_type, "varying", None) == {"i"}, moved("plain_type", "says along which axes")
    weak = jax.typeof(jnp.asarray(1.0))
    assert [jax_internals.plain_type(weak, weak_type=kept).weak_type for kept in (True, False)] == [True, False]


def test_same_devices():
    mesh, _ = in_shard_map(jnp.sin)
    other = jax.sharding.AbstractMesh((1,), ("i",), axis_types=mesh.axis_types)
    found = jax_internals.same_devices(other)
    assert found is mesh.abstract_mesh, moved("same_devices", "tells meshes without devices apart by abstract_device")


def test_has_devices():
    mesh, _ = in_shard_map(jnp.sin)
    other = jax.sharding.AbstractMesh((1,), ("i",), axis_types=mesh.axis_types)
    assert [jax_internals.has_devices(one) for one in (mesh.abstract_mesh, other)] == [True, False]


def test_scan_counts():
    def run(c, x, xs):
        return jax.lax.scan(lambda carry, row: ((carry[0] + row * c, carry[1] + 1), row), (x, x), xs)

    (eqn,) = [eqn for eqn in equations_of(run, 1.0, 2.0, X) if eqn.primitive.name == "scan"]
    assert jax_internals.scan_counts(eqn) == (1, 2), moved("scan_counts", "says of a scan what is carried")


def test_key_name():
    name = jax_internals.key_name(jax.random.key(0).dtype)
    assert name == "threefry2x32", moved("key_name", "has `_impl.name` in a dtype of keys")


def test_random_bits_of():
    dtype = jax.random.key(0).dtype
    assert jax_internals.random_bits_of("threefry2x32", dtype=True) == dtype
    generator = jax_internals.random_bits_of("threefry2x32", dtype=False)
    assert jax_internals.key_name(generator) == "threefry2x32", moved(
        "random_bits_of", "has `_impl` in a dtype of keys"
    )


def test_called_back():
    (eqn,) = equations_of(lambda x: jax.pure_callback(np.sin, x, x, vmap_method="sequential"), X)
    function, vmap_method, anywhere = jax_internals.called_back(eqn)
    assert (vmap_method, anywhere) == ("sequential", True)
    (found,) = function(X)
    assert np.allclose(found, np.sin(X)), moved("called_back", "keeps a callback as a function of flat arrays")


def test_parameter_kind():
    (eqn,) = equations_of(jax.random.wrap_key_data, jax.random.key_data(jax.random.key(0)))
    kinds = {jax_internals.parameter_kind(value) for value in eqn.params.values()}
    assert "random" in kinds, moved("parameter_kind", "calls the class of a generator PRNGImpl")
    assert jax_internals.parameter_kind(jax.random.key(0).dtype) == "key", moved("parameter_kind", "has a class KeyTy")
    assert jax_internals.parameter_kind(jax.sharding.AbstractMesh((), ())) == "no mesh"
    assert jax_internals.parameter_kind(jax.sharding.AbstractMesh((1,), ("i",))) == ""
    assert jax_internals.parameter_kind(X) == ""


def test_has_own_rule():
    root = lambda x: jax.lax.custom_root(lambda y: y * y - x, x, lambda f, y: jnp.sqrt(x), lambda g, y: y / g(1.0))  # noqa: E731
    hidden = [eqn for eqn in equations_of(root, 2.0) if eqn.primitive.name == "call_hi_primitive"]
    assert all(map(jax_internals.has_own_rule, hidden)), moved("has_own_rule", "calls the class of a root CustomRoot")
    search = equations_of(lambda x: jnp.searchsorted(x, x, method="sort"), jnp.arange(3.0))
    hidden = [eqn for eqn in search if eqn.primitive.name == "call_hi_primitive"]
    assert not any(map(jax_internals.has_own_rule, hidden))


def test_linear_solve():
    def solve(matrix, b):
        return b / 2 + 0 * matrix(b)

    for symmetric in (True, False):
        run = lambda x, s=symmetric: jax.lax.custom_linear_solve(lambda v: 2 * v, x, solve, solve, symmetric=s)  # noqa: E731
        parts = jax_internals.linear_solve(equations_of(run, X)[-1])
        assert len(parts.counts) == 4, moved("linear_solve", "counts the constants of four programs")
        alike = parts.transposed is parts.matrix
        assert alike == symmetric, moved("linear_solve", "holds a symmetric matrix twice")
        first = [program.eqns[0].primitive.name for program in (parts.matrix, parts.solve, parts.back)]
        assert first == ["mul", "div", "div"], moved("linear_solve", "holds a matrix, its transposed one, two searches")
    run = lambda x: jax.lax.custom_linear_solve(lambda v: 2 * v, x, solve)  # noqa: E731
    assert jax_internals.linear_solve(equations_of(run, X)[-1]).back is None


def test_policy_name():
    known = jax.checkpoint_policies
    for name, of_names in jax_internals.POLICIES.items():
        names = ["a", "b"] if of_names else []
        policy = getattr(known, name)(*names) if names else getattr(known, name)
        (eqn,) = equations_of(jax.checkpoint(jnp.sin, policy=policy), X)
        found = jax_internals.policy_name(eqn.params["policy"])
        assert found == (name, names), moved("policy_name", "holds the names of a policy in one set")
    both = known.save_from_both_policies(known.dots_saveable, known.save_only_these_names("a"))
    for other in (both, lambda *_, **__: True, known.save_only_these_names(1), known.save_only_these_names):
        assert jax_internals.policy_name(other) is None


def test_unspecified():
    kind = jax_internals.parameter_kind(jax_internals.unspecified())
    assert kind == "unspecified", moved("unspecified", "has in_shardings of the class UnspecifiedValue in a jit")


# --- what the compiler estimates ---


# --- kernels ---


def kernel_equation():
    def kernel(x_ref, o_ref):
        o_ref[1, 0:3] = x_ref[pl.program_id(0), 1:4]

        @pl.when(x_ref[0, 0] > 0)
        def _():
            pl.run_scoped(lambda kept_ref: o_ref.__setitem__(..., kept_ref[...]), pltpu.VMEM((2, 4), jnp.float32))

    table = jax.ShapeDtypeStruct((2, 4), jnp.float32)
    (eqn,) = jax.make_jaxpr(pl.pallas_call(kernel, table, grid=(2,), interpret=True))(table).jaxpr.eqns
    return eqn


def test_is_ref():
    found = [jax_internals.is_ref(variable.aval) for variable in kernel_equation().params["jaxpr"].invars]
    assert found == [True, True], moved("is_ref", "gives a kernel its memory as AbstractRef")
    assert not jax_internals.is_ref(jax.typeof(X))


def test_only_on_refs():
    effects = kernel_equation().params["jaxpr"].effects
    assert effects and jax_internals.only_on_refs(effects), moved("only_on_refs", "calls what a kernel does RefEffect")
    assert not jax_internals.only_on_refs(jax.make_jaxpr(lambda: jax.debug.print("x"))().effects)


def test_ref_primitives():
    known = set(jax_internals.ref_primitives())
    wanted = {"get", "swap", "addupdate", "masked_load", "masked_swap", "broadcast_to"}
    assert known == wanted, moved("ref_primitives", "has these primitives under these names")


def test_ref_index():
    eqn = next(eqn for eqn in kernel_equation().params["jaxpr"].eqns if eqn.primitive.name == "get")
    (index,) = jax.tree.unflatten(eqn.params["tree"], ["i"])
    found = jax_internals.ref_index(index)
    assert found == ((2, 4), (), ["i", (1, 3, 1)]), moved("ref_index", "has NDIndexer and Slice with these attributes")
    assert jax_internals.ref_index("reshaped") is None


def test_indexer_of():
    given = jax_internals.RefIndex((2, 4), (), [jnp.int32(1), (1, 3, 1)])
    found = jax_internals.ref_index(jax_internals.indexer_of(given))
    assert found == given, moved("indexer_of", "makes an NDIndexer of places and slices")


def test_without_captures():
    eqn = next(eqn for eqn in kernel_equation().params["jaxpr"].eqns if eqn.primitive.name == "cond")
    (scoped,) = (e for branch in eqn.params["branches"] for e in branch.eqns if e.primitive.name == "run_scoped")
    found = jax_internals.without_captures(scoped.params["jaxpr"])
    counts = len(found.constvars), len(found.invars)
    assert counts == (0, 2), moved("without_captures", "makes inputs of what a program captured")


def test_estimates():
    lowered = jax.jit(lambda a: (a @ a).sum() + jnp.sort(a[0])[0]).lower(jnp.ones((64, 64)))
    for program in (lowered, lowered.compile()):
        figures = jax_internals.estimates(program)
        assert figures.bytes and figures.bytes >= 64 * 64 * 4, moved("estimates", 'calls a figure "bytes accessed"')
        assert figures.flops and figures.flops >= 2 * 64**3 - 64**2, moved("estimates", 'calls a figure "flops"')
    assert figures.temp_bytes, moved("estimates", "gives `temp_size_in_bytes`")
    assert jax_internals.estimates(lowered).temp_bytes is None


def test_estimates_of_no_work_are_zero():
    figures = jax_internals.estimates(jax.jit(lambda x: x.reshape(2, 2)).lower(X).compile())
    assert figures.flops == 0, moved("estimates", "leaves out a figure of 0")


# --- who listens ---


def test_listeners():
    def heard(*_, **__): ...

    jax.monitoring.register_event_listener(heard)
    jax.monitoring.register_event_duration_secs_listener(heard)
    holding = [known for known in jax_internals.listeners() if heard in known]
    for known in holding:
        known.remove(heard)  # the lists themselves, and no copies
    left = [known for known in jax_internals.listeners() if heard in known]
    assert (len(holding), left) == (2, []), moved("listeners", "keeps listeners in lists of these names")
