"""An answer's helpers may have any name: what a cell calls by a name of the course's or of Python's is its own.

After a student's cell, a name of the course's means the course's again. A function of that cell which calls a helper
of its own by such a name would call the course's instead. So the helper stands under another name, for this cell; in
all others the name means what it does in the release.
"""

import ast
from collections.abc import Collection, Iterator

from .course import Course, around, assigned, bound
from .names_of_checks import Apart
from .words import ALL_BUILTINS, BUILTINS

_END = "__of_the_answer"
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def own_names(tree: ast.Module, course: Course) -> frozenset[str]:
    """The names of the course's and of Python's to which a cell gives a meaning of its own, before it reads them.

    Nothing of the course's ever stands under the other name: a statement at the top of the cell binds it, none that is
    carried out before reads it, and nothing else writes it. Raises nothing.
    """
    theirs = (course.kept - ALL_BUILTINS) | BUILTINS
    given: set[str] = set()  # by the statements above
    other: set[str] = set()  # read before they are given, or bound otherwise
    for statement in tree.body:
        other |= set(_read_by(statement)) - given
        given |= _given_by(statement)
        other |= bound(ast.Module(body=[statement], type_ignores=[])) - _given_by(statement)
    own = {name for name in given & theirs - other if not name.startswith("__")} - course.classes
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            own -= {*node.names}
    return frozenset(own)


def _given_by(statement: ast.stmt) -> set[str]:
    """The names to which a statement gives something, whatever they meant before."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.ImportFrom) or (isinstance(statement, ast.Import) and _is_plain(statement)):
        return bound(ast.Module(body=[statement], type_ignores=[]))
    return {target.id for target, _ in assigned(statement) if isinstance(target, ast.Name)}


def _is_plain(statement: ast.Import) -> bool:
    """Whether each name is that of the module that it stands for; `import a.b` binds `a`."""
    return all(alias.asname or "." not in alias.name for alias in statement.names)


def _read_by(node: ast.AST) -> Iterator[str]:
    """The names that are read when a statement is carried out, those in functions that it defines left out."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    for part in around(node) if isinstance(node, _FUNCTIONS) else ast.iter_child_nodes(node):
        yield from _read_by(part)


class OfAnswers(Apart):
    """Changes a cell as it runs: what it calls by one of `names` stands under another name."""

    def __init__(self, names: Collection[str]):
        super().__init__(names, _END)


class OfAnswersAsRead(OfAnswers):
    """As `OfAnswers`, for a tree that is read and never run: what a cell defines is defined under the other name."""

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> ast.AST:
        """It has the other name, whether or not it is a class."""
        if node.name in self.names:
            node.name = self.other_name(node.name)
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef
