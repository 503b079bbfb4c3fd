"""Where everything stands in a picture of a program: sizes, shapes, arrows, lines of text."""

import re
from xml.etree import ElementTree

import pytest

from autograder.instruments.graphs.layout import LETTER, lay_out
from autograder.instruments.graphs.parts import Box, Edge, Node
from autograder.instruments.graphs.svg import svg

PADDING = {"input": 24, "compute": 16, "reduction": 40, "control": 36}
LONG = "a title that is so long that it needs two lines of a narrow picture"


def two(kind="compute", *, lines=("add",), title="", label="", back=False):
    """A picture's parts: a value, an arrow, and one operation below it (or above it, where the arrow goes back)."""
    box = Box("root", title, content=[Node("a", ("x",), "input"), Node("b", tuple(lines), kind)])
    return box, [Edge("a", "b", label, back)]


def drawn(box, edges):
    return ElementTree.fromstring(svg(box, edges))


def of(page, name):
    return list(page.iter("{http://www.w3.org/2000/svg}" + name))


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+\.?\d*", text)]


def corners(text):
    flat = numbers(text)
    return list(zip(flat[::2], flat[1::2], strict=True))


@pytest.mark.parametrize("kind", PADDING)
@pytest.mark.parametrize("lines", [("add",), ("multiply_add", "float32[8]", "x")])
def test_a_node_is_as_large_as_its_text_needs(kind, lines):
    x, y, width, height = lay_out(*two(kind, lines=lines)).nodes["b"]
    longest = max(map(len, lines))
    assert width == pytest.approx(LETTER * longest + PADDING[kind], abs=0.02)
    assert height == pytest.approx(15 * len(lines) + 12, abs=0.02)


def test_nothing_stands_outside_and_the_arrow_leads_from_shape_to_shape():
    layout = lay_out(*two(lines=("a long line of text",), label="1"))
    for x, y, width, height in layout.nodes.values():
        assert width / 2 - 0.1 <= x <= layout.width - width / 2 + 0.1
        assert height / 2 - 0.1 <= y <= layout.height - height / 2 + 0.1
    (route,), (_, top, _, above), (_, bottom, _, below) = layout.routes, layout.nodes["a"], layout.nodes["b"]
    assert top < bottom
    assert route.points[0][1] == pytest.approx(top + above / 2, abs=1)
    assert route.tip[1] == pytest.approx(bottom - below / 2, abs=1)
    assert route.tip[1] - route.points[-1][1] == pytest.approx(11, abs=1), "so long is the head of an arrow"
    assert route.points[0][1] < route.label[1] < route.tip[1]


def test_a_way_back_is_laid_out_upwards():
    layout = lay_out(*two(back=True))
    (route,), (_, top, _, above), (_, bottom, _, below) = layout.routes, layout.nodes["b"], layout.nodes["a"]
    assert top < bottom, "where it leads stands above"
    assert route.points[0][1] == pytest.approx(bottom - below / 2, abs=1)
    assert route.tip[1] == pytest.approx(top + above / 2, abs=1)
    assert route.points[-1][1] - route.tip[1] == pytest.approx(11, abs=1)


@pytest.mark.parametrize(("title", "above"), [("", 12), ("a title", 12 + 16 + 6), (LONG, 12 + 2 * 16 + 6)])
def test_a_picture_is_as_high_as_its_title_and_its_nodes(title, above):
    box, edges = two(title=title)
    layout, page = lay_out(box, edges), drawn(box, edges)
    assert float(page.get("width")) == 300 + 24, "a narrow one is as wide as a short title"
    assert float(page.get("height")) == pytest.approx(layout.height + above + 12, abs=0.51)
    assert numbers(page.get("viewBox")) == [0, 0, float(page.get("width")), float(page.get("height"))]
    x, y = numbers(of(page, "g")[1].get("transform"))
    assert (x, y) == (pytest.approx(12 + (300 - layout.width) / 2, abs=0.06), above), "in the middle, below the title"
    baselines = [float(line.get("y")) for line in of(of(page, "g")[0], "text")]
    assert baselines == [12 + 16 * i + 10 for i in range(len(baselines))]


def test_a_wide_picture_is_as_wide_as_its_nodes():
    box, edges = two(lines=("w" * 80,))
    assert float(drawn(box, edges).get("width")) == pytest.approx(lay_out(box, edges).width + 24, abs=0.51)


@pytest.mark.parametrize("lines", [("add",), ("add", "float32[8]"), ("a", "b", "c", "d")])
def test_lines_stand_in_the_middle_of_their_shape(lines):
    box, edges = two(lines=lines)
    x, y, _, height = lay_out(box, edges).nodes["b"]
    spans = [span for span in of(drawn(box, edges), "tspan") if span.text in lines]
    baselines = [float(span.get("y")) for span in spans]
    # Letters of 12 pixels stand 8 above their baseline and 0 below it, so their middle is 4 above.
    assert sum(baselines) / len(baselines) - 4 == pytest.approx(y, abs=0.06)
    assert [b - a for a, b in zip(baselines, baselines[1:], strict=False)] == pytest.approx([15] * (len(lines) - 1))
    assert [float(span.get("x")) for span in spans] == pytest.approx([x] * len(lines), abs=0.06)
    assert y - height / 2 < baselines[0] - 8 and baselines[-1] < y + height / 2


def test_each_kind_has_a_shape_of_its_own():
    shapes = {}
    for kind in PADDING:
        box = Box("root", "", content=[Node("b", ("add",), kind)])
        x, y, width, height = lay_out(box, []).nodes["b"]
        shape = (of(drawn(box, []), "polygon") or of(drawn(box, []), "rect")[1:])[0]
        if points := shape.get("points"):
            shapes[kind] = [(round(a - x + width / 2), round(b - y + height / 2)) for a, b in corners(points)]
        else:
            assert [float(shape.get(name)) for name in ("x", "y", "width", "height")] == pytest.approx(
                [x - width / 2, y - height / 2, width, height], abs=0.06
            )
            shapes[kind] = float(shape.get("rx"))
        wide = round(width)
    h = 27  # of one line
    reduction = round(LETTER * 3 + PADDING["reduction"])
    assert shapes == {
        "input": h / 2,
        "compute": 2,
        "reduction": [(0, 0), (reduction, 0), (reduction - 14, h), (14, h)],
        "control": [(12, 0), (wide - 12, 0), (wide, round(h / 2)), (wide - 12, h), (12, h), (0, round(h / 2))],
    }


def test_an_arrow_ends_in_a_head_of_three_corners():
    box, edges = two(label="which")
    (route,), page = lay_out(box, edges).routes, drawn(box, edges)
    tip, *others = corners(of(page, "polygon")[0].get("points"))
    end, length = route.points[-1], abs(route.tip[1] - route.points[-1][1])
    assert tip == pytest.approx(route.tip, abs=0.06)
    (x1, y1), (x2, y2) = others
    assert ((x1 + x2) / 2, (y1 + y2) / 2) == pytest.approx(end, abs=0.06)
    assert ((x1 - x2) ** 2 + (y1 - y2) ** 2) ** 0.5 == pytest.approx(0.7 * length, abs=0.2)
    (label,) = [text for text in of(page, "text") if text.text == "which"]
    assert float(label.get("x")) == pytest.approx(route.label[0], abs=0.06)
    assert float(label.get("y")) - 4 == pytest.approx(route.label[1], abs=0.06)


def test_a_node_and_an_edge_are_values():
    node, edge = Node("a", ("x",)), Edge("a", "b")
    assert {node, Node("a", ("x",))} == {node} and {edge, Edge("a", "b")} == {edge}
