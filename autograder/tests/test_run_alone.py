"""run_alone: a function where neither JAX nor the notebook exists, and what is said when it wants them."""

import functools
import math
import os
import string
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import psutil
import pytest
from conftest import run_cell

from autograder import run_alone
from autograder.checks import alone_child
from autograder.failure import CheckFailed

SITE = os.path.dirname(os.path.dirname(jax.__file__))


@pytest.fixture
def notebook():
    """The names of a notebook whose setup has been run."""
    names = {"jax": jax, "jnp": jnp, "np": np, "math": math, "functools": functools, "table": jnp.arange(3)}
    source = """
def count(program):
    return jnp.sum(3)
TAPES, FMA, KINDS = (count,), True, {"a": 1, "b": count}
drawn = (n for n in range(3))
"""
    return run_cell(source, names)


def ran(source, notebook=None, *args):
    """What f of this cell returns when it is run alone."""
    names = run_cell(source, notebook)
    return run_alone(names["f"], *args)


def refused(source, notebook=None, *args):
    with pytest.raises(CheckFailed) as caught:
        ran(source, notebook, *args)
    return str(caught.value)


# --- what comes along -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    ["None", "True", "3", "10**30", "0.1", "float('inf')", "1j", "'ä\\n'", "[1, [2.0]]", "(1, (2,))", "{'a': {1: []}}"],
)
def test_plain_values_come_back_as_they_are(value):
    assert repr(ran(f"def f():\n    return {value}")) == repr(eval(value))


def test_other_values_come_back_as_what_they_mean():
    source = """
import enum, collections, fractions
import numpy as np
class Kind(enum.Enum):
    SCAN = "scan"
class Text(str):
    pass
Pair = collections.namedtuple("Pair", "a b")
def f():
    return [np.arange(3), np.float64(0.5), fractions.Fraction(6, 3), fractions.Fraction(1, 2), Kind.SCAN, Text("x"),
            Pair(1, 2), collections.Counter("a"), range(2), {1}]
"""
    *plain, odd = ran(source)
    assert plain == [[0, 1, 2], 0.5, 2, 0.5, "scan", "x", (1, 2), {"a": 1}, [0, 1]]
    assert (type(odd).__name__, repr(odd)) == ("set", "{1}")


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        ("def helper(n):\n    return n + 1\ndef f():\n    return helper(helper(1))", 3),
        ("BASE = 3\ndef f():\n    return BASE + 1", 4),
        ("def f(n=5):\n    return 1 if n < 2 else n * f(n - 1)", 120),
        ("def make(k):\n    return lambda n: n * k\nf = functools.partial(make(3), 5)", 15),
        ("f = lambda: 7", 7),
        ("@functools.cache\ndef fib(n):\n    return 1 if n < 2 else n * fib(n - 1)\nf = lambda n=fib(5): n", 120),
        ("@functools.cache\ndef f():\n    return 8", 8),
        ("def f():\n    return [sum(i * j for j in range(i)) for i in range(4)]", [0, 0, 2, 9]),
        ("def f():\n    import itertools, math\n    return math.comb(4, 2) + len([*itertools.permutations('ab')])", 8),
        ("import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: jax.Array = 2\ndef f():\n    return A(5).x", 5),
        ("import typing\nclass A(typing.NamedTuple):\n    x: int = 2\ndef f():\n    return A()._replace(x=3).x", 3),
        ("class A:\n    def __call__(self):\n        return 6\nf = A()", 6),
        ("total = {}\ntotal.update(a=1)\ntotal['b'] = 2\ndef f():\n    return total", {"a": 1, "b": 2}),
        ("def f(x: jnp.ndarray = 3) -> jax.Array:\n    return x", 3),
        ("def f():\n    return [FMA, table.tolist(), list(table.shape)]", [True, [0, 1, 2], [3]]),
        ("def f():\n    return [t.__name__ for t in TAPES] + list(KINDS) + [KINDS['a']]", ["count", "a", "b", 1]),
        ("def f():\n    return int(np.prod([2, 3])) + math.floor(1.5)", 7),
        ("def f():\n    import numpy\n    return numpy.ones((2, 3)).shape", (2, 3)),
        ("@jax.jit\ndef other(x):\n    return x\ncount(1)\ndef f():\n    return 4", 4),
    ],
)  # fmt: skip
def test_what_is_plain_works(notebook, source, answer):
    assert ran(source, notebook) == answer


