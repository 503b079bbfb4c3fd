"""How many digits this device's matrix products keep where nobody asks for a precision."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

SIDE = 128  # large enough for a device to use its matrix units
MANTISSA = 23  # bits of float32


@functools.cache
def product_roundoff(precision: str | None) -> float:
    """The unit roundoff of the operands of a float32 product under this `jax_default_matmul_precision`, found by one.

    2**-23 where they keep all digits, as on a CPU; a GPU may round them to TF32 (2**-10), a TPU to bfloat16 (2**-7).
    Row k of the product is 1 + 2**-k, if that many bits are kept.
    """
    bits = np.arange(1, MANTISSA + 1)
    near_one = np.zeros((SIDE, SIDE), np.float32)
    near_one[bits, bits] = 1 + np.float32(2.0) ** -bits
    with jax.default_matmul_precision(precision):
        product = jax.jit(jnp.matmul)(near_one, np.ones((SIDE, SIDE), np.float32))
    rows = np.asarray(product)[bits, 0]
    kept = rows == near_one[bits, bits]
    return 2.0 ** -float(MANTISSA if kept.all() else np.argmin(kept))
