"""A kernel that is forked from a process with everything imported is like one that was started."""

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest

from autograder.doors import kernel_runner, warm_kernels
from autograder.doors.kernel_runner import Runner

pytestmark = [pytest.mark.once, pytest.mark.thorough]  # they try the grader

linux = pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux")

STATE = """
import json, multiprocessing, os, sys
state = {
    "path": [place for place in sys.path if place],
    "folder": os.getcwd(),
    "environment": {k: v for k, v in os.environ.items() if k not in ("JPY_PARENT_PID", "JPY_SESSION_NAME")},
    "name": __name__,
    "public": sorted(vars(sys.modules.get("autograder", sys)).keys() & {"assert_equal", "speedup"}),
    "method": multiprocessing.get_start_method(allow_none=True),
    "interrupt": str(__import__("signal").getsignal(2)),
    "leads": os.getpgid(0) == os.getpid() == os.getsid(0),
}
print(json.dumps(state))
"""


@pytest.fixture(autouse=True)
def no_kernel_was_forked_before(monkeypatch):
    """Another test of this process may have forked some under its own environment; it would be the one to compare."""
    monkeypatch.setattr(warm_kernels, "_imported_under", None)


@pytest.fixture(params=[False, pytest.param(True, marks=linux)], ids=["started", "forked"])
def forked(request, monkeypatch):
    monkeypatch.setattr(kernel_runner, "COLD", 0 if request.param else 10**9)
    return request.param


def printed(notebook, folder, seconds=60):
    with Runner(notebook, folder, seconds) as runner:
        runner.run_all()
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    return "".join(output.get("text") or f"<{output.get('ename') or sorted(output.data)}>" for output in outputs)


def imported(name, notebook, folder):
    return printed(notebook(f"import sys; print({name!r} in sys.modules)"), folder) == "True\n"


def test_a_forked_kernel_has_jax_and_a_started_one_has_not(forked, make_notebook, tmp_path):
    assert imported("jax", make_notebook, tmp_path) == forked


@linux
def test_what_a_program_can_see_is_the_same_either_way(make_notebook, tmp_path, monkeypatch):
    states = []
    for cold in (10**9, 0):
        monkeypatch.setattr(kernel_runner, "COLD", cold)
        states.append(json.loads(printed(make_notebook(STATE), tmp_path)))
    for state in states:  # the debugger, which a forked kernel goes without, sets some
        state["environment"] = {k: v for k, v in state["environment"].items() if not k.startswith("PYDEVD_")}
    assert states[0] == states[1]
    assert states[0]["folder"] == str(tmp_path) and states[0]["leads"] and not states[0]["public"]


def test_no_backend_is_there_before_the_first_cell(forked, make_notebook, tmp_path):
    cells = [
        "from jax._src import xla_bridge; print(len(xla_bridge._backends))",
        "import jax; print(jax.numpy.ones(3).sum(), len(xla_bridge._backends))",
    ]
    assert printed(make_notebook(*cells), tmp_path) == "0\n3.0 1\n"


def test_a_picture_is_shown(forked, make_notebook, tmp_path):
    cells = ["import matplotlib.pyplot as plt; plt.plot([1]); plt.show()"]
    assert "['image/png', 'text/plain']" in printed(make_notebook(*cells), tmp_path)


def test_two_kernels_draw_other_random_numbers(forked, make_notebook, tmp_path):
    draw = "import random, numpy; print(random.random(), numpy.random.rand())"
    first, second = (printed(make_notebook(draw), tmp_path).split() for _ in range(2))
    assert first[0] != second[0] and first[1] != second[1]


def test_an_endless_loop_is_interrupted_and_a_dead_kernel_is_told(forked, make_notebook, tmp_path):
    cells = ["while True: pass", "print('on')", "import os; os._exit(3)", "print('off')"]
    assert printed(make_notebook(*cells), tmp_path, seconds=3) == "<TimeLimit>on\n<KernelDied><KernelDied>"


def test_the_kernel_and_what_it_started_end_with_the_run(forked, make_notebook, tmp_path):
    cells = ["import os, subprocess; print(os.getpid(), subprocess.Popen(['sleep', '300']).pid)"]
    processes = [int(number) for number in printed(make_notebook(*cells), tmp_path).split()]
    _, alive = psutil.wait_procs([psutil.Process(p) for p in processes if psutil.pid_exists(p)], timeout=20)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []


def test_the_measuring_process_is_forked_with_the_kernel(forked, make_notebook, tmp_path):
    cells = [
        "from autograder import speedup\nfrom autograder.measuring import bench\nprint(bench.fork_server is not None)",
        "import numpy as np\nprint(speedup(np.sin, lambda x: [np.sin(x)] * 1 and np.sin(x), np.ones(1000)).verdict)",
        "import numpy\nprint(type(bench.current().process).__name__)",
    ]
    kind = "Forked" if forked else "Popen"
    assert printed(make_notebook(*cells), tmp_path) == f"{forked}\nundecided\n{kind}\n"


@linux
def test_under_a_setting_of_jax_that_a_measuring_process_has_not_none_is_forked(make_notebook, tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_runner, "COLD", 0)
    monkeypatch.setenv("JAX_DEBUG_NANS", "1")
    cell = "from autograder.measuring import bench\nprint(bench.fork_server)"
    assert printed(make_notebook(cell), tmp_path) == "None\n"


@linux
def test_the_kernel_ends_with_the_process_that_asked_for_it(tmp_path):
    program = f"""
import os, sys
from pathlib import Path
from nbformat.v4 import new_notebook
from autograder.doors import kernel_runner
kernel_runner.COLD = 0
runner = kernel_runner.Runner(new_notebook(), Path({str(tmp_path)!r}))
cell = runner.run_new("import os; print(os.getpid(), os.getppid())")
print(cell.outputs[0].text, flush=True)
sys.stdin.read()
"""
    asked = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    processes = [psutil.Process(int(number)) for number in asked.stdout.readline().split()]
    assert len(processes) == 2
    os.kill(asked.pid, signal.SIGKILL)
    asked.communicate()
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert alive == []


@linux
def test_under_another_environment_nothing_old_is_used(make_notebook, tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_runner, "COLD", 0)
    assert imported("jax", make_notebook, tmp_path)
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    assert not imported("jax", make_notebook, tmp_path)
    assert printed(make_notebook("import jax; print(jax.config.jax_enable_x64)"), tmp_path) == "True\n"


def test_where_forking_is_not_safe_no_kernel_is_forked(monkeypatch):
    monkeypatch.setattr(warm_kernels.sys, "platform", "darwin")
    assert not warm_kernels._can_fork({})


@linux
def test_the_first_kernels_of_a_process_are_started_and_the_next_are_forked(tmp_path):
    program = f"""
from pathlib import Path
from nbformat.v4 import new_notebook
from autograder.doors.kernel_runner import Runner
for _ in range(3):
    with Runner(new_notebook(), Path({str(tmp_path)!r})) as runner:
        print(runner.run_new("import sys; print('jax' in sys.modules)").outputs[0].text, end="")
"""
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "False\nFalse\nTrue\n"
