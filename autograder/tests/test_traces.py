"""trace_log: counts, outcomes and the reason for every cause of a trace that is known."""

import functools
import subprocess
import sys
import threading
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from autograder import trace_log
from autograder.instruments.call_signature import value_text
from autograder.instruments.trace_log import TraceLog, _covered
from autograder.instruments.watch_functions import traced_function


def reasons(fn, *calls):
    """The reasons that a log gives for calls of `fn`; each call is a tuple of arguments or a dict of them."""
    with trace_log(fn) as log:
        for call in calls:
            log.call(fn, **call) if isinstance(call, dict) else log.call(fn, *call)
    return log.reasons


def fresh(**options):
    @functools.partial(jax.jit, **options)
    def f(x, n=2):
        return x

    return f


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ((jnp.ones(4),), (jnp.ones(5),), "x: float32[4] -> float32[5]"),
        ((jnp.ones(4),), (jnp.ones((4, 1)),), "x: float32[4] -> float32[4,1]"),
        ((jnp.ones(4),), (jnp.ones(4, jnp.int32),), "x: float32[4] -> int32[4]"),
        ((1,), (1.0,), "x: weak int32[] -> weak float32[]"),
        ((1.0,), (jnp.float32(1),), "x: weak float32[] -> float32[]"),
        ((jnp.ones(2),), ([1.0],), "x: float32[2] -> [weak float32[]]"),
        (([1.0, 2.0],), ((1.0, 2.0),), "x: [weak float32[], weak float32[]] -> (weak float32[], weak float32[])"),
        (
            ({"w": jnp.ones(3)},),
            ({"w": jnp.ones(3), "b": 1.0},),
            "x: {'w': float32[3]} -> {'b': weak float32[], 'w': float32[3]}",
        ),
        (({"w": jnp.ones(3)},), ({"w": jnp.ones(4)},), "x['w']: float32[3] -> float32[4]"),
        ((None,), (1.0,), "x: None -> weak float32[]"),
        ((1.0, 2.0), {"x": 1.0, "n": 2.0}, "n: now passed by keyword; x: now passed by keyword"),
        ({"x": 1.0}, (1.0,), "x: no longer passed by keyword"),
        ((jnp.ones(2), 1.0), (jnp.ones(3), 1), "x: float32[2] -> float32[3]; n: weak float32[] -> weak int32[]"),
        ((1.0,), (1.0, 2.0), "n: static 2 -> weak float32[]"),
    ],
)
def test_every_kind_of_argument_has_its_reason(before, after, reason):
    assert reasons(fresh(), before, after) == ["first call", reason]


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (2, 3, "n: static 2 -> static 3"),
        (1, 1.0, "n: static 1 -> static 1.0"),
        (1, True, "n: static 1 -> static True"),
        ("sum", "mean", "n: static 'sum' -> static 'mean'"),
        ((1, 2), (1, 3), "n: static (1, 2) -> static (1, 3)"),
        (None, 2, "n: None -> static 2"),
    ],
)
def test_a_new_static_value_is_a_reason(before, after, reason):
    assert reasons(fresh(static_argnames="n"), (1.0, before), (1.0, after)) == ["first call", reason]


def test_static_objects_that_only_look_equal_are_told_apart():
    class Config:
        pass

    found = reasons(fresh(static_argnums=1), (1.0, Config()), (1.0, Config()))
    assert found[1] == "n: static <Config object> -> another static <Config object>"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((np.float64([1, 2]),), (jnp.ones(2),)),
        ((np.int32(3),), (jnp.int32(4),)),
        ((1.0,), (2.0,)),
        (({"a": 1.0, "b": 2},), ({"b": 3, "a": 4.0},)),
        ((jnp.ones(4),), (jnp.zeros(4),)),
    ],
)
def test_what_does_not_retrace_is_a_hit(before, after):
    f = fresh()
    with trace_log(f) as log:
        log.call(f, *before)
        log.call(f, *after)
    assert (log.traces, log.hits) == (1, 1)
    assert [row.outcome for row in log.rows] == ["traced", "hit"]


