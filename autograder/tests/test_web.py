"""The web edition: what its pages are made of, that none is missing, and that every example of the reference runs."""

import re
import shutil
import subprocess
import sys

import jupytext
import launch
import nbformat
import pytest
from bs4 import BeautifulSoup
from conftest import COURSE, UNITS, run_cell
from docstrings import as_restructured_text
from launch import Repository, find_repository, for_colab, install_cell, requirements
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from staging import as_page, first_page, note, plain_links, stage

import autograder
from autograder.instruments.guess import NOBODY_TYPES

pytestmark = pytest.mark.once  # the same on every version

WEB = COURSE / "web"
SOMEWHERE = Repository("somebody", "course", "abc123")
REFERENCE = sorted(path.stem for path in (WEB / "reference").glob("*.md") if path.stem != "index")
EXECUTED = [*(WEB / "reference").glob("*.md"), *(WEB / "guides").glob("*.md")]


# --- which pages there are


def test_each_public_name_has_a_page_in_the_reference():
    assert sorted(autograder.__all__) == REFERENCE
    index = (WEB / "reference/index.md").read_text()
    assert sorted(re.findall(r"^\| \[`(\w+)`\]\(\1\.md\) \|", index, re.MULTILINE)) == REFERENCE
    for name in REFERENCE:
        page = (WEB / f"reference/{name}.md").read_text()
        assert f":: autograder.{name}\n" in page and "{code-cell}" in page, name


def test_each_lesson_and_exercise_becomes_a_page(tmp_path):
    pages = stage(COURSE, tmp_path, None)
    lessons = ["00_before_you_start", *UNITS]
    assert pages == [f"lessons/{one}" for one in lessons] + [f"exercises/{one}/{one[3:]}" for one in UNITS]
    assert all((tmp_path / f"{page}.ipynb").is_file() for page in pages)
    whole = "".join(path.read_text() for path in tmp_path.rglob("*.ipynb"))
    assert "BEGIN SOLUTION" not in whole and "BEGIN HIDDEN" not in whole
    assert not list((tmp_path / "_extra").iterdir()), "no repository is known, so there is nothing for Colab"


def test_the_first_page_leads_to_every_folder():
    index = (WEB / "index.md").read_text()
    assert {"lessons/*", "exercises/*/*", "reference/index", "autograder/THREATS"} <= set(index.split())
    for guide in (WEB / "guides").glob("*.md"):
        assert f"\nguides/{guide.stem}\n" in index


# --- a notebook as a page


def test_on_a_page_nobody_is_asked_to_type():
    assert f'os.environ["{NOBODY_TYPES}"] = "1"' in (WEB / "conf.py").read_text()


def folded(source):
    return new_code_cell(source, metadata={"jupyter": {"source_hidden": True}, "nbgrader": {"grade_id": "x"}})


def test_what_jupyterlab_folds_is_folded_under_its_first_line_and_a_picture_has_a_text():
    cells = [
        new_markdown_cell("# 01 · A"),
        folded("# Picture: traces so far\nplot()"),
        folded('"""5 points. It holds."""\ncheck()'),
    ]
    page = as_page(new_notebook(cells=[*cells, new_code_cell("x")]), "lessons/01_a", None)
    title, how_to_read, picture, check, plain = page.cells
    assert title.source == "# 01 · A" and "You are reading a notebook that has been run" in how_to_read.source
    assert picture.metadata["tags"] == ["hide-input"] and "nbgrader" in picture.metadata, "lesson 16 reads it"
    assert picture.metadata["mystnb"]["code_prompt_show"] == "Picture: traces so far"
    assert picture.metadata["mystnb"]["image"] == {"alt": "Traces so far"}
    assert check.metadata["mystnb"]["code_prompt_show"] == "Check, 5 points. It holds."
    assert plain.metadata == {}


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("[a](08_x.ipynb#3.-Where-`jit`-stands)", "[a](08_x.ipynb#3.-Where-jit-stands)"),
        ("[a](../README.md#the-units), `b`", "[a](../index.md#the-units), `b`"),
        ("[a](../../README.md)", "[a](../../index.md)"),
        ("[a](https://x.org/README.md#`b`) `c`", "[a](https://x.org/README.md#b) `c`"),
        ("[a](web/guides/own_project.md)", "[a](guides/own_project.md)"),
        ("f(`x`) and [a](b.ipynb)", "f(`x`) and [a](b.ipynb)"),
    ],
)
def test_links_name_things_as_the_pages_do(text, becomes):
    assert plain_links(text) == becomes


def test_the_first_page_does_not_send_its_reader_to_itself():
    readme = (COURSE / "README.md").read_text()
    page = first_page(readme)
    assert "the web edition has every lesson" in readme and "web edition" not in page and "<!--" not in page
    assert "](guides/own_project.md)" in page and page.count("\n## ") == readme.count("\n## ")
    titles = re.findall(r"^## (.+)", page, re.MULTILINE)
    assert titles[:4] == ["Start", "How to take it", "The units", "What is taught"]


