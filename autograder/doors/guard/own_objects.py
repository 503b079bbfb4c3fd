"""In the kernel, when a notebook is graded: an answer changes its own objects, and reads no others' insides.

The reader of a cell (see `language`) knows names and no values. What comes out of a call or in as an argument may be
anything: `put = Label.put` writes on whatever `put` is handed, a primitive of JAX's or a log that a check counts with.
So where a cell does with a value what only its owner may do, the value is asked for when it is there.
"""

import ast
import collections
import contextlib
import copy
import functools
import io
import os
import pathlib
import re
import string
import sys
import types
import typing
import weakref
from collections.abc import Collection, Container, Iterator, Mapping, MutableMapping
from typing import IO, Any

from .course import bound, loop_names, parameters
from .names import name_called, own_statements
from .words import (
    ASKS,
    HANDED_ON,
    LEADS_OUT,
    MUTATORS,
    OF_FILES,
    OF_MODULES,
    PRIVATE_OF_LIBRARIES,
    READ_MODES,
    RULES,
    SETTINGS,
    UNDERSCORE,
    is_mangled,
    is_private,
)

_NAME_OF_TYPE = re.compile(r"(\.__class__)?\.__(name|qualname|doc)__$")  # at the end of what a text asks for
_OF_LIBRARIES = {"{0.__class__.__name__}({0._mapping!r})"}  # how Python shows the keys of a mapping
_WRITES = {"setattr", "delattr", "vars", "getattr"}
_BY_NAME = {"__setattr__", "__delattr__", "__dict__", "obj", *PRIVATE_OF_LIBRARIES} - UNDERSCORE
# By which function of these.
_READ_BY = {"__dict__": "attributes", "keywords": "keywords", "environ": "environment", "update": "update_of"}
_MEMORY = ("__array_interface__", "__array_struct__")
_WRAPPERS = (functools.partial, type(functools.lru_cache(len)))
_WRAPPED = 20  # wrappers around wrappers
_PATHS_OF_FILES = (pathlib.Path, pathlib.PosixPath, pathlib.WindowsPath)
_REPLACES = [vars(kind)["replace"] for kind in _PATHS_OF_FILES if "replace" in vars(kind)]
_NO_FILES = ("/proc", "/dev", "/sys")
# Objects of classes that derive from these pass for an array, or ask another object for all names.
_NO_BASES = ("types.GenericAlias", "jax.Array", "jax.jaxlib._jax.Array", "jax._src.core.Tracer")
_HAND_ON = (types.GenericAlias, vars(typing)["_BaseGenericAlias"])
_LIBRARIES = ("flax", "optax")  # whose modules and variables an answer fills

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


