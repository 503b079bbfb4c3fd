"""assert_max_traces: what it allows, what it refuses, and in which words."""

import functools
import operator
import re
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from autograder import assert_max_traces
from autograder.failure import CheckFailed

pytestmark = pytest.mark.small_heap


@jax.jit
def scale(x, factor=2.0):
    return factor * x


@functools.partial(jax.jit, static_argnames="steps")
def power(x, steps):
    return x**steps


def plain(x):
    return x + 1


def trap(xs):
    return [jax.jit(lambda x: x + 1)(x) for x in xs]


def through_a_helper(xs):
    return [scale(x) for x in xs]


# Ten ways to keep the jitted step of a plain function. Each has one trace for each `edge`, and counts each of them.


def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


def in_a_dict():
    steps = {edge: jax.jit(functools.partial(diffuse, edge=edge)) for edge in ("wrap", "edge")}
    return lambda x, rates, edge: functools.reduce(lambda v, rate: steps[edge](v, rate=rate), rates, x)


@functools.cache
def cached_step(edge):
    return jax.jit(lambda v, rate: diffuse(v, rate, edge))


def in_a_cached_factory():
    def relax(x, rates, edge):
        for rate in rates:
            x = cached_step(edge)(x, rate)
        return x

    return relax


class Rod:
    held: dict = {}

    def __init__(self):
        self.step = jax.jit(diffuse, static_argnames="edge")

    def run(self, x, rates, edge):
        for rate in rates:
            x = self.step(x, rate, edge)
        return x

    def run_by_class(self, x, rates, edge):
        step = self.held.setdefault(edge, jax.jit(functools.partial(diffuse, edge=edge)))
        for rate in rates:
            x = step(x, rate)
        return x

    def __call__(self, x, rates, edge):
        return self.run(x, rates, edge)


def in_an_instance():
    rod = Rod()
    return lambda x, rates, edge: rod.run(x, rates, edge)


def in_a_class():
    global Heat

    class Heat:
        step = staticmethod(jax.jit(diffuse, static_argnames="edge"))

    return lambda x, rates, edge: functools.reduce(lambda v, rate: Heat.step(v, rate, edge), rates, x)


def in_a_default():
    def relax(x, rates, edge, step=jax.jit(diffuse, static_argnames="edge")):  # noqa: B008
        for rate in rates:
            x = step(x, rate, edge)
        return x

    return relax


def in_a_list():
    steps = [
        ("wrap", jax.jit(lambda v, r: diffuse(v, r, "wrap"))),
        ("edge", jax.jit(lambda v, r: diffuse(v, r, "edge"))),
    ]

    def relax(x, rates, edge):
        for rate in rates:
            x = next(step for name, step in steps if name == edge)(x, rate)
        return x

    return relax


def in_a_partial():
    def walk(step, x, rates, edge):
        for rate in rates:
            x = step(x, rate, edge)
        return x

    return functools.partial(walk, jax.jit(diffuse, static_argnames="edge"))


def in_a_loop_of_jax():
    @functools.partial(jax.jit, static_argnames="edge")
    def whole(x, rates, edge):
        return jax.lax.scan(lambda v, rate: (diffuse(v, rate, edge), None), x, rates)[0]

    return lambda x, rates, edge: whole(x, jnp.pad(jnp.asarray(rates), (0, 5 - len(rates))), edge)


def in_a_dict_by_flax():
    steps = {edge: nnx.jit(functools.partial(diffuse, edge=edge)) for edge in ("wrap", "edge")}
    return lambda x, rates, edge: functools.reduce(lambda v, rate: steps[edge](v, rate=rate), rates, x)


def jitted_again_in_each_run():
    def own(v, rate, edge):  # no jitted function of it may be left, so that it must be found itself: it is made here
        return diffuse(v, rate, edge)

    def relax(x, rates, edge):
        step = jax.jit(own, static_argnames="edge")
        for rate in rates:
            x = step(x, rate, edge)
        return x

    return relax


