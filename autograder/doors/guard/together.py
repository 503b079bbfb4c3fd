"""What all cells of a student's notebook do together: which names they bind, and how."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .course import Course, assigned, bound, fields, imports
from .names import Cells, Names, own_statements
from .words import HANDED_ON, MODULES, OF_TYPES, is_private

_ALIASES = 10  # of types, each defined below those that it is made of
_FIELDS_OF_FLAX = {"kernel", "bias", "value"}  # of its layers and variables, and whatever


class _Bound(NamedTuple):
    """How names are bound, anywhere in the notebook.

    classes: by a `class`, or a `type`.
    arguments: as an argument of a function.
    stored: by anything else but an import.
    often: how often, by all but a `class` and an argument.
    """

    classes: set[str]
    arguments: set[str]
    stored: set[str]
    often: Counter[str]


def cells_together(trees: Iterable[ast.Module], course: Course) -> Cells:
    """Read all cells of a student, before one of them is judged."""
    trees = list(trees)
    nodes = [node for tree in trees for node in ast.walk(tree)]
    given = [pair for tree in trees for statement in tree.body for pair in assigned(statement)]  # at the top of cells
    imported = {name: {origin} for name, origin in course.imported.items()}
    for name, origin in imports(nodes):
        imported.setdefault(name, set()).add(origin)
    renamed = set()
    for name, origins in _modules_renamed(given, imported):  # one may be a part of one above
        imported.setdefault(name, set()).update(origins)
        renamed.add(name)
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    methods = [s for node in classes for s in own_statements(node.body) if isinstance(s, ast.FunctionDef)]
    own_fields = _FIELDS_OF_FLAX.union(*map(fields, trees))
    private = own_fields.union(*map(bound, classes), _attributes_stored(nodes))
    of_notebook = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    how = _how_bound(nodes)
    cells = Cells(
        names=frozenset(of_notebook.union(*map(bound, trees))),
        imported={name: frozenset(origins) for name, origins in imported.items()},
        private=frozenset(filter(is_private, private)),
        fields=frozenset(own_fields),
        classes=frozenset(how.classes),
        methods=frozenset(method.name for method in methods),
        writers=frozenset(m.name for m in methods if not m.name.startswith("__") and _writes(m)),
    )
    cells = _with_classes(cells, nodes, how, course)
    often = Counter(how.classes) + how.often
    often.update(name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names)
    once = {target.id for target, _ in given if isinstance(target, ast.Name) and often[target.id] == 1}
    otherwise = (how.stored | how.classes | how.arguments) - (renamed & once)
    cells = cells._replace(otherwise=frozenset(otherwise), hand_on=_hands_on(nodes, Names(course, cells)))
    return _with_types(cells, trees, often, how.arguments, how.stored | how.classes, course)


def _how_bound(nodes: list[ast.AST]) -> _Bound:
    classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    stored = (_bound_otherwise(node) for node in nodes if not isinstance(node, ast.Import | ast.ImportFrom))
    return _Bound(
        classes=classes | _types_named(nodes).keys(),
        arguments={node.arg for node in nodes if isinstance(node, ast.arg)},
        stored=set().union(*stored),
        often=Counter(name for node in nodes for name in _bound_otherwise(node)),
    )


def _types_named(nodes: list[ast.AST]) -> Counter[str]:
    """How often a name is that of a `type X = int`."""
    named = (getattr(node, "name", None) for node in nodes if isinstance(node, OF_TYPES))
    return Counter(name.id for name in named if isinstance(name, ast.Name))


def _attributes_stored(nodes: list[ast.AST]) -> set[str]:
    return {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}


def _hands_on(nodes: list[ast.AST], known: Names) -> bool:
    """Whether something is done with a module but to read what is in it."""
    followed = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    bare = (node for node in nodes if isinstance(node, ast.Name | ast.Attribute) and id(node) not in followed)
    return any(known.origins(node) & HANDED_ON for node in bare)


def _with_classes(cells: Cells, nodes: list[ast.AST], how: _Bound, course: Course) -> Cells:
    """With the names that nothing but a class has."""
    known, types = Names(course, cells), _types_named(nodes)
    otherwise = set(how.often)
    unsure = how.arguments | {name for name in otherwise if how.often[name] > types[name]}
    unknown = how.stored | how.classes | how.arguments | {""}
    for node in (node for node in nodes if isinstance(node, ast.ClassDef)):
        if unknown.intersection(map(known.decorates_with, node.decorator_list)):
            unsure.add(node.name)
        said = {part.id for d in node.decorator_list for part in ast.walk(d) if isinstance(part, ast.Name)}
        if said & how.stored or any(known.returns_its_class(d) != {True} for d in node.decorator_list):
            otherwise.add(node.name)
    return cells._replace(only_classes=cells.classes - otherwise, sure_classes=cells.classes - unsure)


def _modules_renamed(
    given: list[tuple[ast.AST, ast.AST]], imported: dict[str, set[str]]
) -> Iterator[tuple[str, set[str]]]:
    """`lax = jax.lax` at the top of a cell is as good as an import, wherever the name is bound, too."""
    for target, value in given:
        if isinstance(target, ast.Name) and isinstance(value, ast.Attribute):
            root, _, rest = ast.unparse(value).partition(".")
            if origins := {f"{origin}.{rest}" for origin in imported.get(root, ())} & MODULES.keys():
                yield target.id, origins


def _with_types(
    cells: Cells, trees: list[ast.Module], often: Counter[str], arguments: set[str], given: set[str], course: Course
) -> Cells:
    """With the names of types; `often` says how often a name is bound, `given` has those that no import binds."""
    aliases: dict[str, list[ast.AST]] = {}
    inside: set[str] = set()  # of a function or a class
    outside = {id(part) for tree in trees for part in own_statements(tree.body)}
    for statement in (node for tree in trees for node in ast.walk(tree)):
        for target, value in assigned(statement) if isinstance(statement, ast.Assign | ast.AnnAssign) else ():
            if isinstance(target, ast.Name):
                aliases.setdefault(target.id, []).append(value)
                inside |= set() if id(statement) in outside else {target.id}
    aliases = {name: values for name, values in aliases.items() if len(values) == often[name]}
    changing = arguments | (given - cells.only_classes - aliases.keys())
    steady = set()
    for name, values in aliases.items():
        made_of = {node.id for value in values for node in ast.walk(value) if isinstance(node, ast.Name)}
        if not changing & {name, *made_of}:
            steady.add(name)
    known = cells._replace(names=cells.names | aliases.keys())  # none of them is a builtin
    types = _types({name: aliases[name] for name in aliases if name in steady or name not in inside}, course, known)
    named = Names(course, cells)
    specs = {name for name in types & steady if all(map(named.is_param_spec, aliases[name]))}
    nodes = (node for tree in trees for node in ast.walk(tree))
    specs |= {getattr(node, "name", "") for node in nodes if type(node).__name__ == "ParamSpec"} - arguments - given
    return cells._replace(types=types, types_in_functions=types & steady, parameters=frozenset(specs))


def _types(aliases: dict[str, list[ast.AST]], course: Course, cells: Cells) -> frozenset[str]:
    """Those that are types whichever of their values they have."""
    known = Names(course, cells)
    for _ in range(_ALIASES):  # aliases of aliases
        before = known.cells.sure_classes
        for name, values in aliases.items():
            if name not in before and all(map(known.is_type, values)):
                known.cells = known.cells._replace(sure_classes=known.cells.sure_classes | {name})
        if known.cells.sure_classes == before:
            break
    return known.cells.sure_classes - cells.sure_classes


def _bound_otherwise(node: ast.AST) -> set[str]:
    """The names that a node binds, but for a class."""
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Load) else {node.id}
    if isinstance(node, ast.FunctionDef | ast.Import | ast.ImportFrom):
        return bound(ast.Module(body=[node], type_ignores=[]))
    named = node.rest if isinstance(node, ast.MatchMapping) else getattr(node, "name", None)
    caught = isinstance(node, ast.MatchMapping | ast.MatchAs | ast.MatchStar | ast.ExceptHandler)
    return {named} if caught and isinstance(named, str) else set()


def _writes(method: ast.FunctionDef) -> bool:
    if any(isinstance(d, ast.Name) and d.id == "classmethod" for d in method.decorator_list):
        return False  # it is given its class
    me = [arg.arg for arg in [*method.args.posonlyargs, *method.args.args][:1]]
    return any(
        isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load) and ast.unparse(n.value) in me
        for n in ast.walk(method)
    )
