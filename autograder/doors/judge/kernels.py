"""A Pallas kernel as plain data: its grid, its blocks with their index maps, its scratch, and what it does in a step.

Only kernels that JAX interprets cross: the interpreter turns a kernel into loops and slices of arrays, which read and
write no memory but that of these arrays. In the judge each is made again by `pallas_call`, which asks all that it asks
of any kernel. What is said to a compiler of kernels alone, such as `compiler_params`, stays behind.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax

from autograder.jax_internals import RefIndex, indexer_of, is_ref, ref_index, ref_primitives, without_captures

from .values import CannotCross, Unreadable, dtype_name, dtype_of, shape_of

EQUATIONS = {"pallas_call", "program_id", "multiple_of", "run_scoped", "broadcast_to"}
EQUATIONS |= {"get", "swap", "addupdate", "masked_load", "masked_swap"}
_MOST_STEPS = 10**7  # of a grid
_SPACES = ("any", "vmem", "smem", "hbm")

Inner = Callable[[Any], dict[str, Any]]
Function = Callable[..., Callable[..., list[Any]]]


@dataclasses.dataclass(frozen=True)
class _Operand:
    """One of an equation's inputs."""

    number: int


# --- where the kernel is ---


def written(eqn: Any, inner: Inner) -> dict[str, Any]:
    """An equation of a kernel, or in one, as it travels; `inner` writes a program down. Raises `CannotCross`."""
    params, name = eqn.params, eqn.primitive.name
    if name == "pallas_call":
        return _kernel(params, inner)
    if name == "program_id":
        return {"do": name, "axis": params["axis"]}
    if name == "multiple_of":
        return {"do": name, "values": list(params["values"])}
    if name == "broadcast_to":
        return {"do": name, "shape": list(params["shape"])}
    if name == "run_scoped":
        if params["collective_axes"] or any(params.get("ref_transforms", ())):
            raise _stays("memory that is shared or seen in another way")
        body = params["jaxpr"]
        return {"do": name, "scratch": [_memory(v.aval) for v in body.invars], "body": inner(without_captures(body))}
    return {"do": name} | _access(eqn)


def _stays(what: str) -> CannotCross:
    return CannotCross(f"a kernel with {what} cannot be handed to the other kernel")


def _kernel(params: dict[str, Any], inner: Inner) -> dict[str, Any]:
    mapping, body = params["grid_mapping"], params["jaxpr"]
    if params["interpret"] is not True:
        raise _stays("interpret other than True")
    if mapping.num_dynamic_grid_bounds:
        raise _stays("a grid that depends on an array")
    named = mapping.grid_names is not None or params.get("mesh") is not None
    if named or mapping.get_grid_indices or mapping.local_grid_env or body.constvars:
        raise _stays("named axes, or with arrays that are not its arguments")
    added = len(mapping.vmapped_dims)  # by `vmap`, before all others: the kernel does not count them
    outputs = mapping.block_mappings[mapping.num_inputs :]
    return {
        "do": "pallas_call",
        "name": params["name"] if params["name"] is None else str(params["name"])[:200],
        "title": str(body.debug_info.func_name)[:200],
        "grid": list(mapping.grid),
        "scalars": mapping.num_index_operands,
        "arrays": mapping.num_inputs,
        "blocks": [_block(block, inner) for block in mapping.block_mappings],
        "results": [_array(block.array_aval) for block in outputs],
        "scratch": [_memory(aval) for aval in mapping.scratch_avals],
        "aliases": [list(pair) for pair in params["input_output_aliases"]],
        "body": _counted_from(added, inner(body)) if added else inner(body),
    }


def _counted_from(added: int, form: Any) -> Any:
    """The program of a kernel, with the axes of its grid counted from the first of all."""
    if isinstance(form, list):
        return [_counted_from(added, item) for item in form]
    if not isinstance(form, dict):
        return form
    if form.get("do") == "program_id":
        return form | {"axis": form["axis"] + added}
    return {key: _counted_from(added, item) for key, item in form.items()}