def test_the_reason_compares_with_the_most_similar_trace_not_the_last():
    x = jnp.ones(4)
    found = reasons(fresh(static_argnames="n"), (x, 1), (jnp.ones((2, 2)), 5), (x, 2))
    assert found[2] == "n: static 1 -> static 2"


class Pair(NamedTuple):
    left: jax.Array
    right: jax.Array


def test_a_leaf_of_a_nested_tree_is_named_by_its_path():
    a, b = jnp.ones(2), jnp.ones(3)
    assert reasons(fresh(), ([Pair(a, a)],), ([Pair(a, b)],))[1] == "x[0].right: float32[2] -> float32[3]"


def test_an_argument_that_an_inner_function_captures_is_seen():
    @jax.jit
    def f(x):
        return jax.lax.fori_loop(0, 3, lambda i, y: y + x, x)

    assert reasons(f, (jnp.ones(2),), (jnp.ones(3),)) == ["first call", "x: float32[2] -> float32[3]"]


def test_variable_arguments_are_seen():
    @jax.jit
    def f(*xs, scale=1.0, **options):
        return xs[0]

    found = reasons(f, (1.0,), (1.0, 2.0))
    assert found[1] == "xs: (weak float32[],) -> (weak float32[], weak float32[])"


NEW_FUNCTION = "same arguments, but a new function object"


def test_a_lambda_jitted_in_a_loop_is_a_new_function_each_time():
    def total(xs):
        return [jax.jit(lambda x: x + 1)(x) for x in xs]

    with trace_log(total) as log:
        total([1.0, 2.0, 3.0])
    assert log.reasons == ["<lambda>: first call", *[f"<lambda>: {NEW_FUNCTION}"] * 2]
    assert (log.eager, log.own_traces) == (1, 0)


def double(x):
    return 2 * x


class Model:
    def __init__(self, scale):
        self.scale = scale

    def apply(self, x):
        return self.scale * x


def test_partials_methods_and_transforms_made_anew_are_new_functions():
    model = Model(2.0)
    for make, body, x in [
        (lambda: functools.partial(double), double, 1.0),
        (lambda: model.apply, model.apply, 1.0),
        (lambda: jax.grad(double), double, 1.0),
        (lambda: jax.vmap(double), double, jnp.ones(2)),
    ]:
        with trace_log(body) as log:
            for _ in range(3):
                jax.jit(make())(x)
        assert log.reasons == ["first call", NEW_FUNCTION, NEW_FUNCTION]


def test_an_object_that_can_be_called_is_followed():
    class Scaled(Model):
        def __call__(self, x):
            return self.apply(x)

    class Inherits(Scaled):
        pass

    model = Inherits(2.0)
    with trace_log(model) as log:
        jax.jit(model)(1.0)
        model(1.0)
    assert (log.reasons, log.eager) == (["first call"], 1)


def test_jitting_the_same_function_again_shares_its_trace():
    with trace_log(double) as log:
        for _ in range(3):
            jax.jit(double)(jnp.ones(17))
        jax.make_jaxpr(double)(jnp.ones(17))
        jax.eval_shape(double, jnp.ones(17))
    assert log.reasons == ["first call"]


def test_outside_jit_grad_traces_in_every_call():
    with trace_log(double) as log:
        for _ in range(2):
            jax.grad(double)(1.0)
    assert log.reasons == ["first call", "same function: outside jit, grad and vmap trace in every call"]


def test_a_body_called_by_a_traced_function_names_its_caller():
    @jax.jit
    def outer(x):
        return double(x) + double(x)

    with trace_log(double) as log:
        outer(1.0)
    assert log.reasons == ["first call", "same arguments: called again while outer was traced"]


def test_a_cleared_cache_is_a_reason():
    f = fresh()
    with trace_log(f) as log:
        f(1.0)
        f.clear_cache()
        f(1.0)
    assert log.reasons[1] == "same arguments, same function: its cache was cleared, or a JAX setting changed"


def test_a_function_with_static_arguments_only_is_traced_too():
    f = jax.jit(lambda n: n * 2, static_argnums=0)
    assert reasons(f, (2,), (3,)) == ["first call", "n: static 2 -> static 3"]


