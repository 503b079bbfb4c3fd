"""`show_jaxpr` and `show_hlo`: a program as a picture in a notebook, as text elsewhere, and as counts."""

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from jax.extend.core import ClosedJaxpr, JaxprEqn

from autograder.instruments.graphs.graph import Graph, drawn, picture
from autograder.instruments.graphs.of_hlo import HloGraph
from autograder.instruments.graphs.of_jaxpr import JaxprGraph
from autograder.jax_internals import jaxpr_text
from autograder.wording import count

from . import read_hlo, read_jaxpr
from .jaxpr_statistics import statistics
from .watch_functions import function_name

MAX_LINES = 60


class _View:
    """What a picture has in common: SVG where it can be shown, text where it cannot."""

    text: str

    def graph(self) -> Graph:
        raise NotImplementedError

    @property
    def svg(self) -> str:
        return picture(self.graph())

    def summary(self) -> str:
        raise NotImplementedError

    def _readable(self) -> str:
        return self.text

    def __str__(self) -> str:
        lines = self._readable().strip().splitlines()
        if len(lines) > MAX_LINES:
            lines[MAX_LINES:] = [f"... {len(lines) - MAX_LINES} more lines; .text has all of it"]
        return "\n".join([*lines, self.summary()])

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        # JupyterLab takes the HTML, in which a picture has a description; other programs may know images alone.
        svg = self.svg
        page = f'<div style="overflow-x:auto">{svg}</div>'
        return {"text/html": page, "image/svg+xml": svg, "text/plain": str(self)}


class JaxprView(_View):
    """A jaxpr and its counts; see `read_jaxpr` and `flops` for what counts how.

    primitives: Counter of names, into every sub-jaxpr. equations: int. flops: int, loop lengths multiplied;
    flops_lower_bound: whether part of it cannot be known. largest: type of the largest intermediate,
    "float32[1000,1000]"; largest_size: its elements. text: the jaxpr as JAX prints it. svg: the picture.
    """

    def __init__(self, name: str, jaxpr: ClosedJaxpr):
        counts = statistics(jaxpr)
        self.name = name
        self.jaxpr = jaxpr
        self.primitives: Counter[str] = counts.primitives
        self.equations: int = counts.equations
        self.flops: int = counts.flops
        self.flops_lower_bound: bool = counts.flops_lower_bound
        self.largest: str = counts.largest
        self.largest_size: int = counts.largest_size
        self.text = jaxpr_text(jaxpr)

    def graph(self, marked: Callable[[JaxprEqn], bool] | None = None) -> Graph:
        """What is drawn; equations for which `marked` holds stand out."""
        return drawn(JaxprGraph(self.jaxpr, marked), f"{self.name}: {self.summary()}", self.primitives)

    def summary(self) -> str:
        least = "at least " if self.flops_lower_bound else ""
        return (
            f"{count(self.equations, 'equation')}, {least}{count(self.flops, 'FLOP')}, "
            f"largest intermediate {self.largest}"
        )


class HloView(_View):
    """The HLO of one stage; see `read_hlo` for what counts how.

    ops: Counter of HLO operations. fusions: int. collectives: Counter. bytes, flops, temp_bytes: XLA's estimates, or
    None; with loops=True a loop's body is counted once in them. text: as XLA prints it. svg: the picture.
    """

    def __init__(self, name: str, hlo: read_hlo.Hlo):
        self.name = name
        self.stage = hlo.stage
        self.module = hlo.module
        self.ops: Counter[str] = hlo.module.ops
        self.fusions: int = hlo.module.fusions
        self.collectives: Counter[str] = hlo.module.collectives
        self.loops: bool = hlo.module.loops
        self.bytes: int | None = hlo.bytes
        self.flops: int | None = hlo.flops
        self.temp_bytes: int | None = hlo.temp_bytes
        self.text = hlo.text

    def graph(self, marked: Collection[str] = ()) -> Graph:
        """What is drawn; operations of these names stand out."""
        return drawn(HloGraph(self.module, marked), f"{self.name}, {self.stage}: {self.summary()}", self.ops)

    def summary(self) -> str:
        parts = [count(self.ops.total(), "op")]
        if self.stage == "optimized":
            parts.append(count(self.fusions, "fusion"))
        if self.collectives:
            parts.append(count(self.collectives.total(), "collective"))
        if self.bytes is not None:
            once = " (each loop counted once)" if self.loops else ""
            parts.append(f"{self.bytes:,} bytes accessed{once}")
        return ", ".join(parts)

    def _readable(self) -> str:
        return read_hlo.tidy(self.text)


def show_jaxpr(fn: Callable, *args: Any) -> JaxprView:
    """The jaxpr of `fn(*args)`: a graph in a notebook, text elsewhere, and counts to compute with.

    fn    jitted, with static arguments too, or plain.
    args  its arguments, as for a call. Of an array only the type counts: float32[8,4].

    Returns a `JaxprView`: `primitives` (a Counter of names), `equations`, `flops` (floating-point operations, loop
    lengths multiplied; a lower bound where `flops_lower_bound` says so), `largest` and `largest_size` (the type and the
    number of elements of the largest intermediate), `text`, `svg` (the picture).

    Looking changes nothing: the function is traced for itself, and its next call traces or hits the cache as it would
    have done anyway (`jax.make_jaxpr`, in contrast, shares the tracing cache of `jit`). Errors that `fn` raises under a
    tracer are JAX's own.

    Source: FLOPs follow XLA's HloCostAnalysis; `autograder.instruments.flops` says where they depart from it.
    """
    return JaxprView(function_name(fn), read_jaxpr.trace(fn, *args))


def show_hlo(fn: Callable, *args: Any, stage: read_hlo.Stage = "optimized") -> HloView:
    """The HLO of `fn(*args)`: before ("lowered") or after ("optimized") XLA's passes.

    fn     jitted, with static arguments too, or plain; a plain function is jitted first.
    args   its arguments, as for a call. Of an array only the type counts, and how it is laid out over devices.
    stage  "lowered" or "optimized".

    Returns an `HloView`: a graph in a notebook, each fusion a box that holds its operations; text elsewhere. It has
    `ops` and `collectives` (Counters of HLO operations), `fusions`, `loops` (whether there is one), `text`, `svg`,
    and XLA's estimates, each None where this backend gives none: `bytes` read and written, `flops` without
    transcendental functions, `temp_bytes` of scratch memory. They count the body of a loop once.

    The caches of `fn` are left alone, as by `show_jaxpr`. Raises ValueError for another stage. Errors that `fn` raises
    under a tracer are JAX's own.

    Source: `lower`, `compile`, `as_text`, `cost_analysis` and `memory_analysis` of `jax.stages`.
    """
    return HloView(function_name(fn), read_hlo.hlo(fn, *args, stage=stage))