def test_a_page_says_where_it_can_be_run():
    said = note("exercises/05_the_cache/the_cache", SOMEWHERE)
    assert "nothing has been run" in said and "](../../index.md#Start)" in said
    assert "github/somebody/course/blob/gh-pages/colab/exercises/05_the_cache/the_cache.ipynb)" in said
    assert "mybinder.org/v2/gh/somebody/course/HEAD?urlpath=lab/tree/exercises/05_the_cache/the_cache.ipynb)" in said
    assert "olab" not in note("lessons/05_the_cache", None) and "inder" not in note("lessons/05_the_cache", None)


# --- Colab and Binder


def test_the_address_is_never_invented(tmp_path, monkeypatch):
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert find_repository(tmp_path) is None
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    assert find_repository(tmp_path) is None
    for address in (
        "git@github.com:me/my.course.git",
        "https://github.com/me/my.course",
        "https://github.com/me/my.course/",
    ):
        subprocess.run(["git", "config", "remote.origin.url", address], cwd=tmp_path, check=True)
        assert find_repository(tmp_path) == Repository("me", "my.course")
    subprocess.run(["git", "config", "remote.origin.url", "/srv/github.com.git"], cwd=tmp_path, check=True)
    assert find_repository(tmp_path) is None
    monkeypatch.setenv("GITHUB_REPOSITORY", "you/yours")
    monkeypatch.setenv("GITHUB_SHA", "f00")
    assert find_repository(tmp_path) == Repository("you", "yours", "f00")


def test_the_first_cell_in_colab_does_nothing_where_the_course_is(monkeypatch):
    cell = install_cell(SOMEWHERE, requirements(COURSE))
    monkeypatch.setattr(subprocess, "run", lambda *words, **options: pytest.fail(f"{words} was run"))
    assert "pip" not in run_cell(cell)


def test_the_first_cell_in_colab_installs_what_a_kernel_needs_and_no_part_of_jupyter(monkeypatch):
    commands = []
    monkeypatch.setattr(subprocess, "run", lambda words, check: commands.append(words))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    run_cell(install_cell(SOMEWHERE, requirements(COURSE)))
    needed, package = commands
    assert needed[:5] == [sys.executable, "-m", "pip", "install", "--quiet"]
    named = {re.match(r"[\w-]+", one)[0] for one in needed[5:]}
    assert named >= {"jax", "matplotlib", "lazy-loader"} and not named & launch.NOT_FOR_A_KERNEL
    assert package[5:] == ["--no-deps", "git+https://github.com/somebody/course@abc123"]


def test_a_copy_for_colab_has_that_cell_first_and_links_to_the_site():
    cells = [
        new_markdown_cell("[a](../exercises/01_a/a.ipynb#x), [b](../README.md#the-units), [c](https://c.org/d.md)")
    ]
    copy = for_colab(new_notebook(cells=cells), "lessons/01_a", SOMEWHERE, ["jax>=0.10"])
    first, text = copy.cells
    assert first.source == install_cell(SOMEWHERE, ["jax>=0.10"])
    site = "https://somebody.github.io/course"
    assert (
        text.source == f"[a]({site}/exercises/01_a/a.html#x), [b]({site}/index.html#the-units), [c](https://c.org/d.md)"
    )
    assert cells[0].source.startswith("[a](../exercises"), "the original is as it was"


def test_what_a_notebook_reads_of_the_course_is_there_in_colab(tmp_path, monkeypatch):
    (tmp_path / "lessons").mkdir()
    monkeypatch.chdir(tmp_path / "lessons")
    fetched = []
    monkeypatch.setattr("urllib.request.urlretrieve", lambda address, file: fetched.append(address) or file.touch())
    lesson = nbformat.read(COURSE / "lessons/16_slow_lab.ipynb", 4)
    cell = for_colab(lesson, "lessons/16_slow_lab", SOMEWHERE, []).cells[0].source
    for _ in range(2):
        run_cell(cell)
    place = "exercises/16_slow_lab/slow_lab.ipynb"
    assert fetched == [f"https://raw.githubusercontent.com/somebody/course/abc123/{place}"]
    assert (tmp_path / place).exists()
    others = [path for path in COURSE.glob("lessons/*.ipynb") if path.stem != "16_slow_lab"]
    assert not [path for path in others if "urlretrieve" in install_of(path)]


def install_of(path):
    return for_colab(nbformat.read(path, 4), f"lessons/{path.stem}", SOMEWHERE, []).cells[0].source


# --- docstrings


