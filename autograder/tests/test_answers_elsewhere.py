"""What a student wrote for an answer and somewhere else than in its cell counts; each notebook is carried out here."""

import contextlib

import nbformat
import pytest
from conftest import graded, locked, solution

from autograder.doors.graded_notebook import is_graded, nbgrader_metadata, restore
from autograder.not_begun import STUB

TO_WRITE = f'    raise NotImplementedError("{STUB}")'
F, G, H = (f'def {name}(x):\n    """Of x."""\n{TO_WRITE}' for name in "fgh")
BOTH = f"{F}\n\n\n{G}"
SETUP = "import math\n\nSIZE = 3\n\n\ndef check(value, expected):\n    assert value == expected"
CHECK_F, CHECK_G, CHECK_H = "check(f(2), 4)", "check(g(2), 8)", "check(h(2), 16)"
RIGHT_F, RIGHT_G = "def f(x):\n    return x * x", "def g(x):\n    return x * x * x"

stub, check = (F, solution("f")), (CHECK_F, graded("f-check", 2))
stub_g, check_g = (G, solution("g")), (CHECK_G, graded("g-check", 3))
both, check_both = (BOTH, solution("both")), (CHECK_G, graded("g-check", 3))
ONE, TWO, TOGETHER = [stub, check], [stub, check, stub_g, check_g], [both, check, check_both]


@pytest.fixture
def passed(make_notebook):
    """What passes of a notebook with these cells, brought back in line with a release: the names of checks."""

    def run(release, cells, nameless=()):
        release = make_notebook((SETUP, locked("setup")), *release)
        run.notebook = make_notebook(*cells)
        for place in nameless:
            run.notebook.cells[place].metadata = nbformat.from_dict({})
        run.changes = restore(run.notebook, release)
        before = nbformat.from_dict(run.notebook)
        restore(run.notebook, release)
        assert run.notebook == before, "nothing is done twice"
        return carried_out(run.notebook)

    return run


def carried_out(notebook):
    names, good = {}, []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            with contextlib.suppress(Exception):
                exec(cell.source, names)
                good += [nbgrader_metadata(cell)["grade_id"]] if is_graded(cell) else []
    return good


def answer(notebook, name):
    return next(cell.source for cell in notebook.cells if nbgrader_metadata(cell).get("grade_id") == name)


setup = (SETUP, locked("setup"))


def test_what_an_answer_below_its_check_needs_comes_along_in_order(passed):
    """An import, a constant, a helper and what that needs, each in a cell of its own; nothing that is not needed."""
    needed = [
        "import functools",
        "N = 1",
        "def times(x, y):\n    return x * y * N",
        "def square(x):\n    return times(x, x)",
    ]
    last = "@functools.cache\ndef f(x):\n    return square(x)"
    below = [*needed[:2], "n = 1 / 0", needed[2], "x, N2 = 3, 4", needed[3], last, "print(f(3))"]
    assert passed(ONE, [setup, *ONE, *below]) == ["f-check"]
    assert answer(passed.notebook, "f") == "\n\n\n".join([*needed, last])
    assert [cell.source for cell in passed.notebook.cells[3:]] == below, "they stay where they are as well"
    assert passed.changes == ["f (answered in another cell)"]


def test_what_stands_above_is_not_copied(passed):
    helper = "def square(x):\n    return x * x"
    assert passed(ONE, [setup, helper, *ONE, "def f(x):\n    return square(math.floor(x))"]) == ["f-check"]
    assert "square(x):" not in answer(passed.notebook, "f")


def test_a_helper_may_stand_in_the_cell_of_another_answer(passed):
    other = (RIGHT_G + "\n\n\ndef square(x):\n    return x * x", solution("g"))
    assert passed(TWO, [setup, *ONE, other, check_g, "def f(x):\n    return square(x)"]) == ["f-check", "g-check"]


@pytest.mark.parametrize("above", [True, False])
@pytest.mark.parametrize(
    "later",
    [
        "import functools\nf = functools.lru_cache(f)\nprint(f(3))",
        "plain = f\n\n\ndef f(x):\n    return plain(x)",
        "f = 3.0  # Hz",
        "for f in range(3):\n    pass",
        "f = f(3)",
    ],
)
def test_a_line_that_tries_the_answer_takes_not_its_place(passed, later, above):
    own = ["def f(x):\n    return 0", RIGHT_F, later]
    assert passed(ONE, [setup, *own, *ONE] if above else [setup, *ONE, *own]) == ["f-check"]
    assert "return 0" not in answer(passed.notebook, "f"), "an earlier try is none"


