"""In a process that runs answers: what libraries do with texts and with memory, closed.

The kernel of a notebook that is graded calls `close` before a student's first line is run, and its measuring processes
do, before they have the first function of an answer (see `measuring.fork_server.FIRST`).
"""

import ast
import collections
import dataclasses
import enum
import functools
import inspect
import string
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .asking import OwnObjects, asks
from .builtin_types import replace_method
from .made_classes import close_classes
from .memory import close_libraries
from .own_objects import begin, begin_cell, is_own, value_of_setting
from .plain_texts import asked, assert_plain, assert_plain_field, plain_fields

_TP_NEW = 65  # of CPython's stable ABI, typeslots.h
_SLOTS = 48  # the words of a type that are looked through for it; each type has some more


def close(*, numpy: bool = True) -> None:
    """Close what can be closed without JAX, and NumPy if that is there or to come."""
    if numpy:
        _close_names_in_texts()
        _close_tests_of_numpy()
        _close_memory_of_objects()
    _close_tables_of_members()
    _close_homes_of_classes()
    _close_texts_of_types()
    _close_texts_that_ask()
    close_classes()
    close_libraries()


def to_be_alone(source: str, numpy: bool) -> tuple[ast.Module, str]:
    """A student's cell as it is run in a process of its own (see `checks.run_alone`), and what is called there first.

    That is "module:function", or empty where the cell asks no value, and where there is no `numpy`.
    """
    tree = OwnObjects(in_the_kernel=False).visit(ast.parse(source))
    return tree, f"{__name__}:{close_alone.__name__}" if asks(tree) or numpy else ""


def close_alone(file: str, numpy: bool) -> None:
    """Close what can be closed, in the process in which a cell of this file is run again."""
    begin()
    begin_cell(file)
    close(numpy=numpy)


def _in_place_of(theirs: Callable) -> Callable[[Callable], Callable]:
    """As `functools.wraps`; but nobody is led back by `__wrapped__`, which an answer may ask for."""

    def named(ours: Callable) -> Callable:
        functools.update_wrapper(ours, theirs)
        del vars(ours)["__wrapped__"]
        return ours

    return named


def close_with_jax() -> None:
    """Close all of it, in a process that has imported JAX."""
    close()
    close_jax(sys.modules["jax"])


def close_jax(jax: types.ModuleType) -> None:
    """Close what JAX does, once it has been imported."""
    _close_fields_of_classes(jax)
    _close_list_of_arrays(jax)
    _close_listeners_of_jax(jax)
    _close_folder_of_programs()


def _close_fields_of_classes(jax: types.ModuleType) -> None:
    """JAX asks the objects of a registered dataclass for its fields, whatever they are called."""
    registers = jax.tree_util.register_dataclass

    @_in_place_of(registers)
    def register_dataclass(nodetype, *args, **kwargs):
        frame = sys._getframe(1)
        if frame.f_code.co_name != "<module>" or frame.f_globals.get("__name__") == "__main__":  # no library's import
            args = tuple(map(plain_fields, args))
            kwargs = {name: plain_fields(value) for name, value in kwargs.items()}
        return registers(nodetype, *args, **kwargs)

    jax.tree_util.register_dataclass = register_dataclass


def _close_texts_of_types() -> None:
    """Flax asks for the types of a class's fields; a text among them would be run."""
    theirs = typing.get_type_hints

    def get_type_hints(obj, globalns=None, localns=None, include_extras=False):
        found: dict[str, typing.Any] = {}
        for kind in reversed(getattr(obj, "__mro__", [obj])):
            found |= vars(kind).get("__annotations__", {})
        strip = (lambda hint: hint) if include_extras else vars(typing)["_strip_annotations"]
        return {name: strip(hint) for name, hint in found.items() if not isinstance(hint, str)}

    for module in list(sys.modules.values()):
        if isinstance(module, types.ModuleType) and vars(module).get("get_type_hints") is theirs:
            vars(module)["get_type_hints"] = get_type_hints


def _close_texts_that_ask() -> None:
    """A text that is formatted may ask for attributes, whoever formats it: `jax.debug.print`, Matplotlib's axes, a
    UserString that gives another text each time. So `str` itself looks at the text, and so does `string.Formatter`.
    """

    def looks(formats):
        def format(self, /, *args, **kwargs):
            assert_plain(str.__str__(self))
            return formats(self, *args, **kwargs)

        return format

    for name in ("format", "format_map"):
        replace_method(str, name, looks)
    get_field = string.Formatter.get_field

    def looked_at(self, field_name, args, kwargs):
        assert_plain_field(field_name)
        return get_field(self, field_name, args, kwargs)

    string.Formatter.get_field = looked_at  # type: ignore[method-assign]


class LiveArray(NamedTuple):
    """What an answer is told of an array that somebody holds. The array itself may be what a check expects."""

    shape: tuple[int, ...]
    dtype: Any
    size: int
    nbytes: int


def _close_list_of_arrays(jax: types.ModuleType) -> None:
    """`jax.live_arrays()` has the arrays of checks, too: the course gets them, and an answer how large they are."""
    lists = jax.live_arrays

    @_in_place_of(lists)
    def live_arrays(platform=None):
        found, frame = lists(platform), sys._getframe(1)
        if frame.f_globals.get("__name__") == "__main__" and not is_own(frame.f_code):
            return found
        return [LiveArray(array.shape, array.dtype, array.size, array.nbytes) for array in found]

    jax.live_arrays = live_arrays  # type: ignore[attr-defined]


