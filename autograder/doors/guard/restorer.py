"""In the kernel, when a notebook is graded: after a student's cell, what it changed of the course's own is put back.

The guard lets no cell reach this module. It is imported before a student's first line is run.
"""

import ast
import builtins
import contextlib
import functools
import gc
import hashlib
import importlib
import os
import sys
import types
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any

from IPython.core.error import InputRejected

from autograder.measuring.fork_server import FIRST

from ..cell_messages import say_what_is_missing
from .asking import OwnObjects
from .closing import close, close_jax, close_with_jax, to_be_alone
from .contents import DEEP, attributes_back, class_back, of_function, of_value
from .memory import close_libraries
from .names_of_answers import OfAnswers
from .names_of_checks import OfChecks
from .own_objects import begin, note_tables
from .words import MODULES

_MISSING = object()
_NUMPYS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}  # what it begins with


def digest(text: str) -> str:
    """How a cell is known here."""
    return hashlib.sha256(text.encode()).hexdigest()


def install(
    kept: Collection[str],
    vessels: Collection[str],
    theirs: Mapping[str, Collection[str]],
    given: Collection[str] = (),
    checks: Collection[str] = (),
    of_checks: Collection[str] = (),
    settings: Collection[str] = (),
) -> None:
    """From now on keep the course's own, in this kernel.

    Arguments:
      kept: the names that are the course's; Python's own are added.
      vessels: those among them whose contents a student's cell may change.
      theirs: the digests of the students' cells, each with the names of the course's that are its own.
      given: those of the course's cells that are no checks.
      checks: those of the checks.
      of_checks: the names that checks alone bind.
      settings: those of JAX's that a student's cell may change.
    """
    shell = sys.modules["IPython"].get_ipython()
    say_what_is_missing(shell)  # what the setup cell registers itself is taken back after it
    keeper = _Keeper(shell, {*kept, *dir(builtins), "__builtins__"}, set(vessels), set(theirs), set(given))
    shell.events.register("pre_run_cell", keeper.before)
    shell.events.register("post_run_cell", keeper.after)
    shell.prefilter_manager.prefilter_lines = lambda lines, continue_prompt=False: lines
    shell.ast_transformers.append(_Of(keeper, dict.fromkeys(theirs, _AsItWasRead(keeper))))
    shell.ast_transformers.append(_Of(keeper, dict.fromkeys(theirs, OwnObjects())))
    shell.ast_transformers.append(_Of(keeper, {known: OfAnswers(names) for known, names in theirs.items() if names}))
    shell.ast_transformers.append(_Of(keeper, dict.fromkeys(checks, OfChecks(of_checks))))
    shell.ast_transformers.append(_Of(keeper, {known: _SaysItsEnd(known) for known in checks}))
    begin(settings)
    close()
    os.environ[FIRST] = f"{close_with_jax.__module__}:{close_with_jax.__name__}"
    sys.path[:] = [place for place in sys.path if place]  # what lies beside the notebook is no module


class _Keeper:
    def __init__(self, shell, kept: set[str], vessels: set[str], theirs: set[str], given: set[str]):
        self.shell, self.kept, self.vessels, self.theirs, self.given = shell, kept, vessels, theirs, given
        self.put_back: list[Callable[[], None]] = []
        self.names: dict[str, object] = {}
        self.contents: dict[str, tuple[object, list[Callable[[], None]]]] = {}
        self.tools: dict[str, list[Callable[[], None]]] = {}
        self.known = self.text = ""
        self.jax_closed = False

    def before(self, info) -> None:
        """A cell is about to run."""
        self.put_back, self.names = [], {}
        last_ended()  # of a copy of a check, for one, that a student has made
        if (jax := sys.modules.get("jax")) is not None and not self.jax_closed:  # a warm kernel has it from the start
            close_jax(jax)
            self.jax_closed = True
        if alone := sys.modules.get("autograder.checks.run_alone"):
            vars(alone)["as_graded"] = to_be_alone
        watched = _watched()
        _freeze(self.shell.user_ns)
        close_libraries()
        for module in watched:
            if module.__name__.partition(".")[0] == "autograder" and module.__name__ not in self.tools:
                self.tools[module.__name__] = _of_tools(module)
        self.put_back += [*map(_of_module, watched), *_of_shell(self.shell)]
        note_tables({name: self.shell.user_ns.get(name) for name in self.kept - self.vessels})
        self.text = info.raw_cell
        self.known = digest(self.text)
        if self.known not in self.given:  # an answer that a check calls can change them, too
            self.keep_contents()
            self.restore()  # what came late, from a thread or a callback
            self.put_back += _of_settings()
        if self.known in self.theirs:
            self.names = {name: self.shell.user_ns.get(name, _MISSING) for name in self.kept}

    def keep_contents(self) -> None:
        """What is in the course's things now. What has been kept of a thing stays until a cell of the course's runs."""
        for name in self.kept - self.vessels:
            value = self.shell.user_ns.get(name, _MISSING)
            if value is not self.contents.get(name, (_MISSING,))[0]:
                self.contents[name] = value, of_value(value, DEEP)

    def restore(self) -> None:
        """Put back what is in the course's things, and what its checks consist of."""
        for backs in [*self.tools.values(), *(backs for _, backs in self.contents.values())]:
            for back in backs:
                back()

    def after(self, result) -> None:
        """It has run."""
        changed = []
        for name, value in self.names.items():
            if self.shell.user_ns.get(name, _MISSING) is not value:
                changed.append(name)
                if value is _MISSING:
                    del self.shell.user_ns[name]
                else:
                    self.shell.user_ns[name] = value
        for back in self.put_back:
            back()
        if self.known in self.given:
            self.contents = {}
            self.keep_contents()
        else:
            self.restore()
        self.put_back, self.names = [], {}
        self.known = self.text = ""  # what the grader itself asks for between two cells is none of them
        if changed:
            many = (
                "are names of the course's or of Python's: their meaning was"
                if len(changed) > 1
                else ("is a name of the course's or of Python's: its meaning was")
            )
            print(f"{', '.join(sorted(changed)[:5])} {many} put back after this cell.")


