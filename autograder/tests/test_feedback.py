"""The pages that show a graded submission: what they show, and that nothing in them runs, leads out or gives away.

They are made as nbgrader makes them, with the course's nbgrader_config.py, from notebooks whose outputs stand in them
already; `test_class.py` takes whole classes through nbgrader's commands.
"""

import base64
import os
import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from conftest import COURSE, graded, solution
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell
from nbgrader.preprocessors import GetGrades
from pygments.formatters import HtmlFormatter
from pygments.token import STANDARD_TYPES, Token
from traitlets.config import PyFileConfigLoader

from autograder.doors import hidden_tests
from autograder.doors.hidden_tests import hidden_output_dropped
from autograder.doors.kernel_runner import Runner
from autograder.doors.nbgrader_steps import RunNotebook, SubmissionExporter
from autograder.doors.output_size import LimitBytes
from autograder.failure import CheckFailed
from autograder.instruments.graphs.parts import Box, Edge, Node
from autograder.instruments.graphs.svg import svg
from autograder.measuring.picture import bar_svg

pytestmark = pytest.mark.once

PAGES = ["feedback", "formgrade"]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture(scope="module")
def config():
    path = os.environ["PATH"]
    config = PyFileConfigLoader("nbgrader_config.py", str(COURSE)).load_config()
    os.environ["PATH"] = path
    return config


@pytest.fixture(scope="module")
def exporters(config):
    """The two pages' exporters, by the names of their templates."""
    exporters = {kind: HTMLExporter(config=config, template_name=kind) for kind in PAGES}
    for preprocessor in config.GenerateFeedback.preprocessors:
        if preprocessor is not GetGrades:  # it reads the gradebook
            exporters["feedback"].register_preprocessor(preprocessor)
    return exporters


@pytest.fixture
def page(exporters, monkeypatch):
    """A function from cells (or a notebook) and "feedback" or "formgrade" to the parsed page."""
    monkeypatch.chdir(COURSE)

    def make(cells, kind="feedback"):
        notebook = new_notebook(cells=cells) if isinstance(cells, list) else cells
        html, _ = exporters[kind].from_notebook_node(notebook, resources=resources())
        return BeautifulSoup(html, "html.parser")

    return make


def resources():
    own = {"notebook": "unit", "score": 1.0, "max_score": 4.0, "late_penalty": 0}
    view = {"notebook_id": "unit", "assignment_id": "01_unit", "submission_id": "7", "index": 0, "total": 1}
    names = {"base_url": "/base", "student": "s", "last_name": "", "first_name": "", "notebook_path": "x"}
    return {"metadata": {"name": "unit", "path": ""}, "nbgrader": own, **view, **names}


def shown(*outputs, source="pass", **metadata):
    """A code cell with these outputs."""
    return new_code_cell(source, outputs=list(outputs), metadata=metadata)


def value(data, metadata=None):
    return new_output("display_data", data=data, metadata=metadata or {})


def printed(text):
    return new_output("stream", name="stdout", text=text)


def raised(*traceback, name="ValueError", text="x"):
    return new_output("error", ename=name, evalue=text, traceback=list(traceback))


def check(source, *outputs, grade_id="check"):
    entry = graded(grade_id, 4) | {"score": 1.0}
    return shown(*outputs, source=source, nbgrader=entry)


def content(soup):
    """What stands in the page for the student's notebook, without the page's own frame."""
    return soup.find(id="notebook-container") or soup.main


# Pictures, formulas, hints and links


@pytest.mark.parametrize("kind", PAGES)
def test_a_speed_picture_is_an_image_that_a_reader_who_cannot_see_it_hears(page, kind):
    svg = bar_svg(12.0, 10.0, 14.0, 5.0, "#1b7837")
    soup = page([shown(value({"text/html": f"<div>f is 12x faster<br>{svg}</div>", "text/plain": "f"}))], kind)
    (image,) = content(soup).find_all("img")
    picture = base64.b64decode(image["src"].removeprefix("data:image/svg+xml;base64,")).decode()
    assert "viewBox" in picture and 'xmlns="http://www.w3.org/2000/svg"' in picture
    assert image["alt"] == "12x, interval 10 to 14"
    assert "f is 12x faster" in content(soup).text and "viewBox" not in content(soup).text


