"""What a program says of several devices, written down and done again: layouts, `shard_map`, collectives.

Each is done by JAX's own public function, or by a primitive whose parameters are looked at first. The devices of a
collective that does not fit its axis could wait for each other without end, or be others than the program's.
"""

from collections.abc import Callable
from typing import Any, Protocol

import jax

from autograder.jax_internals import on_each_device, parameter_kind, unspecified

from .layouts import sharding_form
from .values import CannotCross, Unreadable

KINDS = ("shard_map", "sharding_constraint", "reshard", "device_put")
Written = Callable[[Any], dict[str, Any]]
Function = Callable[[dict[str, Any]], Callable[..., list[Any]]]


class Packs(Protocol):
    """What writes values: a `Pack`, or a writer of programs."""

    @property
    def pack(self) -> Callable[[Any], Any]: ...


class Unpacks(Protocol):
    """What reads values: an `Unpack`, or a reader of programs."""

    @property
    def unpack(self) -> Callable[[Any], Any]: ...


# --- where the function is ---


def written(eqn: Any, pack: Packs, inner: Written) -> dict[str, Any]:
    """What an equation of one of the kinds does; `inner` writes down a program in it."""
    params, name = eqn.params, eqn.primitive.name
    if name == "sharding_constraint":
        return {"do": name, "layout": _layout(params["sharding"], pack)}
    if name == "device_put":
        return {"do": name, "layouts": [_layout(target, pack) for target in params["devices"]]}
    if name == "reshard":
        layout, mesh = params["dst_sharding"], params["concrete_mesh"]
        return {"do": name, "layout": _layout(jax.NamedSharding(mesh, layout.spec) if mesh else layout, pack)}
    axes, checked = sorted(params["newly_manual_axes"]), bool(params["check_vma"])
    with on_each_device(params["mesh"], axes, checked=checked):
        body = inner(params["jaxpr"])
    return {
        "do": name,
        "mesh": pack.pack(params["mesh"]),
        "in": [pack.pack(spec) for spec in params["in_specs"]],
        "out": [pack.pack(spec) for spec in params["out_specs"]],
        "axes": axes,
        "checked": checked,
        "body": body,
    }


def layouts_of_jit(params: dict[str, Any], pack: Packs) -> dict[str, Any]:
    """What an equation of `jit` says of how its inputs and results lie; empty if it says nothing."""
    found = {name: [_layout(one, pack) for one in params[f"{name}_shardings"]] for name in ("in", "out")}
    return {name: forms for name, forms in found.items() if any(forms)}


def _layout(value: Any, pack: Packs) -> dict[str, Any] | None:
    if value is None or parameter_kind(value) == "unspecified":
        return None
    if (form := sharding_form(value, pack.pack)) is None:
        raise CannotCross(f"a program with a {type(value).__name__} cannot be handed to the other kernel")
    return form


def refuse_groups(params: dict[str, Any]) -> None:
    """Raises `CannotCross` for a collective of some of the devices along an axis."""
    if params.get("axis_index_groups") is not None:
        raise CannotCross("a collective of groups of devices cannot be handed to the other kernel")


# --- where it is asked for ---


def done(eqn: dict[str, Any], values: list[Any], unpack: Unpacks, function: Function) -> list[Any]:
    """The results of an equation of one of the kinds; `function` makes a function of a program in it."""
    if eqn["do"] == "sharding_constraint":
        (value,) = values
        return [jax.lax.with_sharding_constraint(value, _named(eqn["layout"], unpack))]
    if eqn["do"] == "reshard":
        (value,) = values
        return [jax.sharding.reshard(value, _named(eqn["layout"], unpack))]
    if eqn["do"] == "device_put":
        targets = [form and _named(form, unpack) for form in _all(eqn["layouts"], len(values))]
        if not any(targets):
            return list(jax.device_put(values))
        return [jax.device_put(value, target) for value, target in zip(values, targets, strict=True)]
    mesh, axes = unpack.unpack(eqn["mesh"]), eqn["axes"]
    if not isinstance(mesh, jax.sharding.Mesh | jax.sharding.AbstractMesh):
        raise Unreadable("a shard_map has a mesh")
    if type(axes) is not list or not axes or not all(type(name) is str and name in mesh.axis_names for name in axes):
        raise Unreadable("a shard_map has axes of its mesh")
    specs = tuple(_spec(form, unpack) for form in _all(eqn["in"], len(values)))
    made = [_spec(form, unpack) for form in _all(eqn["out"])]
    body = function(eqn["body"])
    options: dict[str, Any] = {"axis_names": {*axes}, "check_vma": eqn["checked"] is True}
    return jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=made, **options)(*values)


def options_of_jit(eqn: dict[str, Any], count: int, unpack: Unpacks) -> dict[str, Any]:
    """How the inputs, of which there are so many, and the results lie, for `jax.jit`."""
    found: dict[str, Any] = {}
    for name, number in (("in", count), ("out", None)):
        if name in eqn:
            forms = _all(eqn[name], number)
            found[f"{name}_shardings"] = [_named(form, unpack) if form else unspecified() for form in forms]
    if "in_shardings" in found:
        found["in_shardings"] = tuple(found["in_shardings"])
    return found


_ALONG_ARRAYS = ("psum", "pmax", "pmin")


def check_collective(name: str, params: dict[str, Any]) -> None:
    """Raises `Unreadable` for parameters that do not fit the axes along which devices talk here."""
    axes = params.get("axis_name", params.get("axes"))
    axes = axes if type(axes) is tuple else (axes,)
    if name in _ALONG_ARRAYS and all(type(axis) is int for axis in axes) and params.get("axis_index_groups") is None:
        return  # what `vmap` makes of a sum along its own axis: one of the array's
    if not axes or not all(type(axis) is str for axis in axes):
        raise Unreadable("a collective has the name of an axis")
    try:
        size = jax.lax.axis_size(axes)
    except NameError:
        raise Unreadable("a collective along an axis that is not there") from None
    if params.get("axis_index_groups") is not None or params.get("axis_size", size) != size:
        raise Unreadable("a collective is of all devices along an axis")
    if name == "ppermute" and not _is_exchange(params["perm"], size):
        raise Unreadable("devices send each to another one")


def _is_exchange(pairs: Any, size: int) -> bool:
    """Whether nobody sends or is sent to twice, and all are there."""
    if type(pairs) is not tuple or not all(type(pair) is tuple and len(pair) == 2 for pair in pairs):
        return False
    ends = [[pair[side] for pair in pairs] for side in (0, 1)]
    return all(
        all(type(device) is int and 0 <= device < size for device in end) and len({*end}) == len(end) for end in ends
    )


def _named(form: Any, unpack: Unpacks) -> jax.NamedSharding:
    found = unpack.unpack(form)
    if type(found) is not jax.NamedSharding:
        raise Unreadable("a layout is missing")
    return found


def _spec(form: Any, unpack: Unpacks) -> jax.P:
    found = unpack.unpack(form)
    if not isinstance(found, jax.P):
        raise Unreadable("a spec is missing")
    return found


def _all(forms: Any, count: int | None = None) -> list[Any]:
    if type(forms) is not list or count not in (None, len(forms)):
        raise Unreadable("a list is missing")
    return forms
