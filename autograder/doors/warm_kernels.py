"""Kernels that start warm: forked from a process that has imported JAX and what else every notebook imports.

A kernel takes two seconds of work to start and to import; whoever runs many notebooks pays them once. The forked
kernel is a process of its own, in its own process group, and starts JAX's backend itself: none exists before the fork.
Where one cannot fork safely (macOS, Windows), or when the environment has changed since the imports, which read it,
kernels start as they always do.
"""

import functools
import gc
import os
import signal
import subprocess
import sys
import threading
import types
import uuid
from multiprocessing import connection, current_process, get_context, parent_process, set_start_method
from typing import Any
from unittest.mock import patch

from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner

from autograder.measuring.fork_server import AVAILABLE, ONE_THREAD, ForkServer

# Not the public names of `autograder`: the first use of one, in the kernel, prepares that kernel.
IMPORTED = [
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "matplotlib.figure",  # not pyplot, which looks for a kernel when it is imported
    "jax.export",
    "jax.numpy",
    "scipy.linalg",  # JAX looks for LAPACK in it when it first compiles for a CPU
    "autograder.checks.allclose",
    "autograder.checks.max_traces",
    "autograder.checks.primitives",
    "autograder.checks.prediction",
    "autograder.instruments.benchmark",
    "autograder.measuring.speedup",
    "autograder.measuring.worker.jobs",  # for its measuring process, which is forked off before there is a kernel
    "autograder.doors.guard.closing",  # which both of them call first where a notebook is graded
]
# What a measuring process can make undone, or is to have; of anything else that JAX has read it would know nothing.
_OF_JAX = {"JAX_PLATFORMS", "JAX_COMPILATION_CACHE_DIR"}
_OF_JAX |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"}
_OF_ONE_KERNEL = {"JPY_PARENT_PID", "JPY_SESSION_NAME", "PYTEST_CURRENT_TEST"}  # differ; no import reads them

_imported_under: dict[str, str] | None = None  # the environment of the process that kernels are forked from


def show_a_traceback() -> None:
    """As IPython does it, once: what it looks up for its first one every forked process has then (0.2 s of each)."""
    from IPython.core.ultratb import AutoFormattedTB

    try:
        raise NotImplementedError
    except NotImplementedError:
        AutoFormattedTB(mode="Context").structured_traceback(*sys.exc_info())


@functools.cache
def python_path() -> list[str]:
    """Where a new Python looks for modules. This process may look in more places: a test runner's, a script's."""
    printed = subprocess.check_output([sys.executable, "-c", "import sys; print(*sys.path[1:], sep='\\n')"], text=True)
    return printed.splitlines()


class WarmKernelManager(AsyncKernelManager):
    """A kernel manager whose kernel is forked, where that is possible."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.kernel_id = str(uuid.uuid4())
        self.provisioner = _Provisioner(kernel_id=self.kernel_id, kernel_spec=self.kernel_spec, parent=self)


class _Provisioner(LocalProvisioner):
    async def launch_kernel(self, cmd, **kwargs):
        """As in the parent class, but for the process."""
        environment = dict(kwargs.get("env") or os.environ)
        if not _can_fork(environment):
            return await super().launch_kernel(cmd, **kwargs)
        self.cwd = kwargs.get("cwd") or os.getcwd()
        process: Any = _fork(cmd[cmd.index("-m") + 2 :], environment, str(self.cwd))
        self.process, self.pid, self.pgid = process, process.pid, process.pid
        return self.connection_info


class _Forked:
    """What a provisioner asks of a `subprocess.Popen`, of a forked process."""

    stdin = stdout = stderr = None

    def __init__(self, process):
        self._process, self.pid = process, process.pid

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired("kernel", timeout or 0)
        return self.poll()

    def send_signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def terminate(self):
        self.send_signal(signal.SIGTERM)


def _can_fork(environment: dict[str, str]) -> bool:
    """On Linux, unless a variable has changed since the imports, or this process may have no children."""
    global _imported_under
    settings = {name: value for name, value in environment.items() if name not in _OF_ONE_KERNEL}
    if sys.platform == "linux" and _imported_under is None:
        _imported_under = settings
    return settings == _imported_under and not current_process().daemon


def _fork(arguments: list[str], environment: dict[str, str], folder: str) -> _Forked:
    """Start a kernel; it has its own process group when this returns."""
    context = get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    ready, in_kernel = context.Pipe(duplex=False)
    process = context.Process(target=_kernel, args=(arguments, environment, folder, python_path(), in_kernel))
    # A child would import this process's main script again, `nbgrader` for one.
    with patch.dict(sys.modules, {"__main__": types.ModuleType("__main__")}), patch.dict(os.environ, ONE_THREAD):
        process.start()
    in_kernel.close()
    ready.recv()
    return _Forked(process)


def _kernel(arguments: list[str], environment: dict[str, str], folder: str, path: list[str], ready) -> None:
    """What runs in the forked process."""
    os.setsid()
    gc.freeze()  # what is imported is no garbage and holds no tracer: JAX's leak checker looks at all the rest
    ready.send(None)
    ready.close()
    move_in(environment, folder, path)
    threading.Thread(target=_end_with_the_starter, daemon=True).start()
    become_kernel(arguments)


def move_in(environment: dict[str, str], folder: str, path: list[str]) -> None:
    """Give this forked process what is its own, and a server from which its measuring processes are forked."""
    from autograder.measuring import bench
    from autograder.measuring.worker import main

    one_thread = ONE_THREAD.items() <= os.environ.items()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:] = path
    if AVAILABLE and one_thread and _OF_JAX.issuperset(name for name in environment if name.startswith("JAX_")):
        bench.fork_server = ForkServer(main.forked)


def become_kernel(arguments: list[str]) -> None:
    """From now on this forked process is a kernel, as `python -m ipykernel_launcher` starts it. Does not return."""
    import matplotlib
    import numpy as np
    from ipykernel.kernelapp import IPKernelApp

    sys.modules["debugpy"] = None  # type: ignore[assignment]  # nobody debugs it, and to import that takes 0.1 s
    import ipykernel.debugger  # noqa: F401

    del sys.modules["debugpy"]

    set_start_method(None, force=True)  # the learner's own choice, as in any kernel
    sys.argv[:] = ["ipykernel_launcher", *arguments]
    # What their imports would have done in this process:
    np.random.seed()
    matplotlib.rcParams["backend"] = os.environ.get("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    IPKernelApp.launch_instance(
        argv=arguments, parent_handle=os.getppid() or 1
    )  # 0: in a box, whose keeper sees to its end


def _end_with_the_starter() -> None:
    starter = parent_process()
    assert starter is not None, "this process is a child"
    connection.wait([starter.sentinel])
    os._exit(1)
