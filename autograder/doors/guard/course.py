"""What a release holds that an answer is not to touch, and what it hands to the answers."""

import ast
import builtins
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .words import BANS, OF_PROGRAMS, SETTINGS


class Course(NamedTuple):
    """One unit, as its cells say.

    kept: names of locked cells that no cell of the release binds which a student fills in, and Python's own: in the
      notebook they stay what they are.
    imported: what the locked cells import, by name: a module, or a name in one ("numpy", "functools.partial").
    classes: names of classes that the locked cells define.
    methods: names of methods of these classes.
    fields: names of attributes of their objects.
    vessels: names of locked cells that are made empty, or that the course's own functions write: for answers to fill.
    of_checks: names that graded cells alone bind: what a check expects stands in one of them.
    in_checks: names that graded cells bind, but for those that a function of the release writes.
    numbers: names that locked cells make from numbers and texts that they write: nothing can change these.
    bans: what the locked cells let JAX forbid while an answer runs, such as "no_tracing".
    released: the text of every cell as it was handed out.
    written: names that functions of the release write by `global`.
    settings: those of JAX's that an answer may change.
    """

    kept: frozenset[str] = frozenset(dir(builtins))
    imported: dict[str, str] = {}
    classes: frozenset[str] = frozenset()
    methods: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()
    vessels: frozenset[str] = frozenset()
    of_checks: frozenset[str] = frozenset()
    in_checks: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    bans: frozenset[str] = frozenset()
    released: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    settings: frozenset[str] = frozenset(SETTINGS)


def course_of(
    locked: Iterable[str], checks: Iterable[str], open_cells: Iterable[str] = (), released: Iterable[str] = ()
) -> Course:
    """Read a unit's cells: those that are locked, its graded ones apart, and those that a student fills in."""
    locked, checks = list(locked), list(checks)
    given_by, asked_by = list(map(parsed, locked)), list(map(parsed, checks))
    open_trees = [parsed(source) for source in open_cells]
    filled = {name for tree in open_trees for name in _written(tree)}
    theirs = {name for tree in open_trees for name in bound(tree)}
    given = {name for tree in given_by for name in bound(tree)}
    classes = [node for tree in given_by for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return Course(
        kept=frozenset((given | set(dir(builtins))) - theirs),
        imported={name: origin for tree in given_by for name, origin in imports(ast.walk(tree))},
        classes=frozenset(c.name for c in classes),
        methods=frozenset(n.name for c in classes for n in c.body if isinstance(n, ast.FunctionDef)),
        fields=frozenset(name for tree in given_by for name in fields(tree)),
        vessels=frozenset(name for tree in given_by for name in _vessels(tree)),
        of_checks=frozenset({name for tree in asked_by for name in bound(tree)} - given - theirs),
        in_checks=frozenset({name for tree in asked_by for name in bound(tree)} - filled),
        numbers=frozenset(name for tree in given_by for name in _numbers(tree)),
        bans=frozenset(BANS & {name for tree in [*given_by, *asked_by] for name in _asked_for(tree)}),
        released=frozenset(released),
        settings=frozenset(SETTINGS if "compilation_cache" in "".join([*locked, *checks]) else SETTINGS - OF_PROGRAMS),
        written=frozenset({n for tree in [*given_by, *open_trees] for n in _written(tree)}),
    )


def _written(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names


def _vessels(tree: ast.Module) -> Iterator[str]:
    yield from _written(tree)
    for statement in tree.body:
        for target, value in assigned(statement):
            if isinstance(target, ast.Name) and _is_empty(value):
                yield target.id


def _numbers(tree: ast.Module) -> Iterator[str]:
    written = ast.Constant | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop
    for statement in tree.body:
        for target, value in assigned(statement):
            if isinstance(target, ast.Name) and all(isinstance(node, written) for node in ast.walk(value)):
                yield target.id


def assigned(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """What an assignment gives to what."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _pairs(target, node.value)
    elif isinstance(node, ast.NamedExpr | ast.AnnAssign) and node.value is not None:
        yield node.target, node.value


def _pairs(target: ast.AST, value: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        starred = any(isinstance(node, ast.Starred) for node in (*target.elts, *value.elts))
        if len(target.elts) == len(value.elts) and not starred:
            for inner, part in zip(target.elts, value.elts, strict=True):
                yield from _pairs(inner, part)
            return
    yield target, value


def _asked_for(tree: ast.AST) -> Iterator[str]:
    yield from (node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))


def _is_empty(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return not node.args and not node.keywords
    return (isinstance(node, ast.Dict) and not node.values) or (isinstance(node, ast.List) and not node.elts)


def parsed(source: str) -> ast.Module:
    """The tree of a text; that of nothing if it cannot be read."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


def fields(tree: ast.AST) -> Iterator[str]:
    """The attributes that objects of the classes in a tree have by what these classes say."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and isinstance(part.value, ast.Name):
                yield part.attr
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                yield statement.target.id
            elif isinstance(statement, ast.Assign) and all(isinstance(t, ast.Name) for t in statement.targets):
                yield from (t.id for t in statement.targets if isinstance(t, ast.Name) and not t.id.startswith("_"))
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__slots__":
                yield from (
                    n.value for n in ast.walk(statement) if isinstance(n, ast.Constant) and type(n.value) is str
                )


def imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """The names that import statements among `nodes` bind, each with what it is then."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.split(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def bound(tree: ast.AST) -> set[str]:
    """The names that the body of a module, a function or a class binds, those of inner functions left out."""
    names: set[str] = set()
    _bind(ast.iter_child_nodes(tree), names)
    return names


def _bind(nodes: Iterable[ast.AST], names: set[str], comprehension: bool = False) -> None:
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and not comprehension:
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            _bind(around(node), names, comprehension)
            continue
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(name for name, _ in imports([node]))
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
        elif isinstance(node, ast.NamedExpr):
            names.add(node.target.id)
        elif isinstance(node, ast.Lambda):
            _bind(around(node), names, comprehension)
            continue
        inner = comprehension or isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
        _bind(ast.iter_child_nodes(node), names, inner)


def loop_names(generators: Iterable[ast.comprehension]) -> set[str]:
    """The names that the loops of a comprehension bind. `for a[b] in c` reads `a` and `b`."""
    targets = (node for loop in generators for node in ast.walk(loop.target))
    return {node.id for node in targets if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def around(node: ast.AST) -> list[ast.AST]:
    """The parts of a definition that are evaluated where it stands: decorators, defaults, bases and annotations."""
    parts: list[ast.AST | None] = [*getattr(node, "decorator_list", [])]
    if isinstance(node, ast.ClassDef):
        parts += [*node.bases, *node.keywords]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        parts += [*node.args.defaults, *node.args.kw_defaults, getattr(node, "returns", None)]
        parts += [arg.annotation for arg in parameters(node.args)]
    return [part for part in parts if part is not None]


def parameters(args: ast.arguments) -> list[ast.arg]:
    """All parameters of a function."""
    starred = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *starred]