KEPT = {
    "dict": in_a_dict,
    "cached factory": in_a_cached_factory,
    "instance": in_an_instance,
    "bound method": lambda: Rod().run,
    "class attribute": lambda: Rod().run_by_class,
    "object that can be called": Rod,
    "class, by its name": in_a_class,
    "default": in_a_default,
    "list": in_a_list,
    "partial": in_a_partial,
    "loop of JAX": in_a_loop_of_jax,
    "dict, by flax.nnx.jit": in_a_dict_by_flax,
    "jitted again in each run": jitted_again_in_each_run,
}


def relax_twice(relax):
    x = np.sin(np.arange(12, dtype=np.float32))
    relax(x, [0.1, 0.2, 0.3, 0.25, 0.15], "wrap")
    relax(x, [0.31, 0.32], "wrap")


@pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
def test_whatever_keeps_the_jitted_step_its_traces_count_and_its_cache_is_emptied(keep, capfd):
    relax = keep()
    for _ in range(2):  # before the block, too: what is cached then is forgotten
        relax_twice(relax)
        with assert_max_traces(relax, 1) as log:
            relax_twice(relax)
        assert log.traces == 1
    with assert_max_traces(relax, 2) as log:
        for edge in ("wrap", "edge", "wrap", "edge"):
            relax(jnp.ones(7), [0.1, 0.2], edge)
    assert log.traces == 2
    with assert_max_traces(relax, 0):
        relax(jnp.ones(7), [0.3, 0.4], "edge")
    text = message(relax, 1, lambda: [relax(jnp.ones(7), [0.1], edge) for edge in ("wrap", "edge")])
    assert "traced twice, at most 1 allowed." in text


def rate_in_the_key(x, rates, edge, steps={}):  # noqa: B006
    for rate in rates:
        x = steps.setdefault(rate, jax.jit(lambda v: diffuse(v, rate, edge)))(x)  # noqa: B023
    return x


@functools.cache
def step_of_a_rate(rate, edge):
    return jax.jit(lambda v: diffuse(v, rate, edge))


def rate_in_a_factory(x, rates, edge):
    for rate in rates:
        x = step_of_a_rate(rate, edge)(x)
    return x


def rate_in_a_partial(x, rates, edge):
    for rate in rates:
        x = jax.jit(functools.partial(diffuse, rate=rate, edge=edge))(x)
    return x


@pytest.mark.parametrize(
    ("relax", "why"),
    [
        (rate_in_the_key, "the cache belongs to the function object."),
        (rate_in_a_factory, "the cache belongs to the function object."),
        (rate_in_a_partial, "a static argument is part of the program"),
    ],
)
def test_a_program_for_each_rate_is_counted_wherever_it_is_kept(relax, why):
    relax_twice(relax)  # tried before it is checked
    text = message(relax, 1, lambda: relax_twice(relax))
    assert f"✗ {relax.__name__} uses functions that were traced 7 times, at most 1 allowed.\n" in text
    assert f"Why this usually happens: {why}" in text


def rate_in_a_thread(x, rates, edge):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(rate_in_a_partial, x, rates, edge).result()


def rate_behind_a_function_in_c(x, rates, edge):
    for rate in rates:
        step = functools.partial(operator.call, functools.partial(diffuse, rate=rate, edge=edge))
        x = jax.jit(step)(x)
    return x


class Step:
    def __init__(self, rate, edge):
        self.rate, self.edge = rate, edge

    def run(self, v):
        return diffuse(v, self.rate, self.edge)

    __call__ = functools.partialmethod(run)


def rate_behind_a_partial_method(x, rates, edge):
    for rate in rates:
        x = jax.jit(Step(rate, edge))(x)
    return x


class Called:
    def __get__(self, step, kind):
        return step.run


class StepByDescriptor(Step):
    __call__ = Called()


def rate_behind_a_descriptor(x, rates, edge):
    for rate in rates:
        x = jax.jit(StepByDescriptor(rate, edge))(x)
    return x


