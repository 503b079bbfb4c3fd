"""Values as JSON and raw bytes, and back: exact type, shape, dtype, weak type. Reading executes nothing.

None, booleans, numbers and strings stand for themselves; everything else is an object whose `is` says what it is. What
has no form of its own is lent: `lend` says how the other kernel may refer to it.
"""

import dataclasses
import enum
import functools
import inspect
import math
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding

from autograder.jax_internals import is_tracer, weak

from . import layouts
from .names import Unknown, name_of, tuple_class

DEEPEST = 60  # things in things
_LONGEST_NUMBER = 4000  # digits; Python itself refuses longer ones
_PLAIN = (type(None), bool, int, float, str)
_DICTS: dict[str, type[dict]] = {"dict": dict, "Counter": Counter, "OrderedDict": OrderedDict}
_DTYPES = re.compile(r"bool|u?int(2|4|8|16|32|64)|b?float\w{1,20}|complex(64|128)|[<>|=]?[US]\d{1,5}")


class Unreadable(ValueError):
    """What arrived is no value, or none that may cross."""


class CannotCross(TypeError):
    """A value has no form in which it could be handed to the other kernel."""


class _HoldsItself(CannotCross):
    """An object of the course's that holds itself: it stays, and is lent."""


class Pack:
    """Values as they travel; `parts` are the raw bytes that belong to what `pack` has returned.

    Arguments:
      lend: what a value is called that stays here; raises `CannotCross`.
      course: the functions and classes of the locked cells, by name.
      traced: what stands for a tracer; None if none may cross.
      number: the number under which an array of NumPy's is the same object there; None for one that has none.
      lend_callback: how the other kernel is told of a callback in a program; None if none may cross.
    """

    def __init__(
        self,
        lend: Callable[[Any, "Pack"], dict[str, Any]],
        course: Mapping[str, Any],
        traced: Callable[[Any], dict[str, Any]] | None = None,
        number: Callable[[np.ndarray], int | None] = lambda array: None,
        lend_callback: Callable[[Any], dict[str, Any]] | None = None,
    ):
        self.parts: list[bytes] = []
        self.lend_callback, self._number = lend_callback, number
        self.handed: set[int] = set()  # the numbers of the arrays in this message that stand for themselves
        self._lend, self._traced = lend, traced
        self._course = {id(value): name for name, value in course.items()}
        self.functions: set[int] = set()  # the numbers of those whose code is in this message
        self._inside: set[int] = set()  # objects whose attributes are being written down

    def pack(self, value: Any, deep: int = 0) -> Any:
        """One value."""
        kind: Any = type(value)
        if deep > DEEPEST:
            raise CannotCross("it is nested too deeply, or holds itself")
        if kind in _PLAIN:
            return {"is": "int", "v": hex(value)} if kind is int and abs(value) >= 2**53 else value
        if kind in (list, tuple, set, frozenset):
            return {"is": kind.__name__, "v": [self.pack(item, deep + 1) for item in value]}
        if kind in _DICTS.values():
            pairs = [[self.pack(key, deep + 1), self.pack(item, deep + 1)] for key, item in value.items()]
            return {"is": kind.__name__, "v": pairs}
        if kind is complex:
            return {"is": "complex", "v": [value.real, value.imag]}
        if kind is bytes:
            return {"is": "bytes", "part": self.part(value)}
        if kind in (slice, range):
            return {"is": kind.__name__, "v": [self.pack(p, deep + 1) for p in (value.start, value.stop, value.step)]}
        if value is Ellipsis or value is NotImplemented:
            return {"is": "Ellipsis" if value is Ellipsis else "NotImplemented"}
        return self._thing(value, kind, deep)

    def _thing(self, value: Any, kind: Any, deep: int) -> Any:
        if is_tracer(value):
            if self._traced is None:
                raise CannotCross("a value that JAX is tracing cannot be handed to the other kernel")
            return self._traced(value)
        if isinstance(value, jax.Array):
            return self._jax_array(value)
        if kind.__module__.startswith("jax."):  # a number in a Literal of a jaxpr
            if isinstance(value, int):
                return self.pack(int(value))
            if isinstance(value, float):
                return self.pack(float(value))
            if isinstance(value, complex):
                return self.pack(complex(value))
        if kind is np.ndarray or isinstance(value, np.generic):
            return self._numpy_array(value)
        if isinstance(value, np.dtype):
            name = dtype_name(value)
            return {"is": "dtype", "v": name} if name else self._lend(value, self)
        if kind is jax.P and layouts.is_plain_spec(value):
            return {"is": "spec", "v": [self.pack(axis, deep + 1) for axis in value]}
        if value is jax.P.UNCONSTRAINED:
            return {"is": "unconstrained"}
        if kind in (Mesh, AbstractMesh, NamedSharding):
            return self._layout(value) or self._lend(value, self)
        if kind is jax.ShapeDtypeStruct:
            kept = dtype_name(value.dtype)
            if kept and value.sharding is None:
                return {"is": "shape", "shape": list(value.shape), "dtype": kept, "weak": bool(value.weak_type)}
        if given := self._course.get(id(value)):
            return {"is": "course", "v": given}
        if found := name_of(value):
            return {"is": "named", "v": list(found)}
        if kind is functools.partial and not vars(value):
            inner = [self.pack(part, deep + 1) for part in (value.func, value.args, value.keywords)]
            return {"is": "partial", "v": inner}
        return self._object(value, kind, deep)

    def _object(self, value: Any, kind: Any, deep: int) -> Any:
        name = self._course.get(id(kind))
        if name and isinstance(value, enum.Enum):
            return {"is": "member", "of": name, "v": value.name}
        if issubclass(kind, tuple) and hasattr(kind, "_fields") and len(value) == len(kind._fields):
            inner = [self.pack(item, deep + 1) for item in value]
            if name:
                return {"is": "fields", "of": name, "v": inner}
            place = [kind.__module__, kind.__qualname__]
            if tuple_class(*place) is kind:
                return {"is": "fields", "of": place, "v": inner}
        if kind is SimpleNamespace or (name and is_plain_class(kind)):
            if id(value) in self._inside:
                raise _HoldsItself(value)
            self._inside.add(id(value))
            try:
                return self._attributes(value, kind, name, deep)
            except _HoldsItself as found:
                if found.args[0] is not value:
                    raise
            finally:
                self._inside.discard(id(value))
        return self._lend(value, self)

    def _attributes(self, value: Any, kind: Any, name: str | None, deep: int) -> Any:
        attributes = {**_slots(value, kind), **getattr(value, "__dict__", {})}
        inner = [[n, self.pack(v, deep + 1)] for n, v in attributes.items()]
        return {"is": "namespace", "v": inner} if kind is SimpleNamespace else {"is": "object", "of": name, "v": inner}

    def part(self, data: bytes) -> int:
        """Put raw bytes beside the text: the number of theirs."""
        self.parts.append(data)
        return len(self.parts) - 1

    def _numpy_array(self, value: Any) -> Any:
        name = dtype_name(value.dtype)
        if not name:
            return self._lend(value, self)
        one = isinstance(value, np.generic)
        form = {
            "is": "scalar" if one else "array",
            "dtype": name,
            "shape": list(value.shape),
            "part": self.part(np.asarray(value).tobytes()),
        }
        if one or (number := self._number(value)) is None:
            return form
        self.handed.add(number)
        return form | {"number": number}

    def _layout(self, value: Any) -> dict[str, Any] | None:
        if isinstance(value, NamedSharding):
            return layouts.sharding_form(value, self.pack)
        return layouts.mesh_form(value)

    def _jax_array(self, value: jax.Array) -> Any:
        if value.is_deleted():
            return {"is": "deleted", "dtype": dtype_name(value.dtype), "shape": list(value.shape)}
        if type(value.sharding) is NamedSharding and dtype_name(value.dtype):
            return self._spread(value)
        if len(value.devices()) != 1:
            return self._lend(value, self)
        form: dict[str, Any] = {"is": "jax", "weak": bool(getattr(value, "weak_type", False))}
        if (device := layouts.elsewhere(value)) is not None:
            form["device"] = device
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            form["key"] = str(jax.random.key_impl(value))
            value = jax.random.key_data(value)
        array = np.asarray(value)
        name = dtype_name(array.dtype)
        if not name:
            raise CannotCross(f"an array of {array.dtype} cannot be handed to the other kernel")
        return form | {"dtype": name, "shape": list(array.shape), "part": self.part(array.tobytes())}

    def _spread(self, value: jax.Array) -> Any:
        """An array over the devices of a mesh: what each of them holds. Equal pieces are sent once."""
        layout = self._layout(value.sharding)
        if layout is None:
            return self._lend(value, self)
        sent: dict[bytes, int] = {}
        held = [piece.tobytes() for piece in layouts.pieces(value)]
        if sum(map(len, held)) > layouts.LARGEST:
            raise CannotCross("an array that is too large on all devices together")
        return {
            "is": "spread",
            "weak": bool(getattr(value, "weak_type", False)),
            "layout": layout,
            "dtype": dtype_name(value.dtype),
            "shape": list(value.shape),
            "parts": [sent[data] if data in sent else sent.setdefault(data, self.part(data)) for data in held],
        }


