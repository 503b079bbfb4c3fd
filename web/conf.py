"""The web edition: `sphinx-build -M html web web/_build -W --keep-going`, in the course's folder."""

import hashlib
import os
import re
import sys
from importlib import metadata
from pathlib import Path

WEB = Path(__file__).parent
COURSE = WEB.parent
sys.path.insert(0, str(WEB))

from docstrings import as_restructured_text  # noqa: E402 (they lie beside this file, which Sphinx does not say)
from docutils import nodes  # noqa: E402
from launch import find_repository  # noqa: E402
from sphinx.util import logging  # noqa: E402
from staging import COLAB, first_page, stage  # noqa: E402

project = "Just in Time"
copyright = "the authors; code Apache-2.0, text CC BY 4.0"
extensions = ["myst_nb", "sphinx.ext.autodoc"]
exclude_patterns = ["_*", "*.py"]
nitpicky = True  # with -W, a link that leads nowhere fails the build
nitpick_ignore_regex = [(r"py:\w+", ".*")]  # but the types in signatures, which have no page here

# Links to elsewhere are asked by `-M linkcheck`; these two would start a machine for each page.
linkcheck_ignore = [r"https://colab\.research\.google\.com/.*", r"https://mybinder\.org/.*"]
linkcheck_timeout = 20  # seconds

# --- the pages of the theme

repository = find_repository(COURSE)
html_theme = "sphinx_book_theme"
html_title = project
html_static_path = ["_static"]
html_extra_path = [COLAB]
html_css_files = ["web.css"]
html_copy_source = True  # the download button: a page's notebook
html_show_sphinx = False
html_theme_options = {
    "show_toc_level": 2,
    "home_page_in_toc": True,
    "use_fullscreen_button": False,
    "footer_content_items": ["copyright.html"],
    "navbar_persistent": "",  # the search is in the sidebar
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "search_bar_text": "Search the course",
}
if repository:
    html_baseurl = repository.site
    html_theme_options |= {
        "repository_url": repository.address,
        "use_repository_button": True,
    }

# --- Markdown, as JupyterLab reads it

myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 4
myst_heading_slug_func = "staging.heading_anchor"

# --- lessons are executed, exercises are not


def what_runs() -> str:
    """Of the package and of JAX: notebooks that ran with another one run again."""
    modules = (path for path in sorted((COURSE / "autograder").rglob("*.py")) if "tests" not in path.parts)
    found = hashlib.sha256(b"".join(path.read_bytes() for path in modules)).hexdigest()[:12]
    return f"{found}-jax{metadata.version('jax')}-python{sys.version_info.major}.{sys.version_info.minor}"


os.environ["COURSE_ON_A_PAGE"] = "1"  # of the kernels: on a page nobody types a guess (instruments/guess.py)
nb_execution_mode = "cache"
nb_execution_cache_path = str(WEB / "_build" / "executed" / what_runs())
nb_execution_excludepatterns = ["exercises/*/*"]
# Each where it is staged, as in a learner's room: beside the other lessons, with the exercises next door.
nb_execution_in_temp = False
nb_execution_timeout = 300  # seconds a cell
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_output_stderr = "remove-warn"  # a lesson writes nothing there, and pytest holds it to that as well
nb_merge_streams = True
nb_render_markdown_format = "myst"  # of what a cell shows: tables and formulas
nb_code_prompt_show = nb_code_prompt_hide = "Code"

# --- the reference

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80


def setup(app):
    """What is done besides: notebooks become sources, docstrings become reStructuredText, pictures get texts."""
    stage(COURSE, WEB, repository)
    if repository is None:
        line = "web: no address on GitHub is known (GITHUB_REPOSITORY, git's remote): no buttons for Colab and Binder"
        logging.getLogger("web").info(line)
    app.connect("source-read", _named)
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("include-read", _included)
    app.connect("doctree-read", _alternative_texts)


def _named(app, docname, source):
    """The address of the repository stands in no text: whoever builds the pages knows it."""
    if repository:
        source[0] = source[0].replace("ADDRESS-OF-THIS-REPOSITORY", repository.address)


def _docstring(app, what, name, obj, options, lines):
    lines[:] = as_restructured_text(lines)


def _included(app, relative_path, parent_docname, content):
    content[0] = first_page(content[0])


def _alternative_texts(app, doctree):
    """A picture without a text of its own gets that of the same view in words: its last line, which sums it up."""
    for bundle in doctree.findall(lambda node: getattr(node, "get", dict().get)("nb_element") == "mime_bundle"):
        texts = [n.astext() for n in bundle.findall(nodes.literal_block)]
        said = re.sub(r"\x1b\[[\d;]*m", "", texts[-1]).strip().splitlines() if texts else []
        for image in bundle.findall(nodes.image):
            image.setdefault("alt", said[-1] if said else "A picture, which the text around it explains")
