"""What IPython knows and Python does not: a cell as Python, its magics left out where they only show or measure."""

import ast
import re

from IPython.core.inputtransformer2 import TransformerManager

from .rules.reading import Refusal
from .words import MAGICS_LEFT_OUT

# What IPython knows and Python does not, and what becomes of it: it shows or measures something for the one who sits
# there, and is left out; or it does that to a statement, which is kept.
_KEEPS_ITS_STATEMENT = {"time"}
_CELL_LEFT_OUT = {"html", "HTML", "latex", "markdown", "javascript", "js", "svg"}
_CELL_MEASURED = {"timeit", "prun", "memit"}  # an answer below one is kept, although no notebook has its names then
_CELL_KEPT = {"time", "capture"}
_CELL_WRITTEN = {"writefile"}  # no file is; but what is defined below one is an answer
_DEFINES = re.compile(r"^(?:@|def |class |async def )", re.MULTILINE)
# What ends a line for `str.splitlines`, by which IPython keeps a cell, and for Python does not: what follows in a
# comment would be code where the cell is run again.
_OTHER_ENDS = re.compile("[\v\f\x1c-\x1e\x85\u2028\u2029]")
_ROUNDS = 10  # a magic in a magic
# By which methods of its own IPython calls a magic, and with how many texts.
_MAGICS = {"run_line_magic": 2, "run_cell_magic": 3, "system": 1, "getoutput": 1, "set_next_input": 1}


class NoPython(ValueError):
    """A cell's text is no Python, or cannot be read."""


def python_of(source: str) -> tuple[str, ast.Module]:
    """A cell as Python that IPython leaves as it is. Raises `NoPython`."""
    try:
        return python_in(source)
    except (UnknownMagic, SyntaxError, ValueError, SystemError, RecursionError, MemoryError) as error:
        raise NoPython(str(error)) from None


class UnknownMagic(Exception):
    def __init__(self, line: int, text: str):
        self.refusal = Refusal(line, f"has {text}, which is no Python", "a check cannot know what it does")


def python_in(source: str) -> tuple[str, ast.Module]:
    """The cell as Python that IPython leaves as it is. Raises `UnknownMagic`, and what `ast.parse` raises."""
    source.encode()
    text = source.replace("\r\n", "\n").replace("\r", "\n")  # as Python counts lines
    text = _OTHER_ENDS.sub(" ", re.sub("(?m)^\f+", "", text))
    for _ in range(_ROUNDS):
        transformed = TransformerManager().transform_cell(text)
        tree = ast.parse(transformed)
        magics = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and magic_called(node)]
        text = _without(transformed, tree, magics)
        if text != transformed:
            continue
        if TransformerManager().transform_cell(transformed) == transformed:
            return transformed, tree
    raise UnknownMagic(1, "a text that IPython reads in another way each time")


def magic_called(node: ast.Call) -> str:
    """The method by which IPython calls a magic; empty for any other call."""
    function = node.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Call):
        maker = function.value.func
        constant = all(isinstance(arg, ast.Constant) and isinstance(arg.value, str) for arg in node.args)
        written = constant and len(node.args) == _MAGICS.get(function.attr) and not node.keywords
        if isinstance(maker, ast.Name) and maker.id == "get_ipython" and written:
            return function.attr
    return ""


def _without(text: str, tree: ast.Module, magics: list[ast.Call]) -> str:
    """The text with each magic left out, or with what it keeps in its place; those that nobody knows stay."""
    whole = {id(node.value): node for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in sorted(magics, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        new = _instead_of(node, alone=id(node) in whole)
        if new is None or node.end_lineno != node.lineno:
            continue
        if magic_called(node) != "run_cell_magic":
            text = replaced(text, node, new)
        elif text.split("\n")[node.lineno - 1] == ast.get_source_segment(text, node):  # it has its line for itself
            text = _spliced(text, node, new)
    return text


def _instead_of(node: ast.Call, *, alone: bool) -> str | None:
    """What is run in place of a magic, which is a statement or a part of one; None if it cannot be left out."""
    kind, said = magic_called(node), [str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)]
    if kind == "run_cell_magic":
        defines = bool(_DEFINES.search(said[2]))
        kept = said[0] in _CELL_KEPT or (said[0] in _CELL_MEASURED | _CELL_WRITTEN and defines)
        known = alone and node.col_offset == 0 and (kept or said[0] in _CELL_LEFT_OUT | _CELL_MEASURED)
        return (said[2] if kept else "pass\n") if known else None
    if kind == "run_line_magic" and said[0] in _KEEPS_ITS_STATEMENT and not said[1].startswith("-"):
        return (said[1] or "pass") if alone or said[1] else None
    shown = kind == "system" or (kind == "run_line_magic" and said[0] in MAGICS_LEFT_OUT)
    return "pass" if shown and alone else None


def as_written(node: ast.Call) -> str:
    """How a magic is written."""
    name = next((str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)), "")
    return {"system": "!", "getoutput": "!", "run_cell_magic": f"%%{name}"}.get(magic_called(node), f"%{name}")


def _spliced(text: str, node: ast.Call, new: str) -> str:
    """The text with other lines in place of the one line of a node."""
    lines = text.split("\n")
    return "\n".join([*lines[: node.lineno - 1], new.rstrip("\n"), *lines[node.lineno :]])


def replaced(text: str, node: ast.expr | ast.stmt, new: str) -> str:
    """The text with something else in place of a node, on as many lines: what follows keeps its numbers."""
    lines = text.encode().split(b"\n")
    first, last, column = first_line(node) - 1, (node.end_lineno or node.lineno) - 1, node.col_offset
    before, after = lines[first][:column], lines[last][node.end_col_offset :]
    written = new.encode().replace(b"\n", b"\n" + before).split(b"\n")  # of several lines for what begins its own
    written = (
        [before + written[0], *written[1:-1], written[-1] + after] if written[1:] else [before + written[0] + after]
    )
    lines[first : last + 1] = written + [b""] * (1 + last - first - len(written))
    return b"\n".join(lines).decode()


def first_line(node: ast.expr | ast.stmt) -> int:
    """The line on which a node begins, or the first decorator above it."""
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
