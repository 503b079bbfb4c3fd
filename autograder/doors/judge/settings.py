"""JAX's settings that are in force around a check's call, and what is printed in it."""

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import jax

MOST_PRINTED = 20_000  # characters of what an answer prints in one call


def here() -> dict[str, Any]:
    """The settings of this kernel, by their names."""
    return {name: getattr(jax.config, name) for name in _CONTEXTS}


class Printed(io.StringIO):
    """No more than is shown."""

    def write(self, text: str) -> int:
        room = MOST_PRINTED - self.tell()
        if room > 0:
            super().write(text[:room])
        return len(text)


@contextlib.contextmanager
def as_there(theirs: Any, printed: io.StringIO) -> Iterator[None]:
    """In the box: JAX's settings are those around the call in the judge, and what is printed is shown there."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(printed))
        for name, value in (theirs or {}).items():
            if name in _CONTEXTS and getattr(jax.config, name) != value:
                stack.enter_context(_CONTEXTS[name](value))
        yield
        jax.effects_barrier()  # what was printed from within a program


@contextlib.contextmanager
def _updated(name: str, value: Any) -> Iterator[None]:
    """For a setting that has no context of its own."""
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        yield
    finally:
        jax.config.update(name, before)


_CONTEXTS: dict[str, Callable[[Any], Any]] = {
    "jax_enable_x64": jax.enable_x64,
    "jax_no_tracing": jax.no_tracing,
    "jax_disable_jit": jax.disable_jit,
    "jax_debug_nans": jax.debug_nans,
    "jax_debug_infs": jax.debug_infs,
    "jax_numpy_dtype_promotion": jax.numpy_dtype_promotion,
    "jax_numpy_rank_promotion": jax.numpy_rank_promotion,
    "jax_default_matmul_precision": jax.default_matmul_precision,
    "jax_traceback_filtering": lambda value: _updated("jax_traceback_filtering", value),
}
