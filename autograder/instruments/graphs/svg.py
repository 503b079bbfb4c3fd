"""A graph as a vector picture: one SVG without scripts, fonts or references, that any program can show.

It brings its light background along, so that it is legible on any page. Kinds differ in shape as well as in colour;
the fills are pale tints of the Okabe-Ito palette, which colour-blind people can tell apart.
"""

import textwrap
from collections.abc import Iterator, Sequence
from html import escape

from .layout import LINE, SMALL, Layout, Point, Route, lay_out, text_width
from .parts import Box, Edge, Kind, Node

# fill, outline
_NODES = {
    "input": ("#d6ecf9", "#0072b2"),
    "compute": ("#f4f4f4", "#777"),
    "reduction": ("#fde4bf", "#d55e00"),
    "control": ("#cdeee2", "#009e73"),
}
_FRAMES = {"box": ("#8881", "#888"), "loop": ("#009e7318", "#009e73")}
_MARK = "#b3002d"
_FONT = "ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace"
_PAD, _TITLE = 12, 16


def svg(graph: Box, edges: Sequence[Edge]) -> str:
    """The picture of a graph. Its title and a sentence about its arrows are there for those who cannot see it."""
    layout = lay_out(graph, edges)
    width = max(layout.width, 300.0)
    title = textwrap.wrap(graph.title, max(20, int(width / (12 * 0.55))))
    top = _PAD + _TITLE * len(title) + (6 if title else 0)
    width, height = width + 2 * _PAD, layout.height + top + _PAD
    x = _PAD + (width - 2 * _PAD - layout.width) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(graph.title or "graph")}"'
        f' width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
        f' style="max-width:100%;height:auto;min-width:{0.6 * width:.0f}px">',
        f"<title>{escape(graph.title)}</title><desc>{escape(_in_words(graph, edges))}</desc>",
        '<rect width="100%" height="100%" rx="6" fill="#fff"/>',
        '<g font-family="sans-serif" font-size="12" fill="#111" text-anchor="middle">',
        *_lines(title, width),
        "</g>",
        f'<g transform="translate({x:.1f} {top})" font-family="{_FONT}" font-size="12" fill="#111">',
        *_frames(graph, layout),
        *(_route(edge, route) for edge, route in zip(edges, layout.routes, strict=True)),
        *_titles(graph, layout),
        *(_node(node, *layout.nodes[node.id]) for node in graph.nodes()),
        "</g></svg>",
    ]
    return "".join(parts)


def _in_words(graph: Box, edges: Sequence[Edge]) -> str:
    names = {node.id: ("MARKED " if node.marked else "") + ", ".join(node.lines) for node in graph.nodes()}
    loose = names.keys() - {end for edge in edges for end in (edge.source, edge.target)}
    said = [f"{names[edge.source]} goes to {names[edge.target]}" for edge in edges]
    return "; ".join([*said, *(names[node.id] for node in graph.nodes() if node.id in loose)]) + "."


def _lines(title: list[str], width: float) -> Iterator[str]:
    for i, line in enumerate(title):
        yield f'<text x="{width / 2:.1f}" y="{_PAD + _TITLE * i + 10}">{escape(line)}</text>'


def _frames(graph: Box, layout: Layout) -> Iterator[str]:
    for box in graph.boxes():
        left, top, width, height, _ = layout.frames[box.id]
        style = _style(*_FRAMES[box.kind], box.marked)
        yield f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4" {style}/>'


def _titles(graph: Box, layout: Layout) -> Iterator[str]:
    """Above the arrows, which leave them legible: each letter has a light edge."""
    for box in graph.boxes():
        if title := layout.frames[box.id][-1]:
            x = title[0] - text_width(box.title, SMALL) / 2
            edge = 'stroke="#fff" stroke-width="3" paint-order="stroke"'
            yield f'<text x="{x:.1f}" y="{title[1] + 4:.1f}" font-size="11" {edge}>{escape(box.title)}</text>'


def _node(node: Node, x: float, y: float, width: float, height: float) -> str:
    style = _style(*_NODES[node.kind], node.marked)
    first = y - (len(node.lines) - 1) * LINE / 2 + 4
    text = "".join(
        f'<tspan x="{x:.1f}" y="{first + LINE * i:.1f}">{escape(part)}</tspan>' for i, part in enumerate(node.lines)
    )
    return f'{_shape(node.kind, x, y, width, height, style)}<text text-anchor="middle">{text}</text>'


def _style(fill: str, line: str, marked: bool) -> str:
    """Thick as well as red: a mark is not a matter of colour alone."""
    return f'fill="{fill}" stroke="{_MARK}" stroke-width="3.5"' if marked else f'fill="{fill}" stroke="{line}"'


def _shape(kind: Kind, x: float, y: float, width: float, height: float, style: str) -> str:
    left, right, top, bottom = x - width / 2, x + width / 2, y - height / 2, y + height / 2
    if kind in ("input", "compute"):
        radius = height / 2 if kind == "input" else 2
        return (
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:.1f}" {style}/>'
        )
    if kind == "reduction":  # narrower where less comes out
        corners = [(left, top), (right, top), (right - 14, bottom), (left + 14, bottom)]
    else:
        corners = [
            (left + 12, top),
            (right - 12, top),
            (right, y),
            (right - 12, bottom),
            (left + 12, bottom),
            (left, y),
        ]
    return f'<polygon points="{_path(corners)}" {style}/>'


def _route(edge: Edge, route: Route) -> str:
    (first, *rest), tip = route.points, route.tip
    dashes = ' stroke-dasharray="4 3"' if edge.back else ""
    line = f'<path d="M{_path([first])}C{_path(rest)}" fill="none" stroke="#555"{dashes}/>'
    head = f'<polygon points="{_path(_head(rest[-1], tip))}" fill="#555"/>'
    if not route.label:
        return line + head
    x, y = route.label
    return (
        f'{line}{head}<text x="{x:.1f}" y="{y + 4:.1f}" font-size="11" text-anchor="middle">{escape(edge.label)}</text>'
    )


def _head(end: Point, tip: Point) -> list[Point]:
    """The three corners of an arrow's head."""
    dx, dy = tip[0] - end[0], tip[1] - end[1]
    across = (-dy * 0.35, dx * 0.35)
    return [tip, (end[0] + across[0], end[1] + across[1]), (end[0] - across[0], end[1] - across[1])]


def _path(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
