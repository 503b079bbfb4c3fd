"""Classes are looked at when they are made, whoever makes them.

What a `class` statement may hold is read in its text. Whoever comes by `type` itself, as an annotation of a library's,
makes classes of texts that nobody has read: one that every object is an instance of, and whose `__match_args__` ask for
anything. Python tells each class's parents that it has been made, `object` last: that is where it is looked at here.
"""

import contextlib
import ctypes
import dis
import functools
import gc
import sys
import types
from typing import Any

from .own_objects import is_own
from .words import CLASS_NAMES, SPECIAL_METHODS

# What Python itself puts into a class.
_OF_PYTHON = {
    *("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__orig_bases__"),
    *("__parameters__", "__classcell__", "__firstlineno__", "__static_attributes__", "__type_params__"),
    *("__annotate__", "__annotate_func__", "__annotations_cache__", "__abstractmethods__", "__classdictcell__"),
}
_PLAIN = SPECIAL_METHODS | CLASS_NAMES | _OF_PYTHON
# By these an object, or a class, passes for what it is not.
_PRETENDS = {
    *("__match_args__", "__instancecheck__", "__subclasscheck__", "__getattribute__", "__class__", "__prepare__"),
    *("__array_interface__", "__array_struct__", "__buffer__", "__init_subclass__", "__set_name__", "__mro_entries__"),
    *("__reduce__", "__reduce_ex__", "__del__", "__fspath__"),
}
# Of Python's own modules, those that make a class for somebody, out of what they have written themselves.
_MAKERS = {"collections", "dataclasses", "enum", "typing"}
_PASSES_ON = {"__new__", "__init_subclass__"}  # of a metaclass or a parent, on the way


def close_classes() -> None:
    """From now on a class that a notebook's code makes, or has made for it, holds nothing that no text may say."""
    methods = gc.get_referents(vars(object))[0]  # what `vars` only shows
    methods["__init_subclass__"] = _looking(methods["__init_subclass__"])
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(object))
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
        _let_look(cls)
        _assert_plain(cls, sys._getframe(1))  # before it is told, which may put a dataclass's own names into it
        told.__get__(None, cls)(**keywords)

    return _Looking(__init_subclass__)


def _assert_plain(kind: type, frame: types.FrameType | None) -> None:
    """Raises TypeError."""
    while frame is not None and frame.f_code.co_name in _PASSES_ON:
        if frame.f_code.co_name == "__new__" and _home(frame) in _MAKERS:  # of an Enum or a NamedTuple
            return
        frame = frame.f_back
    if frame is None:
        return
    notebook = _home(frame) == "__main__"
    if (not is_own(frame.f_code)) if notebook else (_home(frame) in _MAKERS or _has_a_class(frame.f_code)):
        return
    own = {name for name in vars(kind) if name.startswith("__") and name.endswith("__")}
    wrong = own - _PLAIN if notebook else own & _PRETENDS
    if issubclass(kind, type):
        raise TypeError(f"the class {kind.__name__} of classes is made where a notebook is graded")
    if wrong:
        raise TypeError(f"the class {kind.__name__} is made with {min(wrong)}, which no answer needs")


def _home(frame: types.FrameType) -> str:
    return frame.f_globals.get("__name__", "")


@functools.lru_cache(maxsize=1000)
def _has_a_class(code: types.CodeType) -> bool:
    """Whether a function, or a module, has a `class` statement right in it."""
    return any(step.opname == "LOAD_BUILD_CLASS" for step in dis.get_instructions(code))