class Unpack:
    """The inverse of `Pack`; every method raises `Unreadable` for what it would never have written.

    Arguments:
      parts: the raw bytes of the message.
      borrow: what stands for a thing of the other kernel, or the thing itself that was lent to it.
      named: the function or class of a library that has this name; raises `Unknown`.
      course: the functions and classes of the locked cells, by name.
      slot: what stands in the place of a tracer.
      same: the array of this number, of what has arrived under it.
      callbacks: whether a program may call back.
    """

    def __init__(
        self,
        parts: list[bytes],
        borrow: Callable[[dict[str, Any], "Unpack"], Any],
        named: Callable[[str, str], Any],
        course: Mapping[str, Any],
        slot: Callable[[dict[str, Any]], Any] | None = None,
        same: Callable[[Any, np.ndarray], np.ndarray] = lambda number, array: array,
        callbacks: bool = False,
    ):
        self._same, self.callbacks = same, callbacks
        self._parts, self._borrow, self._named, self._course, self._slot = parts, borrow, named, course, slot

    def unpack(self, form: Any, deep: int = 0) -> Any:
        """One value."""
        if type(form) in _PLAIN:
            return form
        if type(form) is not dict or deep > DEEPEST:
            raise Unreadable("this is no value")
        try:
            return self._read(form, deep)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError, IndexError) as error:
            if isinstance(error, Unreadable):
                raise
            raise Unreadable(str(error) if isinstance(error, Unknown) else f"{type(error).__name__}: {error}") from None

    def _all(self, forms: Any, deep: int) -> list[Any]:
        if type(forms) is not list:
            raise Unreadable("a list is missing")
        return [self.unpack(form, deep + 1) for form in forms]

    def _read(self, form: dict[str, Any], deep: int) -> Any:
        kind = form["is"]
        if kind in ("list", "tuple", "set", "frozenset"):
            items = self._all(form["v"], deep)
            return {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind](items)
        if kind in _DICTS:
            return _DICTS[kind](dict(self._all(pair, deep) for pair in form["v"]))
        if kind == "spec":
            return jax.P(*map(_axes, self._all(form["v"], deep)))
        if kind == "unconstrained":
            return jax.P.UNCONSTRAINED
        if kind == "mesh":
            return layouts.mesh_of(form)
        if kind == "sharding":
            return layouts.sharding_of(self.unpack(form["mesh"], deep + 1), self.unpack(form["spec"], deep + 1))
        if kind == "int":
            if len(form["v"]) > _LONGEST_NUMBER:
                raise Unreadable("a number of too many digits")
            return int(form["v"], 16)
        if kind == "complex":
            return complex(*map(_real, form["v"]))
        if kind == "bytes":
            return bytes(self.data(form))
        if kind in ("slice", "range"):
            return {"slice": slice, "range": range}[kind](*self._all(form["v"], deep))
        if kind in ("Ellipsis", "NotImplemented"):
            return {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}[kind]
        if kind in ("array", "scalar"):
            array = self._array(form)
            if kind == "scalar":
                return _scalar(array)
            return self._same(form["number"], array) if "number" in form else array
        if kind == "jax":
            return self._jax_array(form)
        if kind == "spread":
            return self._spread(form, self.unpack(form["layout"], deep + 1))
        if kind == "deleted":
            return self._deleted(form)
        if kind == "dtype":
            return dtype_of(form["v"])
        if kind == "shape":
            return jax.ShapeDtypeStruct(
                shape_of(form["shape"]), dtype_of(form["dtype"]), weak_type=form["weak"] is True
            )
        if kind == "named":
            module, name = map(text_of, form["v"])
            return self._named(module, name)
        if kind == "course":
            return self._course[text_of(form["v"])]
        if kind == "partial":
            fn, args, keywords = self._all(form["v"], deep)
            if not callable(fn) or type(args) is not tuple or type(keywords) is not dict:
                raise Unreadable("this is no partial function")
            if not self.callbacks and isinstance(fn, np.ufunc):
                raise Unreadable("a function of NumPy's that could write into what it is called with")
            return functools.partial(fn, *args, **keywords)
        if kind == "namespace":
            return SimpleNamespace(**{_attribute(name): self.unpack(inner, deep + 1) for name, inner in form["v"]})
        if kind in ("member", "fields", "object"):
            return self._object(form, deep)
        if kind == "traced" and self._slot is not None:
            return self._slot(form)
        if kind in ("lent", "yours", "code", "module", "jaxpr", "left", "own tuple"):
            return self._borrow(form, self)
        raise Unreadable("a value of an unknown kind")

    def _object(self, form: dict[str, Any], deep: int) -> Any:
        """An object of a class of the course's. No method of the class is run: it is its attributes."""
        if isinstance(form["of"], list):
            kind: Any = tuple_class(*map(text_of, form["of"]))
        else:
            kind = self._course.get(text_of(form["of"]))
        if not isinstance(kind, type):
            raise Unreadable("an object of an unknown class")
        if form["is"] == "member":
            if not issubclass(kind, enum.Enum):
                raise Unreadable("this is no enumeration")
            return kind.__members__[text_of(form["v"])]
        if form["is"] == "fields":
            items = self._all(form["v"], deep)
            if not issubclass(kind, tuple) or len(items) != len(getattr(kind, "_fields", ())):
                raise Unreadable("a named tuple of another length")
            return tuple.__new__(kind, items)
        if not is_plain_class(kind):
            raise Unreadable("a class whose objects do not cross")
        made: Any = object.__new__(kind)
        slots = _slot_names(kind)
        for name, inner in form["v"]:
            value = self.unpack(inner, deep + 1)
            if callable(inspect.getattr_static(kind, _attribute(name), None)):
                raise Unreadable("an attribute in the place of a method")
            if name in slots:
                object.__setattr__(made, name, value)
            elif hasattr(made, "__dict__"):
                made.__dict__[_attribute(name)] = value
            else:
                raise Unreadable("an attribute that an object of this class has not")
        return made

    def data(self, form: dict[str, Any]) -> bytes:
        """The raw bytes that belong to this."""
        part = form["part"]
        if type(part) is not int or not 0 <= part < len(self._parts):
            raise Unreadable("raw bytes are missing")
        return self._parts[part]

    def _array(self, form: dict[str, Any]) -> np.ndarray:
        dtype, shape, data = dtype_of(form["dtype"]), shape_of(form["shape"]), self.data(form)
        if math.prod(shape) * dtype.itemsize != len(data):
            raise Unreadable("an array of another size than its bytes")
        if not data:
            return np.empty(shape, dtype)
        return np.frombuffer(data, dtype).reshape(shape).copy()

    def _jax_array(self, form: dict[str, Any]) -> jax.Array:
        array = self._array(form)
        with _wide_enough(array.dtype):
            if "key" in form:
                value = jax.random.wrap_key_data(jnp.asarray(array), impl=text_of(form["key"]))
            else:
                value = jnp.asarray(array)
                value = weak(value) if form["weak"] is True else value
            return jax.device_put(value, layouts.device_of(form["device"])) if "device" in form else value

    def _deleted(self, form: dict[str, Any]) -> jax.Array:
        """An array of which only type and shape are left; of one without a form, or too large to be made, not even
        these."""
        shape, dtype = shape_of(form["shape"]), dtype_of(form["dtype"] or "float32")
        small = form["dtype"] and math.prod(shape) * dtype.itemsize <= layouts.LARGEST
        with _wide_enough(dtype):
            gone = jnp.zeros(shape if small else (), dtype)
        gone.delete()
        return gone

    def _spread(self, form: dict[str, Any], layout: Any) -> jax.Array:
        shape, dtype = shape_of(form["shape"]), dtype_of(form["dtype"])
        one = {"dtype": form["dtype"], "shape": layouts.piece_shape(layout, shape, dtype)}
        if type(form["parts"]) is not list or len(form["parts"]) != layout.mesh.size:
            raise Unreadable("an array has a piece on each device of its mesh")
        with _wide_enough(dtype):
            value = layouts.put_together(shape, layout, [self._array(one | {"part": part}) for part in form["parts"]])
            return jax.device_put(weak(value), layout) if form["weak"] is True else value


