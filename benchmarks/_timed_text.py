"""The part of a notebook that a timing depends on: what a check cell reaches, without comments and docstrings.

A sentence that is added to a task, or another task's answer, must not ask for a new measurement. So a check cell is
followed from name to name through the top-level statements of the other cells; those that it reaches are kept, in their
order, and whatever a reader reads but Python does not is taken out. Text, not syntax trees: the trees, and what `ast`
writes of them, differ between versions of Python.
"""

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache

SHOWN = {"print", "display", "show_guess", "show_hlo", "show_jaxpr"}  # statements that only show something


def timed_text(check: str, cells: Iterable[str]) -> str:
    """The code of `check` and of every statement of `cells` that it reaches.

    Statements that bind no name are kept as well (a setting of JAX, an assignment to an item), unless they only show
    something.
    """
    parts = [part for cell in cells for part in statements(cell)]
    needed = set(_loaded(ast.parse(check)))
    kept: set[int] = set()
    while True:
        found = {
            number
            for number, (node, _) in enumerate(parts)
            if number not in kept and (bound_names(node) & needed or (not bound_names(node) and not _only_shows(node)))
        }
        if not found:
            break
        kept |= found
        for number in found:
            needed |= _loaded(parts[number][0])
    return "\n".join([*(parts[number][1] for number in sorted(kept)), code_of(check)])


@cache
def statements(cell: str) -> tuple[tuple[ast.stmt, str], ...]:
    """The top-level statements of a cell, each with its code; each imported name is a statement of its own."""
    return tuple(_statements(cell))


def _statements(cell: str) -> Iterator[tuple[ast.stmt, str]]:
    lines = cell.split("\n")
    for node in ast.parse(cell).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                one = ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, [alias], 0)
                yield one, ast.unparse(one)
            continue
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        if not _is_text(node):
            yield node, code_of("\n".join(lines[first - 1 : node.end_lineno]))


@cache
def bound_names(node: ast.AST) -> frozenset[str]:
    """The names that a statement gives to the notebook."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return frozenset({node.name})
    if isinstance(node, ast.Import | ast.ImportFrom):
        return frozenset((alias.asname or alias.name).split(".")[0] for alias in node.names)
    if isinstance(node, ast.Name):
        return frozenset({node.id} if isinstance(node.ctx, ast.Store) else ())
    return frozenset().union(*(bound_names(child) for child in ast.iter_child_nodes(node)))


@cache
def _loaded(tree: ast.AST) -> frozenset[str]:
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return frozenset(name.id for name in names if isinstance(name.ctx, ast.Load))


def _only_shows(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Expr):
        return False
    value = node.value
    return not isinstance(value, ast.Call) or (isinstance(value.func, ast.Name) and value.func.id in SHOWN)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def code_of(source: str) -> str:
    """`source` without comments, docstrings and blank lines."""
    lines = source.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and body and _is_text(body[0]):
            for row in range(body[0].lineno, (body[0].end_lineno or body[0].lineno) + 1):
                lines[row - 1] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())