@pytest.mark.parametrize("kind", PAGES)
def test_a_plot_an_svg_and_an_attachment_are_images(page, kind):
    svg = '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><rect width="3" height="3"/></svg>'
    attached = new_markdown_cell("![mine](attachment:a.png)", attachments={"a.png": {"image/png": PNG}})
    outputs = value({"image/png": PNG}, {"image/png": {"width": 30}}), value({"image/svg+xml": svg})
    images = content(page([shown(*outputs), attached], kind)).find_all("img")
    assert [image["src"].split(";")[0] for image in images] == [
        "data:image/png",
        "data:image/svg+xml",
        "data:image/png",
    ]
    assert images[0]["width"] == "30" and images[2]["alt"] == "mine"


@pytest.mark.parametrize("kind", PAGES)
def test_formulas_are_mathml(page, kind):
    hint = "<details><summary>Hint 1</summary>\n$Hv$ is a derivative\n</details>"
    text = new_markdown_cell(
        f"Let $x_i < 2$.\n\n$$x \\leftarrow x - H^{{-1}} g$$\n\nNot `$y$`, nor $5 or $6.\n\n{hint}"
    )
    soup = content(page([text, shown(value({"text/latex": r"$\frac{1}{2}$", "text/plain": "half"}))], kind))
    formulas = [math.get_text() for math in soup.find_all("math")]
    assert formulas == ["xi<2", "x←x−H−1g", "Hv", "12"]
    assert soup.find_all("math")[1]["display"] == "block"
    assert "$y$" in soup.text and "$5 or $6" in soup.text and "$x" not in soup.text


@pytest.mark.parametrize("tex", [r"\href{javascript:alert(1)}{x}", r"\newcommand{\x}{\x\x}\x", "{{{", "{" * 1500])
def test_a_formula_that_cannot_be_drawn_is_shown_as_tex(page, tex):
    soup = content(page([new_markdown_cell(f"see ${tex}$ here")]))
    assert f"see ${tex}$ here" in soup.text and not soup.find("math")


@pytest.mark.parametrize("kind", PAGES)
def test_hints_unfold(page, kind):
    hint = "<details><summary>Hint 1</summary>\nUse <code>jit</code>.\n</details>"
    soup = page([new_markdown_cell(hint)], kind)
    (details,) = content(soup).find_all("details")
    assert details.summary.text == "Hint 1" and details.code.text == "jit"
    # Bootstrap, which the formgrader loads, makes a summary a block and so takes its triangle.
    assert re.search(r"summary \{ display: list-item;", "".join(style.text for style in soup.find_all("style")))


@pytest.mark.parametrize("kind", PAGES)
def test_links_lead_out_or_name_the_file(page, kind):
    text = (
        "[05 · The cache](../../lessons/05_the_cache.ipynb), [JAX](https://docs.jax.dev/), [top](#x), [x](/etc/passwd)"
    )
    soup = content(page([new_markdown_cell(text)], kind))
    assert "05 · The cache (lessons/05_the_cache.ipynb in the course's folder), JAX, top, x" in soup.text
    assert [(a["href"], a["target"], a["rel"]) for a in soup.find_all("a") if a.text == "JAX"] == [
        ("https://docs.jax.dev/", "_blank", ["noopener", "noreferrer"])
    ]
    assert not soup.find_all(lambda tag: tag.name == "a" and tag.text in ("05 · The cache", "top", "x"))


@pytest.mark.parametrize("kind", PAGES)
def test_a_picture_of_a_program_is_an_image_that_says_what_it_shows(page, kind):
    nodes = [Node("n1", ("x", "float32[8]"), "input"), Node("n2", ("<script>alert(1)</script>",))]
    drawn = svg(Box("graph", "f: 1 equation", content=nodes), [Edge("n1", "n2")])
    bundle = {"text/html": f"<div>{drawn}</div>", "image/svg+xml": drawn, "text/plain": "{ lambda ; a. let in () }"}
    (image,) = content(page([shown(value(bundle))], kind)).find_all("img")
    assert image["alt"] == "f: 1 equation"
    assert base64.b64decode(image["src"].partition(",")[2]).decode() == drawn