def _wide_enough(dtype: np.dtype) -> AbstractContextManager[Any]:
    """JAX keeps numbers of eight bytes only where it was told to."""
    return jax.enable_x64(True) if dtype.itemsize >= 8 and not jax.config.jax_enable_x64 else nullcontext()


def is_plain_class(kind: type) -> bool:
    """Whether an object of this class is its attributes and nothing else."""
    bases = [base for base in kind.__mro__ if base.__module__ != "__main__"]
    return all(base is object or base.__module__ in ("typing", "abc") for base in bases)


def _slot_names(kind: type) -> set[str]:
    found: set[str] = set()
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        found.update((slots,) if isinstance(slots, str) else slots)
    if dataclasses.is_dataclass(kind):
        found.update(field.name for field in dataclasses.fields(kind))
    return found - {"__dict__", "__weakref__"}


def _slots(value: Any, kind: type) -> dict[str, Any]:
    held = vars(value) if hasattr(value, "__dict__") else {}
    return {n: getattr(value, n) for n in sorted(_slot_names(kind)) if n not in held and hasattr(value, n)}


def dtype_name(dtype: Any) -> str:
    """How a dtype is called; empty for one whose arrays do not cross."""
    if not isinstance(dtype, np.dtype) or dtype.fields or dtype.subdtype or not dtype.isnative:
        return ""
    name = dtype.str if dtype.kind in "US" else dtype.name
    return name if _DTYPES.fullmatch(name) else ""


