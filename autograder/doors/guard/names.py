"""Names: which are the notebook's and which a function's own, what an import bound, and what is the course's."""

import ast
import builtins
import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .course import Course, assigned, bound, imports
from .words import AS_DECORATOR, MAKE_TYPES

_BUILTINS = frozenset(dir(builtins))
# How types are called in libraries; NumPy's have small letters.
_OF_A_TYPE = re.compile(r"[A-Z]|(ndarray|generic|number|floating|integer|dtype|u?int\d*|b?float\d*|bool_?|deque)$")


class Cells(NamedTuple):
    """What all cells of a student's notebook do together.

    names: bound at the top of a cell.
    imported: what their imports bind, by name.
    private: names with one leading underscore that belong to their own classes.
    fields: attributes that their classes give to their objects.
    classes: the names of these classes, and of their types (`type X = int`).
    methods: the names of their methods.
    writers: those of methods, special ones left out, that write attributes of their object.
    only_classes: names that nothing but a `class` binds, below decorators of Python's and JAX's alone.
    sure_classes: names that nothing but a `class` or a `type` binds, below no decorator of their own.
    types: names that are bound to what can be nothing but a type: `Pair = tuple[int, int]`.
    types_in_functions: those of them that are the same inside of any function.
    parameters: names that are bound to a `ParamSpec` alone, of which `P.args` and `P.kwargs` are types.
    otherwise: names that something else than an import binds, anywhere.
    hand_on: whether one of them hands a module on, as in `def f(x, xp=np)`.
    """

    names: frozenset[str]
    imported: dict[str, frozenset[str]]
    private: frozenset[str]
    fields: frozenset[str]
    classes: frozenset[str]
    methods: frozenset[str] = frozenset()
    writers: frozenset[str] = frozenset()
    only_classes: frozenset[str] = frozenset()
    sure_classes: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    types_in_functions: frozenset[str] = frozenset()
    parameters: frozenset[str] = frozenset()
    otherwise: frozenset[str] = frozenset()
    hand_on: bool = False


class Scope:
    """A module, a class, a function or a comprehension, and the names that are its own."""

    def __init__(self, kind: str, names: set[str] = frozenset(), node: ast.AST | None = None):  # type: ignore[assignment]
        self.kind, self.names, self.node = kind, set(names), node
        self.me = ""  # the object of a method
        self.method = ""  # its name
        self.unreachable = False  # a special method, which only Python calls, with an object of its class
        self.aliases: dict[str, str] = {}  # names made from an import or from something of the course's
        self.given: set[str] = set()  # of a class: the names that the statements above have bound, and nothing unbinds
        self.uncertain: set[str] = set()  # of a class: those that may be bound, or not, where they are read
        self.texts: dict[str, list[object]] = {}  # what of its names may stand for, as `texts` found

    # What is asked for many times of a long function is found once.

    @functools.cached_property
    def parts(self) -> list[ast.AST]:
        """All that is in it, and in what is in it."""
        return [] if self.node is None else list(ast.walk(self.node))

    @functools.cached_property
    def statements(self) -> list[ast.AST]:
        """As `own_statements` has them."""
        return list(own_statements(getattr(self.node, "body", [])))

    @functools.cached_property
    def bound(self) -> set[str]:
        """The names that it binds, its arguments left out."""
        return set() if self.node is None else bound(self.node)

    @functools.cached_property
    def binders(self) -> dict[str, list[ast.AST]]:
        """The statements that bind each name."""
        found: dict[str, list[ast.AST]] = {}
        for statement in self.statements:
            for name in bound(ast.Module(body=[statement], type_ignores=[])):  # type: ignore[list-item]
                found.setdefault(name, []).append(statement)
        return found

    @functools.cached_property
    def of_the_notebook(self) -> set[str]:
        """The names that it says are the notebook's."""
        return {name for part in self.statements if isinstance(part, ast.Global) for name in part.names}

    @functools.cached_property
    def imported(self) -> set[str]:
        """The names that an import binds in it, or in what is in it."""
        return {name for name, _ in imports(self.parts)}

    @functools.cached_property
    def stored(self) -> Counter[str]:
        """How often each name is assigned to in it, or in what is in it."""
        return Counter(part.id for part in self.parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))


