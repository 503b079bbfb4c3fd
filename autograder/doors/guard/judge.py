"""Judge cells by their text: what of each is run, and what is said of the others."""

import ast
import copy
import functools
import importlib
import re
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from .course import Course, bound
from .language import CANNOT_BE_READ, TOO_DEEP, Refusal, refusal
from .magics import UnknownMagic, python_in, replaced
from .names import Cells
from .names_of_answers import OfAnswersAsRead, is_of_an_answer, own_names, speaks_of_one
from .together import cells_together
from .words import EVERYTHING, MODULES, SHOWS

_LONGEST = 200_000  # characters of a cell
_LONGEST_TOGETHER = 400_000  # of all cells of a notebook that are a student's
_MOST_PARTS = 20_000  # of a cell's tree; the longest answer has 600
_MOST_MAGICS = 50
_MAGIC_LINE = re.compile(r"^\s*[%!?/,;]|\?\s*$|=\s*[%!]", re.MULTILINE)
_LONGEST_NUMBER = 2**13  # bits; Python writes none as a text that has some six thousand more
_DEEPEST = 250  # parts of a text inside each other; with some hundred more, Python gives up reading


class Judged(NamedTuple):
    """A student's cell: the text that is run, or why none is; `name` is then the kind of error.

    Where a text is run, `why` says what was left out of it, and so does the text, in a line that it prints. What it
    calls by one of the names in `apart`, which are the course's or Python's, is its own: see `names_of_answers`.
    `refused` is what stands against a cell that could be read; `parts` what the answer may need of what was left out.
    """

    text: str
    name: str = ""
    why: str = ""
    apart: frozenset[str] = frozenset()
    refused: Refusal | None = None
    parts: tuple[str, ...] = ()


def judge(sources: Iterable[str], course: Course) -> dict[str, Judged]:
    """What is to be done with each of a student's cells."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Python says of a text of theirs has its place on their page
        return _judge(sources, course)


def _judge(sources: Iterable[str], course: Course) -> dict[str, Judged]:
    # Short ones first: what is beyond the longest notebook is the longest of its cells.
    total, plain = 0, {}
    for source in sorted(sources, key=lambda source: (len(source), source)):
        total += len(source)
        plain[source] = _Plain(source, total)
    # What an answer does not need is left out first. From then on all is as if it had been handed in like that.
    used = {name for text in plain.values() if text.tree is not None for name in _used(text.tree)}
    for text in plain.values():
        text.name_stars(used)
        text.leave_out(course, used)
    _refuse(plain.values(), course)
    # What a cell calls by a name of the course's is its own, if that is all that is wrong; what else is, is said first.
    apart = [text.with_names_apart(course) for text in plain.values()]
    if any(text.apart for text in apart):
        _refuse(apart, course)
    judged = {}
    for (source, text), other in zip(plain.items(), apart, strict=True):
        if other.refused is None or not speaks_of_one(other.refused.what):
            text = other
        if text.refused is not None:
            known = None if text.tree is None else text.refused
            judged[source] = Judged("", "NotAllowed", str(text.refused), refused=known)
        elif text.tree is None:
            judged[source] = Judged("", "SyntaxError", text.error)
        else:
            judged[source] = Judged(text.text, why="\n".join(text.left_out), apart=text.apart)
    return judged


def _refuse(texts: Collection["_Plain"], course: Course) -> None:
    """Find what is refused in each of a student's cells, all of which are read first."""
    try:
        cells = _together(texts, course)
    except Exception:  # whatever it is, a cell that ends the reading costs none of the others its points
        for text in texts:
            try:
                _together([text], course)
            except Exception:
                text.tree, text.refused = None, CANNOT_BE_READ
        cells = _together(texts, course)
    for text in texts:
        if text.tree is not None:
            text.refused = refusal(text.tree, course, cells)


def _together(texts: Iterable["_Plain"], course: Course) -> Cells:
    return cells_together((text.tree for text in texts if text.tree is not None), course)


