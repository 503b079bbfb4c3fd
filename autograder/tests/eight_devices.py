"""Arrays and programs on eight devices cross between the two kernels. `test_two_rooms_devices.py` runs this file in a
process of its own: how many devices there are is settled when JAX starts."""

import functools
import json

import jax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from jax import P, lax  # noqa: E402
from jax.experimental import io_callback  # noqa: E402
from jax.sharding import AxisType, Mesh, NamedSharding  # noqa: E402

from autograder.doors.judge import names, programs  # noqa: E402
from autograder.doors.judge.values import CannotCross, Pack, Unpack, Unreadable  # noqa: E402
from autograder.instruments.read_hlo import hlo  # noqa: E402

AUTO = (AxisType.Auto,)
RING = jax.make_mesh((8,), ("i",), axis_types=AUTO)
GRID = jax.make_mesh((4, 2), ("x", "y"), axis_types=AUTO * 2)
TURNED = Mesh(RING.devices[::-1], "i", axis_types=AUTO)
NEXT = [(d, (d + 1) % 8) for d in range(8)]


def refuse(value, pack):
    raise CannotCross(type(value).__name__)


def packed(value):
    packer = Pack(refuse, {})
    return json.loads(json.dumps(packer.pack(value))), packer.parts


def unpacked(form, parts):
    return Unpack(parts, refuse, names.harmless, {}).unpack(form)


def place(array, mesh, spec):
    return jax.device_put(array, NamedSharding(mesh, spec))


U = place(np.arange(64, dtype=np.float32), RING, P("i"))


# --- values ---


@pytest.mark.parametrize(
    "value", [RING, GRID, TURNED, RING.abstract_mesh, U.sharding, NamedSharding(GRID, P(("y", "x")))]
)
def test_a_mesh_and_a_layout_are_the_same_ones(value):
    found = unpacked(*packed(value))
    assert found == value and type(found) is type(value)


SPECS = [
    (RING, P("i")),
    (RING, P()),
    (TURNED, P(None, "i")),
    (GRID, P("y", "x")),
    (GRID, P(("x", "y"))),
    (GRID, P("y")),
]
KINDS = [np.float32, np.int8, bool, jnp.bfloat16]


