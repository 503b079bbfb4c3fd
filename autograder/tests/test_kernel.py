"""kernel_blocks: which block of each array a Pallas kernel works on in each step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from autograder import kernel_blocks

MOVED = "JAX no longer keeps blocks in `grid_mapping` as it did: mend instruments.read_kernel"


def add(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def equation(**more):
    """The kernel that adds float32[5,8] and float32[8]."""
    out = jax.ShapeDtypeStruct((5, 8), jnp.float32)
    call = pl.pallas_call(add, out_shape=out, interpret=True, **more)
    (eqn,) = jax.make_jaxpr(call)(jnp.ones((5, 8)), jnp.ones(8)).eqns
    return eqn


def test_blocks_are_named_step_by_step():
    tile, row = pl.BlockSpec((2, 4), lambda i, j: (i, j)), pl.BlockSpec((4,), lambda i, j: (j,))
    x, y, out = kernel_blocks(equation(grid=(3, 2), in_specs=[tile, row], out_specs=tile))
    steps = [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]
    assert x.named.tolist() == out.named.tolist() == steps, MOVED
    assert y.named.tolist() == [[j] for _, j in steps], MOVED
    assert [b.array for b in (x, y, out)] == ["float32[5,8]", "float32[8]", "float32[5,8]"], MOVED
    assert [b.array_shape for b in (x, y, out)] == [(5, 8), (8,), (5, 8)], MOVED
    assert [b.shape for b in (x, y, out)] == [(2, 4), (4,), (2, 4)] and [b.nbytes for b in (x, y, out)] == [32, 16, 32]
    assert [b.is_output for b in (x, y, out)] == [False, False, True], MOVED


def test_an_axis_that_the_kernel_does_not_see_has_length_one():
    row, whole = pl.BlockSpec((None, 8), lambda i: (4 - i, 0)), pl.BlockSpec((8,), lambda i: (0,))
    x, y, out = kernel_blocks(equation(grid=5, in_specs=[row, whole], out_specs=row))
    assert (x.shape, x.nbytes) == ((1, 8), 32) and x.named[:, 0].tolist() == [4, 3, 2, 1, 0], MOVED
    assert not y.named.any() and y.named.shape == (5, 1), MOVED


def test_without_a_grid_there_is_one_step():
    blocks = kernel_blocks(equation())
    assert [np.shape(block.named)[0] for block in blocks] == [1, 1, 1], MOVED
    assert [block.shape for block in blocks] == [(5, 8), (8,), (5, 8)], MOVED


def test_another_equation_is_refused():
    (eqn,) = jax.make_jaxpr(jnp.sin)(1.0).eqns
    with pytest.raises(ValueError, match="sin, and not of pallas_call"):
        kernel_blocks(eqn)
