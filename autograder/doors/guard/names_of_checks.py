"""In the kernel, when a notebook is graded: what checks call by a name of their own is kept under another one.

A check cell is run in the notebook: what it calls `found` is the notebook's `found` from then on. An answer with a
helper of that name, which nobody who reads the task could know to be taken, would call the check's instead. So the
`found` of the checks stands under another name, and each has its own.

A function or class still has the name that it is defined by: a tape, a message or a compiled program shows it.
"""

import ast
import contextlib
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from .course import around, bound, loop_names, parameters
from .names import own_statements

_END = "__of_the_checks"
_MISSING = object()


def is_of_a_check(name: str) -> bool:
    """Whether a thing of a check's stands under this name."""
    return name.endswith(_END)


def other_name(name: str) -> str:
    """The name under which a thing of a check's stands."""
    return name + _END


class Apart(ast.NodeTransformer):
    """Changes a cell: what it calls by one of `names` stands under another name, which has `end` behind it.

    Raises nothing; the names that functions, classes and comprehensions have for themselves stay as they are.
    """

    def __init__(self, names: Collection[str], end: str):
        self.names, self._end = frozenset(names), end

    def other_name(self, name: str) -> str:
        """Where a thing stands that the cell calls `name`."""
        return name + self._end

    def visit_Module(self, node: ast.Module) -> ast.Module:
        """A cell; one that has been changed stays as it is."""
        if not getattr(node, "names_are_apart", False):
            _Names({name: self.other_name(name) for name in self.names}).visit(node)
            self.generic_visit(node)
            node.names_are_apart = True  # type: ignore[attr-defined]
        return ast.fix_missing_locations(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> ast.AST:
        """Define it by its name, and keep it under the other."""
        if node.name not in self.names:
            return node
        lent = ast.parse(
            f"with __import__({__name__!r}, fromlist=['_']).lent(globals(), {node.name!r}):\n"
            f"    {self.other_name(node.name)} = {node.name}"
        ).body[0]
        assert isinstance(lent, ast.With)
        for part in ast.walk(lent):
            ast.copy_location(part, node)
        lent.body.insert(0, node)
        return lent

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef  # what is inside them is their own


@contextlib.contextmanager
def lent(names: dict[str, Any], name: str) -> Iterator[None]:
    """Let something else have a name, for a block."""
    before = names.get(name, _MISSING)
    try:
        yield
    finally:
        if before is _MISSING:
            names.pop(name, None)
        else:
            names[name] = before


class OfChecks(Apart):
    """Changes a check: what it calls by one of `names` stands under another name."""

    def __init__(self, names: Collection[str]):
        super().__init__(names, _END)


class _Names(ast.NodeVisitor):
    def __init__(self, names: dict[str, str]):
        self._names = names  # each with the other one
        self._own: list[tuple[bool, set[str]]] = []  # of the functions, classes and comprehensions around

    def _other(self, name: str) -> str:
        # What is in a class does not see its names, but for what stands right there.
        seen = [own for depth, (of_class, own) in enumerate(reversed(self._own)) if not of_class or not depth]
        ours = name in self._names and not any(name in own for own in seen)
        return self._names[name] if ours else name

    def _inside(self, own: set[str], parts: Iterable[ast.AST], *, of_class: bool = False) -> None:
        self._own.append((of_class, own))
        for part in parts:
            self.visit(part)
        self._own.pop()

    def _around(self, node: ast.AST) -> None:
        for part in around(node):
            self.visit(part)

    def visit_Name(self, node: ast.Name) -> None:
        node.id = self._other(node.id)

    def visit_Global(self, node: ast.Global) -> None:
        node.names = list(map(self._other, node.names))

    def visit_alias(self, node: ast.alias) -> None:
        name = node.asname or node.name
        if self._other(name) != name:
            node.asname = self._other(name)

    def visit_named(self, node: Any) -> None:
        node.name = node.name and self._other(node.name)
        self.generic_visit(node)

    visit_ExceptHandler = visit_MatchAs = visit_MatchStar = visit_named

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        node.rest = node.rest and self._other(node.rest)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: Any) -> None:
        declared = {name for part in own_statements(node.body) if isinstance(part, ast.Global) for name in part.names}
        self._around(node)
        self._inside(_bound_in(node.body) - declared | {arg.arg for arg in parameters(node.args)}, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._around(node)
        self._inside(_bound_in([node.body]) | {arg.arg for arg in parameters(node.args)}, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._around(node)
        self._inside(_bound_in(node.body), node.body, of_class=True)

    def visit_comprehension_of(self, node: Any) -> None:
        first = node.generators[0].iter
        self.visit(first)
        parts = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.comprehension)]
        for loop in node.generators:
            parts += [loop.target, *loop.ifs, *([] if loop.iter is first else [loop.iter])]
        self._inside(loop_names(node.generators), parts)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_comprehension_of


def _bound_in(body: list[Any]) -> set[str]:
    return bound(ast.Module(body=list(body), type_ignores=[]))
