"""Run a notebook's cells in one kernel: a time limit for each, a plain line for a kernel that dies."""

import math
import os
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from queue import Empty
from tempfile import TemporaryDirectory

from jupyter_client import AsyncKernelClient, AsyncKernelManager
from jupyter_core.utils import run_sync
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output

from .warm_kernels import WarmKernelManager

CELL_SECONDS = 60
STARTS = 3
COLD = 2  # kernels that start as usual; a process that needs more will need many, and they are forked

_kernels = count(1)  # of this process


class Runner:
    """A kernel for one notebook; `with Runner(notebook, folder) as runner: runner.run(index)`.

    Cells are executed in place. An error never stops the run: it is an output of its cell, as in JupyterLab.

    Arguments:
      notebook: read by `read_notebook`; its code cells receive their outputs.
      folder: the kernel's working folder.
      seconds: time limit of each cell; the attribute may be changed between two cells.
    """

    def __init__(self, notebook: NotebookNode, folder: Path, seconds: float = CELL_SECONDS):
        self.notebook, self.seconds = notebook, seconds
        self._client = NotebookClient(
            notebook,
            allow_errors=True,
            kernel_name="python3",  # a submission may name a kernel that is not here
            kernel_manager_class=AsyncKernelManager if next(_kernels) <= COLD else WarmKernelManager,
            shutdown_kernel="immediate",  # nothing in it is waited for
            extra_arguments=["--IPKernelApp.log_level=ERROR"],  # it warns of its transport on every start
            resources={"metadata": {"path": str(folder)}},
            on_cell_executed=_keep_error,
        )
        self._stack = ExitStack()
        self._started = False
        self._dead = ""

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *exception) -> None:
        self._stack.close()

    def run(self, index: int) -> NotebookNode:
        """Execute the code cell at `index` and return it, its outputs filled in."""
        cell = self.notebook.cells[index]
        cell.outputs = []
        if self._dead:
            _end_in(cell, "KernelDied", self._dead)
            return cell
        if not self._started and not self._start():
            self._died(cell, f"no kernel started in {STARTS} attempts: the machine has no room, or its ports are taken")
            return cell
        self._client.timeout = math.ceil(self.seconds)
        try:
            self._client.execute_cell(cell, index)
        except CellTimeoutError:
            self._interrupt(cell)
        except DeadKernelError:
            self._died(cell, "the kernel died while this cell ran: killed, crashed, or left by os._exit")
        return cell

    def _start(self) -> bool:
        """Start the kernel. The ports it is told to use were free a moment before; another process may be quicker."""
        for _ in range(STARTS):
            with suppress(RuntimeError):
                self._stack.enter_context(self._client.setup_kernel(env=self._environment()))
                self._started = True
                return True
        return False

    def _environment(self) -> dict[str, str]:
        """The kernel's environment. Below a home that is read-only, Matplotlib would complain in every first cell."""
        if "MPLCONFIGDIR" in os.environ or os.access(Path.home(), os.W_OK):
            return dict(os.environ)
        return {**os.environ, "MPLCONFIGDIR": self._stack.enter_context(TemporaryDirectory())}

    def run_new(self, source: str, metadata: dict | None = None) -> NotebookNode:
        """Append a code cell to the notebook, execute it and return it."""
        self.notebook.cells.append(new_code_cell(source, metadata=metadata or {}))
        return self.run(len(self.notebook.cells) - 1)

    def run_all(self) -> None:
        """Execute every code cell, in order."""
        for index, cell in enumerate(self.notebook.cells):
            if cell.cell_type == "code":
                self.run(index)

    def _interrupt(self, cell: NotebookNode) -> None:
        line = f"this cell ran longer than its {self.seconds:g} s and was stopped; does a loop never end?"
        if not run_sync(self._listens_again)():
            self._died(cell, line)
            return
        cell.outputs = [o for o in cell.outputs if o.output_type != "error"]  # the KeyboardInterrupt
        _end_in(cell, "TimeLimit", line)

    async def _listens_again(self) -> bool:
        """Interrupt the kernel, and end it if that does not help: compiled code does not see an interrupt."""
        kernel, channels = self._client.km, self._client.kc
        assert isinstance(kernel, AsyncKernelManager) and isinstance(channels, AsyncKernelClient)
        await kernel.interrupt_kernel()
        channels.execute("", silent=True)
        try:
            while True:  # replies to the interrupted cell come first
                reply = await channels.get_shell_msg(timeout=5)
                if reply["content"]["status"] == "ok":
                    return True
        except Empty:
            await kernel.shutdown_kernel(now=True)
            return False

    def _died(self, cell: NotebookNode, line: str) -> None:
        name = cell.metadata.get("nbgrader", {}).get("grade_id") or cell.source.strip().split("\n")[0][:40]
        self._dead = f"not run, because the kernel had died in an earlier cell ({name})"
        _end_in(cell, "KernelDied", line)


def _keep_error(cell: NotebookNode, execute_reply: dict, **_) -> None:
    """Note an error that left no error output, because IPython could not format it: it would earn full marks."""
    reply = execute_reply["content"]
    if reply["status"] == "error" and not any(output.output_type == "error" for output in cell.outputs):
        _end_in(cell, reply["ename"], reply["evalue"])


def _end_in(cell: NotebookNode, name: str, line: str) -> None:
    cell.outputs.append(new_output("error", ename=name, evalue=line, traceback=[f"{name}: {line}"]))