def test_a_layout_comes_along_as_a_tuple(notebook):
    notebook["LAYOUTS"] = {"both": jax.P("x", None), "stripes": jax.P(("x", "y"))}
    source = "def f():\n    return {name: tuple(spec) for name, spec in LAYOUTS.items()}"
    assert ran(source, notebook) == {"both": ("x", None), "stripes": (("x", "y"),)}


def test_what_has_no_hash_may_be_called():
    assert ran("class F(dict):\n    def __call__(self):\n        return 3\nf = F()") == 3


def test_the_function_is_run_anew_in_each_call(notebook):
    names = run_cell("calls = []\ndef f():\n    calls.append(1)\n    return len(calls)", notebook)
    assert [run_alone(names["f"]) for _ in range(2)] == [1, 1]
    assert not names["calls"], "and it leaves no mark in the notebook"


def test_what_it_prints_is_shown(capfd):
    assert ran("print('the cell')\ndef f():\n    print('the function')\n    return 1") == 1
    assert capfd.readouterr() == ("the cell\nthe function\n", "")


def test_arguments_are_copies():
    given = [1, 2]
    assert ran("def f(given):\n    given.append(3)\n    return given", None, given) == [1, 2, 3]
    assert given == [1, 2]


# --- what is not there ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("def f():\n    return count(3)", "count"),
        ("def f():\n    return jnp.sin(3)", "jnp.sin"),
        ("def f():\n    return jax.make_jaxpr(abs)(1)", "jax.make_jaxpr"),
        ("def f():\n    with jax.disable_jit(False):\n        return 1", "jax.disable_jit"),
        ("import jax.numpy as other\ndef f():\n    return other.sin(3)", "other.sin"),
        ("from jax import make_jaxpr as look\ndef f():\n    return look(abs)", "look"),
        ("def f():\n    import jax\n    return 1", "jax"),
        ("def f():\n    from autograder import trace_log\n    return 1", "autograder"),
        ("def f():\n    try:\n        return count(3)\n    except Exception:\n        return 1", "count"),
        ("def f():\n    return [t(3) for t in TAPES]", "count"),
        ("def f():\n    return KINDS['b'](3)", "count"),
        ("def f():\n    return next(drawn)", "drawn"),
        ("def helper():\n    return count(3)\ndef f():\n    return helper()", "count"),
        ("def f():\n    return open('/etc/passwd').read()", "open"),
        ("def f():\n    return open('answers', 'w').write('1')", "open"),
        ("def f():\n    return open(0).read()", "open"),
        (f"def f():\n    import sys\n    sys.path.append({SITE!r})\n    import jax", "os.listdir"),
        ("def f():\n    import subprocess\n    return subprocess.run(['true']).returncode", "subprocess"),
        ("def f():\n    import os\n    return os.system('true')", "os.system"),
        ("def f():\n    import os\n    return os.listdir('/tmp')", "os.listdir"),
        ("def f():\n    import os\n    return [entry.name for entry in os.scandir('/tmp')]", "os.scandir"),
        ("def f():\n    import socket\n    return socket.socket()", "socket"),
        ("def f():\n    import ctypes\n    return ctypes.CDLL(None)", "ctypes"),
    ],
)
def test_what_is_not_plain_python_is_named(notebook, source, name):
    assert refused(source, notebook).startswith(f"✗ f uses {name}, which does not exist where it is run.\n")


def test_neither_variables_nor_names_of_files_carry_what_was_measured(notebook, monkeypatch, tmp_path):
    monkeypatch.setenv("JAX_FOUND", "3")
    monkeypatch.setenv("TEMP", "measured")
    (tmp_path / "3").mkdir()
    folder, name = str(tmp_path), str(tmp_path / "3")
    body = f"return [os.environ.get('JAX_FOUND'), os.path.exists({name!r}), Path({folder!r}).exists()]"
    assert ran(f"import os\nfrom pathlib import Path\ndef f():\n    {body}", notebook) == [None, False, False]
    assert ran("import os\ndef f():\n    return os.environ.get('TEMP')", notebook) != "measured"
    later = "def f():\n    import fractions, json, os\n    return os.path.exists(fractions.__file__)"
    assert ran(later, notebook) is True, "what can be imported is there"


