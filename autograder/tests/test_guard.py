"""The guard lets every honest answer through and refuses tricks; the restorer puts back what a cell changed."""

import ast
import collections
import dataclasses
import enum
import functools
import gc
import importlib
import re
import subprocess
import sys
import types
import typing
from collections import Counter, deque
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import jax
import jupytext
import nbformat
import numpy as np
import pytest
from conftest import COURSE, UNITS, graded, locked, right_answers, solution, wrong_answers
from IPython.core.error import InputRejected
from IPython.core.interactiveshell import InteractiveShell

from autograder import trace_log
from autograder.doors.fair_run import run_fairly
from autograder.doors.faults import fault
from autograder.doors.graded_notebook import failure_text, is_graded, not_begun, read_notebook, score
from autograder.doors.guard import asking, closing, judge, language, memory, own_objects, restorer
from autograder.doors.guard.cells import Guard, course_in
from autograder.doors.guard.contents import of_value
from autograder.doors.guard.words import (
    ASKED_OF_VALUES,
    EVERYTHING,
    FORBIDDEN,
    HANDED_ON,
    MODULES,
    OF_HANDED_ON,
    OF_MODULES,
    OF_PACKAGES,
    PATHS,
    UNDER_ANOTHER_NAME,
)
from autograder.doors.kernel_runner import Runner
from autograder.jax_internals import listeners
from autograder.not_begun import STUB as STUB_SAYS

pytestmark = pytest.mark.once  # the same on every version

ATTACKS = [
    cell
    for cell in jupytext.read(Path(__file__).parent / "attacks" / "in_the_kernel.py", fmt="py:percent").cells
    if cell.cell_type == "code" and "name" in cell.metadata
]
SETUP = """import time
import jax
import numpy as np
def check(value, expected):
    assert value == expected
DATA, memo = {"a": [1, 2]}, {}
xs = np.ones(3)
class Box:
    def run(self):
        return 1
"""
STUB = "def g(x):\n    raise NotImplementedError"
CHECK = "expected = 8\ncheck(g(2), expected)"
WRONG = "\n\ndef g(x):\n    return x + x"
REFUSED = {  # of the wrong answers: they reach for what is not theirs, or name what the checks name
    *("looks behind the clock", "measured instead", "haunting measured instead", "looks inside", "shallow copies"),
    *("a loop in a primitive of its own", "knows a table by its address", "looks into the machine"),
    *("removes the listeners of others", "the weights are moved in place", "the first server's parameters"),
    *("remembers the last run for the same objects", "the maps are redrawn to fit the specs", "the meter is set back"),
    # pickle.loads runs what the bytes say
    *("keeps every copy, as pickled bytes", "numbers in a pickle, calculated by NumPy"),
    *("packs the parameters, and runs head",),
    # with disable_jit nothing is traced, and traces are counted
    *("jit switched off", "switches jit on", "jit switched off, to look into it"),
    *("Adam, whatever the optimizer", "reads the source"),
    # numpy's resize with refcheck takes memory that others use; .traces is a method of the course's, too
    *("makes the customer's own table larger", "counts the traces on an object"),
}


def notebook(*cells):
    made = nbformat.v4.new_notebook()
    for number, (source, entry) in enumerate(cells):
        made.cells.append(nbformat.v4.new_code_cell(source, id=f"cell-{number}", metadata={"nbgrader": entry}))
    return made


def answered(answer, check=CHECK, setup=SETUP):
    """A notebook with one task, and how it was released."""
    return [
        notebook((setup, locked("setup")), (source, solution("g")), (check, graded("g-check", 1)))
        for source in (answer, STUB)
    ]


def judged(answer, **cells):
    """What is said of an answer as a whole; what of it is run all the same, `in_parts` says."""
    made, release = answered(answer, **cells)
    return judge.judge([answer], course_in(made, release))[answer]


def in_parts(answer, **cells):
    made, release = answered(answer, **cells)
    return Guard(made, course_in(made, release)).judged(made.cells[1])


def test_a_release_is_read_once_for_all_its_submissions():
    one, release = answered("def g(x):\n    return x")
    other, _ = answered("def g(x):\n    return 2 * x\n\ndef own():\n    pass")
    assert course_in(one, release) is course_in(other, release)
    assert course_in(one) is not course_in(one, release)


@cache
def unit(name):
    """The course of a unit, and its notebook as it is solved."""
    solved = read_notebook(COURSE / "solutions" / name / f"{name[3:]}.ipynb")
    released = read_notebook(COURSE / "exercises" / name / f"{name[3:]}.ipynb")
    return course_in(solved, released), solved


def refused(name, answers):
    """What the guard says to each answer, alone."""
    course = unit(name)[0]
    judgements = {answer.metadata["name"]: judge.judge([answer.source], course)[answer.source] for answer in answers}
    return {name: judgement.why for name, judgement in judgements.items() if judgement.name}


@pytest.mark.parametrize("name", UNITS)
def test_every_solution_and_right_answer_is_let_through(name):
    course, solved = unit(name)
    guard = Guard(solved, course)
    assert not [j.why for cell in solved.cells if (j := guard.judged(cell)) and (j.name or j.parts)]
    assert refused(name, right_answers(name)) == {}


@pytest.mark.thorough
@pytest.mark.parametrize("name", UNITS)
def test_a_wrong_answer_is_refused_only_if_it_is_a_trick(name):
    assert refused(name, wrong_answers(name)).keys() <= REFUSED


@pytest.mark.parametrize("cell", ATTACKS, ids=lambda cell: cell.metadata["name"].replace(" ", "-"))
def test_a_trick_is_refused_or_put_back(cell):
    judgement = judged(cell.source + WRONG)
    if "how" in cell.metadata:
        assert judgement.name == ""
    else:
        assert judgement.name == "NotAllowed", judgement


NOT_PYTHON = {
    "%run other.py": "%run",
    "%time get_ipython().ast_transformers.append(print)": "get_ipython",
    'lines = !echo "check = print"': "!",
    "x = %sql select": "%sql",
    "In [1]: x = get_ipython()": "get_ipython",
    ";exec check=print": "exec",
    "/exec 'check=print'": "exec",
    "%%writefile numpy.py\ncheck = print": "%%writefile",
    "%%time\n%%script bash\nls": "%%script",
    "get_ipython().run_cell_magic('time', '', 'x = 1'); y = 2": "%%time",
    "t = %timeit -o g(1)": "%timeit",
    "get_ipython().run_line_magic('run', 'other.py')": "%run",
    "get_ipython().run_line_magic(*'ab')": "get_ipython",
    "await check(1, 2)": "Await",
    "async def f(): pass": "AsyncFunctionDef",
    "x = " + "(" * 90 + "1" + ")" * 90 + "\ny = " + "-" * 50_000 + "1": "nested too deeply",
    "x = 1" + "\n" * 300_000: "characters",
    "x = " + "+".join(["1"] * 2000): "nested too deeply",
    "import scipy\nscipy" + ".a" * 2000: "nested too deeply",
    f"x: '{'-' * 100_000}1'": "nested too deeply",
    "x = get_ipython().system()": "asks for .system",
    "get_ipython().run_cell_magic()": "get_ipython",
    "get_ipython().run_line_magic('time')": "get_ipython",
    "get_ipython().run_line_magic('time', 3)": "get_ipython",
    "!ls\n" * 600: "50 magics",
    "x = [" + "1, " * 30_000 + "]": "parts",
    "def g(x):\n    return np.zeros(3).resize(5, refcheck=False)": "says refcheck",
    "def g(x):\n    return np.ndarray(3, np.uint64, x)": "calls np.ndarray",
    "class A(jax.Array):\n    pass": "derives A from jax.Array",
    "def g(x):\n    np.set_printoptions(precision=x)": "uses set_printoptions inside a function",
    "def g(x):\n    np.printoptions(precision=x).__enter__()": "uses printoptions otherwise",
    "def g(x):\n    with np.printoptions(precision=x):\n        yield x": "uses printoptions otherwise",
    "def g(x):\n    return x\ng.jitted_fn = len": "writes .jitted_fn",
    "def g(x):\n    return getattr(x, 'keywords')": "asks for keywords by its name",
    f"@(lambda f: f)(0x{'f' * 6000})\ndef f(x): pass": "thousands of digits",
}


@pytest.mark.parametrize("answer", NOT_PYTHON, ids=range(len(NOT_PYTHON)))
def test_what_is_no_python_is_refused(answer):
    judgement = judged(answer)
    assert judgement.name == "NotAllowed" and NOT_PYTHON[answer] in judgement.why


@pytest.mark.parametrize(
    "answer",
    [
        "def f(x:\n    pass",
        "x = '\ud800'",
        "x = 1\0",
        "if True:\n    <> 1",
        "class A:\n    def f(self):\n    \0    print('a')",
        "if x:\n    y = f'{_{x}\nprint(y)",
    ],
    ids=range(6),
)
def test_what_cannot_be_read_ends_in_a_syntax_error(answer):
    assert judged(answer).name == "SyntaxError"


KEPT = {
    "%timeit g(3)\n%matplotlib inline\n!pip install jax\ng?\nx = 1": "pass\npass\npass\npass\nx = 1",
    "%%time\nx = 1": "x = 1",
    "x = 1  # a\u2028import os\n\fy = 2\x0b": "x = 1  # a import os\ny = 2 ",
    "%%timeit\nx = 1": "pass",
    "%%timeit -n 1\ndef f(x):\n    return x": "def f(x):\n    return x",
    "%%writefile mine.py\ndef f(x):\n    return x": "def f(x):\n    return x",
    "x = %time abs(-1)": "x = abs(-1)",
    "%time x = abs(-1)": "x = abs(-1)",
    "for i in range(3):\n    %time abs(i)": "for i in range(3):\n    abs(i)",
    ">>> x = 1\n... y = 2": "x = 1\ny = 2",
    "get_ipython().run_cell_magic('time', '', 'x = 1\\ny = 2\\n')\nz = 3": "x = 1\ny = 2\nz = 3",
    'x = """\n%run other.py\n"""': 'x = """\n%run other.py\n"""',
}


@pytest.mark.parametrize("answer", KEPT, ids=range(len(KEPT)))
def test_what_ipython_adds_for_a_reader_is_left_out(answer):
    judgement = judged(answer)
    assert (judgement.name, judgement.text.rstrip("\n")) == ("", KEPT[answer])


