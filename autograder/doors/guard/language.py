"""The first thing in a cell that an answer may not use. A cell is read here, and never run.

Here is what a whole cell consists of: functions, classes, comprehensions. What may stand in them, `rules` say.
"""

import ast

from .course import Course, around, assigned, bound, imports, loop_names, parameters
from .names import Cells, Scope, given_in_class, own_statements
from .rules.annotations import OfAnnotations
from .rules.reading import Refusal, Refused
from .words import ALL_BUILTINS, SPECIAL_METHODS, UNDERSCORE, is_mangled

_SHOWS_ITSELF = {"_render_traceback_", "_ipython_display_", "_ipython_canary_method_should_not_exist_"}
_REACHED = {"__new__", "__class_getitem__"}  # special methods that are given what their caller likes
_ARRAYS = {"jax.Array", "jax.numpy.ndarray", "jax.core.Tracer", "numpy.ndarray", "numpy.matrix"}
TOO_DEEP = Refusal(1, "is nested too deeply", "what nobody can read is not run", "Write it in several steps.")
CANNOT_BE_READ = Refusal(1, "belongs to a cell that cannot be read", "it is not known to be harmless", "")


def refusal(tree: ast.Module, course: Course, cells: Cells) -> Refusal | None:
    """The first thing in a cell that an answer may not use; None if there is none."""
    try:
        _Reader(course, cells).visit(tree)
    except Refused as refused:
        return refused.refusal
    except (RecursionError, MemoryError):
        return TOO_DEEP
    except Exception:  # whatever it is: what cannot be read is not run
        return CANNOT_BE_READ
    return None