class _AsItWasRead(ast.NodeTransformer):
    """Refuses a cell that IPython has made into something else than Python reads in its text, as the guard has."""

    def __init__(self, keeper: _Keeper):
        self.keeper = keeper

    def visit(self, node: ast.AST) -> ast.AST:
        """The whole cell. Raises `ValueError`."""
        if ast.dump(node) != ast.dump(ast.parse(self.keeper.text)):
            raise ValueError("IPython reads another program in it than Python does")
        return node


class _Of:
    """What IPython does with the trees of some cells, by their digests, and of no other."""

    def __init__(self, keeper: _Keeper, changes: dict[str, ast.NodeTransformer]):
        self.keeper, self.changes = keeper, changes

    def visit(self, tree: ast.Module) -> ast.Module:
        change = self.changes.get(self.keeper.known)
        if change is None:
            return tree
        try:
            return change.visit(tree)
        except Exception as error:  # of any other one IPython would run the cell as it stands, and ask no more
            raise InputRejected(f"this cell could not be read: {error}") from error


_ended = ""


def ended(known: str, value: Any = None) -> Any:
    """A check, known by its digest, has come to its end, whose value is handed on."""
    global _ended
    _ended = known
    return value


def last_ended() -> str:
    """The check that has come to its end since this was asked before; empty if none has."""
    global _ended
    known, _ended = _ended, ""
    return known


class _SaysItsEnd(ast.NodeTransformer):
    """A check's last statement, which says that it was reached: what runs no check at all has passed none."""

    def __init__(self, known: str):
        self.known = known

    def visit_Module(self, node: ast.Module) -> ast.Module:
        """The whole cell, whose last value is shown as ever."""
        last = node.body[-1] if node.body else None
        said = ast.parse(f"__import__({__name__!r}, fromlist=['_']).ended({self.known!r})").body[0]
        assert isinstance(said, ast.Expr) and isinstance(said.value, ast.Call)
        place = ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0) if last is None else last
        for part in ast.walk(said):
            ast.copy_location(part, place)
        if isinstance(last, ast.Expr):
            said.value.args.append(last.value)
            last.value = said.value
        else:
            node.body.append(said)
        return node


class _Frozen(types.ModuleType):
    """A module to which no cell of the notebook can give another attribute; its own code and a test's can."""

    def __setattr__(self, name, value):
        _assert_not_a_cell(self)
        super().__setattr__(name, value)

    def __delattr__(self, name):
        _assert_not_a_cell(self)
        super().__delattr__(name)

    def __reduce__(self):
        if sys.modules.get(self.__name__) is not self:
            raise TypeError("a module that was not imported is not copied")
        return importlib.import_module, (self.__name__,)


_notebook: dict[str, object] = {}


def _assert_not_a_cell(module: types.ModuleType) -> None:
    if sys._getframe(2).f_globals is _notebook:
        raise AttributeError(f"a cell cannot change the module {module.__name__}: the checks use it")


def _freeze(names: dict[str, object]) -> None:
    """Freeze all modules: an answer may come by one that it cannot name."""
    global _notebook
    _notebook = names
    for module in list(sys.modules.values()):
        if type(module) is types.ModuleType:
            module.__class__ = _Frozen


def _watched() -> list[types.ModuleType]:
    return [
        module
        for name, module in list(sys.modules.items())
        if isinstance(module, types.ModuleType) and "._" not in name and _is_watched(name)
    ]


def _is_watched(name: str) -> bool:
    return name in MODULES or name.partition(".")[0] in ("autograder", "builtins")


def _of_module(module: types.ModuleType) -> Callable[[], None]:
    """Its functions and classes. Other attributes may be how far a module has come with something."""
    return _puts_back(vars(module), {name: value for name, value in vars(module).items() if callable(value)})


