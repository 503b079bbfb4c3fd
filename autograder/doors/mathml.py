"""TeX formulas as MathML, which a browser draws without a script and without a network."""

import html
import re
from xml.etree import ElementTree

LONGEST = 2000  # characters of one formula

_TAGS = re.compile(
    r"math|menclose|mfrac|mi|mmultiscripts|mn|mo|mover|mpadded|mphantom|mprescripts|mroot|mrow|ms|mspace|msqrt|mstyle"
    r"|msub|msubsup|msup|mtable|mtd|mtext|mtr|munder|munderover|none"
)
_ATTRIBUTES = re.compile(
    r"accent|accentunder|columnalign|columnlines|columnspacing|depth|display|displaystyle|fence|form|height|largeop"
    r"|linethickness|lspace|mathvariant|maxsize|minsize|movablelimits|notation|rowlines|rowspacing|rspace|scriptlevel"
    r"|separator|stretchy|symmetric|voffset|width"
)
_VALUE = re.compile(r"[\w .%+-]*")
_DEFINES = re.compile(r"\\(?:re|provide)?newcommand|\\g?def(?![a-zA-Z])|\\let(?![a-zA-Z])")


def mathml(tex: str, display: bool = False) -> str | None:
    """A formula as a <math> element; None if it is none that can be drawn.

    `tex` is the formula without its dollars, `display` whether it stands on a line of its own. What comes from a
    student is safe: elements and attributes that may lead somewhere, `\\href` for one, make the answer None, and so
    do definitions, which can define themselves.
    """
    if len(tex) > LONGEST or _DEFINES.search(tex):
        return None
    try:
        from latex2mathml.converter import Converter  # its table of symbols is large, and few pages have a formula

        math = Converter(display="block" if display else "inline").convert_to_element(tex)
    except Exception:  # of every kind: a formula, and what a student took for one, must not cost the page
        return None
    for element in math.iter():
        element.attrib.pop("xmlns", None)
        known = all(_ATTRIBUTES.fullmatch(name) and _VALUE.fullmatch(value) for name, value in element.items())
        if not known or not _TAGS.fullmatch(element.tag):
            return None
        # The converter's own text holds character references; its serialiser undoes every escape, `<` included.
        element.text = html.unescape(element.text or "")
    return ElementTree.tostring(math, encoding="unicode", short_empty_elements=False)
