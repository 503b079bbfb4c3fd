"""What a trace depends on: the arguments as the body sees them, and how two sets of them differ, in words."""

import inspect
import re
import types
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from autograder.jax_internals import is_tracer, type_notation

_ONE_LEAF = jax.tree.structure(0)
_NO_REPR: object = object.__repr__  # of a class that has no `__repr__` of its own
_LONGEST = 60  # characters of a value in a message


@dataclass(frozen=True)
class Difference:
    """One difference between two signatures. `kind` is one of "shape", "dtype", "weak", "type", "static",
    "structure", "keyword"; `text` names the argument: "x: float32[4] -> float32[5]"."""

    kind: str
    argument: str
    text: str


@dataclass(frozen=True)
class _Leaf:
    """An array (traced or not), or a value that Python knows while the body runs."""

    text: str
    value: Any = None  # of a static value
    aval: Any = None  # of an array: shape, dtype and weak type
    traced: bool = False
    mesh: str = ""  # of an array: the devices among which it is laid out, which its text does not always tell

    def same(self, other: "_Leaf") -> bool:
        if (self.aval is None) != (other.aval is None) or (self.text, self.mesh) != (other.text, other.mesh):
            return False
        if self.aval is not None or self.value is other.value:
            return True
        try:
            return type(self.value) is type(other.value) and bool(self.value == other.value)
        except Exception:  # the student's own __eq__, or an array within
            return True


@dataclass(frozen=True)
class _Argument:
    structure: Any  # the PyTreeDef
    leaves: tuple[tuple[str, _Leaf], ...]  # path below the argument, leaf
    text: str


@dataclass(frozen=True)
class Signature:
    """The arguments of one call by name, and which of them came by keyword (None: not known)."""

    arguments: dict[str, _Argument]
    keywords: frozenset[str] | None = None

    @classmethod
    def of_frame(cls, frame: types.FrameType) -> "Signature":
        """Of a function that has just been entered."""
        names, values = _parameters(frame.f_code), frame.f_locals
        return cls({name: _argument(values[name]) for name in names if name in values})

    @property
    def traced(self) -> bool:
        """Whether a tracer is among the arguments."""
        return any(leaf.traced for argument in self.arguments.values() for _, leaf in argument.leaves)

    def differences(self, earlier: "Signature") -> list[Difference]:
        """How this one differs from `earlier`; empty if JAX has no reason in the arguments to trace again."""
        found = []
        for name in {**earlier.arguments, **self.arguments}:
            old, new = earlier.arguments.get(name), self.arguments.get(name)
            if old is None or new is None:
                change = "now given" if old is None else "no longer given"
                found.append(Difference("structure", name, f"{name}: {change}"))
            elif old.structure != new.structure:
                found.append(Difference("structure", name, f"{name}: {old.text} -> {new.text}"))
            else:
                for (path, a), (_, b) in zip(old.leaves, new.leaves, strict=True):
                    if not a.same(b):
                        found.append(_leaf_difference(name, path, a, b))
        if self.keywords is not None and earlier.keywords is not None:
            changed = {difference.argument for difference in found}
            for name in sorted((self.keywords ^ earlier.keywords) - changed):
                change = "now passed by keyword" if name in self.keywords else "no longer passed by keyword"
                found.append(Difference("keyword", name, f"{name}: {change}"))
        return found


def aval_text(aval: Any) -> str:
    """JAX's notation for an abstract value, with the weak type in a word: "float32[4]", "weak float32[]"."""
    return ("weak " if getattr(aval, "weak_type", False) else "") + type_notation(aval)


def value_text(value: Any) -> str:
    """An argument as a caller would write it, its arrays as types: "float32[4]", "{'w': float32[3]}", "3"."""
    if _is_array(value):
        return aval_text(jax.typeof(value))
    leaves, structure = jax.tree.flatten(value)
    if not any(map(_is_array, leaves)):
        return _static_text(value)
    return _tree_text(structure, [_leaf(leaf).text for leaf in leaves])


