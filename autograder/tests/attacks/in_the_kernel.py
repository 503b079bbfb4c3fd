# Cells that want points for an answer that is wrong: each stands above one, in the notebook's own process. What a
# cell does is refused before it runs, but for those with `how="put back"`: they run, and what they changed is put back; `how="asked when it runs"`: an error.

# %% name="rebinds the check" how="put back"
check = lambda value, expected: None

# %% name="rebinds the check in a loop" how="put back"
for check in [lambda value, expected: None]:
    pass

# %% name="rebinds the check by a pattern" how="put back"
match [lambda value, expected: None]:
    case [check]:
        pass


# %% name="rebinds the check by a walrus in a default" how="put back"
def helper(x=(check := lambda value, expected: None)):
    return x


# %% name="rebinds the check by an import" how="put back"
from functools import partial as check

# %% name="deletes what the check calls" how="put back"
del check

# %% name="gives a builtin another meaning" how="put back"
sum = len = isinstance = lambda *values: 8


# %% name="rebinds the check when it is asked"
def late(x):
    global check
    check = lambda value, expected: None
    return x


# %% name="rebinds a builtin when it is asked"
def late(x):
    global abs, all
    abs = all = lambda value: True
    return x


# %% name="another code for the check"
check.__code__ = (lambda value, expected: None).__code__

# %% name="another code, in wide letters"
check.__ｃｏｄｅ__ = (lambda value, expected: None).__ｃｏｄｅ__

# %% name="the globals of a function"
check.__globals__["check"] = lambda value, expected: None

# %% name="the globals of the notebook"
globals()["check"] = lambda value, expected: None

# %% name="a function by another name"
g_ = globals
g_()["check"] = print

# %% name="text that is run"
exec("check = print")

# %% name="text that is run, in wide letters"
ｅｘｅｃ("check = print")

# %% name="text that is run, by a builtin that is found"
[f for n, f in vars(__builtins__).items() if n == "exec"][0]("check = print")

# %% name="setattr, whose name is spliced"
setattr(check, "__co" + "de__", (lambda value, expected: None).__code__)

# %% name="setattr, handed on"
list(map(setattr, [check], ["__code__"], [(lambda value, expected: None).__code__]))


# %% name="getattr with a string that says something else each time" how="asked when it runs"
class Word(str):
    def __str__(self):
        return "__globals__"


getattr(check, Word("real"))

# %% name="a match pattern reads an attribute"
match check:
    case object(__globals__=names):
        names["check"] = print


# %% name="a match pattern with attributes in order"
class Function:
    __match_args__ = ("__globals__",)


# %% name="an isinstance that always agrees"
class Anything(type):
    def __instancecheck__(cls, value):
        return True


class Eight(metaclass=Anything):
    pass


# %% name="a format string walks to the globals"
"{0.__globals__[expected]}".format(check)

# %% name="a format string that is put together" how="asked when it runs"
("{0._" + "_globals__}").format(check)

# %% name="string.Formatter returns the object"
from string import Formatter

Formatter().get_field("0.__globals__", (check,), {})[0]["check"] = print

# %% name="operator asks for an attribute"
import operator

operator.attrgetter("__globals__")(check)["check"] = print

# %% name="operator.setitem writes what a cell cannot"
from operator import setitem

setitem(globals(), "check", print)

# %% name="the frame of the caller"
import sys


def look(x):
    return sys._getframe(1).f_globals["expected"]


# %% name="a module of modules"
import functools

functools.sys.modules["__main__"].check = print

# %% name="a module inside NumPy's"
import numpy as np

np.ctypeslib.ctypes.c_int.from_address(id(8)).value = 4

# %% name="memory by its address"
import ctypes

harmless = ctypes.py_object((lambda value, expected: None).__code__)
ctypes.pythonapi.PyObject_SetAttrString(ctypes.py_object(check), b"__code__", harmless)

# %% name="memory by strides"
import numpy as np

np.lib.stride_tricks.as_strided(np.zeros(1), shape=(10**9,))


# %% name="memory by an array interface"
class Window:
    __array_interface__ = {"data": (id(8), False), "shape": (64,), "typestr": "|u1", "version": 3}


# %% name="a generator's frame"
def forever():
    while True:
        yield


running = forever()
running.gi_frame.f_globals["check"] = print

# %% name="the frame in a traceback"
try:
    check(1, 2)
except AssertionError as error:
    error.__traceback__.tb_frame.f_globals["check"] = print


# %% name="a traceback handed to __exit__"
class Quiet:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        trace.tb_frame.f_globals["check"] = print
        return True


with Quiet():
    check(1, 2)


# %% name="an input transformer"
get_ipython().input_transformers_cleanup.append(lambda lines: ["pass\n"])

# %% name="an AST transformer, by import"
from IPython import get_ipython as shell

shell().ast_transformers.append(print)

# %% name="the display hook"
import sys

sys.displayhook(10)


# %% name="an error that shows nothing"
class Silent(Exception):
    def _render_traceback_(self):
        return []


