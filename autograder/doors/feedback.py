"""The pages that show a graded submission: the student's feedback and the instructor's view in the formgrader.

Both are made by nbconvert's HTMLExporter and show what a student wrote and printed. `SafePage` prepares a notebook for
either; `HideInstructor` takes out what is of no use to a student.
"""

import re
import site
import sys
from pathlib import Path

import nbgrader
from nbconvert.filters import strip_ansi
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_output
from pygments.formatters import HtmlFormatter

from .faults import fault
from .graded_notebook import is_graded, nbgrader_metadata, not_begun
from .output_size import shortened
from .safe_html import clean_html, markdown_to_html, plain_ansi, svg_image

# Where nbconvert finds the templates `feedback` and `formgrade`: ours, then what ours leave to nbgrader's.
TEMPLATES = [
    str(Path(__file__).parent / "templates"),
    str(Path(nbgrader.__file__).parent / "server_extensions" / "formgrader" / "templates"),
]
FILTERS = {"clean_html": clean_html, "markdown2html": markdown_to_html, "ansi2html": plain_ansi}

_MARKDOWN, _CODE = 20_000, 50_000  # bytes of a cell's source that are shown
_ALL_MARKDOWN, _LITTLE = 500_000, 1_000  # of all cells to be read; of each that comes after these
_PICTURE = re.compile(r"[A-Za-z0-9+/=\s]*")
_OURS = re.compile(r"(?s)\s*File .*?[/\\]autograder[/\\].*?:\d+")
_OURS_IN_TEXT = re.compile(r'(?m)^ *File "[^"\n]*[/\\]autograder[/\\][^"\n]*", line \d+.*\n(?: {4}.*\n?)*')
_SOMEWHERE = re.compile(
    r"""(?<![\w…])(?:~|[A-Za-z]:)?[/\\][^\s'"<>(),;]*?[/\\](site-packages|lib[/\\]python3\.\d+)(?=[/\\])"""
)
_CELL = re.compile(r"""[^\s'"<>(),;\[]*[/\\]ipykernel_\d+[/\\]\d+\.py""")


class SafePage(Preprocessor):
    """Leave in a notebook what a page can show without a script and without a network, and say first what went wrong.

    Registered with HTMLExporter, so that it runs for every page and before nbgrader's own steps.
    """

    enabled = True

    def preprocess(self, nb, resources):
        """Clean every cell; `resources["code_css"]` receives the colours of code, light and dark."""
        notice, resources["boxed"] = _notice(nb), nb.metadata.get("boxed", "")
        nb.metadata = NotebookNode()
        read = 0
        for cell in nb.cells:
            own = nbgrader_metadata(cell)
            cell.metadata = NotebookNode(nbgrader=own) if own else NotebookNode()
            most = _CODE if cell.cell_type == "code" else _MARKDOWN if read < _ALL_MARKDOWN else _LITTLE
            cell.source = shortened(_printable(cell.source), most)
            read += len(cell.source) * (cell.cell_type != "code")
            if cell.cell_type == "code":
                # What a check returns is its points, which the page says by itself.
                shown = [o for o in cell.outputs if not (is_graded(cell) and o.output_type == "execute_result")]
                if not is_graded(cell) and not_begun(cell):  # what was to be drawn needs the answer: its axes are empty
                    shown = [o for o in shown if o.output_type in ("error", "stream")]
                cell.outputs = _joined([_safe(output) for output in shown])
        if notice:
            nb.cells.insert(0, new_markdown_cell(notice, metadata={"notice": True}))
        colours = {"light": HtmlFormatter(style="default"), "dark": HtmlFormatter(style="github-dark")}
        resources["code_css"] = {scheme: style.get_style_defs(".highlight") for scheme, style in colours.items()}
        return nb, resources


class HideInstructor(Preprocessor):
    """Take out of all outputs where the instructor's files lie, and the frames of the autograder itself."""

    enabled = True

    def preprocess(self, nb, resources):
        """Runs in the course's folder, as all of nbgrader does."""
        places = _places()
        for output in (output for cell in nb.cells for output in cell.get("outputs", [])):
            if output.output_type == "stream":
                output.text = _without_places(_OURS_IN_TEXT.sub("", output.text), places)
            elif output.output_type == "error":
                frames = [part for part in output.traceback if not _OURS.match(strip_ansi(part))]
                output.traceback = [_without_places(part, places) for part in frames]
            else:
                texts = {kind: text for kind, text in output.data.items() if not kind.startswith("image/")}
                output.data |= {kind: _without_places(text, places) for kind, text in texts.items()}
        return nb, resources