class _Reader(OfAnnotations):
    def visit_Module(self, node: ast.Module) -> None:
        """The whole cell."""
        scope = Scope("module", bound(node), node)
        self.scopes.append(scope)
        again = {name for name, origin in imports(ast.walk(node)) if self.course.imported.get(name) == origin}
        self.rebound = (scope.names & self.course.kept) - (again - _stored(node))
        self.functions = {n.name for n in ast.walk(node) if isinstance(n, ast.FunctionDef)} - self.course.kept
        self.note_aliases(scope, [s for s in node.body if not isinstance(s, ast.FunctionDef | ast.ClassDef)])
        taken = scope.aliases.keys() & self.course.kept
        for name in taken:
            del scope.aliases[name]
        deleted = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del)}
        for statement in node.body:
            for target, value in assigned(statement):
                if isinstance(target, ast.Name):
                    self.module_renamed(value)
            self.visit(statement)
            given = {target.id for target, _ in assigned(statement) if isinstance(target, ast.Name)}
            self.own |= given - taken - deleted  # `sum = 0`: from here on, it is the cell's own
        self.scopes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """A function, or a method."""
        self.bind(node, node.name)
        if self.in_class and node.name.startswith("__") and not is_mangled(node.name) | (node.name in SPECIAL_METHODS):
            self.refuse(node, f"defines {node.name}", "a class that has it can pass for something else")
        if node.name in _SHOWS_ITSELF:
            self.refuse(node, f"defines {node.name}", "errors are shown as they are")
        for place, decorator in enumerate(node.decorator_list):
            self.decorator(decorator, all(map(self.jits, node.decorator_list[place + 1 :])))
        self.all(getattr(node, "type_params", []))
        self.annotations(node)
        self.all(part for part in around(node) if not any(part is d for d in node.decorator_list))
        self.function(node, node.body, method=self.in_class)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """As a function."""
        self.all(around(node))
        self.function(node, [node.body], method=False)

    def function(self, node: ast.FunctionDef | ast.Lambda, body: list, *, method: bool) -> None:
        args = parameters(node.args)
        for arg in args:
            if arg.arg.startswith("__") and arg.arg.endswith("__") and arg.arg.strip("_"):
                self.refuse(node, f"has an argument {arg.arg}", "that name is Python's", "Take another name.")
        whole = ast.Module(body=[s if isinstance(s, ast.stmt) else ast.Expr(s) for s in body], type_ignores=[])
        names = bound(whole) | {arg.arg for arg in args}
        outer = {n for s in own_statements(body) if isinstance(s, ast.Global | ast.Nonlocal) for n in s.names}
        scope = Scope("function", names - outer, whole)
        if method and isinstance(node, ast.FunctionDef):
            positional = [*node.args.posonlyargs, *node.args.args]
            if positional and all(map(self._of_a_property, node.decorator_list)):
                scope.me, scope.method = positional[0].arg, node.name
                scope.unreachable = node.name.startswith("__") and node.name not in UNDERSCORE | _REACHED
                if scope.me in bound(whole) | _nonlocal(whole):
                    scope.me, scope.unreachable = "", False
        self.scopes.append(scope)
        positional = [*node.args.posonlyargs, *node.args.args]
        defaults = list(zip(positional[len(positional) - len(node.args.defaults) :], node.args.defaults, strict=True))
        defaults += [(a, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d is not None]
        for arg, default in defaults:
            scope.names.discard(arg.arg)  # the default is the outer name, even if it is the same
            whose, exact = self.owner(default), self.origins(default)
            scope.names.add(arg.arg)
            if whose:
                scope.aliases[arg.arg] = f"import {min(exact)}" if exact else whose
        self.note_aliases(scope, body)
        self.all(body)
        self.scopes.pop()

    def _of_a_property(self, node: ast.AST) -> bool:
        """Whether a method with this decorator is given objects of its own class alone."""
        if isinstance(node, ast.Attribute) and node.attr in ("setter", "deleter") and isinstance(node.value, ast.Name):
            name, body = node.value.id, getattr(self.scopes[-1].node, "body", [])
            same = [s for s in body if name in bound(ast.Module(body=[s], type_ignores=[]))]
            first = same[0] if same else None
            return all(isinstance(s, ast.FunctionDef) for s in same) and any(
                map(self._of_a_property, [d for d in getattr(first, "decorator_list", []) if isinstance(d, ast.Name)])
            )
        plain = isinstance(node, ast.Name) and node.id == "property" and "property" not in self.cells.names
        return (plain and "property" not in self.scopes[-1].names) or self.origins(node) == {
            "functools.cached_property"
        }

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """A class, whose metaclass is `type`."""
        self.bind(node, node.name)
        if node.name in self.course.classes & self.course.kept:
            self.refuse(
                node, f"makes another class {node.name}", "the course has one of that name", "Take another name."
            )
        self.all(getattr(node, "type_params", []))
        for place, decorator in enumerate(node.decorator_list):
            below = node.decorator_list[place + 1 :]
            if True in self.returns_its_class(decorator) and any(self.returns_its_class(d) != {True} for d in below):
                what = f"has another decorator below @{ast.unparse(decorator)[:40]}"
                self.refuse(decorator, what, "that may be another class then", "Change their order.")
            self.decorator(decorator, False)
        for base in node.bases:
            if arrays := self.origins(base) & _ARRAYS:
                why = "an object of it can pass for an array"
                self.refuse(node, f"derives {node.name} from {min(arrays)}", why, "Let it have an array.")
            if self.owner(base) == "class" or (isinstance(base, ast.Name) and base.id == "type"):
                self.refuse(node, f"makes {node.name} a kind of type", "classes of such a kind can pass for others")
            self.visit(base)
        for keyword in node.keywords:
            abstract = keyword.arg == "metaclass" and self.origins(keyword.value) == {"abc.ABCMeta"}
            if keyword.arg in ("metaclass", None) and not abstract:
                self.refuse(node, f"gives {node.name} a metaclass", "classes of such a kind can pass for others")
            if not abstract:
                self.visit(keyword.value)
        scope = Scope("class", bound(node), node)
        self.scopes.append(scope)
        self.slots(node)
        names = [given_in_class(statement) for statement in node.body]
        scope.uncertain = {name for _, uncertain in names for name in uncertain}
        for statement, (certain, _) in zip(node.body, names, strict=True):
            if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
                self.note_aliases(scope, [statement])
            self.visit(statement)
            scope.given |= certain - scope.uncertain
        for name in sorted(scope.uncertain & (ALL_BUILTINS | self.course.kept | self.cells.imported.keys())):
            what = f"binds {name} in a class otherwise than by a statement of its own, or unbinds it"
            self.refuse(node, what, "nobody can see what it means then", "Take another name.")
        self.scopes.pop()

    def slots(self, node: ast.ClassDef) -> None:
        """The names in __slots__ can be read, and none of them is Python's."""
        plain = {id(t) for s in node.body if isinstance(s, ast.Assign) for t in s.targets}
        plain |= {id(s.target) for s in node.body if isinstance(s, ast.AnnAssign)}
        for part in own_statements(node.body):
            if isinstance(part, ast.Name) and part.id == "__slots__" and id(part) not in plain:
                why = "an object that has it can pass for something else"
                self.refuse(part, "binds __slots__ otherwise than by `__slots__ = (…)`", why)
        for statement in node.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign) and "__slots__" in ast.unparse(
                statement
            ):
                for part in ast.walk(statement.value) if statement.value is not None else ():
                    named = isinstance(part, ast.Constant) and str(part.value).startswith("__")
                    if named or not isinstance(
                        part, ast.Constant | ast.Tuple | ast.List | ast.Set | ast.Load | ast.Dict
                    ):
                        why = "an object that has it can pass for something else"
                        self.refuse(statement, "has a name in __slots__ that is Python's or not seen here", why)

    def comprehension(self, node: ast.AST, results: list[ast.AST], generators: list[ast.comprehension]) -> None:
        self.visit(generators[0].iter)
        scope = Scope("comprehension", loop_names(generators))
        self.scopes.append(scope)
        for place, generator in enumerate(generators):
            self.visit(generator.target)
            if whose := self.owner(generator.iter):
                for name in (n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name)):
                    scope.aliases.setdefault(name, whose)
            self.all(([generator.iter] if place else []) + generator.ifs)
        self.all(results)
        self.scopes.pop()

    def visit_ListComp(self, node: ast.ListComp) -> None:
        """Its names are its own."""
        self.comprehension(node, [node.elt], node.generators)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        """Its names are its own."""
        self.comprehension(node, [node.elt], node.generators)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        """Its names are its own."""
        self.comprehension(node, [node.elt], node.generators)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        """Its names are its own."""
        self.comprehension(node, [node.key, node.value], node.generators)


def _nonlocal(tree: ast.AST) -> set[str]:
    """The names that inner functions write."""
    return {name for part in ast.walk(tree) if isinstance(part, ast.Nonlocal) for name in part.names}


def _stored(tree: ast.AST) -> set[str]:
    """The names that are bound otherwise than by an import."""
    named = [part.name for part in ast.walk(tree) if isinstance(part, ast.FunctionDef | ast.ClassDef)]
    return {*named, *(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))}