def test_a_refusal_has_four_parts(notebook):
    assert refused("def f(n):\n    n += 1\n    return jnp.sin(n)", notebook, 2) == (
        "✗ f uses jnp.sin, which does not exist where it is run.\n"
        "  line 3 of its cell: return jnp.sin(n)\n"
        "  Why this usually happens: it finds its answer by itself: it is run in plain Python, where neither JAX nor "
        "this notebook exists.\n"
        "  Try: use its arguments and plain Python alone."
    )


@pytest.mark.parametrize(
    "source",
    [
        "M = count(3)\ndef f():\n    return M + 1",
        "M = {'a': count(3)}\ndef f():\n    return M['a']",
        "if True:\n    M = count(3)\ndef f():\n    return M + 1",
        "def f(m=count(3)):\n    return m",
        "def make(m):\n    return lambda: m\nf = make(count(3))",
        "M, N = count(3), 1\ndef f():\n    return M.__add__(N)",
    ],
)
def test_what_a_cell_has_measured_does_not_come_along(notebook, source):
    text = refused(source, notebook)
    assert " of the cell uses count\n" in text


def test_nor_does_what_a_function_has_measured_for_all_the_cell(notebook):
    source = "def look():\n    global M\n    M = count(3)\nlook()\ndef f():\n    return M + 1"
    assert refused(source, notebook).startswith("✗ f uses M, which does not exist where it is run.\n")


def test_a_name_that_cannot_be_made_says_why(notebook):
    text = refused("M = count(3)\ndef f():\n    return M + 1", notebook)
    assert text.splitlines()[:3] == [
        "✗ f uses M, which does not exist where it is run.",
        "  line 3 of its cell: return M + 1",
        "  M cannot be made there: its line of the cell uses count",
    ]
    text = refused("@jax.jit\ndef f():\n    return 1", notebook)
    assert text.splitlines()[:2] == [
        "✗ f cannot be made where it is run.",
        "  f cannot be made there: its line of the cell uses jax.jit",
    ]


def test_a_helper_of_another_cell_is_told_to_move(notebook):
    run_cell("def helper():\n    return 1", notebook)
    text = refused("def f():\n    return helper()", notebook)
    assert "  Try: use its arguments and plain Python alone. If helper is a helper of your own, put it into the" in text
    text = refused("def f():\n    return jnp.sin(1)", notebook)
    assert "of your own" not in text


def test_the_notebook_itself_is_not_changed_by_what_is_refused(notebook):
    before = dict(notebook)
    refused("def f():\n    return count(3)", notebook)
    assert {name: notebook[name] for name in before} == before


# --- what goes wrong ------------------------------------------------------------------------------------------------


def test_an_error_is_shown_with_its_line():
    assert refused("def f(n):\n    m = n\n    return 1 / m", None, 0) == (
        "✗ f stopped with ZeroDivisionError: division by zero\n"
        "  line 3 of its cell: return 1 / m\n"
        "  Why this usually happens: it fails for the arguments of this check, whatever it does for others.\n"
        "  Try: call f in a cell of your own, and read the last line of what Python says."
    )
    assert refused("def f():\n    return 1", None, 5).startswith("✗ f stopped with TypeError: f() takes 0 positional")
    assert refused("def f():\n    return f()").startswith("✗ f stopped with RecursionError")


def test_a_name_that_exists_nowhere_stays_a_name_error():
    """So that a notebook can say which cells have to be run first."""
    with pytest.raises(NameError, match="name 'nowhere' is not defined") as caught:
        ran("def f():\n    return nowhere")
    assert caught.value.name == "nowhere"


def test_an_endless_loop_is_ended(monkeypatch):
    monkeypatch.setattr("autograder.checks.run_alone.SECONDS", 0.5)
    assert refused("def f():\n    while True:\n        pass").startswith("✗ f did not end within 0.5 seconds.\n")


