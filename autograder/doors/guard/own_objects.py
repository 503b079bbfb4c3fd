"""In the kernel, when a notebook is graded: an answer changes its own objects, and reads no others' insides.

The reader of a cell (see `language`) knows names and no values. What comes out of a call or in as an argument may be
anything: `put = Label.put` writes on whatever `put` is handed, a primitive of JAX's or a log that a check counts with.
So where a cell does with a value what only its owner may do, the value is asked for when it is there.
"""

import collections
import copy
import functools
import io
import os
import pathlib
import sys
import types
import typing
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from typing import IO, Any

from .memory import LIBRARIES, ask_first, close_memory
from .plain_texts import asked
from .words import (
    HANDED_ON,
    LEADS_OUT,
    MUTATORS,
    OF_FILES,
    OF_MODULES,
    PRIVATE_OF_LIBRARIES,
    READ_MODES,
    SETTINGS,
    is_private,
)

_WRAPPERS = (functools.partial, type(functools.lru_cache(len)))
_WRAPPED = 20  # wrappers around wrappers
_PATHS_OF_FILES = (pathlib.Path, pathlib.PosixPath, pathlib.WindowsPath)
_REPLACES = [vars(kind)["replace"] for kind in _PATHS_OF_FILES if "replace" in vars(kind)]
_NO_FILES = ("/proc", "/dev", "/sys")
# Objects of classes that derive from these pass for an array, or ask another object for all names.
_NO_BASES = ("types.GenericAlias", "jax.Array", "jax.jaxlib._jax.Array", "jax._src.core.Tracer")
_HAND_ON = (types.GenericAlias, vars(typing)["_BaseGenericAlias"])

DICTS = (dict, collections.Counter, collections.defaultdict, collections.OrderedDict)
_TABLES = (*DICTS, list, set, collections.deque)

# Classes that students' cells have made, with their modules and names. Only a kernel in which `begin` was called knows
# them.
_theirs: "weakref.WeakKeyDictionary[type, tuple[str, str]] | None" = None
# The settings of JAX's that a student's cell may change, and the folder that the notebook is in.
_settings: set[str] = set(SETTINGS)
_folder = ""
# The files, as Python calls the texts of cells, in which a student's functions are defined.
_own_files: set[str] = set()
# The course's tables and lists that no answer may change, by their names, and what has a name of its other things.
_of_course: dict[str, Any] = {}
_objects: list[Any] = []


def begin(settings: Collection[str] = SETTINGS) -> None:
    """From now on this kernel notes which classes are the student's. `settings`: what of JAX's may be changed."""
    global _theirs, _folder
    _theirs = weakref.WeakKeyDictionary()
    _own_files.clear()
    _settings.clear()
    _settings.update(settings)
    _folder = os.path.realpath(os.getcwd())


def begin_cell(file: str = "") -> None:
    """The cell that calls this is a student's, or that of this file."""
    _own_files.add(file or sys._getframe(1).f_code.co_filename)


def is_own(code: types.CodeType) -> bool:
    """Whether this is of a student's cell; of any cell, in a process that is not told which are."""
    return _theirs is None or code.co_filename in _own_files


def theirs(kind: Any) -> Any:
    """A class of a student's, as it is, but for this: its objects cannot say where in memory their numbers are."""
    if _theirs is not None and isinstance(kind, type):
        _assert_derives_plainly(kind)
        _theirs.setdefault(kind, (kind.__module__, kind.__qualname__))
        close_memory(kind)
        ask_first(kind)
    return kind


def _assert_derives_plainly(kind: type) -> None:
    """A base may be an argument of the function around, which the reader of a cell does not know."""
    for base in kind.__mro__[1:]:
        what = f"{base.__module__}.{base.__qualname__}"
        if issubclass(base, (type, types.ModuleType, *_HAND_ON)) or what in _NO_BASES:
            raise TypeError(f"{kind.__name__} derives from {what}; an object of it can pass for something else")


def own_class(kind: Any) -> Any:
    """What is registered with JAX, as it is. Raises TypeError if a class is not the student's own."""
    if isinstance(kind, type) and _theirs is not None and kind not in _theirs:
        raise TypeError(f"the class {kind.__name__} is registered, which is not this notebook's own")
    return kind


