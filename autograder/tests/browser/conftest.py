"""A real JupyterLab, started as a learner starts it, and a real browser that looks at it.

`pytest -m browser autograder/tests/browser` runs these tests; they need the extra `browser` and a Chromium
(`/usr/bin/chromium`, or the one that CHROMIUM names). With SHOTS=FOLDER each test leaves pictures there.
"""

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import COURSE

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
START = 120_000  # milliseconds, in which a kernel is there
WINDOW = {"width": 1280, "height": 720}


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.once)
            item.add_marker(pytest.mark.xdist_group("browser"))


class Server:
    """A JupyterLab that listens. `root` is the folder that it shows."""

    def __init__(self, root: Path, settings: Path, address: str):
        self.root, self.address = root, address
        self._base, _, self._token = address.partition("/lab?token=")
        self._themes = settings / "@jupyterlab" / "apputils-extension" / "themes.jupyterlab-settings"

    def choose(self, theme: str) -> None:
        """The theme of pages that are opened from now on."""
        self._themes.parent.mkdir(parents=True, exist_ok=True)
        self._themes.write_text(json.dumps({"theme": THEMES[theme]}))

    def end_kernels(self) -> None:
        """End every kernel, so that the next page starts with a fresh one."""
        for session in json.loads(self._ask("GET", "/api/sessions")):
            self._ask("DELETE", f"/api/sessions/{session['id']}")

    def _ask(self, method: str, path: str) -> bytes:
        headers = {"Authorization": f"token {self._token}"}
        with urllib.request.urlopen(urllib.request.Request(self._base + path, method=method, headers=headers)) as reply:
            return reply.read()


@contextmanager
def served(words: list[str], folder: Path, root: Path, private: Path, **variables: str) -> Iterator[Server]:
    """`course` with these words, started in `folder`, until the block ends. Settings are `private`, and no user's."""
    token = secrets.token_hex(8)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--allow-root", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    options += [f"--IdentityProvider.token={token}", "--ServerApp.ip=127.0.0.1"]
    own = {"JUPYTER_CONFIG_DIR": "config", "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "tabs"}
    environment = {**os.environ, **{name: str(private / place) for name, place in own.items()}, **variables}
    command = [sys.executable, "-m", "autograder.workbench", *words, "--no-browser", "--", *options]
    with (private / "log.txt").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.PIPE, text=True)
    said: list[str] = []
    try:
        for line in process.stderr:
            said.append(line)
            if "is running at" in line:
                break
        else:
            pytest.fail("JupyterLab did not start:\n" + "".join(said))
        with (private / "log.txt").open("a") as log:  # somebody must read on, or it waits when the pipe is full
            drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=log)
        yield Server(root, private / "settings", f"http://127.0.0.1:{port}/lab?token={token}")
    finally:
        process.terminate()
        process.wait(30)
        process.stderr.close()
        drain.wait(10)


@pytest.fixture(scope="session")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
    chosen = {"executable_path": CHROMIUM} if Path(CHROMIUM).is_file() else {}  # else Playwright's own
    with api.sync_playwright() as playwright:  # one for all tests: a process can hold no second one beside it
        browser = playwright.chromium.launch(args=["--no-sandbox"], **chosen)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def room_server(tmp_path_factory):
    """`course start`, in a room of its own that is made from this clone."""
    private, room = tmp_path_factory.mktemp("private"), tmp_path_factory.mktemp("mine") / "room"
    with served(["start", "0"], COURSE, room, private, COURSE_WORK=str(room)) as server:
        yield server


@pytest.fixture(params=THEMES)
def theme(request):
    return request.param


@pytest.fixture
def keep(request):
    """A function that keeps a picture of a window, or of a part of it, in the folder that SHOTS names."""

    def keep(shown, name=""):
        if folder := os.environ.get("SHOTS"):
            shown.screenshot(path=Path(folder, re.sub(r"\W+", "-", f"{request.node.name} {name}").strip("-") + ".png"))

    return keep


@pytest.fixture
def open_page(browser, keep):
    """A function that opens a file of a server in a window."""
    windows = []

    def open_page(server, path, theme="light", window=WINDOW, scale=1):
        server.choose(theme)
        context = browser.new_context(viewport=window, device_scale_factor=scale, reduced_motion="reduce")
        windows.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto(server.address.replace("/lab?", f"/lab/tree/{path}?" if path else "/lab?") + "&reset")
        page.locator(".jp-MainAreaWidget:visible").first.wait_for()
        if path.endswith(".ipynb"):  # what is run before there is a kernel is forgotten
            page.locator("#jp-main-statusbar", has_text="| Idle").wait_for(timeout=START)
        return page

    yield open_page
    for context in windows:
        for page in context.pages:
            keep(page)
        context.close()