def dtype_of(name: Any) -> np.dtype:
    """The dtype of this name. Raises `Unreadable`."""
    if type(name) is not str or not _DTYPES.fullmatch(name):
        raise Unreadable("a dtype of an unknown name")
    try:
        return np.dtype(jnp.dtype(name))
    except TypeError:
        raise Unreadable("a dtype of an unknown name") from None


def _axes(value: Any) -> Any:
    """What a spec says of an axis of an array."""
    names = value if type(value) is tuple else (value,)
    if value is not None and value is not jax.P.UNCONSTRAINED and not all(type(name) is str for name in names):
        raise Unreadable("this is no axis of a mesh")
    return value


def _scalar(array: np.ndarray) -> Any:
    if array.shape:
        raise Unreadable("a scalar with a shape")
    return array[()]


def shape_of(sizes: Any) -> tuple[int, ...]:
    """The shape of an array. Raises `Unreadable`."""
    if type(sizes) is not list or len(sizes) > 32 or not all(type(size) is int and size >= 0 for size in sizes):
        raise Unreadable("this is no shape")
    return tuple(sizes)


def text_of(value: Any) -> str:
    """A text. Raises `Unreadable` for anything else."""
    if type(value) is not str:
        raise Unreadable("a name is missing")
    return value


def _attribute(name: Any) -> str:
    """The name of an attribute that is data: Python and NumPy ask an object for those with two underscores."""
    if not text_of(name).isidentifier() or name.startswith("__"):
        raise Unreadable("an attribute that no object may have")
    return str(name)


def _real(value: Any) -> float:
    if type(value) is not float:
        raise Unreadable("a number is missing")
    return value
