"""Changes a cell before it runs: it asks whose a value is before it writes on it, or reads what belongs to libraries.

What it asks with stands in `own_objects` and `plain_texts`.
"""

import ast
from collections.abc import Callable
from typing import Any

from .course import bound, loop_names, parameters
from .memory import close_libraries
from .names import is_its_class, name_called, own_statements
from .own_objects import (
    attribute,
    attributes,
    begin_cell,
    copy_of_table,
    environment,
    has_attribute,
    is_table,
    keywords,
    mine,
    no_file,
    of_objects,
    of_own,
    own,
    own_class,
    own_tuple,
    parent,
    readable,
    theirs,
    to_be_named,
    to_wrap,
    type_of,
    update_of,
    with_own_rules,
    wraps_above,
)
from .plain_texts import asked, plain_fields, plain_name, plain_names, plain_text
from .words import OF_OWN, PRIVATE_OF_LIBRARIES, RULES, UNDERSCORE, is_mangled, is_private

_WRITES = {"setattr", "delattr", "vars", "getattr"}
_BY_NAME = {"__setattr__", "__delattr__", "__dict__", "obj", *PRIVATE_OF_LIBRARIES} - UNDERSCORE
# What is asked for instead of these attributes.
_READ_BY: dict[str, Callable[[Any], Any]]
_READ_BY = {"__dict__": attributes, "keywords": keywords, "environ": environment, "update": update_of}

_HOMES = {function.__module__ for function in (asked, close_libraries, mine)}


