"""Which block of each array a Pallas kernel works on in each step, read from its equation in a jaxpr."""

from typing import NamedTuple

import jax
import numpy as np
from jax.extend.core import JaxprEqn, jaxpr_as_fun

from autograder.jax_internals import type_notation


class KernelBlock(NamedTuple):
    """One input or output of a kernel, block by block."""

    array: str  # the whole array: "float32[1024,64]"
    array_shape: tuple[int, ...]
    shape: tuple[int, ...]  # of a block; an axis that the kernel does not see has length 1
    nbytes: int  # of a block, padding included
    named: np.ndarray  # int[steps, axes]: the block that its index map names in each step, counted in blocks
    is_output: bool


def kernel_blocks(kernel: JaxprEqn) -> list[KernelBlock]:
    """The inputs and outputs of a Pallas kernel, in order: which block of each one a step works on.

    kernel   a `pallas_call` equation of a jaxpr.

    Returns a `KernelBlock` for each: `array` (text such as "float32[1024,64]"), `array_shape`, `shape` (of a block),
    `nbytes` (of a block), `named` (int[steps, axes], the block that the index map names in each step, counted in
    blocks; the last axis of the grid moves fastest), `is_output`. Scratch is left out. Raises ValueError for any other
    equation.

    Source: the parameter `grid_mapping`, which JAX does not document.
    """
    if kernel.primitive.name != "pallas_call":
        raise ValueError(f"this is an equation of {kernel.primitive.name}, and not of pallas_call")
    mapping = kernel.params["grid_mapping"]
    steps = np.indices(mapping.grid, np.int32).reshape(len(mapping.grid), -1) if mapping.grid else None
    found = []
    for number, block in enumerate(mapping.block_mappings):
        shape = tuple(getattr(length, "block_size", 1) for length in block.block_shape)
        if steps is not None:
            named = np.stack(jax.vmap(jaxpr_as_fun(block.index_map_jaxpr))(*steps), 1)
        else:
            named = np.zeros((1, len(shape)), np.int32)
        array = block.array_aval
        nbytes = int(np.prod(shape, dtype=np.int64)) * array.dtype.itemsize
        is_output = number >= mapping.num_inputs
        found.append(KernelBlock(type_notation(array), array.shape, shape, nbytes, named, is_output))
    return found
