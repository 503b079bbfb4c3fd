"""Which students share answers that hardly anybody else has."""

import random

import pytest

from autograder.classroom.copies import alike, form

pytestmark = pytest.mark.once

ANSWER = "def f(x, axis):\n    total = x.sum(axis)\n    return total * 2"


@pytest.mark.parametrize(
    "same",
    [
        "def f(y, k):\n    # doubled\n    s = y.sum(k)\n\n    return s * 2",
        'def f(x, axis):\n    """Twice the sum."""\n    total = (x.sum(axis))\n    return (total * 2)',
    ],
)
def test_layout_comments_and_own_names_change_nothing(same):
    assert form(same) == form(ANSWER)


@pytest.mark.parametrize(
    "other",
    [
        ANSWER.replace("2", "3"),
        ANSWER.replace("sum", "max"),
        ANSWER.replace("x.sum(axis)", "axis.sum(x)"),
        ANSWER.replace("total * 2", "2 * total"),
        "import jax\n" + ANSWER,
        "def f(x:",
        "",
    ],
)
def test_another_program_is_another(other):
    assert form(other) != form(ANSWER)


def test_a_module_is_no_name_of_the_answers_own():
    assert form("import jax.numpy as np\nx = np.ones(3)") != form("import numpy as np\nx = np.ones(3)")


def test_what_is_no_program_is_compared_as_text():
    assert form("def f(x:\n  1") == form("def f( x:\n1") != form("def f(y:\n1")
    assert form("(" * 5000) == "(" * 5000
    deep = "-" * 50_000 + "1"
    assert form(deep) == form(deep + " ")


def students(number, tasks=8, seed=0, kinds=6):
    """A class in which each answer is one of a few kinds, the first of them far more frequent than the last."""
    draw = random.Random(seed)
    kind = [2.0**-k for k in range(kinds)]
    return {
        f"s{n:03}": {f"t{t}": f"kind {draw.choices(range(kinds), kind)[0]}" for t in range(tasks)}
        for n in range(number)
    }


def test_a_copy_is_found_and_names_the_tasks():
    answers = students(40)
    for task in ("t1", "t4", "t6"):
        answers["s005"][task] = answers["s011"][task] = f"nobody else's {task}"
    (first, *_) = alike(answers)
    assert first.students == ("s005", "s011") and {"t1", "t4", "t6"} <= set(first.tasks)
    assert first.bits >= 3 * 5.2


def test_one_rare_answer_and_many_common_ones_are_no_reason():
    answers = students(40, kinds=1)
    answers["s005"]["t1"] = answers["s011"]["t1"] = "nobody else's"
    assert alike(answers) == []


def test_chance_shows_one_pair_in_many_classes():
    found = [pair for seed in range(60) for pair in alike(students(60, seed=seed))]
    assert len(found) <= 4


@pytest.mark.parametrize("number", [0, 1, 2])
def test_of_two_nothing_is_rare(number):
    assert alike({f"s{n}": {"t": "the same"} for n in range(number)}) == []