class OwnObjects(ast.NodeTransformer):
    """Changes a cell: it asks whose a value is before it writes on it, or reads what belongs to libraries."""

    def __init__(self, *, in_the_kernel: bool = True) -> None:
        self._in_the_kernel = in_the_kernel
        self._asking: dict[ast.AST, str] = {}  # methods -> their first argument, which they ask whose it is
        self._me: set[str] = set()  # of the methods around: names that mean an object which was asked

    def visit_Module(self, node: ast.Module) -> ast.Module:
        """A cell, of which nothing is known from those before, whatever became of them."""
        self._asking, self._me = {}, set()
        self.generic_visit(node)
        if node.body and self._in_the_kernel:
            first = next(n for n, part in enumerate([*node.body, None]) if not _stands_first(part))
            node.body.insert(first, _placed(ast.Expr(_call(begin_cell)), node.body[0]))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """A class."""
        methods = [part for part in own_statements(node.body) if isinstance(part, ast.FunctionDef)]
        self._asking |= {method: _asked_of(method) for method in methods}
        before, self._me = self._me, self._me - bound(node)
        self.generic_visit(node)
        self._me = before
        for method in methods:
            documented = ast.get_docstring(method, clean=False) is not None
            me = self._asking[method]
            for question in filter(None, (_own(me, node) if me else None, _name_asked(method))):
                method.body.insert(int(documented), _placed(ast.Expr(question), method.body[0]))
        node.decorator_list.insert(0, _placed(_helper(theirs), node))
        if node.decorator_list[1:]:  # a decorator may keep the class as it is below it
            node.decorator_list.append(_placed(_helper(theirs), node))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """A function, or a method."""
        me = self._asking.get(node, "")
        others = _bound_anywhere(node.body) | {arg.arg for arg in parameters(node.args)} - {me}
        before, self._me = self._me, (self._me | {me}) - others
        self.generic_visit(node)
        for decorator in node.decorator_list[:-1]:  # what stands below is jitted, see `rules`
            if isinstance(decorator, ast.Call) and name_called(decorator) == "wraps":
                decorator.func = _placed(_call(wraps_above, decorator.func), decorator)
        node.returns = _annotation(node.returns)
        self._me = before
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        """A function."""
        before, self._me = self._me, self._me - {arg.arg for arg in parameters(node.args)}
        self.generic_visit(node)
        self._me = before
        return node

    def _of_loops(self, node: Any) -> Any:
        before, self._me = self._me, self._me - loop_names(node.generators)
        self.generic_visit(node)
        self._me = before
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _of_loops

    def _import(self, node: ast.Import | ast.ImportFrom) -> Any:
        """Flax's objects, too, name no memory from where it is imported on."""
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        after: list[ast.stmt] = []
        if any(name.partition(".")[0] == "flax" for name in names):
            after.append(ast.Expr(_call(close_libraries)))
        for alias in node.names if names == ["os"] and isinstance(node, ast.ImportFrom) else ():
            if alias.name == "environ":
                target = ast.Name(alias.asname or alias.name, ast.Store())
                after.append(ast.Assign([target], _call(environment, ast.Constant(None))))
        return [node, *(_placed(statement, node) for statement in after)] if after else node

    visit_Import = visit_ImportFrom = _import

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        """`a.b = c` writes on something of one's own."""
        self.generic_visit(node)
        written = not isinstance(node.ctx, ast.Load)
        if written and not (isinstance(node.value, ast.Name) and node.value.id in self._me):
            node.value = _placed(_call(mine, node.value, ast.Constant(node.attr)), node.value)
        if node.attr in _READ_BY and not written:
            return _placed(_call(_READ_BY[node.attr], node.value), node)
        if not written:
            node.value = self._read(node.value, node.attr)
        return node

    def _read(self, value: ast.expr, name: str) -> ast.expr:
        """A value that is asked for an attribute, which asks the value first."""
        if name in OF_OWN:
            return _placed(_call(of_own, value, ast.Constant(name)), value)
        if name == "replace":
            return _placed(_call(no_file, value), value)
        if name in RULES:
            return _placed(_call(with_own_rules, value, ast.Constant(name)), value)
        mine = isinstance(value, ast.Name) and value.id in self._me
        if mine or not is_private(name) or name in UNDERSCORE:
            return value
        return _placed(_call(readable, value, ast.Constant(name)), value)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """`x: type` can be read back, and would be the type that makes classes."""
        self.generic_visit(node)
        node.annotation = _annotation(node.annotation)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        """`x: type = ...` as well."""
        self.generic_visit(node)
        node.annotation = _annotation(node.annotation)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """One of the course's tables is copied."""
        reads = isinstance(node.ctx, ast.Load) and is_table(node.id) and self._in_the_kernel
        return _placed(_call(copy_of_table, node, ast.Constant(node.id)), node) if reads else node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """`f(**names)` hands on no name that is Python's; `type` asks for the type of an object."""
        self.generic_visit(node)
        for keyword in node.keywords:
            if keyword.arg is None:
                keyword.value = _placed(_call(plain_names, keyword.value), keyword.value)
        name = node.func.id if isinstance(node.func, ast.Name) and len(node.args) > 1 else ""
        if name in ("setattr", "delattr"):
            named = node.args[1] if isinstance(node.args[1], ast.Constant) else ast.Constant(None)
            node.args[0] = _placed(_call(mine, node.args[0], named), node.args[0])
            node.args[1] = _placed(_call(plain_name, node.args[1]), node.args[1])
        said = getattr(node.args[1], "value", None) if name in ("getattr", "hasattr") else None
        if said == "update" and name == "getattr":
            return _placed(_call(update_of, node.args[0]), node)
        if isinstance(said, str) and said not in _READ_BY.keys() - {"update"}:
            node.args[0] = self._read(node.args[0], said)
        elif name in ("getattr", "hasattr"):
            by_name: Callable[..., Any] = attribute if name == "getattr" else has_attribute
            node.func = _placed(_helper(by_name), node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "__setattr__" and node.args:
            place = 0 if isinstance(node.func.value, ast.Call) else 1  # super().__setattr__(name, value)
            if place < len(node.args):
                node.args[place] = _placed(_call(plain_name, node.args[place]), node.args[place])
        if (name_called(node) or "").startswith("register_") and node.args:
            node.args[0] = _placed(_call(own_class, node.args[0]), node.args[0])
        if name_called(node) == "register_dataclass":
            node.args[1:] = [_placed(_call(plain_fields, names), names) for names in node.args[1:]]
            for keyword in node.keywords:
                if keyword.arg:
                    keyword.value = _placed(_call(plain_fields, keyword.value), keyword.value)
        if name_called(node) == "update_wrapper" and node.args:
            node.args[0] = _placed(_call(to_be_named, node.args[0]), node.args[0])
        if name_called(node) == "warn":
            for keyword in node.keywords:
                if keyword.arg == "stacklevel":  # of whoever calls nothing is shown
                    keyword.value = _placed(ast.Constant(1), keyword.value)
        if is_its_class(node.func):
            node.func = _placed(_call(type_of, node.func.value), node.func)  # type: ignore[attr-defined]
        if name_called(node) in ("update_wrapper", "wraps") and node.args:
            node.args[-1] = _placed(_call(to_wrap, node.args[-1]), node.args[-1])
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return _placed(_call(parent, node), node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "format_map"):
            node.func.value = _placed(_call(plain_text, node.func.value), node.func.value)
        if isinstance(node.func, ast.Name) and node.func.id in ("type", "vars", "open"):
            node.func = _placed(_call(of_objects, node.func), node.func)
        if node.args and isinstance(node.args[0], ast.Name) and node.args[0].id == "type":
            node.args[0] = _placed(_call(of_objects, node.args[0]), node.args[0])
        return node


def asks(tree: ast.Module) -> bool:
    """Whether a cell, as it was changed, asks anything."""
    return any(isinstance(node, ast.Constant) and node.value in _HOMES for node in ast.walk(tree))


def _helper(function: Callable[..., Any]) -> ast.expr:
    # No cell can give `__import__` another meaning (see `language`), and it is there in a measuring process, too.
    home, name = function.__module__, function.__name__
    return ast.parse(f"__import__({home!r}, fromlist=['_']).{name}", mode="eval").body


class _TypeAsText(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Constant("type"), node) if node.id == "type" else node


def _annotation(node: Any) -> Any:
    """An annotation in which a text stands for `type`."""
    return None if node is None else _TypeAsText().visit(node)


def _call(function: Callable[..., Any], *args: ast.expr) -> ast.Call:
    return ast.Call(_helper(function), list(args), [])


def _own(me: str, kind: ast.ClassDef) -> ast.Call:
    if any(ast.unparse(base).endswith("NamedTuple") for base in kind.bases):  # there is no `__class__` in its methods
        return _call(own_tuple, ast.Name(me, ast.Load()), ast.Constant(kind.name))
    return _call(own, ast.Name(me, ast.Load()), ast.Name("__class__", ast.Load()))


def _placed(node: Any, at: ast.AST) -> Any:
    """A node that was made here, and what is in it, on the lines of another one."""
    for part in ast.walk(node):
        if not hasattr(part, "lineno"):
            ast.copy_location(part, at)
    return ast.fix_missing_locations(node)


def _stands_first(node: ast.stmt | None) -> bool:
    """Whether a statement must be the first one of a cell: what it says of itself, and imports from the future."""
    said = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return said or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _bound_anywhere(body: list[ast.stmt]) -> set[str]:
    """The names that a function binds, and those that functions in it do: one of them may be `nonlocal`."""
    inner = [node for part in body for node in ast.walk(part) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return set().union(bound(ast.Module(body=list(body), type_ignores=[])), *map(bound, inner))


def _asked_of(method: ast.FunctionDef) -> str:
    """The first argument of a method that writes its attributes, or reads what others have, too; empty of any other."""
    places = [*method.args.posonlyargs, *method.args.args]
    kinds = {ast.unparse(decorator).rsplit(".", 1)[-1] for decorator in method.decorator_list}
    if not places or method.name == "__new__" or kinds & {"staticmethod", "classmethod"}:
        return ""
    for part in ast.walk(method):
        if isinstance(part, ast.Attribute) and (
            not isinstance(part.ctx, ast.Load) or part.attr in _BY_NAME or is_mangled(part.attr)
        ):
            return places[0].arg
        if isinstance(part, ast.Name) and part.id in _WRITES:
            return places[0].arg
    return places[0].arg if _uses_class_of(places[0].arg, method) else ""


def _uses_class_of(name: str, method: ast.FunctionDef) -> bool:
    """Whether `name.__class__` is more than compared or shown, or `type(name)` called with what could make a class."""
    shown: set[ast.AST] = set()
    for part in ast.walk(method):
        if isinstance(part, ast.Attribute) and part.attr in ("__name__", "__qualname__"):
            shown.add(part.value)
        elif isinstance(part, ast.Compare):
            values = [part.left, *part.comparators]
            same = all(isinstance(operator, ast.Is | ast.IsNot) for operator in part.ops)
            shown.update(values if same or all(map(is_its_class, values)) else [])
    for part in ast.walk(method):
        if is_its_class(part) and part not in shown and ast.unparse(part) == f"{name}.__class__":
            return True
        many = isinstance(part, ast.Call) and len(part.args) + bool(part.keywords) > 2
        if many and ast.unparse(part.func) == f"type({name})":  # type: ignore[attr-defined]
            return True
    return False


def _name_asked(method: ast.FunctionDef) -> ast.Call | None:
    """What a method begins with that says what its object has."""
    places = [*method.args.posonlyargs, *method.args.args]
    if method.name != "__getattr__" or len(places) < 2:
        return None
    return _call(asked, ast.Name(places[1].arg, ast.Load()))
