"""Rules for names: what binds them, imports among it, and what reads them."""

import ast
import re
import sys
import sysconfig
from importlib.machinery import PathFinder

from ..course import assigned
from ..names_of_checks import is_of_a_check
from ..words import (
    ALL_BUILTINS,
    ATTRIBUTE_FUNCTIONS,
    BANS,
    BUILTINS,
    CALLED_BY_NAME,
    CLASS_NAMES,
    EVERYTHING,
    FITTING,
    FORBIDDEN,
    GETTERS,
    MODULES,
    OF_FILES,
    OF_MODULES,
    OF_OWN,
    SIGNATURES,
    SPECIAL_METHODS,
    UNDER_ANOTHER_NAME,
    is_mangled,
)
from .calls import OfCalls
from .reading import NO_NEED, ONLY_CALCULATES, READ_FROM_OUTSIDE

_IPYTHON = re.compile(r"__+|___|_i+h?|_oh|_dh|_i?\d+|_exit_code|__\w*")  # names that IPython gives to a notebook
_INSTALLED = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]  # not the folder of a notebook


class OfBindings(OfCalls):
    """Refuses modules that do more than calculate, and names that are the checks', the notebook's or Python's."""

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
        may = OF_OWN if isinstance(node, ast.FunctionDef) else OF_OWN - (ALL_BUILTINS - OF_FILES)
        if self.in_class and name in FORBIDDEN - may:
            self.refuse(node, f"gives a class {name}", READ_FROM_OUTSIDE, "Take another name.")

    def visit_Import(self, node: ast.Import) -> None:
        """`import a.b as c`."""
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            self.bind(node, name)
            if alias.name not in MODULES and alias.name not in self.course.imported.values():
                self.refuse(node, f"imports {alias.name}", ONLY_CALCULATES, _instead_of(alias.name))

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
            if alias.asname not in (None, alias.name) and _is_known_by_its_name(whole):
                what = f"imports {alias.name} under another name"
                self.refuse(
                    node, what, "what it is given is asked where it is called by its own", "Import it as it is."
                )
            allowed = MODULES.get(module, frozenset()) if not node.level else frozenset()
            hidden = alias.name in FORBIDDEN | OF_MODULES | BANS or alias.name.startswith("_") or alias.name == "*"
            hidden = (hidden and whole not in GETTERS) or whole in UNDER_ANOTHER_NAME
            if whole in FITTING - {"sys.stdout", "sys.stderr"}:
                continue
            if module == "__future__":
                hidden = alias.name != "annotations"
            if (allowed is EVERYTHING and hidden) or (allowed is not EVERYTHING and alias.name not in allowed):
                what = f"imports {alias.name} from {'.' * node.level}{module}"
                if alias.name == "*" and (allowed is EVERYTHING or allowed):
                    self.refuse(
                        node, what, "nobody can see then which names it binds", "Import the names that you use."
                    )
                self.refuse(node, what, ONLY_CALCULATES, _instead_of("." * node.level + module))

    def visit_Name(self, node: ast.Name) -> None:
        """A variable, which is read, written or deleted."""
        if not isinstance(node.ctx, ast.Load):
            self.bind(node, node.id)
            return
        self.name(node)
        if node in self.allowed:
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
        if home is not None and (home.kind != "class" or name not in ALL_BUILTINS - BUILTINS):
            return
        if name in self.course.kept and name not in self.rebound and name not in ALL_BUILTINS:
            return
        comes_to_it = node not in self.unread
        if comes_to_it and name in self.rebound and any(scope.kind == "function" for scope in self.scopes):
            whose = "Python's" if name in ALL_BUILTINS else "the course's"
            self.refuse(
                node,
                f"means its own {name}, but {name} is a name of {whose}",
                f"when an answer is graded, {whose} own is put back after each of your cells",
                "Take another name.",
            )
        of_checks = (name in self.course.of_checks and name not in self.cells.names) or is_of_a_check(name)
        if of_checks and name not in BUILTINS and (comes_to_it or is_of_a_check(name)):
            self.refuse(node, f"reads {name}", "the checks keep something of their own there", "Take another name.")
        if name in ALL_BUILTINS - BUILTINS - ATTRIBUTE_FUNCTIONS and name != "display":
            if name in ("vars", "open") and node in self.allowed:
                return
            self.refuse(node, f"uses {name}", "with it, a cell could run or change what nobody sees")
        unknown = name.startswith("_") and name not in self.cells.names and name not in BUILTINS
        if unknown or (_IPYTHON.fullmatch(name) and name not in BUILTINS | SIGNATURES):
            self.refuse(node, f"reads {name}", "that name is the notebook's own")

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
            self.allowed.add(value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """`a += b`, which may change what `a` names."""
        if isinstance(node.target, ast.Name) and self.owner(node.target) == "course":
            self.refuse(node, f"changes {node.target.id}", "that belongs to the course", "Take another name.")
        self.generic_visit(node)


def _is_known_by_its_name(whole: str) -> bool:
    """Whether a cell, where it calls this, asks first what it is given (see `asking`): it knows it by its name."""
    return whole in CALLED_BY_NAME or whole.startswith("jax.tree_util.register_")


def _instead_of(module: str) -> str:
    """What to do without a module: most that are neither Python's nor installed are a student's own files."""
    top = module.split(".")[0]
    if top in sys.stdlib_module_names or (top and PathFinder.find_spec(top, _INSTALLED) is not None):
        return NO_NEED
    return f"{NO_NEED} If it is a file of yours, write what you need of it in this cell: the notebook alone is graded."
