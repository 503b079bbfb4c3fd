"""A context in which JAX finds nothing in its caches, so that an instrument can look without leaving a trace."""

import itertools
from contextlib import AbstractContextManager

from autograder.jax_internals import in_every_key

_tokens = itertools.count()


def fresh_caches() -> AbstractContextManager:
    """A context in which every trace, lowering and compilation is made anew.

    Each time it has a new token, which no key in any cache holds yet (`jax_internals.in_every_key`). Nothing is
    evicted: what was cached outside is still cached afterwards, and what is traced inside is not found outside. So an
    instrument sees the function as it is now (new values of globals included), and does not change how often a later
    call traces.
    """
    return in_every_key(next(_tokens))
