"""The first thing in a cell that an answer may not use. A cell is read here, and never run.

An attribute is known by its name alone, so a name is refused wherever it stands. Of a variable it is known whether it
is the notebook's or a function's own, whether an import bound it, and whether it is something of the course's.
"""

import ast
import contextlib
import re
import string
import sys
import sysconfig
from collections.abc import Iterable
from importlib.machinery import PathFinder
from typing import NamedTuple

from .course import Course, around, assigned, bound, imports, parameters
from .names import Cells, Names, Scope, name_called, own_statements, root_of
from .names_of_checks import is_of_a_check
from .words import (
    ALL_BUILTINS,
    AS_DECORATOR,
    ASKED_OF_JITTED,
    ASKED_OF_VALUES,
    ASKS,
    ATTRIBUTE_FUNCTIONS,
    BANS,
    BUILTINS,
    CLASS_NAMES,
    CLOCKS,
    EVERYTHING,
    FORBIDDEN,
    FORBIDS,
    HANDED_ON,
    KNOWN,
    MODULES,
    MUTATORS,
    NOT_IN_A_THREAD,
    OF_A_PARENT,
    OF_FILES,
    OF_IMPORTED,
    OF_MODULES,
    OF_PACKAGES,
    OF_PALLAS,
    OTHER_SETTINGS,
    PATHS,
    PRIVATE,
    PRIVATE_OF_LIBRARIES,
    READ_MODES,
    SETTINGS,
    SIGNATURES,
    SPECIAL_METHODS,
    UNDERSCORE,
    WRITES_INTO,
    is_mangled,
    is_private,
)

_IPYTHON = re.compile(r"__+|___|_i+h?|_oh|_dh|_i?\d+|_exit_code|__\w*")  # names that IPython gives to a notebook
_SHOWS_ITSELF = {"_render_traceback_", "_ipython_display_", "_ipython_canary_method_should_not_exist_"}
_FORMATS = {"jax.debug.print", "jax.experimental.pallas.debug_print"}  # their first argument is a format string
_REACHED = {"__new__", "__class_getitem__"}  # special methods that are given what their caller likes
_SETTINGS = {"jax.config.update"}  # a mutator by its name, of a module
_THEIR_OWN = {"__name__", "__qualname__", "__doc__"}  # what an answer may write on its own functions
_POOL = "concurrent.futures.ThreadPoolExecutor"
_OF_JITTED = ("_cache_", "_fun", "_jit", "_cpp", "_clear", "_signature", "_apply", "_src", "_core", "_sys", "_os")
_STREAMS = {"contextlib.redirect_stdout", "contextlib.redirect_stderr"}
_ARRAYS = {"jax.Array", "jax.numpy.ndarray", "jax.core.Tracer", "numpy.ndarray"}
_PRINTING = {"set_printoptions", "printoptions"}
_TIMERS = {"timeit.timeit", "timeit.repeat"}
# What may be used in one way alone: `print(..., file=sys.stderr)`, `with redirect_stdout(text):`, a class as a wrapper.
_FITTING = _STREAMS | {"sys.stdout", "sys.stderr", "functools.update_wrapper"}
_GETTERS = {"operator.attrgetter", "operator.methodcaller"}  # their first arguments are names of attributes
_COUNTS = "autograder.assert_max_traces"
_READING = "read from outside, it would be a way into the checks"
_NO_NEED = "An answer has no need of it: leave it out."
_ONLY_CALCULATES = "an answer is graded with the modules that calculate"
_INSTALLED = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]  # not the folder of a notebook


class Refusal(NamedTuple):
    """What an answer may not use, on which line of its cell, why, and what to do instead."""

    line: int
    what: str
    why: str
    instead: str = _NO_NEED

    def __str__(self) -> str:
        return f"line {self.line} {self.what}; {self.why}. {self.instead}"


TOO_DEEP = Refusal(1, "is nested too deeply", "what nobody can read is not run", "Write it in several steps.")

CANNOT_BE_READ = Refusal(1, "belongs to a cell that cannot be read", "it is not known to be harmless", "")


def refusal(tree: ast.Module, course: Course, cells: Cells) -> Refusal | None:
    """The first thing in a cell that an answer may not use; None if there is none."""
    try:
        _Reader(course, cells).visit(tree)
    except _Refused as refused:
        return refused.refusal
    except (RecursionError, MemoryError):
        return TOO_DEEP
    except Exception:  # whatever it is: what cannot be read is not run
        return CANNOT_BE_READ
    return None


def _instead_of(module: str) -> str:
    """What to do without a module: most that are neither Python's nor installed are a student's own files."""
    top = module.split(".")[0]
    if top in sys.stdlib_module_names or (top and PathFinder.find_spec(top, _INSTALLED) is not None):
        return _NO_NEED
    return f"{_NO_NEED} If it is a file of yours, write what you need of it in this cell: the notebook alone is graded."


class _Refused(Exception):
    def __init__(self, refusal: Refusal):
        self.refusal = refusal