def rate_behind_the_call_of_a_function(x, rates, edge):
    for rate in rates:
        x = jax.jit(functools.partial((lambda v, rate=rate: diffuse(v, rate, edge)).__call__))(x)
    return x


class StepByPartial:
    """JAX calls the objects, and these the partial that stands in their class."""

    def __init__(self, rate, edge):
        type(self).__call__ = functools.partial(lambda v: diffuse(v, rate, edge))


def rate_behind_a_partial_of_the_class(x, rates, edge):
    for rate in rates:
        x = jax.jit(StepByPartial(rate, edge))(x)
    return x


class Inner:
    def __init__(self, rate, edge):
        self.rate, self.edge = rate, edge

    def __call__(self, v):
        return diffuse(v, self.rate, self.edge)


def rate_behind_an_object_of_the_class(x, rates, edge):
    for rate in rates:
        x = jax.jit(type("StepByObject", (), {"__call__": Inner(rate, edge)})())(x)
    return x


def rate_behind_a_class(x, rates, edge):
    for rate in rates:

        class Stepped:
            def __new__(cls, v, rate=rate):
                return diffuse(v, rate, edge)

        x = jax.jit(Stepped)(x)
    return x


def rate_behind_a_property(x, rates, edge):
    for rate in rates:

        class Stepped:
            @property
            def __call__(self, rate=rate):
                return lambda v: diffuse(v, rate, edge)

        x = jax.jit(Stepped())(x)
    return x


def rate_behind_a_class_of_tuples(x, rates, edge):
    for rate in rates:

        class Stepped(tuple):
            __slots__ = ()
            __new__ = functools.partial(lambda cls, v, rate: diffuse(v, rate, edge), rate=rate)

        x = jax.jit(Stepped)(x)
    return x


class Decoy:
    """Says that it is a partial of another function."""

    def __init__(self, step):
        self.__dict__["step"] = step

    @property
    def __class__(self):
        return functools.partial

    func, args, keywords = plain, (), {}

    def __call__(self, v):
        return self.step(v)


def rate_behind_a_decoy(x, rates, edge):
    for rate in rates:
        x = jax.jit(Decoy(lambda v, rate=rate: diffuse(v, rate, edge)))(x)
    return x


HIDING = [
    rate_behind_a_property,
    rate_behind_a_class_of_tuples,
    rate_behind_a_partial_of_the_class,
    rate_behind_an_object_of_the_class,
    rate_behind_a_class,
    rate_behind_the_call_of_a_function,
    rate_behind_a_decoy,
    rate_in_a_thread,
    rate_behind_a_function_in_c,
    rate_behind_a_partial_method,
    rate_behind_a_descriptor,
]


@pytest.mark.parametrize("relax", HIDING)
def test_a_trace_cannot_be_hidden(relax):
    once = jax.jit(lambda v: v)  # else it is told that nothing is jitted

    def hidden(*args):
        return once(relax(*args))

    text = message(hidden, 1, lambda: relax_twice(hidden))
    assert re.search(r"hidden uses functions that were traced (8|15) times, at most 1", text), text


def test_what_is_traced_is_what_jit_was_given_and_not_what_it_says_it_wraps():
    def decoy(x, power):
        return x

    @functools.wraps(decoy)
    def real(x, power):
        return x**power

    jitted = jax.jit(real, static_argnames="power")
    text = message(jitted, 1, lambda: [jitted(1.0, power) for power in (2, 3, 4)])
    assert "was traced 3 times, at most 1 allowed" in text


def test_a_wrapper_may_call_something_else_than_what_it_wraps():
    inner = jax.jit(lambda x: x * 5)

    @functools.wraps(plain)
    def wrapper(x):
        return inner(x)

    with assert_max_traces(wrapper, 1) as log:
        wrapper(1.0)
        wrapper(2.0)
    assert log.reasons == ["<lambda>: first call"]


def test_only_what_runs_below_the_function_counts():
    def specification(x):
        return jax.jit(lambda v: v * 2)(x)

    with assert_max_traces(through_a_helper, 1) as log:
        for x in (1.0, 2.0, 3.0):
            specification(x)
            through_a_helper([x])
    assert log.reasons == ["scale: first call"]