@pytest.mark.parametrize("kind", PAGES)
def test_a_graph_that_needs_a_script_is_its_text(page, kind):
    graph = value({"text/vnd.mermaid": "flowchart TB\n  a --> b", "text/plain": "{ lambda ; a. let in () }"})
    soup = content(page([shown(graph), new_markdown_cell("```mermaid\na --> b\n```")], kind))
    assert "{ lambda ; a. let in () }" in soup.text and "a --> b" in soup.text
    assert not soup.find(class_="mermaid")


# Nothing runs, and nothing is fetched

ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '<img src="http://evil.example/a.png">',
    '<a href="javascript:alert(1)">a</a><a href=" JaVa&#9;Script:alert(1)">b</a><a href="data:text/html,x">c</a>',
    "<svg onload=alert(1)><script>alert(1)</script></svg>",
    '<svg viewBox="0 0 1 1" onload="alert(1)"><script>alert(1)</script><image href="http://evil.example"/></svg>',
    "<a title=\"<svg aria-label='x onmouseover=alert(1) '></svg>\">t</a>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></mglyph></table></mtext></math>",
    '<noscript><p title="</noscript><img src=x onerror=alert(1)>"></noscript>',
    "<iframe srcdoc='<script>alert(1)</script>'></iframe><object data=x></object><embed src=x>",
    "<form action=http://evil.example><input name=a><button formaction=javascript:alert(1)>b</button></form>",
    "<style>@import url(http://evil.example)</style><link rel=stylesheet href=http://evil.example>",
    '<p style="background: url(http://evil.example); position: fixed" id="check" class="score" onclick=alert(1)>p</p>',
    '<base href="http://evil.example/"><meta http-equiv="refresh" content="0; url=http://evil.example">',
    "</div></div></main></body><script>alert(1)</script>",
    "<!--><script>alert(1)</script>--><![CDATA[<script>alert(1)</script>]]><?php <script>alert(1)</script> ?>",
    "<template><script>alert(1)</script></template><textarea></textarea><script>alert(1)</script>",
]


def test_a_long_line_is_searched_in_time_that_grows_with_its_length():
    """A picture is one line of hundreds of kilobytes, and a pattern that starts anywhere in it takes minutes."""
    secret = hidden_tests._secret(
        new_notebook(cells=[check("### BEGIN HIDDEN TESTS\nassert f(3) == 9\n### END HIDDEN TESTS")])
    )
    picture = "A" * 2_000_000
    assert (
        secret.sub("[hidden]", f"{picture}\nassert f(3) == 9\nx ### END HIDDEN TESTS")
        == f"{picture}\n[hidden]\n[hidden]"
    )


def live(soup):
    """Everything in a fragment that runs, is fetched, or takes part in the page around it."""
    names = "script|style|iframe|object|embed|form|input|button|link|meta|base|svg|video|audio|template|textarea"
    found = [tag.name for tag in soup.find_all(re.compile(f"^({names})$"))]
    for tag in soup.find_all(True):
        for name, text in tag.attrs.items():
            text = " ".join(text) if isinstance(text, list) else text
            led = name in ("src", "srcset", "data", "poster", "action", "formaction") or (
                name == "href" and tag.name != "a"
            )
            if name.startswith("on") or (led and not text.startswith("data:image/")):
                found.append(f"{tag.name} {name}={text}")
            if name == "href" and not re.match(r"https?://|#", text):
                found.append(f"{tag.name} {name}={text}")
            if name == "style" and "url" in text:
                found.append(f"{tag.name} {name}={text}")
    return found


@pytest.mark.parametrize("kind", PAGES)
@pytest.mark.parametrize("attack", ATTACKS)
def test_what_a_student_writes_or_shows_does_nothing(page, kind, attack):
    tail = new_markdown_cell("after the attack")
    frame = live(content(page([tail], kind)))  # none in the student's page
    vector = '<svg xmlns="http://www.w3.org/2000/svg">' + attack + "</svg>"
    cells = [
        new_markdown_cell(attack),
        new_markdown_cell(f"- item {attack}\n\n```mermaid\n{attack}\n```\n\n`{attack}` $\\text{{{attack}}}$"),
        new_markdown_cell("![a](attachment:a)", attachments={"a": {"text/html": attack, "image/svg+xml": attack}}),
        new_raw_cell(attack),
        shown(value({"text/html": attack, "text/plain": attack}), value({"text/markdown": attack}), source=attack),
        shown(value({"image/svg+xml": vector}), value({"text/latex": attack}), value({"image/png": attack})),
        shown(value({"application/javascript": "alert(1)", "text/html": "<b>b</b>"}), printed(attack)),
        shown(raised(attack, name=attack, text=attack), value({"image/png": PNG}, {"image/png": {"width": attack}})),
        shown(
            value({"text/html": attack}, {"text/html": {"isolated": True}}),
            tags=[attack.replace(",", "")],
            title=attack,
        ),
        tail,
    ]
    soup = content(page(cells, kind))
    assert live(soup) == frame
    assert "after the attack" in soup.text
    assert not soup.find(id="check") and not soup.find("p", class_="score")


