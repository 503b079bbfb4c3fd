"""The course's notebooks as sources of pages: `stage` writes them beside `conf.py`, where they lie in the course.

So every relative link between lessons, exercises and README.md leads to a page. Nothing is executed here; what is
written is not in git, and is written again only where it has changed.
"""

import re
from pathlib import Path

import nbformat
from launch import Repository, for_colab, requirements
from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_markdown_cell

COLAB = "_extra"  # its content is copied to the root of the site
_FRAGMENT = re.compile(r"(\]\([^)\s#]*#)([^)\s]*)(?=\))")
_TO_README = re.compile(r"(\]\((?:\.\./)+)README\.md(?=[#)])")
_NOT_HERE = re.compile(r"<!-- not on the web -->\n.*?<!-- and on -->\n", re.DOTALL)
_TO_PAGES = re.compile(r"(\]\()web/")  # as README.md has it


def stage(course: Path, web: Path, repository: Repository | None) -> list[str]:
    """Write the sources of the pages below `web`. Returns the names of the pages: "lessons/05_the_cache"."""
    notebooks = [*sorted(course.glob("lessons/*.ipynb")), *sorted(course.glob("exercises/*/*.ipynb"))]
    places = {path.relative_to(course).with_suffix("").as_posix(): path for path in notebooks}
    written = {web / "autograder/THREATS.md": (course / "autograder/THREATS.md").read_text()}
    needed = requirements(course) if repository else []
    for place, path in places.items():
        notebook = nbformat.read(path, as_version=4)
        written[web / f"{place}.ipynb"] = nbformat.writes(as_page(notebook, place, repository))
        if repository:
            copy = for_colab(notebook, place, repository, needed)
            written[web / COLAB / "colab" / f"{place}.ipynb"] = nbformat.writes(copy)
    for folder in ("lessons", "exercises", COLAB):
        for old in {*(web / folder).rglob("*.ipynb")} - written.keys():
            old.unlink()
    (web / COLAB).mkdir(exist_ok=True)
    for target, text in written.items():
        if not target.exists() or target.read_text() != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    return list(places)


def as_page(notebook: NotebookNode, place: str, repository: Repository | None) -> NotebookNode:
    """A notebook as the source of a page: what JupyterLab folds is folded, its pictures have alternative texts."""
    page = from_dict(notebook)
    for cell in page.cells:
        if cell.cell_type == "markdown":
            cell.source = plain_links(cell.source)
        elif cell.metadata.get("jupyter", {}).get("source_hidden"):
            _fold(cell)
    page.cells.insert(1, new_markdown_cell(note(place, repository), id="how-to-read"))
    return page


def plain_links(text: str) -> str:
    """Links as the pages have them: no backticks in a heading's anchor, README.md the first page, web/ the root."""
    text = _FRAGMENT.sub(lambda link: link[1] + link[2].replace("`", "").replace("%60", ""), text)
    return _TO_PAGES.sub(r"\1", _TO_README.sub(r"\1index.md", text))


def first_page(text: str) -> str:
    """README.md as the first page: without what it says to somebody who is elsewhere."""
    return plain_links(_NOT_HERE.sub("", text))


def heading_anchor(title: str) -> str:
    """The anchor that JupyterLab gives a heading, so that its links are right here too."""
    return title.strip().replace(" ", "-")


def note(place: str, repository: Repository | None) -> str:
    """What stands below the title of a page: what it is, and where it can be run."""
    notebook, up = f"{place}.ipynb", "../" * place.count("/")
    links = [f"[on your own machine]({up}index.md#Start)"]
    if repository:
        links[:0] = [
            f"[in Colab]({repository.colab(notebook)}){{.run}}",
            f"[on Binder]({repository.binder(notebook)}){{.run}}",
        ]
    if place.startswith("lessons/"):
        about = "A notebook that has been run"
        says = (
            "You are reading a notebook that has been run, with what it measured on the machine that made this page. "
            "Where a cell says `guess = None`, make your guess before you look below it; in a notebook of your own you "
            "can type it, and see it beside the measurement."
        )
    else:
        about = "A notebook to be filled in"
        says = (
            "This exercise is shown as it is handed out: nothing has been run. Fill it in, and its checks say what "
            "they found."
        )
    return f":::{{admonition}} {about}\n:class: note\n\n{says}\n\nRun it: {' · '.join(links)}\n:::"


def _fold(cell: NotebookNode) -> None:
    """Hide the source behind a line that says what it is, as JupyterLab does with the cell's first line."""
    first = cell.source.split("\n", 1)[0]
    check = re.match(r'"""(\d+ points?\. .+?)(?:""")?$', first)
    title = f"Check, {check[1]}" if check else first.removeprefix("# ")
    cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
    options = {"code_prompt_show": title, "code_prompt_hide": title}
    if found := re.match(r"(?:Picture|Table): (.+)", title):
        options["image"] = {"alt": found[1][0].upper() + found[1][1:]}
    cell.metadata["mystnb"] = options
