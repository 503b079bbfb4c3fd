"""How arrays lie on several devices: meshes, shardings and the pieces of an array as plain data, and back.

A mesh crosses as the numbers of its devices, which both kernels have. An array crosses piece by piece, and nothing is
put together: where a layout promises copies, devices may hold different things, and a check may look at each of them.
What is written here is read with nothing taken on trust; for what was never written, ValueError is raised.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding

from autograder.jax_internals import has_devices, same_devices

_MOST_AXES = 16  # of a mesh
_LONGEST_NAME = 100  # of one of them
_LARGEST_ABSTRACT = 2**20  # devices of a mesh that has none
LARGEST = 2**28  # bytes that one array may hold on all devices


def mesh_form(mesh: Mesh | AbstractMesh) -> dict[str, Any] | None:
    """What crosses of a mesh; None if its devices or names are none that the other kernel knows."""
    names = list(mesh.axis_names)
    if len(names) > _MOST_AXES or not all(type(name) is str and len(name) <= _LONGEST_NAME for name in names):
        return None
    sizes, kinds = [int(mesh.shape[name]) for name in names], [kind.name for kind in mesh.axis_types]
    form: dict[str, Any] = {"is": "mesh", "names": names, "shape": sizes, "types": kinds, "devices": None}
    if isinstance(mesh, AbstractMesh):
        form["here"] = has_devices(mesh)
    else:
        devices = list(mesh.devices.flat)
        if any(_devices().get(device.id) is not device for device in devices):
            return None
        form["devices"] = [device.id for device in devices]
    return form


def mesh_of(form: dict[str, Any]) -> Mesh | AbstractMesh:
    """The inverse of `mesh_form`."""
    names, sizes, types = form["names"], form["shape"], form["types"]
    for part in (names, sizes, types):
        if type(part) is not list or not len(names) == len(part) <= _MOST_AXES:
            raise ValueError("a mesh of another number of axes than it says")
    if not all(type(name) is str and 0 < len(name) <= _LONGEST_NAME for name in names) or len({*names}) < len(names):
        raise ValueError("the axes of a mesh have names, each another one")
    if not all(type(size) is int and 0 < size <= _LARGEST_ABSTRACT for size in sizes):
        raise ValueError("an axis of a mesh has a size")
    kinds = tuple(AxisType.__members__[kind] for kind in types)
    if form["devices"] is None:
        if math.prod(sizes) > _LARGEST_ABSTRACT:
            raise ValueError("a mesh of too many devices")
        mesh = AbstractMesh(tuple(sizes), tuple(names), axis_types=kinds)
        return same_devices(mesh) if form["here"] is True else mesh
    devices = [device_of(number) for number in _list(form["devices"])]
    if len({*devices}) < len(devices) or math.prod(sizes) != len(devices):
        raise ValueError("a mesh of another number of devices than it says")
    table = np.empty(len(devices), object)
    table[:] = devices
    return Mesh(table.reshape(sizes), tuple(names), axis_types=kinds)


def _devices() -> dict[int, Any]:
    return {device.id: device for device in jax.devices()}


def device_of(number: Any) -> Any:
    """The device of this number."""
    if type(number) is not int or number not in _devices():
        raise ValueError("a device that is not here")
    return _devices()[number]


def elsewhere(array: jax.Array) -> int | None:
    """The number of the one device on which an array lies; None if it lies where JAX puts arrays unasked."""
    (device,) = array.devices()
    known = jax.devices()
    return next((one.id for one in known[1:] if one is device), None)


def sharding_form(sharding: Any, pack: Callable[[Any], Any]) -> dict[str, Any] | None:
    """What crosses of a layout; None if it is none by the names of a mesh, or in another memory than usual."""
    if type(sharding) is not NamedSharding or not is_plain_spec(sharding.spec):
        return None
    if sharding != NamedSharding(sharding.mesh, sharding.spec):
        return None
    mesh = mesh_form(sharding.mesh)
    return mesh and {"is": "sharding", "mesh": mesh, "spec": pack(sharding.spec)}


def sharding_of(mesh: Any, spec: Any) -> NamedSharding:
    """The inverse of `sharding_form`, of parts that were read."""
    if not isinstance(mesh, Mesh | AbstractMesh) or not isinstance(spec, jax.P):
        raise ValueError("a layout is a mesh and a spec")
    return NamedSharding(mesh, spec)


def is_plain_spec(spec: Any) -> bool:
    """Whether a spec says no more than which axes of a mesh cut which axis of an array."""
    return isinstance(spec, jax.P) and spec == jax.P(*spec)


def pieces(array: jax.Array) -> list[np.ndarray]:
    """What each device holds, in the order of the mesh."""
    held = {shard.device: shard.data for shard in array.addressable_shards}
    mesh: Any = getattr(array.sharding, "mesh")  # noqa: B009
    return [np.asarray(held[device]) for device in mesh.devices.flat]


def piece_shape(sharding: Any, shape: tuple[int, ...], dtype: np.dtype) -> list[int]:
    """The shape of what a device holds of an array."""
    if type(sharding) is not NamedSharding or not isinstance(sharding.mesh, Mesh):
        raise ValueError("an array lies on devices")
    held = sharding.shard_shape(shape)
    if math.prod(held) * dtype.itemsize * sharding.mesh.size > LARGEST:
        raise ValueError("an array that is too large")
    return list(held)


def put_together(shape: tuple[int, ...], sharding: NamedSharding, held: list[np.ndarray]) -> jax.Array:
    """The array of which each device holds this piece, in the order of the mesh."""
    mesh: Any = sharding.mesh
    placed = [jax.device_put(piece, device) for piece, device in zip(held, mesh.devices.flat, strict=True)]
    return jax.make_array_from_single_device_arrays(shape, sharding, placed)


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise ValueError("a list is missing")
    return value