@pytest.mark.parametrize("kind", PAGES)
def test_the_page_itself_asks_for_nothing_on_the_network(page, kind):
    soup = page([new_markdown_cell("$x$ [JAX](https://docs.jax.dev/)"), shown(printed("1"))], kind)
    asked = [tag.get("src") or tag.get("href") for tag in soup.find_all(["script", "link", "img", "iframe"])]
    assert [place for place in filter(None, asked) if not place.startswith("/base/formgrader/static/")] == []
    policy = soup.find("meta", attrs={"http-equiv": "Content-Security-Policy"})["content"]
    if kind == "feedback":
        assert not soup.find_all("script")
        assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'")
    else:
        assert "http" not in policy and "window.MathJax" in str(soup)  # its keyboard waits for MathJax


@pytest.mark.parametrize("kind", PAGES)
def test_a_demonstration_below_an_untouched_stub_is_one_line(page, kind):
    error = raised("f is not begun: fill it in above", name="NotBegun", text="f is not begun")
    empty = value({"image/png": PNG, "text/plain": "<Figure with 3 Axes>"})
    soup = page([shown(error, empty)], kind)
    assert "f is not begun: fill it in above" in soup.text
    assert "Figure with" not in soup.text and not soup.select("img")
    assert page([shown(empty)], kind).select("img"), "a picture of a cell that ran stays"


@pytest.mark.parametrize(
    "source",
    ["![gone](attachment:gone.png)", "<div>" * 5000, "\ue0000\ue001", "$" * 3001, "[](" * 500, "\udcff", "x" * 10**6],
)
def test_no_markdown_costs_the_page(page, source):
    soup = page([new_markdown_cell(source), new_markdown_cell("after it")])
    assert "after it" in soup.text and len(str(soup)) < 200_000


# What comes first, how much there is, and what is kept back


@pytest.fixture
def unreadable(tmp_path):
    path = tmp_path / "submitted" / "s" / "01_unit" / "unit.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text('{"cells": [')
    return path


@pytest.mark.parametrize("kind", PAGES)
def test_not_graded_stands_first_and_names_no_folder(page, kind, unreadable):
    import nbformat

    text, resources = SubmissionExporter().from_filename(str(unreadable))
    notebook = nbformat.reads(text, as_version=4)
    notebook.metadata["not_graded"] = resources["not_graded"]
    notebook.cells = [shown(source="import jax"), check("assert f() == 1")]  # as RestoreRelease puts them in
    notebook, _ = RunNotebook().preprocess(notebook, {"metadata": {"path": str(unreadable.parent)}})
    assert [o.ename for cell in notebook.cells for o in cell.outputs] == ["NotGraded"]
    soup = content(page(notebook, kind))
    assert "Not graded. unit.ipynb: this is no notebook" in soup.text
    assert soup.text.index("Not graded.") < soup.text.index("import jax")
    assert str(unreadable.parent) not in soup.text
    assert soup.text.count("Not graded.") == 1 and "NameError" not in soup.text


@pytest.mark.parametrize("kind", PAGES)
def test_what_was_not_as_released_and_the_file_that_was_graded_stand_first(page, kind):
    notebook = new_notebook(cells=[check("assert f(2) == 4")])
    notebook.metadata |= {"not_as_released": ["setup (edited)", "f (deleted)"], "handed_in_as": "my powers.ipynb"}
    notebook.metadata["passed_over"] = "my_<b>copy.ipynb, with answers to 2 tasks that are as released here."
    text = content(page(notebook, kind)).text
    assert "Also handed in, and not graded: my_<b>copy.ipynb, with answers to 2 tasks" in text
    assert "Another file was graded: my powers.ipynb" in text
    assert "Not as released: setup (edited), f (deleted). Locked cells were put back" in text
    assert text.index("Another file") < text.index("Not as released") < text.index("assert f(2)")


