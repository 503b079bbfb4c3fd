"""Pallas kernels between the box and the judge: they arrive as they were, and what is no honest kernel is refused."""

import copy
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from autograder import kernel_blocks
from autograder.doors.judge import names, programs
from autograder.doors.judge.values import CannotCross, Pack, Unpack, Unreadable
from autograder.jax_internals import jaxpr_text

pytestmark = pytest.mark.once
X = jnp.arange(96.0).reshape(12, 8)
ROWS = pl.BlockSpec((4, 8), lambda i: (i, 0))


def refuse(value, pack):
    raise CannotCross(type(value).__name__)


def told(fn, *args):
    """A program as it travels, and the bytes beside it."""
    packer = Pack(refuse, {})
    form = programs.traced(lambda *values: jax.tree.leaves(fn(*values)), list(args), packer)
    return json.loads(json.dumps(form)), packer.parts


def read(form, parts=()):
    return programs.Program(form, Unpack(list(parts), refuse, names.harmless, {}))


def interpreted(kernel, **options):
    given = {"grid": (3,), "in_specs": [ROWS], "out_specs": ROWS, "out_shape": X, "interpret": True}
    return pl.pallas_call(kernel, **(given | options))


# --- kernels ---


def copied(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def by_places(x_ref, o_ref):
    i = pl.program_id(0)
    o_ref[...] = jax.nn.softmax(x_ref[...])
    o_ref[0, :] = x_ref[3, :] + i
    o_ref[pl.ds(i % 4, 1), jnp.arange(2)] = jnp.ones((1, 2))
    o_ref[pl.ds(0, 2, stride=2), :] = x_ref[1:3, :]
    o_ref[3, 1:5] = x_ref[pl.ds(0, 4), 5]
    o_ref[pl.ds(pl.multiple_of(i * 2, 2) % 4, 2), :] *= 2


def with_loops(x_ref, o_ref):
    def row(r, total):
        o_ref[r, :] = x_ref[r, :] * total
        return total + 1

    def more(r, _):
        o_ref[0, r] += x_ref[r % 4, 0]

    o_ref[...] = jnp.zeros_like(o_ref)
    jax.lax.fori_loop(0, 4, row, 1.0)
    jax.lax.fori_loop(0, pl.program_id(0), more, None)
    jax.jit(lambda ref, by: ref.__setitem__((3, slice(None)), ref[3, :] * by))(o_ref, 2.0)

    @pl.when(pl.program_id(0) == 1)
    def _():
        o_ref[2, :] = jnp.full(8, -1.0)

    o_ref[1, :] = jax.lax.cond(pl.program_id(0) > 0, lambda: x_ref[0, :], lambda: x_ref[2, :] + 0.5)
    jax.lax.switch(pl.program_id(0), [lambda ref=o_ref, k=k: ref.__setitem__((0, k), 1.0 * k) for k in range(3)])


def with_scratch(x_ref, o_ref, total_ref, count_ref):
    @pl.when(pl.program_id(0) == 0)
    def _():
        total_ref[...] = jnp.zeros_like(total_ref)
        count_ref[0] = 0

    total_ref[...] += x_ref[...].sum(0, keepdims=True)
    count_ref[0] += 1
    o_ref[...] = x_ref[...] * total_ref[...] + count_ref[0]


def scoped(x_ref, o_ref):
    def inside(kept_ref):
        kept_ref[...] = x_ref[...] * 2
        o_ref[...] = kept_ref[...].max(0, keepdims=True) + x_ref[...]

    pl.run_scoped(inside, pltpu.VMEM((4, 8), jnp.float32))


def masked(x_ref, o_ref):
    there = jnp.arange(8)[None] < 3 + jnp.arange(4)[:, None]
    found = pltpu.load(x_ref, mask=jnp.ones((4, 8), bool))
    o_ref[...] = jnp.zeros((4, 8))
    pltpu.store(o_ref, found, mask=there)


def adds(x_ref, o_ref):
    o_ref[...] = x_ref[...]
    jax.ref.addupdate(o_ref, (0, slice(None)), x_ref[1, :])


def prefetched():
    def kernel(order_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] + order_ref[pl.program_id(0)]

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(3,),
        in_specs=[pl.BlockSpec((4, 8), lambda i, order_ref: (order_ref[i], 0))],
        out_specs=pl.BlockSpec((4, 8), lambda i, order_ref: (i, 0)),
    )
    call = pl.pallas_call(kernel, X, grid_spec=spec, interpret=True)
    return lambda x: call(jnp.array([2, 0, 1]), x)


