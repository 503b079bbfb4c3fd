"""A refused line costs what needs it and nothing beside it; where a name is missing then, its check says why."""

import re

import pytest
from conftest import COURSE, graded, locked, solution

from autograder.classroom.marks import read_paper
from autograder.doors.fair_run import run_fairly
from autograder.doors.faults import LEFT_OUT, end_in, fault
from autograder.doors.graded_notebook import failure_text, is_graded, score
from autograder.doors.guard.cells import Guard
from autograder.doors.guard.course import Course
from autograder.doors.guard.parts import judge_in_parts
from autograder.doors.kernel_runner import Runner
from autograder.doors.missing_names import explain_missing_names

G = "def g(x):\n    return x"
LOGS = f"import logging\nlog = logging.getLogger('me')\n{G}\nlog.info(g(1))\n\ndef h(x):\n    log.info(x)"
PARTS = {  # a cell, and the lines that are left out of it
    f"print(globals())\n{G}": [1],
    f"{G}\nname = input('your name? ')\nprint(name.upper())\nassert g(1) == 1": [3, 4],
    LOGS: [1, 2, 5, 8],
    f"def f(x):\n    if x:\n        breakpoint()\n    return x\n{G}": [3],
    "import traceback\ndef g(x):\n    try:\n        return x\n    except TypeError: traceback.print_exc()": [1, 5],
    "class A:\n    def f(self, x):\n        print(locals(),\n              dir(x)); return x": [3],
    "def g(x):\n    y = x; print(locals()); print(dir(x))\n    return y": [2, 2],
    f"{G}\nfor x in range(3):\n    assert g(x) == x; help(g)": [4],
    f"import os; os.remove('a'); x = 1\n{G}": [1, 1, 1],  # what stands beside it on its line goes with it
    f"@eval('abs')\n@abs\ndef f(x):\n    return [\n        x]\n{G}": [1],
    f"def f(x):\n    return eval('x')\n{G}\ny = f(1)": [2, 5],
    f"with open('a.txt', 'w') as file:\n    file.write('a')\n{G}": [1],
    f"total = input()\n{G}\ntotal += 1\ndel total\nclass A:\n    a = total": [1, 4, 5, 6],
    f"{G}\neval('1')\nexec('2')\n{G}\ninput()": [3, 4, 7],
    "x = 1\neval('2')": [2],
    f"%reset -f\n{G}\nt = %timeit -o g(1)": [1, 4],
    # what is called needs it
    f"import platform\ndef where():\n    return platform.machine()\nprint('on', where())\n{G}": [1, 4],
    f"import platform\ndef f():\n    return platform.machine()\ndef h():\n    return f()\nm = h()\n{G}\nm += 'a'": [
        *(1, 6, 9)
    ],
    f"import platform\nclass A:\n    def f(self):\n        return platform.machine()\na = A()\nprint(a.f())\n{G}": [
        1,
        6,
    ],
    f"import platform\ndef f(x):\n    return platform.machine()\nstep = jax.jit(f)\n@f\ndef h(): pass\n"
    f"y = step(1)\nfor t in [f]: t(1)\n{G}": [1, 6, 7, 8],
    f"log = input()\ndef f(x):\n    log.info(x)\n    return x\nprint(f(1))\n{G}": [1, 3],
    f"log = input()\ndef f(log):\n    return log\nprint(f(1))\n{G}": [1],
    # an import inside of a function, and what uses it, of which nothing is needed
    "def g(x):\n    import logging\n    logging.info(x)\n    return x": [2, 3],
    "def g(x):\n    try:\n        return x\n    except TypeError:\n        import traceback\n"
    "        traceback.print_exc()\n        raise": [5, 6],
    # of an import one name, and what needs it
    f"from functools import partial, singledispatch\ntwice = partial(max, 2)\n{G}": [1],
    f"import os.path, platform, math\nsystem = platform.system()\n{G}\nprint(system)": [1, 1, 2, 5],
    f"from jax.core import Tracer, eval_jaxpr, jaxpr_as_fun\nis_it = isinstance(1, Tracer)\n{G}": [1, 1],
    f"from functools import (\n    partial,\n    singledispatch,\n)\ntwice = partial(max, 2)\n{G}": [1],
    f"def f(x):\n    from functools import (\n        partial,\n        singledispatch)\n    return x\n{G}": [2],
    # a call on several lines, and what follows it
    "def g(x):\n    print(\n        locals(),\n        x,\n    )\n    y = x\n    return y": [3],
    "def g(x):\n    if x:\n        print(locals(),\n            dir(x)); x = 1\n    return x": [3],
    # many imports that no answer needs
    "import logging\nimport socket\nimport math\nimport base64\nimport shelve\nimport sqlite3\nimport csv\nimport ssl\n"
    f"import platform\nfrom logging import info, debug\n{G}\nb = base64.b64encode(b'a')\ninfo(math.pi)": [
        1,
        2,
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        13,
        14,
    ],
    # an import that may fail: what is run where it does
    f"try:\n    from tqdm import tqdm\nexcept ImportError:\n    def tqdm(x):\n        return x\n{G}\ng(tqdm([1]))": [2],
    f"try:\n    import tqdm\nexcept ValueError:\n    tqdm = None\n{G}\ng(tqdm)": [2, 7],
    f"try:\n    import torch\nexcept Exception:\n    torch = input()\n{G}\ng(torch)": [2, 1, 7],
    "def g(x):\n    try:\n        import torch\n    except:\n        torch = None\n    return torch or x": [3],
    f"try:\n    import math\n    import torch\n    import re\nexcept ImportError as e:\n    print(e)\n{G}\ng(torch)": [
        3,
        9,
    ],
    f"try:\n    import torch\nexcept ImportError:\n    raise\n{G}\nn = torch.ones(g(1))": [2, 7],
    f"try:\n    from functools import partial, singledispatch\nexcept ImportError:\n    pass\n{G}\npartial(g)": [2],
}
TRIED = {  # and what is run of it
    "try:\n    import torch\n    found = True\nexcept ImportError:\n    found = False\nelse:\n    x = 1": (
        "found = False"
    ),
    "try:\n    import math\n    import torch as xp\nexcept (OSError, ModuleNotFoundError) as e:\n"
    "    print(e); xp = math\nfinally:\n    y = 2": (
        "import math\ne = ImportError('import torch as xp')\nprint(e)\nxp = math\ny = 2"
    ),
    "try:\n    import torch\nexcept ValueError:\n    x = 1\nexcept ImportError:\n    x = 2": "x = 2",
    "try:\n    import math\nexcept ImportError:\n    import torch as math\nelse:\n    x = 1": "import math\nx = 1",
    "try:\n    import torch\n    import math\nexcept ImportError:\n    torch = None": "import math\ntorch = None",
    "if True:\n    try:\n        import torch\n    except ImportError:\n        x = 1\n        y = 2": (
        "if True:\n    x = 1\n    y = 2"
    ),
}
WHOLE = {
    "def g(x):\n    return eval('x')": "line 2 uses eval",
    "import math\nSMALL = 1e-3\ndef g(x):\n    return eval('x')": "line 4 uses eval",
    "eval('1')\nexec('2')": "line 1 uses eval",
    "import math\n'A text.'\neval('1')": "line 3 uses eval",
    "n = input()\ndef g(x, n=n):\n    return x": "line 1 uses input",
    "%%script bash\nls": "%%script",
    "def g(x):\n    exec('y = x')\n    return eval('y')": "line 2 uses exec",
    "def g(x):\n    (yield globals())\n": "line 2 uses globals",
    "def g(x):\n    import platform\n    return platform.machine()": "line 2 imports platform",
    "def g(x):\n    import platform\n    print(platform.machine())\n    h = platform\n    return x": "line 2 imports",
    "def g(x):\n    print(y := locals())\n    return y['x']": "line 2 uses locals",
    "\n".join(f"eval('{n}')" for n in range(9)) + f"\n{G}": "line 1 uses eval",  # it would be read ten times
}


