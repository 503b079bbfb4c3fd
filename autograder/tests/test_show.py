"""Pictures of programs: what they say, and that they are legal Mermaid whatever the program is."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from autograder import show_hlo, show_jaxpr
from autograder.instruments.graphs.mermaid import Box, Edge, Node, escape, flowchart

X = jnp.arange(8.0)


def poly(x):
    return 2 * x**2 + 3 * x + 3


def add_sub(a, b, c):
    return a + b - c


def labels(mermaid):
    """The lines of every node, by its id."""
    nodes = re.findall(r'^  (n\d+)\W+"(.*)"\W+:::(\w+)$', mermaid, re.MULTILINE)
    return {name: label.replace("#183;", "·").replace("#63;", "?").split("<br/>") for name, label, _ in nodes}


def arrows(mermaid):
    """(from, to) of every arrow, as the first lines of the labels."""
    names = labels(mermaid)
    found = re.findall(r'^  (n\d+) (-->|-\.->)(?:\|"(.*)"\|)? (n\d+)$', mermaid, re.MULTILINE)
    return {(names[a][0], names[b][0]) for a, _, _, b in found}


def boxes(mermaid):
    return [title.replace("#160;", "") for title in re.findall(r'subgraph n\d+\["(.*)"\]', mermaid)]


def test_a_jaxpr_and_its_counts():
    view = show_jaxpr(poly, 2.0)
    assert (view.equations, view.flops, view.largest, view.largest_size) == (5, 5, "float32[]", 1)
    assert view.primitives["mul"] == 2
    assert not view.flops_lower_bound
    assert view.text == str(jax.make_jaxpr(poly)(2.0))
    assert str(view) == f"{view.text}\n5 equations, 5 FLOPs, largest intermediate float32[]"
    assert repr(view) == str(view)


def test_the_graph_of_a_polynomial():
    mermaid = show_jaxpr(poly, 2.0).mermaid
    assert 'title: "poly: 5 equations, 5 FLOPs, largest intermediate float32[]"' in mermaid
    assert arrows(mermaid) == {
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
        assert view._repr_mimebundle_() == {"text/vnd.mermaid": view.mermaid, "text/plain": str(view)}


def test_hlo_before_and_after():
    before = show_hlo(add_sub, X, X, X, stage="lowered")
    after = show_hlo(add_sub, X, X, X)
    flow = {("a", "add"), ("b", "add"), ("add", "subtract"), ("c", "subtract"), ("subtract", "result")}
    assert arrows(before.mermaid) == arrows(after.mermaid) == flow
    assert boxes(before.mermaid) == []
    assert boxes(after.mermaid) == ["fusion"]
    assert (before.stage, after.stage) == ("lowered", "optimized")
    assert (after.ops, after.fusions, after.flops) == ({"add": 1, "subtract": 1}, 1, 16)
    assert after.collectives == {} and after.temp_bytes == 0 and not after.loops
    assert str(after).endswith("\n2 ops, 1 fusion, 128 bytes accessed")
    assert "HloModule" in after.text and "metadata" not in str(after)


def test_which_operand_is_which():
    assert '-->|"1"|' in show_jaxpr(add_sub, X, X, X).mermaid
    assert '|"which"|' in show_jaxpr(lambda p, x, y: jnp.where(p, x, y), X > 0, X, X).mermaid


def test_a_number_is_shown_as_it_is_written():
    found = labels(show_jaxpr(lambda x: 3.75 * x + 1 / 3, X).mermaid).values()
    assert {"mul 3.75 ·", "add · 0.333333"} <= {label[0] for label in found}


def test_a_scan_goes_round():
    def fn(w, h, xs):
        return lax.scan(lambda h, x: (jnp.tanh(w @ h + x), h.sum()), h, xs)

    mermaid = show_jaxpr(fn, jnp.ones((8, 8)), X, jnp.ones((5, 8))).mermaid
    assert boxes(mermaid) == ["scan, 5 times"]
    assert {("h", "carry"), ("xs", "slice"), ("w", "dot_general"), ("carry", "dot_general")} <= arrows(mermaid)
    assert {("tanh", "carry"), ("tanh", "result 0"), ("stack", "result 1")} <= arrows(mermaid)
    assert mermaid.count('-.->|"next"|') == 1
    names = list(labels(mermaid).values())
    assert names[0][0] == "carry", "the layout begins a cycle with what is named first"


def test_a_while_shows_its_condition():
    mermaid = show_jaxpr(lambda x, n: lax.fori_loop(0, n, lambda i, x: x * 2, x), X, 3).mermaid
    assert boxes(mermaid) == ["while", "condition"]
    assert {("carry = 0", "lt"), ("lt", "go on?"), ("carry = 0", "add · 1"), ("mul · 2", "carry")} <= arrows(mermaid)


def test_a_loop_in_hlo():
    view = show_hlo(lambda x: lax.scan(lambda x, _: (jnp.sin(x), None), x, None, length=5)[0], X)
    assert view.loops
    assert "(each loop counted once)" in str(view)
    assert boxes(view.mermaid)[0] == "while, 5 times"
    assert {("x", "carry"), ("carry", "sine"), ("sine", "carry"), ("carry", "result")} <= arrows(view.mermaid)


def test_branches():
    def fn(x, p):
        return lax.cond(p, jnp.sin, lambda x: x * 2, x)

    jaxpr, hlo = show_jaxpr(fn, X, True).mermaid, show_hlo(fn, X, True).mermaid
    assert boxes(jaxpr) == ["false", "true"]
    assert {("sin", "cond"), ("mul · 2", "cond"), ("cond", "result")} <= arrows(jaxpr)
    assert {"branch 0", "branch 1"} <= set(boxes(hlo))
    assert {("sine", "conditional"), ("multiply · 2", "conditional")} <= arrows(hlo)


def test_inner_functions_are_drawn_without_their_wrappers():
    mermaid = show_jaxpr(jax.nn.selu, X).mermaid
    assert boxes(mermaid) == []
    assert ("expm1" in str(labels(mermaid))) and ("jit" not in str(labels(mermaid)))


def test_several_results():
    assert {("x", "result 0"), ("sin", "result 1")} <= arrows(show_jaxpr(lambda x: (x, jnp.sin(x)), X).mermaid)
    found = arrows(show_hlo(lambda x: (jnp.cos(x), jnp.sin(x)), X).mermaid)
    assert {("cosine", "result 0"), ("sine", "result 1")} <= found


def test_a_big_program_is_one_line():
    def unrolled(x):
        for _ in range(200):
            x = 3.7 * x * (1 - x)
        return x

    view = show_jaxpr(unrolled, X)
    assert labels(view.mermaid) == {"n1": ["too many operations to draw (600)", "mul 400, sub 200"]}
    lines = str(view).splitlines()
    assert len(lines) == 62
    assert lines[60] == f"... {len(view.text.strip().splitlines()) - 60} more lines; .text has all of it"
    assert "too many operations to draw" in show_hlo(unrolled, X).mermaid


def test_of_a_big_program_six_operations_are_named():
    def fn(x):
        for _ in range(10):
            x = jnp.sin(jnp.cos(jnp.tan(jnp.exp(jnp.log(jnp.sqrt(jnp.tanh(x)))))))
        return x

    (note,) = labels(show_jaxpr(fn, X).mermaid).values()
    assert note[1] == "tanh 10, sqrt 10, log 10, exp 10, tan 10, cos 10, ..."


def test_names_in_the_text_and_in_the_title():
    assert 'title: "lambda: ' in show_jaxpr(lambda x: x, X).mermaid, "Mermaid drops <lambda>"
    assert escape('f<b>"`#;|{x} & y') == "f#60;b#62;#34;#96;#35;#59;#124;#123;x#125; #38; y"


def test_flowchart():
    graph = Box("graph", 'a \\ "title"', content=[Node("n1", ("x", "float32[]"), "input")])
    graph.content.append(Box("n2", "loop", "loop", [Node("n3", ("carry",), "control"), Box("n4", "in", content=[])]))
    lines = flowchart(graph, [Edge("n1", "n3"), Edge("n3", "n3", "next", back=True)]).splitlines()
    assert lines[:4] == ["---", 'title: "a  title"', "---", "flowchart TB"]
    assert lines[4:6] == ['  n3{{"carry"}}:::control', '  n1(["x<br/>float32[]"]):::input']
    assert "  n1 --> n3" in lines
    assert '  n3 -.->|"next"| n3' in lines
    assert lines.index("    n3") == lines.index("  end") - 4
    assert [line.count("#160;") for line in lines if "subgraph" in line] == [14, 18], "the shorter, the more blanks"


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
        mermaid = view._repr_mimebundle_()["text/vnd.mermaid"]
        drawn = set(labels(mermaid))
        for a, _, b in re.findall(r"^  (n\d+) (-->|-\.->).* (n\d+)$", mermaid, re.MULTILINE):
            assert {a, b} <= drawn
        assert mermaid.count("subgraph ") == len(re.findall(r"^ *end$", mermaid, re.MULTILINE))


def test_a_stub_raises_its_own_error():
    def stub(x):
        raise NotImplementedError("write me")

    for show in (show_jaxpr, show_hlo):
        with pytest.raises(NotImplementedError, match="write me"):
            show(stub, X)
