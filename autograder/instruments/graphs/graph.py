"""Programs as graphs: what the pictures of a jaxpr and of HLO have in common."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from autograder.wording import tally

from .parts import Box, Edge, Frame, Kind, Node
from .svg import svg

MAX_NODES = 60  # more than this is a hairball at 100 % zoom

# What an edge comes from: a node, a literal to be written into the label, or a tuple of these.
Source: TypeAlias = "Node | str | tuple[Source, ...]"


class Graph:
    """Builds a graph: boxes and nodes in `root`, and edges from the sources of values to what uses them."""

    def __init__(self) -> None:
        self.root = Box("graph", "")
        self.edges: list[Edge] = []
        self._names = 0

    def _id(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def box(self, parent: Box, title: str, kind: Frame = "box", marked: bool = False) -> Box:
        box = Box(self._id(), title, kind, marked=marked)
        parent.content.append(box)
        return box

    def node(
        self,
        box: Box,
        lines: Iterable[str],
        kind: Kind = "compute",
        sources: Iterable[Source] = (),
        labels: Sequence[str] = (),
        marked: bool = False,
    ) -> Node:
        node = Node(self._id(), tuple(lines), kind, marked)
        box.content.append(node)
        for index, source in enumerate(sources):
            self.edge(source, node, label=labels[index] if labels else "")
        return node

    def start(self, box: Box, label: str, type_name: str, source: Source) -> Node:
        """A value that goes round in a loop, or comes in slice by slice."""
        value = f" = {source}" if isinstance(source, str) else ""
        return self.node(box, (label + value, type_name), "control", [source])

    def result(self, index: int, number: int, type_name: str, source: Source) -> None:
        name = "result" if number == 1 else f"result {index}"
        value = f" = {source}" if isinstance(source, str) else ""
        self.node(self.root, (name + value, type_name), "input", [source])

    def edge(self, source: Source, target: Source, label: str = "", back: bool = False) -> None:
        if isinstance(source, tuple):
            for part in source:
                self.edge(part, target, label, back)
        elif isinstance(source, Node) and isinstance(target, Node):
            edge = Edge(source.id, target.id, label, back)
            if edge not in self.edges:
                self.edges.append(edge)


def drawn(graph: Graph, title: str, operations: Counter[str]) -> Graph:
    """The graph as it is drawn, under its title; one node that says so if it would be too large."""
    graph.root.title = title
    if fits(graph):
        return graph
    note = Graph()
    note.root.title = title
    note.node(note.root, (f"too many operations to draw ({operations.total():,})", tally(operations, 6)))
    return note


def fits(graph: Graph) -> bool:
    """Whether the graph is small enough to be looked at."""
    return sum(1 for _ in graph.root.nodes()) <= MAX_NODES


def picture(graph: Graph) -> str:
    """The graph as SVG, without boxes that are empty."""
    _prune(graph.root)
    return svg(graph.root, graph.edges)


def _prune(box: Box) -> None:
    """Drop boxes with nothing in them, such as a fusion that only broadcasts a constant."""
    for item in box.content:
        if isinstance(item, Box):
            _prune(item)
    box.content = [item for item in box.content if not isinstance(item, Box) or item.content]


def operation_label(name: str, operands: list[Source], details: str = "") -> str:
    """`mul 2.0 ·`: literals are written out, a dot stands for each arrow. Without literals just `mul`."""
    if any(isinstance(operand, str) for operand in operands):
        name = " ".join([name, *(operand if isinstance(operand, str) else "·" for operand in operands)])
    return f"{name} {details}".strip()