def test_each_function_is_looked_for_by_itself(passed):
    """One was written below the check, the other never begun."""
    assert passed(TOGETHER, [setup, *TOGETHER, RIGHT_F]) == ["f-check"]
    assert G in answer(passed.notebook, "both"), "it is said that it is not begun"


def test_a_stub_does_not_overwrite_what_was_written_above(passed):
    assert passed(TOGETHER, [setup, RIGHT_F, *TOGETHER]) == ["f-check"]


@pytest.mark.parametrize(
    "own",
    [
        "f = lambda x: f(0) if x < 0 else x * x",
        "try:\n    f = nothing\nexcept NameError:\n    def f(x):\n        return 4",
    ],
)
def test_an_answer_that_is_no_plain_def_is_found(passed, own):
    assert passed(ONE, [setup, *ONE, own]) == ["f-check"]


@pytest.mark.parametrize("trial", ["assert f(2) == 5", "print(f('2'))"])
def test_a_trial_that_fails_costs_nothing_that_stands_below_it(passed, trial):
    own = [f"{RIGHT_F}\n\n\n{trial}\nN = [i for i in range(2)]", "i = 1 / 0", RIGHT_G]
    assert passed(TOGETHER, [setup, *TOGETHER, *own]) == ["f-check", "g-check"]
    assert trial not in answer(passed.notebook, "both") and "1 / 0" not in answer(passed.notebook, "both")


@pytest.mark.parametrize("odd", ["x = " + "+".join("1" * 3000), "x = " + "(" * 5000, "a\0b", "def f(:", "return f"])
def test_cells_that_cannot_be_read_are_passed_over(passed, odd):
    assert passed(ONE, [setup, odd, *ONE, RIGHT_F, odd]) == ["f-check"]
    passed(ONE, [setup, (odd, solution("f")), check, RIGHT_F])


@pytest.mark.parametrize("above", [True, False])
def test_a_cell_that_is_written_in_part(passed, above):
    """The other function stands elsewhere, beside an older form of this one; what needs it stands here."""
    mine = (f"import functools\n\n\n{RIGHT_F}\n\n\n@functools.cache\n{G}\n\n\nnote = 'mine'", solution("both"))
    own = "def f(x):\n    return 0\n\n\n" + RIGHT_G + "\n\n\nassert g(2) == 8"
    rest = [mine, check, check_both]
    assert passed(TOGETHER, [setup, own, *rest] if above else [setup, *rest, own]) == ["f-check", "g-check"]
    assert "note = 'mine'" in answer(passed.notebook, "both")


def test_a_stub_in_the_cell_that_comes_along_is_no_answer(passed):
    """The whole stub was copied below, and one half of it filled in there, the other here."""
    mine, own = (f"{F}\n\n\n{RIGHT_G}", solution("both")), f"{RIGHT_F}\n\n\n{G}"
    assert passed(TOGETHER, [setup, mine, check, check_both, own]) == ["f-check", "g-check"]


def test_what_a_decorator_of_another_stub_reads_is_there(passed):
    """As in a rule that belongs to a function: `@kepler.defjvp`."""
    rule = f"{F}\n\n\n@f.register\ndef rule(x):\n{TO_WRITE}"
    own = "class Made:\n    def __call__(self, x):\n        return x * x\n\n\nf = Made()"
    release = [(rule, solution("f")), check]
    assert passed(release, [setup, *release, own]) == []
    own = RIGHT_F + "\n\n\nf.register = lambda rule: rule\n\n\n@f.register\ndef rule(x):\n    return 1"
    assert passed(release, [setup, *release, own]) == ["f-check"]


def test_a_class_is_written_when_one_of_its_methods_is(passed):
    body = TO_WRITE.replace("    ", "        ")
    made = f'class f:\n    def __init__(self, x):\n        """x."""\n{body}\n\n    def __eq__(self, other):\n{body}'
    release = [(made, solution("f")), check]
    own = "class f:\n    def __init__(self, x):\n        self.x = x\n\n    def __eq__(self, y):\n        return y == 4"
    assert passed(release, [setup, *release, own]) == ["f-check"]
    half = (made.replace(body, "        self.x = x", 1), solution("f"))
    assert passed(release, [setup, half, check, own]) == []
    assert passed.changes == []


