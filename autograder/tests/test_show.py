"""Pictures of programs: what they say, and that there is one whatever the program is."""

import itertools
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from autograder import show_hlo, show_jaxpr
from autograder.instruments.graphs.graph import Graph, picture
from autograder.instruments.graphs.layout import lay_out
from autograder.instruments.graphs.parts import Box, Edge, Node
from autograder.instruments.graphs.svg import svg

X = jnp.arange(8.0)


def poly(x):
    return 2 * x**2 + 3 * x + 3


def add_sub(a, b, c):
    return a + b - c


def labels(graph):
    """The lines of every node, by its id."""
    return {node.id: list(node.lines) for node in graph.root.nodes()}


def arrows(graph):
    """(from, to) of every arrow, as the first lines of the labels."""
    names = labels(graph)
    return {(names[edge.source][0], names[edge.target][0]) for edge in graph.edges}


def boxes(graph):
    return [box.title for box in graph.root.boxes()]


def edge_labels(graph):
    return {edge.label for edge in graph.edges}


def test_a_jaxpr_and_its_counts():
    view = show_jaxpr(poly, 2.0)
    assert (view.equations, view.flops, view.largest, view.largest_size) == (5, 5, "float32[]", 1)
    assert view.primitives["mul"] == 2
    assert not view.flops_lower_bound
    assert view.text == str(jax.make_jaxpr(poly)(2.0))
    assert str(view) == f"{view.text}\n5 equations, 5 FLOPs, largest intermediate float32[]"
    assert repr(view) == str(view)


def test_the_graph_of_a_polynomial():
    graph = show_jaxpr(poly, 2.0).graph()
    assert graph.root.title == "poly: 5 equations, 5 FLOPs, largest intermediate float32[]"
    assert arrows(graph) == {
        ("x", "integer_pow y=2"),
        ("x", "mul 3 ·"),
        ("integer_pow y=2", "mul 2 ·"),
        ("mul 2 ·", "add"),
        ("mul 3 ·", "add"),
        ("add", "add · 3"),
        ("add · 3", "result"),
    }


def test_a_lower_bound_says_so():
    assert "at least" in str(show_jaxpr(lambda x, n: lax.fori_loop(0, n, lambda i, x: x * 2, x), X, 3))


def test_both_forms_for_a_notebook():
    for view in (show_jaxpr(poly, 2.0), show_hlo(poly, 2.0)):
        page = f'<div style="overflow-x:auto">{view.svg}</div>'
        assert view._repr_mimebundle_() == {"text/html": page, "image/svg+xml": view.svg, "text/plain": str(view)}


def test_hlo_before_and_after():
    before = show_hlo(add_sub, X, X, X, stage="lowered")
    after = show_hlo(add_sub, X, X, X)
    flow = {("a", "add"), ("b", "add"), ("add", "subtract"), ("c", "subtract"), ("subtract", "result")}
    assert arrows(before.graph()) == arrows(after.graph()) == flow
    assert boxes(before.graph()) == []
    assert boxes(after.graph()) == ["fusion"]
    assert (before.stage, after.stage) == ("lowered", "optimized")
    assert (after.ops, after.fusions, after.flops) == ({"add": 1, "subtract": 1}, 1, 16)
    assert after.collectives == {} and after.temp_bytes == 0 and not after.loops
    assert str(after).endswith("\n2 ops, 1 fusion, 128 bytes accessed")
    assert "HloModule" in after.text and "metadata" not in str(after)


def test_which_operand_is_which():
    assert edge_labels(show_jaxpr(add_sub, X, X, X).graph()) == {"", "1", "2"}
    chosen = show_jaxpr(lambda p, x, y: jnp.where(p, x, y), X > 0, X, X).graph()
    assert edge_labels(chosen) == {"", "which", "true", "false"}


def test_a_number_is_shown_as_it_is_written():
    found = labels(show_jaxpr(lambda x: 3.75 * x + 1 / 3, X).graph()).values()
    assert {"mul 3.75 ·", "add · 0.333333"} <= {label[0] for label in found}


def test_a_scan_goes_round():
    def fn(w, h, xs):
        return lax.scan(lambda h, x: (jnp.tanh(w @ h + x), h.sum()), h, xs)

    graph = show_jaxpr(fn, jnp.ones((8, 8)), X, jnp.ones((5, 8))).graph()
    assert boxes(graph) == ["scan, 5 times"]
    assert {("h", "carry"), ("xs", "slice"), ("w", "dot_general"), ("carry", "dot_general")} <= arrows(graph)
    assert {("tanh", "carry"), ("tanh", "result 0"), ("stack", "result 1")} <= arrows(graph)
    assert [edge.label for edge in graph.edges if edge.back] == ["next"]


def test_a_while_shows_its_condition():
    graph = show_jaxpr(lambda x, n: lax.fori_loop(0, n, lambda i, x: x * 2, x), X, 3).graph()
    assert boxes(graph) == ["while", "condition"]
    assert {("carry = 0", "lt"), ("lt", "go on?"), ("carry = 0", "add · 1"), ("mul · 2", "carry")} <= arrows(graph)