HONEST = [
    "from typing import Literal\ndef f(x, edge: Literal['wrap', 'found']='wrap'): return edge",
    "import matplotlib.pyplot as plt\nfig, axes = plt.subplots(1, 2)\naxes[0].plot([1, 2])\nplt.show()",
    "import jax\n@jax.custom_vjp\ndef f(x): return x\nf.defvjp(lambda x: (x, None), lambda _, g: (g,))",
    "if __name__ == '__main__':\n    print(f'{1.5:.2f}', '{} and {:>5}'.format(1, 2))",
    "import numpy as np\ndef f(x): return np.sum(x)",
    "import jax.numpy as jnp\nimport numpy as np, jax\n@jax.jit\ndef f(x): return jnp.sum(np.float32(1)*x)",
    "class A:\n    def __new__(cls, *a):\n        return super().__new__(cls)\n"
    "    def __setattr__(self, n, v):\n        object.__setattr__(self, n, v)",
    "class A(tuple):\n    def __new__(cls, a):\n        return tuple.__new__(cls, a)",
    "class A: pass\ndef f(x):\n    a = object.__new__(A)\n    a.n = x\n    return a",
    "class A:\n    @property\n    def x(self): return self._x\n    @x.setter\n    def x(self, v): self._x = v",
    "import jax, dataclasses\n@jax.tree_util.register_dataclass\n@dataclasses.dataclass\nclass A:\n    x: int",
    "import jax\n@jax.tree_util.register_pytree_node_class\nclass A:\n    def tree_flatten(self): return (), None",
    "import jax\nclass A: pass\njax.tree_util.register_pytree_node(A, lambda a: ((), None), lambda *_: A())",
    "import jax\nclass A: pass\njax.tree_util.register_pytree_node(nodetype=A, flatten_func=list, unflatten_func=max)",
    "from collections import namedtuple\nPair = namedtuple('Pair', ['left', 'right'])\ndef f(x: Pair): return x.left",
    "def step(x):\n    step.traces += 1\n    return x\nstep.traces = 0",
    "import jax\ndef f(x):\n    jax.debug.print('x = {}', x)\n    jax.debug.print(f'{x.shape} {{}}', x)\n    return x",
    "def f(x): return np.r_[x, 1, x[:2]]",
    "ks = [k for x in [1] if (k := x)]",
    "def f(x):\n    match x:\n        case [first, *rest]: return rest\n        case {'a': 1, **others}: return others",
    "from functools import cached_property\nclass A:\n    @cached_property\n    def x(self):\n"
    "        self.n = 1\n        return 1",
    "def f(pairs):\n    a, b = {}, {}\n    for k, v in pairs:\n        (a if v else b)[k] = v\n    return a, b",
    "def f(script):\n    class Stage:\n        g = 0\n    for (Stage.g,) in script:\n        pass\n    return Stage.g",
    "def helper(input, list, filter):\n    open = input\n    return open",
    "import jax.numpy as np\nx = np.zeros(3).at[0].set(1)",
    "from dataclasses import dataclass, field\n@dataclass(frozen=True)\nclass A:\n    x: 'int8[n]' = field(default=1)",
    "class A:\n    def __init__(self, **parts):\n        super().__init__()\n        self.__dict__.update(parts)",
    "class A:\n    def __init__(self):\n        object.__setattr__(self, 'x', 1)\n        self._x = self.shape = 2",
    "def count(f):\n    def g():\n        g.calls += 1\n    g.calls = 0\n    g.__name__ = 'h'\n    return g",
    "import functools\ndef d(f):\n    @functools.wraps(f)\n    def g(*a):\n        return f(*a)\n    return g",
    "params = {'w': 1}\nparams['w'] += 1\nparams.update(b=2)\nmemo['a'] = 1",
    "def g(x, xp=np):\n    out = xp.zeros(3)\n    out[0] += 1\n    return out",
    "import jax\nclass A: pass\njax.tree_util.register_pytree_node(A, lambda a: ((), None), lambda *_: A())",
    "import functools, jax\n@functools.partial(jax.tree_util.register_dataclass, data_fields=[])\nclass A: pass",
    "try:\n    g(1)\nexcept BaseException as error:\n    print(error)",
    "for expected in [1]:\n    DATA = expected",
    "def g(x):\n    expected = x\n    return expected",
    "def g(x):\n    global expected\n    expected = x",
    "def expected(x):\n    return x\ndef g(x):\n    return expected(x)",
    "try:\n    1 / 0\nexcept* ZeroDivisionError as errors:\n    print(errors)",
    "class Table:\n    def load(self, name): return name\nclass Use:\n    def f(self, t): return t.load('a')",
    "def f(x):\n    message = 'a tracer of type {}'\n    return message.format(x.type)",
    "class A:\n    def __init__(self):\n        super().__init__()\n        self._x = 1",
    "class A:\n    def __init__(self): self._value = 1\n    def __eq__(self, it): return self._value == it._value",
    "import json\njson.loads('1')",
    "def f(x):\n    n = len(DATA)\n    n -= 1\n    return n",
    "def f(x):\n    n = xs.shape[0]\n    n -= 1\n    return n",
    "def f(g):\n    def inner(): return g()\n    inner.__name__ = 'inner'\n    return inner",
    "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as pool:\n    pool.submit(abs, 1)",
    "import jax\nwith jax.no_tracing(True), jax.transfer_guard('disallow'), jax.checking_leaks():\n    g(1)",
    "import jax\ndef f(g):\n    for _ in 'ab':\n        with jax.checking_leaks(): found = g()\n        yield found",
    "import contextlib, jax\ndef g(x):\n    with jax.checking_leaks() if x else contextlib.nullcontext(): pass",
    "from jax.experimental.jet import jet\n_kept = {}\ndef g(n): return _kept[n]\ng.cache_clear = _kept.clear",
    "g(3)\n%debug",
    "__author__ = 'Ada'\n__version__ = '1.0'\nprint(__version__)",
    "sum = 0\nfor i in range(3):\n    sum += g(i)\nprint(sum)",
    "list = [g(i) for i in range(3)]\nlist.append(g(3))\nlist[0] += 1",
    "DATA = {}\nDATA['b'] = 2\nexpected = g(3)\nexpected += 1",
    "from operator import attrgetter, methodcaller\nwide = methodcaller('astype', float)\n"
    "kinds = map(attrgetter('shape', 'dtype.name'), [xs])",
    "import operator\nclass A:\n    def run(self, kind):\n        return getattr(self, 'do_' + kind, None)\n"
    "a = A()\nfound = hasattr(a, f'do_{1}') or getattr(a, f'do_{2}', operator.attrgetter('name'))",
    "class A:\n    def __init__(self, n):\n        self.n = n\nprint({**vars(A(3)), 'b': 1})",
    "import jax\nfrom collections import namedtuple\nfrom typing import Callable, NewType, TypeAlias, TypeVar\n"
    "T, N = TypeVar('T'), NewType('N', int)\nPair: TypeAlias = tuple[jax.Array, N]\nMany = list[Pair] | None\n"
    "Point = namedtuple('Point', 'x y')\nStep = Callable[[Many], tuple[int, ...]]\n"
    "def f(x: Many, y: T, *, step: Step) -> Point: pass",
    # whose a value or a name is, is asked when it runs
    "class A:\n    LINE = '{:>5}'\n    def show(self, x): return self.LINE.format(x)\nROW = 'a{}' + '{}' * 3",
    "def show(x, fmt='{:.2f}'):\n    for t in ('{} ms', fmt): print(t.format(x), ROW.format(1, 2))\nROW = '{} {}'",
    "import jax.numpy as jnp\nOPS = {n: getattr(jnp, n) for n in ('sin', 'cos')}",
    "def sizes(stats): return [getattr(stats, f'{kind}_size_in_bytes') for kind in ('argument', 'temp')]",
    "class A:\n    def __init__(self, **kw):\n        for k, v in kw.items(): setattr(self, k, v)",
    "def count(f):\n    def wrapper(*a):\n        wrapper.count += 1\n        return f(*a)\n"
    "    wrapper.count, wrapper._seen = 0, set()\n    wrapper._seen.add(1)\n    return wrapper",
    "class Node:\n    count = 0\n    def __init__(self):\n        self.children = []\n        type(self).count += 1\n"
    "    @classmethod\n    def reset(cls): cls.count = 0\n    def add(self, child):\n        child.parent = self\n"
    "Node.reset()\nnode = Node()\nnode.data = node.size = 3",
    "class V:\n    _one = 1\n    def __mul__(self, k=_one): return self\n    __rmul__ = __mul__\n"
    "    def __str__(self): return self.__class__.__name__\n    __repr__ = __str__",
    "class A:\n    __limit = 3\n    def __init__(self): self.__n = 0\n    def __bump(self): self.__n += self.__limit\n"
    "    def bump(self): return self.__bump()",
    "class A:\n    expected = 3\n    twice = 2 * expected\n    def f(self, k=expected): return k",
    "import functools\nclass A:\n    type: str\n    id: int = 0\n    max, min = id, 3\n    top = [max, min]\n"
    "    for k in range(3): last = k\n    def sum(self): return sum([1])\n"
    "    total = sum\n    np = 3\n    both = np + 1",
    "import jax, numpy as np\nfrom typing import Annotated, Literal, ParamSpec, TypeVar\nMode = Literal['a', 'b']\n"
    "P, F = ParamSpec('P'), TypeVar('F', bound=int, covariant=True)\nNumber = int | float | np.ndarray\n"
    "Many = Annotated[tuple[int, ...], 'sizes']\ndef g(x: Number, m: Mode, f: F, s: Many): return x",
    "import jax\nlax = jax.lax\ndef g(x):\n    jr = jax.random\n    return lax.sin(jr.normal(jr.key(0)))",
    "from jax.sharding import PartitionSpec as xs\ndef g(x): return xs('a')",
    "def listener(*_, **__): pass",
    "import functools\nclass Timed:\n    def __init__(self, f): functools.update_wrapper(self, f)",
    "import contextlib, io, sys\nwith contextlib.redirect_stdout(io.StringIO()) as said:\n    g(1)\n"
    "print(said.getvalue(), file=sys.stderr)",
    "import os, tempfile\nwith tempfile.TemporaryDirectory() as folder:\n    for name in os.listdir(folder):\n"
    "        with open(os.path.join(folder, name)) as file: print(file.read(), open(name, 'rb', encoding=None).read())",
    "def f(path): return open(path, mode='r').readlines()",
    "import timeit\nprint(timeit.timeit(lambda: g(1), number=3), timeit.default_timer())",
    "import hashlib, pprint, os\npprint.pprint((hashlib.sha256(b'a').hexdigest(), os.cpu_count()))",
    # a class of one's own, and what it is called by
    "class A:\n    def __eq__(self, it): return it.__class__ is self.__class__ and self.__dict__ == it.__dict__",
    "class A:\n    def __eq__(self, it): return self.__class__ == it.__class__ == A and type(it) == self.__class__",
    "class A:\n    def half(self): return self.__class__(1, 2, 3)\n    def other(self): return type(self)(1, 2, a=3)\n"
    "    def count(self): self.__class__.n += 1\ndef f(x): return x.__class__(x)",
    "class A:\n    def __str__(self): return 'a'\n    def __repr__(self): return self.__str__() + super().__repr__()",
    "class Watch:\n    obj: object = None\n    def measure(self, f): return f()\n    def eval(self, x): return x\n"
    "    def run(self):\n        self.obj = self.measure(lambda: self.eval(3))\n        return self.obj\n"
    "    @classmethod\n    def register(cls, kind): return kind\nWatch.register(Watch().run)",
    "from flax import nnx\ndef g(model):\n    model.eval()\n    return model",
    # types, and what is said of them
    "def f(x: int or None = 3, y: 'tuple or list' = ()): pass",
    "n = d = 3\ndef f(x: 'float32[n]', y: 'array (n, d)', z: 'k > n', w: 'int8[expected]') -> 'Vector of[n]': pass",
    "import jax\ntry:\n    Array = jax.Array\nexcept AttributeError:\n    Array = jax.numpy.ndarray\n"
    "def f():\n    def g(x: Array): return x",
    "from typing import TypeVar\nT = TypeVar('T')\nPair = tuple[T, T]\nT = TypeVar('T')\nPair = list[T]\n"
    "def f(x: T) -> Pair: pass",
    "def f():\n    from typing import Annotated, Generic, Literal, TypeAlias, TypeVar\n    T = TypeVar('T')\n"
    "    Name: TypeAlias = Literal['a']\n    class Crate(Generic[T]):\n        def __init__(self, x: T): self.x = x\n"
    "    Crates = dict[Name, Crate]\n    def h(x: Crates, y: 'Crates') -> tuple[T, Name]: return y\n    return h",
    "import jax\ndef f(n):\n    Carry = tuple[jax.Array, int]\n    def step(carry: Carry, x) -> Carry: return carry\n"
    "    return step\ndef h():\n    Carry = jax.Array\n    def step(carry: Carry) -> Carry: return carry",
    "from typing import Callable, ParamSpec, Protocol, TypeVar, runtime_checkable\n"
    "P, T = ParamSpec('P'), TypeVar('T')\n@runtime_checkable\nclass Step(Protocol[T]):\n"
    "    def __call__(self, x: T) -> T: ...\n"
    "def f(fn: Callable[P, T]) -> Callable[P, T]:\n"
    "    def h(*args: P.args, **kwargs: P.kwargs) -> T: return fn(*args, **kwargs)\n"
    "    return isinstance(fn, Step) and h",
    "class A:\n    Number = int | float\n    def f(self, x: Number) -> Number: return x",
    "def f(x): return isinstance(x, type) or isinstance(x, (int, type)) or issubclass(x, type)",
    # functions that look like others
    "import functools\ndef f(g):\n    def h(): pass\n    return functools.update_wrapper(h, g)",
    "import functools, jax\n@functools.wraps(print)\n@functools.partial(jax.jit, static_argnums=0)\ndef f(x): pass\n"
    "@functools.wraps(f)\n@jax.jit\ndef g(x): return x",
    # what only looks
    "import warnings\ndef f():\n    warnings.warn('a', RuntimeWarning, stacklevel=2)\n    warnings.warn(message='b')",
    "import jax\ndef f(name, x): jax.debug.print(name + ': {}', x)",
    "import glob\nfrom glob import iglob\ndef f(folder): return sorted(glob.glob(folder + '/*')) + list(iglob(folder))",
    "import gc\ndef f():\n    on = gc.isenabled()\n    gc.disable()\n    if on: gc.enable()",
    "def f(tape, xp=np): return tape.types, tape.process, tape.io, xp.zeros(3)",
    "def f(i): return xs.at[i].add(1)\nif __debug__: print(f(1))",
    "import numpy as np\nprint(np.__version__, print.__name__, np.sum.__name__, object.__init__.__doc__)",
    # a helper with the name of one of Python's that no answer may use
    "def help(x): return x\nhelp(3)\ndef g(x): return help(x)",
    "def open(x, mode): return x\ninput = np.zeros(3)\ndef g(x): return open(input, 'w')",
    "def eval(x): return x\nclass A:\n    def run(self): return eval(self)",
    "class A:\n    def __eq__(self, other): return vars(self) == vars(other)\n    @classmethod\n"
    "    def tree_unflatten(cls, aux, parts):\n        me = cls.__new__(cls)\n        me.n = parts\n        return me",
    *(
        ["type A = int | float\ndef g(x: A) -> A: pass", "def g[T: int, *Ts, **P](x: T) -> T: pass"]
        if sys.version_info >= (3, 12)
        else []
    ),
]


@pytest.mark.parametrize("answer", HONEST, ids=range(len(HONEST)))
def test_an_honest_style_is_let_through(answer):
    assert judged(answer).why == ""