def test_where_nothing_can_be_limited_it_is_run_without_limits(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
    alone_child.prepare("")


def test_leaving_python_is_no_answer():
    assert refused("def f():\n    import os\n    os._exit(0)").startswith("✗ f ended the Python that it was run in")
    assert refused("def f():\n    raise SystemExit").startswith("✗ f stopped with SystemExit")


def test_a_function_that_stands_in_no_cell_is_refused(notebook):
    run_cell("def make():\n    def inner():\n        return 1\n    return inner", notebook)
    names = run_cell("f = make()", notebook)
    with pytest.raises(CheckFailed, match="make.<locals>.inner does not stand by itself in a cell"):
        run_alone(names["f"])


def test_no_process_is_left(monkeypatch):
    started = []
    start = subprocess.Popen

    def keep(*args, **options):
        started.append(start(*args, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", keep)
    ran("def f():\n    return 1")
    refused("def f():\n    import os\n    os._exit(0)")
    assert len(started) == 2 and None not in [process.poll() for process in started]


# --- what is lent ---------------------------------------------------------------------------------------------------


class Pending:
    def __init__(self, box):
        self.box = box

    def block_until_ready(self):
        self.box.now += 50
        return self


class Box:
    def __init__(self):
        self.now, self.secret = 0, 42

    def clock(self):
        return self.now

    def program(self, *args):
        self.now += 1
        return Pending(self)


LENT = [
    ("first = program()\n    between = clock()\n    first.block_until_ready()\n    return [between, clock()]", [1, 51]),
    ("jax.block_until_ready(program())\n    return clock()", 51),
    ("jax.block_until_ready({'loss': [program()], 'grads': (program(),)})\n    return clock()", 102),
    ("program(1, [2.0])\n    return clock()", 1),
]


@pytest.mark.parametrize(("body", "answer"), LENT)
def test_what_is_lent_can_be_called(notebook, body, answer):
    box = Box()
    assert ran(f"def f(program, clock):\n    {body}", notebook, box.program, box.clock) == answer
    assert box.now == (answer[-1] if isinstance(answer, list) else answer), "and it is done here"


@pytest.mark.parametrize(
    "path",
    [
        "clock.__self__.secret",
        "clock.__func__",
        "clock.__closure__",
        "program().box.secret",
        "program().box().secret",
        "program().__dict__['box']",
        "program().__class__",
        "vars(program())['box']",
    ],
)
def test_nothing_else_of_it_can_be_read(path):
    box = Box()
    names = run_cell(f"def f(program, clock):\n    return {path}")
    try:
        found = run_alone(names["f"], box.program, box.clock)
    except CheckFailed as error:
        assert "AttributeError" in str(error) or "KeyError" in str(error)
    else:
        assert "42" not in repr(found) and type(found).__name__ == "type"  # its class is one of the other process


def test_an_error_of_what_is_lent_is_the_function_s_to_handle():
    def program(n):
        raise ValueError(f"not {n}")

    source = "def f(program):\n    try:\n        program(3)\n    except ValueError as error:\n        return str(error)"
    assert ran(source, None, program) == "not 3"


def test_text_of_the_function_is_not_taken_for_a_message():
    assert ran("def f():\n    print('{\"value\": 1}')\n    return 2") == 2
    assert ran("def f(text):\n    return text", None, string.printable) == string.printable


def test_a_child_that_is_gone_when_it_is_answered_has_returned_nothing():
    def ends_its_caller():
        processes = [p for p in psutil.Process().children() if alone_child.__file__ in p.cmdline()]
        for process in processes:
            process.kill()
        psutil.wait_procs(processes)
        return len(processes)

    assert "ended the Python that it was run in" in refused("def f(g):\n    return g()", None, ends_its_caller)


def test_a_child_that_ends_within_a_line_has_returned_nothing(monkeypatch, tmp_path):
    script = tmp_path / "child.py"
    script.write_text("print('{\"val', end='')")
    monkeypatch.setattr(alone_child, "__file__", str(script))
    assert "ended the Python that it was run in" in refused("def f():\n    return 3")


def test_what_is_called_first_is_found_in_this_package():
    code = f"import runpy; runpy.run_path({alone_child.__file__!r})['call_first']('autograder.wording:count', 2, 'row')"
    assert subprocess.run([sys.executable, "-I", "-S", "-c", code]).returncode == 0
