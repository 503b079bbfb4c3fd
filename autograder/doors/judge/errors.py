"""An exception as it crosses: its class by name, what it says, and the stub that raised it, if one did.

One that comes home is the one that had left. In the judge only exceptions of Python's, JAX's and the course's are made:
a class of one's own could hide the error that it is.

A check may look whether JAX has raised it or a line of the answer's. So it is raised first where it says that it arose:
below JAX's name, or below the notebook's, in a frame that does nothing else.
"""

import contextlib
import dis
import traceback
from collections.abc import Callable
from types import FunctionType
from typing import Any

from autograder.failure import CheckFailed, frames_in_cells
from autograder.not_begun import NotBegun, unwritten

from .names import error_class

_LONGEST = 4000  # characters of what it says


class AnswerStopped(RuntimeError):
    """An answer's function ended in an exception that only its own kernel knows."""


def told(
    error: BaseException, keep: Callable[[BaseException], int], notebook: dict[str, Any] | None = None
) -> dict[str, Any]:
    """What crosses; `keep` holds the exception here, and returns its number. `notebook`: the names beside the answers,
    if they are here."""
    if (number := getattr(error, "came_from_there", None)) is not None:
        return {"yours": number}
    kind = type(error)
    cut = [arg[:_LONGEST] if type(arg) is str else arg for arg in error.args]
    plain = [arg for arg in cut if type(arg) in (str, int, float, bool, type(None))]
    return {
        "module": str(kind.__module__),
        "name": kind.__qualname__,
        "text": _said(error)[:_LONGEST],
        "args": plain if len(plain) == len(error.args) else None,
        "missing": name if type(name := getattr(error, "name", None)) is str else None,
        "unwritten": unwritten(error),
        "where": _where(error),
        "arose": _arose(error, notebook),
        "kept": keep(error),
    }


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def _where(error: BaseException) -> str | None:
    """The line of an answer's cell in which it arose."""
    if not (frames := frames_in_cells(error)):
        return None
    frame = frames[-1]
    return f"in {frame.name}, line {frame.lineno} of its cell: {frame.line or ''}"[:400]


def raised_here(error: BaseException, notebook: dict[str, Any] | None) -> bool:
    """Whether a line of the notebook has raised it, and nobody from outside, as an interrupt does."""
    return "notebook" in _arose(error, notebook)


def _arose(error: BaseException, notebook: dict[str, Any] | None) -> list[str]:
    """Who raised it, from the inside to the outside: "jax" in its innermost frame, "notebook" by a `raise` there."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    found = ["jax"] if frames and str(frames[-1].f_globals.get("__name__")).partition(".")[0] == "jax" else []
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code.co_code
        if step.tb_frame.f_globals is notebook and dis.opname[code[step.tb_lasti]] == "RAISE_VARARGS":
            return [*found, "notebook"]
        step = step.tb_next
    return found


def arisen(error: BaseException, form: Any, notebook: dict[str, Any]) -> BaseException:
    """The exception with the frames in which it arose, as far as a check may look at them."""
    homes = {"jax": {"__name__": "jax"}, "notebook": notebook}
    arose = form.get("arose") if isinstance(form, dict) and error.__traceback__ is None else None
    for home in arose[:2] if isinstance(arose, list) else ():
        if type(home) is str and home in homes:
            with contextlib.suppress(Exception):  # this very one
                FunctionType(_raise.__code__, homes[home])(error)
    return error


def _raise(error: BaseException) -> None:
    __tracebackhide__ = True
    raise error


def uncrossed(form: Any) -> str:
    """What could not be handed over, if that is what was told; or nothing."""
    if not isinstance(form, dict) or form.get("name") not in ("CannotCross", "Unreadable"):
        return ""
    return text[:_LONGEST] if type(text := form.get("text")) is str else ""


def _made(kind: type[Exception], args: tuple, text: str) -> Exception:
    """An exception of this class that says this text, whatever else the class would want to know."""
    try:
        error = kind.__new__(kind)
    except TypeError:  # a group of exceptions
        return AnswerStopped(f"{kind.__name__}: {text}")
    error.args = args
    if _said(error) == text:
        return error
    says: Any = type(kind.__name__, (kind,), {"__module__": kind.__module__, "__str__": lambda self: text})
    again: Exception = says.__new__(says)
    again.args = args
    return again


def raised(form: Any, kept: dict[int, BaseException], course: dict[str, Any]) -> BaseException:
    """The exception to be raised here for one that was raised there."""
    if not isinstance(form, dict):
        return AnswerStopped("it ended in an error that cannot be read")
    if type(form.get("yours")) is int:
        return kept.get(form["yours"]) or AnswerStopped("it ended in an error that is not known here")
    module, name, text = (form.get(key) if type(form.get(key)) is str else "" for key in ("module", "name", "text"))
    assert module is not None and name is not None and text is not None
    error: BaseException
    if type(form.get("unwritten")) is str and name in ("NotImplementedError", "NotBegun"):
        error = NotBegun(form["unwritten"][:200])
    else:
        kind = course.get(name) if module == "__main__" else error_class(module, name)
        if isinstance(kind, type) and issubclass(kind, Exception):
            args = form.get("args")
            readable = type(args) is list and all(type(a) in (str, int, float, bool, type(None)) for a in args)
            error = _made(kind, tuple(args) if readable and args is not None else (text,), text)
            if isinstance(error, NameError | AttributeError | ImportError) and type(form.get("missing")) is str:
                error.name = form["missing"]
        elif (module, name) == ("autograder.failure", "CheckFailed"):
            error = CheckFailed.__new__(CheckFailed)
            error.args, error.happened, error.exhibit = (text,), text.partition("\n")[0].removeprefix("✗ "), None
        elif name in ("CheckFailed", "AssertionError"):
            error = AssertionError(text)
        else:
            error = AnswerStopped(f"{name[:100]}: {text}")
    if type(form.get("where")) is str:
        error.add_note(form["where"][:400])
    error.came_from_there = form["kept"] if type(form.get("kept")) is int else None  # type: ignore[attr-defined]
    return error
