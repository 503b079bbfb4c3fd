"""Answers that two students share and hardly anybody else has: where to look, if somebody may have copied.

Whoever writes a short answer well writes what many write. So what counts is how rare an answer is in its own class: if
k of n students have it, that two given ones are among them tells log2((n - 1) / (k - 1)) bits, and rare answers to
several tasks add up. A pair is named from the number of bits on at which chance would show one pair in thirty classes,
were tasks independent: 5 more than the logarithm of the number of pairs. In a class of thirty these are three answers
that nobody else has. (The idea of weighing by rarity is that of inverse document frequency,
https://doi.org/10.1108/eb026526.)

Answers are compared as Python reads them, with the names that they give themselves counted through: layout, comments
and renaming change nothing. It is evidence of one source, a copy or a common book, and never says who wrote first.
"""

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

MARGIN = 5.0  # bits
RARE = 3.0  # bits from which on an answer counts: one in eight has it; more would have very many pairs
_NAMES = ("id", "arg", "name")  # where a node of the syntax tree holds one
_LEAST = 3  # students; of two there is nothing that is rare


@dataclass(frozen=True)
class Alike:
    """Two students, the tasks in which their answers are the same and rare, and how many bits that tells."""

    students: tuple[str, str]
    tasks: list[str]
    bits: float


def alike(answers: Mapping[str, Mapping[str, str]]) -> list[Alike]:
    """Pairs whose answers are too much alike for chance, the most striking first.

    Arguments:
      answers: student -> task -> the answer's `form`; what was left as released is not among them.
    """
    others = len(answers) - 1
    if others < _LEAST - 1:
        return []
    having: dict[tuple[str, str], list[str]] = {}  # task, form -> students
    for student, forms in answers.items():
        for task, form in forms.items():
            having.setdefault((task, form), []).append(student)
    bits: dict[tuple[str, str], float] = {}
    tasks: dict[tuple[str, str], list[str]] = {}
    for (task, _), students in having.items():
        told = math.log2(others / (len(students) - 1)) if len(students) > 1 else 0.0
        if told >= RARE:
            for pair in combinations(sorted(students), 2):
                bits[pair] = bits.get(pair, 0.0) + told
                tasks.setdefault(pair, []).append(task)
    enough = math.log2(math.comb(others + 1, 2)) + MARGIN
    found = [Alike(pair, tasks[pair], told) for pair, told in bits.items() if told >= enough]
    return sorted(found, key=lambda one: (-one.bits, one.students))


def form(source: str) -> str:
    """The answer as it is compared: without layout, comments and docstrings, its own names as numbers."""
    try:
        return _form(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "".join(source.split())


def _form(tree: ast.Module) -> str:
    own: dict[str, str] = {}
    nodes = [node for node in ast.walk(tree) if not isinstance(node, ast.alias)]  # a module's name is not the answer's
    for node in nodes:
        for field in _NAMES:
            name = getattr(node, field, None)
            if isinstance(name, str) and not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)):
                own.setdefault(name, f"n{len(own)}")
    for node in nodes:
        for field in _NAMES:
            name = getattr(node, field, None)
            if isinstance(name, str):
                setattr(node, field, own.get(name, name))
        body = getattr(node, "body", None)
        if isinstance(body, list) and len(body) > 1 and _is_text(body[0]):
            del body[0]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
