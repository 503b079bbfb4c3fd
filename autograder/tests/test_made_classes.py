"""Classes that a notebook makes: what a `class` statement says is allowed, and what texts put together is not."""

import re
import subprocess
import sys
import textwrap

import pytest

BEGIN = """
import abc, collections, dataclasses, enum, functools, random, typing
import jax, jax.numpy as jnp
from flax import linen, nnx
from autograder.doors.guard.made_classes import close_classes
close_classes()
T = typing.TypeVar("T")
"""

HONEST = """
class Plain: pass
class Pair(typing.NamedTuple):
    x: int
    y: float = 1.0
class Generic(typing.NamedTuple, typing.Generic[T]):
    x: T
@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: int
    def __post_init__(self): pass
class Derived(Frozen): pass
class Colour(enum.Enum):
    RED = 1
class Number(int, enum.Enum):
    ONE = 1
class Flags(enum.IntFlag):
    A = 1
class Base(abc.ABC):
    @abc.abstractmethod
    def f(self): ...
class Real(Base):
    def f(self): return 1
    def __call__(self): return 2
class Box(typing.Generic[T]):
    def __getitem__(self, i): return i
class Protocol(typing.Protocol):
    def f(self): ...
class Table(typing.TypedDict):
    x: int
class Text(str):
    def __new__(cls, x): return super().__new__(cls, x)
class Missing(dict):
    def __missing__(self, key): return 0
class Ordered(collections.UserDict): pass
@functools.total_ordering
class Last:
    def __lt__(self, other): return False
    def __eq__(self, other): return True
    __hash__ = None
class Network(nnx.Module):
    def __init__(self, rngs): self.layer = nnx.Linear(2, 2, rngs=rngs)
    def __call__(self, x): return self.layer(x)
Network(nnx.Rngs(0))(jnp.ones(2))
class Old(linen.Module):
    n: int
    @linen.compact
    def __call__(self, x): return linen.Dense(self.n)(x)
Old(2).init(jax.random.key(0), jnp.ones(2))
class Kept(nnx.Variable): pass
class Locked:  # a cell of the course's may hold what no answer may
    def __array_ufunc__(self, *args): ...
    def __del__(self): ...
class Several(*(Plain, dict), metaclass=abc.ABCMeta): pass
def make(base):
    class Inner(base): pass
    return Inner
make(Plain)
jax.lax.cond(True, lambda x: (x, x), lambda x: (x, 2 * x), 1.0)
try: jax.lax.cond(True, lambda x: (x, x), lambda x: [x, x], 1.0)
except TypeError as error: assert "tree" in str(error) or "structure" in str(error), error
print_nothing = str(nnx.state(Network(nnx.Rngs(0))).keys())
class Dice(random.Random):
    def roll(self): return self.randint(1, 6)
assert Dice(0).roll() in range(1, 7)
@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Leaf:
    x: float
point, members = collections.namedtuple("point", "a b"), enum.Enum("members", "A B")
match Pair(1, 2.0):
    case Pair(x, y): assert (x, y) == (1, 2.0)
"""

TRAVEL = """
class Colour(enum.Enum):
    RED = 1
    BLUE = "b"
class Pair(typing.NamedTuple):
    x: int
    y: float = 2.0
@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: int
class Any:
    def __getattr__(self, name): return "any"
class Base(abc.ABC):
    @abc.abstractmethod
    def f(self): ...
class Real(Base):
    def f(self): return 2
class Box(typing.Generic[T]):
    def __init__(self, x): self.x = x
class Missing(dict):
    def __missing__(self, key): return 0
def uses():
    found = Colour.RED.value, Colour.BLUE.value, Pair(1).y, Frozen(3).x, Any().a, Real().f(), Box(4).x, Missing()["q"]
    return found
"""

# `Kind` is `type`, however an answer has come by it.
WAYS = {
    "a class of classes": "Kind('Meta', (Kind,), {})",
    "by way of ABC's": "abc.ABCMeta('Meta', (Kind,), {})",
    "made by JAX": "jax.tree.map(Kind, 'Meta', (Kind,), {})",
    "made by map": "list(map(Kind, ['X'], [()], [{'__match_args__': ('__globals__',)}]))",
    "a partial": "functools.partial(Kind, 'X', ())({'__del__': print})",
    "an object that passes for another": "Kind('X', (), {'__class__': property(lambda self: int)})",
    "it is not told to its children": "Kind('X', (), {'__init_subclass__': classmethod(print)})",
    "a parent who tells nobody": "Kind('M', (random.Random,), {'__array_interface__': 1})",
    "a parent who was told of later": "Kind('M', (Silent,), {'__array_interface__': 1})",
    "a field's default": "MadeByAField().made",
    "made while somebody counts": "list(collections.Counter(map(functools.partial(Kind, 'Meta', (Kind,)), [{}])))",
    "a protocol": "Kind('P', (typing.Protocol,), {'__array_interface__': 1})",
    "a simple Enum": "Kind('Meta', (Kind, enum.Enum), {}, _simple=True)",
    "asks for any attribute": "Kind('P', (), {'__getattr__': print})",
    "asks for any attribute, made by JAX": "jax.tree.map(lambda n: n, jax.tree.map(Kind, 'P', (), {'__getattr__': 1}))",
    "in a helper of the course's": "helper(Kind, 'P', (), {})",
    "made by JAX, and pretends": "jax.tree.map(lambda n: Kind('X', (), {'__array_interface__': n}), 1)",
}


@pytest.fixture(scope="module")
def said():
    """What each way prints, after all honest classes have been made."""
    later = "class New[T]:\n    x: T\n" if sys.version_info >= (3, 12) else ""
    tries = f"""
exec("class Silent:\\n    def __init_subclass__(cls): pass", {{"__name__": "a_library"}}, known := {{}})
Kind, Silent = type, known["Silent"]
def helper(fn, *args): return fn(*args)
@dataclasses.dataclass
class MadeByAField:
    made: object = dataclasses.field(default_factory=functools.partial(Kind, "Meta", (Kind,), {{}}))
for way in {list(WAYS.values())!r}:
    try: print("made", eval(way))
    except TypeError as error: print(error)
"""
    code = textwrap.dedent(BEGIN) + HONEST + later + tries
    return subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()


@pytest.mark.parametrize("way", WAYS)
def test_no_class_is_made_of_texts_that_nobody_has_read(said, way):
    line = said[list(WAYS).index(way)]
    assert re.search("which no answer needs$|is made where a notebook is graded$", line), line


def test_every_way_was_tried(said):
    assert len(said) == len(WAYS)


def test_classes_of_an_answer_travel_to_the_measuring_process():
    """There cloudpickle makes them anew, without a class statement."""
    imports = "import abc, dataclasses, enum, typing\nT = typing.TypeVar('T')\n"
    make = f"""
import cloudpickle, sys
names = {{"__name__": "__main__"}}
exec({imports + TRAVEL!r}, names)
sys.modules["__main__"].__dict__.update(names)
sys.stdout.buffer.write(cloudpickle.dumps(names["uses"]))
"""
    load = """
import sys, jax
from autograder.doors.guard import closing
closing.close_with_jax()
import cloudpickle
print(*cloudpickle.loads(sys.stdin.buffer.read())())
"""
    sent = subprocess.check_output([sys.executable, "-c", make])
    said = subprocess.run([sys.executable, "-c", load], input=sent, capture_output=True, check=False)
    assert said.stdout.decode().split() == ["1", "b", "2.0", "3", "any", "2", "4", "0"], said.stderr.decode()
