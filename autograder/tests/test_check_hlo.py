"""assert_hlo: what it lets through, and what it says otherwise."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from autograder import assert_hlo
from autograder.checks import hlo as hlo_check
from autograder.failure import CheckFailed
from autograder.instruments import read_hlo

A, V = jnp.ones((64, 64)), jnp.ones(64)
X = jnp.arange(1000.0).reshape(50, 20)


def norm(x):
    x = x - x.mean(0)
    return x / x.std(0)


def slow(a, b, v):
    return (a @ b) @ v


def fast(a, b, v):
    return a @ (b @ v)


def failure(fn, *args, **kwargs):
    with pytest.raises(CheckFailed) as caught:
        assert_hlo(fn, *args, **kwargs)
    return caught.value


def test_modules(capfd):
    jitted = jax.jit(norm)
    for _ in range(2):  # a cache must not make the second check easier or harder
        assert_hlo(jitted, X, modules=1)
        error = failure(norm, X, modules=1)
        assert error.happened == "`norm` builds 4 XLA modules: expected at most 1"
        assert error.evidence == "jit(_mean), jit(subtract), jit(_std), jit(true_divide)"
        assert "on its own" in error.why
        assert error.attempt == "put `@jax.jit` on `norm` itself, not only on the functions that it calls."
    assert capfd.readouterr() == ("✓ norm: 1 XLA module built (jit(norm))\n" * 2, "")


def test_many_modules_are_not_all_listed():
    def eager(x):
        for n in range(1, 17):
            x = jnp.concatenate([x, x[:n]])
        return x

    error = failure(eager, X[0], modules=1)
    built = int(error.happened.split()[2])
    assert error.evidence.endswith(f", ... {built - 12} more") and error.evidence.count(",") == 12

    def sines(*columns):
        return [jax.lax.sin(column) for column in columns]

    columns = [X[0, : n + 1] for n in range(13)]
    assert failure(sines, *columns, modules=1).evidence == ", ".join(["jit(sin)"] * 12) + ", ... 1 more"
    assert failure(sines, *columns[1:], modules=1).evidence == ", ".join(["jit(sin)"] * 12)


def test_operations():
    assert_hlo(norm, X, includes={"fusion", "multiply", "rsqrt|sqrt"}, excludes={"sort", "while"})
    error = failure(norm, X, includes={"sort"})
    assert error.happened == "the optimised HLO of `norm` has no sort"
    assert "multiply" in error.evidence
    assert 'stage="lowered"' in error.attempt


def test_what_vanishes_is_not_found():
    error = failure(lambda x: x.T.T, X, includes={"transpose"})
    assert error.happened == "the optimised HLO of `<lambda>` has no transpose"
    assert error.evidence == "its operations: nothing"


def test_an_unwanted_operation():
    error = failure(norm, X, excludes={"subtract"})
    assert "has subtract" in error.happened and "leaves out" in error.happened
    assert "subtract: float32[50,20]   jit(norm)/" in error.evidence


def test_bytes_against_a_reference(capfd):
    assert_hlo(fast, A, A, V, reference=slow, max_bytes=0.8, max_flops=0.1)
    out, err = capfd.readouterr()
    assert out.startswith("✓ fast: ") and "FLOPs (reference 532,480)" in out and err == ""
    error = failure(slow, A, A, V, reference=fast, max_bytes=1)
    assert error.happened.startswith("`slow` accesses ")
    assert "1 of the reference's" in error.happened
    assert "written to memory once and read back" in error.why


def test_flops_against_a_reference():
    error = failure(slow, A, A, V, reference=slow, max_flops=0.1)
    assert error.happened == "`slow` needs 532,480 FLOPs: expected at most 53,248, 0.1 of the reference's 532,480"
    assert "A @ (B @ v)" in error.why


def test_a_limit_may_be_reached(capfd):
    # Its own reference has just as much: the limit is the most that is allowed.
    assert_hlo(norm, X, reference=norm, max_bytes=1, max_flops=1, max_fusions=1)
    assert capfd.readouterr().out.count("(reference ") == 3
    for figure in ("max_bytes", "max_flops", "max_fusions"):
        assert "expected at most" in failure(norm, X, reference=norm, **{figure: 0.99}).happened


def test_a_task_may_say_itself_what_to_try():
    error = failure(slow, A, A, V, reference=slow, max_flops=0.5, hint="bracket it.")
    assert str(error).endswith("\n  Try: bracket it.")


def test_fusions_against_a_reference():
    def one(x):
        return jnp.sin(x) * 2 + 1

    def barred(x):
        return lax.optimization_barrier(lax.optimization_barrier(jnp.sin(x)) * 2) + 1

    if read_hlo.hlo(barred, X).module.fusions > 1:  # XLA of JAX 0.10 removes the barriers on a CPU
        error = failure(barred, X, reference=one, max_fusions=1)
        assert error.happened == "`barred` is compiled to 3 fusions: expected at most 1, 1 of the reference's 1"
    assert_hlo(one, X, reference=barred, max_fusions=1)
    assert "is compiled to 1 fusion: expected at most 0" in failure(one, X, reference=one, max_fusions=0.5).happened


def test_flops_of_a_loop_come_from_the_jaxpr():
    def looped(x):
        return lax.fori_loop(0, 100, lambda i, x: x * 2.0, x)

    def once(x):
        return x * 2.0

    error = failure(looped, V, reference=once, max_flops=2)
    assert error.happened == "`looped` needs 6,500 FLOPs: expected at most 128, 2 of the reference's 64"
    assert_hlo(once, V, reference=looped, max_flops=0.02)


def test_flops_of_a_loop_that_does_not_say_how_long_it_is_are_not_believed():
    def looped(a, v):
        return lax.fori_loop(0, jnp.argmax(v) + 9, lambda i, v: a @ v, v)

    def once(a, v):
        return a @ (a @ v)

    error = failure(looped, A, V, reference=once, max_flops=1)
    assert error.happened == "the FLOPs of `looped` cannot be counted"
    assert "while: float32[64,64]" in error.evidence


def test_flops_of_a_library_call_come_from_the_jaxpr():
    def solved(a, v):
        return lax.linalg.triangular_solve(a, a, left_side=True, lower=True) @ v

    def once(a, v):
        return a @ (a @ v)

    assert "FLOPs: expected at most" in failure(solved, A, V, reference=once, max_flops=1).happened


def test_bytes_of_a_loop_are_not_believed():
    def looped(x):
        return lax.fori_loop(0, 100, lambda i, x: jnp.sin(x), x)

    error = failure(looped, V, reference=jnp.sin, max_bytes=100)
    assert error.happened == "the bytes of `looped` cannot be counted: it has a loop"
    with pytest.raises(ValueError, match="the reference `looped` has a loop"):
        assert_hlo(jnp.sin, V, reference=looped, max_bytes=1)


def test_no_estimate_is_no_failure(capsys):
    def fn(x):
        return jax.pure_callback(lambda x: x, x, x)

    assert_hlo(fn, V, reference=fn, max_bytes=0.5)
    assert "bytes not compared (no estimate on this backend)" in capsys.readouterr().out


def test_a_factor_needs_a_reference():
    with pytest.raises(ValueError, match="max_bytes is a factor .* pass reference="):
        assert_hlo(fast, A, A, V, max_bytes=0.5)


SHARDED = """\
HloModule jit_f

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %all-gather = f32[8]{0} all-gather(%p), dimensions={0}, metadata={op_name="jit(f)/dot_general"}
  ROOT %all-reduce = f32[8]{0} all-reduce(%all-gather), to_apply=%add
}
"""


def test_collectives(monkeypatch, capsys):
    compiled = read_hlo.Hlo("optimized", read_hlo.parse(SHARDED), SHARDED, None, None, None)
    monkeypatch.setattr(hlo_check.read_hlo, "hlo", lambda fn, *args: compiled)
    assert_hlo(fast, V, collectives=2)
    assert_hlo(fast, V, collectives={"all-reduce": 1, "all-gather": 1, "all-to-all": 0})
    assert capsys.readouterr().out == "✓ fast: collectives: all-gather 1, all-reduce 1\n" * 2
    error = failure(fast, V, collectives={"all-reduce": 1})
    assert error.happened == (
        "`fast` needs other collectives than expected: all-gather 1, all-reduce 1, expected all-reduce 1"
    )
    assert "all-gather: float32[8]   jit(f)/dot_general" in error.evidence
    assert "expected at most 1" in failure(fast, V, collectives=1).happened


def test_no_collectives_on_one_device():
    assert_hlo(fast, A, A, V, collectives=0)
    assert "nothing, expected all-reduce 1" in failure(fast, A, A, V, collectives={"all-reduce": 1}).happened


def test_the_error_of_a_stub_passes_through():
    def stub(x):
        raise NotImplementedError("write me")

    for kwargs in ({"modules": 1}, {"includes": {"add"}}):
        with pytest.raises(NotImplementedError, match="write me"):
            assert_hlo(stub, X, **kwargs)


def test_a_later_count_of_traces_sees_nothing():
    runs = []

    @jax.jit
    def fn(x):
        runs.append(x)
        return x + 1

    assert_hlo(fn, X, modules=1, includes={"add"})
    runs.clear()
    fn(X)
    fn(X)
    assert len(runs) == 1
