"""Rules for annotations and type aliases: texts that Python may read as code."""

import ast

from ..course import parameters
from ..names import root_of
from ..words import ALL_BUILTINS
from .bindings import OfBindings


class OfAnnotations(OfBindings):
    """Refuses annotations that are more than names of classes."""

    def annotations(self, node: ast.FunctionDef) -> None:
        for arg in parameters(node.args):
            self.annotation(arg.annotation)
        self.annotation(node.returns)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """`a: b = c`."""
        self.annotation(node.annotation)
        self.generic_visit(node)

    def visit_TypeAlias(self, node: ast.AST) -> None:
        """`type X = int`, which Python evaluates when it is asked: it may be what an annotation may be."""
        self.annotation(node.value)  # type: ignore[attr-defined]
        self.generic_visit(node)

    def of_type(self, node: ast.AST) -> None:
        """The T of `def f[T: int](x: T)`, as an alias."""
        self.bind(node, node.name)  # type: ignore[attr-defined]
        self.annotation(getattr(node, "bound", None))
        self.annotation(getattr(node, "default_value", None))
        self.generic_visit(node)

    visit_TypeVar = visit_ParamSpec = visit_TypeVarTuple = of_type

    def annotation(self, node: ast.AST | None) -> None:
        """An annotation may be a text, and a text may be evaluated later: it names classes, and no more."""
        if node is None:
            return
        said = [
            part.slice for part in ast.walk(node) if isinstance(part, ast.Subscript) and self._is_literal(part.value)
        ]
        values = {id(part) for values in said for part in ast.walk(values)}
        for part in ast.walk(node):
            root = root_of(part) if isinstance(part, ast.Attribute) else None
            own = isinstance(root, ast.Name) and (root.id in self.cells.names or self.home(root.id) is not None)
            if own and root is not None and not self.origins(root) and not self._is_of_parameters(part):
                what = f"has {ast.unparse(part)[:40]} in an annotation"
                self.refuse(node, what, "that may be a text, and may be run", "Name a class.")
            if not isinstance(part, _OF_ANNOTATIONS):
                self.refuse(node, "calculates an annotation", "a text there may be run", "Leave it out.")
            if isinstance(part, ast.Name):
                self.annotation_of_name(part)
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and id(part) not in values:
                try:
                    inner = ast.parse(part.value.strip(), mode="eval").body
                except (SyntaxError, ValueError):
                    continue  # nor can it be evaluated
                for child in ast.walk(inner):
                    ast.copy_location(child, part)
                if self._ends_at_once(inner):  # `float32[n]`: whoever evaluates it does not come as far as `n`
                    self.unread.update(child for child in ast.walk(inner) if isinstance(child, ast.Name))
                else:
                    self.annotation(inner)
                self.visit(inner)

    def _ends_at_once(self, node: ast.AST) -> bool:
        """Whether a text that is evaluated ends in a NameError: what it begins with, nobody has given a value."""
        while not isinstance(node, ast.Name):
            inner = getattr(node, _EVALUATED_FIRST.get(type(node), ""), None)
            inner = inner[0] if isinstance(inner, list) and inner else inner
            if not isinstance(inner, ast.AST):
                return False
            node = inner
        known = self.cells.names | self.cells.fields | self.course.kept | self.course.in_checks | ALL_BUILTINS
        of_scopes = any(node.id in scope.names for scope in self.scopes)
        return node.id not in known and not of_scopes and not self.origins(node)

    def _is_of_parameters(self, node: ast.AST) -> bool:
        """Whether this is `P.args` or `P.kwargs` of a `ParamSpec`."""
        if not isinstance(node, ast.Attribute) or node.attr not in ("args", "kwargs"):
            return False
        return isinstance(node.value, ast.Name) and node.value.id in self.cells.parameters

    def _is_literal(self, node: ast.AST) -> bool:
        """Whether this is `Literal`, whose texts are values."""
        return self.origins(node) == {"typing.Literal"}

    def annotation_of_name(self, node: ast.Name) -> None:
        if node.id == "type":
            self.allowed.add(node)
        home = self.home(node.id)
        own = home is not None or node.id in self.cells.names
        types = self.cells.sure_classes | (self.cells.types if home is None else self.cells.types_in_functions)
        if own and node.id not in types and not self.origins(node):
            self.refuse(node, f"has {node.id} in an annotation", "that may be a text, and may be run", "Name a class.")


# What an annotation may consist of; nothing that calculates with texts.
_OF_ANNOTATIONS = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Tuple, ast.List, ast.BinOp, ast.BitOr, ast.Load),
    *(ast.UnaryOp, ast.USub, ast.Slice, ast.BoolOp, ast.boolop),
)
# Which part of an expression Python evaluates first.
_EVALUATED_FIRST = {
    ast.Attribute: "value",
    ast.Subscript: "value",
    ast.Call: "func",
    ast.BinOp: "left",
    ast.BoolOp: "values",
    ast.Compare: "left",
    ast.UnaryOp: "operand",
    ast.Tuple: "elts",
    ast.List: "elts",
}