def note_tables(values: Mapping[str, Any]) -> None:
    """From now on these are the course's, by their names: of a table a student's cell is given a copy.

    On its other objects no such cell writes an attribute that they have.
    """
    _of_course.clear()
    _of_course.update({name: value for name, value in values.items() if type(value) in _TABLES})
    _objects[:] = [value for value in values.values() if type(value).__module__ == "__main__"]


def is_table(name: str) -> bool:
    """Whether one of the course's tables has this name."""
    return name in _of_course


def copy_of_table(value: Any, name: str) -> Any:
    """What a name stands for; if that is the course's table of this name a copy, and of the tables in it, too.

    An answer that a check calls could change the table meanwhile, and however it came by it: in a list, as an argument.
    """
    return _copied(value) if name in _of_course and value is _of_course[name] else value


def _copied(value: Any) -> Any:
    if type(value) not in _TABLES:
        return tuple(map(_copied, value)) if type(value) is tuple else value
    other = copy.copy(value)
    if isinstance(other, dict):
        other.update({key: _copied(part) for key, part in value.items()})
    elif not isinstance(other, set):
        other.clear()
        other.extend(map(_copied, value))
    return other


def environment(value: Any) -> Any:
    """The attribute `environ` of a value; of `os`, or of None, a copy: what an answer writes there takes no effect."""
    return dict(os.environ) if value is os or value is None else value.environ


def own(me: Any, kind: type) -> None:
    """Raise TypeError if `me` is no object of `kind`. A class that was made anew, as with slots, has its name.

    That is the name which it had below its decorators: `functools.wraps` gives it that of any other class.
    """
    name = (kind.__module__, kind.__qualname__)
    if _theirs is not None:
        name = _theirs.get(kind, name)
    if not any((base.__module__, base.__qualname__) == name for base in type(me).__mro__):
        raise TypeError(f"a method of {name[1]} that writes attributes was given an object of {type(me).__name__}")


def own_tuple(me: Any, name: str) -> None:
    """The same for a class of named tuples, which is known by its name."""
    if not any((base.__module__, base.__name__) == ("__main__", name) for base in type(me).__mro__):
        raise TypeError(f"a method of {name} that reads attributes was given an object of {type(me).__name__}")


def parent(found: Any) -> Any:
    """What `super()` has returned. Of a class, and not of an object, it has no methods: they would take any object."""
    return _ParentOfClass(found) if type(found) is super and isinstance(_bound_to(found), type) else found


def _bound_to(found: super) -> Any:
    """The object that a method was called of, or the class, or a class that was handed over as if it were one."""
    return vars(super)["__self__"].__get__(found)


class _ParentOfClass:
    """What a class is asked for as its parents have it: class methods and static ones, `__new__`, and plain values."""

    def __init__(self, found: super):
        self._found = found

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, "_found")
        value = getattr(found, name)
        of_an_object = isinstance(value, (types.FunctionType, types.MethodDescriptorType, types.WrapperDescriptorType))
        kinds = _bound_to(found).__mro__
        if of_an_object and not any(isinstance(vars(kind).get(name), staticmethod) for kind in kinds):
            raise TypeError(f"super().{name} is asked for where there is no object, but a class")
        return value


def mine(value: Any, name: Any = None) -> Any:
    """A value on which a student's cell writes an attribute, as it is. Raises TypeError if it is somebody else's.

    `name` is that of the attribute; None stands for any.
    """
    kind = type(value)
    if issubclass(kind, type):
        allowed = value.__module__ == "__main__" and (_theirs is None or value in _theirs)
    elif (function := _function_in(value)) is not None:
        allowed = function.__globals__.get("__name__") == "__main__"
        allowed = allowed and (_theirs is None or function.__code__.co_filename in _own_files)
    else:
        home = kind.__module__
        allowed = home == "__main__" or home.partition(".")[0] in LIBRARIES or kind is types.SimpleNamespace
        if any(value is known for known in _objects):
            allowed = type(name) is str and not hasattr(value, name)
        allowed = allowed or issubclass(kind, (*_WRAPPERS, BaseException)) or hasattr(kind, "clear_cache")
        # Whoever wants a profile sets its options so; the course makes its own anew for each.
        allowed = allowed or kind is getattr(sys.modules.get("jax.profiler"), "ProfileOptions", None)
    if not allowed:
        what = f"the class {value.__name__}" if issubclass(kind, type) else f"an object of {kind.__name__}"
        raise TypeError(f"an attribute of {what} is written, which is not this notebook's own")
    return value