POOL = "from concurrent.futures import ThreadPoolExecutor\n"
TRICKS = {
    "import timeit\ndef f(): pass\nf = 'import os'\ntimeit.timeit(f)": "uses timeit.timeit in an unusual way",
    "import timeit\ntimeit.timeit(lambda: 1, *['import os'])": "uses timeit.timeit in an unusual way",
    "def f(): yield\nprint(1, file=f().gi_frame)": "asks for .gi_frame",
    "def f(): yield\nf().gi_frame.__name__": "asks for .gi_frame",
    "class A:\n    eval = 1\n    del eval\n    x = eval('1')": "gives a class eval",
    "class A:\n    compile = 1\n    del compile\n    x = compile('1')": "uses compile",
    "class A:\n    open = 1\n    try: g(1)\n    except Exception as open: pass\n    x = open": "uses open",
    "class A:\n    _oh = 1\n    del _oh\n    x = _oh": "reads _oh",
    "import jax\ndef g(x):\n    with jax.no_tracing(False) if x else g(x): pass": "asks for .no_tracing",
    "def g(x): pass\ng.clear_cache = print": "writes .clear_cache",
    "class A(np.matrix): pass": "derives A from numpy.matrix",
    # a seventh one
    "import matplotlib.pyplot as plt\nplt.backend_registry": "uses matplotlib.pyplot.backend_registry",
    "import matplotlib.pyplot as plt\nwith plt.rc_context({}): pass": "uses matplotlib.pyplot.rc_context",
    "class Shelf: text = 'eval(1)'\nclass P:\n    x: Shelf.text": "has Shelf.text in an annotation",
    "import jax\njax.nn.relu.defjvps(lambda *_: 0)": "calls .defjvps",
    # a fifth reader of the guard
    "if False:\n    from jax.experimental import pallas as look\nlook = (1 for _ in [1])\n"
    "look.gi_frame": "asks for .gi_frame",
    "from jax.experimental import pallas as pl\npl.gi_frame": "asks for .gi_frame",
    "import json\njson = [json]\njson.loads('1')": "hands the module json on",
    "if False:\n    import json\njson = g\njson.loads('1')": "asks for .loads",
    "from jax.experimental import multihost_utils\nmultihost_utils.core": "uses jax.experimental.multihost_utils.core",
    "import numbers\nM = numbers.ABCMeta": "otherwise than as a metaclass",
    "def f(log, __import__=print):\n    log.x = 1": "has an argument __import__",
    "f = lambda __class__: 1": "has an argument __class__",
    "def f():\n    __import__ = print": "gives __import__ another meaning",
    "def f(x):\n    match x:\n        case {'a': __import__}: pass": "gives __import__ another meaning",
    "f = [__import__ for __import__ in [print]]": "gives __import__ another meaning",
    "class A:\n    def f(self):\n        nonlocal __class__\n"
    "        __class__ = object": "gives __class__ another meaning",
    "from types import SimpleNamespace\nSimpleNamespace({'a': 1})": "hands SimpleNamespace on",
    "import types\nlist(map(types.SimpleNamespace, [{}]))": "hands SimpleNamespace on",
    "class A:\n    def __init__(self, n):\n        super().__setattr__(**n)": "calls __setattr__ in an unusual way",
    "import matplotlib.pyplot as plt\nplt.gca().xaxis.set_major_formatter('{x}')": "asks for .set_major_formatter",
    "x = (1).__class__.__base__": "asks for .__base__",
    "x = (1).__class__\ny = x.__name__": "asks for .__class__",
    "import functools\nfunctools.update_wrapper(check, print)": "asks for .update_wrapper",
    "import functools\n@functools.wraps(object)\nclass A: pass": "uses wraps otherwise than right above a function",
    "class A: pass\nB = A\nB.__qualname__ = 'Box'": "writes B.__qualname__",
    "def f(kept): return kept[0].co_consts": "asks for .co_consts",
    "import jax\ndef f(x): jax.debug.log('{0.__globals__}', x)": "calls format of a text",
    "from functools import update_wrapper\nu = update_wrapper": "uses functools.update_wrapper in an unusual way",
    "import contextlib\nr = contextlib.redirect_stdout(3)": "uses contextlib.redirect_stdout",
    "import contextlib\ndef f():\n    with contextlib.redirect_stdout(3): yield": "uses contextlib.redirect_stdout",
    "import timeit\ntimeit.timeit('import os')": "uses timeit.timeit in an unusual way",
    "import typing\nKind = typing.get_origin(typing.Type[int])": "get_origin",
    "def g(x):\n    match x:\n        case object(replace=to): to('y')": "asks for .replace",
    "import operator\nto = operator.methodcaller('replace', 'y')": "asks for .replace",
    "import timeit\ntimeit.timeit(lambda: 1, setup='import os')": "uses timeit.timeit in an unusual way",
    "import timeit\nt = 'import os'\ntimeit.repeat(t)": "uses timeit.repeat in an unusual way",
    "import sys\nsys.stdout.write('a')": "uses sys.stdout",
    "lax = jax.lax\n[lax]": "hands the module jax.lax on",
    "import os\nlax = jax.lax\nlax = os": "hands the module os on",
    "import os\no = os.path\no.os": "asks for .os",
    "def f(x):\n    x.__limit = 3": "writes .__limit",
    "class A:\n    def f(self, x): return x.__limit": "asks for .__limit",
    "class A:\n    def __f__(self): pass": "gives a class __f__",
    "class A:\n    x = _oh": "reads _oh",
    "def g(f):\n    f._cache_size = 3": "writes ._cache_size",
    "import operator\nget = operator.attrgetter": "hands operator.attrgetter on",
    "from operator import attrgetter as get\nfirst = list(map(get, ['__globals__']))": "hands operator.attrgetter on",
    "from operator import attrgetter\nattrgetter('run.__globals__')(Box)": "asks for .__globals__",
    "from operator import attrgetter\nattrgetter('n', *['__code__'])": "with a name that is put together",
    "from operator import attrgetter\nattrgetter('__co' + 'de__')": "with a name that is put together",
    "from operator import methodcaller\nmethodcaller('append', 3)(DATA['a'])": "asks for .append",
    "class A:\n    def put(self): self.n = 1\nfrom operator import methodcaller\nmethodcaller('put')": "asks for .put",
    "setattr(DATA, f'do_{1}', 3)": "a name that is put together",
    "P = 'eval(1)'\ndef f(x: P): pass": "has P in an annotation",
    "P = tuple['eval(1)']\ndef f(x: P): pass": "has P in an annotation",
    "P = int\nif P: P = 'eval(1)'\ndef f(x: P): pass": "has P in an annotation",
    "P = int\ndef g():\n    global P\n    P = 'eval(1)'\ndef f(x: P): pass": "has P in an annotation",
    "words = ['eval(1)']\nP = words[0]\ndef f(x: P): pass": "has P in an annotation",
    "import jax\nP = jax.__doc__[0]\ndef f(x: P): pass": "has P in an annotation",
    "from typing import TypeVar\nT = TypeVar('T', bound='eval(1)')\ndef f(x: T): pass": "has T in an annotation",
    "P = int\ndef f():\n    P = 'eval(1)'\n    def g(x: P): pass": "has P in an annotation",
    "def f(x):\n    mine = {}\n    (DATA if x else mine)['a'] = 1": "writes a part",
    "def f(x):\n    mine = {}\n    (mine if x else [DATA][0])['a'] = 1": "writes a part",
    "def f(x, v):\n    (x if v else np).sum = 1": "writes .sum",
    "class A:\n    def __new__(cls, *rest): return vars(cls)": "uses vars",
    "open('a', 'w')": "uses open",
    "open('a', mode='r+b')": "uses open",
    "def f(mode): return open('a', mode)": "uses open",
    "open(*['a', 'w'])": "uses open",
    "open('a', **{'mode': 'w'})": "uses open",
    "open('a', 'r', -1)": "uses open",
    "open('a', opener=print)": "uses open",
    "open(file='a')": "uses open",
    "read = open": "uses open",
    "list(map(open, ['a']))": "uses open",
    "class A: pass\ndef f(x): return A.__new__(x)": "asks for .__new__",
    "A = np.ndarray\ndef f(): return object.__new__(A)": "asks for .__new__",
    "class A: pass\nA = np.ndarray\ndef f(): return object.__new__(A)": "asks for .__new__",
    "kept = []\ndef setter(f):\n    kept.append(f)\n    return f\nclass A:\n    @setter\n"
    "    def __getattr__(self, name): return vars(self)": "uses vars",
    "property = print\nclass A:\n    @property\n    def __getattr__(self, name): return vars(self)": "uses vars",
    "class A:\n    def __init__(self, other):\n        def change():\n            nonlocal self\n"
    "            self = other\n        change()\n        self.d = vars(self)": "uses vars",
    "class A:\n    def __class_getitem__(cls, item): return vars(cls)": "uses vars",
    "class A:\n    def __init__(self, n, v): object.__setattr__(self, '__co' + n, v)": "whose name is put together",
    "import jax\njax.debug.breakpoint()": "asks for .breakpoint",
    "from jax.debug import breakpoint as stop": "imports breakpoint",
    "[__builtins__ := {} for _ in [1]]": "writes __builtins__",
    "match {}:\n    case {**__builtins__}: pass": "writes __builtins__",
    "match []:\n    case [*eval]: pass": "gives eval another meaning",
    "[expected__of_the_checks := 1 for _ in [1]]": "writes expected__of_the_checks",
    "T = type(1)\nM = type(T)": "asks for the type of a class",
    "M = type(type(1))": "asks for the type of a class",
    "T = type(1)\nclass M(T): pass": "makes M a kind of type",
    "from dataclasses import dataclass\n@dataclass\n@(lambda c: Box)\nclass B: pass": "another decorator below",
    "x = np.bmat('a')": "asks for .bmat",
    "import inspect\ninspect.getsource(check)": "uses inspect.getsource",
    "import jax\ndef f(c): jax.debug.print('{0.__globals__}', c)": "format of a text",
    "import jax\ndef f(c, t): jax.debug.print(t, c)": "format of a text",
    "import jax\nclass Mine: pass\ndef f(Mine): jax.tree_util.register_pytree_node(Mine, 1, 2)": "not its own",
    "import jax\njax.tree_util.register_pytree_node(nodetype=np.ndarray, flatten_func=1)": "not its own",
    "import jax\njax.tree_util.register_pytree_node(flatten_func=1, unflatten_func=2)": "not its own",
    "def f(log):\n    log.traces = 1": "writes .traces",
    "from typing import NamedTuple\nA = NamedTuple('A', [('b', 'eval')])\ndef f(x: A): pass": "in an annotation",
    "import jax\nclass Mine: pass\nMine = np.ndarray\njax.tree_util.register_pytree_node(Mine, 1, 2)": "not its own",
    "import jax, functools\n"
    "@functools.partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=[])\n"
    "@(lambda c: np.ndarray)\nclass Mine: pass": "has another decorator below",
    "import jax\nreg = [jax.tree_util.default_registry]": "asks for .default_registry",
    "class A:\n    __wrapped__ = check": "gives a class __wrapped__",
    "def late():\n    global memo\n    memo = 1": "writes memo",
    "DATA['a'] = 1": "writes a part of DATA",
    "d = DATA\nd['a'].append(3)": "calls .append of d",
    "for a in DATA.values(): pass\nDATA['a'] += [1]": "writes a part of DATA",
    "def g(x, d=DATA):\n    d.clear()": "calls .clear of d",
    "xs += 1": "changes xs",
    "np.add.at(xs, 0, 1)": "changes a part of xs",
    "np.add(xs, 1, out=xs)": "changes a part of xs",
    "np.copyto(xs, 0)": "changes a part of xs",
    "list.append(DATA['a'], 1)": "calls list.append",
    "Box.run = print": "writes .run of Box",
    "B = Box\nB.run = print": "writes .run of B",
    "def change(box):\n    box.run = print": "writes .run",
    "type(xs).x = 1": "writes .x",
    "[np][0].x = 1": "writes .x",
    "m = np\nm.x = 1": "writes .x of m",
    "g = lambda x: expected": "reads expected",
    "eval = print": "gives eval another meaning",
    "class A:\n    eval = eval": "eval",
    "x = [eval for eval in [eval]]": "uses eval",
    "def g(f=eval): pass": "uses eval",
    "import numpy as np\nnp._core": "_core",
    "import jax\njax._src": "_src",
    "class A:\n    _src = 1\nimport jax\njax._src": "_src",
    "getattr(np, 'ctypeslib')": "ctypeslib",
    "hasattr(time, '__dict__')": "__dict__",
    "map(type, ['A'], [()], [{}])": "hands type on",
    "type('A', (), {})": "hands type on",
    "class A:\n    @property\n    def __class__(self): return int": "__class__",
    "def f():\n    import os\n    os.system('ls')": "os.system",
    "from os import system": "imports system from os",
    "import os\nfor o in [os]: pass": "hands the module os on",
    "import sys\nsys.modules": "sys.modules",
    "from . import a": "imports a from .",
    "from __future__ import barry_as_FLUFL": "imports barry_as_FLUFL",
    "Box.__init__(1)": "__init__",
    "print(__builtins__)": "__builtins__",
    "_oh": "_oh",
    "def g(x) -> 'eval(\"1\")': pass": "calculates an annotation",
    "import jax\njax.config.update('jax_' + 'debug_nans', True)": "debug_nans",
    "import numpy as np\nnp.lib.npyio": "numpy.lib",
    "import jax\njax.interpreters.mlir": "interpreters",
    "def change(kind):\n    kind.as_text = print": "writes .as_text",
    "class A:\n    def a(self):\n        self.perf_counter = print": "writes .perf_counter",
    "import jax\njax.tree_util.register_pytree_node(np.ndarray, list, tuple)": "a class that is not its own",
    "import jax\nr = jax.tree_util.register_pytree_node": "hands jax.tree_util.register_pytree_node on",
    "list(map('{0.__globals__}'.format, [check]))": "calls format",
    "shown = '{0.__dict__}'.format": "calls format",
    "import jax\nset_ = jax.config.update\nset_('jax_disable_jit', True)": "disable_jit",
    "raise SystemExit": "uses SystemExit",
    "getattr.__call__(check, '__glo' + 'bals__')": "hands getattr on",
    "type(int)('A', (), {})": "calls a type",
    "T = type(xs)\nT('A', (), {})": "calls a type with three arguments",
    "class M(type(Box)): pass": "makes M a kind of type",
    "M = type(type(Box))": "asks for the type of a class",
    "import jax\ndef dataclass(c): return np.ndarray\n@dataclass\nclass Mine: pass\n"
    "jax.tree_util.register_pytree_node(Mine, 1, 2)": "a class that is not its own",
    "import jax\nfrom dataclasses import dataclass\ndef dataclass(c): return np.ndarray\n@dataclass\nclass Mine: pass\n"
    "jax.tree_util.register_pytree_node(Mine, 1, 2)": "a class that is not its own",
    "import jax\nfrom numpy import asarray as register_it\n@register_it\nclass Mine: pass\n"
    "jax.tree_util.register_pytree_node(Mine, 1, 2)": "a class that is not its own",
    "import abc\nabc.ABCMeta('A', (), {})": "uses ABCMeta",
    "import abc\nclass A(metaclass=memo.ABCMeta): pass": "a metaclass",
    "import inspect\ninspect.signature(g, eval_str=True)": "eval_str",
    "words = 'check.__code__'\nclass A:\n    x: words": "words in an annotation",
    "class A:\n    x: 'check.__code__'": "__code__",
    "def g(x: 'a' + 'b'): pass": "calculates an annotation",
    "from jax import export": "imports export from jax",
    "import jax\njax.export.export": "jax.export",
    "def f(m, text): return m.testing.measure(text)": "measure",
    "def f(m): return m.measure": "measure",
    "import numpy as np\nx = np.load_(f, allow_pickle=True)": "allow_pickle",
    "def f(m): return m.pickle": "pickle",
    "def f(m): return m.loads": "loads",
    "class A:\n    _sys = 1\ndef f(m): return m._sys": "_sys",
    "class A:\n    _process_class = 1\ndef f(m): return m._process_class": "_process_class",
    "class A:\n    _too_many = 1\ndef f(m):\n    m._too_many = 1": "writes ._too_many",
    "def f(a, n, v): super(type(a), a).__setattr__(n, v)": "whose name is put together",
    "def f(a, v): super(type(a), a).__setattr__('n', v)": "calls super of something else",
    "s = super": "hands super on",
    "class A:\n    def spill(self):\n        self.name = 1\nA.spill(xs)": "asks for A.spill",
    "class A:\n    __slots__ = ('__class__',)": "__slots__",
    "class A:\n    __slots__ = ('__cl' + 'ass__',)": "__slots__",
    "def f(kind): return kind('A', (), {'__class__': 1})": "a table with __class__",
    "def f(m): return m.ABCMeta": "ABCMeta",
    "import operator\noperator.iand(xs, 1)": "iand",
    "map(set.clear, [DATA])": "asks for set.clear",
    "import contextlib\nwith contextlib.nullcontext(DATA) as d:\n    d.clear()": "calls .clear of d",
    "match DATA:\n    case dict() as d:\n        d.clear()": "calls .clear of d",
    "class A:\n    d = DATA\n    d |= {}": "changes d",
    "import struct\nstruct.pack_into('i', xs, 0, 0)": "pack_into",
    "import io\nio.BytesIO(b'').readinto(xs)": "readinto",
    "import numpy as np\nnp.nan_to_num(xs, copy=False)": "nan_to_num",
    "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(1).submit(print)": "ThreadPoolExecutor",
    "def f(fn): fn.__name__ = 'boxed'": "writes .__name__",
    "import jax\ndef f(c): c.update('jax_disable_jit', True)\nf(jax.config)": "disable_jit",
    "import warnings\nwarnings.catch_warnings(module=memo)": "module",
    "import jax\nwith jax.no_tracing(False): pass": "asks for .no_tracing; it can lift what a check forbids",
    "import jax\ndef f(m): return m.no_tracing(xs)": "asks for .no_tracing",
    "import jax\nfree = jax.no_tracing": "asks for .no_tracing",
    "import jax\ngetattr(jax, 'transfer_guard')('allow')": "asks for .transfer_guard",
    "from jax import transfer_guard as t": "imports transfer_guard",
    f"{POOL}def f():\n    with ThreadPoolExecutor(1) as p:\n        yield p": "ThreadPoolExecutor in a generator",
    "import matplotlib.pyplot as plt\nplt.rc('axes', prop_cycle='1')": "prop_cycle",
    # What a name of the course's is given does not count before, nor where it may be undone, nor if it is the course's.
    "list.append(DATA['a'], 1)\nlist = []": "calls list.append",
    "DATA = {}\nDATA = globals\nDATA.clear()": "uses globals",
    "xs = xs\nxs += 1": "changes xs",
    "xs = 1\nfor xs in DATA:\n    xs.clear()": "calls .clear of xs",
    "xs = 1\n[xs := DATA for _ in range(1)]\nxs.clear()": "calls .clear of xs",
    "if False:\n    xs = 1\nxs += 1": "changes xs",
    "xs = 1\ndel xs\nxs += 1": "changes xs",
    "print(__version__)": "reads __version__",
    # What comes out of a call or in as an argument has no owner: no module is handed on, but for those that calculate.
    "import functools\ndef get(m): return m.wraps\nget(functools)": "hands the module functools on",
    "import collections\nfor m in (collections,): m._sys": "hands the module collections on",
    "import dataclasses\nmatch dataclasses:\n    case object(types=t): pass": "hands the module dataclasses on",
    "import numpy as np\ndef f(m): return m.polyutils\nf(np.polynomial)": "hands the module numpy.polynomial on",
    "import numpy as np\ndef f(m): return m.random.bit_generator\nf(np)": "asks for .bit_generator",
    "import numpy as np\nnp.polynomial.polyutils.warnings": "uses numpy.polynomial.polyutils",
    "try:\n    math.nothing\nexcept AttributeError as error:\n    error.obj": "asks for .obj",
    "print('{0.inspect.linecache.cache}'.format(1))": "asks for .inspect",
    "print('{0:{1.inspect}}'.format(1, 2))": "asks for .inspect",
    "class A:\n    for __slots__ in [['__class__']]: pass": "binds __slots__ otherwise",
    "class A:\n    if True:\n        def put(self): self.traces = 0\nA.put(1)": "asks for A.put",
    "class A:\n    __qualname__ = 'Box'": "gives a class __qualname__",
    "class A:\n    x = 1\nA.__qualname__ = 'Box'": "writes A.__qualname__",
    "class Box:\n    def put(self): self.n = 1": "makes another class Box",
    "pow = pow\ndef g(x): return x**pow": "is a name of Python's; when an answer is graded, Python's own is put back",
    # a ninth reader: what is read in the target of a loop, and what a class has not bound yet
    "h = {}\n[0 for h[eval('1')] in [0]]": "uses eval",
    "h = {}\nx = {k: 0 for k, h[exec('1')] in [(0, 0)]}": "uses exec",
    "class A:\n    names = getattr(check, '__globals__')\n    getattr = None": "asks for .__globals__",
    "class A:\n    kind = type('A', (), {})\n    type = None": "hands type on",
    "class A:\n    DATA['a'] = 3\n    DATA = None": "writes a part of DATA",
    "class A:\n    made = np.lib.npyio\n    np = None": "lib",
    "class A:\n    if g: getattr = None": "binds getattr in a class otherwise",
    "class A:\n    for DATA in []: pass": "binds DATA in a class otherwise than by a statement",
    "class A:\n    sum = len\n    del sum\n    x = sum": "binds sum in a class otherwise than by a statement",
    "def f(getattr):\n    class A:\n        x = getattr(check, '__globals__')\n"
    "        getattr = 1": "asks for .__globals__",
    "def f(DATA):\n    def h():\n        global DATA\n"
    "        DATA['a'] = 1": "writes DATA, which belongs to the course",
    "def f(np):\n    def h():\n        global np\n        return np.lib": "writes np",
    "def f(sum):\n    def h():\n        global sum\n        sum.x = 1": "writes sum, which belongs",
    "import typing\nw = typing.functools.wraps(g)": "uses typing.functools",
    "from dataclasses import copy\nc = copy.copy(g)": "imports copy from dataclasses",
    "import functools\n@functools.wraps(g, assigned=('__code__',))\ndef f(): pass": "wraps otherwise",
    "import functools\nfunctools.update_wrapper(g, g, updated=())": "update_wrapper",
    "ban = jax.no_tracing(True)": "asks for .no_tracing",
    "with jax.no_tracing(True) as ban: pass": "asks for .no_tracing",
    "def f():\n    with jax.no_tracing(True): yield": "asks for .no_tracing",
    "import contextlib\nwith contextlib.ExitStack() as s: s.enter_context(jax.checking_leaks())": "asks for .checking",
    "def f(ban): ban.state.set_local(False)": "asks for .set_local",
    "class A:\n    def load(self): pass\nmatch g:\n    case object(load=f): pass": "asks for .load",
    "class A:\n    def load(self): pass\ngetattr(g, 'load')": "asks for .load",
    "import operator\nclass A:\n    def load(self): pass\noperator.attrgetter('load')(g)": "asks for .load",
    "class A:\n    _module = 3\nmatch g:\n    case object(_module=f): pass": "asks for ._module",
    "match g:\n    case object(append=f): pass": "asks for .append",
    "import typing\ntyping.runtime_checkable(type(g))": "runtime_checkable",
    "class A:\n    kind = 'eval(1)'\n    def f(self, x: kind): pass": "has kind in an annotation",
    "def f(words):\n    P = tuple[words]\n    def g(x: P): pass": "has P in an annotation",
    "def f(int):\n    P = list[int]\n    def g(x: P): pass": "has P in an annotation",
    "def f(P):\n    def g(x: P): pass\nP = int": "has P in an annotation",
    "def f():\n    Q = int\n    Q |= 'eval(1)'\n    def g(x: Q): pass": "changes Q",
    "def f():\n    if (P := 'eval(1)'): P = int\n    def g(x: P): pass": "has P in an annotation",
    "def f():\n    int = 'eval(1)'\n    P = list[int]\n    def g(x: P): pass": "has P in an annotation",
    "def f():\n    for float in ['eval(1)']:\n        P = list[float]\n    def g(x: P): pass": "has P in an annotation",
    "class A:\n    P = 'eval(1)'\n    def f(self, x: P): pass": "has P in an annotation",
    "class Q: pass\nQ = 'eval(1)'\ndef f(x: Q): pass": "has Q in an annotation",
    "def h():\n    class Q: pass\nQ = 'eval(1)'\nR = list[Q]\ndef f(x: R): pass": "has R in an annotation",
    "def h():\n    class Q: pass\ndef f(Q):\n    class R:\n        x: Q": "has Q in an annotation",
    "def mark(kind): return 'eval(1)'\n@mark\nclass Q: pass\ndef f(x: Q): pass": "has Q in an annotation",
    "@(lambda kind: 'eval(1)')\nclass Q: pass\ndef f(x: Q): pass": "has Q in an annotation",
    "import functools\ndef mark(n, kind): return 'eval(1)'\n@functools.partial(mark, 1)\nclass Q: pass\n"
    "def f(x: Q): pass": "has Q in an annotation",
    "def f():\n    class Q: text = 'eval(1)'\n    class R:\n        x: Q.text": "has Q.text in an annotation",
    "def f(Q):\n    def g(x: Q.text): pass": "has Q.text in an annotation",
    "class Q: args = 'eval(1)'\ndef f(*x: Q.args): pass": "has Q.args in an annotation",
    "from typing import ParamSpec\nQ = ParamSpec('Q')\ndef f(x: Q.name): pass": "has Q.name in an annotation",
    "from typing import ParamSpec\nQ = ParamSpec('Q')\ndef f():\n    class Q: args = 'eval(1)'\n"
    "    def g(*x: Q.args): pass": "has Q.args in an annotation",
    "def f(K):\n    P = list[K]\n    def g(x: P): pass\ndef h():\n    class K: pass": "has P in an annotation",
    "def f():\n    class K: pass\n    K = 'eval(1)'\n    P = list[K]\n    def g(x: P): pass": "has P in an annotation",
    # a twelfth: what may be used in one way alone, asked for an attribute that is it again
    "from operator import attrgetter\nattrgetter.mro()[0]('__globals__')(check)": "hands operator.attrgetter on",
    "open.__call__('a', 'w')": "uses open",
    "getattr(open, '__call__')('a', 'w')": "uses open",
    "vars.__call__()": "uses vars",
    "super.__call__(Box, xs)": "hands super on",
    "object.__setattr__.__call__(check, 'n', 1)": "asks for .__setattr__",
    "getattr(object.__setattr__, '__call__')(check, 'n', 1)": "asks for .__setattr__",
    "import types\nkind = types.SimpleNamespace.mro()[0]": "hands SimpleNamespace on",
    "import abc\nkind = abc.ABCMeta.mro()[1]": "uses ABCMeta otherwise",
    f"{POOL}pool = ThreadPoolExecutor.mro()[0](1)": "uses ThreadPoolExecutor otherwise than in a `with`",
    # what is asked where it is called by its name, under another
    "from functools import wraps as w\ndef f(x):\n    @w(x)\n    def g(): pass": "imports wraps under another name",
    "from functools import update_wrapper as u": "imports update_wrapper under another name",
    "from jax.tree_util import register_pytree_node as r": "imports register_pytree_node under another name",
    "from warnings import warn as w": "imports warn under another name",
    "import numpy as np\ndef f(xp): return xp.char.functools.wraps\nf(np)": "asks for .functools",
    # memory, by a keyword
    "from types import SimpleNamespace\nSimpleNamespace(__array_interface__={})": "says __array_interface__",
    "def f(model, kind): model.train(__class__=kind)": "says __class__",
    # beside what is let through
    "def f(x): return x.__class__(1, 2, 3)": "calls a type with three arguments",
    "def f(x): return x.__class__(1, a=2, b=3)\nint.__class__('A', (), {})": "calls a type with three arguments",
    "int.__class__(1)": "asks for the type of a class",
    "class A:\n    def __new__(cls): return cls.__class__('A', (), {})": "calls a type with three arguments",
    "class A:\n    def __new__(cls): return type(cls)('A', (), {})": "calls a type with three arguments",
    "class A:\n    def __new__(cls): return [cls.__class__]": "asks for .__class__",
    "class A:\n    @classmethod\n    def f(cls): return cls.__class__": "asks for .__class__",
    "def f(x, y): return x.__class__ == y": "asks for .__class__",
    "def f(x, y): return x.__class__ in [y]": "asks for .__class__",
    "class type: pass\ndef f(x, y): return x.__class__ == type(y)": "asks for .__class__",
    "class A:\n    def f(self): return A.__repr__(xs)": "asks for .__repr__",
    "class A:\n    def f(self): return self.__repr__": "asks for .__repr__",
    "class A:\n    def f(self): return self.__dict__": "asks for .__dict__",
    "import functools\ndef f(): pass\nfunctools.update_wrapper(f, g, updated=())": "asks for .update_wrapper",
    "import functools, jax\n@functools.wraps(g)\n@jax.vmap\ndef f(x): pass": "uses wraps otherwise than right above",
    "import functools, jax\n@functools.wraps(g)\n@jax.jit\n@g\ndef f(x): pass": "uses wraps otherwise than right above",
    "import functools\ndef f(jit):\n    @functools.wraps(g)\n    @jit\n    def h(): pass": "uses wraps otherwise",
    "import warnings\ndef f(): warnings.warn('a', RuntimeWarning, 2)": "uses warnings.warn in an unusual way",
    "import warnings\ndef f(): warnings.warn(*['a', RuntimeWarning, 2])": "uses warnings.warn in an unusual way",
    "import warnings\ndef f(): warnings.warn('a', skip_file_prefixes=('x',))": "uses warnings.warn in an unusual way",
    "import warnings\nsay = warnings.warn": "uses warnings.warn in an unusual way",
    "import warnings\ndef f(n): warnings.warn('a', stacklevel=n)": "says stacklevel",
    "import functools, warnings\nfunctools.partial(warnings.warn, stacklevel=2)": "says stacklevel",
    "import jax\ndef f(t, u, x): jax.debug.print(t if u else u + '{}', x)": "calls format of a text",
    "class A: pass\nA.obj": "asks for .obj",
    "class A:\n    def eval(self): pass\ngetattr(g, 'eval')": "asks for .eval",
    "class A:\n    def register(self): pass\nimport abc\nabc.ABC.register(int)": "asks for .register",
    "class A:\n    obj = 1\nmatch g:\n    case object(obj=f): pass": "asks for .obj",
    "class A:\n    def measure(self): pass\nprint('{0.measure}'.format(g))": "asks for .measure",
    "class A:\n    obj = 1\ndef f(x): x.obj = 3": "writes .obj",
    "class A:\n    def eval(self): pass\n    run = eval": "uses eval",
    "x = eval\ndef eval(x): return x": "uses eval",
    "def run(x): return eval(x)\nrun('1')\ndef eval(x): return x": "means its own eval",
    "if g:\n    def eval(x): return x\ndef f(x): return eval(x)": "gives eval another meaning",
    "n = 'eval(1)'\ndef f(x: 'list[n]'): pass": "has n in an annotation",
    "n = 'eval(1)'\ndef f(x: n or int): pass": "has n in an annotation",
    "n = 'eval(1)'\ndef f(x: 'n[float32]'): pass": "has n in an annotation",
    "def f(x: 'float32[eval(1)]'): pass": "uses eval",
    "def f(x: 'float32[check.__code__]'): pass": "asks for .__code__",
    "class A:\n    x: 'float32[words]'\n    float32 = list\nwords = 'eval(1)'": "in an annotation",
    "P = int\nif P:\n    P = 'eval(1)'\nP = str\ndef f(x: P): pass": "has P in an annotation",
    "P = int\nfor P in ['eval(1)']: pass\nP = str\ndef f(x: P): pass": "has P in an annotation",
    "[P := int for int in ['eval(1)']]\ndef f(x: P): pass": "has P in an annotation",
    "def isinstance(x, k): return k\nprint(isinstance(1, type))": "hands type on",
    "def f(isinstance): return isinstance(1, type)": "hands type on",
    "xs.at[0].append(1)": "calls .append of xs.at[0]",
    "xs[0].add(1)": "calls .add of xs[0]",
    "import glob\nglob.os": "uses glob.os",
    "import gc\ngc.get_objects()": "uses gc.get_objects",
    **(
        {
            "type A = eval('1')": "calculates an annotation",
            "type A = check.__code__": "__code__",
            "def g[T: eval('1')](x): pass": "calculates an annotation",
            "class A[T: np.lib.npyio]: pass": "npyio",
        }
        if sys.version_info >= (3, 12)
        else {}
    ),
}


