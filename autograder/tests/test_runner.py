"""Running a notebook: errors, endless loops and dead kernels each stay in their cell."""

import os
from pathlib import Path

import pytest
from jupyter_client import AsyncKernelClient
from jupyter_core.utils import run_sync
from nbclient import NotebookClient

from autograder.doors.graded_notebook import failure_text
from autograder.doors.kernel_runner import COLD, STARTS, NoAnswer, Runner

pytestmark = pytest.mark.once  # the same on every version

STUCK = "from jax import jit, lax; jit(lambda i: lax.while_loop(lambda i: i >= 0, lambda i: i * 0, i))(0) + 0"


def run(notebook, folder, seconds=60):
    with Runner(notebook, folder, seconds) as runner:
        runner.run_all()
    return [failure_text(cell) for cell in notebook.cells]


def text(cell):
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def test_an_error_does_not_stop_the_run(tmp_path, make_notebook):
    notebook = make_notebook("1 / 0", "import os; print(os.getcwd())")
    failures = run(notebook, tmp_path)
    assert failures[0].endswith("ZeroDivisionError: division by zero")
    assert text(notebook.cells[1]).strip() == str(tmp_path)


def test_below_a_read_only_home_matplotlib_keeps_its_files_elsewhere(tmp_path, make_notebook, monkeypatch):
    access = os.access
    monkeypatch.delenv("MPLCONFIGDIR", raising=False)
    monkeypatch.setattr(os, "access", lambda path, *how: path != Path.home() and access(path, *how))
    notebook = make_notebook("import os; print(os.path.isdir(os.environ['MPLCONFIGDIR']), os.environ['MPLCONFIGDIR'])")
    assert run(notebook, tmp_path) == [""]
    existed, folder = text(notebook.cells[0]).split(maxsplit=1)
    assert existed == "True" and not Path(folder.strip()).exists()


def test_ipython_is_not_asked_for_its_folder(tmp_path, make_notebook, monkeypatch):
    """Where the home folder is read-only it makes a temporary one each time, and leaves it there."""

    def asked():
        raise AssertionError("asked for IPython's folder")

    monkeypatch.setattr("IPython.paths.get_ipython_dir", asked)
    for _ in range(COLD + 1):  # the last of them is forked, where the system allows
        assert run(make_notebook("1 + 1"), tmp_path) == [""]


@pytest.mark.parametrize("wait", [False, True])
def test_what_is_graded_cannot_be_cleared(tmp_path, make_notebook, wait):
    cell = (
        "ip = get_ipython(); ip.displayhook(3); print('gone'); " + f"ip.display_pub.clear_output({wait}); print('on')"
    )
    notebook = make_notebook(cell)
    assert run(notebook, tmp_path) == [""]
    assert [output.output_type for output in notebook.cells[0].outputs] == ["execute_result", "stream"]
    assert text(notebook.cells[0]) == "on\n"


def test_an_endless_python_loop_costs_its_own_cell(tmp_path, make_notebook):
    notebook = make_notebook("import time", "while True: time.sleep(0.01)", "print('on')")
    failures = run(notebook, tmp_path, seconds=3)
    assert failures == ["", "TimeLimit: this cell ran longer than its 3 s and was stopped; does a loop never end?", ""]
    assert text(notebook.cells[2]) == "on\n"


def test_the_time_limit_may_be_changed_between_two_cells(tmp_path, make_notebook):
    with Runner(make_notebook(), tmp_path, 60) as runner:
        runner.seconds = 1.5
        cell = runner.run_new("while True: pass")
        assert "longer than its 1.5 s" in failure_text(cell)
        assert not failure_text(runner.run_new("print(1)"))


@pytest.mark.thorough
def test_compiled_code_that_never_ends_costs_the_kernel(tmp_path, make_notebook):
    failures = run(make_notebook("print(1)", STUCK, "print(2)"), tmp_path, seconds=8)
    assert failures == [
        "",
        "KernelDied: this cell ran longer than its 8 s and was stopped; does a loop never end?",
        f"KernelDied: not run, because the kernel had died in an earlier cell ({STUCK[:40]})",
    ]


def test_a_dead_kernel_fails_its_cells_with_one_line_each(tmp_path, make_notebook):
    failures = run(make_notebook("print(1)", "import os; os._exit(1)", "print(2)"), tmp_path)
    assert failures == [
        "",
        "KernelDied: the kernel died while this cell ran: killed, crashed, or left by os._exit",
        "KernelDied: not run, because the kernel had died in an earlier cell (import os; os._exit(1))",
    ]


def occupied(monkeypatch, attempts):
    """As if another process took a port of the kernel in its first `attempts` starts: it ends before it answers."""
    start, left = NotebookClient.start_new_kernel, iter(range(attempts))

    def start_or_end(client, **kwargs):
        start(client, **kwargs)
        if next(left, None) is not None:
            run_sync(client.km.shutdown_kernel)(now=True)

    monkeypatch.setattr(NotebookClient, "start_new_kernel", start_or_end)


def test_a_kernel_that_does_not_start_is_started_again(tmp_path, make_notebook, monkeypatch):
    occupied(monkeypatch, 1)
    notebook = make_notebook("x = 1", "print(x)")
    assert run(notebook, tmp_path) == ["", ""]
    assert text(notebook.cells[1]) == "1\n"


def test_a_kernel_that_never_starts_is_one_line_each(tmp_path, make_notebook, monkeypatch):
    occupied(monkeypatch, STARTS)
    failures = run(make_notebook("x = 1", "print(x)"), tmp_path)
    assert failures == [
        "KernelDied: no kernel started in 3 attempts: the machine has no room, or its ports are taken",
        "KernelDied: not run, because the kernel had died in an earlier cell (x = 1)",
    ]


def test_an_exception_that_cannot_be_shown_is_still_an_error(tmp_path, make_notebook):
    source = """class Sly(Exception):
    def _render_traceback_(self):
        raise ValueError
raise Sly("full marks, please")"""
    failures = run(make_notebook(source), tmp_path)
    assert failures == ["Sly: full marks, please"]


class Flooding(AsyncKernelClient):
    """Of a kernel that sends the same message whenever it is looked for one."""

    message: dict = {}

    async def get_shell_msg(self, *, timeout=None):
        return self.message


OTHERS = {"content": {"status": "ok"}, "parent_header": {"msg_id": "nobody"}}
NO_REPLIES = [{}, {"content": {}}, {"content": {"status": "ok"}}, {"content": [], "parent_header": {"msg_id": "asked"}}]


@pytest.mark.parametrize("message", [OTHERS, *NO_REPLIES])
def test_replies_that_are_to_nobody_or_none_are_not_waited_for(tmp_path, make_notebook, message):
    with Runner(make_notebook("1"), tmp_path) as runner:
        runner._client.kc = Flooding()
        runner._client.kc.message = message
        with pytest.raises(NoAnswer):
            run_sync(runner._answered)("asked", 0.2)