def _close_listeners_of_jax(jax: types.ModuleType) -> None:
    """JAX takes away the listener that equals what it is given, and an answer's object may equal a check's listener."""

    def asked(unregisters):
        @_in_place_of(unregisters)
        def of_a_function(callback):
            function = callback.__func__ if type(callback) is types.MethodType else callback
            if any("__eq__" in vars(kind) for kind in type(function).__mro__[:-1]):
                raise TypeError(f"an object of {type(function).__name__} is no listener that can be told from others")
            return unregisters(callback)

        return of_a_function

    for name in ("unregister_event_listener", "unregister_event_duration_listener"):
        setattr(jax.monitoring, name, asked(getattr(jax.monitoring, name)))


def _close_folder_of_programs() -> None:
    """JAX's own function that sets the folder of compiled programs asks for it as `jax.config.update` does."""
    from jax.experimental.compilation_cache import compilation_cache

    sets = compilation_cache.set_cache_dir

    @_in_place_of(sets)
    def set_cache_dir(path):
        sets(value_of_setting("jax_compilation_cache_dir", path))

    compilation_cache.set_cache_dir = set_cache_dir


def _close_tests_of_numpy() -> None:
    """`np.test(...)` is pytest, which runs what stands in files."""

    def test(*_, **__):
        raise RuntimeError("NumPy is not tested where a notebook is graded")

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "numpy" and type(vars(module).get("test")).__name__ == "PytestTester":
            vars(module)["test"] = test


def _close_names_in_texts() -> None:
    """`np.r_["a"]` and `np.bmat("a")` look a text up among the names of whoever calls: a check's are there, too."""
    import numpy.matrixlib

    def bmat(*_, **__):
        raise NameError("names in a text are not looked up where a notebook is graded: write np.r_[a, b]")

    numpy.matrixlib.bmat = numpy.bmat = bmat


def _close_memory_of_objects() -> None:
    """NumPy gives the memory of an array of objects as numbers, and with a number any address is an object.

    `np.ndarray(shape, dtype, buffer)` can be called by whoever has an array, `type(x)(...)`, so no array is made by its
    type any more: NumPy makes its own in other ways. (The type's `tp_new` is that of `None`, which takes no arguments.)
    """
    import ctypes

    import numpy
    import numpy._core.multiarray as made

    frombuffer = numpy.frombuffer

    def from_buffer(buffer, *args, **kwargs):
        owner = buffer.obj if type(buffer) is memoryview else buffer
        if isinstance(owner, numpy.ndarray) and owner.dtype.hasobject:
            raise TypeError("the memory of an array of objects is not read where a notebook is graded")
        return frombuffer(buffer, *args, **kwargs)

    numpy.frombuffer = made.frombuffer = from_buffer
    # A mapping proxy hands the dict behind it to whoever it is compared with, and NumPy reads where that dict says.
    replace_method(numpy.dtype, "fields", lambda theirs: property(lambda kind: _copy_of_proxy(theirs.__get__(kind))))
    slot_of = ctypes.pythonapi.PyType_GetSlot
    slot_of.restype, slot_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    theirs, none = slot_of(numpy.ndarray, _TP_NEW), slot_of(type(None), _TP_NEW)
    slots = (ctypes.c_void_p * _SLOTS).from_address(id(numpy.ndarray))
    slots[list(slots).index(theirs)] = none


def _copy_of_proxy(found: Any) -> Any:
    return found and types.MappingProxyType(dict(found))


def _close_tables_of_members() -> None:
    """`Enum("E", [(name, value)])` gives a class any attribute, one of Python's own among them."""
    made, create = enum.EnumType.__call__, vars(enum.EnumType)["_create_"]

    def call(cls, value, *args, **kwargs):
        if not cls.__members__:
            args = (*map(_plain_members, args[:1]), *args[1:])
            kwargs |= {"names": _plain_members(kwargs["names"])} if "names" in kwargs else {}
        return made(cls, value, *args, **_with_module(kwargs))

    def created(cls, class_name, names, **kwargs):
        if sys._getframe(1).f_globals.get("__name__") == "__main__":
            raise TypeError("a cell makes an Enum by a class, or by a call of Enum")
        return create(cls, class_name, names, **kwargs)

    setattr(enum.EnumType, "_create_", created)  # noqa: B010 (no type checker knows of it)
    enum.EnumType.__call__ = call  # type: ignore[method-assign]


def _close_homes_of_classes() -> None:
    """A class that is said to be of a library's would be taken for one."""
    collections.namedtuple = _of_this_module(collections.namedtuple)
    if "module" in inspect.signature(dataclasses.make_dataclass).parameters:  # from Python 3.12 on
        dataclasses.make_dataclass = _of_this_module(dataclasses.make_dataclass)


def _of_this_module(makes: Callable) -> Callable:
    @_in_place_of(makes)
    def make(*args, **kwargs):
        return makes(*args, **_with_module(kwargs))

    return make


def _with_module(kwargs: dict[str, Any]) -> dict[str, Any]:
    """What a class is made with: what a notebook makes is of the notebook, and of no library, whatever it is told."""
    frame = sys._getframe(2)
    home = frame.f_globals.get("__name__", "")
    imported = home != "__main__" and frame.f_code.co_name == "<module>"  # or as `typing` hands it on
    return {"module": home, **kwargs} if imported or home == "typing" else kwargs | {"module": "__main__"}


def _plain_members(names: Any) -> Any:
    """The names of an Enum's members, with their values where these are given: as they are read here, once."""
    found: list[Any]
    if names is None or isinstance(names, str):
        found = str.replace(names or "", ",", " ").split()
    elif isinstance(names, Mapping):
        found = [(name, names[name]) for name in names]
    else:
        found = [each if isinstance(each, str) else tuple(each) for each in names]
    found = [str.__str__(each) if isinstance(each, str) else (str.__str__(each[0]), *each[1:]) for each in found]
    for each in found:
        asked(each if isinstance(each, str) else each[0], TypeError)
    return found or names