def call_text(name: str, args: tuple, kwargs: dict[str, Any]) -> str:
    """A call in one line: "f(float32[4], n=3)"."""
    parts = [value_text(arg) for arg in args] + [f"{key}={value_text(arg)}" for key, arg in kwargs.items()]
    return f"{name}({', '.join(parts)})"


def _parameters(code: types.CodeType) -> tuple[str, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


def _argument(value: Any) -> _Argument:
    try:
        paths, structure = jax.tree_util.tree_flatten_with_path(value)
    except Exception:  # a dict whose keys cannot be sorted, say, which JAX never gets to see
        paths, structure = [((), value)], _ONE_LEAF
    if not any(_is_array(leaf) for _, leaf in paths):
        # A static tuple or configuration object is one value, not a tree of them.
        if not paths:
            return _Argument(structure, (), _static_text(value))
        leaf = _Leaf(f"static {_static_text(value)}", value)
        return _Argument(_ONE_LEAF, (("", leaf),), leaf.text)
    leaves = tuple((jax.tree_util.keystr(path), _leaf(leaf)) for path, leaf in paths)
    return _Argument(structure, leaves, _tree_text(structure, [leaf.text for _, leaf in leaves]))


def _leaf(value: Any) -> _Leaf:
    if _is_array(value):
        aval = jax.typeof(value)
        return _Leaf(aval_text(aval), aval=aval, traced=is_tracer(value), mesh=_mesh_text(aval))
    return _Leaf(_static_text(value), value)


def _leaf_difference(name: str, path: str, old: _Leaf, new: _Leaf) -> Difference:
    text = f"{name}{path}: {old.text} -> {'another ' if old.text == new.text else ''}{new.text}"
    if old.text == new.text and old.mesh != new.mesh:
        text = f"{name}{path}: {new.text} on {old.mesh} -> on {new.mesh}"
    if old.aval is None or new.aval is None:
        return Difference("static", name, text)
    for kind, attribute in (("shape", "shape"), ("dtype", "dtype"), ("weak", "weak_type")):
        if getattr(old.aval, attribute, None) != getattr(new.aval, attribute, None):
            return Difference(kind, name, text)
    return Difference("type", name, text)


def _mesh_text(aval: Any) -> str:
    """The mesh that an array's type belongs to: "one device", "mesh (i: 4)", "mesh (i: 4 Explicit)"."""
    mesh = getattr(getattr(aval, "sharding", None), "mesh", None)
    if mesh is None or mesh.empty:
        return "one device"
    kinds = ("" if kind.name == "Auto" else f" {kind.name}" for kind in mesh.axis_types)
    axes = (f"{name}: {size}{kind}" for (name, size), kind in zip(mesh.shape.items(), kinds, strict=True))
    return f"mesh ({', '.join(axes)})"


def _is_array(value: Any) -> bool:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind not in "OSUMmV" or value.dtype.isbuiltin == 2  # 2: bfloat16 and its like
    return isinstance(value, jax.Array) or is_tracer(value)


class _Verbatim:
    def __init__(self, text: str):
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _tree_text(structure: Any, leaves: list[str]) -> str:
    """A pytree with a text in place of each leaf: "[float32[], float32[]]"."""
    try:
        return _short(repr(jax.tree.unflatten(structure, map(_Verbatim, leaves))))
    except Exception:  # a node of the student's own, whose constructor wants more than a text
        return _short(str(structure))


def _static_text(value: Any) -> str:
    if isinstance(value, (types.FunctionType, type)):
        return value.__name__
    if type(value).__repr__ is _NO_REPR:
        return f"<{type(value).__name__} object>"
    try:
        text = repr(value)
    except Exception:  # the student's own __repr__
        text = f"<{type(value).__name__}>"
    return _short(re.sub(r" at 0x[0-9a-f]+", "", text))  # an address would differ in every run


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
