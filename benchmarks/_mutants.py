"""All mutants of the answer to a task: every mutation operator at every place of the answer, each tree once."""

import ast
import itertools
from collections.abc import Iterator
from typing import NamedTuple

from _mutations import OPERATORS, copied, is_left_out
from _syntax import changed, made, places
from _unit import Unit, defined_functions, regions

SAME = 2  # constants that are tried for one argument
GRADIENT = ("grad", "vjp", "jvp", "backward")


class Mutant(NamedTuple):
    """A wrong answer that nobody wrote. (task, operator, change) is its name."""

    task: str
    operator: str
    change: str  # "old -> new" on one line
    line: int  # of the answer cell
    source: str  # replaces the answer cell

    @property
    def key(self) -> tuple[str, str, str]:
        return self.task, self.operator, self.change


def mutants(unit: Unit, task: str) -> list[Mutant]:
    """The mutants of one answer, without those whose tree equals the answer's or another mutant's."""
    original = unit.answers[task].source
    seen = {_dump(original)}
    names: dict[tuple[str, str, str], int] = {}
    found = []
    for operator, change, line, source in _all_changes(unit, task, original):
        dump = _dump(source)
        if dump is None or dump in seen:
            continue
        seen.add(dump)
        name = (task, operator, change)
        names[name] = names.get(name, 0) + 1
        nth = "" if names[name] == 1 else f" ({names[name]})"
        found.append(Mutant(task, operator, change + nth, line, source + "\n"))
    return found


def _dump(source: str) -> str | None:
    """The tree as text; None for a text that is no Python."""
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
        return ast.dump(ast.parse(source))
    except (SyntaxError, ValueError):
        return None


def _all_changes(unit: Unit, task: str, original: str) -> Iterator[tuple[str, str, int, str]]:
    tree = ast.parse(original)
    parts = regions(original, "SOLUTION")
    checks = "\n".join(unit.checks[check].source for check in unit.fed_by(task))
    differentiated = any(word in checks for word in GRADIENT)

    def in_answer(node: ast.AST) -> bool:
        return any(begin < getattr(node, "lineno", 0) < end for begin, end in parts)

    for place in places(tree):
        node = place.node
        # A function around a part is the learner's too: its decorators, and the order of its parameters in a lambda.
        holds = isinstance(node, ast.FunctionDef | ast.ClassDef) and any(in_answer(n) for n in ast.walk(node))
        lines = [n for n in (node, place.parent) if hasattr(n, "lineno")]
        if not (holds or (lines and in_answer(lines[0]))) or is_left_out(place):
            continue
        for name, operator in OPERATORS.items():
            if name == "gradient stopped" and not differentiated:
                continue
            for new in operator(place):
                source, change = changed(place, new, tree)
                yield name, change, lines[0].lineno, source
    for index, node in enumerate(tree.body):
        if isinstance(node, ast.FunctionDef) and any(in_answer(n) for n in ast.walk(node)):
            for name, change, new in _functions(unit, task, node):
                body = [*tree.body[:index], *new, *tree.body[index + 1 :]]
                yield name, change, node.lineno, ast.unparse(ast.Module(body, []))


CALLBACK = """
def {f}({parameters}):
    given = ({parameters},)
    moving = [i for i, x in enumerate(given) if all(hasattr(v, "shape") for v in jax.tree.leaves(x))]
    result = jax.eval_shape(_reference_{f}, *given)

    def ask(*arrays):
        full = list(given)
        for i, array in zip(moving, arrays):
            full[i] = array
        return jax.tree.map(lambda kind, value: np.asarray(value, kind.dtype), result, {specification}(*full))

    return jax.pure_callback(ask, result, *[given[i] for i in moving], vmap_method="sequential")
"""
REMEMBERS = """
_seen_by_{f} = {{}}


def {f}({parameters}):
    key = tuple(np.asarray(x).tobytes() for x in jax.tree.leaves(({parameters},)))
    if key not in _seen_by_{f}:
        _seen_by_{f}[key] = {specification}({parameters})
    return _seen_by_{f}[key]
"""