def test_what_was_given_in_a_stub_stays(passed):
    given = f"{F}\n\n\ndef g(x):\n    return f(x) * x"
    release = [(given, solution("both")), check, check_both]
    assert passed(release, [setup, *release, RIGHT_F]) == ["f-check", "g-check"]


def test_a_line_below_a_stub_that_ends_the_cell_goes_with_it(passed):
    release = [(f"{F}\n\n\nraise NotImplementedError('{STUB}')", solution("f")), check]
    assert passed(release, [setup, *release, RIGHT_F]) == ["f-check"]
    assert passed(release, [setup, RIGHT_F, *release]) == ["f-check"]


@pytest.mark.parametrize(
    "untouched",
    [
        "# my answer is in the cell at the end\n" + F,
        F.replace('    """Of x."""\n', ""),
        F.replace('"""Of x."""', "'''Of x, or so.'''").replace("(x)", "( x )"),
        "def f(x):\n    raise NotImplementedError",
        "def f(x):\n    raise NotImplementedError()  # TODO",
        "def f(x):\n    pass\n    ...\n    raise NotImplementedError",
        "def f(x: int) -> int:\n    raise NotImplementedError(\n        'your code goes here'\n    )",
        "%%time\n" + F,
        "%matplotlib inline\n" + F,
        "import functools\n\n\n@functools.cache\n" + F,
        "# see the end",
        "",
        F + "\n\n\nimport functools\n\nf = functools.cache(f)",
    ],
)
def test_a_stub_that_looks_another_way_is_one(passed, untouched):
    for cells in ([(untouched, solution("f")), check, RIGHT_F], [RIGHT_F, (untouched, solution("f")), check]):
        assert passed(ONE, [setup, *cells]) == ["f-check"]


@pytest.mark.parametrize(
    "written",
    [
        "def f(x):\n    x + 1\n    raise NotImplementedError",
        "def f(x):\n    pass",
        "def f(x):\n    return 0",
        F + "\n\n\nf = lambda x: 0",
        F + "\n\n\nif True:\n    def f(x):\n        return 0",
        "from math import sqrt as f",
        "f, other = abs, 1",
        "the square of x",
    ],
)
def test_what_was_written_is_graded(passed, written):
    assert passed(ONE, [setup, (written, solution("f")), check, RIGHT_F]) == []
    assert passed.changes == [] and answer(passed.notebook, "f") == written


def test_what_stands_between_a_stub_and_its_check_stays_there(passed):
    """There it works; an experiment below the check is none."""
    assert passed(ONE, [setup, stub, RIGHT_F, check, "def f(x):\n    return 0"]) == ["f-check"]
    assert answer(passed.notebook, "f") == F


@pytest.mark.parametrize("experiment", ["def f(x):\n    return x * x * 1.01", "f = slow_f", "def f(x):\n    # to do"])
def test_an_experiment_below_the_check_takes_no_lost_name(passed, experiment):
    """The stub was deleted, and answered in a new cell; or a program keeps no names at all."""
    cells = [setup, RIGHT_F, check, experiment, (RIGHT_G, solution("g")), check_g]
    assert passed(TWO, cells) == ["f-check", "g-check"]
    assert answer(passed.notebook, "f") == RIGHT_F
    cells = [(cell, {}) if isinstance(cell, str) else cell for cell in cells]
    assert passed(TWO, cells, nameless=range(len(cells))) == ["f-check", "g-check"]
    assert answer(passed.notebook, "f") == RIGHT_F


def test_of_cells_below_the_check_the_lowest_takes_a_lost_name(passed):
    assert passed(ONE, [setup, check, "def f(x):\n    return 0", RIGHT_F]) == ["f-check"]


@pytest.mark.parametrize("where", ["below", "above", "around"])
def test_a_deleted_stub_is_one_that_was_left(passed, where):
    """The answer stands in two cells."""
    f, g, checks = [RIGHT_F], [RIGHT_G], [check, check_both]
    cells = {"below": [*checks, *f, *g], "above": [*f, *g, *checks], "around": [*g, *checks, *f]}[where]
    assert passed(TOGETHER, [setup, *cells]) == ["f-check", "g-check"]


