"""What of a cell is run although something in it is refused: all but the statements that cannot do without it.

A line that says so is printed in the place of each of them; below the cell, where one stands inside of a function. What
is left is judged as if it had been handed in like that, so nobody gains by it; and a line that shows or tries something
costs no answer that it stands beside, or in.
"""

import ast
import copy
from collections.abc import Collection, Iterable, Iterator, Mapping

from .course import Course, around, bound, parameters
from .judge import SAID, Judged, judge, refused_alone, with_reasons
from .language import Refusal
from .magics import NoPython, first_line, python_of, replaced
from .names_of_answers import behind_all, read_in

_GIVE = (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr)  # parts of a statement that something else may need
_ROUNDS = 5  # for statements of a cell that are each refused by themselves; all cells are read anew in each


def judge_in_parts(sources: Collection[str], course: Course) -> dict[str, Judged]:
    """As `judge`, but where something in a cell is refused, its other statements are run if they hold an answer."""
    cells = {source: _Cell(source) for source in sources}
    first = judged = judge(sources, course)
    for _ in range(_ROUNDS):
        refused = [(cell, why) for cell in cells.values() if (why := judged[cell.text].refused)]
        if not any([cell.leave_out(why, course) for cell, why in refused]):
            break
        judged = judge({cell.text for cell in cells.values()}, course)
    return {source: cell.result(judged[cell.text], first[source]) for source, cell in cells.items()}


class _Cell:
    """A cell as it is read: `text`, and what was left out of it."""

    def __init__(self, source: str):
        self.text = source
        self.parts: list[str] = []

    def leave_out(self, refused: Refusal, course: Course) -> bool:
        """Leave out what is refused; False if no answer would be left, or nothing that does anything."""
        besides: list[str] = []  # what stands against names of an import
        try:
            text, tree = python_of(self.text)
            if (partly := _part_of_an_import(tree, refused, course) or _tried_import(tree, refused)) is not None:
                node, besides, rest = partly
                gone = _bound([node]) - _bound(rest) if node in tree.body else set()
                text, tree = python_of(replaced(text, node, "\n".join(map(ast.unparse, rest))))
                out = _with_what_needs(tree, {}, gone, course)
            else:
                out = _what_goes(tree, refused, course)
        except NoPython:  # or lines that Python and this module count in another way
            return False
        if not _is_worth_running([node for node in tree.body if node not in out], tree):
            return False
        self.text = with_reasons(text, tree, out, besides)
        self.parts += [*besides, *out.values()]
        return True

    def result(self, judged: Judged, whole: Judged) -> Judged:
        """What is to be done with the cell, from what is said of its text as it is now, and as it was at first."""
        if not self.parts:
            return judged
        if judged.name:
            return whole
        return judged._replace(why="\n".join(filter(None, [judged.why, *self.parts])), parts=tuple(self.parts))


def _what_goes(tree: ast.Module, refused: Refusal, course: Course) -> dict[ast.stmt, str]:
    """The statements that cannot be run, each with the reason: the refused one, and those that need what it binds."""
    inside = [node for node in _inside(tree.body) if _is_on(refused.line, node)]
    if inside:
        return dict.fromkeys(inside, str(refused))
    if imports := _imports_inside(tree, refused):
        return imports
    out = {node: str(refused) for node in tree.body if _is_on(refused.line, node)}
    if all(map(_is_import, out)):  # the others with it: a long list of them is read once
        out |= {node: why for node in tree.body if node not in out and (why := _why_all_goes(node, course))}
    return _with_what_needs(tree, out, _bound(out), course)


def _is_on(line: int, node: ast.stmt) -> bool:
    return first_line(node) <= line <= (node.end_lineno or 0)