@jax.tree_util.register_pytree_node_class
class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def tree_flatten(self):
        return (self.a, self.b), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


def test_methods_that_jax_calls_by_the_way_are_no_traces():
    held = {"add": jax.jit(lambda pair: Pair(pair.a + 1, pair.b))}

    def total(pair):
        return held["add"](pair)

    with assert_max_traces(total, 1) as log:
        total(total(Pair(1.0, 2.0)))
    assert log.reasons == ["<lambda>: first call"]


def test_a_program_compiled_ahead_needs_no_trace(capfd):
    programs = {(3,): jax.jit(plain).lower(jnp.ones(3)).compile()}

    def serve(x):
        return programs[x.shape](x)

    for n in (0, 1):
        with assert_max_traces(serve, n):
            serve(jnp.ones(3))
    assert capfd.readouterr().out.splitlines()[0] == "✓ serve: no trace in this block, none allowed"


def test_a_program_compiled_ahead_is_no_excuse_unless_it_is_called():
    ready = jax.jit(plain).lower(jnp.ones(3)).compile()

    def mentions(x):
        _ = ready
        return x + 1

    for n in (0, 1):
        text = message(mentions, n, lambda: mentions(jnp.ones(3)))
        assert text.startswith("✗ mentions is not jitted: its Python body ran once with real arrays")


def message(fn, n, block):
    with pytest.raises(CheckFailed) as caught, assert_max_traces(fn, n):
        block()
    return str(caught.value)


def test_one_trace_for_many_calls_passes_with_the_evidence(capfd):
    with assert_max_traces(scale, 1):
        for value in (1.0, 2.0, 3.0):
            scale(value)
    out, err = capfd.readouterr()
    assert out == "✓ scale: 1 trace in this block, at most 1 allowed\n"
    assert err == ""


def test_more_traces_than_allowed_fail_with_the_reason_for_each(capfd):
    def block():
        for steps in (1, 10, 100):
            power(2.0, steps)

    assert message(power, 1, block) == (
        "✗ power was traced 3 times, at most 1 allowed.\n"
        "  trace 1: first call\n"
        "  trace 2: steps: static 1 -> static 10\n"
        "  trace 3: steps: static 10 -> static 100\n"
        "  Why this usually happens: a static argument is part of the program, so each new value is traced and "
        "compiled.\n"
        "  Try: make it an ordinary argument, unless it decides a shape or a Python branch."
    )
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("block", "line", "why", "attempt"),
    [
        (
            lambda: [scale(jnp.ones(n)) for n in (2, 3)],
            "x: float32[2] -> float32[3]",
            "the shape belongs to the cache key",
            "bring the inputs to one shape",
        ),
        (
            lambda: [scale(1), scale(1.0)],
            "x: weak int32[] -> weak float32[]",
            "the dtype belongs to the cache key",
            "convert the argument to one dtype",
        ),
        (
            lambda: [scale(1.0), scale(jnp.float32(1))],
            "x: weak float32[] -> float32[]",
            "a Python number is a weakly typed array",
            "always a Python number, or always an array",
        ),
        (
            lambda: [scale(1.0, 2.0), scale(1.0, factor=2.0)],
            "factor: now passed by keyword",
            "how arguments are passed belongs to the cache key",
            "write every call in the same way",
        ),
        (
            lambda: [scale(1.0), scale.clear_cache(), scale(1.0)],
            "same arguments, same function: its cache was cleared",
            "the cache was emptied in between",
            "leave clear_cache and jax.clear_caches out of the loop",
        ),
    ],
)
def test_the_remedy_fits_the_reason(block, line, why, attempt):
    text = message(scale, 1, block)
    assert "✗ scale was traced twice, at most 1 allowed.\n" in text
    assert f"  trace 2: {line}" in text
    assert f"  Why this usually happens: {why}" in text
    assert attempt in text.splitlines()[-1]