NO_END = ["<p ", "<p title='", "</b", "<!--", "<![CDATA[", "<?", "<svg", "a < b <"]


@pytest.mark.parametrize("begun", NO_END)
@pytest.mark.parametrize("kind", PAGES)
def test_html_that_never_ends_is_text(page, kind, begun):
    """Python's parser looks for the end of each tag anew: 100 kB of them took it minutes, and the class waited."""
    text = content(page([shown(value({"text/html": begun * 30_000, "text/plain": "no"}))], kind)).text
    assert text.count("<") >= 30_000


@pytest.mark.parametrize("kind", PAGES)
def test_what_a_page_takes_time_for_is_limited(page, kind):
    many = [shown(value({"text/html": "<p>" + "<svg></svg>" * 500 + "</p>"})), new_markdown_cell("$a$ and " * 500)]
    soup = content(page([*many, *(new_markdown_cell("word " * 3000) for _ in range(40))], kind))
    assert (len(soup.find_all("img")), len(soup.find_all("math"))) == (200, 300)
    assert soup.text.count("picture: left out") == 300 and soup.text.count("$a$") == 200
    assert soup.text.count("bytes left out") == 40 - 34  # 33 cells of 15 kB, and the one that is over


@pytest.mark.parametrize("kind", PAGES)
def test_nobody_names_the_place_of_a_picture(page, kind):
    marks = ["&#xe000;5&#xe001;", "\ue0000\ue001", "picture-0;"]
    cells = [shown(value({"text/html": f"<p>{mark}</p><svg></svg>"})) for mark in marks]
    soup = content(page([*cells, *(new_markdown_cell(mark) for mark in marks)], kind))
    assert len(soup.find_all("img")) == len(marks) and soup.text.count("picture-0;") == 2


@pytest.mark.parametrize("kind", PAGES)
def test_a_dead_kernel_stands_first(page, kind):
    cells = [
        new_markdown_cell("## Task 1"),
        check("1", raised("KernelDied: it ran out", name="KernelDied", text="it ran out"), grade_id="one"),
        check("2", raised("KernelDied: not run", name="KernelDied", text="not run"), grade_id="two"),
    ]
    text = content(page(cells, kind)).text
    assert "The kernel died in one. It ran out. It cost 8 of 8 points." in text
    assert text.index("The kernel died") < text.index("Task 1")


def test_what_went_wrong_is_shown_as_it_is(page):
    line = "line 1 writes __author__, *x*, `y`, <b>, $a$ and $b$, \\begin{align}c\\end{align}"
    cell = check("f()", raised("", text=line, name="NotAllowed"), grade_id="a`*b*")
    assert f"A cell was left out in a`*b*. L{line[1:]}. It cost 4 of 4 points." in content(page([cell])).text


def test_the_table_says_which_task_each_check_belongs_to(page):
    cells = [new_markdown_cell("## Task 1 · Bits & <pieces>\n\nText"), check("f()", grade_id="bits-check")]
    soup = page(cells)
    (row,) = soup.table.tbody.find_all("tr")
    assert [cell.text for cell in row.find_all("td")] == ["Task 1 · Bits & <pieces>", "bits-check", "1.0 / 4.0"]
    assert row.a["href"] == "#bits-check" and soup.find(id="bits-check").name == "section"
    assert "unit (Score: 1.0 / 4.0)" in soup.h1.text


def limited(*cells, **sizes):
    return LimitBytes(**sizes).preprocess(new_notebook(cells=list(cells)), {})[0].cells


def test_a_long_text_is_cut_in_the_middle_and_says_by_how_much():
    (cell,) = limited(shown(printed("a" + "x" * 10**7 + "z"), raised("r" * 10**6, text="e" * 10**6)))
    stream, error = cell.outputs
    assert stream.text.startswith("axx") and stream.text.endswith("xxz") and len(stream.text) < 50_000
    left_out = int(re.search(r"… ([\d,]+) bytes left out …", stream.text)[1].replace(",", ""))
    assert left_out + stream.text.count("x") + 2 == 10**7 + 2
    assert error.ename == "ValueError" and len(error.evalue) + len(error.traceback[0]) < 100_000