def test_a_docstring_becomes_a_field_list():
    lines = """Check `f(*args)`, |a - b| of x_.

fn    jitted, or
      plain
args  its `arguments`

    with trace_log(f) as log:
        f(x)

Returns nothing.""".splitlines()
    assert as_restructured_text(lines) == [
        r"Check ``f(*args)``, \|a - b\| of x\_.",
        "",
        ":param fn: jitted, or",
        "    plain",
        ":param args: its ``arguments``",
        "",
        ".. code-block:: python",
        "",
        "    with trace_log(f) as log:",
        "        f(x)",
        "",
        "",
        "Returns nothing.",
    ]


# --- the examples


@pytest.mark.parametrize("page", EXECUTED, ids=lambda page: page.stem)
def test_each_example_is_true_here(page, capsys):
    cells = [cell.source for cell in jupytext.read(page, fmt="md:myst").cells if cell.cell_type == "code"]
    proofs = [source for source in cells if "assert " in source]
    assert proofs or "{code-cell}" not in page.read_text(), "an example that proves nothing"
    names = {}
    for source in cells:
        run_cell(source, names)
    assert not capsys.readouterr().err


# --- a whole build, of a small course


@pytest.mark.thorough
def test_a_small_course_builds_without_a_warning(tmp_path):
    """Everything but the lessons themselves: execution, folding, links with anchors, alternative texts, both themes."""
    shutil.copytree(WEB / "_static", tmp_path / "web" / "_static")
    for file in [*WEB.glob("*.py"), WEB / "index.md"]:
        shutil.copy(file, tmp_path / "web")
    for folder, text in {"reference": "# Reference", "guides": None}.items():
        (tmp_path / "web" / folder).mkdir()
        for name in re.findall(rf"^{folder}/(\w+)$", (WEB / "index.md").read_text(), re.MULTILINE):
            (tmp_path / "web" / folder / f"{name}.md").write_text(text or f"# {name}")
    (tmp_path / "autograder").mkdir()
    shutil.copy(COURSE / "autograder/THREATS.md", tmp_path / "autograder")
    shutil.copy(COURSE / "pyproject.toml", tmp_path)
    units = "## Start\n\n## The units\n\n[one](lessons/01_one.ipynb#A-`b`,-c?) [two](exercises/01_one/one.ipynb)"
    (tmp_path / "README.md").write_text(f"# A course\n\n{units}")
    view = """class View:
    def _repr_mimebundle_(self, include=None, exclude=None):
        svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
        return {"image/svg+xml": svg, "text/plain": "x\\n3 equations"}
View()"""
    lesson = [new_markdown_cell("# 01 · One"), new_markdown_cell("## A `b`, c?"), new_code_cell("print(6 * 7)")]
    lesson += [folded(f"# Picture: nothing\n{view}"), new_code_cell(view)]
    table = "| a |\\n|---|\\n| 1 |"
    lesson += [new_code_cell(f'from IPython.display import Markdown\nMarkdown("{table}")')]
    lesson += [new_markdown_cell("[back](../README.md#the-units) [on](../exercises/01_one/one.ipynb)")]
    exercise = [new_markdown_cell("# Exercise 01 · One\n\n$x^2$"), new_code_cell("raise NotImplementedError")]
    for place, cells in {"lessons/01_one": lesson, "exercises/01_one/one": exercise}.items():
        (tmp_path / place).parent.mkdir(parents=True)
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        nbformat.write(new_notebook(cells=cells, metadata=kernel), tmp_path / f"{place}.ipynb")
    command = [sys.executable, "-m", "sphinx", "-M", "html", "web", "web/_build", "-W", "--keep-going"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "GITHUB_REPOSITORY": "somebody/course"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

    site = tmp_path / "web/_build/html"
    page = BeautifulSoup((site / "lessons/01_one.html").read_text(), "html.parser")
    assert "42" in page.select_one("div.cell_output").text
    assert [image["alt"] for image in page.select("div.cell_output img")] == ["Nothing", "3 equations"]
    assert page.select_one("div.cell_output table td").text == "1"
    assert "Picture: nothing" in page.select_one("details summary").text
    assert {"../index.html#the-units", "../exercises/01_one/one.html"} <= {
        a["href"] for a in page.select("article a[href]")
    }
    first = BeautifulSoup((site / "index.html").read_text(), "html.parser")
    (link,) = [a["href"] for a in first.select("article a[href]") if a.text == "one"]
    target, _, anchor = link.partition("#")
    assert page.find(id=anchor) and target == "lessons/01_one.html"
    exercise = BeautifulSoup((site / "exercises/01_one/one.html").read_text(), "html.parser")
    assert not exercise.select("div.cell_output"), "an exercise is not run"
    assert "install" in nbformat.read(site / "colab/lessons/01_one.ipynb", 4).cells[0].id