def test_containers_have_their_own_remedy():
    @jax.jit
    def total(xs):
        return sum(xs)

    text = message(total, 1, lambda: [total([1.0, 2.0]), total((1.0, 2.0))])
    assert "containers belong to the cache key: a list is not a tuple" in text


def test_a_body_run_by_another_trace_points_to_the_caller():
    outer = jax.jit(lambda x: plain(x) + plain(x))
    text = message(plain, 1, lambda: outer(1.0))
    assert "  trace 2: same arguments: called again while <lambda> was traced" in text
    assert text.endswith("Try: follow the function that calls it: trace_log(outer) says why that one is traced.")


def test_grad_outside_jit_is_told_to_go_inside():
    text = message(plain, 1, lambda: [jax.grad(plain)(1.0), jax.grad(plain)(1.0)])
    assert "  trace 2: same function: outside jit, grad and vmap trace in every call" in text
    assert text.endswith("Try: put jax.jit around the outside: jax.jit(jax.grad(f)), made once.")


def test_many_traces_are_shortened():
    text = message(power, 1, lambda: [power(2.0, steps) for steps in range(12)])
    assert "✗ power was traced 12 times, at most 1 allowed.\n" in text
    assert (
        "  trace 5: steps: static 3 -> static 4\n  ... 6 more ...\n  trace 12: steps: static 10 -> static 11\n" in text
    )
    text = message(power, 1, lambda: [power(3.0, steps) for steps in range(20, 28)])
    assert "  trace 7: steps: static 25 -> static 26\n  trace 8: steps: static 26 -> static 27\n" in text


def test_the_lambda_trap_is_found_inside_a_plain_function():
    assert message(trap, 1, lambda: trap([1.0, 2.0])) == (
        "✗ trap uses functions that were traced twice, at most 1 allowed.\n"
        "  trace 1: <lambda>: first call\n"
        "  trace 2: <lambda>: same arguments, but a new function object\n"
        "  Why this usually happens: the cache belongs to the function object. A lambda, a partial, a bound method "
        "or a def inside the loop makes a new one each time.\n"
        "  Try: make the function and its jax.jit once, outside the loop or at the top of the notebook."
    )


def test_a_plain_function_may_use_a_jitted_one(capfd):
    scale = jax.jit(lambda x: x * 2)

    def through_a_helper(xs):
        return [scale(x) for x in xs]

    with assert_max_traces(through_a_helper, 1):
        through_a_helper([1.0, 2.0, 3.0])
    assert capfd.readouterr().out == "✓ through_a_helper: 1 trace in this block, at most 1 allowed\n"


def test_a_traced_function_counts_once_with_all_that_it_defines_inside():
    def loop(x):
        return jax.lax.fori_loop(0, 3, lambda i, y: plain(y), x)

    with assert_max_traces(loop, 1) as log:
        jax.jit(loop)(1.0)
    assert log.traces == 1


def test_the_block_starts_with_an_empty_cache_so_a_second_run_finds_the_same():
    def block():
        power(3.0, 2)
        power(3.0, 3)

    assert message(power, 1, block) == message(power, 1, block)


def test_every_layer_of_the_function_starts_with_an_empty_cache():
    inner = jax.jit(plain)
    for outer in (jax.jit(inner), jax.jit(jax.vmap(inner)), jax.jit(functools.partial(inner))):
        outer(jnp.ones(2))
        with assert_max_traces(outer, 1) as log:
            outer(jnp.ones(2))
        assert log.traces == 1

    jax.jit(plain)(2.0)
    with assert_max_traces(plain, 1) as log:
        jax.jit(plain)(2.0)
    assert log.traces == 1


def sends(xs):
    def worker():
        result = None
        while True:
            result = 2 * (yield result)

    for x in xs:
        begun = worker()
        next(begun)
        jax.jit(begun.send)(x)


def begins_in_a_trace(xs):
    begun = []

    def worker():
        result = None
        while True:
            x = yield result
            result = jax.jit(lambda y, x=x: x + y)(x)

    def first(x):
        begun.append(worker())
        next(begun[0])
        return x

    jax.jit(first)(0.0)
    for x in xs:
        begun[0].send(x)