class _Reader(Names):
    def __init__(self, course: Course, cells: Cells):
        super().__init__(course, cells)
        self.allowed: set[int] = set()  # nodes that were judged where they stand
        self.fitting: set[int] = set()  # nodes that may stand where they stand, and nowhere else
        self.functions: set[str] = set()  # those that this cell defines
        self.rebound: set[str] = set()  # names of the course's that this cell binds

    # What all rules use.

    def refuse(self, node: ast.AST, what: str, why: str, instead: str = _NO_NEED) -> None:
        raise _Refused(Refusal(getattr(node, "lineno", 1), what, why, instead))

    def visit(self, node: ast.AST) -> None:
        """As in the parent class, for the kinds of syntax that are known."""
        if not isinstance(node, KNOWN):
            kind = type(node).__name__
            self.refuse(
                node, f"has a kind of statement ({kind}) that no answer needs", "it is not known to be harmless"
            )
        super().visit(node)

    def all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    # Statements and scopes.

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
            innermost = place == len(node.decorator_list) - 1
            self.decorator(decorator, innermost)
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
            if arg.arg.startswith("__") and arg.arg.endswith("__"):
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
            self.decorator(decorator, True)
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
        self.note_aliases(scope, [s for s in node.body if not isinstance(s, ast.FunctionDef | ast.ClassDef)])
        self.slots(node)
        self.all(node.body)
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
        targets = {n.id for g in generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        scope = Scope("comprehension", targets)
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

    def visit_Global(self, node: ast.Global) -> None:
        """Of the notebook's names, a function may write those that belong to the answer."""
        for name in node.names:
            self.bind(node, name, at_top=True)
            theirs = (self.course.kept | (self.course.in_checks - self.course.of_checks)) - self.course.written
            if name in theirs or name in self.course.imported:
                self.refuse(
                    node,
                    f"writes {name}, which belongs to the course, from inside a function",
                    "a check that calls the function uses it too",
                    "Take another name.",
                )

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        """Of the names of the functions around."""
        for name in node.names:
            self.bind(node, name)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        """It may bind a name."""
        if node.name:
            self.bind(node, node.name)
        self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:
        """Threads end with the block that they are made for."""
        for call in (item.context_expr for item in node.items):
            if not isinstance(call, ast.Call):
                continue
            origins = self.origins(call.func)
            if _POOL in origins:
                self.pool(call)
                self.allowed.add(id(call.func))
            if (origins & _STREAMS or name_called(call) == "printoptions") and not self._in_a_generator():
                self.fitting.add(id(call.func))
        self.generic_visit(node)

    def pool(self, node: ast.AST) -> None:
        """Threads are made, for a block."""
        if self._in_a_generator():
            why = "between two values of a generator its threads would run on behind the answer"
            self.refuse(node, "uses ThreadPoolExecutor in a generator", why, "Write a function that returns.")
        for ban in sorted(self.course.bans & NOT_IN_A_THREAD):
            why = f"the checks forbid something by jax.{ban}, which another thread does not know"
            self.refuse(node, "uses ThreadPoolExecutor", why, "Calculate without threads.")

    def _in_a_generator(self) -> bool:
        function = next((scope for scope in reversed(self.scopes) if scope.kind == "function"), None)
        body = [] if function is None else function.statements
        return any(isinstance(part, ast.Yield | ast.YieldFrom) for part in body)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        """It may bind a name."""
        if node.name:
            self.bind(node, node.name)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs  # type: ignore[assignment]

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        """It may bind the rest of a table."""
        if node.rest:
            self.bind(node, node.rest)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        """It binds a name of the function or notebook around, in a comprehension too."""
        around_it = next(scope for scope in reversed(self.scopes) if scope.kind != "comprehension")
        self.bind(node, node.target.id, at_top=around_it.kind == "module")
        self.generic_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        """Its keywords are attributes, which it reads."""
        for name in node.kwd_attrs:
            self.attribute(node, ast.Name("_", ast.Load()), name)
        self.generic_visit(node)

    def bind(self, node: ast.AST, name: str, *, at_top: bool = False) -> None:
        """A name that a statement binds."""
        if name in ("__import__", "__class__", "__build_class__"):
            self.refuse(node, f"gives {name} another meaning", "it has one of its own", "Take another name.")
        if is_of_a_check(name):
            self.refuse(node, f"writes {name}", "the checks keep something of their own there", "Take another name.")
        if (at_top or self.scopes[-1].kind in ("module", "class")) and not (self.in_class and not at_top):
            if name in ALL_BUILTINS - BUILTINS and name != "display":
                self.refuse(node, f"gives {name} another meaning", "it has one of its own", "Take another name.")
            if _IPYTHON.fullmatch(name) and name not in SIGNATURES:
                self.refuse(node, f"writes {name}", "that name is the notebook's own", "Take another name.")
        elif self.in_class and name.startswith("__") and not is_mangled(name) | (name in SPECIAL_METHODS | CLASS_NAMES):
            self.refuse(node, f"gives a class {name}", "a class that has it can pass for something else")
        if self.in_class and name == "__qualname__":
            self.refuse(node, f"gives a class {name}", "a class that has it can pass for another one")
        if self.in_class and name in FORBIDDEN - OF_FILES:
            self.refuse(node, f"gives a class {name}", _READING, "Take another name.")

    # Imports.

    def visit_Import(self, node: ast.Import) -> None:
        """`import a.b as c`."""
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            self.bind(node, name)
            if alias.name not in MODULES and alias.name not in self.course.imported.values():
                self.refuse(node, f"imports {alias.name}", _ONLY_CALCULATES, _instead_of(alias.name))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """`from a import b as c`."""
        module = node.module or ""
        for alias in node.names:
            name, whole = alias.asname or alias.name, f"{module}.{alias.name}"
            self.bind(node, name)
            if alias.name == "disable_jit":
                self.without_jit(node)
            if whole in self.course.imported.values() or (whole in MODULES and not node.level):
                continue
            allowed = MODULES.get(module, frozenset()) if not node.level else frozenset()
            hidden = alias.name in FORBIDDEN | OF_MODULES | BANS or alias.name.startswith("_") or alias.name == "*"
            hidden = hidden and whole not in _GETTERS
            if whole in _FITTING - {"sys.stdout", "sys.stderr"}:
                continue
            if module == "__future__":
                hidden = alias.name != "annotations"
            if (allowed is EVERYTHING and hidden) or (allowed is not EVERYTHING and alias.name not in allowed):
                what = f"imports {alias.name} from {'.' * node.level}{module}"
                if alias.name == "*" and (allowed is EVERYTHING or allowed):
                    self.refuse(
                        node, what, "nobody can see then which names it binds", "Import the names that you use."
                    )
                self.refuse(node, what, _ONLY_CALCULATES, _instead_of("." * node.level + module))

    # Names.

    def visit_Name(self, node: ast.Name) -> None:
        """A variable, which is read, written or deleted."""
        if not isinstance(node.ctx, ast.Load):
            self.bind(node, node.id)
            return
        self.name(node)
        if id(node) in self.allowed:
            return
        for origin in self.origins(node):
            self.bare(node, origin)
        if node.id == "super" and self.home("super") is None:
            self.refuse(node, "hands super on", "it also writes attributes of other objects", "Call it: super().")
        if node.id in ATTRIBUTE_FUNCTIONS and self.home(node.id) is None:
            self.refuse(node, f"hands {node.id} on", "a name that is asked for must be seen here", "Call it here.")
        if node.id == "type" and self.home("type") is None:
            self.refuse(node, "hands type on", "it also makes classes", "Call it with one value: type(x).")

    def name(self, node: ast.Name) -> None:
        """A name that is read, whatever for."""
        name, home = node.id, self.home(node.id)
        if home is not None and (home.kind != "class" or self._bound_above(node, home)):
            return
        if name in self.course.kept and name not in self.rebound and name not in ALL_BUILTINS:
            return
        if name in self.rebound and any(scope.kind == "function" for scope in self.scopes):
            whose = "Python's" if name in ALL_BUILTINS else "the course's"
            self.refuse(
                node,
                f"means its own {name}, but {name} is a name of {whose}",
                f"when an answer is graded, {whose} own is put back after each of your cells",
                "Take another name.",
            )
        of_checks = (name in self.course.of_checks and name not in self.cells.names) or is_of_a_check(name)
        if of_checks and name not in BUILTINS:
            self.refuse(node, f"reads {name}", "the checks keep something of their own there", "Take another name.")
        if name in ALL_BUILTINS - BUILTINS - ATTRIBUTE_FUNCTIONS and name != "display":
            if name in ("vars", "open") and id(node) in self.allowed:
                return
            self.refuse(node, f"uses {name}", "with it, a cell could run or change what nobody sees")
        unknown = name.startswith("_") and name not in self.cells.names and name not in BUILTINS
        if unknown or (_IPYTHON.fullmatch(name) and name not in BUILTINS | SIGNATURES):
            self.refuse(node, f"reads {name}", "that name is the notebook's own")

    def _bound_above(self, node: ast.Name, home: Scope) -> bool:
        """Whether a name that is read in a class has been bound there: `__radd__ = __add__`."""
        body = getattr(home.node, "body", [])
        above = [s for s in body if s.lineno < node.lineno]
        inside = [part for statement in body for part in ast.walk(statement)]
        gone = {p.id for p in inside if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Del)}
        gone |= {p.name for p in inside if isinstance(p, ast.ExceptHandler) and p.name}
        if node.id in gone | (ALL_BUILTINS - BUILTINS):
            return False
        return any(
            node.id == name
            for statement in above
            for name in (
                [statement.name]
                if isinstance(statement, ast.FunctionDef | ast.ClassDef)
                else [t.id for t, _ in assigned(statement) if isinstance(t, ast.Name)]
            )
        )

    def bare(self, node: ast.AST, origin: str) -> None:
        """Something imported that is not followed by a dot."""
        if origin.endswith(".ABCMeta"):
            self.refuse(node, "uses ABCMeta otherwise than as a metaclass", "it makes classes", "Derive from ABC.")
        if origin in _FITTING | _TIMERS and id(node) not in self.fitting:
            self.refuse(node, f"uses {origin} in an unusual way", "nobody can see here what it does", "Leave it out.")
        if origin.rpartition(".")[2] in _PRINTING and isinstance(node, ast.Name):
            self.printing(node, origin.rpartition(".")[2])
        if origin == "types.SimpleNamespace":
            why = "from a table it makes an object with any attributes"
            self.refuse(node, "hands SimpleNamespace on", why, "Call it here, with keywords.")
        if origin in _GETTERS:
            self.refuse(node, f"hands {origin} on", "a name that is asked for must be seen here", "Call it here.")
        if origin == _POOL:
            what = "uses ThreadPoolExecutor otherwise than in a `with`"
            self.refuse(
                node, what, "its threads would run on behind the answer", "Write `with ThreadPoolExecutor(…) as …:`."
            )
        if origin in _SETTINGS | {"jax.config"}:
            self.settings()
        if origin.rsplit(".", 1)[-1].startswith("register_") and origin.startswith("jax.tree_util"):
            self.refuse(
                node, f"hands {origin} on", "it also changes what checks compare", "Call it here, with your class."
            )
        if origin in AS_DECORATOR:
            self.refuse(node, f"uses {origin.split('.')[1]} otherwise than with an @", "it changes what it is given")
        if origin in MODULES:
            if origin not in HANDED_ON:
                why = "nobody can see then what of it is used"
                self.refuse(
                    node, f"hands the module {origin} on", why, "Use its names, or import it where you need it."
                )
        elif not self._of_known(origin):
            self.refuse(node, f"uses {origin}", "that is for the checks alone")

    def _of_known(self, origin: str) -> bool:
        """Whether this is a name of a module that is allowed, or one of the course's own functions."""
        parts = origin.split(".")
        if parts[0] == "autograder":
            return len(parts) <= 2
        return any(".".join(parts[:n]) in MODULES for n in range(1, len(parts)))

    # Attributes.

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """`a.b`, which is read, written or deleted."""
        if isinstance(node.ctx, ast.Load):
            inner = node.value.attr if isinstance(node.value, ast.Attribute) else ""
            if node.attr in ("__name__", "__qualname__") and inner == "__class__":
                self.fitting.add(id(node.value))  # `x.__class__.__name__` is a text
            self.attribute(node, node.value, node.attr)
            if id(node) not in self.allowed:
                for origin in self.origins(node):
                    self.bare(node, origin)
        else:
            self.written(node, node.value, node.attr)
        builtin = isinstance(node.value, ast.Name) and node.value.id in (*ATTRIBUTE_FUNCTIONS, "type")
        if isinstance(node.value, ast.Name | ast.Attribute) and not builtin:
            self.allowed.add(id(node.value))
        self.visit(node.value)

    def attribute(self, node: ast.AST, value: ast.AST, attr: str) -> None:
        """An attribute that is read."""
        modules = self.origins(value)
        root = root_of(value)
        sure = modules if not (isinstance(root, ast.Name) and root.id in self.cells.otherwise) else frozenset()
        for module in modules:
            self.of_module(node, module, attr)
        if attr in ("format", "format_map"):
            self.formats(node, value, asked=id(node) in self.fitting)
        if not sure and (attr in PATHS or (self.cells.hand_on and attr in OF_MODULES)):
            self.refuse(node, f"asks for .{attr}", "nobody can see here what that leads to", "Import what you need.")
        if attr == "loads" and sure != {"json"}:
            self.refuse(node, "asks for .loads", "what is read may be run")
        if attr in MUTATORS and self.is_kind(value):
            what = f"asks for {ast.unparse(value)[:40]}.{attr}"
            self.refuse(node, what, "nobody can see here what it changes", "Call the method.")
        if attr in self.cells.writers and isinstance(value, ast.Name) and value.id in self.cells.classes:
            what = f"asks for {value.id}.{attr}"
            self.refuse(node, what, "that writes attributes of whatever it is given", "Call the method of an object.")
        own_file = attr in OF_FILES & self.cells.methods and not modules
        if (
            attr in FORBIDDEN
            and not own_file
            and not any(f"{m}.{attr}" in (*MODULES, *_GETTERS) or ("pallas" in m and attr in OF_PALLAS) for m in sure)
            and id(node) not in self.fitting
        ):
            self.refuse(node, f"asks for .{attr}", _READING)
        if attr == "disable_jit":
            self.without_jit(node)
        if attr in _PRINTING:
            self.printing(node, attr)
        if attr == "keywords" and not isinstance(node, ast.Attribute):
            self.refuse(node, "asks for keywords by its name", "they could be changed", "Write `.keywords`.")
        if attr in BANS and id(node) not in self.allowed:
            self.refuse(node, f"asks for .{attr}", "it can lift what a check forbids", f"Call jax.{attr}, to forbid.")
        usual = attr in (OF_IMPORTED if sure else OF_IMPORTED & UNDERSCORE if modules else UNDERSCORE)
        if not attr.startswith("_") or usual or (id(node) in self.allowed and attr in OF_A_PARENT):
            return
        if attr == "__dict__" and self._me_unreachable(value):
            return
        if (attr == "__class__" and id(node) in self.fitting) or (is_mangled(attr) and self._me(value)):
            return
        mine = self._me(value) or (self._own_function(value) and not attr.startswith(_OF_JITTED))
        if attr in self.cells.private and not modules and (attr not in PRIVATE_OF_LIBRARIES or mine):
            return
        self.refuse(
            node, f"asks for .{attr}", "such names belong to Python or to a library, and lead behind the checks"
        )

    def without_jit(self, node: ast.AST) -> None:
        """JAX is asked to trace nothing."""
        if _COUNTS in self.course.imported.values():
            why = "the checks count traces, and then there are none"
            self.refuse(node, "asks for disable_jit", why, "Leave it out once you have looked.")

    def printing(self, node: ast.AST, name: str) -> None:
        """NumPy is told how to print. What it prints may be compared: so that is put back after a cell, or a block."""
        if id(node) not in self.fitting and (name == "printoptions" or len(self.scopes) > 1):
            where = "otherwise than in a `with`" if name == "printoptions" else "inside a function"
            instead = "Write `with np.printoptions(…):`, in a function that returns."
            self.refuse(node, f"uses {name} {where}", "the checks would print like that, too", instead)

    def is_kind(self, value: ast.AST) -> bool:
        """Whether this is a class of containers, whose methods can be given any object."""
        if isinstance(value, ast.Name) and self.home(value.id) is None and not self.origins(value):
            return value.id in BUILTINS and value.id not in self.cells.names
        if self._owner_of_value(value) == "class":
            return True
        kinds = {"deque", "defaultdict", "OrderedDict", "Counter", "UserDict", "UserList", "ndarray", "MutableSequence"}
        kinds |= {"MutableMapping", "MutableSet"}
        return any(origin.rsplit(".", 1)[-1] in kinds for origin in self.origins(value))

    def _own_function(self, value: ast.AST) -> bool:
        """Whether a `def` of this cell has bound a name where it stands."""
        if not isinstance(value, ast.Name):
            return False
        home = self.home(value.id)
        if home is None:
            return value.id in self.functions
        return any(isinstance(s, ast.FunctionDef) and s.name == value.id for s in home.statements)

    def _me(self, value: ast.AST) -> Scope | None:
        """The method whose own object this is."""
        if not isinstance(value, ast.Name):
            return None
        home = self.home(value.id)
        return home if home is not None and home.me == value.id else None

    def _me_unreachable(self, value: ast.AST) -> bool:
        method = self._me(value)
        return method is not None and method.unreachable

    def of_module(self, node: ast.AST, module: str, attr: str) -> None:
        """`module.attr`, for a module that may be imported, or for what stands in one."""
        whole = f"{module}.{attr}"
        if whole in _FITTING and id(node) in self.fitting:
            return
        if (
            whole in self.course.imported.values()
            or whole in MODULES
            or any(name.startswith(f"{whole}.") for name in MODULES)
        ):
            return
        if module in MODULES:
            names = MODULES[module]
            if names is not EVERYTHING and attr not in names:
                self.refuse(node, f"uses {whole}", _ONLY_CALCULATES)
        elif not self._of_known(module) or any(name.startswith(f"{module}.") for name in MODULES):
            self.refuse(node, f"uses {whole}", "that is for the checks alone")
        package = OF_PACKAGES.get(module.partition(".")[0], set())
        if MODULES.get(module, ()) is EVERYTHING and attr in OF_MODULES | package:
            self.refuse(node, f"uses {whole}", "that module is not one for answers")

    def written(self, node: ast.AST, value: ast.AST, attr: str) -> None:
        """An attribute that is written or deleted."""
        if attr in FORBIDDEN:
            self.refuse(node, f"writes .{attr}", _READING)
        if attr in CLOCKS:
            self.refuse(node, f"writes .{attr}", "the checks measure with what has that name", "Take another name.")
        if self._me(value) is not None and (is_mangled(attr) or not attr.startswith("__")):
            return
        mine = value.args[0] if isinstance(value, ast.Call) and ast.unparse(value).startswith("type(") else None
        if mine is not None and self._me(mine) and not attr.startswith("_") and attr not in ASKED_OF_JITTED:
            return  # `type(self).count += 1`
        own = isinstance(value, ast.Name) and (value.id in self.cells.names or self.home(value.id) is not None)
        unknown = isinstance(value, ast.Name) and self._is_parameter(value.id)
        own = own and (not unknown or self._own_function(value))
        private = self.cells.private - PRIVATE
        if attr == "__qualname__" and isinstance(value, ast.Name) and value.id in self.cells.classes:
            self.refuse(node, f"writes {value.id}.{attr}", "a class that has it can pass for another one")
        of_own = is_private(attr) and not attr.startswith(_OF_JITTED) and self._own_function(value)
        if attr.startswith("_") and attr not in private and not (own and attr in _THEIR_OWN) and not of_own:
            self.refuse(node, f"writes .{attr}", "such names belong to Python or to a library")
        self.not_of_others(node, value, f"writes .{attr}")
        # Where it is not seen whose this is, the value is asked, see `own_objects`. It may be jitted.
        known = own or attr in self.cells.fields
        asked = ASKED_OF_JITTED if known else ASKED_OF_JITTED | ASKED_OF_VALUES
        if attr in asked | self.course.methods and not (own and attr in _THEIR_OWN):
            why = "nobody can see here that this is an object of your own class, or your own function"
            self.refuse(node, f"writes .{attr}", why, "Let the class set it.")

    def _is_parameter(self, name: str) -> bool:
        home = self.home(name)
        return home is not None and home.node is not None and name not in home.bound

    def not_of_others(self, node: ast.AST, value: ast.AST, what: str) -> None:
        """Something is to be changed: refuse that if it is not the answer's own."""
        root, whose = root_of(value), self.owner(value)
        if isinstance(root, ast.IfExp) and not whose:  # (a if c else b)[k] = v
            for branch in (root.body, root.orelse):
                self.not_of_others(node, branch, what)
            return
        if whose:
            of = {"import": "a library", "course": "the course", "class": "a class"}[whose]
            name = f" of {ast.unparse(value)[:40]}"
            self.refuse(node, f"{what}{name}", f"that belongs to {of}, and the checks use it", "Change a copy of it.")
        if not isinstance(root, ast.Name | ast.Call) or isinstance(root, ast.Call) and what.startswith("writes ."):
            self.refuse(node, what, "nobody can see here whose it is", "Give the object a name first.")

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """`a[b]`, which is read, written or deleted."""
        if not isinstance(node.ctx, ast.Load) and not self._environment(node):
            self.not_of_others(node, node.value, "writes a part")
        self.generic_visit(node)

    def _environment(self, node: ast.Subscript) -> bool:
        """Whether this is a setting of JAX or XLA, which has no effect any more when an answer runs."""
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return "os.environ" in self.origins(node.value) and str(key).startswith(("XLA_", "JAX_"))

    def visit_Assign(self, node: ast.Assign) -> None:
        """`lax = jax.lax` in a function that binds the name once: it is known what `lax` is then."""
        home = self.scopes[-1]
        if home.kind == "function" and home.node is not None:
            for target, value in assigned(node):
                if isinstance(target, ast.Name) and home.stored[target.id] == 1 and target.id in home.aliases:
                    self.module_renamed(value)
        self.generic_visit(node)

    def module_renamed(self, value: ast.AST) -> None:
        """`jax.lax` may stand alone where it is given another name."""
        if isinstance(value, ast.Attribute) and self.origins(value) & MODULES.keys():
            self.allowed.add(id(value))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """`a += b`, which may change what `a` names."""
        if isinstance(node.target, ast.Name) and self.owner(node.target) == "course":
            self.refuse(node, f"changes {node.target.id}", "that belongs to the course", "Take another name.")
        self.generic_visit(node)

    # Calls.

    def visit_Call(self, node: ast.Call) -> None:
        """A call. Some functions may be called in one way alone."""
        function = node.func
        if isinstance(function, ast.Name) and self.home(function.id) is None:
            self.call_by_name(node, function.id)
        elif isinstance(function, ast.Attribute):
            self.call_of_method(node, function)
        if self.owner(function) == "class" and (len(node.args) > 2 or node.keywords and len(node.args) > 1):
            self.refuse(node, "calls a type with three arguments", "with that, classes can be made")
        if isinstance(function, ast.Attribute) and function.attr in BANS and self._forbids(node):
            self.allowed.add(id(function))
        self.call_of_kinds(node)
        self.call_that_writes(node)
        if self.origins(function) & _GETTERS:
            self.getter(node)
        if "numpy.ndarray" in self.origins(function):  # the kernel refuses the others, see `restorer`
            why = "it can take any memory for its numbers"
            self.refuse(node, "calls np.ndarray", why, "Make arrays with np.zeros, np.empty or np.asarray.")
        mine = bool(node.args) and self._me(node.args[0]) is not None
        if "functools.update_wrapper" in self.origins(function) and len(node.args) == 2 and mine and not node.keywords:
            self.fitting.add(id(function))
        if "types.SimpleNamespace" in self.origins(function) and not node.args:
            self.allowed.add(id(function))
        if self.origins(function) & _TIMERS:
            plain = all(keyword.arg in ("number", "repeat") for keyword in node.keywords)
            if len(node.args) == 1 and isinstance(node.args[0], ast.Lambda) and plain:
                self.fitting.add(id(function))  # a text would be run, and a name may be one
        for place, arg in enumerate(node.args):  # map(type, values)
            if isinstance(arg, ast.Name) and arg.id == "type" and not place and len(node.args) <= 2:
                name = ast.unparse(function).rsplit(".", 1)[-1]
                if name in ("map", "tree_map", "asked", "sorted"):
                    self.allowed.add(id(arg))
        self.generic_visit(node)

    def _forbids(self, node: ast.Call) -> bool:
        """Whether a call of one of JAX's bans asks for it."""
        said = [*node.args, *(keyword.value for keyword in node.keywords)]
        return all(isinstance(arg, ast.Constant) and arg.value in FORBIDS for arg in said)

    def call_by_name(self, node: ast.Call, name: str) -> None:
        one = len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred)
        if name == "type" and one and self.is_class(node.args[0]):
            self.refuse(node, "asks for the type of a class", "with that, classes can be made")
        if name == "super":
            second = node.args[1] if len(node.args) == 2 else None
            if node.keywords or (node.args and (second is None or self._me(second) is None)):
                what = "calls super of something else than a method's own object"
                self.refuse(node, what, "it also writes attributes of other objects", "Write super().")
            self.allowed.add(id(node.func))
        compares = any(scope.method in ("__eq__", "__ne__", "__lt__", "__hash__") for scope in self.scopes)
        in_a_class = any(scope.kind == "class" for scope in self.scopes) and not compares
        own = one and (self._me_unreachable(node.args[0]) or not in_a_class)  # the value is asked, see `own_objects`
        if name == "print" and "print" not in self.cells.names:
            for where in (keyword.value for keyword in node.keywords if keyword.arg == "file"):
                self.fitting |= {id(where)} if self.origins(where) & {"sys.stdout", "sys.stderr"} else set()
        if one and (name == "type" or name == "vars" and own) or name == "open" and self._reads(node):
            self.allowed.add(id(node.func))
        elif name in ATTRIBUTE_FUNCTIONS and name not in self.cells.names:
            self.asks_by_name(node, name)

    def _reads(self, node: ast.Call) -> bool:
        """Whether `open` is called to read a file; which one, it is asked when it is there (see `own_objects`)."""
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        modes = [*node.args[1:], *(value for name, value in named.items() if name == "mode")]
        plain = all(isinstance(mode, ast.Constant) and mode.value in READ_MODES for mode in modes)
        seen = bool(node.args) and not isinstance(node.args[0], ast.Starred)
        return plain and seen and named.keys() <= {"mode", "encoding"} and len(modes) <= 1

    def call_of_kinds(self, node: ast.Call) -> None:
        """A call that may make a class: a table of special methods stands in it."""
        for part in (*node.args, *(k.value for k in node.keywords)):
            for key in part.keys if isinstance(part, ast.Dict) else ():
                text = key.value if isinstance(key, ast.Constant) else ""
                if isinstance(text, str) and (text in ASKS or text.startswith("__") and text.endswith("__")):
                    self.refuse(node, f"hands over a table with {text}", "with that, classes can be made")
        unseen = any(keyword.arg in ("module", None) for keyword in node.keywords)
        if unseen and "warnings.catch_warnings" in self.origins(node.func):
            self.refuse(node, "says module", "catch_warnings changes the module that it is given", "Leave it out.")
        if "inspect.signature" in self.origins(node.func) and any(k.arg is None for k in node.keywords):
            self.refuse(node, "calls signature in an unusual way", "what it is asked must be seen here")

    def is_class(self, node: ast.AST) -> bool:
        """Whether an expression is a class, as far as that can be seen."""
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Name) and node.func.id == "type"
        if isinstance(node, ast.Name) and self.alias(node.id) == "class":
            return True
        if isinstance(node, ast.Name) and self.home(node.id) is None and not self.origins(node):
            return node.id in (BUILTINS - {"print"}) | self.cells.classes | self.course.classes
        return any(origin.rsplit(".", 1)[-1][:1].isupper() for origin in self.origins(node))

    def asks_by_name(self, node: ast.Call, function: str) -> None:
        """getattr(x, "name") and its like, where the name can be read here."""
        if len(node.args) < 2 or node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
            self.refuse(node, f"calls {function} in an unusual way", "a name that is asked for must be seen here")
        value, name = node.args[:2]
        self.allowed.add(id(node.func))
        if isinstance(name, ast.Constant) and type(name.value) is str:
            place = ast.Name("_", ast.Load(), lineno=node.lineno, col_offset=0)
            if function in ("getattr", "hasattr"):
                self.attribute(place, value, name.value)
                for origin in self.origins(value):
                    self.bare(place, f"{origin}.{name.value}")
            else:
                self.written(place, value, name.value)
            if isinstance(value, ast.Name | ast.Attribute):
                self.allowed.add(id(value))
            return
        # The name is asked when it is there, see `own_objects`: of what a method writes on, its own object alone.
        if function not in ("getattr", "hasattr") and self._me(value) is None:
            what = f"calls {function} with a name that is put together"
            self.refuse(node, what, "a name that is written must be seen here", "Write the name as it is.")

    def getter(self, node: ast.Call) -> None:
        """attrgetter("name", ...) and methodcaller("name", ...), which ask any object for these attributes."""
        calls = "operator.methodcaller" in self.origins(node.func)
        for given in node.args[:1] if calls else node.args:
            text = given.value if isinstance(given, ast.Constant) else None
            if not isinstance(text, str):
                what = f"calls {ast.unparse(node.func)} with a name that is put together"
                self.refuse(node, what, "a name that is asked for must be seen here", "Write the name as it is.")
            for name in str(text).split("."):
                self.attribute(node, ast.Name("_", ast.Load()), name)
                if name.startswith("_") or name in MUTATORS | self.cells.writers:
                    self.refuse(node, f"asks for .{name}", "nobody can see here of what", "Write a function.")
        self.allowed.add(id(node.func))

    def call_of_method(self, node: ast.Call, function: ast.Attribute) -> None:
        name, value = function.attr, function.value
        if name == "format":
            self.fitting.add(id(function))  # its text is asked when it is there, see `own_objects`
        if name in OF_A_PARENT:
            first = node.args[0] if node.args else None
            parent = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super"
            me = first is not None and self._me_unreachable(first)
            known = isinstance(value, ast.Name) and value.id in BUILTINS and value.id not in self.cells.names
            known = known or (
                isinstance(value, ast.Name) and ast.unparse(first or value) == value.id
            )  # cls.__new__(cls)
            maker = name == "__new__" and known and isinstance(first, ast.Name) and self.home(first.id) is not None
            if parent or (isinstance(value, ast.Name | ast.Attribute) and (me or maker)):
                if name == "__setattr__":
                    if node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
                        self.refuse(node, "calls __setattr__ in an unusual way", "a name that is written must be seen")
                    given = node.args[0 if parent else 1 :][:1]
                    if given and isinstance(given[0], ast.Constant) and str(given[0].value).startswith("__"):
                        self.refuse(node, f"writes .{given[0].value!s}", "such names belong to Python")
                    handed_on = given and isinstance(given[0], ast.Name) and self._is_parameter(given[0].id)
                    method = next((scope.method for scope in reversed(self.scopes) if scope.kind == "function"), "")
                    if given and not isinstance(given[0], ast.Constant) and not (handed_on and method == name):
                        why = "a name that is written must be seen here"
                        self.refuse(node, "writes an attribute whose name is put together", why)
                self.allowed.add(id(function))
        elif self.origins(function) & _SETTINGS:
            self.setting(node)
        elif name in MUTATORS and not self._is_module(value):
            if isinstance(value, ast.Name) and value.id in BUILTINS - self.own and self.home(value.id) is None:
                self.refuse(node, f"calls {value.id}.{name}", "nobody can see here what it changes", "Call the method.")
            if self.owner(value):
                self.not_of_others(node, value, f"calls .{name}")

    def setting(self, node: ast.Call) -> None:
        """jax.config.update(name, value)."""
        name = node.args[0] if node.args else None
        if isinstance(name, ast.Constant):
            if name.value not in SETTINGS:
                self.refuse(node, f"changes the setting {name.value!r}", "the checks and the baselines have it, too")
        else:
            self.settings()

    def settings(self) -> None:
        """A setting is changed whose name is not seen: the words of the cell are looked through."""
        for part in self.scopes[0].parts:
            said = part.value if isinstance(part, ast.Constant) else part.arg if isinstance(part, ast.keyword) else ""
            if isinstance(said, str) and " " not in said and any(word in said for word in OTHER_SETTINGS):
                self.refuse(part, f"may change the setting {said}", "the checks and the baselines have it, too")

    def _is_module(self, value: ast.AST) -> bool:
        return any(origin in MODULES for origin in self.origins(value))

    def formats(self, node: ast.AST, value: ast.AST, *, asked: bool = False) -> None:
        """A format string can ask for attributes. `asked`: the text is asked when it is there, see `own_objects`."""
        if self._is_module(value):
            return
        if isinstance(value, ast.JoinedStr):
            texts: list[object] = [part.value for part in value.values if isinstance(part, ast.Constant)] or [""]
        else:
            texts = [value.value] if isinstance(value, ast.Constant) else self.texts(value)
        asking = r"\{[^{}]*[.\[]\s*_|\{[^{}]*(?:gi_|f_|tb_|cr_)"
        unseen = not texts or any(not isinstance(text, str) for text in texts)
        if (unseen and not asked) or any(re.search(asking, text) for text in texts if isinstance(text, str)):
            self.refuse(node, "calls format of a text that is not seen here", "such a text can ask for anything")
        for text in texts:
            self.asked_in(node, str(text))

    def asked_in(self, node: ast.AST, text: str) -> None:
        """The attributes that a format string asks for, in its fields and in how they are to be shown."""
        with contextlib.suppress(ValueError):  # no format string: it says so when it is used
            for _, field, shown, _ in string.Formatter().parse(text):
                for name in re.findall(r"\.([^.\[\]]+)", field or ""):
                    place = ast.copy_location(ast.Name("_", ast.Load()), node)
                    self.attribute(place, place, name)
                self.asked_in(node, shown or "")

    def texts(self, value: ast.AST) -> list[object]:
        """What a function's own name may stand for, if each of its assignments says that with a constant."""
        home = self.home(value.id) if isinstance(value, ast.Name) else None
        if home is None or home.node is None or home.kind != "function":
            return []
        name: str = value.id  # type: ignore[attr-defined]
        if name not in home.texts:
            home.texts[name] = [] if self._is_parameter(name) else self._texts_of(home, name)
        return home.texts[name]

    def _texts_of(self, home: Scope, name: str) -> list[object]:
        found: list[object] = []
        constant = [s for s in home.parts if isinstance(s, ast.Assign) and isinstance(s.value, ast.Constant)]
        for statement in constant:
            if [ast.unparse(target) for target in statement.targets] == [name]:
                found.append(statement.value.value)  # type: ignore[attr-defined]
        kinds = ast.Name | ast.arg | ast.alias | ast.FunctionDef | ast.ClassDef
        names = [n for n in home.parts if isinstance(n, kinds)]
        stores = [n for n in names if not isinstance(n, ast.Name) or not isinstance(n.ctx, ast.Load)]
        said = [getattr(n, "id", getattr(n, "arg", getattr(n, "asname", "") or getattr(n, "name", ""))) for n in stores]
        hidden = ast.match_case | ast.ExceptHandler | ast.Nonlocal | ast.Global
        return [] if any(isinstance(n, hidden) for n in home.parts) or said.count(name) != len(found) else found

    def call_that_writes(self, node: ast.Call) -> None:
        function = name_called(node)
        into = [keyword.value for keyword in node.keywords if keyword.arg == "out"]
        if function == "nan_to_num" and any(keyword.arg in ("copy", None) for keyword in node.keywords):
            self.refuse(node, "says copy", "nan_to_num may write into what it is given", "Leave it out.")
        if self.origins(node.func) & _FORMATS and node.args:
            self.formats(node, node.args[0])
        for keyword in node.keywords:
            if keyword.arg in ASKS:
                self.refuse(node, f"says {keyword.arg}", ASKS[keyword.arg])
        if function in WRITES_INTO or function == "at" and node.args:
            into += node.args[:1]
        if any(origin.startswith("jax.tree_util.register_") for origin in self.origins(node.func)):
            first = node.args[0] if node.args else None
            if not (isinstance(first, ast.Name) and self._own_class(first.id)):
                what = f"calls {function} with a class that is not its own"
                self.refuse(node, what, "it changes what the checks compare", "Define the class in this notebook.")
            self.allowed.add(id(node.func))
        for target in into:
            if self.owner(target) == "course":
                self.not_of_others(node, target, "changes a part")

    def _own_class(self, name: str) -> bool:
        """Whether a name is that of a class which a `class` of the notebook, or of the function around, makes."""
        home = self.home(name)
        if home is None:
            return name in self.cells.only_classes
        same = [s for s in home.statements if name in bound(ast.Module(body=[s], type_ignores=[]))]  # type: ignore[list-item]
        return bool(same) and all(isinstance(s, ast.ClassDef) and not s.decorator_list for s in same)

    def decorator(self, node: ast.AST, innermost: bool) -> None:
        """`@...` above a function or a class."""
        called = node.func if isinstance(node, ast.Call) else node
        args = node.args if isinstance(node, ast.Call) and not node.keywords else []
        if isinstance(node, ast.Call) and "functools.partial" in self.origins(node.func) and node.args:
            self.decorator(node.args[0], False)
        for origin in self.origins(called):
            if origin == "functools.wraps":
                if not (innermost and len(args) == 1 and isinstance(args[0], ast.Name | ast.Attribute)):
                    what = "uses wraps otherwise than right above a function, with one argument"
                    self.refuse(node, what, "it changes what it is given")
                self.allowed.add(id(called))
            elif origin.startswith("jax.tree_util.register_") or (
                origin in AS_DECORATOR and not (isinstance(node, ast.Call) and node.args)
            ):
                self.allowed.add(id(called))
        self.visit(node)

    # Texts that Python may read as code.

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
            if isinstance(root, ast.Name) and root.id in self.cells.names and not self.origins(root):
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
                self.annotation(inner)
                self.visit(inner)

    def _is_literal(self, node: ast.AST) -> bool:
        """Whether this is `Literal`, whose texts are values."""
        return self.origins(node) == {"typing.Literal"}

    def annotation_of_name(self, node: ast.Name) -> None:
        if node.id == "type":
            self.allowed.add(id(node))
        home = self.home(node.id)
        own = node.id in self.cells.names if home is None else home.kind != "class"
        types = self.cells.classes | (self.cells.types if home is None else frozenset())
        if own and node.id not in types and not self.origins(node):
            self.refuse(node, f"has {node.id} in an annotation", "that may be a text, and may be run", "Name a class.")


def _nonlocal(tree: ast.AST) -> set[str]:
    """The names that inner functions write."""
    return {name for part in ast.walk(tree) if isinstance(part, ast.Nonlocal) for name in part.names}


def _stored(tree: ast.AST) -> set[str]:
    """The names that are bound otherwise than by an import."""
    named = [part.name for part in ast.walk(tree) if isinstance(part, ast.FunctionDef | ast.ClassDef)]
    return {*named, *(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))}


# What an annotation may consist of; nothing that calculates with texts.
_OF_ANNOTATIONS = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Tuple, ast.List, ast.BinOp, ast.BitOr, ast.Load),
    *(ast.UnaryOp, ast.USub, ast.Slice),
)