class OwnObjects(ast.NodeTransformer):
    """Changes a cell: it asks whose a value is before it writes on it, or reads what belongs to libraries."""

    def __init__(self, *, in_the_kernel: bool = True) -> None:
        self._in_the_kernel = in_the_kernel
        self._asking: dict[ast.AST, str] = {}  # methods -> their first argument, which they ask whose it is
        self._me: set[str] = set()  # of the methods around: names that mean an object which was asked

    def visit_Module(self, node: ast.Module) -> ast.Module:
        """A cell, of which nothing is known from those before, whatever became of them."""
        self._asking, self._me = {}, set()
        self.generic_visit(node)
        if node.body and self._in_the_kernel:
            first = next(n for n, part in enumerate([*node.body, None]) if not _stands_first(part))
            node.body.insert(first, _placed(ast.Expr(_call("begin_cell")), node.body[0]))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """A class."""
        methods = [part for part in own_statements(node.body) if isinstance(part, ast.FunctionDef)]
        self._asking |= {method: _asked_of(method) for method in methods}
        before, self._me = self._me, self._me - bound(node)
        self.generic_visit(node)
        self._me = before
        for method in methods:
            documented = ast.get_docstring(method, clean=False) is not None
            me = self._asking[method]
            for question in filter(None, (_own(me, node) if me else None, _name_asked(method))):
                method.body.insert(int(documented), _placed(ast.Expr(question), method.body[0]))
        node.decorator_list.insert(0, _placed(_helper("theirs"), node))
        if node.decorator_list[1:]:  # a decorator may keep the class as it is below it
            node.decorator_list.append(_placed(_helper("theirs"), node))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """A function, or a method."""
        me = self._asking.get(node, "")
        others = _bound_anywhere(node.body) | {arg.arg for arg in parameters(node.args)} - {me}
        before, self._me = self._me, (self._me | {me}) - others
        self.generic_visit(node)
        node.returns = _annotation(node.returns)
        self._me = before
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        """A function."""
        before, self._me = self._me, self._me - {arg.arg for arg in parameters(node.args)}
        self.generic_visit(node)
        self._me = before
        return node

    def _of_loops(self, node: Any) -> Any:
        before, self._me = self._me, self._me - loop_names(node.generators)
        self.generic_visit(node)
        self._me = before
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _of_loops

    def _import(self, node: ast.Import | ast.ImportFrom) -> Any:
        """Flax's objects, too, name no memory from where it is imported on."""
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        after: list[ast.stmt] = []
        if any(name.partition(".")[0] == "flax" for name in names):
            after.append(ast.Expr(_call("close_libraries")))
        for alias in node.names if names == ["os"] and isinstance(node, ast.ImportFrom) else ():
            if alias.name == "environ":
                target = ast.Name(alias.asname or alias.name, ast.Store())
                after.append(ast.Assign([target], _call("environment", ast.Constant(None))))
        return [node, *(_placed(statement, node) for statement in after)] if after else node

    visit_Import = visit_ImportFrom = _import

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        """`a.b = c` writes on something of one's own."""
        self.generic_visit(node)
        written = not isinstance(node.ctx, ast.Load)
        if written and not (isinstance(node.value, ast.Name) and node.value.id in self._me):
            node.value = _placed(_call("mine", node.value, ast.Constant(node.attr)), node.value)
        if node.attr in _READ_BY and not written:
            return _placed(_call(_READ_BY[node.attr], node.value), node)
        if not written:
            node.value = self._read(node.value, node.attr)
        return node

    def _read(self, value: ast.expr, name: str) -> ast.expr:
        """A value that is asked for an attribute, which asks the value first."""
        if name in OF_FILES | {"replace"}:
            return _placed(_call("no_file", value, ast.Constant(name)), value)
        if name in RULES:
            return _placed(_call("with_own_rules", value, ast.Constant(name)), value)
        mine = isinstance(value, ast.Name) and value.id in self._me
        if mine or not is_private(name) or name in UNDERSCORE:
            return value
        return _placed(_call("readable", value, ast.Constant(name)), value)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """`x: type` can be read back, and would be the type that makes classes."""
        self.generic_visit(node)
        node.annotation = _annotation(node.annotation)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        """`x: type = ...` as well."""
        self.generic_visit(node)
        node.annotation = _annotation(node.annotation)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """One of the course's tables is copied."""
        reads = isinstance(node.ctx, ast.Load) and node.id in _of_course and self._in_the_kernel
        return _placed(_call("copy_of_table", node, ast.Constant(node.id)), node) if reads else node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """`f(**names)` hands on no name that is Python's; `type` asks for the type of an object."""
        self.generic_visit(node)
        for keyword in node.keywords:
            if keyword.arg is None:
                keyword.value = _placed(_call("plain_names", keyword.value), keyword.value)
        name = node.func.id if isinstance(node.func, ast.Name) and len(node.args) > 1 else ""
        if name in ("setattr", "delattr"):
            named = node.args[1] if isinstance(node.args[1], ast.Constant) else ast.Constant(None)
            node.args[0] = _placed(_call("mine", node.args[0], named), node.args[0])
            node.args[1] = _placed(_call("plain_name", node.args[1]), node.args[1])
        said = getattr(node.args[1], "value", None) if name in ("getattr", "hasattr") else None
        if said == "update" and name == "getattr":
            return _placed(_call("update_of", node.args[0]), node)
        if isinstance(said, str) and said not in _READ_BY.keys() - {"update"}:
            node.args[0] = self._read(node.args[0], said)
        elif name in ("getattr", "hasattr"):
            node.func = _placed(_helper("attribute" if name == "getattr" else "has_attribute"), node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "__setattr__" and node.args:
            place = 0 if isinstance(node.func.value, ast.Call) else 1  # super().__setattr__(name, value)
            if place < len(node.args):
                node.args[place] = _placed(_call("plain_name", node.args[place]), node.args[place])
        if (name_called(node) or "").startswith("register_") and node.args:
            node.args[0] = _placed(_call("own_class", node.args[0]), node.args[0])
        if name_called(node) == "register_dataclass":
            node.args[1:] = [_placed(_call("plain_fields", names), names) for names in node.args[1:]]
            for keyword in node.keywords:
                if keyword.arg:
                    keyword.value = _placed(_call("plain_fields", keyword.value), keyword.value)
        if name_called(node) == "update_wrapper" and node.args:
            node.args[0] = _placed(_call("mine", node.args[0]), node.args[0])
        if name_called(node) in ("update_wrapper", "wraps") and node.args:
            node.args[-1] = _placed(_call("to_wrap", node.args[-1]), node.args[-1])
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return _placed(_call("parent", node), node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "format_map"):
            node.func.value = _placed(_call("plain_text", node.func.value), node.func.value)
        if isinstance(node.func, ast.Name) and node.func.id in ("type", "vars", "open"):
            node.func = _placed(_call("of_objects", node.func), node.func)
        if node.args and isinstance(node.args[0], ast.Name) and node.args[0].id == "type":
            node.args[0] = _placed(_call("of_objects", node.args[0]), node.args[0])
        return node


def theirs(kind: Any) -> Any:
    """A class of a student's, as it is, but for this: its objects cannot say where in memory their numbers are."""
    if _theirs is not None and isinstance(kind, type):
        _assert_derives_plainly(kind)
        _theirs.setdefault(kind, (kind.__module__, kind.__qualname__))
        close_memory(kind)
        asks = vars(kind).get("__getattr__")
        if asks is not None and not isinstance(asks, _AskedFirst):
            kind.__getattr__ = _AskedFirst(asks)  # type: ignore[attr-defined]
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


def plain_fields(names: Any) -> Any:
    """Names of fields, which JAX asks objects for. Raises TypeError if one is Python's own, or leads out."""
    if isinstance(names, (bool, type(None), str)):
        return names
    found = list(names)
    for name in found:
        plain_name(name)
    return found


_loaded = 0  # modules in which `close_libraries` has looked


def note_tables(values: Mapping[str, Any]) -> None:
    """From now on these are the course's, by their names: of a table a student's cell is given a copy.

    On its other objects no such cell writes an attribute that they have.
    """
    _of_course.clear()
    _of_course.update({name: value for name, value in values.items() if type(value) in _TABLES})
    _objects[:] = [value for value in values.values() if type(value).__module__ == "__main__"]


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


def close_libraries() -> None:
    """As `close_memory`, for what libraries give attributes of any name: `nnx.Dict`, `nnx.Variable`."""
    global _loaded
    if len(sys.modules) == _loaded or not (nnx := sys.modules.get("flax.nnx")):
        return
    _loaded = len(sys.modules)
    close_memory(nnx.Pytree)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _LIBRARIES:
            for kind in list(vars(module).values()):
                of_one = isinstance(kind, type) and kind.__module__.partition(".")[0] in _LIBRARIES
                if of_one and {"__getattr__", "__getattribute__"} & vars(kind).keys():
                    close_memory(kind)
                    asks = vars(kind).get("__getattr__")
                    if asks is not None and not isinstance(asks, _AskedFirst):
                        kind.__getattr__ = _AskedFirst(asks, _MEMORY)


def close_memory(kind: type) -> None:
    """NumPy reads memory at the address that an object names, whatever is there. Objects of this class name none."""
    for name in _MEMORY:
        if not isinstance(vars(kind).get(name), _Nothing):
            setattr(kind, name, _Nothing(name))


def is_closed(value: Any) -> bool:
    """Whether this is what stands in a class where it would name memory."""
    return isinstance(value, _Nothing)


class _Nothing:
    """An attribute that is not there, whatever the object holds under this name."""

    def __init__(self, name: str):
        self._name = name

    def __get__(self, value: Any, kind: type) -> Any:
        raise AttributeError(self._name)

    def __set__(self, value: Any, new: Any) -> None:
        raise TypeError(f"{self._name} is a name of Python's own")


class _AskedFirst:
    """A class's `__getattr__`, which is asked for none of these names; without any, for none of Python's own."""

    def __init__(self, function: Any, names: Container[str] | None = None):
        self._function, self._names = function, names

    def __get__(self, value: Any, kind: type) -> Any:
        bound = self._function.__get__(value, kind) if hasattr(type(self._function), "__get__") else self._function

        def get(name: str) -> Any:
            if self._names is None or name in self._names:
                asked(name)
            return bound(name)

        return get


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
        allowed = home == "__main__" or home.partition(".")[0] in _LIBRARIES or kind is types.SimpleNamespace
        if any(value is known for known in _objects):
            allowed = type(name) is str and not hasattr(value, name)
        allowed = allowed or issubclass(kind, (*_WRAPPERS, BaseException)) or hasattr(kind, "clear_cache")
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
    if kind is not value and name in getattr(value, "__dict__", ()):
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


def no_file(value: Any, name: str) -> Any:
    """What is asked for `load`, `open` and the like, as it is. Raises TypeError if that would read or write files."""
    kind = _class_of(value)
    if name == "replace":  # that of texts, of modules, of anything but paths, and what hands on theirs
        found = getattr(value, name, None)
        allowed = not issubclass(_class_of(getattr(found, "__self__", found)), pathlib.PurePath)
        allowed = allowed and getattr(found, "__func__", found) not in _REPLACES
    elif issubclass(kind, types.ModuleType):  # of others the guard has seen which they are
        allowed = value.__name__ not in HANDED_ON
    else:
        allowed = (kind.__module__ == "__main__" and not _is_of_a_library(value, name)) or kind is types.SimpleNamespace
    if not allowed:
        raise TypeError(f"an object of {kind.__name__} is asked for {name!r}, with which files are read or written")
    return value


def plain_name(name: Any) -> Any:
    """The name of an attribute that is written, as it is. Raises TypeError if it is Python's, or leads out."""
    asked(name, TypeError)
    if type(name) is not str or name in LEADS_OUT:
        raise TypeError(f"an attribute {str(name)[:40]!r} is written, which no answer needs")
    return name


def plain_text(value: Any) -> Any:
    """What is asked to `format`, as it is. Raises TypeError if it is a text that asks for what no answer needs."""
    if issubclass(type(value), type) and issubclass(value, str):
        raise TypeError("str.format is called with a text that is not seen here: write an f-string")
    text = value.data if isinstance(value, collections.UserString) else value
    if isinstance(text, str):
        assert_plain(str.__str__(text))
    return value


@functools.lru_cache(maxsize=1000)
def assert_plain(text: str) -> None:
    """Raises TypeError if a text, when it is formatted, asks for an attribute that no answer needs."""
    if text in _OF_LIBRARIES:
        return
    with contextlib.suppress(ValueError):  # from where it is no format string on: what stands before that is formatted
        for _, field, shown, _ in string.Formatter().parse(text):
            assert_plain_field(field or "")
            assert_plain(shown or "")


def assert_plain_field(field: str) -> None:
    """The same of what stands in braces: `x.shape[0]`."""
    asked_for = re.sub(r"\[[^\]]*\]?", "", _NAME_OF_TYPE.sub("", field))
    for name in asked_for.split(".")[1:]:
        if name.startswith("_") or name in LEADS_OUT:
            raise TypeError(f"a text to be formatted asks for {name[:40]!r}, which no answer needs")


def plain_names(names: Mapping[str, Any]) -> dict[str, Any]:
    """What stands behind `**`. Raises TypeError if one of its names is Python's own, or one that no answer says."""
    found = dict(names)
    for name in found:
        asked(name, TypeError)
        if type(name) is not str:
            raise TypeError(f"{str(name)[:40]!r} is handed on as a name, and is none")
        if name in ASKS:
            raise TypeError(f"{name!r} is handed on, which no answer needs: {ASKS[name]}")
    return found


def keywords(value: Any) -> Any:
    """The attribute `keywords` of a value; of a partial a copy: what is written there is called with, unseen."""
    found, kind = value.keywords, type(value)
    own = kind.__module__ == "__main__" and not issubclass(kind, functools.partial)
    return dict(found) if isinstance(found, dict) and not own else found


def asked(name: Any, error: type[Exception] = AttributeError) -> None:
    """Raise an error if a name is one of Python's own, as `__array_interface__`: no answer has it by chance."""
    if isinstance(name, str) and str.startswith(name, "__") and str.endswith(name, "__"):
        raise error(f"{str.__str__(name)} is a name of Python's own")


def of_objects(function: Any) -> Any:
    """`type` that is asked for objects alone, `vars` that is no way to Python's names, `open` that reads; all else
    as it is."""
    if function is type:
        return _type_of
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


def _type_of(value: Any) -> type:
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
    return _Attributes(vars(value))


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


def _helper(name: str) -> ast.expr:
    # No cell can give `__import__` another meaning (see `language`), and it is there in a measuring process, too.
    return ast.parse(f"__import__({__name__!r}, fromlist=['_']).{name}", mode="eval").body


class _TypeAsText(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Constant("type"), node) if node.id == "type" else node


def _annotation(node: Any) -> Any:
    """An annotation in which a text stands for `type`."""
    return None if node is None else _TypeAsText().visit(node)


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(_helper(name), list(args), [])


def _own(me: str, kind: ast.ClassDef) -> ast.Call:
    if any(ast.unparse(base).endswith("NamedTuple") for base in kind.bases):  # there is no `__class__` in its methods
        return _call("own_tuple", ast.Name(me, ast.Load()), ast.Constant(kind.name))
    return _call("own", ast.Name(me, ast.Load()), ast.Name("__class__", ast.Load()))


def _placed(node: Any, at: ast.AST) -> Any:
    """A node that was made here, and what is in it, on the lines of another one."""
    for part in ast.walk(node):
        if not hasattr(part, "lineno"):
            ast.copy_location(part, at)
    return ast.fix_missing_locations(node)


def _stands_first(node: ast.stmt | None) -> bool:
    """Whether a statement must be the first one of a cell: what it says of itself, and imports from the future."""
    said = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return said or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _bound_anywhere(body: list[ast.stmt]) -> set[str]:
    """The names that a function binds, and those that functions in it do: one of them may be `nonlocal`."""
    inner = [node for part in body for node in ast.walk(part) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return set().union(bound(ast.Module(body=list(body), type_ignores=[])), *map(bound, inner))


def _asked_of(method: ast.FunctionDef) -> str:
    """The first argument of a method that writes its attributes, or reads what others have, too; empty of any other."""
    places = [*method.args.posonlyargs, *method.args.args]
    kinds = {ast.unparse(decorator).rsplit(".", 1)[-1] for decorator in method.decorator_list}
    if not places or method.name == "__new__" or kinds & {"staticmethod", "classmethod"}:
        return ""
    for part in ast.walk(method):
        if isinstance(part, ast.Attribute) and (
            not isinstance(part.ctx, ast.Load) or part.attr in _BY_NAME or is_mangled(part.attr)
        ):
            return places[0].arg
        if isinstance(part, ast.Name) and part.id in _WRITES:
            return places[0].arg
    return ""


def _name_asked(method: ast.FunctionDef) -> ast.Call | None:
    """What a method begins with that says what its object has."""
    places = [*method.args.posonlyargs, *method.args.args]
    if method.name != "__getattr__" or len(places) < 2:
        return None
    return _call("asked", ast.Name(places[1].arg, ast.Load()))