def test_a_large_picture_is_left_out_whole_and_a_small_one_is_kept():
    large, small = value({"image/png": "A" * 600_000, "text/plain": "<Figure>"}), value({"image/png": PNG})
    (cell,) = limited(shown(large, small))
    assert cell.outputs[0].data == {"text/plain": "<Figure>\n… image/png: 600,000 bytes left out"}
    assert cell.outputs[1].data == {"image/png": PNG}


def test_many_outputs_are_limited_by_cell_and_by_notebook_but_no_error_and_no_result_is_lost():
    result = new_output("execute_result", data={"text/plain": "2.0"}, execution_count=1)
    many = [value({"text/html": "x" * 700}) for _ in range(1000)]
    cells = limited(*[shown(*many, raised("E: x"), result) for _ in range(6)])
    sizes = [sum(len(str(output)) for output in cell.outputs) for cell in cells]
    assert max(sizes) < 700_000 and sum(sizes) < 3_000_000
    for cell in cells:
        assert [o.output_type for o in cell.outputs][-3:] == ["error", "execute_result", "stream"]
        assert re.fullmatch(r"… [\d,]+ bytes of output left out", cell.outputs[-1].text)


def test_what_fits_is_not_touched():
    outputs = [printed("✓ ok\n"), value({"text/html": "<b>b</b>", "text/plain": "b"}), raised("E: x")]
    (cell,) = limited(shown(*outputs))
    assert cell.outputs == outputs


HIDDEN = """\
'''4 points. f is right.'''
print("visible", f(1.0))
### BEGIN HIDDEN TESTS
secret_input = 4321.5
print("hidden evidence of", f(secret_input))
### END HIDDEN TESTS
f(2.0)"""
ANSWER = """\
def f(x):
    print("called with", x)
    print(In[-1])
    print([In[-1]])
    return 2.0"""


@pytest.fixture(scope="module")
def graded_notebook(tmp_path_factory):
    """Three checks with hidden tests, and what an answer and a curious cell print, as the grader leaves them."""
    folder = tmp_path_factory.mktemp("kernel")
    cells = [
        shown(source=ANSWER, nbgrader=solution("task")),
        check(HIDDEN, grade_id="passes"),
        check(HIDDEN.replace("secret_input)", "secret_input) / 0"), grade_id="fails-hidden"),
        check(HIDDEN.replace("f(1.0)", "f(1.0) / 0"), grade_id="fails-visibly"),
        shown(source="print(In[2]); print(repr(In[2])); len"),
        shown(source="import autograder, os; print(autograder.__file__, os.__file__, os.getcwd())"),
        shown(source="from autograder.checks.partial_credit import partial_credit\npartial_credit(1.0, {3: 2, 2: 1})"),
        shown(source="import traceback\ntry: partial_credit(1.0, {0: 1})\nexcept ValueError: traceback.print_exc()"),
    ]
    notebook = new_notebook(cells=cells)
    with hidden_output_dropped(notebook), Runner(notebook, folder) as runner:
        runner.run_all()
    return notebook, folder


def text_of(cell):
    return "".join(o.get("text", "") or str(o.get("data", "")) for o in cell.outputs)


def test_hidden_tests_leave_no_output_but_errors_and_the_result(graded_notebook):
    notebook, _ = graded_notebook
    passes, fails_hidden, fails_visibly = notebook.cells[1:4]
    assert passes.source == HIDDEN
    assert "called with 1.0" in text_of(passes) and "called with 2.0" in text_of(passes)
    for cell in (passes, fails_hidden, fails_visibly):
        assert "called with 4321.5" not in text_of(cell) and "hidden evidence of 2" not in text_of(cell)
    assert [o.output_type for o in passes.outputs][-1] == "execute_result"
    assert [o.ename for o in fails_hidden.outputs if o.output_type == "error"] == ["ZeroDivisionError"]
    assert [o.ename for o in fails_visibly.outputs if o.output_type == "error"] == ["ZeroDivisionError"]


