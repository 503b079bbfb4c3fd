"""What a picture of a program is made of: nodes, frames around them, arrows between them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["input", "compute", "reduction", "control"]
Frame = Literal["box", "loop"]


@dataclass(frozen=True)
class Node:
    """One operation or value; each line of its label is drawn on a line of its own. What is `marked` stands out."""

    id: str
    lines: tuple[str, ...]
    kind: Kind = "compute"
    marked: bool = False


@dataclass
class Box:
    """Nodes and boxes inside a frame with a title. The outermost one has no frame; its title is the picture's."""

    id: str
    title: str
    kind: Frame = "box"
    content: list["Node | Box"] = field(default_factory=list)
    marked: bool = False

    def nodes(self) -> Iterator[Node]:
        for item in self.content:
            if isinstance(item, Box):
                yield from item.nodes()
            else:
                yield item

    def boxes(self) -> Iterator["Box"]:
        for item in self.content:
            if isinstance(item, Box):
                yield item
                yield from item.boxes()


@dataclass(frozen=True)
class Edge:
    """An arrow between two nodes; `back` is the dotted arrow from the end of a loop's body to its start."""

    source: str
    target: str
    label: str = ""
    back: bool = False