def _part_of_an_import(
    tree: ast.Module, refused: Refusal, course: Course
) -> tuple[ast.stmt, list[str], list[ast.stmt]] | None:
    """An import of several names, some of which are what is refused: itself, why they are, and the rest of it."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom) or not _is_on(refused.line, node):
            continue
        if node in tree.body or node.lineno == node.end_lineno:  # lines inside of others are indented
            why = [refused_alone(_with_names(node, [name]), course) for name in node.names]
            out = [one is not None and (one == refused or one.what.startswith("imports ")) for one in why]
            if refused in why and not all(out):
                rest = [name for name, goes in zip(node.names, out, strict=True) if not goes]
                return node, [str(one) for one, goes in zip(why, out, strict=True) if goes], [_with_names(node, rest)]
    return None


def _tried_import(tree: ast.Module, refused: Refusal) -> tuple[ast.stmt, list[str], list[ast.stmt]] | None:
    """A `try` around an import that is refused: itself, why, and what is run where there is no such module.

    Where another import is tried first, and the refused one stands in its place, it is the other one.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Try) or not _is_on(refused.line, node):
            continue
        instead = [part for handler in node.handlers if _catches_import_error(handler) for part in handler.body]
        if all(map(_is_import, node.body)) and any(_is_import(part) and _is_on(refused.line, part) for part in instead):
            why = f"{refused} What stands below `try` is run, and nothing in its place."
            return node, [why], [*node.body, *node.orelse, *node.finalbody]
        for place, part in enumerate(node.body):
            if not _is_import(part) or not _is_on(refused.line, part):
                continue
            handler = next((handler for handler in node.handlers if _catches_import_error(handler)), None)
            if handler is None:
                break
            above, below = node.body[:place], node.body[place + 1 :]
            if not _bound(handler.body):  # nothing stands for the module
                others = copy.copy(node)
                others.body = above + below
                return node, [str(refused)], [others if others.body else ast.Pass()]
            said = f"{handler.name} = ImportError({ast.unparse(part)!r})" if handler.name else ""
            rest = [*above, *filter(_is_import, below), *ast.parse(said).body, *handler.body, *node.finalbody]
            return node, [f"{refused} What stands below its `except` is run in its place."], rest
    return None


