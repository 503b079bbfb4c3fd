"""Classes are looked at when they are made, whoever makes them.

What a `class` statement holds is read in its text. Whoever comes by `type` itself, as an annotation of a library's,
makes classes of texts that nobody has read: one that every object is an instance of, and whose `__match_args__` ask for
anything. Python tells each class's parents that it has been made, `object` last: that is where it is looked at here.
"""

import contextlib
import dis
import functools
import sys
import types
from typing import Any

from .builtin_types import replace_method
from .memory import close_memory, is_closed

# By these an object, or a class, passes for what it is not, or runs what it holds.
_PRETENDS = {
    *("__match_args__", "__instancecheck__", "__subclasscheck__", "__getattribute__", "__getattr__", "__class__"),
    *("__array_interface__", "__array_struct__", "__buffer__", "__init_subclass__", "__set_name__", "__mro_entries__"),
    *("__prepare__", "__reduce__", "__reduce_ex__", "__del__", "__fspath__"),
}
# Those that make a class otherwise, and out of what they have written themselves.
_MAKERS = {
    ("collections", "namedtuple"),
    ("dataclasses", "_add_slots"),
    ("enum", "_create_"),
    ("typing", "_make_nmtuple"),
    ("typing", "TypedDict"),
    ("jax._src.tree_util", "equality_errors_pytreedef"),  # to say how two trees differ
}
_PASSES_ON = {"__new__", "__init_subclass__", "_generic_init_subclass"}  # of a metaclass or a parent, on the way


def close_classes() -> None:
    """From now on no class is made in a notebook but by a `class` statement, and for it none that pretends."""
    replace_method(object, "__init_subclass__", _looking)
    ahead = [object]
    while ahead:
        for kind in type.__subclasses__(ahead.pop()):
            _let_look(kind)
            ahead.append(kind)


def _let_look(kind: type) -> None:
    """A parent that is told itself, and may tell nobody above, as `random.Random`, looks, too."""
    told = vars(kind).get("__init_subclass__")
    if told is not None and not isinstance(told, _Looking):
        with contextlib.suppress(TypeError):  # of one that is not in Python nothing can be changed
            setattr(kind, "__init_subclass__", _looking(told))  # noqa: B010 (a type checker wants a method)


class _Looking(classmethod):
    """A class method that looks at the class which it is told of."""


def _looking(told: Any) -> _Looking:
    def __init_subclass__(cls, /, **keywords):
        _assert_plain(cls, sys._getframe(1))  # before it is told, which may put a dataclass's own names into it
        _let_look(cls)
        told.__get__(None, cls)(**keywords)

    return _Looking(__init_subclass__)


def _assert_plain(kind: type, frame: types.FrameType | None) -> None:
    """Raises TypeError."""
    while frame is not None and frame.f_code.co_name in _PASSES_ON and _home(frame) != "__main__":
        frame = frame.f_back
    if frame is None or _is_statement(frame) or (_home(frame), frame.f_code.co_name) in _MAKERS or _imports(frame):
        return
    if issubclass(kind, type):
        raise TypeError(f"the class {kind.__name__} of classes is made where a notebook is graded")
    if _home(frame) == "__main__":
        raise TypeError(f"the class {kind.__name__} is made without a class statement, which no answer needs")
    if wrong := {name for name in _PRETENDS & vars(kind).keys() if not is_closed(vars(kind)[name])}:
        raise TypeError(f"the class {kind.__name__} is made with {min(wrong)}, which no answer needs")
    close_memory(kind)


def _home(frame: types.FrameType) -> str:
    return frame.f_globals.get("__name__", "")


def _imports(frame: types.FrameType) -> bool:
    """Whether a library is being imported here, in Python or not."""
    return _home(frame).startswith("importlib.") or (frame.f_code.co_name == "<module>" and _home(frame) != "__main__")


def _is_statement(frame: types.FrameType) -> bool:
    """Whether what is being called in this frame is a `class` statement, which stands in a text."""
    return frame.f_lasti in _class_statements(frame.f_code)


@functools.lru_cache(maxsize=1000)
def _class_statements(code: types.CodeType) -> frozenset[int]:
    """Where in a code they are called: the beginning of a class and its call have one place in the text."""
    steps = list(dis.get_instructions(code))
    begun = {step.positions for step in steps if step.opname == "LOAD_BUILD_CLASS"}
    return frozenset(step.offset for step in steps if step.positions in begun and step.opname.startswith("CALL"))