def _block(block: Any, inner: Inner) -> dict[str, Any]:
    if block.transforms:
        raise _stays("memory that is seen in another way")
    shape = [_length(length) for length in block.block_shape]
    return {"shape": shape, "space": _space(block.transformed_block_aval), "index": inner(block.index_map_jaxpr)}


def _length(length: Any) -> Any:
    """Of a block along an axis: a number; null if the kernel does not see the axis; with its padding, if it moves by
    elements."""
    kind = type(length).__name__
    if kind == "Blocked":
        return int(length.block_size)
    if kind == "Squeezed":
        return None
    if kind == "Element":
        return {"elements": int(length.block_size), "padding": [int(n) for n in length.padding]}
    raise _stays(f"a block of the kind {kind}")


def _space(aval: Any) -> str | None:
    space = aval.memory_space
    name = str(getattr(space, "value", space))
    if name == "default":
        return None
    if name not in _SPACES:
        raise _stays(f"the kind of memory {name[:100]}")
    return name


def _array(aval: Any) -> dict[str, Any]:
    name = dtype_name(aval.dtype)
    if not name:
        raise _stays(f"an array of {aval.dtype}")
    return {"shape": list(aval.shape), "dtype": name}


def _memory(aval: Any) -> dict[str, Any]:
    return _array(aval) | {"space": _space(aval)}


def _access(eqn: Any) -> dict[str, Any]:
    """What is read or written. A part that is known in a step only is the number of one of the equation's inputs."""
    params, operands = eqn.params, [_Operand(number) for number in range(len(eqn.invars))]
    if any(params.get(key) for key in ("eviction_policy", "cache_modifier", "is_volatile")):
        raise _stays("options of how its memory is read")
    if "args_tree" in params:
        _, transforms, *beside = jax.tree.unflatten(params["args_tree"], operands)
        return {
            "index": [_index(one) for one in transforms],
            "beside": [operand and operand.number for operand in beside],
        }
    transforms = jax.tree.unflatten(params["tree"], operands[1 if eqn.primitive.name == "get" else 2 :])
    return {"index": [_index(one) for one in transforms]}


def _index(transform: Any) -> dict[str, Any]:
    found = ref_index(transform)
    if found is None:
        raise _stays("memory that is seen in another way")
    return {"shape": list(found.shape), "places": list(found.places), "axes": [_axis(axis) for axis in found.axes]}


def _axis(axis: Any) -> Any:
    if not isinstance(axis, tuple):
        return {"at": axis.number}
    start, size, stride = axis
    if isinstance(size, _Operand):
        raise _stays("a part of memory whose size depends on an array")
    return [{"at": start.number} if isinstance(start, _Operand) else int(start), int(size), int(stride)]


# --- where it is asked for ---


def made(eqn: dict[str, Any], values: list[Any], function: Function) -> list[Any]:
    """The results of an equation of a kernel, or in one. Raises `Unreadable`.

    Arguments:
      function: what a program does, as a function: of its form, and of a name for it.
    """
    from jax.experimental import pallas as pl

    what = eqn["do"]
    if what == "pallas_call":
        return _called(eqn, values, function)
    if what == "program_id":
        try:
            return [pl.program_id(*shape_of([eqn["axis"]]))]
        except (AssertionError, ValueError):
            raise Unreadable("a step of a grid that is not there") from None
    if what == "multiple_of":
        return [pl.multiple_of(values[0], shape_of(eqn["values"]))]
    if what == "broadcast_to":
        return [ref_primitives()[what].bind(values[0], shape=shape_of(eqn["shape"]))]
    if what == "run_scoped":
        body = function(eqn["body"])
        return list(pl.run_scoped(lambda *refs: body(*values, *refs), *map(_scratch, eqn["scratch"])))
    return _accessed(eqn, values)


