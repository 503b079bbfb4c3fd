"""Judge cells by their text: what of each is run, and what is said of the others."""

import ast
from collections.abc import Iterable
from typing import NamedTuple

from IPython.core.inputtransformer2 import TransformerManager

from .course import Course
from .language import LONGEST, Refusal, refusal
from .names import cells_together
from .words import MAGICS_LEFT_OUT

# What IPython knows and Python does not, and what becomes of it: it shows or measures something for the one who sits
# there, and is left out; or it does that to a statement, which is kept.
_KEEPS_ITS_STATEMENT = {"time"}
_CELL_LEFT_OUT = {"timeit", "html", "HTML", "latex", "markdown", "javascript", "js", "svg", "prun", "memit"}
_CELL_KEPT = {"time", "capture"}
_ROUNDS = 10  # a magic in a magic


class Judged(NamedTuple):
    """A student's cell: the text that is run, or why none is. `name` is the kind of error."""

    text: str
    name: str = ""
    why: str = ""


def judge(sources: Iterable[str], course: Course) -> dict[str, Judged]:
    """What is to be done with each of a student's cells."""
    plain = {source: _Plain(source) for source in sources}
    cells = cells_together((p.tree for p in plain.values() if p.tree is not None), course)
    judged = {}
    for source, text in plain.items():
        refused = text.refused
        if refused is None and text.tree is not None:
            refused = refusal(text.tree, course, cells)
        if refused is not None:
            judged[source] = Judged("", "NotAllowed", str(refused))
        elif text.tree is None:
            judged[source] = Judged("", "SyntaxError", text.error)
        else:
            judged[source] = Judged(text.text)
    return judged


class _Plain:
    """A cell as Python, and why it is none, or none that is run."""

    def __init__(self, source: str):
        self.text, self.tree, self.error = "", None, ""
        self.refused: Refusal | None = None
        if len(source) > LONGEST:
            self.refused = Refusal(1, f"belongs to a cell of {len(source):,} characters", "nobody can read that", "")
            return
        try:
            self.text, self.tree = _python(source)
        except _Magic as magic:
            self.refused = magic.refusal
        except SyntaxError as error:
            self.error = f"{error.msg} (line {error.lineno} of this cell)"
        except (ValueError, UnicodeError) as error:  # a null byte, half a character
            self.error = str(error)
        except (RecursionError, MemoryError):
            self.refused = Refusal(1, "is nested too deeply", "what nobody can read is not run", "")


class _Magic(Exception):
    def __init__(self, line: int, text: str):
        self.refusal = Refusal(line, f"has {text}, which is no Python", "a check cannot know what it does")


def _python(source: str) -> tuple[str, ast.Module]:
    """The cell as Python that IPython leaves as it is. Raises `_Magic`, and what `ast.parse` raises."""
    source.encode()
    text = source
    for _ in range(_ROUNDS):
        transformed = TransformerManager().transform_cell(text)
        tree = ast.parse(transformed)
        magics = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _magic(node)]
        if not magics:
            if TransformerManager().transform_cell(transformed) == transformed:
                return transformed, tree
            text = transformed
            continue
        text = _without(transformed, tree, magics)
    raise _Magic(1, "a text that IPython reads in another way each time")


def _magic(node: ast.Call) -> str:
    """The method by which IPython calls a magic; empty for any other call."""
    function = node.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Call):
        maker = function.value.func
        known = function.attr in ("run_line_magic", "run_cell_magic", "system", "getoutput", "set_next_input")
        constant = all(isinstance(arg, ast.Constant) for arg in node.args)
        if isinstance(maker, ast.Name) and maker.id == "get_ipython" and known and constant:
            return function.attr
    return ""


def _without(text: str, tree: ast.Module, magics: list[ast.Call]) -> str:
    """The text with each magic left out, or with what it keeps in its place. Raises `_Magic`."""
    whole = {id(node.value): node for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    lines = text.encode().split(b"\n")
    for node in sorted(magics, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        kind, said = _magic(node), [str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)]
        alone = id(node) in whole
        if kind == "run_cell_magic" and alone:
            if said[0] not in _CELL_LEFT_OUT | _CELL_KEPT:
                raise _Magic(1, f"%%{said[0]}")
            return said[2] if said[0] in _CELL_KEPT else "pass\n"
        new = None
        if kind == "run_line_magic" and said[0] in _KEEPS_ITS_STATEMENT and not said[1].startswith("-"):
            new = said[1] or "pass"
        elif kind == "system" or (kind == "run_line_magic" and said[0] in MAGICS_LEFT_OUT):
            new = "pass"
        if (
            new is None
            or not (alone or (said[0] in _KEEPS_ITS_STATEMENT and said[1]))
            or node.end_lineno != node.lineno
        ):
            mark = "!" if kind in ("system", "getoutput") else f"%{said[0]}"
            raise _Magic(node.lineno, mark)
        line = lines[node.lineno - 1]
        lines[node.lineno - 1] = line[: node.col_offset] + new.encode() + line[node.end_col_offset :]
    return b"\n".join(lines).decode()