def _is_import(node: ast.AST) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _catches_import_error(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {kind.id if isinstance(kind, ast.Name) else None for kind in kinds}
    return handler.type is None or bool(names & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def _why_all_goes(node: ast.stmt, course: Course) -> str:
    """Why none of the names of an import may be imported; empty if one may, or if this is no import."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return ""
    why = [refused_alone(_with_names(node, [name]), course) for name in node.names]
    return str(why[0]) if all(why) else ""


def _with_names(node: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> ast.stmt:
    found = copy.copy(node)
    found.names = names
    return found


def _imports_inside(tree: ast.Module, refused: Refusal) -> dict[ast.stmt, str]:
    """Those inside of functions that are refused, and the calls that need them, if nothing needs what these return.

    Empty if anything else needs the names. Lines inside of others are indented: an import is on one.
    """
    inner = [part for node in tree.body for part in ast.walk(node) if part is not node]
    imports: list[ast.stmt] = [
        part
        for part in inner
        if isinstance(part, ast.Import | ast.ImportFrom) and part.lineno == part.end_lineno == refused.line
    ]
    names = _bound(imports)
    calls = {node: min(needed) for node in _inside(tree.body) if (needed := names & read_in(node))}
    of_calls = {part for node in calls for part in ast.walk(node)}
    if any(isinstance(part, ast.Name) and part.id in names and part not in of_calls for part in inner):
        return {}
    return dict.fromkeys(imports, str(refused)) | _needing(calls)


def _with_what_needs(tree: ast.Module, out: dict[ast.stmt, str], gone: set[str], course: Course) -> dict[ast.stmt, str]:
    """With these statements, those that need what they bind, or one of the names that are gone."""
    while True:
        rest = [node for node in tree.body if node not in out]
        given = _bound(node for node in rest if not isinstance(node, ast.AugAssign | ast.Delete))
        missing = (gone | _bound(out)) - given - course.kept
        needs = {node: min(lacking) for node in rest if (lacking := missing & set(_asked_for(node)))}
        if not needs:
            spare = {node: min(lacking) for node in _inside(rest) if (lacking := missing & set(_asked_for(node)))}
            behind, classes = _behind(rest, spare), _bound(node for node in rest if isinstance(node, ast.ClassDef))
            called = {node: _asked_behind(node, behind, classes) for node in rest}
            needs = {node: min(lacking) for node in rest if (lacking := missing & called[node])}
            if not needs:
                return out | _needing(spare)
        out |= _needing(needs)


def _needing(needs: Mapping[ast.stmt, str]) -> dict[ast.stmt, str]:
    return {node: f"line {node.lineno} needs {name}, which is left out." for node, name in needs.items()}


def _inside(nodes: Iterable[ast.stmt]) -> list[ast.stmt]:
    """The statements inside of others that nothing needs: calls whose results nobody takes."""
    inner = [part for node in nodes for part in ast.walk(node) if part is not node and isinstance(part, ast.Expr)]
    return [part for part in inner if not any(isinstance(node, _GIVE) for node in ast.walk(part))]


def _bound(nodes: Iterable[ast.stmt]) -> set[str]:
    return bound(ast.Module(body=list(nodes), type_ignores=[]))


def _asked_for(node: ast.AST) -> Iterator[str]:
    """The names that must be there when a statement is run; a function may be called later."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
        yield node.id
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    function = isinstance(node, ast.FunctionDef | ast.Lambda)
    for inner in around(node) if function else ast.iter_child_nodes(node):
        yield from _asked_for(inner)


def _asked_behind(node: ast.stmt, behind: Mapping[str, set[str]], classes: set[str]) -> set[str]:
    """The names that must be there for what a statement calls, as far as that is seen.

    `log = start()` calls one function; of a statement that nothing needs whatever it names may be called, and by it.
    """
    if not _bound([node]):
        return behind_all(set(_asked_for(node)), behind)
    return behind_all(set(_called(node)), {name: asked for name, asked in behind.items() if name not in classes})


def _behind(nodes: Iterable[ast.stmt], spare: Collection[ast.stmt]) -> dict[str, set[str]]:
    """By the names that these statements bind: what is read in them, but for what is left out of them."""
    without = {part for node in spare for part in ast.walk(node)}
    behind: dict[str, set[str]] = {}
    for node in nodes:
        parts = [part for part in ast.walk(node) if part not in without]
        read = {part.id for part in parts if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Store)}
        for function in (part for part in parts if isinstance(part, ast.FunctionDef)):
            read -= _bound(function.body) | {arg.arg for arg in parameters(function.args)}
        for name in _bound([node]):
            behind.setdefault(name, set()).update(read)
    return behind


def _called(node: ast.AST) -> Iterator[str]:
    """The names of what is called when a statement is run."""
    functions = [node.func] if isinstance(node, ast.Call) else getattr(node, "decorator_list", [])
    yield from (function.id for function in functions if isinstance(function, ast.Name))
    function = isinstance(node, ast.FunctionDef | ast.Lambda)
    for inner in around(node) if function else ast.iter_child_nodes(node):
        yield from _called(inner)


def _is_worth_running(rest: list[ast.stmt], tree: ast.Module) -> bool:
    """Whether a function is left where there was one, or else a statement that does anything."""
    defines = ast.FunctionDef | ast.ClassDef
    if any(isinstance(node, defines) for node in tree.body):
        return any(isinstance(node, defines) for node in rest)
    return not all(isinstance(node, ast.Import | ast.ImportFrom | ast.Pass) or _only_says(node) for node in rest)


def _only_says(node: ast.stmt) -> bool:
    """Whether a statement is a text by itself, or the line about one that was left out."""
    value = node.value if isinstance(node, ast.Expr) else None
    if isinstance(value, ast.Call) and len(value.args) == 1:
        value = value.args[0]
        return isinstance(value, ast.Constant) and str(value.value).startswith(SAID)
    return isinstance(value, ast.Constant)
