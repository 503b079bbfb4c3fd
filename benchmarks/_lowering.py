"""Lower every program of a notebook for cuda and tpu, on a machine that has neither.

    python benchmarks/_lowering.py solutions/06_loops_that_compile/loops_that_compile.py ...

prints a line of JSON for each text (py:percent), the fields of `Lowered`.

A program is what JAX traces while the notebook runs: each function under `jax.jit`, and each that a check reads by
`jax.make_jaxpr`, with the types of its first call. `jax.export` lowers it for this platform, cuda and tpu at once.
Lowering tells where a platform has no rule for an operation; it compiles nothing, and says nothing of digits or time.
"""

import contextlib
import functools
import io
import json
import os
import re
import subprocess
import sys
import types
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

PLATFORMS = ("cuda", "tpu")
CALLBACK = "a callback into this Python process, which no file can hold"
LIMIT = 1800  # seconds for all notebooks of a call; ninety of work for the solutions


class Lowered(NamedTuple):
    """What the programs of one notebook came to."""

    programs: int
    inside: list[str]  # the notebook's functions that ran while one of them was traced
    callbacks: list[str]  # programs that `jax.export` takes nowhere, because they call Python
    refused: dict[str, str]  # "name, platform" -> the first line of what JAX says
    failed: list[str]  # cells that ended in an error while they were watched


def lower_notebooks(paths: Iterable[Path]) -> list[Lowered]:
    """Run each text in a process of its own, and lower what it traces; visible tests only.

    Raises RuntimeError if a process ends without an answer.
    """
    child = subprocess.run(
        [sys.executable, __file__, *map(str, paths)],
        env={**os.environ, "MPLBACKEND": "agg", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},  # what runs here is not timed
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    if child.returncode:
        raise RuntimeError(f"no answer: {(child.stderr.splitlines() or ['no word why'])[-1]}")
    return [Lowered(*json.loads(line)) for line in child.stdout.splitlines()]


class Recorder:
    """Stands in for `jax.jit` and `jax.make_jaxpr`, and notes each outermost trace.

    `new` collects (name, jitted function, arguments as types); `inside` the names of the notebook's functions that ran
    in a trace.
    """

    def __init__(self):
        self.new: list[tuple] = []
        self.inside: set[str] = set()
        self._watched = weakref.WeakKeyDictionary()
        self._silent = False

    def install(self) -> None:
        import jax

        self._jit = jax.jit
        jax.jit, jax.make_jaxpr = self._stand_in(jax.jit), self._stand_in(jax.make_jaxpr)

    @contextlib.contextmanager
    def silence(self):
        """What is traced in here is not noted: it is inside another trace, or it is only lowered."""
        before, self._silent = self._silent, True
        try:
            yield
        finally:
            self._silent = before

    def _stand_in(self, real: Callable) -> Callable:
        @functools.wraps(real)
        def stand_in(*args, **options):
            if not args:  # @jax.jit(static_argnames=...)
                return functools.partial(stand_in, **options)
            fn, *rest = args
            watched = self._watch(fn, real is self._jit, options)
            made = real(watched, *rest, **options)
            if watched is not fn and real is self._jit:
                watched.jitted = made
            return made

        return stand_in

    def _watch(self, fn: Callable, jitted: bool, options: dict) -> Callable:
        """`fn`, noting its arguments when it is traced. The same for the same options: JAX keeps its traces by it."""
        if not isinstance(fn, types.FunctionType) or hasattr(fn, "jitted"):
            return fn
        kinds = self._watched.setdefault(fn, {})
        kind = repr((jitted, sorted(options.items())))
        if kind not in kinds:
            kinds[kind] = self._watching(fn, options)
        return kinds[kind]

    def _watching(self, fn: Callable, options: dict) -> Callable:
        import jax

        @functools.wraps(fn)
        def watching(*args, **kwargs):
            traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs)))
            if self._silent or not traced:
                return fn(*args, **kwargs)
            static = {name: value for name, value in options.items() if name.startswith("static")}
            self.new.append((fn.__name__, watching.jitted or self._jit(fn, **static), *types_of((args, kwargs))))
            before = sys.getprofile()
            sys.setprofile(self._note)
            try:
                with self.silence():
                    return fn(*args, **kwargs)
            finally:
                sys.setprofile(before)

        watching.jitted = None
        return watching

    def _note(self, frame, event, _) -> None:
        if event == "call" and frame.f_code.co_filename.startswith("<cell"):
            self.inside.add(frame.f_code.co_name)