def test_a_loop_in_hlo():
    view = show_hlo(lambda x: lax.scan(lambda x, _: (jnp.sin(x), None), x, None, length=5)[0], X)
    assert view.loops
    assert "(each loop counted once)" in str(view)
    assert boxes(view.graph())[0] == "while, 5 times"
    assert {("x", "carry"), ("carry", "sine"), ("sine", "carry"), ("carry", "result")} <= arrows(view.graph())


def test_branches():
    def fn(x, p):
        return lax.cond(p, jnp.sin, lambda x: x * 2, x)

    jaxpr, hlo = show_jaxpr(fn, X, True).graph(), show_hlo(fn, X, True).graph()
    assert boxes(jaxpr) == ["false", "true"]
    assert {("sin", "cond"), ("mul · 2", "cond"), ("cond", "result")} <= arrows(jaxpr)
    assert {"branch 0", "branch 1"} <= set(boxes(hlo))
    assert {("sine", "conditional"), ("multiply · 2", "conditional")} <= arrows(hlo)


def test_inner_functions_are_drawn_without_their_wrappers():
    graph = show_jaxpr(jax.nn.selu, X).graph()
    assert boxes(graph) == []
    assert ("expm1" in str(labels(graph))) and ("jit" not in str(labels(graph)))


def test_several_results():
    assert {("x", "result 0"), ("sin", "result 1")} <= arrows(show_jaxpr(lambda x: (x, jnp.sin(x)), X).graph())
    found = arrows(show_hlo(lambda x: (jnp.cos(x), jnp.sin(x)), X).graph())
    assert {("cosine", "result 0"), ("sine", "result 1")} <= found


def test_boxes_that_hold_nothing_but_empty_boxes_are_not_drawn():
    graph = Graph()
    graph.node(graph.root, ("sin",))
    graph.box(graph.box(graph.root, "fusion"), "body")
    drawn = picture(graph)
    assert "sin" in drawn and "fusion" not in drawn and "body" not in drawn


def test_a_big_program_is_one_line(monkeypatch):
    def unrolled(x):
        for _ in range(200):
            x = 3.7 * x * (1 - x)
        return x

    view = show_jaxpr(unrolled, X)
    assert labels(view.graph()) == {"n1": ["too many operations to draw (600)", "mul 400, sub 200"]}
    lines = str(view).splitlines()
    assert len(lines) == 62
    assert lines[60] == f"... {len(view.text.strip().splitlines()) - 60} more lines; .text has all of it"
    monkeypatch.setattr("autograder.instruments.show.MAX_LINES", len(view.text.strip().splitlines()))
    assert str(view).startswith(view.text.strip()) and "more lines" not in str(view)
    assert "too many operations to draw" in show_hlo(unrolled, X).svg


def test_of_a_big_program_six_operations_are_named():
    def fn(x):
        for _ in range(10):
            x = jnp.sin(jnp.cos(jnp.tan(jnp.exp(jnp.log(jnp.sqrt(jnp.tanh(x)))))))
        return x

    (note,) = labels(show_jaxpr(fn, X).graph()).values()
    assert note[1] == "tanh 10, sqrt 10, log 10, exp 10, tan 10, cos 10, ..."


# --- the picture ----------------------------------------------------------------------------------------------------

LOOP = Box("n3", "while, 5 times", "loop", [Node("n4", ("carry = 0",), "control"), Node("n5", ("add", "int32[]"))])
FUSION = Box("n6", "fusion", content=[Node("n7", ("reduce(add)", "f32[]"), "reduction", marked=True)])
GRAPH = Box("graph", "f <b> & a title of many words, so many that it takes two lines of the picture or more")
GRAPH.content = [Node("n1", ("x", "float32[8]"), "input"), LOOP, FUSION]
EDGES = [Edge("n1", "n4"), Edge("n4", "n5"), Edge("n5", "n4", "next", back=True), Edge("n4", "n7", "which")]


def drawn(tag, of=None):
    root = ElementTree.fromstring(svg(GRAPH, EDGES)) if of is None else of
    return root.findall(f".//{{http://www.w3.org/2000/svg}}{tag}")


def test_all_that_is_said_stands_in_the_picture_in_fixed_width_letters():
    said = ["".join(text.itertext()) for text in drawn("text")]
    inside = ["while, 5 times", "fusion", "next", "which", "xfloat32[8]", "carry = 0", "addint32[]", "reduce(add)f32[]"]
    title = len(said) - len(inside)
    assert sorted(said[title:]) == sorted(inside)
    assert " ".join(said[:title]) == GRAPH.title and title > 1, "it is wrapped, and no word of it is broken"
    assert "monospace" in svg(GRAPH, EDGES)