@pytest.mark.parametrize("mesh, spec", SPECS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_each_device_holds_what_it_held(mesh, spec, kind):
    array = place(np.arange(16 * 24).reshape(16, 24).astype(kind), mesh, spec)
    found = unpacked(*packed(array))
    assert found.sharding == array.sharding and found.dtype == array.dtype and found.committed
    for one, other in zip(found.addressable_shards, array.addressable_shards, strict=True):
        assert one.device == other.device and one.index == other.index
        np.testing.assert_array_equal(np.asarray(one.data), np.asarray(other.data))


def test_copies_that_differ_stay_different():
    """A layout that promises copies may hold others: types of a shard_map may be switched off."""
    own = jax.jit(jax.shard_map(lambda x: x[:1], mesh=RING, in_specs=P("i"), out_specs=P(), check_vma=False))(U)
    found = unpacked(*packed(own))
    assert [float(piece.data[0]) for piece in found.addressable_shards] == [8.0 * d for d in range(8)]


def test_equal_pieces_are_sent_once_and_weak_and_wide_ones_and_one_device_arrive():
    form, parts = packed(place(np.ones((64, 64), np.float32), RING, P()))
    assert len(parts) == 1 and form["parts"] == [0] * 8
    weak = jax.jit(lambda: lax.full((8,), 1.0) * 2, out_shardings=U.sharding)()
    assert unpacked(*packed(weak)).weak_type == weak.weak_type and unpacked(*packed(weak)).sharding == weak.sharding
    with jax.enable_x64(True):
        wide = place(np.ones(8), RING, P("i"))
    assert unpacked(*packed(wide)).dtype == np.float64
    (third,) = {*unpacked(*packed(jax.device_put(1.5, jax.devices()[3]))).devices()}
    assert third is jax.devices()[3]
    assert not unpacked(*packed(jnp.ones(3))).committed
    assert unpacked(*packed(P("x", P.UNCONSTRAINED))) == P("x", P.UNCONSTRAINED)


GOOD_MESH = packed(RING)[0]
WITHOUT_DEVICES = packed(RING.abstract_mesh)[0]
BAD_MESHES = [
    {"devices": [0] * 8}, {"devices": list(range(1, 9))}, {"devices": [0.0] * 8}, {"devices": 8}, {"devices": [0, 1]},
    {"devices": [True, *range(1, 8)]}, {"names": ["i", "i"], "shape": [4, 2], "types": ["Auto"] * 2}, {"names": [3]},
    {"names": "i"}, {"names": ["i" * 101]}, {"shape": [-8]}, {"shape": [8, 1]}, {"shape": [2**40], "devices": None},
    {"types": ["Sometimes"]}, {"types": [["Auto"]]}, {"shape": [8.0]}, {"names": [""]},
]  # fmt: skip


@pytest.mark.parametrize("change", BAD_MESHES, ids=json.dumps)
def test_a_mesh_of_other_devices_or_names_is_unreadable(change):
    with pytest.raises(Unreadable):
        unpacked(GOOD_MESH | {"here": True} | change, [])


BAD_ARRAYS = [
    {"parts": [0] * 8}, {"parts": list(range(7))}, {"parts": [9] * 8}, {"parts": 0}, {"shape": [65]}, {"shape": [63]},
    {"shape": [128]}, {"dtype": "float64"}, {"dtype": "object"}, {"layout": GOOD_MESH}, {"layout": 3},
    {"layout": {"is": "sharding", "mesh": GOOD_MESH, "spec": {"is": "spec", "v": ["j"]}}},
    {"layout": {"is": "sharding", "mesh": GOOD_MESH, "spec": {"is": "spec", "v": [None, "i"]}}},
    {"layout": {"is": "sharding", "mesh": WITHOUT_DEVICES, "spec": {"is": "spec", "v": []}}},
    {"layout": {"is": "sharding", "mesh": 3, "spec": {"is": "spec", "v": []}}},
    {"layout": {"is": "sharding", "mesh": GOOD_MESH, "spec": 3}}, {"weak": True, "dtype": "U1"},
]  # fmt: skip


@pytest.mark.parametrize("change", BAD_ARRAYS, ids=json.dumps)
def test_an_array_with_other_pieces_than_its_layout_is_unreadable(change):
    form, parts = packed(U)
    assert unpacked(form, parts).shape == (64,)
    if change == {"parts": [0] * 8}:
        parts[0] = parts[0][:-4]
    with pytest.raises(Unreadable):
        unpacked(form | change, parts)


def test_copies_that_would_need_too_much_memory_are_unreadable():
    form, parts = packed(place(np.ones(8, np.int8), RING, P()))
    big = bytes(2**26)
    with pytest.raises(Unreadable, match="too large"):
        unpacked(form | {"shape": [2**26]}, [big])
    with pytest.raises(Unreadable):
        unpacked(form | {"device": 99, "is": "jax", "part": 0}, parts)


# --- programs ---


def crossed(fn, *args):
    """The program of a function, as it arrives. Its rules of differentiation are lent, and are there to be asked."""
    rules = []

    def lend(value, pack):
        assert isinstance(value, programs.Rule)
        rules.append(value)
        return {"is": "lent", "number": len(rules) - 1}

    packer = Pack(lend, {})
    avals = [jax.ShapeDtypeStruct(np.shape(arg), np.asarray(arg).dtype) for arg in args]
    form = json.loads(json.dumps(programs.traced(fn, avals, packer)))
    borrow = lambda form, unpack: rules[form["number"]]  # noqa: E731
    return form, programs.Program(form, Unpack(packer.parts, borrow, names.harmless, {}))


def on_ring(out, **options):
    return lambda body: jax.shard_map(body, mesh=RING, in_specs=(P(), P("i")), out_specs=out, **options)


@on_ring((P("i"), P()))
def talk(w, x):
    left, mine = lax.ppermute(x, "i", NEXT), jnp.stack([x.mean(), x.var() * w])
    means, variances = lax.all_gather(mine, "i", axis=1, to="invarying")
    return left + lax.axis_index("i"), lax.psum(x.sum(), "i") + means.var() + lax.pmax(variances.max(), "i")


@on_ring((P("i"), P("i")), check_vma=False)
def exchange(w, x):
    every = lax.all_gather(x * w, "i", tiled=True)
    return lax.psum_scatter(every, "i", tiled=True), lax.all_to_all(every.reshape(8, 8), "i", 0, 0)


@on_ring(P("i"))
def loops(w, x):
    def step(carry, _):
        carry = lax.cond(carry.sum() > 9, lambda c: c * 2, lambda c: c + 1, carry)
        return carry * w + lax.ppermute(carry, "i", NEXT), None

    return lax.fori_loop(0, 2, lambda _, c: c + lax.pmean(c, "i"), lax.scan(step, x, None, length=3)[0])


@on_ring(P())
def own_rules(w, x):
    return lax.psum(jnp.sum(jax.nn.relu(x * w) + jax.nn.logsumexp(x * w)), "i")


@on_ring(P("i"))
def finds(w, x):
    return jnp.searchsorted(jnp.sort(x), x * w).astype(jnp.float32)


def gradient(w, x):
    return jax.grad(lambda w: own_rules(w, x) / x.size)(w)


def laid_out(w, x):
    cut, whole = (
        jax.device_put(lax.with_sharding_constraint(x * w, U.sharding), NamedSharding(RING, s)) for s in (P("i"), P())
    )
    return jnp.roll(cut, 1), whole


PROGRAMS = [talk, exchange, loops, own_rules, finds, gradient, laid_out]
PROGRAMS += [jax.jit(lambda w, x: w * x, out_shardings=U.sharding)]
PROGRAMS += [jax.jit(lambda w, x: w + x, in_shardings=(None, NamedSharding(RING, P("i"))))]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: getattr(fn, "__name__", "f"))
def test_a_program_for_eight_devices_is_the_same_one(fn):
    args = np.float32(0.5), U / 64
    _, program = crossed(jax.jit(fn), *args)
    for wrap in (jax.jit, lambda fn: fn):
        found, true = (jax.tree.leaves(wrap(one)(*args)) for one in (program, jax.jit(fn)))
        for here, there in zip(found, true, strict=True):
            np.testing.assert_allclose(here, there, rtol=1e-5)
            assert here.sharding.is_equivalent_to(there.sharding, here.ndim)
    found, true = (hlo(jax.jit(lambda *args, one=one: one(*args)), *args).module.collectives for one in (program, fn))
    assert found == true