def test_a_deleted_stub_that_was_not_answered_is_one_that_was_not_begun(passed):
    assert passed(TWO, [setup, *ONE, check_g]) == []
    assert answer(passed.notebook, "g") == G
    assert passed.changes == ["g (deleted)"]


def test_both_answers_in_the_cell_of_the_first_whose_neighbour_was_deleted(passed):
    first = (RIGHT_F + "\n\n\n" + RIGHT_G, solution("f"))
    assert passed(TWO, [setup, first, check, check_g]) == ["f-check", "g-check"]


@pytest.mark.parametrize("copy_first", [True, False])
def test_a_locked_cell_that_was_copied_and_rewritten_is_a_cell_of_the_students_own(passed, copy_first):
    copies = [(SETUP, locked("setup")), ("def square(x):\n    return x * x", locked("setup"))]
    mine = ("def f(x):\n    return square(x)", solution("f"))
    assert passed(ONE, [*(copies[::-1] if copy_first else copies), mine, check]) == ["f-check"]
    assert passed.changes == []
    assert sum(cell.source == SETUP for cell in passed.notebook.cells) == 1


def test_statements_in_the_middle_of_a_locked_cell_run_behind_it(passed):
    added = SETUP.replace("SIZE = 3", "POWER = SIZE = 2\nPOWER = 2\nSIZE = 3\n%matplotlib inline")
    mine = ("def f(x):\n    return x**POWER", solution("f"))
    assert passed(ONE, [(added, locked("setup")), mine, check]) == ["f-check"]
    setup_cell, behind = passed.notebook.cells[:2]
    assert (setup_cell.source, behind.source, dict(behind.metadata)) == (SETUP, "POWER = SIZE = 2\nPOWER = 2", {})
    assert passed.changes == ["setup (edited)"]


def test_a_locked_cell_that_was_emptied_is_put_back(passed):
    assert passed(ONE, [("", locked("setup")), (RIGHT_F, solution("f")), check]) == ["f-check"]
    assert passed.changes == ["setup (edited)"]


def test_an_answer_in_the_middle_of_a_check_is_one(passed):
    text = '"""2 points."""\nvalue = f(2)\ncheck(value, 4)'
    release = [stub, (text, graded("f-check", 2))]
    typed = text.replace("value = f(2)", f"import math\n{RIGHT_F}\nvalue = f(2)\nvalue = 4")
    assert passed(release, [setup, stub, (typed, graded("f-check", 2))]) == ["f-check"]
    assert answer(passed.notebook, "f-check") == text
    assert answer(passed.notebook, "f") == f"import math\n{RIGHT_F}\nvalue = 4"
    lacking = typed.replace("check(value, 4)", "")
    assert passed(release, [setup, stub, (lacking, graded("f-check", 2))]) == []
    assert [cell.source for cell in passed.notebook.cells] == [SETUP, F, text]


def test_checks_that_were_merged_into_answers_are_apart(passed):
    """A wrong answer, its check and the next answer in one cell; the rest of the notebook below."""
    release = [*TWO, (H, solution("h")), (CHECK_H, graded("h-check", 4))]
    merged = "\n\n".join(["def f(x):\n    return x", CHECK_F, RIGHT_G, CHECK_G, "def h(x):\n    return x**4"])
    rest = [(CHECK_H, graded("h-check", 4))]
    assert passed(release, [setup, (merged, solution("f")), *rest]) == ["g-check", "h-check"]
    assert answer(passed.notebook, "g") == RIGHT_G
    assert passed(release, [setup, merged, *rest]) == ["g-check", "h-check"]


def test_the_imports_of_an_answer_are_in_no_other_cell(passed):
    given = f"{F}\n\n\ndef g(x):\n    return f(x) * x"
    release = [(given, solution("both")), check, check_both]
    mine = "import functools\n\n\n" + given.replace(TO_WRITE, "    return x * x")
    assert passed(release, [setup, (mine, solution("both")), check, check_both]) == ["f-check", "g-check"]
    assert [cell.source for cell in passed.notebook.cells] == [SETUP, mine, CHECK_F, CHECK_G]