@pytest.mark.parametrize("answer", TRICKS, ids=range(len(TRICKS)))
def test_a_way_around_is_refused(answer):
    judgement = judged(answer)
    assert judgement.name == "NotAllowed" and TRICKS[answer] in judgement.why, judgement


NOT_MODULES = "an answer is graded with the modules that calculate. An answer has no need of it: leave it out."
STARS = {  # as it is written, and the line that is run
    "from math import *\ndef g(x): return sqrt(x) + pi": "from math import pi, sqrt",
    "x = 1; from functools import *\n@partial(jax.jit)\ndef g(x): pass": "x = 1; from functools import partial",
    "from math import *; from cmath import *; import xmlrpc\ndef g(x): hypot(x), polar(x)": "from math import "
    "hypot; from cmath import polar; print('Left out: line 1 imports xmlrpc; " + NOT_MODULES + "')",
    "from math import *\ndef g(x): return pow(x, 2)": "from math import pow",
    "from numpy.linalg import *\ndef g(x): return norm(x)": "from numpy.linalg import norm",
}


@pytest.mark.parametrize("answer", STARS, ids=range(len(STARS)))
def test_a_star_stands_for_the_names_that_are_used(answer):
    judgement = judged(answer)
    assert (judgement.text.split("\n")[0], judgement.name) == (STARS[answer], "")