def test_nothing_overlaps_and_all_lies_in_its_frame():
    layout = lay_out(GRAPH, EDGES)
    sides = {
        name: (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        for name, (x, y, width, height) in layout.nodes.items()
    }
    frames = {
        name: (left, top, left + width, top + high) for name, (left, top, width, high, _) in layout.frames.items()
    }
    assert len(sides) == 4 and len(frames) == 2

    def inside(inner, outer):
        return all(a >= b for a, b in zip(inner[:2], outer, strict=False)) and all(
            a <= b for a, b in zip(inner[2:], outer[2:], strict=True)
        )

    def apart(one, other):
        return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]

    whole = (0, 0, layout.width, layout.height)
    for name, place in (sides | frames).items():
        assert inside(place, whole), name
    assert inside(sides["n4"], frames["n3"]) and inside(sides["n5"], frames["n3"]) and inside(sides["n7"], frames["n6"])
    assert apart(frames["n3"], frames["n6"]) and apart(sides["n1"], frames["n3"])
    assert all(apart(sides[a], sides[b]) for a, b in itertools.combinations(sides, 2))


def test_arrows_go_down_and_the_way_back_up():
    first, inner, back, last = lay_out(GRAPH, EDGES).routes
    for route in (first, inner, last):
        assert route.tip[1] > route.points[0][1]
    assert back.tip[1] < back.points[0][1]
    assert back.label is not None and last.label is not None and first.label is None
    assert [path.get("stroke-dasharray") is not None for path in drawn("path")] == [False, False, True, False]


def test_a_mark_is_seen_without_colours_and_is_told():
    marked = [shape for shape in drawn("polygon") if shape.get("stroke-width")]
    assert len(marked) == 1 and float(marked[0].get("stroke-width")) > 3
    (told,) = drawn("desc")
    assert "x, float32[8] goes to carry = 0; " in told.text
    assert "carry = 0 goes to MARKED reduce(add), f32[]." in told.text


def test_a_picture_is_an_image_with_a_name_on_a_light_ground():
    root = ElementTree.fromstring(svg(GRAPH, EDGES))
    assert (root.get("role"), root.get("aria-label")) == ("img", GRAPH.title)
    assert drawn("title", root)[0].text == GRAPH.title
    assert drawn("rect", root)[0].get("fill") == "#fff"
    alone = ElementTree.fromstring(svg(Box("graph", "", content=[Node("n1", ("x",))]), []))
    assert drawn("desc", alone)[0].text == "x."


def test_equations_and_operations_can_be_marked():
    def marks(graph):
        return {node.lines[0] for node in graph.root.nodes() if node.marked} | {
            box.title for box in graph.root.boxes() if box.marked
        }

    assert marks(show_jaxpr(poly, 2.0).graph(lambda eqn: eqn.primitive.name == "mul")) == {"mul 2 ·", "mul 3 ·"}
    scan = show_jaxpr(lambda x: lax.scan(lambda x, _: (jnp.sin(x), None), x, None, length=5)[0], X)
    assert marks(scan.graph(lambda eqn: eqn.primitive.name == "scan")) == {"scan, 5 times"}
    assert marks(show_hlo(add_sub, X, X, X).graph({"subtract"})) == {"subtract"}
    assert marks(show_hlo(add_sub, X, X, X).graph()) == set()


C = np.arange(8, dtype=np.float32)

ODD_PROGRAMS = {
    "a constant array": lambda x: x + C,
    "nothing at all": lambda x: None,
    "a literal result": lambda x: (1.0, x),
    "a Python loop in a loop": lambda x: lax.map(lambda y: lax.fori_loop(0, 3, lambda i, z: z * y, y), x),
    "a switch": lambda x: lax.switch(x[0].astype(int), [jnp.sin, jnp.cos, jnp.tan], x),
    "a derivative of a scan": jax.grad(lambda x: lax.scan(lambda c, y: (jnp.sin(c * y), c), x[0], x)[0]),
    "a derivative of a while": lambda x: jax.jvp(lambda y: lax.fori_loop(0, 5, lambda i, c: c * y, y), (x,), (x,)),
    "a callback": lambda x: jax.pure_callback(np.sin, x, x),
    "a solver": lambda x: jax.scipy.sparse.linalg.cg(lambda y: 2 * y, x),
    "complex numbers": lambda x: x * (2 - 1j),
    "random numbers": lambda x: x + jax.random.uniform(jax.random.key(0), (8,)),
    "a name to trip over": jax.named_call(lambda x: x + 1, name='we"ird <b>end</b>'),
    "several results of a reduction": lambda x: lax.top_k(x, 2),
    "a remat": jax.grad(lambda x: jax.checkpoint(jnp.sin)(x).sum()),
}


@pytest.mark.parametrize("name", ODD_PROGRAMS)
def test_every_program_has_a_picture(name):
    fn = ODD_PROGRAMS[name]
    for view in (show_jaxpr(fn, X), show_hlo(fn, X, stage="lowered"), show_hlo(fn, X)):
        graph = view.graph()
        assert {end for edge in graph.edges for end in (edge.source, edge.target)} <= set(labels(graph))
        texts = " ".join(" ".join(text.itertext()) for text in drawn("text", ElementTree.fromstring(view.svg)))
        assert all(line in texts for lines in labels(graph).values() for line in lines)


def test_a_stub_raises_its_own_error():
    def stub(x):
        raise NotImplementedError("write me")

    for show in (show_jaxpr, show_hlo):
        with pytest.raises(NotImplementedError, match="write me"):
            show(stub, X)
