"""Which Python and JAX the course is tested on, and one clear line for any other."""

import sys
from importlib.metadata import PackageNotFoundError, version

PYTHON = ((3, 11), (3, 13))
JAX = ((0, 10), (0, 12))


class UnsupportedVersion(ImportError):
    """This Python or this JAX is not one the course is tested on."""

    def _render_traceback_(self) -> list[str]:
        return [f"UnsupportedVersion: {self}"]  # a notebook shows the line without our frames


def unsupported(python: tuple[int, int] | None = None, jax: str | None = None) -> str | None:
    """Why the course cannot run here, in one line; None if it can. The arguments default to what is installed."""
    python = python or sys.version_info[:2]
    if jax is None:
        try:
            jax = version("jax")
        except PackageNotFoundError:
            return "The course needs JAX, which is not installed here. Try: pip install -c requirements.lock -e ."
    if not PYTHON[0] <= python <= PYTHON[1]:
        return (
            f"The course needs Python {_dotted(PYTHON[0])} to {_dotted(PYTHON[1])}, "
            f"and this is Python {_dotted(python)}. Try: make the environment again with one of those."
        )
    if not JAX[0] <= tuple(int(part) for part in jax.split(".")[:2]) <= JAX[1]:
        return (
            f"The course needs JAX {_dotted(JAX[0])} to {_dotted(JAX[1])}, and this is JAX {jax}: "
            "its lessons state what those versions do. Try: pip install -c requirements.lock -e ."
        )
    return None


def require_supported() -> None:
    """Raise `UnsupportedVersion` unless the course is tested on this Python and this JAX."""
    if line := unsupported():
        raise UnsupportedVersion(line)


def _dotted(pair) -> str:
    return ".".join(map(str, pair))
