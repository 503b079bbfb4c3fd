"""Run a notebook's cells in one kernel: a time limit for each, a plain line for a kernel that dies."""

import math
import os
import time
from collections import Counter
from contextlib import ExitStack, suppress
from enum import Enum
from itertools import count
from pathlib import Path
from queue import Empty

from jupyter_client import AsyncKernelClient, AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_core.paths import jupyter_path
from jupyter_core.utils import run_sync
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output

from .box.kernels import BoxedKernelManager
from .box.rules import Rules
from .faults import LEFT_OUT, NOT_RUN, TITLES, cell_name, end_in
from .graded_notebook import is_graded, nbgrader_metadata
from .guard.cells import Guard
from .guard.judge import Judged
from .guard.restorer import digest
from .held_folder import HeldFolder
from .warm_kernels import WarmKernelManager

CELL_SECONDS = 60
STARTS = 3
KEPT_OF_CELL, KEPT_OF_NOTEBOOK = 5_000_000, 50_000_000  # characters of output; a page shows far less
DRAIN_SECONDS = 5  # after an interrupt, until the kernel has sent what was printed before it and listens again
_GRADED = ("error", "execute_result")  # kinds of output that nbgrader looks at
KEPT_ERRORS = 10  # of one cell, and as many results: the first of them decides the points
COLD = 2  # kernels that start as usual; a process that needs more will need many, and they are forked

_RESTORER = '__import__("autograder.doors.guard.restorer", fromlist=["_"])'

# What reading a message raises that is none: a student's code can write to its kernel's sockets.
_NO_MESSAGE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)

_kernels = count(1)  # of this process


class End(Enum):
    """How a kernel ended."""

    DIED = "by itself"
    HUNG = "it did not listen to an interrupt"
    LIMIT = "it passed a limit of its box"
    NEVER_STARTED = "it never began"


class NoAnswer(RuntimeError):
    """A kernel has not answered in time."""


