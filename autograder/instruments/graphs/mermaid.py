"""A small graph, and its Mermaid text. JupyterLab draws Mermaid itself: no package, no network."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["input", "compute", "reduction", "control"]
Frame = Literal["box", "loop"]

# Each kind has a shape as well as a colour. The fills are pale tints of the Okabe-Ito palette, which colour-blind
# people can tell apart, and the text on them is dark in the light and in the dark theme alike.
_SHAPES = {"input": ("([", "])"), "compute": ("[", "]"), "reduction": ("[/", "\\]"), "control": ("{{", "}}")}
_STYLES = """\
  classDef input fill:#d6ecf9,stroke:#0072b2,color:#111
  classDef compute fill:#f4f4f4,stroke:#777,color:#111
  classDef reduction fill:#fde4bf,stroke:#d55e00,color:#111
  classDef control fill:#cdeee2,stroke:#009e73,color:#111
  classDef box fill:#8881,stroke:#888
  classDef loop fill:#009e7318,stroke:#009e73"""


@dataclass(frozen=True)
class Node:
    """One operation or value; each line of its label is drawn on a line of its own."""

    id: str
    lines: tuple[str, ...]
    kind: Kind = "compute"


@dataclass
class Box:
    """Nodes and boxes inside a frame with a title."""

    id: str
    title: str
    kind: Frame = "box"
    content: list["Node | Box"] = field(default_factory=list)

    def nodes(self) -> Iterator[Node]:
        for item in self.content:
            if isinstance(item, Box):
                yield from item.nodes()
            else:
                yield item


@dataclass(frozen=True)
class Edge:
    """An arrow between two nodes; `back` is the dotted arrow from the end of a loop's body to its start."""

    source: str
    target: str
    label: str = ""
    back: bool = False


def flowchart(graph: Box, edges: list[Edge]) -> str:
    """The Mermaid text of a graph. The outermost box has no frame; its title stands above the picture."""
    lines = ["---", f"title: {_title(graph.title)}", "---", "flowchart TB"] if graph.title else ["flowchart TB"]
    # Where there is a cycle, the layout starts it at the node that was named first.
    starts = {edge.target for edge in edges if edge.back}
    lines += [_node(node) for node in sorted(graph.nodes(), key=lambda node: node.id not in starts)]
    lines += _boxes(graph, "  ")
    for edge in edges:
        arrow = "-.->" if edge.back else "-->"
        label = f'|"{escape(edge.label)}"|' if edge.label else ""
        lines.append(f"  {edge.source} {arrow}{label} {edge.target}")
    lines.append(_STYLES)
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Text that Mermaid shows as it is: its own syntax, Markdown and HTML included."""
    return "".join(c if c.isalnum() or c in " .,:=+-/()[]_" else f"#{ord(c)};" for c in text)


def _node(node: Node) -> str:
    opening, closing = _SHAPES[node.kind]
    return f'  {node.id}{opening}"{"<br/>".join(map(escape, node.lines))}"{closing}:::{node.kind}'


def _boxes(box: Box, indent: str) -> Iterator[str]:
    for item in box.content:
        if isinstance(item, Box):
            # An arrow enters in the middle: blanks behind a short title move it to the left, out of the way. The
            # layout does not see how wide a title is, so a long one stays as it is.
            blanks = "#160;" * max(0, 22 - 2 * len(item.title))
            yield f'{indent}subgraph {item.id}["{escape(item.title)}{blanks}"]'
            yield from (f"{indent}  {inner.id}" for inner in item.content if isinstance(inner, Node))
            yield from _boxes(item, indent + "  ")
            yield f"{indent}end"
            yield f"{indent}class {item.id} {item.kind}"


def _title(text: str) -> str:
    """A string of YAML. Mermaid takes "<lambda>" in a title for HTML and drops it: it is shown as "lambda"."""
    return '"' + re.sub(r'[<>\\"]', "", text) + '"'