def types_of(tree):
    """A tree with each tracer replaced by a type that makes the same trace. What is no tracer is static, and stays."""
    import jax

    def type_of(leaf):
        if not isinstance(leaf, jax.core.Tracer):
            return leaf
        aval = jax.typeof(leaf)
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)

    return jax.tree.map(type_of, tree)


def refusals(jitted: Callable, args: tuple, kwargs: dict) -> dict[str, str]:
    """Platform -> why the program cannot be lowered for it, empty if it can for all; or {"": CALLBACK}.

    Nothing is said of a program that cannot be lowered for this machine either: the notebook shows that error itself.
    """
    import jax.export

    def reason(*platforms):
        try:
            jax.export.export(jitted, platforms=platforms)(*args, **kwargs)
        except Exception as error:
            return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        return None

    here = jax.export.default_export_platform()
    if reason(here, *PLATFORMS) is None:
        return {}
    if why := reason(here):
        return {"": CALLBACK} if "callback" in why else {}
    return {platform: why for platform in PLATFORMS if (why := reason(here, platform))}


def _quick_clocks() -> None:
    """No function of a notebook is timed here: `speedup` only traces its two, `benchmark` runs one round."""
    import autograder
    from autograder import benchmark

    def speedup(candidate, baseline, *args, at_least=None):
        for fn in (candidate, baseline):
            if hasattr(fn, "trace"):
                fn.trace(*args)
        return types.SimpleNamespace(ratio=1e6, at_least=lambda threshold: "pass")

    autograder.speedup = speedup
    autograder.benchmark = lambda fn, *args, rounds=1: benchmark(fn, *args, rounds=1)


def _run(path: Path) -> Lowered:
    import jupytext
    from IPython.core.interactiveshell import InteractiveShell

    os.chdir(path.parent)
    recorder = Recorder()
    recorder.install()
    _quick_clocks()
    shell = InteractiveShell.instance()
    programs, callbacks, refused, failed = 0, [], {}, []
    for number, cell in enumerate(jupytext.read(path).cells):
        if cell.cell_type != "code":
            continue
        source = re.sub(r"### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", "", cell.source, flags=re.DOTALL)
        shell.compile.get_code_name = lambda *_, number=number: f"<cell {number}>"
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            result = shell.run_cell(source)
        if not result.success:
            error = result.error_in_exec or result.error_before_exec
            failed.append(f"cell {number}: {type(error).__name__}: {str(error)[:200]}")
        recorded, recorder.new = recorder.new, []
        for name, *program in recorded:  # its trace is kept by JAX: mostly no Python of the notebook runs again
            programs += 1
            with recorder.silence():
                for platform, why in refusals(*program).items():
                    if platform:
                        refused.setdefault(f"{name}, {platform}", why)
                    else:
                        callbacks.append(name)
    return Lowered(programs, sorted(recorder.inside), sorted(set(callbacks)), refused, failed)


def main(paths: list[Path]) -> None:
    import flax.nnx  # noqa: F401 (what the notebooks import, once for all of them)
    import IPython.core.interactiveshell  # noqa: F401
    import jax.export  # noqa: F401
    import jupytext  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import optax  # noqa: F401

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a notebook and its processes write is no answer
    for path in paths:
        child = os.fork()  # JAX has been imported and not yet used
        if not child:
            status = 1
            try:
                print(json.dumps(_run(path)), file=answers, flush=True)
                status = 0
            finally:
                os._exit(status)
        if os.waitpid(child, 0)[1]:
            sys.exit(f"{path}: the process ended without an answer")


if __name__ == "__main__":
    main([Path(name).resolve() for name in sys.argv[1:]])