class Names(ast.NodeVisitor):
    """What is known of the names at the place that is being read; `scopes` are those around it."""

    def __init__(self, course: Course, cells: Cells):
        self.course, self.cells = course, cells
        self.scopes: list[Scope] = []
        self.own: set[str] = set()  # names of the course's or of Python's to which this cell gave a value, above

    def home(self, name: str) -> Scope | None:
        """The function, comprehension or class whose own name this is here; None for a name of the notebook."""
        for scope in self._seen_from_here():
            if name in scope.of_the_notebook:
                return None
            if name in scope.names and scope.kind == "class":
                return scope if name in scope.given else None  # before that it is the notebook's, or Python's
            if name in scope.names and scope.kind != "module":
                return scope
        return None

    def _seen_from_here(self) -> Iterator[Scope]:
        """The scopes, innermost first, among whose names one is looked up; those of a class are seen right there."""
        yield from (s for depth, s in enumerate(reversed(self.scopes)) if s.kind != "class" or not depth)

    @property
    def in_class(self) -> bool:
        return self.scopes[-1].kind == "class"

    def alias(self, name: str) -> str:
        for scope in self._seen_from_here():
            of_notebook = name in scope.of_the_notebook
            if scope.kind == "class" and name in scope.names - scope.given - scope.uncertain:
                of_notebook = True
            if of_notebook:
                return self.scopes[0].aliases.get(name, "")
            if name in scope.aliases:
                return scope.aliases[name]
            if name in scope.names:
                return ""
        return ""

    def origins(self, node: ast.AST) -> frozenset[str]:
        """What an expression may be, if it begins with an import: `np.linalg` is "numpy.linalg"."""
        if isinstance(node, ast.Name):
            alias = self.alias(node.id)
            if alias.startswith("import "):
                return frozenset([alias.removeprefix("import ")])
            home = self.home(node.id)
            if home is not None and node.id not in home.imported:
                return frozenset()
            return self.cells.imported.get(node.id, frozenset())
        if isinstance(node, ast.Attribute):
            return frozenset(f"{origin}.{node.attr}" for origin in self.origins(node.value))
        return frozenset()

    def decorates_with(self, node: ast.AST) -> str:
        """The name with which a decorator begins, `partial` left out; empty where it begins with none."""
        called = node.func if isinstance(node, ast.Call) else node
        if isinstance(node, ast.Call) and "functools.partial" in self.origins(called) and node.args:
            return self.decorates_with(node.args[0])
        root = root_of(called)
        return root.id if isinstance(root, ast.Name) else ""

    def returns_its_class(self, node: ast.AST) -> set[bool]:
        """What a decorator may be: one of Python's or JAX's that changes the class below it and returns it, or not."""
        called = node.func if isinstance(node, ast.Call) else node
        if isinstance(node, ast.Call) and "functools.partial" in self.origins(called) and node.args:
            return self.returns_its_class(node.args[0])
        known = {o in AS_DECORATOR or o.startswith("jax.tree_util.register_") for o in self.origins(called)}
        return known or {False}

    def owner(self, node: ast.AST) -> str:
        """Whose a thing is that an expression begins with: "import", "course", "class" (of another), or empty."""
        root = root_of(node)
        if not isinstance(root, ast.Name):
            return self._owner_of_value(root)
        alias = self.alias(root.id)
        if alias:
            return alias.split()[0]
        if self.origins(root):
            return "import"
        theirs = (self.course.kept | (self.course.of_checks - self.cells.names)) - self.course.vessels
        if len(self.scopes) == 1:  # a function, or a generator, may run when the course's own is put back
            theirs -= self.own
        if self.home(root.id) is None and root.id in theirs:
            return "course"
        return ""

    def _owner_of_value(self, node: ast.AST) -> str:
        if isinstance(node, ast.IfExp | ast.BoolOp | ast.Tuple | ast.List | ast.NamedExpr):
            return next(filter(None, (self.owner(child) for child in ast.iter_child_nodes(node))), "")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type":
            return "class"
        return ""

    def is_type(self, node: ast.AST) -> bool:
        """Whether an expression can be nothing but a type, and has no text in it: `dict[str, jax.Array] | None`."""
        if isinstance(node, ast.Constant):
            return node.value is None or node.value is ...
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.BitOr) and self.is_type(node.left) and self.is_type(node.right)
        if isinstance(node, ast.Tuple | ast.List):
            return all(map(self.is_type, node.elts))
        if isinstance(node, ast.Subscript):
            of = self.origins(node.value)
            if of & {"typing.Literal"}:
                return True
            inside = node.slice
            if of & {"typing.Annotated"} and isinstance(inside, ast.Tuple):
                inside = inside.elts[0]  # what else stands there is for people
            return not isinstance(node.value, ast.List) and self.is_type(node.value) and self.is_type(inside)
        if isinstance(node, ast.Call):
            said = [k.value for k in node.keywords]
            plain = all(map(self._is_of_a_type, node.args))
            plain = plain and all(self.is_type(v) or getattr(v, "value", "") in (True, False) for v in said)
            return plain and bool(self.origins(node.func) & MAKE_TYPES)
        if isinstance(node, ast.Name) and node.id in self.cells.sure_classes | (self.course.classes - self.cells.names):
            return True
        if isinstance(node, ast.Name) and node.id not in self.cells.names | self.course.kept - _BUILTINS:
            return isinstance(getattr(builtins, node.id, None), type) or bool(self.origins(node))
        return any(_OF_A_TYPE.match(origin.rpartition(".")[2]) for origin in self.origins(node))

    def is_param_spec(self, node: ast.AST) -> bool:
        """Whether an expression makes a `ParamSpec`."""
        return isinstance(node, ast.Call) and self.origins(node.func) == {"typing.ParamSpec"}

    def _is_of_a_type(self, node: ast.AST) -> bool:
        """Whether an expression is a type, a text or a number, or a list of such: `["x", "y"]`, `[("x", int)]`."""
        if isinstance(node, ast.Tuple | ast.List):
            return all(map(self._is_of_a_type, node.elts))
        return isinstance(node, ast.Constant) or self.is_type(node)

    def is_number(self, node: ast.AST) -> bool:
        """Whether this is one of the course's numbers: `SIZE`, `xs.size`, `xs.shape[0]`."""
        if isinstance(node, ast.Subscript):
            return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
        if isinstance(node, ast.Attribute):
            return node.attr in ("size", "ndim", "nbytes", "shape") and not self.origins(node)
        return isinstance(node, ast.Name) and node.id in self.course.numbers and self.home(node.id) is None

    def note_aliases(self, scope: Scope, body: Iterable[ast.AST]) -> None:
        """Which names of a scope are made from an import, or from something of the course's, by a bare assignment."""
        pairs: list[tuple[ast.AST, ast.AST]] = []
        for part in own_statements(body):
            pairs += assigned(part)
            if isinstance(part, ast.For):
                pairs.append((part.target, part.iter))
            elif isinstance(part, ast.With):
                for item in part.items:
                    given = getattr(item.context_expr, "args", [])
                    pairs += [
                        (item.optional_vars, arg) for arg in given if self.owner(arg) == "course" and item.optional_vars
                    ]
            elif isinstance(part, ast.Match):
                named = [n for case in part.cases for n in ast.walk(case.pattern)]
                found = [getattr(n, "name", None) or getattr(n, "rest", None) for n in named]
                pairs += [(ast.Name(name, ast.Store()), part.subject) for name in found if isinstance(name, str)]
        pairs = [(target, value) for target, value in pairs if isinstance(target, ast.Name | ast.Tuple | ast.List)]
        for _ in range(2):
            for target, value in pairs:
                made = isinstance(target, ast.Name) and isinstance(value, ast.Tuple | ast.List)
                whose = "" if made or self.is_number(value) else self.owner(value)
                if whose and isinstance(target, ast.Name):
                    exact = self.origins(value)
                    scope.aliases.setdefault(target.id, f"import {min(exact)}" if exact else whose)
                elif whose:
                    for name in (n.id for n in ast.walk(target) if isinstance(n, ast.Name)):
                        scope.aliases.setdefault(name, whose)


def given_in_class(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """The names that a statement of a class binds for certain, and those that it may bind, or unbind."""
    if isinstance(statement, ast.AnnAssign) and statement.value is None and isinstance(statement.target, ast.Name):
        return set(), set()  # `n: int` binds nothing
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        certain = {statement.name}
    else:
        certain = {target.id for target, _ in assigned(statement) if isinstance(target, ast.Name)}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        certain = bound(ast.Module(body=[statement], type_ignores=[]))
    declared = {n for s in own_statements([statement]) if isinstance(s, ast.Global | ast.Nonlocal) for n in s.names}
    return certain, (bound(ast.Module(body=[statement], type_ignores=[])) - certain) | declared


def root_of(node: ast.AST) -> ast.AST:
    """What an expression such as `a.b[0].c` begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node


def is_its_class(node: ast.AST) -> bool:
    """Whether this is `x.__class__`, of whatever."""
    return isinstance(node, ast.Attribute) and node.attr == "__class__"


def name_called(node: ast.Call) -> str:
    """The name of what is called, without what it is in; empty if it has none."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def own_statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All statements of a function, those of inner functions left out."""
    for node in body:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            yield from own_statements(ast.iter_child_nodes(node))
