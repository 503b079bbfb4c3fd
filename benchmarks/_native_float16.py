"""A processor that this machine may not have: one with arithmetic of its own for float16, fused multiply-add included.

`emulate()` replaces `jax.jit`. A function that is called with float16 arrays is then computed as such a processor does:
a product whose only use is a sum or a difference is not rounded on its way there. (The product of two float16 fits into
a float32. So the sum in float32, narrowed, is the fused result, but for a second rounding in rare cases.) Compiled
without XLA's pass `fusion`, and for every other dtype, it is the function that JAX compiles.
(Results below float16's normal numbers become 0 here, and not on such a processor.)
"""

import functools
from collections import Counter

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Var


def joining(fn, *args, **kwargs):
    """fn(*args, **kwargs), computed with fused multiply-adds. args, kwargs: trees of float16[...]."""
    closed, shape = jax.make_jaxpr(fn, return_shape=True)(*args, **kwargs)
    tape = closed.jaxpr
    same: dict[Var, Var] = {}  # what is written twice is computed once
    factors: dict[Var, list] = {}  # of each product
    uses, equations = Counter(), []

    def first(atom):
        return same.get(atom, atom) if isinstance(atom, Var) else atom

    for eqn in tape.eqns:
        ins = [first(atom) for atom in eqn.invars]
        if eqn.primitive.name == "mul":
            (product,) = eqn.outvars
            known = next((other for other, pair in factors.items() if pair == ins), None)
            if known is not None:
                same[product] = known
                continue
            factors[product] = ins
        uses.update(atom for atom in ins if isinstance(atom, Var))
        equations.append((eqn, ins))

    values = dict(zip(tape.invars, jax.tree.leaves((args, kwargs)), strict=True))
    values |= dict(zip(tape.constvars, closed.consts, strict=True))

    def read(atom):
        return values[first(atom)] if isinstance(atom, Var) else atom.val

    for eqn, ins in equations:
        joined = [place for place, atom in enumerate(ins) if isinstance(atom, Var) and atom in factors]
        joined = [place for place in joined if uses[ins[place]] == 1][:1]
        if eqn.primitive.name in ("add", "sub") and joined:
            wide = [read(atom).astype(jnp.float32) for atom in ins]
            one, other = (read(factor).astype(jnp.float32) for factor in factors[ins[joined[0]]])
            wide[joined[0]] = one * other
            # Rounded once, here: XLA might leave out a mere conversion there and back.
            out = [lax.reduce_precision(eqn.primitive.bind(*wide), 5, 10).astype(jnp.float16)]
        else:
            out = eqn.primitive.bind(*map(read, ins), **eqn.params)
            out = out if eqn.primitive.multiple_results else [out]
        values.update(zip(eqn.outvars, out, strict=True))
    return jax.tree.unflatten(jax.tree.structure(shape), [read(atom) for atom in tape.outvars])


def emulate() -> None:
    """Replace `jax.jit` in this process, for good."""
    compile_ = jax.jit

    def jit(fn=None, **options):
        if fn is None:
            return functools.partial(jit, **options)
        if "fusion" in (options.get("compiler_options") or {}).get("xla_disable_hlo_passes", "").split(","):
            return compile_(fn, **options)

        @functools.wraps(fn)
        def body(*args, **kwargs):
            leaves = jax.tree.leaves((args, kwargs))
            half = leaves and all(getattr(leaf, "dtype", None) == jnp.float16 for leaf in leaves)
            return joining(fn, *args, **kwargs) if half else fn(*args, **kwargs)

        return compile_(body, **options)

    jax.jit = jit