class Runner:
    """A kernel for one notebook; `with Runner(notebook, folder) as runner: runner.run(index)`.

    Cells are executed in place. An error never stops the run: it is an output of its cell, as in JupyterLab.

    Arguments:
      notebook: read by `read_notebook`; its code cells receive their outputs.
      folder: the kernel's working folder.
      seconds: time limit of each cell; the attribute may be changed between two cells.
      box: the limits of a box in which the kernel runs, in a copy of its folder; None for a learner's own code.
      guard: what judges the notebook's cells; None if all of them are run as they are.
      linked: whether the kernel can be linked with another one; it must be in a box.
    """

    def __init__(
        self,
        notebook: NotebookNode,
        folder: Path,
        seconds: float = CELL_SECONDS,
        box: Rules | None = None,
        guard: Guard | None = None,
        linked: bool = False,
    ):
        self.notebook, self.seconds = notebook, seconds
        self._folder, self._box, self._guard, self._linked = folder, box, guard, linked
        self._client = self._new_client()
        self._stack = ExitStack()
        self._started = False
        self._dead = ""
        self.end: End | None = None

    def _new_client(self) -> "_Client":
        return _Client(
            self.notebook,
            allow_errors=True,
            kernel_name="python3",  # a submission may name a kernel that is not here
            kernel_manager_class=AsyncKernelManager if next(_kernels) <= COLD else WarmKernelManager,
            shutdown_kernel="immediate",  # nothing in it is waited for
            iopub_timeout=30,  # for what a cell has printed to arrive
            extra_arguments=[
                "--IPKernelApp.log_level=ERROR",  # it warns of its transport on every start
                "--HistoryManager.hist_file=:memory:",  # no file holds what the checks say
            ],
            resources={"metadata": {"path": str(self._folder)}},
            box=self._box,
            linked=self._linked,
        )

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *exception) -> None:
        self._stack.close()

    def run(self, index: int) -> NotebookNode:
        """Execute the code cell at `index` and return it, its outputs filled in."""
        cell = self.notebook.cells[index]
        cell.outputs = []
        judged = self._guard.judged(cell) if self._guard is not None else None
        if judged is not None and judged.name:
            left_out = "this cell was left out: " if judged.name == "NotAllowed" else ""
            end_in(cell, judged.name, left_out + judged.why)
        if judged is not None and judged.parts:
            cell.metadata[LEFT_OUT] = " ".join(judged.parts)
        if cell.outputs or not (cell.source if judged is None else judged.text).strip():
            return cell
        if not self._is_ready(cell):
            return cell
        self._client.timeout = math.ceil(self.seconds)
        self._client.begin_cell()
        shown = cell.source
        try:
            cell.source = self._as_run(cell, judged)
            self._client.execute_cell(cell, index)
        except CellTimeoutError:
            self._interrupt(cell)
        except DeadKernelError:
            self._died_by_itself(cell)
        except _NO_MESSAGE:
            self._says_no_message(cell)
        else:
            self._client.end_cell(cell)
            if self._client.quits:
                self._died(cell, "this cell ended the kernel, with quit() or exit()", End.DIED)
            elif self._guard is not None and is_graded(cell) and not has_error(cell):
                self._assert_ended(cell)
        finally:
            cell.source = shown
        return cell

    def _as_run(self, cell: NotebookNode, judged: Judged | None) -> str:
        text = cell.source if judged is None else judged.text
        return text if self._guard is None or nbgrader_metadata(cell).get("locked") else self._guard.as_run(text)

    def restart(self) -> None:
        """Let the next cell run in a new kernel, if the one before has ended."""
        if self.end not in (None, End.NEVER_STARTED):
            self._stack.close()
            self._stack, self._client = ExitStack(), self._new_client()
            self._started, self._dead, self.end = False, "", None

    def _is_ready(self, cell: NotebookNode) -> bool:
        """Whether there is a kernel for this cell; if not, the cell ends in an error that says why."""
        if self._dead:
            end_in(cell, "KernelDied", self._dead)
            return False
        if not self._started and not self._start():
            line = f"no kernel started in {STARTS} attempts: the machine has no room, or its ports are taken"
            self._died(cell, line, End.NEVER_STARTED)
            return False
        return True

    def _start(self) -> bool:
        """Start the kernel. The ports it is told to use were free a moment before; another process may be quicker."""
        for _ in range(STARTS):
            with suppress(RuntimeError):
                self._stack.enter_context(self._client.setup_kernel(env=self._environment()))
                if isinstance(self._client.km, BoxedKernelManager):
                    self._client.km.seal()
                if self._guard is not None:
                    run_sync(self._keep_the_courses)(self._guard)
                self._started = True
                return True
        return False

    async def _keep_the_courses(self, guard: Guard) -> None:
        """Tell the kernel what is to be put back after a student's cell. Raises RuntimeError."""
        course, given = guard.course, sorted(map(digest, guard.given))
        theirs = {digest(guard.as_run(judged.text)): sorted(judged.apart) for judged in guard.run()}
        checks = sorted(map(digest, guard.checks))
        told = [sorted(course.kept), sorted(course.vessels), theirs, given, checks, sorted(course.of_checks)]
        told.append(sorted(course.settings))
        source = f"{_RESTORER}.install(*{told!r})"
        await self._answered(self._request(source), 60)

    def _request(self, source: str) -> str:
        """Let the kernel run a text of the grader's, of which nothing is shown; the name of this request."""
        channels = self._client.kc
        assert isinstance(channels, AsyncKernelClient)
        return channels.execute(source, silent=True)

    def _assert_ended(self, cell: NotebookNode) -> None:
        """A check that has said nothing has come to its end, or it has passed nothing."""
        try:
            ended = self._value(f"{_RESTORER}.last_ended()", self.seconds) == repr(digest(cell.source))
        except RuntimeError:  # `NoAnswer` among them
            ended = False
        if not ended:
            end_in(cell, "NotRun", "this check did not come to its end, and so it has passed nothing")

    def _value(self, expression: str, seconds: float, source: str = "") -> str | None:
        """What an expression is in the kernel, as text, once a text of the grader's was run; None if it has no value.

        Raises RuntimeError as `_answered` does.
        """
        channels = self._client.kc
        assert isinstance(channels, AsyncKernelClient)
        request = channels.execute(source, silent=True, user_expressions={"it": expression})
        said = run_sync(self._answered)(request, seconds)["user_expressions"]["it"]
        return said.get("data", {}).get("text/plain")

    async def _answered(self, request: str, seconds: float) -> dict:
        """What is replied to a request. Raises `NoAnswer` if it is not done in time, RuntimeError if it has failed."""
        channels, end = self._client.kc, time.monotonic() + seconds
        assert isinstance(channels, AsyncKernelClient)
        while (left := end - time.monotonic()) > 0:  # a kernel may send what nobody has asked for, without an end
            try:
                reply = await channels.get_shell_msg(timeout=left)
                content, asked = reply["content"], reply["parent_header"].get("msg_id")
                failed = content["status"] != "ok"
            except (Empty, *_NO_MESSAGE):
                raise NoAnswer("the kernel does not answer") from None
            if asked == request:
                if failed:
                    name, text = (content.get(key, "") for key in ("ename", "evalue"))
                    raise RuntimeError(f"{name}: {text}")
                return content
        raise NoAnswer("the kernel does not answer")

    def _environment(self) -> dict[str, str]:
        """The kernel's environment. Below a home that is read-only, Matplotlib would complain in every first cell."""
        # Typed in a notebook's cell, a command inherits the name of that notebook, which is not the one it runs.
        inherited = {name: value for name, value in os.environ.items() if name != "JPY_SESSION_NAME"}
        if "MPLCONFIGDIR" in inherited or os.access(Path.home(), os.W_OK):
            return inherited
        return {**inherited, "MPLCONFIGDIR": str(self._stack.enter_context(HeldFolder("settings")))}

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
        listens = run_sync(self._listens_again)()
        self._client.end_cell(cell, finished=False)
        if not listens:
            self._died(cell, line, End.HUNG)
            return
        cell.outputs = [o for o in cell.outputs if o.output_type != "error"]  # the KeyboardInterrupt
        end_in(cell, "TimeLimit", line)

    async def _listens_again(self) -> bool:
        """Interrupt the kernel, and end it if that does not help: compiled code does not see an interrupt."""
        kernel, channels = self._client.km, self._client.kc
        assert isinstance(kernel, AsyncKernelManager) and isinstance(channels, AsyncKernelClient)
        if self._client.overflows:  # what is on its way would be late for the next cell, or be lost with its outputs
            await kernel.shutdown_kernel(now=True)
            return False
        await kernel.interrupt_kernel()
        request = channels.execute("", silent=True)
        end = time.monotonic() + DRAIN_SECONDS
        try:
            while (left := end - time.monotonic()) > 0:  # replies to the interrupted cell come first
                reply = await channels.get_shell_msg(timeout=left)
                if reply["content"]["status"] == "ok":
                    break
            while (left := end - time.monotonic()) > 0:  # and so does what it has printed
                message = await channels.get_iopub_msg(timeout=left)
                answers = message["parent_header"].get("msg_id") == request and message["msg_type"] == "status"
                if answers and message["content"]["execution_state"] == "idle":
                    return True
        except (Empty, *_NO_MESSAGE):
            pass
        await kernel.shutdown_kernel(now=True)
        return False

    def _died_by_itself(self, cell: NotebookNode) -> None:
        kernel, why = self._client.km, ""
        if isinstance(kernel, BoxedKernelManager):
            why = kernel.why_ended
        if why:
            self._died(cell, f"the kernel was ended while this cell ran: {why}", End.LIMIT)
        else:
            self._died(cell, "the kernel died while this cell ran: killed, crashed, or left by os._exit", End.DIED)

    def _says_no_message(self, cell: NotebookNode) -> None:
        """A program in the box has written to the kernel's sockets: nothing that comes from there is to be believed."""
        kernel = self._client.km
        assert isinstance(kernel, AsyncKernelManager)
        run_sync(kernel.shutdown_kernel)(now=True)
        self._died(cell, "the kernel was ended: what it sent while this cell ran was no message", End.DIED)

    def _died(self, cell: NotebookNode, line: str, how: End) -> None:
        self.end = how
        self._dead = f"{NOT_RUN}, because the kernel had died in an earlier cell ({cell_name(cell)})"
        end_in(cell, "KernelDied", line)