def judged(source, **known):
    return judge_in_parts([source], Course(**known))[source]


@pytest.mark.parametrize("source", PARTS, ids=range(len(PARTS)))
def test_what_a_refused_line_is_not_needed_for_is_run(source):
    found = judged(source)
    assert found.name == "" and found.text.count("print('Left out: ") == len(PARTS[source]) == len(found.parts)
    lines = found.text.rstrip("\n").split("\n")
    below = lines[source.count("\n") + 1 :]  # of what stood inside of others
    assert not [line for line in below if not line.startswith("print('Left out: line ")]
    for number in PARTS[source]:
        assert any(f"line {number} " in part for part in found.parts), found.parts
    assert judged(found.text)._replace(text=found.text) == judged("x = 1")._replace(
        text=found.text
    )  # nothing is refused


@pytest.mark.parametrize("source", TRIED, ids=range(len(TRIED)))
def test_where_a_module_is_tried_what_stands_for_it_is_run(source):
    found = judged(f"{source}\n{G}").text
    first = "\n".join(found.split("\n")[: source.count("\n") + 1])
    assert first.rstrip("\n") == TRIED[source]
    assert "What stands below " in found


@pytest.mark.parametrize("source", WHOLE, ids=range(len(WHOLE)))
def test_a_cell_that_would_be_without_its_answer_is_left_out_whole(source):
    found = judged(source)
    assert (found.name, found.text, found.parts) == ("NotAllowed", "", ()) and WHOLE[source] in found.why


def test_what_the_readme_says_is_left_out_is_left_out_and_a_mere_import_is_not():
    (examples,) = re.findall(r"An answer that uses what none needs \((.*?)\)", (COURSE / "README.md").read_text())
    names = re.findall(r"`([\w.]+)`", examples)
    assert len(names) >= 2
    for name in names:
        found = judged(f"import os, sys\ndef g(x):\n    return {name}(x)")
        assert found.name == "NotAllowed" and f"line 3 uses {name}" in found.why, found
    alone = judged(f"import os, sys\n{G}")
    assert (alone.name, alone.why, alone.parts) == ("", "", ())


