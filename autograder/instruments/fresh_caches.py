"""A context in which JAX finds nothing in its caches, so that an instrument can look without leaving a trace."""

import itertools

import jax
import jax.extend  # noqa: F401 (in JAX 0.12 this import empties all caches: do it first)

# A user context belongs to the key of every cache of JAX as soon as it exists. Made in the middle of a session, it
# would have each function compiled so far traced and compiled once more. So it is made when this module is imported,
# which the first use of any public name does.
_context = jax.make_user_context(None)
_tokens = itertools.count()


def fresh_caches():
    """A context in which every trace, lowering and compilation is made anew.

    Each time it is a user context with a new value, which no key in any cache has. Nothing is evicted: what was cached
    outside is still cached afterwards, and what is traced inside is not found outside. So an instrument sees the
    function as it is now (new values of globals included), and does not change how often a later call traces.
    """
    return _context(next(_tokens))
