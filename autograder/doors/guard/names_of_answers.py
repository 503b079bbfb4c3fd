"""An answer's helpers may have any name: what a cell calls by a name of the course's or of Python's is its own.

After a student's cell, a name of the course's means the course's again. A function of that cell which calls a helper
of its own by such a name would call the course's instead. So the helper stands under another name, for this cell; in
all others the name means what it does in the release.
"""

import ast
from collections.abc import Collection, Iterator, Mapping

from .course import Course, around, assigned, bound
from .names import own_statements
from .names_of_checks import Apart
from .words import ALL_BUILTINS, BUILTINS, OF_TYPES, OTHER_BUILTINS, RUN_TEXTS

_END = "__of_the_answer"
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def is_of_an_answer(name: str) -> bool:
    """Whether something stands under this name that an answer calls by one of the course's."""
    return name.endswith(_END)


def speaks_of_one(text: str) -> bool:
    """Whether a text names what stands under such a name."""
    return _END in text


def own_names(tree: ast.Module, course: Course) -> frozenset[str]:
    """The names of the course's and of Python's to which a cell gives a meaning of its own, before it reads them.

    Nothing of the course's ever stands under the other name: a statement at the top of the cell binds it, none that is
    carried out before reads it, and nothing else writes it. Raises nothing.
    """
    theirs = (course.kept - ALL_BUILTINS) | BUILTINS | OTHER_BUILTINS
    given: set[str] = set()  # by the statements above
    other: set[str] = set()  # read before they are given, or bound otherwise
    modules: set[str] = set()
    behind: dict[str, set[str]] = {}  # the names that may be read by whoever uses a name of the statements above
    for statement in tree.body:
        now = set(read_by(statement))
        other |= behind_all(now, behind) - given
        mine = _given_by(statement)
        given |= mine
        if not isinstance(statement, ast.FunctionDef):
            other |= mine & RUN_TEXTS  # a function may be called `eval`, and nothing else
        modules |= mine if isinstance(statement, ast.Import | ast.ImportFrom) else set()
        other |= bound(ast.Module(body=[statement], type_ignores=[])) - mine
        for name in mine | (now - course.imported.keys() - modules):  # what a module is handed does not stay there
            behind.setdefault(name, set()).update(read_in(statement))
    own = {name for name in given & theirs - other if not name.startswith("__")} - course.classes
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            own -= {*node.names}
        elif isinstance(node, ast.ClassDef):  # there, a name may mean one thing on one line and another on the next
            own -= bound(node) & set(_read_right_in(node))
        elif isinstance(node, OF_TYPES) and isinstance(node.name, str):
            own -= {node.name}
    return frozenset(own)


def _read_right_in(node: ast.ClassDef) -> Iterator[str]:
    """The names that a class reads, and no function or class in it."""
    for part in own_statements(node.body):
        inner = around(part) if isinstance(part, _FUNCTIONS | ast.ClassDef) else []
        yield from (name for each in inner for name in read_by(each))
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            yield part.id


def read_in(node: ast.AST) -> set[str]:
    """The names that are read in a part of a text, functions in it included."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def behind_all(names: set[str], behind: Mapping[str, set[str]]) -> set[str]:
    """These names, and all that may be read by whoever uses them."""
    found, ahead = set(names), [*names]
    while ahead:
        new = behind.get(ahead.pop(), set()) - found
        found |= new
        ahead += new
    return found


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


def read_by(node: ast.AST) -> Iterator[str]:
    """The names that are read when a statement is carried out, those in functions that it defines left out."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    for part in around(node) if isinstance(node, _FUNCTIONS) else ast.iter_child_nodes(node):
        yield from read_by(part)


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
