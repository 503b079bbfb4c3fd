"""assert_primitives: what it lets through, and what it says otherwise."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from autograder import assert_primitives
from autograder.failure import CheckFailed

X = jnp.linspace(0.1, 0.9, 5)


def python_logistic_map(x, steps):
    for _ in range(steps):
        x = 3.7 * x * (1 - x)
    return x


@jax.jit
def logistic_map(x, steps):
    return lax.fori_loop(0, steps, lambda i, x: 3.7 * x * (1 - x), x)


unrolled = jax.jit(python_logistic_map, static_argnums=1)
static_logistic_map = jax.jit(logistic_map.__wrapped__, static_argnums=1)


def failure(fn, *args, **kwargs):
    with pytest.raises(CheckFailed) as caught:
        assert_primitives(fn, *args, **kwargs)
    return caught.value


def line(fn, offset):
    return f"test_check_jaxpr.py line {fn.__code__.co_firstlineno + offset}, in {fn.__qualname__}"


def test_passes_with_one_line_of_evidence(capfd):
    assert_primitives(logistic_map, X, 10, includes={"while"}, excludes={"sort"}, counts={"mul": 2}, max_equations=6)
    assert_primitives(static_logistic_map, X, 10, includes="scan", max_flops=200, max_intermediate=5)
    assert capfd.readouterr() == (
        "✓ logistic_map: 6 equations; while is there; no sort; mul 2\n"
        "✓ logistic_map: 5 equations; scan is there; 160 of 200 FLOPs; largest intermediate float32[5]\n",
        "",
    )


def test_either_of_two_loops():
    assert_primitives(logistic_map, X, 10, includes={"scan|while"})
    assert_primitives(static_logistic_map, X, 10, includes={"scan|while"})
    assert "expected a scan or while" in str(failure(unrolled, X, 10, includes={"scan|while"}))


def test_an_unrolled_loop():
    error = failure(unrolled, X, 200, includes={"scan"})
    assert error.happened == "`python_logistic_map` has no loop in 600 equations: expected a scan"
    assert error.evidence == "its primitives: mul 400, sub 200"
    assert "a copy of its body for every round" in error.why
    assert "`jax.lax.fori_loop`" in error.attempt


def test_no_loop_at_all():
    error = failure(lambda x: x + 1, X, includes={"while"})
    assert error.happened == "`<lambda>` has no loop in 1 equation: expected a while"


def test_the_other_loop():
    error = failure(static_logistic_map, X, 10, includes={"while"})
    assert error.happened == "`logistic_map` has a scan: expected a while"
    assert "bounds are known while JAX traces" in error.why
    assert "ordinary argument" in error.attempt


def test_a_missing_primitive():
    error = failure(lambda x: (x * x).sum(), X, includes={"dot_general"})
    assert error.happened == "`<lambda>` has no dot_general: expected at least one"
    assert error.evidence == "its primitives: mul 1, reduce_sum 1"
    assert "show_jaxpr" in error.attempt


def test_an_unwanted_loop_inside_another_function():
    def batched(x):
        return jax.jit(lambda x: lax.map(jnp.sin, x))(x)

    error = failure(batched, X, excludes={"scan", "while"})
    assert error.happened == "`batched` uses scan (1 equation), which this task leaves out"
    assert error.evidence.startswith("scan: float32[5] -> float32[5]   test_check_jaxpr.py line ")
    assert "`jax.vmap`" in error.attempt


@pytest.mark.parametrize("excluded", ["pure_callback", "io_callback|scan"])
@pytest.mark.parametrize("callback", [jax.pure_callback, jax.experimental.io_callback])
def test_an_unwanted_callback(callback, excluded):
    error = failure(lambda x: callback(np.sin, x, x), X, excludes={excluded})
    assert f"uses {callback.__name__}" in error.happened
    assert "Python on the host" in error.why


def test_an_unwanted_callback_without_results():
    def watched(x):
        jax.debug.callback(print, x)
        return x + 1

    assert "uses debug_callback" in failure(watched, X, excludes={"pure_callback"}).happened


def test_a_look_at_values_is_a_callback_too():
    def shown(x):
        jax.debug.print("{x}", x=x)
        return x + 1

    error = failure(shown, X, excludes={"pure_callback"})
    assert "uses debug_print" in error.happened and "Python on the host" in error.why


def test_an_unwanted_primitive_and_where_it_is():
    def fn(x):
        return jnp.sort(x) + jnp.sort(-x)

    error = failure(fn, X, excludes={"sort"})
    assert error.happened == "`fn` uses sort (2 equations), which this task leaves out"
    assert "sort: float32[5] -> float32[5]" in error.evidence
    assert "find what brings in sort" in error.attempt


def test_of_many_different_equations_four_are_shown():
    def sums(x):
        return [x[:n].sum() for n in range(1, 6)]

    lines = failure(sums, X, excludes={"reduce_sum"}).evidence.splitlines()
    assert [line.split()[1] for line in lines[:-1]] == [f"float32[{n}]" for n in range(1, 5)]
    assert lines[-1] == "..."


def test_too_many_of_a_primitive():
    def attention(q, k):
        return jnp.exp(q @ k.T) / jnp.exp(q @ k.T).sum()

    a = jnp.ones((3, 4))
    error = failure(attention, a, a, counts={"dot_general": 1})
    assert error.happened == "`attention` has dot_general 2 times: expected 1"
    expected = f"dot_general: float32[3,4], float32[4,3] -> float32[3,3]   {line(attention, 1)} (2 times)"
    assert error.evidence == expected
    assert "reuse the result" in error.attempt


def test_too_few_of_a_primitive():
    error = failure(lambda x: x * 2, X, counts={"exp": 1})
    assert error.happened == "`<lambda>` has exp 0 times: expected 1"
    assert error.evidence == "its primitives: mul 1"


def test_a_count_of_none():
    assert_primitives(lambda x: x * 2, X, counts={"exp": 0})


def test_too_many_equations():
    error = failure(unrolled, X, 10, max_equations=15)
    assert error.happened == "`python_logistic_map` has 30 equations: expected at most 15"
    assert error.evidence == "its primitives: mul 20, sub 10"
    assert error.why.startswith("every operation on arrays adds an equation")
    assert "runs while JAX traces" not in str(error), "nobody saw the number grow"
    assert_primitives(unrolled, X, 10, max_equations=30)


def test_equations_that_grow_with_the_size_were_unrolled():
    error = failure(unrolled, X, 200, smaller=(X, 20), includes={"scan"})
    assert str(error) == (
        "✗ `python_logistic_map` is unrolled: 600 equations, and 60 for smaller arguments; "
        "the number must not grow with the size\n"
        "  mul: 40 -> 400\n"
        "  sub: 20 -> 200\n"
        "  Why this usually happens: a Python loop runs while JAX traces, and every round adds its equations. Compile "
        "time grows with them.\n"
        "  Try: roll the loop with `jax.lax.fori_loop` or `jax.lax.scan`, or do it in one operation on whole arrays."
    )
    assert "63 equations, and 60 for smaller" in failure(unrolled, X, 21, smaller=(X, 20)).happened


def by_rows(a):
    return jnp.stack([row.sum() for row in a])


def test_equations_that_nobody_uses_make_no_program_longer():
    def padded(x, rounds):
        for _ in range(3 * (40 - rounds)):
            x * 2.0
        for _ in range(rounds):
            x = jnp.sin(x) + 1.0
        return x

    error = failure(jax.jit(padded, static_argnums=1), X, 30, smaller=(X, 10))
    assert error.happened == (
        "`padded` is unrolled: 60 equations lead to its result, and 20 for smaller arguments; "
        "the number must not grow with the size"
    )
    assert "in all it has 90 equations, and 110 for smaller arguments" in error.evidence


def test_what_does_not_grow_may_have_as_many_equations_as_it_likes(capfd):
    assert_primitives(static_logistic_map, X, 200, smaller=(X, 2), includes={"scan"})
    assert_primitives(lambda x: python_logistic_map(x, 100), jnp.ones(50), smaller=[X])
    assert capfd.readouterr().out == (
        "✓ logistic_map: 5 equations, no more than for smaller arguments; scan is there\n"
        "✓ <lambda>: 300 equations, no more than for smaller arguments\n"
    )
    assert "is unrolled" in failure(by_rows, jnp.ones((4, 3)), smaller=[jnp.ones((3, 3))]).happened


def test_a_task_may_say_itself_what_to_try():
    error = failure(unrolled, X, 9, excludes={"mul"}, hint="write it with additions.")
    assert str(error).endswith("\n  Try: write it with additions.")


def test_too_many_flops_name_the_most_expensive_equations():
    def slow(a, b, v):
        return (a @ b) @ v

    a, v = jnp.ones((64, 64)), jnp.ones(64)
    error = failure(slow, a, a, v, max_flops=4 * 64 * 64)
    assert error.happened == "`slow` needs 532,480 FLOPs: expected at most 16,384"
    first, second = error.evidence.splitlines()[1:]
    assert re.fullmatch(rf" +524,288  dot_general: .* -> float32\[64,64\]   {re.escape(line(slow, 1))}", first)
    assert second.strip().startswith("8,192  dot_general")
    assert_primitives(lambda a, b, v: a @ (b @ v), a, a, v, max_flops=4 * 64 * 64)


def test_flops_in_a_loop_count_as_often_as_it_runs():
    error = failure(static_logistic_map, X, 100, max_flops=1000)
    assert error.happened == "`logistic_map` needs 1,600 FLOPs: expected at most 1,000"
    assert "500  mul" in error.evidence


def test_flops_that_cannot_be_counted_do_not_pass():
    error = failure(logistic_map, X, 10, max_flops=1000)
    assert error.happened == "the FLOPs of `logistic_map` cannot be counted: expected at most 1,000"
    assert error.evidence.startswith("while: ")
    assert "fixed number of rounds" in error.attempt
    assert "at least" in failure(logistic_map, X, 10, max_flops=10).happened


def test_flops_of_the_run_count_what_these_values_decide(capfd):
    def each(x):
        return lax.map(lambda x: lax.cond(x > 0.8, lambda x: logistic_map(x, 100), lambda x: x, x), x)

    error = failure(each, X, max_run_flops=500)
    assert error.happened == "`each` needs 511 FLOPs in this run: expected at most 500"
    assert_primitives(each, X, max_run_flops=511)
    assert capfd.readouterr().out.endswith("; 511 of 511 FLOPs in this run\n")
    assert_primitives(logistic_map, X, 10, max_run_flops=1000)


def test_an_intermediate_that_is_too_large():
    def distances(x):
        return ((x[:, None] - x) ** 2).sum(1)

    error = failure(distances, X, max_intermediate=5)
    assert error.happened == "`distances` makes an intermediate float32[5,5], 25 elements: expected at most 5"
    assert "sub: float32[5,1], float32[1,5] -> float32[5,5]" in error.evidence
    assert "running result" in error.attempt


@pytest.mark.parametrize("kwargs", [{"excludes": {"jit"}}, {"includes": {"pjit"}}, {"counts": {"jit": 1}}])
def test_a_wrapper_is_never_counted_so_asking_is_a_mistake(kwargs):
    with pytest.raises(ValueError, match="only wraps other equations"):
        assert_primitives(lambda x: x, X, **kwargs)


def test_the_error_of_a_stub_and_of_a_python_branch_pass_through():
    def stub(x):
        raise NotImplementedError("write me")

    with pytest.raises(NotImplementedError, match="write me"):
        assert_primitives(stub, X)
    with pytest.raises(jax.errors.TracerBoolConversionError):
        assert_primitives(lambda x: x if x > 0 else -x, 1.0)


def test_a_later_count_of_traces_sees_nothing():
    runs = []

    @jax.jit
    def fn(x):
        runs.append(x)
        return x + 1

    assert_primitives(fn, X, includes={"add"})
    runs.clear()
    fn(X)
    fn(X)
    assert len(runs) == 1


def test_a_program_that_nobody_can_look_into_fails_unless_it_is_asked_for(capfd):
    sealed = jax.export.export(jax.jit(jnp.sort))(X)

    def hides_a_sort(x):
        return sealed.call(x) + 1

    with pytest.raises(CheckFailed, match="`hides_a_sort` calls a finished program .call_exported., in which no"):
        assert_primitives(hides_a_sort, X, excludes=["while"])
    assert_primitives(hides_a_sort, X, counts={"call_exported": 1})
    assert "call_exported 1" in capfd.readouterr().out