def test_a_check_that_ends_in_its_hidden_tests_earns_what_it_earned_before(make_notebook, tmp_path):
    ends = "1.0\n### BEGIN HIDDEN TESTS\nx = 3\n3.0 if x else 2.0\n### END HIDDEN TESTS"
    notebook = make_notebook((ends, graded("ends", 4)), ("pass\n" + ends + "\n# end\n", graded("comment", 4)))
    with hidden_output_dropped(notebook), Runner(notebook, tmp_path) as runner:
        runner.run_all()
    assert [cell.outputs[-1].data["text/plain"] for cell in notebook.cells] == ["3.0", "3.0"]


def test_a_hidden_region_that_was_kept_from_announcing_itself_hides_everything(make_notebook, tmp_path):
    silent = "import builtins\nreal = print\nbuiltins.print = lambda *a, **k: real(*a) if a[0] == 'x' else None"
    notebook = make_notebook(
        silent, ("print('x')\n### BEGIN HIDDEN TESTS\nprint('x')\n### END HIDDEN TESTS", graded("c", 1))
    )
    with hidden_output_dropped(notebook), Runner(notebook, tmp_path) as runner:
        runner.run_all()
    assert notebook.cells[1].outputs == []


def test_feedback_shows_no_hidden_line_that_a_student_printed(page, graded_notebook):
    notebook, _ = graded_notebook
    text = content(page(notebook)).text
    assert "secret_input" not in text and "4321.5" not in text and "HIDDEN TESTS" not in text
    assert "[hidden]" in text and "called with 1.0" in text
    assert "A hidden check of this cell failed" in text
    assert "ZeroDivisionError: float division by zero (line 2 of this cell)" in text


def test_the_formgrader_shows_the_instructor_the_hidden_tests(page, graded_notebook):
    notebook, _ = graded_notebook
    assert "secret_input = 4321.5" in content(page(notebook, "formgrade")).text


def test_feedback_names_no_folder_of_the_instructors_and_no_frame_of_ours(page, graded_notebook, monkeypatch):
    notebook, folder = graded_notebook
    monkeypatch.setattr("autograder.doors.feedback.Path.cwd", lambda: folder)
    text = content(page(notebook)).text
    assert "…/autograder/__init__.py" in text and "python3." in text
    for place in (str(COURSE), str(folder), str(Path(os.__file__).parent), str(Path.home()) + "/", "ipykernel_"):
        assert place not in text, place
    assert "ValueError: partial_credit: thresholds and points must rise" in text
    assert "_checked_tiers" not in text and "_credit.py" not in text


def test_a_failed_checks_headline_is_legible_on_any_background():
    headline = CheckFailed("wrong", why="a", attempt="b")._render_traceback_()[0]
    assert headline == "\x1b[1m✗ wrong\x1b[0m"


@pytest.mark.parametrize("kind", PAGES)
def test_colours_of_a_students_own_choice_are_dropped(page, kind):
    line = "\x1b[31mred\x1b[0m \x1b[38;5;226mown\x1b[0m \x1b[1;48;2;9;9;9;32mbold\x1b[0m"
    soup = content(page([shown(printed(line), raised(line))], kind))
    assert "red own bold" in soup.text and not soup.find_all(style=re.compile("color"))
    assert {span.text for span in soup.find_all(class_="ansi-red-fg")} == {"red"}


def luminance(colour):
    colour = colour.lstrip("#")
    colour = "".join(2 * c for c in colour) if len(colour) == 3 else colour
    parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("scheme", "style"), [(0, "default"), (1, "github-dark")])
def test_text_is_legible_in_light_and_in_dark(course, scheme, style):
    css = (course / "autograder/doors/templates/feedback/feedback.css").read_text()
    block = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[scheme]
    colours = dict(re.findall(r"--(\w+): (#\w+);", block))
    grounds = [colours.pop(name) for name in ("page", "box", "error")]
    del colours["line"]
    code = {str(t): HtmlFormatter(style=style).style.style_for_token(t)["color"] for t in STANDARD_TYPES}
    code = {t: c for t, c in code.items() if c and not t.startswith(str(Token.Text.Whitespace))}
    low = {
        (name, ground): round(contrast(colour, ground), 2)
        for name, colour in (colours | code).items()
        for ground in (grounds if name in colours else grounds[:2])
        if contrast(colour, ground) < 4.5
    }
    assert low == {}