SPARE = {  # a cell, and which of its lines are left out
    "from xmlrpc import client\ndef g(x): pass": [1],
    "x = 1\nimport scipy.stats, pandas as pd; y = 2\ndef g(x: 'pd.Series'): pass": [2],
    "x = 'é'; from xmlrpc import (\n    client,\n    server,\n); y = 2\nimport sympy": [1, 5],
    "help(g)\ndef g(x): pass\nx = 1\ndir(x)": [1, 4],
}


@pytest.mark.parametrize("answer", SPARE, ids=range(len(SPARE)))
def test_a_line_that_the_answer_does_not_need_is_left_out_alone(answer):
    """It says so where it stood, the others keep their numbers, and all is judged as if it had been handed in so."""
    judgement = judged(answer)
    said = [line for line in judgement.text.split("\n") if "print('Left out: line " in line]
    assert (judgement.name, len(said)) == ("", len(SPARE[answer]))
    lines = judgement.text.rstrip("\n").split("\n")
    assert len(lines) == answer.count("\n") + 1
    for number in SPARE[answer]:
        assert f"print('Left out: line {number} " in lines[number - 1]
        assert f"line {number} " in judgement.why
    assert judged(judgement.text) == judge.Judged(judgement.text)


NEEDED = {
    "from xmlrpc import client": f"line 1 imports client from xmlrpc; {NOT_MODULES}",  # it may be the answer
    "from xmlrpc import client\ndef g(x): client(x)": f"line 1 imports client from xmlrpc; {NOT_MODULES}",
    "import pandas as np\nx = np.zeros(3)": f"line 1 imports pandas; {NOT_MODULES}",
    "from math import *\ndef g(x): pass": "line 1 imports * from math; nobody can see then which names it binds. "
    "Import the names that you use.",
    "from operator import *\ndef g(x): setitem(x, 0, 1)": "line 1 imports setitem from operator",
    "from jax.numpy import *\ndef g(x): return sin(x)": "line 1 imports * from jax.numpy",
    "from subprocess import *\ndef g(x): return run(x)": "line 1 imports * from subprocess",
    "if True:\n    import xmlrpc\ndef g(x): pass": f"line 2 imports xmlrpc; {NOT_MODULES}",
    "import xmlrpc\ndef g(x): pass\neval('1')": "line 3 uses eval",
    "import xmlrpc\ndef f():\n    global xmlrpc": f"line 1 imports xmlrpc; {NOT_MODULES}",
    "help(x := 1)\ny = x": "line 1 uses help",
    "exec('1')\nx = 1": "line 1 uses exec",
}


@pytest.mark.parametrize("answer", NEEDED, ids=range(len(NEEDED)))
def test_what_the_answer_may_need_costs_the_cell(answer):
    assert (judged(answer).name, judged(answer).text) == ("NotAllowed", "") and NEEDED[answer] in judged(answer).why


def test_what_another_cell_uses_is_not_left_out():
    made, release = answered("import xmlrpc\ndef g(x): pass")
    made.cells.append(nbformat.v4.new_code_cell("xmlrpc.client(1)"))
    course = course_in(made, release)
    assert {found.name for found in judge.judge([cell.source for cell in made.cells[1::2]], course).values()} == {
        "NotAllowed"
    }
    guard = Guard(made, course)
    answer, other = map(guard.judged, made.cells[1::2])
    assert (len(answer.parts), other.name) == (1, "") and "line 1 imports xmlrpc" in answer.parts[0]


def test_a_warning_of_an_answers_text_is_not_the_graders(recwarn):
    assert judged("def g(x):\n    'Returns $x\\^3$.'").name == "" and not recwarn


def test_what_is_forbidden_in_one_thread_is_not_done_in_another():
    answer = f"{POOL}def g(x):\n    with ThreadPoolExecutor(1) as p:\n        return p.submit(abs, x).result()"
    assert judged(answer).why == ""
    checked = judged(answer, check=f"with jax.no_tracing(True):\n    {CHECK.splitlines()[1]}")
    assert "the checks forbid something by jax.no_tracing, which another thread does not know" in checked.why


@pytest.mark.parametrize("answer", ["with jax.disable_jit(): pass", "from jax import disable_jit"])
def test_jit_stays_on_where_traces_are_counted(answer):
    assert judged(answer).why == ""
    counted = judged(answer, setup=f"{SETUP}from autograder import assert_max_traces\n")
    assert "asks for disable_jit; the checks count traces" in counted.why


def test_a_refusal_says_where_why_and_what_to_do():
    assert judged("x = 1\ny = eval('2')").why == (
        "line 2 uses eval; with it, a cell could run or change what nobody sees. "
        "An answer has no need of it: leave it out."
    )


@pytest.mark.once
@pytest.mark.filterwarnings("ignore")
def test_what_is_handed_on_leads_to_modules_that_calculate():
    """By names that an answer may ask a value for of which nobody can see what it is."""
    waiting, seen = [importlib.import_module(name) for name in HANDED_ON], set()
    while waiting:
        module = waiting.pop()
        seen.add(module)
        for name in ({*dir(module)} | {*vars(module)}) - FORBIDDEN - PATHS - OF_HANDED_ON:
            value = None if name.startswith("_") else getattr(module, name, None)
            waiting += [value] if isinstance(value, types.ModuleType) and value not in seen else []
    assert {module.__name__ for module in seen} <= {name for name in MODULES if MODULES[name] is EVERYTHING}
    assert OF_HANDED_ON <= OF_MODULES


@pytest.mark.once
def test_what_values_are_asked_for_cannot_be_written():
    jitted, seen = jax.jit(lambda x: x + 1), []
    traced = jitted.trace(1.0)
    jaxpr = jax.make_jaxpr(lambda x: (seen.append(x), x + 1)[1])(1.0)
    jax.grad(lambda x: (seen.append(x), x)[1])(1.0)
    seen += [jitted, traced, traced.lower(), traced.lower().compile(), jaxpr, jaxpr.jaxpr, jaxpr.jaxpr.eqns[0]]
    seen += [jaxpr.jaxpr.eqns[0].primitive, jaxpr.jaxpr.invars[0], jaxpr.in_avals[0], jax.numpy.ones(1), np.ones(1)]
    asked = {name for value in seen for name in dir(type(value)) if not name.startswith(("_", "jax2tf"))}
    assert asked - ASKED_OF_VALUES == set()


HARMLESS = {"dataclasses.keyword", "flax.linen.initializers", "flax.nnx.initializers"}


@pytest.mark.once
@pytest.mark.filterwarnings("ignore")
def test_no_module_inside_an_allowed_one_leads_out():
    """By names that an answer may write, from module to module."""
    seen, out = {}, set()
    waiting = [(name, importlib.import_module(name)) for name in MODULES if name != "jax.experimental.pallas.triton"]
    waiting = [(name, module) for name, module in waiting if MODULES[name] is EVERYTHING]
    while waiting:
        name, module = waiting.pop()
        if module in seen:
            continue
        seen[module] = name
        for attr in dir(module):
            if attr.startswith("_") or attr in FORBIDDEN | OF_MODULES | OF_PACKAGES.get(name.partition(".")[0], set()):
                continue
            inner = getattr(module, attr, None)
            if isinstance(inner, types.ModuleType) and MODULES.get(inner.__name__, EVERYTHING) is EVERYTHING:
                waiting.append((f"{name}.{attr}", inner))
    for module, name in seen.items():
        top = module.__name__.partition(".")[0]
        public = top in {"jax", "numpy", "optax"} and "._" not in module.__name__
        if not public and module.__name__ not in MODULES and name not in HARMLESS:
            out.add(name)
    assert out == set()


def test_what_is_in_the_courses_things_is_put_back():
    """Sets, queues, counters, objects and functions, and what lies in other things."""

    def tool(x, *, limit=1):
        return x

    things = [{"scan"}, deque([1]), Counter("aab"), ({"while"}, [[2]]), SimpleNamespace(n=1), tool]
    backs = of_value(things, 3)
    things[0].clear()
    things[1].append(2)
    things[2]["c"] = 7
    things[3][0].add("scan")
    things[3][1][0].append(3)
    things[4].n = things[4].other = 2
    tool.__name__, tool.inside = "boxed", print
    tool.__kwdefaults__["limit"] = 100
    for back in backs:
        back()
    assert things == [{"scan"}, deque([1]), Counter("aab"), ({"while"}, [[2]]), SimpleNamespace(n=1), tool]
    assert (tool.__name__, vars(tool), tool.__kwdefaults__) == ("tool", {}, {"limit": 1})