def test_several_functions_have_their_names_before_the_reasons():
    f = fresh()
    g = jax.jit(double)
    with trace_log(f, g) as log:
        f(1.0)
        g(jnp.ones(23))
        log.call(f, jnp.ones(2))
    assert log.reasons == ["f: first call", "double: first call", "f: x: weak float32[] -> float32[2]"]
    assert log.rows == [("f(float32[2])", "traced", "x: weak float32[] -> float32[2]")], "its name stands before it"


def test_without_functions_every_trace_counts_by_name():
    f = fresh()
    with trace_log() as log:
        f(jnp.ones(2))
        f(jnp.ones(3))
    assert [reason for reason in log.reasons if reason[0] == "f"] == ["f: first trace", "f: traced again"]


def test_compiled_modules_are_named_and_counted():
    f, x = fresh(), jax.block_until_ready(jnp.ones(4))
    with trace_log(f) as log:
        f(x)
        f(x)
    assert (log.compiles, log.modules) == (1, ["jit(f)"])
    assert set(log.seconds) == {"trace", "lower", "compile"}
    assert all(seconds > 0 for seconds in log.seconds.values())


def test_a_span_inside_another_is_not_counted_twice():
    spans = [("outer", 0.0, 4.0), ("inner", 1.0, 2.0), ("overlaps", 3.0, 2.0), ("apart", 7.0, 1.5)]
    assert _covered(spans) == _covered(spans[::-1]) == 5.0 + 1.5
    assert _covered([]) == 0


def test_eager_calls_are_told_from_hits():
    compiled = jax.jit(double).lower(1.0).compile()
    with trace_log() as log:
        log.call(double, 1.0)
        log.call(np.sin, 1.0)
        log.call(compiled, 1.0)
    assert [row.outcome for row in log.rows] == ["ran eagerly", "ran eagerly", "hit"]
    assert (log.traces, log.hits) == (0, 1)


def test_the_table_reads_well():
    f = fresh(static_argnames="n")
    with trace_log() as log:
        log.call(f, jnp.ones(4))
        log.call(f, jnp.ones(4), n=3)
        log.call(f, jnp.zeros(4))
        log.call(f, {"w": jnp.ones(2), "b": 1.0})
    assert str(log).splitlines()[:-1] == [
        "call                            outcome  reason",
        "f(float32[4])                   traced   first call",
        "f(float32[4], n=3)              traced   n: static 2 -> static 3",
        "f(float32[4])                   hit",
        "f({'b': 1.0, 'w': float32[2]})  traced   x: float32[4] -> {'b': weak float32[], 'w': float32[2]}",
    ]
    assert str(log).splitlines()[-1].startswith("3 traces, 1 hit, ")
    html = log._repr_html_()
    assert '<td style="text-align: left">x: float32[4] -&gt; {' in html
    assert html.count("<tr>") == 5


def test_times_are_told_in_milliseconds(monkeypatch):
    monkeypatch.setattr(TraceLog, "seconds", {"trace": 0.999, "lower": 0.0025, "compile": 0.12})
    with trace_log() as log:
        pass
    assert str(log).endswith(" built (trace 999 ms, lower 2.5 ms, compile 120 ms)")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.ones(2, np.float32), "float32[2]"),
        (np.ones(2, jnp.bfloat16), "bfloat16[2]"),
        ({"w": np.float32(1)}, "{'w': float32[]}"),
        (np.array("text"), "array('text', dtype='<U4')"),
        ("a" * 58, "'" + "a" * 58 + "'"),
        ("a" * 59, "'" + "a" * 56 + "..."),
    ],
)
def test_an_argument_is_told_in_a_short_text(value, text):
    assert value_text(value) == text


def test_an_exception_leaves_a_row_and_passes_on():
    @jax.jit
    def stub(x):
        raise NotImplementedError("yours to write")

    with trace_log(stub) as log, pytest.raises(NotImplementedError, match="yours to write"):
        log.call(stub, 1.0)
    assert log.rows == [("stub(1.0)", "raised", "NotImplementedError")]