def _notice(notebook: NotebookNode) -> str:
    """What a reader must know first, as Markdown; empty for a notebook that was as released and ran to its end."""
    if reason := notebook.metadata.get("not_graded"):
        return f"**Not graded.** {_as_it_is(reason)}"
    found = fault(notebook)
    lines = [f"**{found.title} in <code>{_as_it_is(found.cell)}</code>.** {_as_it_is(str(found))}"] if found else []
    if name := notebook.metadata.get("handed_in_as"):
        lines.append(f"**Another file was graded:** {_as_it_is(name)}")
    if line := notebook.metadata.get("passed_over"):
        lines.append(f"**Also handed in, and not graded:** {_as_it_is(line)}")
    if changes := notebook.metadata.get("not_as_released"):
        line = "Locked cells were put back, without what was changed in them. What stood in a deleted cell is missing."
        lines.append(f"**Not as released:** {_as_it_is(', '.join(changes))}. {line}")
    return "\n\n".join(lines)


def _as_it_is(text: str) -> str:
    """Markdown that shows this text: names in it may have marks of Markdown, `__author__` for one."""
    text = re.sub(r"[!-/:-@\[-`{-~]", lambda mark: f"&#{ord(mark[0])};", " ".join(text.split()))
    return re.sub("&#(36|92);", r"<span>\g<0></span>", text)  # a dollar or a backslash alone begins no formula


def _safe(output: NotebookNode) -> NotebookNode:
    """The same output with nothing in it but what the templates can show safely."""
    if output.output_type == "stream":
        return new_output("stream", name=output.name, text=_printable(output.text))
    if output.output_type == "error":
        lines = [_printable(line) for line in output.traceback] or [_printable(f"{output.ename}: {output.evalue}")]
        return new_output("error", ename=output.ename, evalue=_printable(output.evalue), traceback=lines)
    metadata = {kind: _picture_metadata(output.metadata.get(kind)) for kind in ("image/png", "image/jpeg")}
    return new_output("display_data", data=_safe_data(output.data), metadata=metadata)


def _joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """The outputs, texts that follow each other as one: a kernel sends them in pieces."""
    joined: list[NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def _picture_metadata(metadata: object) -> dict:
    """Width and height, which nbconvert's templates write without quotes, and a description."""
    given = metadata if isinstance(metadata, dict) else {}
    sizes = {name: given[name] for name in ("width", "height") if type(given.get(name)) is int}
    return {"alt": "A picture that this cell drew.", **sizes}


def _safe_data(data: dict) -> dict:
    """The forms of a value that can be shown. What needs a script, a Mermaid graph for one, has its text to show."""
    texts = {kind: _printable(value) for kind, value in data.items() if isinstance(value, str)}
    safe = {kind: texts[kind] for kind in ("text/plain", "text/markdown") if kind in texts}
    safe |= {kind: texts[kind] for kind in ("image/png", "image/jpeg") if _PICTURE.fullmatch(texts.get(kind, "-"))}
    if "text/latex" in texts:
        safe["text/markdown"] = texts["text/latex"]
    if "image/svg+xml" in texts:
        svg = texts["image/svg+xml"]
        safe["text/html"] = svg_image(svg[max(0, svg.find("<svg")) :].strip())
    if "text/html" in texts:
        page = clean_html(texts["text/html"])
        if "<img" in page or re.sub(r"<[^>]*>", "", page).strip():
            safe["text/html"] = page
    return safe or {"text/plain": f"[not shown: {', '.join(data)}]"}


def _printable(text: str) -> str:
    """The text without lone surrogates, which no file can hold, and without control characters but for colours."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f]", "", text)


def _places() -> list[str]:
    """Folders of this machine, the longest first."""
    home, course = Path.home(), Path.cwd()
    folders = {course, course.resolve(), Path(__file__).parents[2], home, Path(sys.prefix), Path(sys.base_prefix)}
    folders |= {Path(folder) for folder in [*site.getsitepackages(), *site.getsitepackages([sys.base_prefix])]}
    texts = {str(folder) for folder in folders if len(folder.parts) > 1}
    # IPython writes the home folder as a tilde.
    texts |= {f"~/{folder.relative_to(home)}" for folder in folders - {home} if folder.is_relative_to(home)}
    return sorted(texts, key=len, reverse=True)


def _without_places(text: str, places: list[str]) -> str:
    """The text without the folders; colours may stand right beside a path."""
    pieces = re.split("(\x1b\\[[0-9;]*m)", text)
    for i in range(0, len(pieces), 2):
        piece = _CELL.sub("this notebook", pieces[i])
        for place in places:
            piece = re.sub(re.escape(place) + r"(?![\w.-])", "…", piece)
        pieces[i] = _SOMEWHERE.sub("…", piece)
    return "".join(pieces)