OTHERS = {  # what a cell does to a value that nobody can see in its text, and what it is told when it does it
    "def f(x): x.traces = 0\nf(next(map(type, [value])))": "the class Handed is written",
    "def f(x): x.traces = 0\nf(value)": "an object of Handed is written",
    "def f(x): del x.traces\nf(value)": "an object of Handed is written",
    "def f(x): x.traces = 0\nf(len)": "an object of builtin_function_or_method is written",
    "class A:\n    def peek(self): return self._sys\nA.peek(value)": "a method of A that writes attributes was given",
    "class A:\n    try:\n        def put(self): self.n = 0\n    finally: pass\nA.put(value)": "a method of A",
    "import typing\nclass A(typing.NamedTuple):\n    def f(self): return self._sys\nA.f(value)": "a method of A",
    "next(map(type, [int]))": "is a class of classes",
    "def f(x): return type(x)\nf(int)": "is a class of classes",
    "dict(**{'__array_interface__': 1})": "__array_interface__ is a name of Python's own",
    "class A:\n    def __getattr__(self, name): return 8\nA().__array_interface__": "is a name of Python's own",
    "class A:\n    def __init__(self, n): self.__dict__['__array__'] = n\nA(1)": "__array__ is a name of Python's own",
    "class A:\n    def __init__(self, n): vars(self).update(__array__=n)\nA(1)": "__array__ is a name of Python's own",
    "class A:\n    def f(self, x):\n        self = x\n        self.n = 1\nA().f(value)": "an object of Handed",
    "class A:\n    _watch = 1\nprint(value._watch)": "Handed is asked for what belongs to its library alone",
    "class A:\n    n = 0\n    def f(self, x):\n        def put(self): self.n = 1\n        put(x)\n"
    "A().f(value)": "an object of Hand",
    "class A:\n    n = 0\n    def f(self, x):\n        (lambda self: setattr(self, 'n', 1))(x)\n"
    "A().f(value)": "an object of",
    "class A:\n    n = 0\n    def f(self, x):\n        match x:\n            case self: pass\n"
    "        self.n = 1\nA().f(value)": "an object of Handed is written",
    "class A:\n    n = 0\n    def f(self, x):\n        def put():\n            nonlocal self\n            match x:\n"
    "                case self: pass\n        put()\n        self.n = 1\n"
    "A().f(value)": "an object of Handed is written",
    "class A:\n    n = 0\n    def f(self, x):\n        for self in [x]: self.n = 1\n"
    "A().f(value)": "an object of Handed",
    "class A:\n    __getattr__ = lambda self, name: {}\nA().__array_interface__": "is a name of Python's own",
    "class A:\n    def __getattr__(self, *names): return {}\nA().__array_interface__": "is a name of Python's own",
    "class A:\n    def __setattr__(self, name, value):\n        def change():\n            nonlocal name\n"
    "            name = '__array_' + 'interface__'\n        change()\n        super().__setattr__(name, value)\n"
    "A().a = 1": "__array_interface__ is a name of Python's own",
    "from types import SimpleNamespace\ntype(SimpleNamespace(a=1))": "makes objects with any attributes",
    "getattr(value, 'f_' + 'globals')": "Handed is asked for 'f_globals'",
    "a = '__globals__'\nprint(hasattr(check, a))": "function is asked for '__globals__'",
    "class W(str):\n    def __str__(self): return '__code__'\ngetattr(check, W('real'))": "is asked for '__code__'",
    "getattr([], f'{\"append\"}')(3)": "list is asked for 'append'",
    "getattr({}, f'set_{\"value\"}')": "dict is asked for 'set_value'",
    "import os\ngetattr(os, 'sys' + 'tem')": "module is asked for 'system'",
    "import numpy as np\ngetattr(np, 'li' + 'b')": "module is asked for 'lib'",
    "class A:\n    def f(self, what): return getattr(self, f'no_{what}')\nA().f('tracing')": "A is asked for 'no_tr",
    "class A(str):\n    def f(self, what): return getattr(self, f'format_{what}')\nA().f('map')": "A is asked for 'for",
    "class A:\n    def __init__(self, **names):\n        for n, v in names.items(): setattr(self, n, v)\n"
    "A(__array__=3)": "__array__ is a name of Python's own",
    "class A:\n    def __init__(self): setattr(self, 'perf_' + 'counter', 3)\nA()": "'perf_counter' is written",
    "def f(x): setattr(x, 'n', 3)\nf(value)": "an object of Handed is written",
    "def f(x): delattr(x, 'traces')\nf(value)": "an object of Handed is written",
    "def change(kind): kind.anything = print\nchange(value)": "an object of Handed is written",
    "def brick(): pass\ndef f(brick, v): brick.inside = v\nf(value, 1)": "an object of Handed is written",
    "def f(text): return text.format(value)\nf('{0.__globals__}')": "to be formatted asks for '__globals__'",
    "T = '{0[a].f_globals:>{1}}'\nT.format(value, 3)": "to be formatted asks for 'f_globals'",
    "('{0._' + '_class__}').format(value)": "to be formatted asks for '__class__'",
    "'{1:{0.__class__}}'.replace('1', '0').format(value)": "to be formatted asks for '__class__'",
    "class T(str): pass\nT('{0.__class__}').format(value)": "to be formatted asks for '__class__'",
    "from flax import nnx\nnnx.Dict({'__array_' + 'interface__': {}})": "__array_interface__ is a name of Python's own",
    "str.format('{0.__class__}', value)": "str.format is called with a text that is not seen here",
    "type('')\nf = type('a')\nf.format('{0.__class__}', value)": "str.format is called with a text",
    "import functools\nclass A:\n    def f(self, g): functools.update_wrapper(self, g)\n"
    "A.f(value, len)": "an object of Handed is written",
    "open(3)": "expected str, bytes or os.PathLike object, not int",
    "open('/proc/self/mem', 'rb')": "'/proc/self/mem' is opened, which is no file of this notebook's",
    "open('/tmp/../proc/self/mem', 'rb')": "is opened, which is no file of this notebook's",
    "open(b'/dev/fd/0')": "is opened, which is no file of this notebook's",
    "vars(value)['traces'] = 0": "the names in Handed are not this notebook's own",
    "vars(__import__('math'))": "the names in math are not this notebook's own",
    "vars(type(value))": "the names in Handed are not this notebook's own",
    # a seventh reader of the guard
    "import copy, math\ncopy.copy(type(math)('cProfile'))": "type(x) of a module makes modules",
    "import enum\nclass E(enum.Enum): pass\ngetattr(E, '_con' + 'vert_')('a', 'b', len)": "E is asked for '_con",
    "import enum\nclass Own: _create_ = 1\nclass E(enum.Enum): pass\nE._create_('K', 'a')": "an object of E",
    "class L(value if isinstance(value, type) else type(list[int])): pass": "type(x) of a list[int] hands on",
    "import typing\ntype(typing.List[int])": "type(x) of a list[int] hands on",
    "from collections.abc import Callable\ntype(Callable[[int], int])": "type(x) of a list[int] hands on",
    "import jax\nfrom flax import nnx\nnnx.Variable(jax.config).update('jax_disable_jit', True)": "the setting 'jax_",
    "'{0:{1.__globals__}}{'.format(1, value)": "asks for '__globals__'",
    "import jax\ndef make(base):\n    class L(base): pass\n    return L\nmake(jax.Array)": "L derives from jax.",
    "import jax\ndef f(kind): jax.tree_util.register_dataclass(kind, ['n'], [])\nf(type(value))": "is registered",
    "import jax\nclass A: pass\njax.tree_util.register_dataclass(A, ['__a' + '__'], [])": "a name of Python's own",
    "class S(str): __hash__ = str.__hash__\ndict(**{S('refcheck'): 1})": "is handed on as a name, and is none",
    "from collections import UserString\nUserString('{0.__class__}').format(1)": "to be formatted asks",
    # an eighth
    "def rename(kind):\n    kind.__qualname__ = 'object'\n    kind.__module__ = 'builtins'\n    return kind\n"
    "@rename\nclass W:\n    def put(self): self.traces = 0\nW.put(value)": "a method of W that writes attributes was",
    "import dataclasses\n@dataclasses.dataclass\nclass A:\n    traces: int\nclass B(A):\n    @classmethod\n"
    "    def put(cls, x): super().__init__(x, 0)\nB.put(value)": "super().__init__ is asked for where there is no",
    "class B(list):\n    def put(self, x): super().append(x, 1)\nB.put(B, [])": "super().append is asked for where",
    "import functools, warnings\nclass Hold:\n    def __init__(self, what):\n"
    "        functools.update_wrapper(self, what)\nHold(warnings.catch_warnings())": "an object of catch_warnings is",
    "import functools, math\n@functools.wraps(math)\ndef f(): pass": "an object of module is handed to functools.wraps",
    "import functools\n@functools.wraps(value)\ndef f(): pass": "an object of Handed is handed to functools.wraps",
    # a ninth
    "import numpy as np\nclass T:\n    def load(self): pass\n"
    "def read(xp): return xp.load('a', None, True)\nread(np)": "'load'",
    "from pathlib import Path\nclass T:\n    def open(self): pass\n"
    "Path('/proc/self/mem').open('rb')": "asked for 'open'",
    "from pathlib import PosixPath as P\nclass T(P):\n    def save(self): pass\nT('a').open('rb')": "asked for 'open'",
    "import warnings\nclass A:\n    _module = 3\n"
    "getattr(warnings.catch_warnings(), '_module')": "belongs to its library",
    "import warnings\nclass A:\n    _module = 3\n"
    "hasattr(warnings.catch_warnings(), '_module')": "belongs to its library",
    "import os\ngetattr(os, 'environ')": "module is asked for 'environ'",
    "from pathlib import Path\nPath('a').replace('b')": "asked for 'replace'",
    "from pathlib import Path\nf = Path.replace\nf(Path('a'), 'b')": "asked for 'replace'",
    "def give(brick, fn): brick.inside = fn\ngive(theirs, len)": "an attribute of an object of function is written",
    "import jax\ndef give(brick, fn): brick.inside = fn\ngive(jax.jit(theirs), len)": "an object of PjitFunction is",
    "import functools\ndef give(f): f.inside = 1\ngive(functools.partial(theirs))": "an object of partial is written",
    "def give(box): setattr(box, 'n', 3)\ngive(held)": "an object of Held is written",
    "import jax\ndef f(g): g.defjvp(lambda p, t: (p, t))\nf(jax.nn.relu)": "an object of function is written",
    "'{0.__class__}'.format_map({'0': value})": "to be formatted asks for '__class__'",
    "def give(box): box.n = 3\ngive(held)": "an object of Held is written",
    # a twelfth
    "class A:\n    def two(self): return self.__class__(1, 2, 3)\nA.two(value)": "was given an object of Handed",
    "class A:\n    def two(self): return type(self)(1, 2, 3)\nA.two(int)": "was given an object of type",
    "class A:\n    def kind(self): return [self.__class__]\nA.kind(int)": "was given an object of type",
    "class A:\n    def __class_getitem__(cls, n): return type(cls)('A', (), {})\nA[1]": "was given an object of type",
    "def f(x): return x.__class__(x)\nf(int)": "type(int) is a class of classes",
    "import math\ndef f(x): return x.__class__('a')\nf(math)": "type(x) of a module makes modules",
    "class A:\n    def __eq__(self, other): return self.__dict__ == other.__dict__\nA() == value": "names in Handed",
    "class A:\n    def register(self): pass\nimport abc\nclass B(abc.ABC): pass\nB.register(int)": "asked for 'reg",
    "class A:\n    def obj(self): pass\ntry: [].nothing\nexcept AttributeError as e: e.obj": "is asked for 'obj'",
    "class A:\n    obj = 1\nclass E(AttributeError):\n    def __init__(self): vars(self)['obj'] = 1\n"
    "E().obj": "an object of E is asked for 'obj'",
    "class A:\n    def rename(self): pass\nfrom pathlib import Path\nclass P(type(Path())): pass\n"
    "P('a').rename('b')": "asked for 'rename'",
    "class A:\n    def measure(self): pass\ndef f(x): return x.measure\nf(value)": "Handed is asked for 'measure'",
    "from flax import nnx\nimport numpy as np\nclass A:\n    def load(self): pass\nclass V(nnx.Variable): pass\n"
    "V(np).load('a', None, True)": "an object of V is asked for 'load'",
    "from flax import nnx\nimport numpy as np\nclass V(nnx.Variable): pass\n"
    "vars(V(np))['__builtins__']": "an object of V has no names of its own",
    "from flax import nnx\nimport pathlib\nclass A:\n    def eval(self): pass\n"
    "nnx.Variable(pathlib).eval": "an object of Variable is asked for 'eval'",
    "import functools, jax\n@jax.jit\ndef f(x): return x\nfunctools.update_wrapper(f, len)": "is named after another",
    "import functools\n@functools.cache\ndef f(x): pass\nfunctools.update_wrapper(f, len)": "is named after another",
    "import functools\nclass A: pass\ndef f(): pass\nf = value\n"
    "functools.update_wrapper(f, len)": "an object of Handed is written",
    "import functools, jax\nif False: from jax import jit\ndef jit(f): return theirs\n"
    "@functools.wraps(len)\n@jit\ndef f(): pass": "an object of function is written",
    "import functools, jax\ndef jit(f): return f\n@functools.wraps(len)\n@jit\ndef f(): pass": "something else than",
    "import functools, jax\n@functools.wraps(value)\n@jax.jit\ndef f(x): return x": "is handed to functools.wraps",
}


class Handed:
    """Of a module that is not the notebook."""

    traces, file = 1, __file__
    __module__ = "autograder.checks"


@pytest.mark.parametrize("cell", OTHERS, ids=range(len(OTHERS)))
def test_what_a_value_is_asked_when_it_is_there(cell):
    with pytest.raises((TypeError, AttributeError), match=re.escape(OTHERS[cell])):
        ran(cell)


OWN = """
import dataclasses, functools, jax
from types import SimpleNamespace
from typing import NamedTuple

@dataclasses.dataclass(slots=True)
class Counter:
    n: int = 0
    def add(self):
        self.n += 1
        return self

class Pair(NamedTuple):
    n: int
    def next(self):
        return self._replace(n=self.n + 1, **{})
    def has(self, name):
        return getattr(self, "n") if hasattr(self, "n") else None

class Tally:
    total = 0
    def __init__(self, **names):
        "Counts."
        self.__dict__.update(names)
        self._seen = vars(self).copy()
    def __getattr__(self, name):
        return name.upper()
    @classmethod
    def note(cls):
        cls.total += 1
        return cls
    def later(self):
        def change(by):
            self.by = by
        change(3)
        return self.by

@jax.custom_jvp
def relu(x):
    return x

@relu.defjvp
def rule(primals, tangents):
    return primals[0], tangents[0]

def counted(fn):
    @functools.wraps(fn)
    def wrapper(*args, **options):
        wrapper.calls += 1
        return fn(*args, **options)
    wrapper.calls = 0
    return wrapper

@counted
def double(x, *, by=2):
    return x * by

def put(thing, value):
    thing.n = value
    return thing.n

options = {"by": 3}
found = [Counter().add().n, Tally(a=1).a, Tally().b, Tally.note().total, Tally().later(), double(2, **options)]
found += [double.calls, put(SimpleNamespace(), 4), put(Counter(), 5), type(3) is int, list(map(type, [1, "a"]))]
found += [Tally(c=1)._seen, sorted(Tally(d=2).__dict__) == ["_seen", "d"]]
found += [Pair(1).next().n, Pair(5).has("n")]
found += [getattr(Tally(), f"no_{1}"), hasattr(Tally, "no_" + "te"), getattr(SimpleNamespace(on_a=6), "on_" + "a")]
found += [{**vars(SimpleNamespace(e=3)), **vars(Tally(f=4))}]
with open(value.file) as file:
    found += [file.read() == open(value.file, "rb").read().decode() != ""]
"""


def test_what_is_ones_own_is_changed_as_ever():
    found = ran(OWN)["found"]
    assert found == [1, 1, "B", 1, 3, 6, 1, 4, 5, True, [int, str], {"c": 1}, True, 2, 5] + [
        "NO_1",
        False,
        6,
        {"e": 3, "f": 4, "_seen": {"f": 4}},
        True,
    ]


KINDS = """
import dataclasses, enum
from abc import ABC
from typing import Generic, NamedTuple, Protocol, TypedDict, TypeVar
import numpy as np
T = TypeVar("T")
class Word(str): pass
class Pair(NamedTuple):
    n: int = 1
@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    n: int = 1
class Colour(enum.Enum):
    RED = 1
class Walks(Protocol):
    def walk(self): ...
class Box(Generic[T]): pass
class Table(TypedDict):
    n: int
class Wrong(ValueError): pass
class Base(ABC): pass
class Sub(np.ndarray): pass
class Says:
    def __array__(self, dtype=None, copy=None):
        return np.arange(3)
class Forwards:
    def __init__(self, to):
        self.to = to
    def __getattr__(self, name):
        return getattr(self.to, name)
found = [np.asarray(Says()).sum(), Forwards([1, 2]).count(1), Pair().n, Frozen().n, Colour.RED.value, Word("a") + "b"]
found += [np.zeros(2).view(Sub).sum() + 1, hasattr(Forwards(3), "nothing"), np.sum(Forwards(3).real), Table(n=1)["n"]]
"""


def test_every_kind_of_class_works_and_none_tells_numpy_where_to_read():
    names = ran(KINDS)
    assert names["found"] == [3, 1, 1, 1, 1, "ab", 1, False, 3, 1]
    memory = {"shape": (1,), "typestr": "<u8", "data": (id(names), False), "version": 3}
    for kind in ("Wrong", "Box", "Base", "Says", "Forwards"):
        one = names[kind](3) if kind in ("Wrong", "Forwards") else names[kind]()
        one.__dict__["__array_interface__"] = memory
        assert not hasattr(one, "__array_interface__") and np.asarray(one).dtype != np.uint64, kind


def test_what_is_of_an_own_class_or_of_a_file_is_read_as_ever(tmp_path):
    (tmp_path / "rows.txt").write_text("1 2\n3 4\n")
    names = ran(
        "import jax, inspect\n"
        "class A:\n    _n = 2\n    def __init__(self): self._m = 3\n"
        "class B(A): pass\n"
        "sums = B()._n + B()._m + getattr(B(), '_' + 'n')\n"
        "def f(x: type, y: 'int' = 1) -> type: return x\n"
        "told = [p.annotation for p in inspect.signature(f).parameters.values()]\n"
        "class Pair:\n    def __init__(self, a, b): self.a, self.b = a, b\n"
        "jax.tree_util.register_dataclass(Pair, data_fields=['a'], meta_fields=['b'])\n"
        "leaves = jax.tree.leaves(Pair(1, 2))\n"
        "options = jax.profiler.ProfileOptions()\noptions.python_tracer_level = 0\n"
        f"rows = [line.split() for line in open({str(tmp_path / 'rows.txt')!r})]\n"
        f"raw = hasattr(open({str(tmp_path / 'rows.txt')!r}, 'rb'), 'raw')\n"
    )
    assert (names["sums"], names["told"], names["leaves"]) == (7, ["type", "int"], [1])
    assert names["rows"] == [["1", "2"], ["3", "4"]] and names["raw"] is False
    assert names["options"].python_tracer_level == 0


CALLED = """
import functools, jax, warnings
class Tape:
    obj = None
    def eval(self, x):
        return x + 1
    def load(self):
        return "loaded"
    def again(self, *args):
        return self.__class__(), type(self)(*args), self.__class__ is Tape
    def __str__(self):
        return "a tape"
    def __repr__(self):
        return self.__str__()
    def __eq__(self, other):
        return self.__class__ == other.__class__ and self.__dict__ == other.__dict__
class Own(Tape):
    kinds = []
    def load(self):
        return super().load() + " again"
    def keep(self):
        self.obj = self.eval(1)
        return self.obj
    @classmethod
    def register(cls, kind):
        cls.kinds.append(kind)
        return kind
@Own.register
class Other(Own): pass
def plain(x):
    "Twice."
    return 2 * x
plain.lower = plain.seen = 3
@functools.wraps(plain)
@jax.jit
def jitted(x):
    return x + 1
def wraps(then):
    return lambda fn: lambda x: then(fn(x))
@wraps(repr)
@wraps(abs)
def mine(x):
    return x
def named(fn):
    def inner(x):
        return fn(x)
    return functools.update_wrapper(inner, fn)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    def warns():
        warnings.warn("so", stacklevel=2)
    warns()
found = [Own().keep(), Own().load(), repr(Own()), Own() == Own(), Own() == Tape(), Own.kinds == [Other]]
found += [[type(x).__name__ for x in Own().again()[:2]], jitted.__name__, jitted.__doc__, float(jitted(1.0))]
found += [jitted.__wrapped__ is plain, hasattr(jitted, "seen"), named(plain).__wrapped__ is plain, named(plain)(3)]
found += [seen[0].lineno, mine(-2)]
"""