def test_what_needs_a_name_of_the_courses_is_kept():
    """It has what the course gave it, if what would have given it another meaning is left out."""
    source = f"size = eval('3')\ntwice = 2 * size\n{G}"
    assert len(judged(source).parts) == 2
    assert [part[:7] for part in judged(source, kept=frozenset({"size"})).parts] == ["line 1 "]


def test_a_function_of_an_answers_that_is_called_print_says_nothing():
    found = judged(f"eval('1')\ndef print(*_):\n    pass\n{G}")
    assert found.text.startswith("pass\n") and len(found.parts) == 1


def test_a_file_beside_the_notebook_is_spoken_of_where_it_may_be_one():
    mine, pythons = "import my_helpers", "import subprocess"
    assert judged(mine).why.endswith("write what you need of it in this cell: the notebook alone is graded.")
    assert judged("from .my_helpers import f").why.endswith("the notebook alone is graded.")
    assert judged(pythons).why.endswith("An answer has no need of it: leave it out.")


def run(make_notebook, folder, *cells):
    notebook = make_notebook(("base = 1", locked("setup")), *cells)
    guard = Guard(notebook)
    with Runner(notebook, folder, 20, guard=guard) as runner:
        run_fairly(runner, 100)
    explain_missing_names(notebook, guard)
    return notebook


def said(cell):
    texts = [output.text if output.output_type == "stream" else output.evalue for output in cell.outputs]
    return "\n".join(texts)


CHECK = ("assert g(1) == 1", graded("g-check", 2))
MISSING = {  # what stands in the answer's cell, and what its check says of it
    "left-out": ("def g(x):\n    return eval('x')", "in its own cell, g: this cell was left out: line 2 uses eval"),
    "a-part": ("def h(x):\n    return eval('x')\ndef g(x):\n    return h(x)", "left out of g: line 2 uses eval"),
    "an-error": (
        f"1 / 0\n{G}",
        "what happened in its own cell, g: ZeroDivisionError: division by zero (line 1). Mend that",
    ),
    "no-python": (f"{G}\n\nx = (", "in its own cell, g: SyntaxError: '(' was never closed (line 4). Mend that first."),
    "no-function": (
        "df g(x):\n    return x",
        "in its own cell, g: SyntaxError: invalid syntax (line 1). Mend that first.",
    ),
}


@pytest.mark.notebooks
@pytest.mark.parametrize("how", MISSING)
def test_a_check_says_what_became_of_a_name(make_notebook, tmp_path, how):
    answer, line = MISSING[how]
    notebook = run(make_notebook, tmp_path, (answer, solution("g")), CHECK)
    check = notebook.cells[-1]
    assert score(check).earned == 0 and "NameError" in failure_text(check) and line in said(check)
    assert line in failure_text(check).splitlines()[-1] and line in read_paper("ada", [notebook]).said["g"][0]
    found = fault(notebook)
    if how == "a-part":
        assert (found.title, found.cell, found.lost) == ("A part of a cell was left out", "g", 2)


@pytest.mark.notebooks
def test_a_name_that_is_defined_below_its_check_is_found(make_notebook, tmp_path):
    notebook = run(make_notebook, tmp_path, ("x = 1", solution("g")), CHECK, G)
    check = next(filter(is_graded, notebook.cells))
    assert said(check).endswith("its cell stands below this check; cells are run from top to bottom.")


@pytest.mark.notebooks
def test_a_line_beside_an_answer_costs_it_nothing(make_notebook, tmp_path):
    notebook = run(make_notebook, tmp_path, (f"print(sorted(globals()))\n{G}", solution("g")), CHECK)
    assert score(notebook.cells[-1]).earned == 2
    assert fault(notebook).is_harmless and fault(notebook).line.startswith("line 1 uses globals; ")
    assert notebook.cells[1].outputs[0].text.startswith("Left out: line 1 uses globals; ")
    own = run(make_notebook, tmp_path, (G, solution("g")), "eval('1')", CHECK)
    assert score(own.cells[-1]).earned == 2
    assert fault(own).is_harmless and fault(own).title == "A cell was left out"


def test_of_several_things_left_out_the_one_that_cost_points_is_named(make_notebook):
    other = ("def h(x):\n    return x", solution("h"))
    notebook = make_notebook(other, (G, solution("g")), CHECK)
    notebook.cells[0].metadata[LEFT_OUT] = notebook.cells[1].metadata[LEFT_OUT] = "line 1 uses globals"
    assert (fault(notebook).cell, fault(notebook).is_harmless) == ("h", True)
    end_in(notebook.cells[2], "NameError", "name 'g' is not defined")
    assert (fault(notebook).cell, fault(notebook).lost, fault(notebook).others) == ("g", 2, 1)


def test_beside_a_refused_line_a_helper_may_have_a_name_of_the_courses():
    """Above it or below it; what remains is read as if the line had never been there."""
    line, helper = "print(g.__code__)", "def memo(x):\n    return x\ndef g(x):\n    return memo(x)"
    for cell in (f"{line}\n{helper}", f"{helper}\n{line}"):
        found = judged(cell, kept=frozenset({"memo"}))
        assert found.name == "" and found.apart == {"memo"} and len(found.parts) == 1 and ".__code__" in found.why
