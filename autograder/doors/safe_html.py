"""What a student wrote or printed, as HTML that does nothing but show it.

Of a fragment's elements and attributes only listed ones are kept, and the rest is built anew from the parsed tree:
no script, no style sheet, no form, no id, no class that a page's own script looks for, nothing that is fetched. A
picture is an image whose data stand in the page. In an image, SVG runs no script and fetches nothing.
"""

import base64
import html
import itertools
import re
import secrets
from collections.abc import Iterator
from xml.etree import ElementTree

from bs4 import BeautifulSoup, NavigableString, Tag
from bs4.element import PageElement
from jinja2 import pass_context
from nbconvert.filters import ansi2html
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from .mathml import mathml

_KEPT = re.compile(
    r"a|abbr|b|blockquote|br|caption|code|col|colgroup|dd|del|details|div|dl|dt|em|figcaption|figure|h1|h2|h3|h4|h5|h6"
    r"|hr|i|img|ins|kbd|li|mark|ol|p|pre|q|s|samp|small|span|strong|sub|summary|sup|table|tbody|td|tfoot|th|thead|tr"
    r"|tt|u|ul|var|wbr"
)
# With all that is in it: what remains of a script without its element is its source.
_DROPPED = re.compile(
    r"applet|audio|base|canvas|embed|frame|frameset|iframe|link|math|meta|noembed|noframes|noscript|object|script"
    r"|select|style|template|textarea|title|video"
)
_ATTRIBUTES = {
    "alt": re.compile(r".*", re.DOTALL),
    "class": re.compile(r"[a-z][a-z0-9]{0,2}|highlight"),  # what Pygments gives to the parts of code
    "colspan": re.compile(r"\d{1,3}"),
    "height": re.compile(r"\d{1,4}%?"),
    "open": re.compile(r"(open)?"),
    "rowspan": re.compile(r"\d{1,3}"),
    "start": re.compile(r"\d{1,6}"),
    "style": re.compile(r"text-align: ?(left|right|center);?"),
    "width": re.compile(r"\d{1,4}%?"),
}
_IMAGE = re.compile(r"data:image/(png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/=\s]*")
_LINK = re.compile(r"(https?://|mailto:)\S+", re.IGNORECASE)
_RELATIVE = re.compile(r"(\.{1,2}/)*([\w-][\w ./-]*)(#.*)?")
_PICTURES, _FORMULAS = 200, 300  # of one cell or output; a page takes milliseconds for each
_DEEPEST = 100  # elements inside each other; Python and browsers give up at some hundreds
_FORMULA = re.compile(
    r"\$\$(?P<block>.+?)\$\$|(?<![\\\w$])\$(?P<inline>[^$]+?)\$(?![\w$])"
    r"|(?P<environment>\\begin\{(?P<name>[a-z]+\*?)\}.*?\\end\{(?P=name)\})",
    re.DOTALL,
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_COMMENT = ("<!--", "-->")
_DECLARATION = re.compile(r"<[!?][^<>]*>")
# A tag to its end, or a mark that begins none. Python's parser looks for the end of each tag that has none anew in all
# that follows it: 20 kB of `<p ` took it a minute.
_TAG = re.compile(r"""</?[A-Za-z](?:[^<>"']|"[^"]*"|'[^']*'){0,2000}+>|<""")


class Clean(str):
    """A fragment that is safe: not to be cleaned again, which would take time, and formulas out."""


def clean_html(fragment: str) -> str:
    """The fragment, safe to show: a filter for nbconvert's templates. An SVG picture becomes an image."""
    return fragment if isinstance(fragment, Clean) else Clean(_clean(fragment))


@pass_context
def markdown_to_html(context, source: str) -> str:
    """Markdown, safe to show, its formulas as MathML: a filter for nbconvert's templates.

    A link into the course's folder, which is not where the page is read, becomes the name of the file.
    """
    renderer = _Renderer(attachments=context.get("cell", {}).get("attachments", {}))
    try:
        fragment = MarkdownWithMath(renderer=renderer).render(source)
    except Exception:  # a student's Markdown must not cost the student the page
        return f"<pre>{html.escape(source)}</pre>"
    return Clean(_clean(fragment, formulas=True))


def plain_ansi(text: str) -> str:
    """`ansi2html` with the eight colours that a style sheet can choose, and without those that name their own."""
    return ansi2html(_COLOUR.sub(_without_own_colours, text))


class _Renderer(IPythonRenderer):
    """nbconvert's, but for what it raises, what it leaves unescaped, and what asks for a network."""

    def __init__(self, attachments: dict):
        super().__init__(escape=False, exclude_anchor_links=True, attachments=attachments)

    def block_mermaidjs(self, code: str) -> str:
        return f"<pre>{html.escape(code)}</pre>"

    def _embed_image_or_attachment(self, src: str) -> str:
        name = src.removeprefix("attachment:")
        if name == src:
            return src
        kinds = self.attachments.get(name, {}).items()
        return next((f"data:{kind};base64,{data}" for kind, data in kinds if kind.startswith("image/")), "")


def _clean(fragment: str, formulas: bool = False) -> str:
    """The fragment, safe to show; as it was written, where it cannot be read. No student's page costs another's."""
    try:
        return _cleaned(fragment, formulas)
    except Exception:
        return f"<pre>{html.escape(fragment)}</pre>"


def _cleaned(fragment: str, formulas: bool) -> str:
    pictures, fragment = _take_pictures(fragment)
    fragment = _DECLARATION.sub("", _without_comments(fragment))
    soup = BeautifulSoup(_TAG.sub(lambda tag: tag[0] if len(tag[0]) > 1 else "&lt;", fragment), "html.parser")
    if _too_deep(soup):
        return f"<pre>{html.escape(fragment)}</pre>"
    for node in list(soup.descendants):
        if isinstance(node, Tag):
            _clean_tag(soup, node)
        elif type(node) is not NavigableString:  # comments, declarations: they are written out as they are
            node.extract()
    soup.smooth()  # a text that stood on both sides of a comment is one text now
    for text in list(soup.find_all(string=True)):
        parts = list(pictures.parts_of(text, formulas and not text.find_parent(["code", "pre"])))
        if parts != [text]:
            text.replace_with(*parts)
    return str(soup)


def _too_deep(soup: BeautifulSoup) -> bool:
    depth = {id(soup): 0}
    for node in soup.find_all(True):
        depth[id(node)] = depth[id(node.parent)] + 1
    return max(depth.values()) > _DEEPEST


def _clean_tag(soup: BeautifulSoup, tag: Tag) -> None:
    """Keep, unwrap or drop one element. Its children are visited on their own."""
    if _DROPPED.fullmatch(tag.name):
        tag.extract()
    elif not _KEPT.fullmatch(tag.name):
        tag.unwrap()
    elif tag.name == "img" and not _IMAGE.fullmatch(_text_of(tag, "src")):
        _name_picture(soup, tag)
    else:
        source = {"src": _text_of(tag, "src")} if tag.name == "img" else {}
        target = _text_of(tag, "href") if tag.name == "a" else ""
        tag.attrs = {**dict(_allowed(tag)), **source}
        if _LINK.fullmatch(target):
            tag.attrs |= {"href": target, "target": "_blank", "rel": "noopener noreferrer"}
        elif tag.name == "a":
            tag.name = "span"
            if found := _RELATIVE.fullmatch(target):
                code = soup.new_tag("code")
                code.string = found[2]
                tag.extend([NavigableString(" ("), code, NavigableString(" in the course's folder)")])


def _text_of(tag: Tag, name: str) -> str:
    """An attribute that is one text (bs4 makes a list of some, not of those that lead somewhere); empty without it."""
    value = tag.get(name)
    return value if isinstance(value, str) else ""


def _allowed(tag: Tag) -> Iterator[tuple[str, str]]:
    for name, value in tag.attrs.items():
        values = value if isinstance(value, list) else [value or ""]  # bs4 splits a class
        pattern = _ATTRIBUTES.get(name)
        if pattern and all(map(pattern.fullmatch, values)):
            yield name, " ".join(values)


def _name_picture(soup: BeautifulSoup, tag: Tag) -> None:
    """A picture that is not in the page: its description, as a link if it is on the network."""
    source, words = _text_of(tag, "src"), f"[picture: {tag.get('alt') or 'not in this page'}]"
    link = soup.new_tag("a", href=source, target="_blank", rel="noopener noreferrer")
    if _LINK.fullmatch(source):
        link.string = words
    tag.replace_with(link if link.string else NavigableString(words))


class _Pictures(list[str]):
    """The pictures of a fragment. Where one stood is a word that nobody can guess."""

    def __init__(self) -> None:
        super().__init__()
        self._word = f"picture-{secrets.token_hex(16)}-"

    def take(self, svg: str) -> str:
        """What stands in its place."""
        if len(self) == _PICTURES:
            return "[picture: left out]"
        self.append(svg_image(svg))
        return f"{self._word}{len(self) - 1};"

    def parts_of(self, text: str, formulas: bool) -> Iterator[PageElement]:
        """A text as texts, images and formulas."""
        for i, piece in enumerate(re.split(f"{self._word}([0-9]+);", text)):
            if i % 2:
                yield from list(BeautifulSoup(self[int(piece)], "html.parser").contents)
            elif formulas:
                yield from _with_formulas(piece)
            elif piece:
                yield NavigableString(piece)


def _take_pictures(fragment: str) -> tuple[_Pictures, str]:
    """The pictures, and the fragment with a place for each <svg>...</svg>: an HTML parser would lower their case."""
    pictures = _Pictures()
    parts, last, lower = [], 0, fragment.lower()
    while (start := lower.find("<svg", last)) >= 0 and (end := lower.find("</svg>", start)) >= 0:
        end += len("</svg>")
        parts += [fragment[last:start], pictures.take(fragment[start:end])]
        last = end
    return pictures, "".join([*parts, fragment[last:]])


def _without_comments(fragment: str) -> str:
    begin, end = _COMMENT
    parts, last = [], 0
    while (start := fragment.find(begin, last)) >= 0 and (stop := fragment.find(end, start)) >= 0:
        parts.append(fragment[last:start])
        last = stop + len(end)
    return "".join([*parts, fragment[last:]])


def svg_image(svg: str) -> str:
    """An SVG picture as an <img>; as a line that says so if it is not well-formed."""
    if "xmlns=" not in svg.partition(">")[0]:
        svg = svg[:4] + ' xmlns="http://www.w3.org/2000/svg"' + svg[4:]
    try:
        if "<!" in svg:  # a declaration, which may hold entities
            raise ElementTree.ParseError
        root = ElementTree.fromstring(svg)
    except (ElementTree.ParseError, RecursionError):
        return "[picture: not well-formed]"
    label = html.escape(root.get("aria-label") or "picture")
    return f'<img alt="{label}" src="data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"/>'


def _with_formulas(text: str) -> Iterator[PageElement]:
    last = 0
    for found in itertools.islice(_FORMULA.finditer(text), _FORMULAS):
        tex = found["block"] or found["inline"] or found["environment"]
        drawn = mathml(tex.strip(), display=not found["inline"])
        yield NavigableString(text[last : found.start()])
        shown = drawn or f"<code>{html.escape(found[0])}</code>"
        yield from list(BeautifulSoup(shown, "html.parser").contents)
        last = found.end()
    yield NavigableString(text[last:])


def _without_own_colours(code: re.Match[str]) -> str:
    numbers, kept = code[0][2:-1].split(";"), []
    while numbers:
        number = numbers.pop(0)
        if number in ("38", "48"):
            del numbers[: 2 if numbers[:1] == ["5"] else 4]
        else:
            kept.append(number)
    return f"\x1b[{';'.join(kept)}m" if kept else ""