def with_own_rules(value: Any, name: str) -> Any:
    """A function that is given a rule for its derivative, as it is. Raises TypeError if it is somebody else's."""
    owner = getattr(getattr(value, name, None), "__self__", value)  # of what hands on another's attributes, the other
    function = _function_in(getattr(owner, "__wrapped__", None))
    if function is not None:
        mine(function)
    return value


def _function_in(value: Any) -> types.FunctionType | None:
    """The function in Python that a value is, or that a wrapper of Python's or JAX's calls; None for others."""
    for _ in range(_WRAPPED):
        if type(value) is types.FunctionType:
            return value
        if isinstance(value, functools.partial):
            value = value.func
        elif isinstance(value, types.MethodType):
            value = value.__func__
        elif isinstance(value, _WRAPPERS) or hasattr(type(value), "clear_cache"):
            value = getattr(value, "__wrapped__", None)
        else:
            break
    return None


def to_be_named(value: Any) -> Any:
    """What `functools.update_wrapper` names after another function, as it is: an object or a function of one's own.

    Raises TypeError if it is anything else, or calls what it has in `__wrapped__`: the checks look there.
    """
    kind = type(mine(value))
    if kind.__module__ != "__main__" and (kind is type(functools.lru_cache(len)) or hasattr(kind, "clear_cache")):
        raise TypeError(f"an object of {kind.__name__} is named after another: name the function before it is wrapped")
    return value


def wraps_above(function: Any) -> Any:
    """What stands in the place of `functools.wraps` above a jitted function; anything else of that name as it is."""
    return _named_after if function is functools.wraps else function


def _named_after(value: Any) -> Any:
    """As `functools.wraps(value)`; but `__wrapped__` stays what JAX has put there."""

    def named(function: Any) -> Any:
        inside = getattr(mine(function), "__wrapped__", None)
        if type(inside) is not types.FunctionType or not hasattr(type(function), "clear_cache"):
            raise TypeError("functools.wraps stands above something else than a function, or a jitted one")
        functools.update_wrapper(function, value, assigned=("__name__", "__qualname__", "__doc__"), updated=())
        function.__wrapped__ = inside
        return function

    return named


def to_wrap(value: Any) -> Any:
    """What `functools.wraps` is handed, as it is: its attributes are copied. Raises TypeError if it is no function."""
    kind = type(value)
    own = kind.__module__ == "__main__" or (isinstance(value, type) and (_theirs is None or value in _theirs))
    plain = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, *_WRAPPERS)
    if not (own or issubclass(kind, plain) or hasattr(kind, "clear_cache") or _is_function_of_libraries(value)):
        name = f"the class {value.__name__}" if isinstance(value, type) else f"an object of {kind.__name__}"
        raise TypeError(f"{name} is handed to functools.wraps, which would copy its attributes; it is no function")
    return value


def _is_function_of_libraries(value: Any) -> bool:
    """Whether this is a ufunc of NumPy's, or a function with a rule of its own for its derivative."""
    jax, np = sys.modules.get("jax"), sys.modules.get("numpy")
    derived = jax is not None and isinstance(value, (jax.custom_jvp, jax.custom_vjp))
    return derived or (np is not None and isinstance(value, np.ufunc))


def attribute(value: Any, name: Any, *default: Any) -> Any:
    """`getattr(value, name)`, for a name that is not seen in the cell. Raises TypeError if no answer needs it."""
    _assert_readable(value, name)
    return getattr(value, name, *default)


def has_attribute(value: Any, name: Any) -> bool:
    """`hasattr(value, name)`; as `attribute`."""
    _assert_readable(value, name)
    return hasattr(value, name)


def _class_of(value: Any) -> type:
    """The class of an object; a class itself."""
    return value if issubclass(type(value), type) else type(value)


def _assert_readable(value: Any, name: Any) -> None:
    kind = _class_of(value)
    own = kind.__module__ == "__main__" or kind is types.SimpleNamespace
    allowed = type(name) is str and not name.startswith("_") and name not in LEADS_OUT
    if issubclass(kind, types.ModuleType):
        allowed = allowed and value.__name__ in HANDED_ON and name not in OF_MODULES
    elif not own:
        allowed = allowed and name not in MUTATORS
    if type(name) is str and own and is_private(name) and name not in PRIVATE_OF_LIBRARIES:
        allowed = not _is_of_a_library(value, name)
    if not allowed:
        raise TypeError(f"{kind.__name__} is asked for {str(name)[:40]!r}; write a name that is asked for as it is")


