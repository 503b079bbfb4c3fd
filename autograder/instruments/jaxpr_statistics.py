"""Statistics of a jaxpr: its primitives, its FLOPs (see `flops`) and its largest value.

The largest is the largest value that an equation produces, in elements. Inputs and constants do not count.
"""

from collections import Counter
from dataclasses import dataclass

from jax.extend.core import ClosedJaxpr, DropVar, Jaxpr

from .flops import cost_of
from .read_jaxpr import Aval, elements, equations, live_equations, type_name


@dataclass(frozen=True)
class JaxprStatistics:
    """Counts over a whole jaxpr. `largest_size` is in elements, `flops_lower_bound` says that some part is unknown.

    `live` are the equations that lead to a result.
    """

    primitives: Counter[str]
    live: int
    flops: int
    flops_lower_bound: bool
    largest: str
    largest_size: int

    @property
    def equations(self) -> int:
        return self.primitives.total()


def statistics(jaxpr: Jaxpr | ClosedJaxpr) -> JaxprStatistics:
    """Count a jaxpr, under the conventions of `read_jaxpr` and `flops`."""
    found = list(equations(jaxpr))
    produced = [variable.aval for eqn in found for variable in eqn.outvars if not isinstance(variable, DropVar)]
    # Of equally many elements the widest dtype: bool[1000] is not what fills the memory.
    largest = max(produced, key=lambda aval: (elements(aval), _item_bytes(aval)), default=None)
    flops, exact = cost_of(jaxpr)
    return JaxprStatistics(
        primitives=Counter(eqn.primitive.name for eqn in found),
        live=live_equations(jaxpr),
        flops=flops,
        flops_lower_bound=not exact,
        largest="nothing" if largest is None else type_name(largest),
        largest_size=0 if largest is None else elements(largest),
    )


def _item_bytes(aval: Aval) -> int:
    return getattr(getattr(aval, "dtype", None), "itemsize", 0)
