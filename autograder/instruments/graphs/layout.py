"""Where everything in a picture stands, by Graphviz. All lengths are CSS pixels; y grows downwards.

Graphviz is given sizes and no text: which fonts a machine has changes no picture, and no font is looked for.
"""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .parts import Box, Edge, Node

LETTER, LINE = 7.3, 15  # of a fixed-width font of 12 pixels: how wide a letter is, how far lines are apart
SMALL = 11 / 12  # titles of frames and labels of arrows are that much smaller
_PADDING = {"input": 24, "compute": 16, "reduction": 40, "control": 36}  # of a shape, to the left and right of its text

Point = tuple[float, float]


class Route(NamedTuple):
    """An arrow: cubic Bézier curves through `points` (1 + 3n of them), its `tip`, the middle of its label."""

    points: list[Point]
    tip: Point
    label: Point | None


class Layout(NamedTuple):
    """`nodes` by id: middle, width, height. `frames` by id: left, top, width, height, middle of the title."""

    width: float
    height: float
    nodes: dict[str, tuple[float, float, float, float]]
    frames: dict[str, tuple[float, float, float, float, Point | None]]
    routes: list[Route]


def text_width(text: str, size: float = 1.0) -> float:
    """How wide a line of text is, at `size` times the size of a node's text."""
    return len(text) * LETTER * size


def lay_out(graph: Box, edges: Sequence[Edge]) -> Layout:
    """Where the nodes, frames and arrows of a graph stand, the outermost box at (0, 0)."""
    import pygraphviz  # 0.1 s, and only a picture that is shown needs it

    drawn = json.loads(pygraphviz.AGraph(string=_dot(graph, edges)).draw(format="json0", prog="dot"))
    left, bottom, right, top = _numbers(drawn["bb"])

    def at(x: float, y: float) -> Point:
        return x - left, top - y

    nodes, frames = {}, {}
    for item in drawn.get("objects", ()):
        if "bb" in item:
            x1, y1, x2, y2 = _numbers(item["bb"])
            title = at(*_numbers(item["lp"])) if "lp" in item else None
            frames[item["name"].removeprefix("cluster_")] = (*at(x1, y2), x2 - x1, y2 - y1, title)
        else:
            size = float(item["width"]) * 72, float(item["height"]) * 72
            nodes[item["name"]] = (*at(*_numbers(item["pos"])), *size)
    routes: dict[int, Route] = {}
    for item in drawn.get("edges", ()):
        ends, points = {}, []
        for part in item["pos"].split():
            if part[0] in "se":
                ends[part[0]] = at(*_numbers(part[2:]))
            else:
                points.append(at(*_numbers(part)))
        label = at(*_numbers(item["lp"])) if "lp" in item else None
        if "s" in ends:  # a way back, which was laid out from its end
            points.reverse()
        routes[int(item["id"])] = Route(points, ends.get("s") or ends.get("e") or points[-1], label)
    return Layout(right - left, top - bottom, nodes, frames, [routes[i] for i in range(len(edges))])


def _dot(graph: Box, edges: Sequence[Edge]) -> str:
    """The graph as Graphviz reads it, with a blank of the right size wherever there will be text."""
    lines = [
        "digraph {",
        'graph [nodesep=0.3 ranksep=0.35 labeljust=l margin=0 pad=0]; node [shape=box fixedsize=true label=""];',
        *_content(graph),
    ]
    for i, edge in enumerate(edges):
        label = f"label={_blank(text_width(edge.label, SMALL) + 6)}" if edge.label else ""
        # A way back is turned round, so that a loop begins at its top.
        ends = f"{edge.target} -> {edge.source} [dir=back " if edge.back else f"{edge.source} -> {edge.target} ["
        lines.append(f'{ends} id="{i}" {label}];')
    return "\n".join([*lines, "}"])


def _content(box: Box) -> Iterator[str]:
    for item in box.content:
        if isinstance(item, Node):
            width = max(map(text_width, item.lines)) + _PADDING[item.kind]
            height = len(item.lines) * LINE + 12
            yield f"{item.id} [width={width / 72:.4f} height={height / 72:.4f}];"
        else:
            yield f"subgraph cluster_{item.id} {{ margin=10; label={_blank(text_width(item.title, SMALL) + 4)};"
            yield from _content(item)
            yield "}"


def _blank(width: float) -> str:
    """A label of that width without a letter in it."""
    size = f'fixedsize="true" width="{width:.0f}" height="{LINE}"'
    return f'<<table border="0" cellborder="0" cellpadding="0" cellspacing="0" {size}><tr><td></td></tr></table>>'


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split(",")))