def _is_of_a_library(value: Any, name: str) -> bool:
    """Whether a private attribute of an own class, or of its object, is that of a class which it derives from."""
    kind = _class_of(value)
    if kind is not value and name in (_names_in(value) or ()):
        return False
    for base in [*kind.__mro__, *(type(kind).__mro__ if kind is value else [])]:
        if name in vars(base):
            return base.__module__ != "__main__"
    return False


def readable(value: Any, name: str) -> Any:
    """What is asked for an attribute with a leading underscore, as it is. Raises TypeError if it is somebody else's."""
    kind = _class_of(value)
    own = (kind.__module__ == "__main__" and not _is_of_a_library(value, name)) or kind is types.SimpleNamespace
    own = own or kind.__module__ == "jaxlib._jax"
    if kind is types.FunctionType:
        own = value.__globals__.get("__name__") == "__main__"
    if not (own or issubclass(kind, (*_WRAPPERS, tuple, BaseException)) or hasattr(kind, "clear_cache")):
        raise TypeError(f"an object of {kind.__name__} is asked for what belongs to its library alone")
    return value


def update_of(value: Any) -> Any:
    """`value.update`; that of JAX's settings asks for the name that it is given. Raises TypeError if it is another."""
    jax, found = sys.modules.get("jax"), value.update
    if jax is None or getattr(found, "__func__", found) is not type(jax.config).update:  # whoever handed it on
        return found

    def update(name: Any, val: Any) -> None:
        if getattr(found, "__self__", None) is not jax.config or type(name) is not str:
            raise TypeError("a setting of JAX's is changed in an unusual way")
        found(name, value_of_setting(name, val))

    return update


def value_of_setting(name: str, to: Any) -> Any:
    """What a setting of JAX's is set to, as it is. Raises TypeError if no answer may change it, or not to this.

    JAX runs a program that it finds in its folder of compiled ones: what was handed in is none of these.
    """
    if name not in _settings:
        raise TypeError(f"the setting {name[:40]!r} is changed: the checks and the baselines have it, too")
    if name == "jax_compilation_cache_dir" and to is not None and _folder:
        to = os.path.realpath(os.fspath(to))
        if os.path.commonpath([to, _folder]) == _folder:
            raise TypeError("the folder for compiled programs is the notebook's: take a temporary one")
    return to


def no_file(value: Any) -> Any:
    """What is asked for `replace`, as it is. Raises TypeError if that is the method of a file's path."""
    found = getattr(value, "replace", None)  # that of texts, of modules, or of what hands on another's
    allowed = not issubclass(_class_of(getattr(found, "__self__", found)), pathlib.PurePath)
    if not allowed or getattr(found, "__func__", found) in _REPLACES:
        raise TypeError(f"an object of {type(value).__name__} is asked for 'replace', with which files are written")
    return value


def of_own(value: Any, name: str) -> Any:
    """What is asked for `load`, `eval` and the like, as it is: an own class may have methods that are called so.

    Raises TypeError if it is anything else, for there they read files, run texts, or change what the checks use.
    """
    kind = _class_of(value)
    if issubclass(kind, types.ModuleType):  # of others the guard has seen which they are
        allowed = name in OF_FILES and value.__name__ not in HANDED_ON
    else:
        nnx = sys.modules.get("flax.nnx")
        allowed = kind is types.SimpleNamespace or _has_of_its_own(value, name)
        allowed = allowed or (name == "eval" and nnx is not None and issubclass(type(value), nnx.Module))
    if not allowed:
        raise TypeError(f"an object of {kind.__name__} is asked for {name!r}, which is not this notebook's own")
    return value