def test_what_is_ones_own_may_have_any_name():
    found = ran(CALLED)["found"]
    line = 1 + CALLED.splitlines().index('        warnings.warn("so", stacklevel=2)')
    assert found == [2, "loaded again", "a tape", True, False, True, ["Own", "Own"], "plain", "Twice.", 2.0] + [
        *(False, False, True, 6, line, "2")  # whoever calls is not shown
    ]


PARENTS = """
class Base(list):
    kept = 2
    def __new__(cls, *args):
        return super().__new__(cls)
    def __init_subclass__(cls, **named):
        super().__init_subclass__(**named)
    def __init__(self, *args):
        super().__init__(args)
    @classmethod
    def made(cls):
        return cls(1, 2)
    @staticmethod
    def twice(x):
        return 2 * x
class Sub(Base):
    @classmethod
    def made(cls):
        return [*super().made(), super().twice(4), super().kept]
    def total(self):
        super().append(5)
        return sum(super(Sub, self).copy())
found = [Sub.made(), Sub(1).total()]
"""


def test_parents_are_asked_as_ever():
    assert ran(PARENTS)["found"] == [[1, 2, 8, 2], 6]


def test_what_is_known_of_a_cell_is_forgotten_with_it():
    """A method that asks whose its object is must not be taken for a function of another cell, nor for one's own."""
    cells = asking.OwnObjects()
    for _ in range(200):
        cells.visit(ast.parse("class A:\n    def set(self, n): self.n = n"))
        later = cells.visit(ast.parse("def put(self, n): self.n = n"))
        assert "mine(self, 'n').n = n" in ast.unparse(later)
    cells._me = {"self"}  # as an error leaves it, in the middle of a cell
    assert "mine(self, 'n').n = n" in ast.unparse(cells.visit(ast.parse("self.n = n")))


def test_what_is_allowed_in_one_place_is_not_allowed_in_another_that_is_made_later():
    """A node that is gone leaves its address to another one."""
    cell = 'def g(x: "jax.Array.__class__.__name__"): ...\nfound = getattr(np, "__setattr__")\n'
    assert {judged(cell + f"n = {n}\n" * n).name for n in range(40)} == {"NotAllowed"}


def ran(cell):
    """The names of a notebook in which this cell was run as an answer is."""
    names = {"__name__": "__main__", "value": Handed(), "check": lambda: None}
    exec(compile("class Held: n = 1\nheld = Held()\ndef theirs(x): return x", "a locked cell", "exec"), names)
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(own_objects, "_theirs", None)
        own_objects.begin()
        own_objects.note_tables({"held": names["held"]})
        tree = asking.OwnObjects().visit(ast.parse(cell))
        exec(compile(tree, "cell", "exec"), names)
    return names


def test_python_collects_garbage_after_a_cell_as_before(monkeypatch):
    assert gc.isenabled()
    backs = restorer._of_settings()
    gc.disable()
    for back in backs:
        back()
    assert gc.isenabled()


def test_who_has_begun_to_listen_in_a_cell_is_forgotten():
    import jax

    def late(*_, **__): ...

    backs = restorer._listeners_back()
    jax.monitoring.register_event_listener(late)
    jax.monitoring.register_event_duration_secs_listener(late)
    with trace_log() as log:
        for back in backs:
            back()
        jax.jit(lambda x: x * 3)(1.0)
    assert log.traces  # the course's own go on
    assert not any(late in known for known in listeners())


def test_a_table_of_members_gives_no_name_of_pythons(monkeypatch):
    monkeypatch.setattr(enum.EnumType, "__call__", enum.EnumType.__call__)
    closing._close_tables_of_members()
    assert [each.name for each in enum.Enum("Colour", "red green")] == ["red", "green"]
    assert enum.Enum("Colour", {"red": 1})(1).name == "red"
    with pytest.raises(TypeError, match="__array_interface__ is a name of Python's own"):
        enum.Enum("Colour", [("__array_interface__", 1), ("red", 2)])

    class Twice:
        def __iter__(self):
            self.names = ["__array_interface__", "red"] if vars(self) else ["red"]
            return iter(self.names)

    assert [each.name for each in enum.Enum("Colour", Twice())] == ["red"]
    with pytest.raises(TypeError, match="__array_interface__ is a name of Python's own"):
        enum.Enum("Colour", type("Text", (str,), {"replace": lambda *_: ""})("__array_interface__"))


def test_a_class_that_a_notebook_makes_is_of_no_library(monkeypatch):
    for owner, name in ((enum.EnumType, "__call__"), (collections, "namedtuple"), (dataclasses, "make_dataclass")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    closing._close_tables_of_members()
    closing._close_homes_of_classes()
    names = {"__name__": "__main__", "enum": enum, "collections": collections, "dataclasses": dataclasses}
    exec(
        """made = [enum.Enum("A", "b", module="flax"), enum.Enum("A", "b")]
made += [collections.namedtuple("A", "b", module="jax")]
made += [collections.namedtuple("A", "b"), dataclasses.make_dataclass("A", "b")]""",
        names,
    )
    assert {kind.__module__ for kind in names["made"]} <= {"__main__", "types"}
    library = {"__name__": "jax.made", "collections": collections}
    exec("A = collections.namedtuple('A', 'b')", library)  # as it is imported
    assert library["A"].__module__ == "jax.made"


def test_constants_of_the_courses_modules_are_put_back():
    tool = types.ModuleType("tool")
    tool.KINDS, tool._SETS, tool.found = {"a": 1}, (set,), []
    backs = restorer._of_tools(tool)
    tool.KINDS["b"], tool._SETS = 2, (list,)
    tool.found.append(1)
    for back in backs:
        back()
    assert (tool.KINDS, tool._SETS, tool.found) == ({"a": 1}, (set,), [1])


PUTS_BACK = [cell for cell in ATTACKS if "how" in cell.metadata]
LEFT = """
import warnings
import jax
holder = [DATA, xs, Box]
holder[0]["a"] = 7
holder[1][...] = 0
jax.config.update("jax_enable_x64", True)
warnings.simplefilter("error")
np.seterr(all="raise")
"""
REACHES = """
import jax.numpy as jnp
class Helper:
    def change(self):
        self.sum = len
def g(x):
    [Helper][0].change(jnp)
    return 8
"""
IN_PLACE = "\ndef g(x):\n    x *= 0\n    return 8"
HANDED = "g(xs)\nassert xs.tolist() == [0, 0, 0]\n2 / 0"
FOUND = """assert (DATA, xs.tolist()) == ({'a': [1, 2]}, [1, 1, 1]) and jax.numpy.ones(1, float).dtype == 'float32'
import warnings
assert warnings.filters[0][0] != "error" and np.geterr()["over"] == "warn"
"""


def test_a_cell_cannot_change_a_module_and_its_own_code_can(monkeypatch):
    module, cell = types.ModuleType("numbers_of_ours"), {}
    module.__class__ = restorer._Frozen
    monkeypatch.setattr(restorer, "_notebook", cell)
    cell["module"] = module
    with pytest.raises(AttributeError, match="a cell cannot change the module numbers_of_ours: the checks use it"):
        exec("module.sum = len", cell)
    with pytest.raises(AttributeError, match="a cell cannot change the module"):
        exec("del module.__doc__", cell)
    module.sum = len
    assert module.sum is len


@pytest.mark.parametrize("where", ["cells_together", "refusal"])
def test_a_cell_that_ends_the_reading_costs_itself_alone(monkeypatch, where):
    def ends(*given):
        trees = list(given[0]) if where == "cells_together" else [given[1]]
        if any("ends_it" in ast.unparse(tree) for tree in trees):
            raise IndexError
        return whole(trees, *given[1:]) if where == "cells_together" else whole(*given)

    holder, name = (judge, where) if where == "cells_together" else (language._Reader, "visit_Module")
    whole = getattr(holder, name)
    monkeypatch.setattr(holder, name, ends)
    found = judge.judge({"ends_it = 1", "x = 2"}, course_in(*answered("")))
    assert (found["x = 2"].name, found["ends_it = 1"].name) == ("", "NotAllowed")
    assert "belongs to a cell that cannot be read" in found["ends_it = 1"].why


ASKED = """
import functools
import os
import numpy as np
np.set_printoptions(precision=3)
held, first = [DATA], functools.partial(sorted, [1, 2])
first.keywords["re" + "verse"] = True
def objects():
    return np.array([None, 1], dtype=object)
def put(names):
    names["PUT_BY_AN_ANSWER"] = "1"
def says(attempt):
    try:
        return attempt()
    except TypeError as error:
        return str(error)
class Spy:
    def __eq__(self, other):
        self.seen = other
        return True
def fields():
    kind, spy = np.dtype([("a", "i8")]), Spy()
    kind.fields == spy
    spy.seen["b"] = 3
    return [*kind.fields], [*np.dtype([("a", "i8"), ("b", "i8")]).fields], np.dtype("i8").fields
def g(x):
    held[0]["a"].append(3)
    held[0].clear()
    put(os.environ)
    return first(), [
        says(lambda: functools.partial(type(np.zeros(1)), (2,), np.uint64)(objects())),
        says(lambda: np.frombuffer(objects(), np.uint64)),
        says(lambda: np.frombuffer(objects().data, np.uint64)),
        says(lambda: np.zeros(3).resize(5, **{"ref" + "check": False})),
    ], np.frombuffer(b"ab", np.uint8).tolist(), len(DATA["a"]), fields()
"""
ASKED_CHECK = """import os
print(g(2))
assert DATA == {"a": [1, 2]} and "PUT_BY_AN_ANSWER" not in os.environ
assert np.get_printoptions()["precision"] == 8"""


def test_what_no_name_shows_is_asked_or_lent_when_it_is_there(tmp_path):
    """Memory of objects, words behind two stars, words of a partial; the course's tables and the environment."""
    made, release = answered(ASKED, ASKED_CHECK)
    with Runner(made, tmp_path, 60, guard=Guard(made, course_in(made, release))) as runner:
        runner.run_all()
    assert [failure_text(cell) for cell in made.cells if is_graded(cell)] == [""]
    first, said, numbers, length, fields = ast.literal_eval(made.cells[2].outputs[0].text)
    assert (first, numbers, length, fields) == ([1, 2], [97, 98], 2, (["a"], ["a", "b"], None))
    assert [re.findall("no arguments|array of objects|no answer needs", text) for text in said] == [
        *(["no arguments"], ["array of objects"], ["array of objects"], ["no answer needs"])
    ]


def test_what_libraries_give_attributes_of_any_name_names_no_memory():
    from flax import nnx

    memory.close_libraries()
    one = nnx.Variable(1)
    one.set_metadata("__array_interface__", {"shape": (1,), "typestr": "<u8", "data": (id(one), False), "version": 3})
    assert not hasattr(one, "__array_interface__")


def test_a_cell_whose_tree_cannot_be_changed_is_not_run():
    """Of any other error IPython would say so, forget who asks, and run the cell as it stands."""
    shell = InteractiveShell()
    keeper = types.SimpleNamespace(known="a cell")
    changes = {"a cell": types.SimpleNamespace(visit=lambda tree: 1 / 0)}
    shell.ast_transformers.append(restorer._Of(keeper, changes))
    result = shell.run_cell("has_run = True")
    assert isinstance(result.error_before_exec, InputRejected) and "has_run" not in shell.user_ns
    keeper.known = "another cell"
    assert shell.run_cell("has_run = True").success and len(shell.ast_transformers) == 1


EVALUATES = "def g(x):\n    return eval('x + x')"  # nothing beside it could be run


@pytest.mark.notebooks
def test_in_a_kernel(tmp_path):
    """Every cell that is only put back, one behind the other, each with a check of its own; and what they left."""
    answers = [cell.source for cell in PUTS_BACK] + [LEFT, REACHES, EVALUATES, "def f(:", "x = %time 1 + 1"]
    wrong = [source if "def g" in source else source + WRONG for source in answers]
    cells = [(SETUP, locked("setup"))]
    released = [(SETUP, locked("setup"))]
    for n, source in enumerate(wrong):
        cells += [(source, solution(f"g{n}")), (CHECK + f"\n{n}", graded(f"check{n}", n + 1))]
        released += [(STUB, solution(f"g{n}")), cells[-1]]
    cells += [(IN_PLACE, solution("in-place")), (HANDED, graded("handed", 200)), (FOUND, graded("found", 100))]
    released += [(STUB, solution("in-place")), *cells[-2:]]
    made = notebook(*cells)
    with Runner(made, tmp_path, 60, guard=Guard(made, course_in(made, notebook(*released)))) as runner:
        run_fairly(runner, 300)
    scores = {cell.metadata.nbgrader["grade_id"]: score(cell).earned for cell in made.cells if is_graded(cell)}
    assert scores.pop("found") == 100, failure_text(made.cells[-1])
    assert set(scores.values()) == {0.0}
    said = {cell.metadata.nbgrader["grade_id"]: "".join(o.get("text", "") for o in cell.outputs) for cell in made.cells}
    assert said["g0"] == "check is a name of the course's or of Python's: its meaning was put back after this cell.\n"
    reaches = next(n for n, source in enumerate(wrong) if source == REACHES)
    error = failure_text(next(c for c in made.cells if c.metadata.nbgrader.get("grade_id") == f"check{reaches}"))
    assert "a method of Helper that writes attributes was given an object of" in error
    found = fault(made)
    left_out = [cell.outputs[0].evalue for cell in made.cells if "left out" in str(cell.outputs)]
    assert found.title == "A cell was left out" and len(left_out) == 1, left_out
    assert [cell.source for cell in made.cells] == [source for source, _ in cells]


LISTENS = """heard = []
class Every:
    def __eq__(self, other):
        heard.append(other)
        return True
def listener(*_, **__): ...
def g(x):
    jax.monitoring.register_event_listener(listener)
    jax.monitoring.unregister_event_listener(listener)
    for take_away in jax.monitoring.unregister_event_listener, jax.monitoring.unregister_event_duration_listener:
        try:
            take_away(Every())
        except TypeError as error:
            print(error)
    return len(heard)"""
LISTENS_CHECK = """from autograder import trace_log
with trace_log() as log:
    check(g(2), 0)
    jax.jit(lambda x: x * 3)(1.0)
assert log.traces"""


def test_an_object_that_equals_everything_takes_no_listener_away(tmp_path):
    """The kernel has no JAX when it starts: it is closed once it is there."""
    made, release = answered(LISTENS, LISTENS_CHECK)
    with Runner(made, tmp_path, 60, guard=Guard(made, course_in(made, release))) as runner:
        runner.run_all()
    assert failure_text(made.cells[2]) == "" and score(made.cells[2]).earned == 1
    assert made.cells[2].outputs[0].text.count("is no listener that can be told from others") == 2


PROGRAMS = """def g(x):
    said = []
    for folder in (".", "programs", tempfile.gettempdir()):
        try:
            jax.config.update("jax_compilation_" + "cache_dir", folder)
        except TypeError as error:
            said.append(str(error)[:32])
        try:
            compilation_cache.set_cache_dir(folder)
        except TypeError as error:
            said.append(str(error)[:32])
    print(said)
    jax.config.update("jax_enable_x64", True)
    return 8"""
USES = "from jax.experimental.compilation_cache import compilation_cache\nimport tempfile"


@pytest.mark.parametrize("taught", [True, False])
def test_a_program_that_was_handed_in_is_none_of_jaxs(tmp_path, taught):
    setup = SETUP + USES + ("" if taught else "\n# nothing of a cache").replace("compilation", "")
    if not taught:
        setup = setup.replace(USES, "import tempfile")
    answer = PROGRAMS if taught else f"{USES}\n{PROGRAMS}"
    made, release = answered(answer, CHECK, setup)
    with Runner(made, tmp_path, 60, guard=Guard(made, course_in(made, release))) as runner:
        runner.run_all()
    assert failure_text(made.cells[2]) == ""
    refused = ast.literal_eval(made.cells[2].outputs[0].text)
    assert refused == (["the folder for compiled programs"] * 4 if taught else ["the setting 'jax_compilation_cac"] * 6)


ALONE = """class Table:
    def __init__(self, n): self.n = n
def grow(table): table.n += 1
def g(x):
    table = Table(x * 4 - 1)
    grow(table)
    return getattr(table, "n" * bool(x)){} * len({})"""


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        (("", "'a'"), ""),
        (("", "getattr(g, '__glo' + 'bals__') and 'a'"), "function is asked for '__globals__'"),
        (("", "np.frombuffer(np.empty(1, object), np.uint64)"), "memory of an array of objects is not read"),
        (("", "'{0.__{1}__}'.replace('{1}', 'class').format(g)"), "to be formatted asks for '__class__'"),
    ],
)
def test_values_are_asked_where_a_function_is_run_alone(tmp_path, ends, said):
    setup = SETUP + "from autograder.checks.run_alone import run_alone"
    made, release = answered(ALONE.format(*ends), "check(run_alone(g, 2), 8)", setup)
    with Runner(made, tmp_path, 60, guard=Guard(made, course_in(made, release))) as runner:
        runner.run_all()
    assert said in failure_text(made.cells[2]) and score(made.cells[2]).earned == (not said)