def two_results(x_ref, o_ref, sums_ref):
    o_ref[...] = -x_ref[...]
    sums_ref[...] = x_ref[...].sum(1, keepdims=True)


def a_row(x_ref, o_ref):
    o_ref[...] = x_ref[...] * (1 + pl.program_id(0))


SNAKE = pl.BlockSpec((2, 8), lambda i, j: (jnp.where(i % 2 == 0, j, 5 - j), 0))
ROW, FIVE = pl.BlockSpec((None, 8), lambda i: (i, 0)), pl.BlockSpec((5, 8), lambda i: (i, 0))
PAIRS = pl.BlockSpec((4,), lambda i: (i,))
OF_A_ROW = interpreted(a_row, grid=(2,), in_specs=[PAIRS], out_specs=PAIRS, out_shape=X[0])
COLUMN = pl.BlockSpec((4, 1), lambda i: (i, 0))
KERNELS = {
    "places": interpreted(by_places),
    "loops": interpreted(with_loops),
    "scratch": interpreted(with_scratch, scratch_shapes=[pltpu.VMEM((1, 8), jnp.float32), pltpu.SMEM((1,), jnp.int32)]),
    "run_scoped": interpreted(scoped),
    "masks": interpreted(masked),
    "addupdate": interpreted(adds),
    "no grid": pl.pallas_call(copied, out_shape=X, interpret=True, name="by hand"),
    "a snake": interpreted(copied, grid=(2, 6), in_specs=[SNAKE], out_specs=SNAKE),
    "squeezed": interpreted(copied, grid=(12,), in_specs=[ROW], out_specs=ROW),
    "padded": interpreted(copied, in_specs=[FIVE], out_specs=FIVE),
    "by elements": interpreted(copied, in_specs=[pl.BlockSpec((pl.Element(4), pl.Element(8)), lambda i: (2 * i, 0))]),
    "any memory": interpreted(copied, in_specs=[pl.BlockSpec((4, 8), lambda i: (i, 0), memory_space=pl.ANY)]),
    "two results": interpreted(
        two_results, out_specs=[ROWS, COLUMN], out_shape=[X, jax.ShapeDtypeStruct((12, 1), jnp.float32)]
    ),
    "aliased": interpreted(copied, input_output_aliases={0: 0}),
    "scalars first": prefetched(),
    "vmapped": jax.vmap(OF_A_ROW),
    "twice vmapped": jax.vmap(lambda x: jax.vmap(OF_A_ROW)(x.reshape(1, 8).repeat(2, 0))),
    "jitted": jax.jit(lambda x: interpreted(copied)(x) + 1),
}  # fmt: skip


def outline(jaxpr):
    """What a program does, without the names that JAX gives to its parts when it prints them."""
    found = []
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        inner = [p for value in eqn.params.values() for p in (value if isinstance(value, tuple) else (value,))]
        parts = [outline(program) for program in inner if hasattr(program, "eqns")]
        kinds = [[str(v.aval) for v in variables] for variables in (eqn.invars, eqn.outvars)]
        found.append((eqn.primitive.name, kinds, len(eqn.effects), parts))
    return found