def _has_of_its_own(value: Any, name: str) -> bool:
    """Whether what an object, a class or `super()` is asked for comes of the notebook's own classes, or of the object.

    What no class has, may be asked of another one's `__getattr__`, which hands on what something else has.
    """
    kind = _class_of(value)
    if kind is super:
        kinds = list(vars(super)["__self_class__"].__get__(value).__mro__)
        kinds = kinds[kinds.index(vars(super)["__thisclass__"].__get__(value)) + 1 :]
        return _home_of(name, kinds) == "__main__"
    home = _home_of(name, [*kind.__mro__, *(type(kind).__mro__ if kind is value else ())])
    if home or kind.__module__ != "__main__":
        return home == "__main__" == kind.__module__
    own = kind is not value and name in (_names_in(value) or ())
    return own or _home_of("__getattr__", type(value).__mro__) in ("", "__main__")


def _names_in(value: Any) -> dict[str, Any] | None:
    """The attributes that an object itself has, by name, whatever its class hands on; None if it can have none."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def _home_of(name: str, kinds: Iterable[type]) -> str:
    """The module of the first of these classes that has a name; empty if none has."""
    return next((kind.__module__ for kind in kinds if name in vars(kind)), "")


def keywords(value: Any) -> Any:
    """The attribute `keywords` of a value; of a partial a copy: what is written there is called with, unseen."""
    found, kind = value.keywords, type(value)
    own = kind.__module__ == "__main__" and not issubclass(kind, functools.partial)
    return dict(found) if isinstance(found, dict) and not own else found


def of_objects(function: Any) -> Any:
    """`type` that is asked for objects alone, `vars` that is no way to Python's names, `open` that reads; all else
    as it is."""
    if function is type:
        return type_of
    if function is open:
        return _opened
    return attributes if function is vars else function


def _opened(file: Any, mode: str = "r", *, encoding: str | None = None) -> IO[Any]:
    """What a file holds, to be read: of the file itself `raw` would be a way to any other.

    Numbers stand for what the kernel has opened, and in some folders lies its memory.
    """
    path = os.fspath(file)
    if type(path) is not str or os.path.realpath(path).startswith(_NO_FILES):
        raise TypeError(f"{str(path)[:40]!r} is opened, which is no file of this notebook's")
    if mode not in READ_MODES:
        raise TypeError(f"a file is opened with {mode!r}; an answer reads files, and writes none")
    with open(path, mode, encoding=encoding) as opened:
        held = opened.read()
    return io.BytesIO(held) if isinstance(held, bytes) else io.StringIO(held)


def type_of(value: Any) -> type:
    """`type(value)`. Raises TypeError if by that class objects are made that no answer needs."""
    if type(value) is types.SimpleNamespace:
        raise TypeError("type(x) of a SimpleNamespace makes objects with any attributes, which no answer needs")
    if isinstance(value, types.ModuleType):
        raise TypeError("type(x) of a module makes modules, which no answer needs")
    if issubclass(type(value), _HAND_ON):
        raise TypeError("type(x) of a list[int] hands on the attributes of anything, which no answer needs")
    if issubclass(type(value), type):
        raise TypeError(f"type({value.__name__}) is a class of classes, which no answer needs")
    return type(value)


def attributes(value: Any) -> MutableMapping[str, Any]:
    """The attributes of an object, by name, to be read and written; none with a name of Python's.

    Raises TypeError if it is none of a student's own, but a module, a class, or one of the course's or a library's.
    """
    kind = type(value)
    own = kind is types.SimpleNamespace or not issubclass(kind, (types.ModuleType, type))
    if _theirs is not None and own and kind is not types.SimpleNamespace:
        own = any(base in _theirs for base in kind.__mro__)
    if not own:
        raise TypeError(f"the names in {getattr(value, '__name__', kind.__name__)} are not this notebook's own")
    if (names := _names_in(value)) is None:
        raise TypeError(f"an object of {kind.__name__} has no names of its own to be asked for")
    return _Attributes(names)


class _Attributes(MutableMapping[str, Any]):
    __slots__ = ("__names",)

    def __init__(self, names: dict[str, Any]):
        self.__names = names

    def __getitem__(self, name: str) -> Any:
        return self.__names[name]

    def __setitem__(self, name: str, value: Any) -> None:
        asked(name, TypeError)
        self.__names[name] = value

    def __delitem__(self, name: str) -> None:
        del self.__names[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__names)

    def __len__(self) -> int:
        return len(self.__names)

    def __repr__(self) -> str:
        return repr(self.__names)

    def copy(self) -> dict[str, Any]:
        """A dict of its own."""
        return dict(self.__names)