def has_error(cell: NotebookNode) -> bool:
    """Whether a cell that was run has ended in an error."""
    return any(output.output_type == "error" for output in cell.outputs)


class _WithoutHeartbeat(AsyncKernelClient):
    """Whether the kernel lives, its manager knows. To stop a heartbeat takes a tenth of a second for each notebook."""

    def start_channels(self, shell=True, iopub=True, stdin=True, hb=True, control=True) -> None:
        """As in the parent class, all but the heartbeat."""
        super().start_channels(shell, iopub, stdin, hb=False, control=control)


class _Client(NotebookClient):
    """nbclient's, whose kernel may be in a box, and which keeps no more output than a page can show.

    What a kernel sends is a student's: 100 MB in a second would fill the memory of the grader.
    """

    def __init__(self, notebook: NotebookNode, *, box: Rules | None, linked: bool = False, **options):
        super().__init__(notebook, on_cell_executed=self._read_reply, **options)
        self._box, self._linked = box, linked
        self._left, self._room = KEPT_OF_NOTEBOOK, KEPT_OF_CELL
        self._dropped = 0
        self._kept: Counter[str] = Counter()
        self._idle = True
        self.quits = False  # whether a cell has asked its kernel to end

    def create_kernel_manager(self):
        """As in the parent class, or one for a box."""
        # Not in IPython's folder as well: where the home folder is read-only, it makes a temporary one for each kernel.
        kinds = KernelSpecManager(kernel_dirs=jupyter_path("kernels"))
        options = {"kernel_name": self.kernel_name, "kernel_spec_manager": kinds}
        if self._box is None:
            self.km = manager = self.kernel_manager_class(config=self.config, **options)
        else:
            folder = Path(self.resources["metadata"]["path"])
            self.km = manager = BoxedKernelManager(self._box, folder, linked=self._linked, **options)
        manager.client_factory = _WithoutHeartbeat
        return manager

    def begin_cell(self) -> None:
        """To be called before a cell is executed."""
        self._room, self._dropped, self._idle = min(KEPT_OF_CELL, self._left), 0, False
        self._kept.clear()

    @property
    def overflows(self) -> bool:
        """Whether the cell has printed more than is kept."""
        return self._dropped > 0

    def end_cell(self, cell: NotebookNode, *, finished: bool = True) -> None:
        """To be called when a cell has been executed: it says what is missing."""
        if self._dropped:
            line = f"… {self._dropped:,} characters of output left out"
            cell.outputs.append(new_output("stream", name="stdout", text=line))
        if finished and not self._idle:
            line = "what this cell wrote cannot be graded: it was too much at once, and a part of it is lost"
            end_in(cell, "OutputLimit", line)

    def _read_reply(self, cell: NotebookNode, execute_reply: dict, **_) -> None:
        """Note an error that left no error output, because IPython could not format it: it would earn full marks."""
        reply = execute_reply["content"]
        if reply["status"] == "error" and not has_error(cell):
            end_in(cell, _of_the_notebook(reply["ename"]), reply["evalue"])
        self.quits = any(wish.get("source") == "ask_exit" for wish in reply.get("payload", []))

    def process_message(self, msg, cell, cell_index):
        """As in the parent class."""
        if msg["msg_type"] == "status" and msg["content"]["execution_state"] == "idle":
            self._idle = True
        return super().process_message(msg, cell, cell_index)

    def output(self, outs, msg, display_id, cell_index):
        """As in the parent class, as long as there is room; errors and results, which are graded, have their own."""
        size, kind = _size(msg["content"]), msg["msg_type"]
        if kind == "error":
            msg = {**msg, "content": msg["content"] | {"ename": _of_the_notebook(msg["content"].get("ename"))}}
        self._kept[kind] += 1
        graded = kind in _GRADED and self._kept[kind] <= KEPT_ERRORS
        if size > self._room and not graded:
            self._dropped += size
            return None
        if size > KEPT_OF_CELL:
            msg = {**msg, "content": _cut(msg["content"])}
        self._room -= size
        self._left -= size
        return super().output(outs, msg, display_id, cell_index)

    def clear_output(self, outs, msg, cell_index):
        """What is graded stays: a thread of an answer's could take back the points that a check has said."""
        outs[:] = [output for output in outs if output.output_type in _GRADED]
        self.clear_display_id_mapping(cell_index)

    def _update_display_id(self, display_id, msg):
        size = _size(msg["content"])
        if size <= self._room:
            self._room -= size
            self._left -= size
            super()._update_display_id(display_id, msg)

    def handle_comm_msg(self, outs, msg, cell_index):
        """Widgets are not kept: one of theirs takes the outputs of other cells."""


def _of_the_notebook(name: object) -> str:
    """The name of an error, such that nobody takes it for one of the grader's."""
    return f"{name} of this notebook's" if str(name) in TITLES else str(name)


def _size(content: object) -> int:
    """The characters in the message."""
    if isinstance(content, dict):
        return sum(map(_size, content.values()))
    if isinstance(content, list):
        return sum(map(_size, content))
    return len(content) if isinstance(content, str) else 8


def _cut(content):
    """The message with nothing in it that is long."""
    if isinstance(content, dict):
        return {name: _cut(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_cut(value) for value in content[:100]]
    return content[:10_000] if isinstance(content, str) else content