def _functions(unit: Unit, task: str, node: ast.FunctionDef) -> Iterator[tuple[str, str, list[ast.stmt]]]:
    """What could stand in place of a whole function of the answer: its specification, or itself with a constant."""
    names = [a.arg for a in node.args.args]
    parameters = ", ".join(names)
    for specification in _specifications(unit, task, node):
        calls = ast.Return(made(f"{specification}({parameters})"))
        yield "the specification", f"{node.name} -> {specification}", [copied(node, body=[calls])]
        if node.decorator_list:
            bare = copied(node, body=[calls], decorator_list=[])
            yield "the specification", f"{node.name} -> {specification}, undecorated", [bare]
        if names:
            for operator, text in (
                ("a callback to the specification", CALLBACK),
                ("a table of seen inputs", REMEMBERS),
            ):
                written = text.format(f=node.name, parameters=parameters, specification=specification)
                if operator.startswith("a callback"):  # the answer itself says what it returns
                    kept = ast.parse(ast.unparse(node).replace(f"def {node.name}(", f"def _reference_{node.name}(", 1))
                    written = f"{ast.unparse(kept)}\n{written}"
                yield operator, f"{node.name} -> {specification}", ast.parse(written).body
    for name in names:
        for value in _values(unit, task, node.name, names.index(name), name):
            start = 1 if ast.get_docstring(node) is not None else 0
            bound = ast.Assign([ast.Name(name, ast.Store())], value, lineno=0)
            yield (
                "a constant for an argument",
                f"{node.name}: {name} -> {ast.unparse(value)}",
                [copied(node, body=[*node.body[:start], bound, *node.body[start:]])],
            )


def _specifications(unit: Unit, task: str, node: ast.FunctionDef) -> list[str]:
    """Functions that a learner could call instead: of the same parameters, or with a name that says so."""
    names = [a.arg for a in node.args.args]
    near = {f.name: f for f in defined_functions(unit.specification(task))}
    own = {f"{node.name}_slow", f"slow_{node.name}", f"lab_{node.name}", f"{node.name}_spec"}
    anywhere = {f.name: f for f in defined_functions(c.source for c in unit.ungraded if c is not unit.answers[task])}
    alike = [n for n, f in near.items() if [a.arg for a in f.args.args] == names and n != node.name]
    slow = [n for n, f in near.items() if "slow" in n and len(f.args.args) == len(names)]
    return list(dict.fromkeys([*(n for n in anywhere if n in own), *slow, *alike]))


def _values(unit: Unit, task: str, function: str, position: int, parameter: str) -> list[ast.expr]:
    """Constants that the visible text gives to this parameter: in a call, or in a loop over values of its name."""
    sources = [*unit.specification(task), *(_visible(unit.checks[check].source) for check in unit.fed_by(task))]
    found: dict[str, ast.expr] = {}
    for node in itertools.chain.from_iterable(ast.walk(ast.parse(source)) for source in sources):
        given: list[ast.expr] = []
        if isinstance(node, ast.Call):
            given += [k.value for k in node.keywords if k.arg == parameter]
            if isinstance(node.func, ast.Name) and node.func.id == function:
                given += node.args[position : position + 1]
        if isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.Tuple | ast.List):
            targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
            for i, target in enumerate(targets):
                if isinstance(target, ast.Name) and target.id == parameter:
                    rows = node.iter.elts
                    if isinstance(node.target, ast.Tuple):
                        rows = [r.elts[i] for r in rows if isinstance(r, ast.Tuple) and i < len(r.elts)]
                    given += rows
        found |= {ast.unparse(value): value for value in given if _is_constant(value)}
    values = list(found.values())
    return values if len(values) <= SAME else [values[0], values[-1]]


def _visible(check: str) -> str:
    lines = check.split("\n")
    for begin, end in reversed(regions(check)):
        del lines[begin - 1 : end]
    return "\n".join(lines)


def _is_constant(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True