def equations(jaxpr):
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "pallas_call":
            yield eqn
        for inner in eqn.params.values():
            if hasattr(inner, "eqns") and eqn.primitive.name in ("jit", "pjit"):
                yield from equations(getattr(inner, "jaxpr", inner))


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_arrives_as_it_was(name):
    fn, arrived = KERNELS[name], read(*told(KERNELS[name], X))
    here = jax.make_jaxpr(arrived)(X)
    there = jax.make_jaxpr(lambda x: jax.tree.leaves(fn(x)))(X)
    assert outline(here) == outline(there)
    if name not in ("places", "vmapped", "twice vmapped"):  # a program that stands there twice; axes are renumbered
        assert jaxpr_text(here) == jaxpr_text(there)
    for one, other in zip(jax.jit(arrived)(X), jax.tree.leaves(jax.jit(fn)(X)), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    for one, other in zip(equations(here.jaxpr), equations(there.jaxpr), strict=True):
        if name != "scalars first":
            assert str(kernel_blocks(one)) == str(kernel_blocks(other))
        assert [str(v.aval) for v in one.params["jaxpr"].invars] == [str(v.aval) for v in other.params["jaxpr"].invars]


def test_a_kernel_that_has_arrived_is_traced_further():
    arrived = read(*told(KERNELS["scratch"], X))
    tables = jnp.stack([X, -X, X + 1])
    for one, other in zip(jax.vmap(arrived)(tables)[0], jax.vmap(KERNELS["scratch"])(tables), strict=True):
        np.testing.assert_array_equal(one, other)
    again = read(*told(lambda x: arrived(x), X))
    np.testing.assert_array_equal(jax.jit(again)(X)[0], KERNELS["scratch"](X))


def asks_the_host(x_ref, o_ref):
    o_ref[...] = jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((4, 8), jnp.float32), x_ref[...])


def prints(x_ref, o_ref):
    jax.debug.print("{}", x_ref[0, 0])
    copied(x_ref, o_ref)


def seen_in_another_way(x_ref, o_ref):
    o_ref[...] = x_ref.reshape(8, 4)[...].reshape(4, 8)


def as_a_mesh_does(x_ref, o_ref):
    o_ref[...] = x_ref[...] + jax.lax.axis_index("rows")


STAYING = {
    "pure_callback": interpreted(asks_the_host),
    "effects": interpreted(prints),
    "interpret other than True": interpreted(copied, interpret=False),
    "a grid that depends": lambda x: interpreted(copied, grid=(x[0, 0].astype(int),))(x),
    "named axes": interpreted(as_a_mesh_does, grid=(("rows", 3),)),
    "in another way": interpreted(seen_in_another_way),
}


@pytest.mark.parametrize("why", STAYING)
def test_a_kernel_that_reaches_out_or_has_no_form_stays(why):
    with pytest.raises(CannotCross, match=why):
        told(STAYING[why], X)


def test_a_program_that_changes_what_it_is_given_stays():
    with pytest.raises(CannotCross):
        programs.traced(lambda ref: [ref[...]], [jax.new_ref(X)], Pack(refuse, {}))
    with pytest.raises(CannotCross):
        told(lambda x: jax.new_ref(x)[...], X)
    with pytest.raises(Unreadable):
        programs.of_aval({"memory": [4, 8]})


# --- a box that is hostile ---


def the_kernel(form):
    return form["equations"][0]


def its(form, what):
    return next(eqn for eqn in the_kernel(form)["body"]["equations"] if eqn["do"] == what)


def index_of(form):
    return its(form, "get")["index"][0]


