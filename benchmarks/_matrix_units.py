"""Matrix products as an accelerator's matrix units make them, on a CPU: the operands lose digits first.

Where nobody asks for a precision, a GPU multiplies float32 matrices as TF32 (10 bits of mantissa for float32's 23) and
a TPU as bfloat16 (7 bits); sums are kept in float32. Here every float32 product is lowered with its operands rounded
so. What asks for `precision="highest"`, or runs under `jax.default_matmul_precision("highest")`, keeps its digits.
"""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

MANTISSA = {"tf32": 10, "bfloat16": 7}
STARTUP = """
import sys
sys.path.insert(0, {folder!r})
import _matrix_units
sys.path.remove({folder!r})
_matrix_units.install({bits})
"""


def install(bits: int) -> None:
    """Round the operands of every later float32 product in this process to `bits` bits of mantissa, on the CPU."""
    import jax
    from jax._src.interpreters import mlir  # the rules that are registered are not public
    from jax.interpreters.mlir import register_lowering
    from jaxlib.mlir.dialects import stablehlo

    highest = jax.lax.Precision.HIGHEST

    def rounding(rule):
        def lower(ctx, left, right, *, precision, **params):
            singles = all(aval.dtype == "float32" for aval in ctx.avals_in)
            if singles and (precision is None or highest not in _pair(precision)):
                rounded = (stablehlo.reduce_precision(x, exponent_bits=8, mantissa_bits=bits) for x in (left, right))
                left, right = rounded
            return rule(ctx, left, right, precision=precision, **params)

        return lower

    for primitive in (jax.lax.dot_general_p, jax.lax.conv_general_dilated_p):
        entry = mlir._platform_specific_lowerings["cpu"].get(primitive) or mlir._lowerings[primitive]
        register_lowering(primitive, rounding(getattr(entry, "rule", entry)), platform="cpu")


def _pair(precision) -> tuple:
    return precision if isinstance(precision, tuple) else (precision,)


@contextmanager
def environment(kind: str):
    """The variables under which every Python process has such matrix units: "tf32" or "bfloat16"."""
    with tempfile.TemporaryDirectory() as folder:
        code = STARTUP.format(folder=str(Path(__file__).parent), bits=MANTISSA[kind])
        Path(folder, "sitecustomize.py").write_text(code)
        paths = [folder, os.environ.get("PYTHONPATH", "")]
        yield {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