def _used(tree: ast.Module) -> Iterator[str]:
    """The names that a cell uses in any way but by importing or defining them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Global):
            yield from node.names


class _Plain:
    """A cell as Python, and why it is none, or none that is run."""

    def __init__(self, source: str, total: int = 0):
        self.text, self.tree, self.error = "", None, ""
        self.left_out: list[str] = []
        self.apart: frozenset[str] = frozenset()
        self.refused: Refusal | None = None
        if len(source) > _LONGEST or total > _LONGEST_TOGETHER:
            whole = (
                f"a cell of {len(source):,}" if len(source) > _LONGEST else f"cells of more than {_LONGEST_TOGETHER:,}"
            )
            self.refused = Refusal(1, f"belongs to {whole} characters", "nobody can read that", "")
            return
        if len(_MAGIC_LINE.findall(source)) > _MOST_MAGICS:  # IPython reads the whole cell again for each of them
            self.refused = Refusal(1, f"belongs to a cell with more than {_MOST_MAGICS} magics", "nobody needs these")
            return
        try:
            self.text, self.tree = python_in(source)
        except UnknownMagic as magic:
            self.refused = magic.refusal
        except SyntaxError as error:
            self.error = f"{error.msg} (line {error.lineno} of this cell)"
        except (ValueError, UnicodeError) as error:  # a null byte, half a character
            self.error = str(error)
        except SystemError:  # Python's tokenizer, at a null character or an f-string without end
            self.error = "is a bracket or a quotation mark missing, or is there a character that cannot be seen?"
        except (RecursionError, MemoryError):
            self.refused = TOO_DEEP
        if self.tree is not None and (unreadable := _unreadable(self.tree)):
            self.tree, self.refused = None, unreadable

    def name_stars(self, used: set[str]) -> None:
        """`from math import *` is read as `from math import sqrt` if that is the only one of its names in use."""
        text = self.text
        for node in reversed(self.tree.body) if self.tree is not None else ():
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*" and not node.level:
                names = sorted(used & _public(node.module or ""))
                text = replaced(text, node, f"from {node.module} import {', '.join(names or '*')}")
        if text != self.text:
            self._become(text)

    def leave_out(self, course: Course, used: set[str]) -> None:
        """Leave out what is refused and only stands there: imports whose names nobody uses, `help(f)`.

        A line that says so is printed in its place; all other lines keep their numbers. A cell that would have
        nothing else in it stays as it is: then the import may be what its check asks for.
        """
        if self.tree is None:
            return
        own, body = bound(self.tree), self.tree.body
        spare = [(node, refused) for node in body if (refused := _spare(node, course, used, own)) is not None]
        if not spare or len(spare) == len(self.tree.body):
            return
        if self._become(with_reasons(self.text, self.tree, dict(spare))):
            self.left_out = [str(refused) for _, refused in spare]

    def _become(self, text: str) -> bool:
        """Be another text; False if that is no Python."""
        try:
            self.text, self.tree = python_in(text)
        except (UnknownMagic, SyntaxError):  # lines that Python and this module count in another way
            return False
        return True

    def with_names_apart(self, course: Course) -> "_Plain":
        """The text of a cell that is refused, as it is read if its names of the course's are its own; else itself."""
        if self.refused is None or self.tree is None or not (names := own_names(self.tree, course)):
            return self
        other = copy.copy(self)
        try:
            other.tree, other.apart = OfAnswersAsRead(names).visit(copy.deepcopy(self.tree)), names
        except RecursionError:  # it stays refused
            return self
        return other


@functools.cache
def _public(module: str) -> frozenset[str]:
    """What `from module import *` binds; nothing of a module that is not light to import, or that no answer may use."""
    light = module.partition(".")[0] in sys.stdlib_module_names | {"numpy"} and MODULES.get(module, ()) is EVERYTHING
    found = importlib.import_module(module) if light else None
    names = getattr(found, "__all__", [name for name in dir(found) if not name.startswith("_")]) if found else []
    return frozenset(names)


def _unreadable(tree: ast.Module) -> Refusal | None:
    """What is refused before anything is read: it would take long, or Python cannot write it as a text."""
    if _depth(tree) > _DEEPEST:
        return TOO_DEEP
    if (parts := sum(1 for _ in ast.walk(tree))) > _MOST_PARTS:
        return Refusal(1, f"belongs to a cell of {parts:,} parts", "nobody can read that", "")
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value.bit_length() > _LONGEST_NUMBER:
            return Refusal(node.lineno, "has a number of thousands of digits", "nobody can read that", "")
        for name in filter(is_of_an_answer, _identifiers(node)):
            return Refusal(getattr(node, "lineno", 1), f"has {name}", "that name is the grader's", "Rename it.")
    return None


def _identifiers(node: ast.AST) -> Iterator[str]:
    """The names in a node, as Python reads them."""
    for _, value in () if isinstance(node, ast.Constant) else ast.iter_fields(node):
        yield from (part for part in (value if isinstance(value, list) else [value]) if isinstance(part, str))


def _depth(tree: ast.AST) -> int:
    level, depth = [tree], 0
    while level:
        level, depth = [child for node in level for child in ast.iter_child_nodes(node)], depth + 1
    return depth


def _spare(node: ast.stmt, course: Course, used: set[str], own: set[str]) -> Refusal | None:
    """Why a statement is refused; None if it is not, or if the answer may need it, or calls one of its `own` names."""
    alone = ast.Module(body=[node], type_ignores=[])
    called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    shows = isinstance(called, ast.Name) and called.id in SHOWS - own
    if not (shows or isinstance(node, ast.Import | ast.ImportFrom)) or bound(alone) & (used | {"*"}):
        return None
    return refused_alone(node, course)


def refused_alone(node: ast.stmt, course: Course) -> Refusal | None:
    """What stands against a statement, whatever stands beside it; None if nothing does."""
    return refusal(ast.Module(body=[node], type_ignores=[]), course, cells_together([], course))


SAID = "Left out: "


def with_reasons(
    text: str, tree: ast.Module, left_out: Mapping[ast.stmt, object], besides: Iterable[object] = ()
) -> str:
    """The text without these statements: in the place of each, or below all if it stands inside of another, why.

    besides: why something else is not there.
    """
    silent = "print" in bound(tree)
    lines = {} if silent else {node: _saying(why) for node, why in left_out.items()}
    inside = left_out.keys() - set(tree.body)
    for node in sorted(left_out, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        text = replaced(text, node, "pass" if node in inside else lines.get(node, "pass"))
    below = [lines[node] for node in left_out if node in inside & lines.keys()]
    return "\n".join([text.rstrip("\n"), *below, *([] if silent else map(_saying, besides))])


def _saying(why: object) -> str:
    return f"print({f'{SAID}{why}'!r})"