def _puts_back(names: dict, before: dict) -> Callable[[], None]:
    def back() -> None:
        for name, value in before.items():
            if names.get(name, _MISSING) is not value:
                names[name] = value

    return back


def _of_shell(shell) -> list[Callable[[], None]]:
    """What IPython does with a cell before it runs it, and with what it ends in."""
    lists = [shell.input_transformers_cleanup, shell.input_transformers_post, shell.ast_transformers]
    lists += [sys.meta_path, sys.path_hooks, sys.path, *shell.events.callbacks.values()]
    backs = [_list_back(known, list(known)) for known in lists]
    for holder, names in (
        (shell, ("custom_exceptions", "CustomTB", "displayhook", "display_pub", "input_transformer_manager")),
        (sys, ("displayhook", "excepthook", "stdout", "stderr")),
    ):
        backs.append(attributes_back(holder, {name: getattr(holder, name, _MISSING) for name in names}))
    for part in filter(None, (shell, shell.events, getattr(shell, "kernel", None))):
        for kind in type(part).__mro__[:-1]:
            if kind.__module__.partition(".")[0] in ("IPython", "ipykernel"):
                functions = {name: value for name, value in vars(kind).items() if callable(value)}
                backs.append(attributes_back(kind, functions))
    return backs


def _list_back(known: list, before: list) -> Callable[[], None]:
    def back() -> None:
        if known != before:
            known[:] = before

    return back


def _of_settings() -> list[Callable[[], None]]:
    """JAX's, NumPy's, Python's, and what becomes of warnings: left on, they would change what later checks see."""
    return [_warnings_back(), _numpy_back(), _collection_back(), _flax_back, *_of_jax(), *_listeners_back()]


def _flax_back() -> None:
    """No method of Flax's modules is intercepted by what a cell has begun and not left."""
    interceptors = getattr(sys.modules.get("flax.linen.module"), "_global_interceptor_stack", None)
    while interceptors:
        interceptors.pop()


def _collection_back() -> Callable[[], None]:
    """Whether Python collects garbage by itself: an answer may switch that off while it measures."""
    return gc.enable if gc.isenabled() else gc.disable


def _warnings_back() -> Callable[[], None]:
    kept = warnings.catch_warnings()
    kept.__enter__()
    return lambda: kept.__exit__(None, None, None)


def _numpy_back() -> Callable[[], None]:
    numpy = sys.modules.get("numpy")
    before = _NUMPYS if numpy is None else numpy.geterr()
    printed = None if numpy is None else numpy.get_printoptions()

    def back() -> None:
        if numpy := sys.modules.get("numpy"):  # the cell may have been the first to import it
            numpy.seterr(**before)
            if printed is not None and numpy.get_printoptions() != printed:
                numpy.set_printoptions(**printed)

    return back


def _of_jax() -> list[Callable[[], None]]:
    jax = sys.modules.get("jax")
    if jax is None:
        return []
    before = dict(jax.config.values)

    def back() -> None:
        for name, value in jax.config.values.items():
            if name in before and before[name] != value:
                with contextlib.suppress(Exception):  # a backend that has started holds some of them
                    jax.config.update(name, before[name])

    mesh = jax.sharding.get_mesh()

    def mesh_back() -> None:
        if jax.sharding.get_mesh() != mesh:  # one that was set without a `with`
            jax.set_mesh(mesh)

    return [back, mesh_back]


def _listeners_back() -> list[Callable[[], None]]:
    """Who listens to JAX. The course's own instruments, which may have begun to listen meanwhile, go on."""
    if "jax" not in sys.modules:
        return []
    from autograder.jax_internals import listeners

    def back(known: list, before: list) -> None:
        late = [one for one in known if one not in before and _home_of(one) in ("jax", "autograder")]
        if len(known) != len(before) + len(late):
            known[:] = [*before, *late]

    return [functools.partial(back, known, list(known)) for known in listeners()]


def _home_of(listener: Any) -> str:
    """The package whose code a listener is."""
    function = getattr(listener, "__func__", listener)
    names = function.__globals__ if type(function) is types.FunctionType else {}
    return str(names.get("__name__", "")).partition(".")[0]


def _of_tools(module: types.ModuleType) -> list[Callable[[], None]]:
    """What the functions and classes of one of the course's modules consist of, and its constants."""
    constants = {name: value for name, value in vars(module).items() if name.isupper()}
    backs = [_puts_back(vars(module), constants)]
    for value in constants.values():
        backs += of_value(value, 1)
    for value in list(vars(module).values()):
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if isinstance(value, types.FunctionType):
            backs += of_function(value)
        elif isinstance(value, type):
            backs += [class_back(value, dict(vars(value)))]
            for item in vars(value).values():
                method = getattr(item, "__func__", getattr(item, "fget", item))
                if isinstance(method, types.FunctionType):
                    backs += of_function(method)
    return backs