def test_logs_can_be_nested_and_leave_nothing_behind():
    f = fresh()
    with trace_log(f) as outer:
        f(jnp.ones(2))
        with trace_log(f) as inner:
            f(jnp.ones(3))
        f(jnp.ones(4))
    f(jnp.ones(5))
    assert outer.reasons == ["first call", "x: float32[2] -> float32[3]", "x: float32[3] -> float32[4]"]
    assert inner.reasons == ["first call"]
    assert outer.compiles >= 3 > inner.compiles
    if hasattr(sys, "monitoring"):
        assert sys.monitoring.get_tool(4) is None


def test_what_one_log_left_alone_is_seen_by_the_next():
    elsewhere = {}
    exec("def other(x):\n    return x", elsewhere)
    other = elsewhere["other"]
    with trace_log(double) as log:
        double(other(1.0))
        with trace_log(other) as inner:
            double(other(1.0))
    assert (log.eager, inner.eager) == (2, 1)


@pytest.fixture
def no_free_tool():
    """Other tools have taken the two places of `sys.monitoring` that are free; Python 3.11 has none."""
    taken = [tool for tool in (3, 4) if hasattr(sys, "monitoring") and sys.monitoring.get_tool(tool) is None]
    for tool in taken:
        sys.monitoring.use_tool_id(tool, "another")
    yield
    for tool in taken:
        sys.monitoring.free_tool_id(tool)


def test_without_a_free_tool_calls_are_seen_and_no_profiler_is_left(no_free_tool):
    with trace_log(double) as log:
        double(1.0)
    assert log.eager == 1 and sys.getprofile() is None


def test_an_earlier_profiler_goes_on_and_comes_back(no_free_tool):
    events = []

    def profile(frame, event, argument):
        events.append(event)

    sys.setprofile(profile)
    try:
        with trace_log(double) as log:
            double(1.0)
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    assert log.eager == 1 and "call" in events


def test_another_thread_is_seen():
    f = fresh()
    with trace_log(f) as log:
        thread = threading.Thread(target=f, args=(1.0,))
        thread.start()
        thread.join()
    assert log.reasons == ["first call"]


def test_following_keeps_no_tracer_alive():
    @jax.jit
    def f(x):
        return jax.lax.scan(lambda carry, _: (carry + 1, None), x, None, length=3)[0]

    with jax.checking_leaks(), trace_log(f) as log:
        log.call(f, jnp.ones(3))
    assert log.traces == 1


def test_following_survives_arguments_that_misbehave():
    class Awkward:
        def __repr__(self):
            raise RuntimeError

        def __eq__(self, other):
            raise RuntimeError

    def plain(x):
        return 1

    with trace_log(plain) as log:
        plain(Awkward())
        plain({1: 2, "a": 3})
        plain(np.array(["text"]))
    assert log.eager == 3


def test_what_has_no_python_body_cannot_be_followed():
    with pytest.raises(TypeError, match="it has no Python body of its own"), trace_log(np.sin):
        pass


def test_nothing_reaches_standard_error(capfd):
    reasons(fresh(), (1.0,), (2,))
    assert capfd.readouterr().err == ""


def test_reason_when_an_array_comes_on_another_mesh():
    """Its text stays float32[4], and jit traces all the same (subprocess: the devices are fixed at the start)."""
    program = """
import jax
jax.config.update("jax_num_cpu_devices", 2)
from autograder import trace_log
from autograder.instruments.trace_log import _covered

mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
x = jax.numpy.ones(4)
step = jax.jit(lambda x: x + 1)
with trace_log(step) as log:
    step(x)
    step(jax.device_put(x, jax.NamedSharding(mesh, jax.P("i"))))
print(log.reasons)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "['first call', 'x: float32[4] on one device -> on mesh (i: 2)']", done.stderr


class _Called:
    """Holds another function, as what `functools.update_wrapper` has changed does, and calls its own."""

    def __init__(self, other):
        functools.update_wrapper(self, other)

    def __call__(self, x):
        return x * 2


class _Partial(functools.partial):
    def __call__(self, x):
        return x * 3


def test_of_an_object_what_is_called_is_followed_and_not_what_it_holds():
    for made, call in ((_Called(jnp.sin), _Called.__call__), (_Partial(jnp.sin), _Partial.__call__)):
        assert traced_function(jax.jit(made)) is traced_function(made) is call
    plain = functools.partial(lambda x, n: x * n, n=2)
    assert traced_function(plain) is plain.func