IN_A_MEASURING_PROCESS = """def g(x):
    try:
        np.frombuffer(np.empty(1, object), np.uint64)
    except TypeError:
        return x
    return x + 1"""
MEASURED = """import time
from autograder import speedup
def slow(x):
    time.sleep(0.003)
    return x
speedup(g, slow, np.ones(3), at_least=1.5)"""


def test_memory_of_objects_is_closed_where_speed_is_measured(tmp_path):
    made, release = answered(IN_A_MEASURING_PROCESS, MEASURED)
    with Runner(made, tmp_path, 60, guard=Guard(made, course_in(made, release))) as runner:
        runner.run_all()
    assert failure_text(made.cells[2]) == ""


def test_no_text_is_run_where_the_types_of_fields_are_asked_for(monkeypatch):
    monkeypatch.setattr(typing, "get_type_hints", typing.get_type_hints)
    closing._close_texts_of_types()

    class Parent:
        n: typing.Annotated[int, "so many"]
        text: "print('run')"

    class Child(Parent):
        many: list["print('run')"]

    assert typing.get_type_hints(Child) == {"n": int, "many": list["print('run')"]}
    assert typing.get_type_hints(Parent, include_extras=True) == {"n": typing.Annotated[int, "so many"]}


def test_a_module_inside_an_allowed_one_has_its_own_name_alone():
    inside = set()
    for name in (name for name, names in MODULES.items() if names is EVERYTHING and "triton" not in name):
        for attr, value in vars(importlib.import_module(name)).items():
            hidden = FORBIDDEN | OF_MODULES | OF_PACKAGES.get(name.partition(".")[0], set())
            if isinstance(value, types.ModuleType) and not attr.startswith("_") and attr not in hidden:
                inside |= {f"{name}.{attr}"} if value.__name__ in MODULES else set()
    assert inside - MODULES.keys() <= UNDER_ANOTHER_NAME


SWITCHES = """def g(x):
    name = "jax_" + "disable" * bool(x)
    try:
        jax.config.update(name + "_jit", True)
    except TypeError as error:
        print(error)
    jax.config.update("jax_enable_x64", True)
    seen = {"a": 1}
    seen.update(a=8)
    return seen["a"]"""


def test_a_setting_is_asked_for_when_its_name_is_there_and_put_back_after_a_check(tmp_path):
    made, release = answered(SWITCHES.replace('"disable"', "WORD"), CHECK, SETUP + '\nWORD = "disable"')
    later = notebook(("assert not jax.config.jax_enable_x64 and not jax.config.jax_disable_jit", graded("later", 1)))
    made.cells += later.cells
    with Runner(made, tmp_path, 60, guard=Guard(made, course_in(made, release))) as runner:
        runner.run_all()
    assert [failure_text(cell) for cell in made.cells if is_graded(cell)] == ["", ""]
    assert "the setting 'jax_disable_jit' is changed" in made.cells[2].outputs[0].text


def test_a_mesh_that_is_set_for_good_is_put_back(tmp_path):
    answer = "import jax\njax.set_mesh(jax.make_mesh((1,), ('i',)))\ndef g(x):\n    return x"
    made, release = answered(answer, "assert g(1) == 1 and jax.sharding.get_mesh().empty", "import jax")
    with Runner(made, tmp_path, 60, guard=Guard(made, course_in(made, release))) as runner:
        runner.run_all()
    assert [failure_text(cell) for cell in made.cells if is_graded(cell)] == [""]


PWD = "pwd - \"{__import__('builtins').__dict__.update(check=print)}\""


def test_a_cell_of_one_line_is_no_magic(tmp_path):
    """IPython takes `pwd - x` for `%pwd`, and evaluates what stands in braces behind it; Python reads a difference."""
    cells = [(SETUP, locked("setup")), (PWD, {}), ("x = 1", {}), ("def g(x): return 8", solution("g"))]
    made = notebook(*cells, (CHECK + "\nassert x == 1", graded("g-check", 1)))
    with Runner(made, tmp_path, 60, guard=Guard(made, course_in(made))) as runner:
        runner.run_all()
    assert [output.ename for output in made.cells[1].outputs] == ["NameError"]
    assert score(made.cells[4]).earned == 1


def test_a_cell_that_ipython_reads_in_another_way_is_not_run(monkeypatch):
    keeper = SimpleNamespace(known="a", text="x = 1")
    as_read = restorer._Of(keeper, {"a": restorer._AsItWasRead(keeper)})
    assert ast.unparse(as_read.visit(ast.parse("x  =  1"))) == "x = 1"
    for other in ("x = 2", "x = 1\nget_ipython()", ""):
        with pytest.raises(InputRejected, match="another program"):
            as_read.visit(ast.parse(other))


def test_a_task_that_is_not_begun_is_called_so(tmp_path):
    """The setup cell registers what says so, and what it does to the shell is taken back after it."""
    stub = f"def g(x):\n    raise NotImplementedError({STUB_SAYS!r})"
    made, release = answered(stub, CHECK, SETUP + "from autograder import assert_equal")
    with Runner(made, tmp_path, 60, guard=Guard(made, course_in(made, release))) as runner:
        runner.run_all()
    assert not_begun(made.cells[2]) == "g"


NO_CHECK_RUNS = """
async def run_code(self, *_, **__):
    return False


type(get_ipython()).run_code = run_code
"""


@pytest.mark.parametrize("guarded", [False, True])
def test_a_check_that_is_not_run_has_passed_nothing(tmp_path, guarded):
    """A cell of the course's own stands for whatever an answer may find: the kernel runs nothing any more."""
    shown = "x = 1\nassert x\n7"
    cells = [(SETUP, locked("setup")), (STUB, solution("g")), (CHECK + "\n" + shown, graded("honest", 1))]
    cells += [(NO_CHECK_RUNS, locked("broken")), ("raise ValueError", graded("lost", 2))]
    made = notebook(*cells)
    guard = Guard(made, course_in(made))
    with Runner(made, tmp_path, 60, guard=guard if guarded else None) as runner:
        runner.run_all()
    said = [[o.get("ename", "") for o in cell.outputs] for cell in made.cells]
    assert said[4] == (["NotRun"] if guarded else [])
    assert score(made.cells[4]).earned == (0 if guarded else 2)
    if guarded:
        assert fault(made).title == "A check was not run to its end"


def test_after_a_copy_of_a_locked_cell_the_courses_tables_are_as_they_were(tmp_path):
    """The kernel knows cells by their texts. What a locked cell changes stays, and this one calls an answer."""
    calls = "shown = g(table)"
    cells = [("table = [1]", locked("setup")), ("def g(x):\n    x.append(2)\n    return 0", solution("g"))]
    cells += [(calls, {}), ("assert table == [1]", graded("check", 1)), (calls, locked("calls"))]
    made = notebook(*cells, ("assert table == [1, 2]", graded("after", 1)))
    with Runner(made, tmp_path, 60, guard=Guard(made, course_in(made))) as runner:
        runner.run_all()
    assert [score(cell).earned for cell in made.cells if is_graded(cell)] == [1, 1], list(map(failure_text, made.cells))


def test_an_error_of_a_students_is_none_of_the_graders(tmp_path):
    """A class of this name: a page would show its words, although a hidden test has raised it."""
    cells = [("class KernelDied(Exception): pass", solution("g")), ("raise KernelDied('41')", graded("check", 1))]
    made = notebook(*cells)
    with Runner(made, tmp_path, 60) as runner:
        runner.run_all()
    assert score(made.cells[1]).earned == 0 and fault(made) is None


def test_the_shells_own_methods_are_put_back(monkeypatch):
    kind = type("Shell", (InteractiveShell,), {})
    backs = restorer._of_shell(kind.instance())
    before = InteractiveShell.run_code
    monkeypatch.setattr(InteractiveShell, "run_code", len)
    for back in backs:
        back()
    after = InteractiveShell.run_code
    kind.clear_instance()
    assert after is before


def test_an_answer_is_told_how_large_arrays_are_and_has_none_of_them(monkeypatch):
    monkeypatch.setattr(jax, "live_arrays", jax.live_arrays)
    monkeypatch.setattr(own_objects, "_theirs", {})
    monkeypatch.setattr(own_objects, "_own_files", {"an answer"})
    closing._close_list_of_arrays(jax)
    secret = jax.numpy.arange(1234)
    for file, there in (("a locked cell", True), ("an answer", False)):
        found = eval(compile("jax.live_arrays()", file, "eval"), {"jax": jax, "__name__": "__main__"})
        assert any(array is secret for array in found) == there
        assert secret.nbytes in [array.nbytes for array in found]
    assert not any(array is secret for array in jax.live_arrays()), "by way of a library"
    assert jax.live_arrays.__name__ == "live_arrays" and not hasattr(jax.live_arrays, "__wrapped__")


def test_jax_asks_no_object_for_a_field_that_is_pythons(monkeypatch):
    monkeypatch.setattr(jax.tree_util, "register_dataclass", jax.tree_util.register_dataclass)
    closing._close_fields_of_classes(jax)
    names = {"jax": jax, "functools": functools, "dataclasses": dataclasses, "__name__": "__main__"}
    registers = "@functools.partial(jax.tree_util.register_dataclass, data_fields=[{!r}], meta_fields=[])\n"
    with pytest.raises(TypeError, match="is a name of Python's own"):
        exec(registers.format("__dict__") + "class C: pass", names)
    exec(registers.format("x") + "@dataclasses.dataclass\nclass C:\n    x: int", names)
    assert jax.tree.leaves(names["C"](3)) == [3]
    # As Flax does, while it is imported.
    exec(registers.format("__state__") + "class D: pass", names | {"__name__": "a_library"})


def test_tests_of_numpy_are_no_way_out(monkeypatch):
    monkeypatch.setattr(np, "test", np.test)
    closing._close_tests_of_numpy()
    with pytest.raises(RuntimeError, match="NumPy is not tested"):
        np.test()


# Who formats a text that nobody has read: each of these would show what the attribute of a function holds.
FORMATTED = {
    "a text": "'{0.__globals__}'.format(f)",
    "a text of its own class": "T('{0.__globals__}').show(f)",
    "a mapping": "'{x.__globals__}'.format_map({'x': f})",
    "inside a width": "'{:{0.__globals__}}'.format(1, f)",
    "a UserString": "collections.UserString('{0.__globals__}').format(f)",
    "jax.debug.print": "jax.debug.print('{0.__globals__}', f)",
    "jax.debug.print, formatted later": "jax.debug.print(None)('{0.__globals__}', f)",
    "Pallas": "pl.debug_print('{0.__globals__}', f)",
    "an axis of Matplotlib's": "StrMethodFormatter('{x.__globals__}')(f)",
    "the type of a type": "type(list[int])('{0.__globals__}', (int,)).format(f)",
    "a variable of Flax's": "nnx.Variable('{0.__globals__}').format(f)",
    "a generator behind a name": "'{0.gi_frame}'.format(i for i in ())",
    "a class, and further": "'{0.__class__.__init__}'.format(f)",
}
FORMATTED_AS_EVER = {
    "'{} {x:>3}'.format(1, x=2)": "1   2",
    "'{self}'.format(self=1)": "1",
    "'{0.shape[0]}'.format(np.ones(3))": "3",
    "'{0[_x]}'.format({'_x': 4})": "4",
    "str({1: 2}.keys()) + collections.ChainMap({1: 2}).keys().__repr__()": "dict_keys([1])KeysView(ChainMap({1: 2}))",
    "'{0.__class__.__name__} {1.__name__}'.format(1, int)": "int int",
    "'{:}'.format(jnp.float32(1.5))": "1.5",
    "str.format('{0!r:>4}', 'a')": " 'a'",
}


def test_no_text_that_is_formatted_leads_out():
    """In a process of its own: `str` itself is changed there, as in a kernel of the grader's."""
    code = [
        "import collections, jax, jax.numpy as jnp, numpy as np",
        "from flax import nnx",
        "from jax.experimental import pallas as pl",
        "from matplotlib.ticker import StrMethodFormatter",
        "from autograder.doors.guard import closing",
        "class T(str):\n    def show(self, x):\n        return super().format(x)",
        "closing.close_with_jax()",
        "def f(): ...",
        f"for way in {list(FORMATTED.values())!r}:",
        "    try: print('shown', eval(way))",
        "    except TypeError as error: print(error)",
        f"for way in {list(FORMATTED_AS_EVER)!r}: print(eval(way))",
    ]
    lines = subprocess.check_output([sys.executable, "-c", "\n".join(code)], text=True).splitlines()
    said = dict(zip(FORMATTED, lines, strict=False))
    assert {way: line for way, line in said.items() if "which no answer needs" not in line} == {}
    assert lines[len(FORMATTED) :] == list(FORMATTED_AS_EVER.values())
