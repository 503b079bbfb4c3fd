"""How a cell is read: the first thing in it that an answer may not use ends the reading.

An attribute is known by its name alone, so a name is refused wherever it stands. Of a variable it is known whether it
is the notebook's or a function's own, whether an import bound it, and whether it is something of the course's.
"""

import ast
import time
from collections.abc import Iterable
from typing import NamedTuple

from ..course import Course
from ..names import Cells, Names, Scope
from ..words import BUILTINS, KNOWN, MODULES

READ_FROM_OUTSIDE = "read from outside, it would be a way into the checks"
NO_NEED = "An answer has no need of it: leave it out."
_SECONDS = 20  # of the processor, for a cell; the longest answer takes a tenth of one
_STEPS = 200  # between two looks at the clock
ONLY_CALCULATES = "an answer is graded with the modules that calculate"


class Refusal(NamedTuple):
    """What an answer may not use, on which line of its cell, why, and what to do instead."""

    line: int
    what: str
    why: str
    instead: str = NO_NEED

    def __str__(self) -> str:
        return f"line {self.line} {self.what}; {self.why}. {self.instead}".rstrip()


class Refused(Exception):
    def __init__(self, refusal: Refusal):
        self.refusal = refusal


class Reading(Names):
    """As `ast.NodeVisitor`, with what all rules ask."""

    def __init__(self, course: Course, cells: Cells):
        super().__init__(course, cells)
        self.allowed: set[ast.AST] = set()  # nodes that were judged where they stand
        self.fitting: set[ast.AST] = set()  # nodes that may stand where they stand, and nowhere else
        self.unread: set[ast.AST] = set()  # names in texts that nobody comes to, if the text is evaluated
        self.functions: set[str] = set()  # those that this cell defines
        self.rebound: set[str] = set()  # names of the course's that this cell binds
        self._steps, self._began = 0, time.process_time()
        self._settings_seen = False  # the words of the cell have been looked through for names of settings

    def refuse(self, node: ast.AST, what: str, why: str, instead: str = NO_NEED) -> None:
        raise Refused(Refusal(getattr(node, "lineno", 1), what, why, instead))

    def visit(self, node: ast.AST) -> None:
        """As in the parent class, for the kinds of syntax that are known."""
        if not isinstance(node, KNOWN):
            kind = type(node).__name__
            self.refuse(
                node, f"has a kind of statement ({kind}) that no answer needs", "it is not known to be harmless"
            )
        self._steps += 1
        if self._steps % _STEPS == 0 and time.process_time() - self._began > _SECONDS:
            self.refuse(node, "belongs to a cell that takes too long to be read", "a class waits for it", "")
        super().visit(node)

    def all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _me(self, value: ast.AST) -> Scope | None:
        """The method whose own object this is."""
        if not isinstance(value, ast.Name):
            return None
        home = self.home(value.id)
        return home if home is not None and home.me == value.id else None

    def _my_object(self, value: ast.AST) -> bool:
        """The same, where it is an object: `cls` of `__new__` is a class, and its class makes classes."""
        method = self._me(value)
        return method is not None and method.method not in ("__new__", "__class_getitem__", "__init_subclass__")

    def _compares(self) -> bool:
        """Whether this stands in a method that compares, and is handed what it compares with."""
        return any(scope.method in ("__eq__", "__ne__", "__lt__", "__hash__") for scope in self.scopes)

    def is_pythons(self, name: str) -> bool:
        """Whether one of Python's names means here what it does in Python."""
        return self.home(name) is None and name not in self.cells.names

    def _me_unreachable(self, value: ast.AST) -> bool:
        method = self._me(value)
        return method is not None and method.unreachable

    def _own_function(self, value: ast.AST) -> bool:
        """Whether a `def` of this cell has bound a name where it stands."""
        if not isinstance(value, ast.Name):
            return False
        home = self.home(value.id)
        if home is None:
            return value.id in self.functions
        return any(isinstance(s, ast.FunctionDef) and s.name == value.id for s in home.binders.get(value.id, []))

    def _own_class(self, name: str) -> bool:
        """Whether a name is that of a class which a `class` of the notebook, or of the function around, makes."""
        home = self.home(name)
        if home is None:
            return name in self.cells.only_classes
        same = home.binders.get(name, [])
        return bool(same) and all(isinstance(s, ast.ClassDef) and not s.decorator_list for s in same)

    def _is_parameter(self, name: str) -> bool:
        home = self.home(name)
        return home is not None and home.node is not None and name not in home.bound

    def _is_module(self, value: ast.AST) -> bool:
        return any(origin in MODULES for origin in self.origins(value))

    def _of_known(self, origin: str) -> bool:
        """Whether this is a name of a module that is allowed, or one of the course's own functions."""
        parts = origin.split(".")
        if parts[0] == "autograder":
            return len(parts) <= 2
        return any(".".join(parts[:n]) in MODULES for n in range(1, len(parts)))

    def is_kind(self, value: ast.AST) -> bool:
        """Whether this is a class of containers, whose methods can be given any object."""
        if isinstance(value, ast.Name) and self.home(value.id) is None and not self.origins(value):
            return value.id in BUILTINS and value.id not in self.cells.names
        if self._owner_of_value(value) == "class":
            return True
        kinds = {"deque", "defaultdict", "OrderedDict", "Counter", "UserDict", "UserList", "ndarray", "MutableSequence"}
        kinds |= {"MutableMapping", "MutableSet"}
        return any(origin.rsplit(".", 1)[-1] in kinds for origin in self.origins(value))

    def is_class(self, node: ast.AST) -> bool:
        """Whether an expression is a class, as far as that can be seen."""
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Name) and node.func.id == "type"
        if isinstance(node, ast.Name) and self.alias(node.id) == "class":
            return True
        if isinstance(node, ast.Name) and self.home(node.id) is None and not self.origins(node):
            return node.id in (BUILTINS - {"print"}) | self.cells.classes | self.course.classes
        return any(origin.rsplit(".", 1)[-1][:1].isupper() for origin in self.origins(node))