def asks_the_next(xs):
    for x in xs:
        jax.jit(functools.partial(next, map(lambda y: 2.0 * y, [x])))()


@pytest.mark.parametrize("fn, traces", [(sends, 3), (begins_in_a_trace, 4), (asks_the_next, 3)])
def test_what_goes_on_in_a_generator_or_an_iterator_is_traced_as_well(fn, traces):
    with pytest.raises(CheckFailed, match=f"traced {traces} times"), assert_max_traces(fn, 1):
        fn([1.0, 2.0, 3.0])


def reads_a_generator(xs):
    def halves():
        for x in xs:
            yield jnp.sin(x) / 2

    return jax.jit(lambda: sum(halves()))()


def test_a_generator_that_is_read_inside_a_trace_is_a_part_of_it():
    with assert_max_traces(reads_a_generator, 1):
        reads_a_generator([1.0, 2.0, 3.0])


def test_none_allowed_keeps_the_cache(capfd):
    scale(5.0)
    with assert_max_traces(scale, 0):
        scale(6.0)
    assert capfd.readouterr().out == "✓ scale: no trace in this block, none allowed\n"

    text = message(scale, 0, lambda: scale(jnp.ones(77)))
    assert "✗ scale was traced once, none allowed.\n  trace 1: first call\n" in text
    assert text.endswith("Try: call the function once before the block, with such arguments.")


def test_a_function_without_jit_is_told_so():
    assert message(plain, 1, lambda: [plain(1.0), plain(2.0), plain(3.0)]) == (
        "✗ plain is not jitted: its Python body ran 3 times with real arrays, expected a trace.\n"
        "  Why this usually happens: the @jax.jit line is missing, or the jitted function got another name.\n"
        "  Try: put @jax.jit on the line above def plain."
    )
    assert message(plain, 0, lambda: plain(1.0)).startswith("✗ plain is not jitted: its Python body ran once")


def factory():
    def step(x):
        return x + 1

    return step


@pytest.mark.parametrize("fn", [lambda x: x + 1, factory()])
def test_no_line_is_asked_for_above_a_def_that_is_made_inside(fn):
    text = message(fn, 1, lambda: fn(1.0))
    assert text.startswith(f"✗ {fn.__name__} is not jitted: its Python body ran once with real arrays")
    assert "above def" not in text
    assert text.endswith("Try: give it to jax.jit where it is made, and keep and call what jax.jit returns.")


def test_jit_switched_off_is_not_blamed_on_the_student():
    with jax.disable_jit():
        text = message(scale, 1, lambda: scale(1.0))
    assert "Why this usually happens: jax_disable_jit is on, which turns jit off." in text


def test_a_function_that_is_not_called_is_told_so():
    assert message(scale, 1, lambda: plain(1.0)) == (
        "✗ scale was not called: expected calls inside the block.\n"
        "  Why this usually happens: another function was called in its place, or the loop around the call ran "
        "zero times.\n"
        "  Try: call scale itself in the block."
    )


def test_something_that_cannot_be_traced_is_refused():
    text = message(scale.lower(1.0).compile(), 1, lambda: None)
    assert text.startswith("✗ Compiled is no Python function: expected one that can be traced.\n")


def test_an_exception_of_the_student_passes_through(capfd):
    @jax.jit
    def stub(x):
        raise NotImplementedError("yours to write")

    error = KeyError("the student's own")
    with pytest.raises(NotImplementedError, match="^yours to write"), assert_max_traces(stub, 1):
        stub(1.0)
    with pytest.raises(KeyError) as caught, assert_max_traces(scale, 1):
        raise error
    assert caught.value is error
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("n", [-1, True, 1.0, "1"])
def test_the_limit_is_a_whole_number(n):
    with pytest.raises(ValueError, match="n must be a whole number from 0 up"):
        assert_max_traces(scale, n)