# %% name="an exit that no check expects"
raise SystemExit


# %% name="an object that acts when it dies"
class Bomb:
    def __del__(self):
        print("now")


# %% name="a clock that runs backwards"
import time

time.perf_counter = iter(range(10**6, 0, -1)).__next__

# %% name="a clock by another name"
import time

t = time
t.perf_counter = lambda: 0.0

# %% name="a clock by a parameter"
import time


def slow_down(module=time):
    module.sleep = module.perf_counter = lambda *seconds: 0.0


# %% name="a clock inside a library"
import jax

jax.block_until_ready = lambda value: value

# %% name="the slower baseline"
import autograder

autograder.speedup = lambda *args, **options: 100.0

# %% name="the measuring process's script"
from autograder.measuring import bench

bench.main = print

# %% name="the memo of a function that is not the answer's"
import functools

functools.update_wrapper(check, functools.cache(check))

# %% name="wraps above nothing"
import functools

functools.wraps(lambda value, expected: None)(check)

# %% name="a dataclass of a class that is there"
from dataclasses import dataclass


def change(kind):
    return dataclass(kind)


# %% name="a primitive of its own"
from jax.extend.core import Primitive

add = Primitive("add")


# %% name="another rule for a primitive that is there"
def change(eqn):
    eqn.primitive.def_impl(lambda *values: values[0])


# %% name="nobody hears JAX's events any more"
import jax

jax.monitoring.clear_event_listeners()

# %% name="the baseline is not optimised"
import jax

jax.config.update("jax_disable_most_optimizations", True)

# %% name="text that pickle runs"
import pickle

pickle.loads(b"cbuiltins\nexec\n(S'check = print'\ntR.")

# %% name="text in an annotation"
import typing


def change(x: "exec('check = print')"):
    return x


typing.get_type_hints(change)


# %% name="singledispatch evaluates annotations"
from functools import singledispatch


@singledispatch
def change(x):
    return x


@change.register
def _(x: "exec('check = print')"):
    return x


# %% name="the collector finds everything"
import gc

for found in gc.get_objects():
    if getattr(found, "__name__", "") == "check":
        found.__code__ = (lambda value, expected: None).__code__

# %% name="a thread that waits for the check"
import threading


def wait():
    while True:
        globals()["check"] = print


threading.Thread(target=wait, daemon=True).start()


# %% name="what the check expects"
def peek(x):
    return expected


# %% name="what IPython keeps of the cells"
_ih[-1]

# %% name="a module beside the notebook"
from helpers import answers

answers.check = print

# %% name="everything of a module"
from jax import *

# %% name="an unbound method, whose self is a module"
import jax.numpy as jnp


class Helper:
    def change(self):
        self.__dict__.update(sum=len)


# %% name="a module of its own class"
import jax.numpy as jnp

jnp.__class__ = type(jnp)

# %% name="a method of an array's class"
import jax.numpy as jnp

kind = type(jnp.ones(1))
kind.sum = lambda array: 8

# %% name="mock"
from unittest import mock

mock.patch("__main__.check").start()

# %% name="a star keeps the name"
*check, rest = 1, 2, 3
check.append(4)

# %% name="expected values by warnings"
import warnings

warnings.warn("who?", stacklevel=3)

# %% name="lifts what a check forbids"
import jax

lifted = jax.no_tracing(False)
lifted.__enter__()

# %% name="a thread clears what a check has said"
import time
from concurrent.futures import ThreadPoolExecutor

from IPython.display import display


def clear():
    while True:
        display(clear=True)
        time.sleep(0.0005)


def hold():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(clear)
        yield


held = hold()
next(held)

# %% name="wraps a module, and has what is in it" how="asked when it runs" said="is handed to functools.wraps"
import functools
import warnings


class Hold:
    def __init__(self, what):
        functools.update_wrapper(self, what)
        self.found = dict(vars(self))


first = Hold(warnings.catch_warnings()).found["_module"]
tools = Hold(Hold(first).found["sys"]).found["modules"]
Hold(tools["builtins"]).found["exec"]("check = print", {})

# %% name="a parent's method, for any object" how="asked when it runs" said="super().__init__ is asked for"
import dataclasses


@dataclasses.dataclass
class Written:
    calls: int


class Write(Written):
    @classmethod
    def put(cls, target):
        super().__init__(target, 0)


kinds = [check]
Write.put(kinds[0])

# %% name="reads a name in the target of a loop"
held = {}
[0 for held[eval("check = print")] in [0]]


# %% name="a class that binds getattr below"
class A:
    names = getattr(check, "__globals__")
    getattr = None


# %% name="makes a class of classes, which everything is an instance of"
import typing

Kind = typing.get_origin(typing.Type[int])
Meta = Kind("Meta", (Kind,), dict([("__instance" + "check__", lambda kind, value: True)]))
Any = Meta("Any", (), dict([("__match" + "_args__", ("__glo" + "bals__",))]))
match check:
    case Any(names):
        names.update(check=lambda value, expected: None)
