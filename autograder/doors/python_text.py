"""A cell's text as Python: what it defines, what it asks for, and the same without some of its statements."""

import ast
import symtable
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property

from .guard.course import bound, loop_names
from .guard.names_of_answers import read_by


class PythonText:
    """A text that is Python, and its tree."""

    def __init__(self, text: str, tree: ast.Module):
        self.text, self.tree = text, tree

    @classmethod
    def of(cls, source: str) -> "PythonText | None":
        """A cell's text, without the magics that only show or measure something; None if it is no Python then."""
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            return cls(source, ast.parse(source))._that_can_be_read()
        from .guard.magics import NoPython, python_of  # IPython takes a while, and few cells have a magic

        with suppress(NoPython, ValueError, RecursionError, MemoryError):
            return cls(*python_of(source))._that_can_be_read()
        return None

    def _that_can_be_read(self) -> "PythonText":
        """Itself. Raises RecursionError for what is nested too deeply, and for nobody to be evaluated."""
        ast.unparse(self.tree)
        return self

    @cached_property
    def bound(self) -> set[str]:
        """The names to which something is given when it is run."""
        return bound(self.tree)

    @cached_property
    def asked_for(self) -> set[str]:
        """The names of the notebook that are read when it is run, or when one of its functions is."""
        inner = (symbol for table in _tables(self.text)[1:] for symbol in table.get_symbols())
        return read_now(self.tree) | {s.get_name() for s in inner if s.is_global() and s.is_referenced()}

    def without(self, nodes: Iterable[ast.stmt]) -> str:
        """The text without the lines of some statements."""
        lines: list[str | None] = [*self.text.split("\n")]
        for node in nodes:
            first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
            for number in range(first - 1, node.end_lineno or node.lineno):
                lines[number] = None
        return "\n".join(line for line in lines if line is not None).strip("\n") if None in lines else self.text


def read_now(statement: ast.AST) -> set[str]:
    """The names that are read when a statement is carried out; those in functions that it defines are not."""
    loops = [loop for node in ast.walk(statement) for loop in getattr(node, "generators", [])]
    return set(read_by(statement)) - loop_names(loops)


def _tables(text: str) -> list[symtable.SymbolTable]:
    """Python's own account of the names in a text, that of the whole first; empty where it has none."""
    try:
        tables = [symtable.symtable(text, "cell", "exec")]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    for table in tables:
        tables += table.get_children()
    return tables