@pytest.mark.parametrize("fn", [loops])
def test_it_is_differentiated_as_it_would_be_there(fn):
    _, program = crossed(jax.jit(fn), np.float32(0.5), U / 64)
    found, true = (jax.grad(lambda w, one=one: jnp.sum(one(w)))(0.5) for one in
                   (lambda w: program(w, U / 64)[0], lambda w: fn(w, U / 64)))  # fmt: skip
    np.testing.assert_allclose(found, true, rtol=1e-5)


def test_what_a_program_says_of_devices_is_looked_at():
    form, program = crossed(jax.jit(talk), np.float32(0.5), U)
    outer = form["boxes"][form["equations"][0]["box"]]["equations"][0]
    inside = {eqn["do"]: eqn for eqn in outer["body"]["equations"]}
    sends, gathers = inside["ppermute"]["params"], inside["all_gather_invariant"]["params"]

    def pairs(*pairs):
        return {"is": "tuple", "v": [{"is": "tuple", "v": list(pair)} for pair in pairs]}

    changes = [
        (sends, "perm", pairs(*bad)) for bad in ([(0, 8)], [(0, 1), (0, 2)], [(0, 1), (2, 1)], [(-1, 0)], [(0,)])
    ]
    changes += [
        (sends, "perm", pairs((True, 0))),
        (sends, "perm", 3),
        (sends, "axis_name", 3),
        (sends, "axis_name", "j"),
    ]
    changes += [(gathers, "axis_size", 4), (gathers, "axis_index_groups", pairs((0, 1))), (outer, "mesh", 3)]
    changes += [
        (outer, "axes", ["j"]),
        (outer, "axes", []),
        (outer, "axes", "i"),
        (outer, "in", []),
        (outer, "out", [3, 3]),
    ]
    changes += [
        (outer, "mesh", GOOD_MESH | {"devices": [0]}),
        (form["equations"][0], "out", [None]),
        (outer, "body", {}),
    ]
    changes += [(form["equations"][0], "in", [3, 3]), (form["equations"][0], "out", [GOOD_MESH, None])]
    for home, key, value in changes:
        was = home.get(key)
        home[key] = value
        with pytest.raises((Unreadable, TypeError, ValueError)):
            jax.make_jaxpr(program)(0.5, U)
        home.pop(key) if was is None else home.update({key: was})
    assert jax.make_jaxpr(program)(0.5, U)


def test_a_collective_of_groups_an_effect_and_a_layout_without_names_cannot_cross():
    groups = [[0, 1], [2, 3, 4, 5, 6, 7]]

    @functools.partial(on_ring(P("i"), check_vma=False))
    def of_groups(w, x):
        return lax.psum(x * w, "i", axis_index_groups=groups)

    @on_ring(P("i"))
    def tells(w, x):
        io_callback(np.asarray, None, w)
        return x

    def on_one(w, x):
        return jax.device_put(x, jax.devices()[2])

    for fn in (tells, on_one):
        with pytest.raises(CannotCross):
            crossed(fn, np.float32(0.5), U)
    with pytest.raises((CannotCross, NotImplementedError, ValueError)):  # JAX itself may refuse
        crossed(of_groups, np.float32(0.5), U)


# --- what JAX may move ---


def test_a_mesh_without_devices_is_told_apart_by_the_devices_that_it_was_made_of():
    from autograder import jax_internals

    assert jax_internals.has_devices(RING.abstract_mesh)
    with jax_internals.on_each_device(RING, "i", checked=True):
        inside = jax.sharding.get_abstract_mesh()
    assert inside.axis_types == (AxisType.Manual,) and jax_internals.has_devices(inside)
