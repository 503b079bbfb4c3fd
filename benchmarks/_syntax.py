"""Places in a syntax tree: find them, put something else there, and say in one line what changed."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

WIDTH = 90  # of the text that says what changed


class Place(NamedTuple):
    """A node and how to reach it."""

    node: ast.AST
    parents: tuple[ast.AST, ...]  # the innermost last
    field: str
    index: int | None  # in a list of nodes

    @property
    def parent(self) -> ast.AST:
        return self.parents[-1]

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node

    @property
    def function(self) -> ast.FunctionDef | None:
        """The innermost function around it."""
        return next((p for p in reversed(self.parents) if isinstance(p, ast.FunctionDef)), None)


def places(node: ast.AST, parents: tuple[ast.AST, ...] = ()) -> Iterator[Place]:
    """Every node below this one, from the top down."""
    for field, value in ast.iter_fields(node):
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                yield Place(child, (*parents, node), field, index)
                yield from places(child, (*parents, node))


def made(template: str, *parts: ast.AST) -> ast.expr:
    """An expression: the template, in which `_0`, `_1`, … stand for the parts."""

    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return parts[int(node.id[1:])] if node.id[:1] == "_" and node.id[1:].isdigit() else node

    return Fill().visit(ast.parse(template, mode="eval").body)


def changed(place: Place, new: ast.AST, tree: ast.Module) -> tuple[str, str]:
    """The source of the tree with `new` at the place, and "old -> new". The tree stays as it is."""
    shown = _shown(place)
    old = _key(place) + _line(shown)
    place.put(new)
    try:
        source = ast.unparse(tree)
        now = _key(place) + _line(new if shown is place.node else shown)
    finally:
        place.put(place.node)
    return source, f"{old} -> {now}"


def _shown(place: Place) -> ast.AST:
    """What is shown of a change: the largest part of the statement around it that fits a line."""
    shown = place.node
    for parent in reversed(place.parents):
        if isinstance(shown, ast.stmt) or isinstance(parent, ast.FunctionDef | ast.ClassDef | ast.Module):
            break
        if isinstance(parent, ast.expr | ast.stmt) and len(_text(parent)) > WIDTH:
            break
        if isinstance(parent, ast.expr | ast.stmt):
            shown = parent
    return shown


def _key(place: Place) -> str:
    """The key in front of a value of a dict that is too long to be shown."""
    for parent, child in zip(reversed(place.parents), (place.node, *reversed(place.parents)), strict=False):
        if isinstance(parent, ast.Dict) and child in parent.values and len(_text(parent)) > WIDTH:
            key = parent.keys[parent.values.index(child)]
            return f"{ast.unparse(key)}: " if key else ""
    return ""


def _text(node: ast.AST) -> str:
    """The text of a node; of a statement with a body, its first line."""
    lines = ast.unparse(node).split("\n")
    if isinstance(node, ast.FunctionDef):
        lines = [line for line in lines if line.startswith(("@", "def "))]
        return " ".join(lines)
    return lines[0]


def _line(node: ast.AST) -> str:
    text = _text(node)
    return text if len(text) <= 2 * WIDTH else text[: 2 * WIDTH - 1] + "…"
