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

_CELL = "text-align:left;padding:.1em 1.2em .1em 0"
_SCROLLS = '<div style="overflow-x:auto">{}</div>'


def retraces(traces: Sequence[tuple[str, str]]) -> Callable[[], str]:
    """A row for each trace: the argument that was to blame, and what it was before and then.

    traces  the function's name, empty where only one is followed, and the reason: "steps: static 1 -> static 10".
    """

    def table() -> str:
        named = any(name for name, _ in traces)
        names = ["trace", *["of"] * named, "because of", "before", "then"]
        head = "".join(f'<th style="{_CELL}">{name}</th>' for name in names)
        rows = []
        for i, (function, reason) in enumerate(traces, 1):
            of = [f"<code>{escape(function)}</code>"] if named else []
            before = "".join(f'<td style="{_CELL}">{part}</td>' for part in (str(i), *of))
            rows.append(f"<tr>{before}{_cells(reason)}</tr>")
        return _SCROLLS.format(f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>")

    return table


def _cells(reason: str) -> str:
    first, *more = reason.split("; ")
    name, _, change = first.partition(": ")
    before, arrow, then = change.partition(" -> ")
    if not arrow:
        return f'<td colspan="3" style="{_CELL}">{escape(reason)}</td>'
    also = f" <small>({escape('; '.join(more))})</small>" if more else ""
    parts = (f"<b>{escape(name)}</b>", f"<code>{escape(before)}</code>", f"<code>{escape(then)}</code>{also}")
    return "".join(f'<td style="{_CELL}">{part}</td>' for part in parts)


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