HOSTILE = {
    "steps without end": lambda form: the_kernel(form).update(grid=[10**5, 10**5]),
    "a negative grid": lambda form: the_kernel(form).update(grid=[-1]),
    "a grid that is no list": lambda form: the_kernel(form).update(grid=3),
    "a step that is true": lambda form: the_kernel(form).update(grid=[True]),
    "more arrays": lambda form: the_kernel(form).update(arrays=2),
    "scalars that are not there": lambda form: the_kernel(form).update(scalars=1),
    "no block": lambda form: the_kernel(form).update(blocks=[]),
    "a block of no length": lambda form: the_kernel(form)["blocks"][0].update(shape=[0, 8]),
    "a block of another kind": lambda form: the_kernel(form)["blocks"][0].update(shape=[{"Buffered": 3}, 8]),
    "a block by elements before 0": lambda form: the_kernel(form)["blocks"][0].update(
        shape=[{"elements": 4, "padding": [-1, 0]}, 8]
    ),
    "an index map that is none": lambda form: the_kernel(form)["blocks"][0].update(index={}),
    "an index map of one argument more": lambda form: the_kernel(form)["blocks"][0]["index"]["inputs"].append({}),
    "memory of the host": lambda form: the_kernel(form)["blocks"][0].update(space="host"),
    "memory by the name of a function": lambda form: the_kernel(form)["blocks"][0].update(space="CompilerParams"),
    "a semaphore": lambda form: the_kernel(form).update(scratch=[{"shape": [], "dtype": "dma_sem", "space": "vmem"}]),
    "scratch nowhere": lambda form: the_kernel(form).update(scratch=[{"shape": [], "dtype": "int32", "space": None}]),
    "scratch of objects": lambda form: the_kernel(form).update(
        scratch=[{"shape": [1], "dtype": "object", "space": "smem"}]
    ),
    "an alias of a name": lambda form: the_kernel(form).update(aliases=[["x", 0]]),
    "no body": lambda form: the_kernel(form).update(body={}),
    "a body of fewer arguments": lambda form: the_kernel(form)["body"]["inputs"].pop(),
    "a callback in the body": lambda form: its(form, "get").update(do="pure_callback", params={}),
    "another primitive of Pallas": lambda form: its(form, "get").update(do="semaphore_signal", params={}),
    "memory that is none": lambda form: its(form, "swap").update(inputs=its(form, "swap")["inputs"][::-1]),
    "an operand that is not there": lambda form: index_of(form).update(axes=[{"at": 7}, {"at": 7}]),
    "an operand by name": lambda form: index_of(form).update(axes=[{"at": "x"}, {"at": 7}]),
    "too short an index": lambda form: index_of(form)["axes"].pop(),
    "a slice that begins before 0": lambda form: index_of(form)["axes"].__setitem__(0, [-4, 4, 1]),
    "a slice that goes back": lambda form: index_of(form)["axes"].__setitem__(0, [3, 4, -1]),
    "a size in words": lambda form: index_of(form)["axes"].__setitem__(0, [0, "4", 1]),
    "a step outside of a kernel": lambda form: the_kernel(form).update(do="program_id", axis=0),
    "an axis that is not there": lambda form: its(form, "program_id").update(axis=5),
    "reading outside of a kernel": lambda form: the_kernel(form).update(do="get", index=[]),
}  # fmt: skip


def steps(x_ref, o_ref):
    o_ref[0:4, :] = x_ref[0:4, :] * pl.program_id(0)


@pytest.mark.parametrize("change", HOSTILE)
def test_what_no_honest_box_would_say_of_a_kernel_is_unreadable(change):
    form, parts = told(interpreted(steps), X)
    np.testing.assert_array_equal(jax.jit(read(form, parts))(X)[0], interpreted(steps)(X))
    other = copy.deepcopy(form)
    HOSTILE[change](other)
    with pytest.raises(Unreadable):
        jax.make_jaxpr(read(other, parts))(X)


def test_an_index_beyond_the_end_reads_no_other_memory():
    """The interpreter's slices stay within the array."""
    form, parts = told(interpreted(copied, out_specs=pl.BlockSpec((4, 8), lambda i: (0, 0))), X)
    form["equations"][0]["blocks"][0]["index"]["outputs"][0] = {
        "literal": Pack(refuse, {}).pack(10**6), "weak": True,
    }  # fmt: skip
    with pytest.raises(Unreadable):  # a literal is an array of no axes
        jax.jit(read(form, parts))(X)
    far = interpreted(copied, in_specs=[pl.BlockSpec((4, 8), lambda i: (i + 10**6, 0))])
    found = np.asarray(jax.jit(read(*told(far, X)))(X)[0])
    assert np.isin(found, X).all()


def test_a_kernel_is_interpreted_whatever_the_box_says():
    form, parts = told(interpreted(copied), X)
    form["equations"][0] |= {"interpret": False, "compiler_params": {"is": "named", "v": ["os", "system"]}}
    (found,) = jax.make_jaxpr(read(form, parts))(X).jaxpr.eqns
    assert found.params["interpret"] is True and found.params["compiler_params"] is None
