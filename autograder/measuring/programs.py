"""Where JAX looks for programs that it has compiled before. When submissions are graded that is a folder with what the
unit's solution compiled: in the kernel, and in the measuring process. Of first calls, which are timed with what JAX
compiles in them, nobody looks anywhere.
"""

from typing import NamedTuple


class Programs(NamedTuple):
    """A folder of compiled programs."""

    folder: str
    keeps: bool  # whether what is not found there is kept there, too


def look_for(programs: Programs) -> None:
    """Let JAX look there, from the next program on; to be called before the first is compiled."""
    import jax

    jax.config.update("jax_compilation_cache_dir", programs.folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0 if programs.keeps else float("inf"))
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # Else the folder's name would be a part of a program's key, and in a reduced box who keeps them has another one.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