def _called(eqn: dict[str, Any], values: list[Any], function: Function) -> list[Any]:
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    grid, (scalars, inputs) = shape_of(eqn["grid"]), shape_of([eqn["scalars"], eqn["arrays"]])
    specs = [_spec(form, function) for form in eqn["blocks"]]
    results = tuple(_result(form) for form in eqn["results"])
    if math.prod(grid) > _MOST_STEPS:
        raise Unreadable("a kernel of too many steps")
    if len(values) != scalars + inputs or len(specs) != inputs + len(results):
        raise Unreadable("a kernel with other arguments than it says")
    body, name = function(eqn["body"], eqn["title"]), eqn["name"]

    def kernel(*refs: Any) -> None:
        body(*refs)

    kernel.__name__ = kernel.__qualname__ = body.__name__
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=scalars,
        grid=grid,
        in_specs=specs[:inputs],
        out_specs=tuple(specs[inputs:]),
        scratch_shapes=[_scratch(form) for form in eqn["scratch"]],
    )
    call = pl.pallas_call(
        kernel,
        results,
        grid_spec=spec,
        input_output_aliases={one: other for one, other in map(shape_of, eqn["aliases"])},
        interpret=True,  # whatever was said: it is the interpreter that leaves other memory alone
        name=name if type(name) is str else None,
    )
    return list(call(*values))


def _spec(form: dict[str, Any], function: Function) -> Any:
    from jax.experimental import pallas as pl

    index = function(form["index"])
    shape = [_length_of(length) for length in form["shape"]]
    return pl.BlockSpec(shape, lambda *places: tuple(index(*places)), memory_space=_space_of(form["space"]))


def _length_of(form: Any) -> Any:
    from jax.experimental import pallas as pl

    if form is None:
        return None
    padded = isinstance(form, dict)
    (length,) = shape_of([form["elements"] if padded else form])
    if not length:
        raise Unreadable("a block of no length")
    if not padded:
        return length
    before, after = shape_of(form["padding"])
    return pl.Element(length, (before, after))


def _space_of(name: Any) -> Any:
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    if name is None:
        return None
    if name not in _SPACES:
        raise Unreadable("a kind of memory that no kernel has")
    return pl.ANY if name == "any" else getattr(pltpu, name.upper())


def _result(form: dict[str, Any]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape_of(form["shape"]), dtype_of(form["dtype"]))


def _scratch(form: dict[str, Any]) -> Any:
    space = _space_of(form["space"])
    if space is None:
        raise Unreadable("a kind of memory is missing")
    return space(shape_of(form["shape"]), dtype_of(form["dtype"]))


def _accessed(eqn: dict[str, Any], values: list[Any]) -> list[Any]:
    """What `get`, `swap` and the like return."""
    what, ref = eqn["do"], values[0]
    if not is_ref(jax.typeof(ref)):
        raise Unreadable("this is no memory of a kernel")

    def operand(number: Any) -> Any:
        (place,) = shape_of([number])
        return values[place]

    index = tuple(_indexer(form, operand) for form in eqn["index"])
    if what in _OPTIONS:
        beside = [None if number is None else operand(number) for number in eqn["beside"]]
        leaves, tree = jax.tree.flatten((ref, index, *beside))
        found = ref_primitives()[what].bind(*leaves, args_tree=tree, **_OPTIONS[what])
    else:
        leaves, tree = jax.tree.flatten(index)
        found = ref_primitives()[what].bind(*values[: 1 if what == "get" else 2], *leaves, tree=tree)
    return list(found) if ref_primitives()[what].multiple_results else [found]


_OPTIONS: dict[str, dict[str, Any]] = {
    "masked_load": {"cache_modifier": None, "eviction_policy": None, "is_volatile": False},
    "masked_swap": {"eviction_policy": None},
}


def _indexer(form: dict[str, Any], operand: Callable[[Any], Any]) -> Any:
    def axis(one: Any) -> Any:
        if isinstance(one, dict):
            return operand(one["at"])
        start, size, stride = one
        first = operand(start["at"]) if isinstance(start, dict) else shape_of([start])[0]
        return (first, *shape_of([size, stride]))

    axes = [axis(one) for one in form["axes"]]
    if len(axes) != len(form["shape"]):
        raise Unreadable("an index of another length than the memory's shape")
    return indexer_of(RefIndex(shape_of(form["shape"]), shape_of(form["places"]), axes))
