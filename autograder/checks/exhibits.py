"""What a check that failed can show besides its message: the evidence as a table or a picture, as HTML.

They are made when somebody looks at them in a notebook, and then once; see `CheckFailed`.
"""

from collections.abc import Callable, Collection, Sequence
from html import escape

from jax.extend.core import ClosedJaxpr, JaxprEqn

from autograder.instruments import read_hlo
from autograder.instruments.graphs.graph import Graph, fits, picture
from autograder.instruments.graphs.of_hlo import HloGraph
from autograder.instruments.graphs.of_jaxpr import JaxprGraph

_SCROLLS = '<div style="overflow-x:auto">{}</div>'


def retraces(reasons: Sequence[str]) -> Callable[[], str]:
    """A row for each trace: the argument that was to blame, and what it was before and then.

    reasons  as in `TraceLog.reasons`: "steps: static 1 -> static 10".
    """

    def table() -> str:
        head = "".join(f'<th style="text-align:left">{name}</th>' for name in ("trace", "because of", "before", "then"))
        rows = "".join(f"<tr><td>{i}</td>{_cells(reason)}</tr>" for i, reason in enumerate(reasons, 1))
        return _SCROLLS.format(f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>")

    return table


def _cells(reason: str) -> str:
    first, *more = reason.split("; ")
    name, _, change = first.partition(": ")
    before, arrow, then = change.partition(" -> ")
    cell = '<td style="text-align:left">{}</td>'.format
    if not arrow:
        return f'<td colspan="3" style="text-align:left">{escape(reason)}</td>'
    also = f" <small>({escape('; '.join(more))})</small>" if more else ""
    parts = (f"<b>{escape(name)}</b>", f"<code>{escape(before)}</code>", f"<code>{escape(then)}</code>{also}")
    return "".join(map(cell, parts))


def marked_jaxpr(name: str, jaxpr: ClosedJaxpr, guilty: Collection[JaxprEqn]) -> Callable[[], str]:
    """The graph of a jaxpr with these equations marked; nothing if it is too large to be drawn."""

    def draw() -> str:
        wanted = {id(eqn) for eqn in guilty}
        return _picture(JaxprGraph(jaxpr, lambda eqn: id(eqn) in wanted), f"the jaxpr of {name}")

    return draw


def before_and_after(
    name: str, fn: Callable, args: tuple, optimized: read_hlo.Module, guilty: Collection[str] = ()
) -> Callable[[], str]:
    """The graphs of the HLO that XLA was given and of what it made of it, with these operations marked."""

    def draw() -> str:
        lowered = read_hlo.hlo(fn, *args, stage="lowered").module
        before = _picture(HloGraph(lowered, guilty), f"{name}, as XLA was given it")
        after = _picture(HloGraph(optimized, guilty), f"{name}, as XLA made it: a box is a fusion")
        return f'<div style="display:flex;flex-wrap:wrap;gap:1em;align-items:flex-start">{before}{after}</div>'

    return draw


def _picture(graph: Graph, title: str) -> str:
    graph.root.title = title
    return _SCROLLS.format(picture(graph)) if fits(graph) else ""
