"""What a failed check can show besides its message: the argument, the equation, the operation that is to blame."""

from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import pytest
from bs4 import BeautifulSoup

from autograder import assert_hlo, assert_max_traces, assert_primitives
from autograder.checks.exhibits import retraces
from autograder.failure import CheckFailed

X = jnp.arange(8.0)


def shown(check):
    with pytest.raises(CheckFailed) as caught:
        check()
    return BeautifulSoup(caught.value.exhibit(), "html.parser")


def marked(page):
    """What stands out in the pictures of this page, by what their descriptions say."""
    said = " ".join(desc.text for desc in page.find_all("desc"))
    return {words.split(",")[0].split(";")[0].split(" goes to")[0].rstrip(".") for words in said.split("MARKED ")[1:]}


def test_a_retrace_names_the_argument_and_what_it_was_before_and_then():
    @jax.jit
    def f(x, n):
        return x * n

    def check():
        with assert_max_traces(f, 1):
            f(X, 1.0)
            f(X[:3], 1.0)

    rows = [[cell.text for cell in row.find_all("td")] for row in shown(check).tbody.find_all("tr")]
    assert rows == [["1", "first call"], ["2", "x", "float32[8]", "float32[3]"]]


def test_where_several_functions_are_traced_each_row_names_its_own():
    def outer(x):
        for n in (1, 2):
            x = jax.jit(inner, static_argnames="n")(x, n=n)
        return x

    def inner(x, n):
        return x + n

    def check():
        with assert_max_traces(outer, 1):
            outer(X)

    rows = [[cell.text for cell in row.find_all("td")] for row in shown(check).tbody.find_all("tr")]
    assert rows == [["1", "inner", "first call"], ["2", "inner", "n", "static 1", "static 2"]]


def test_a_reason_of_any_form_has_a_row():
    told = [("", "n: static 1 -> static <2>; m: a -> b"), ("", "another <function>")]
    page = BeautifulSoup(retraces(told)(), "html.parser")
    rows = [[cell.text for cell in row.find_all("td")] for row in page.tbody.find_all("tr")]
    assert rows == [["1", "n", "static 1", "static <2> (m: a -> b)"], ["2", "another <function>"]]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"excludes": ["sin"]}, {"sin"}),
        ({"counts": {"mul": 1}}, {"mul 2 ·", "mul · ·"}),
        ({"max_intermediate": 8}, {"mul · ·"}),
        ({"includes": ["scan"]}, set()),
    ],
)
def test_the_guilty_equations_are_marked_in_the_jaxpr(wanted, names):
    def f(x):
        return jnp.sum(jnp.sin(x)[:, None] * x[None, :]) * 2

    page = shown(lambda: assert_primitives(f, X, **wanted))
    found = marked(page)
    assert {name.split()[0] for name in found} == {name.split()[0] for name in names}
    assert page.svg["aria-label"] == "the jaxpr of f"


def test_the_operations_are_shown_before_and_after_xla():
    page = shown(lambda: assert_hlo(lambda x: jnp.sin(x) + 1, X, excludes=["sine"]))
    before, after = page.find_all("svg")
    assert "as XLA was given it" in before["aria-label"] and "a box is a fusion" in after["aria-label"]
    assert marked(page) == {"sine"}
    assert ElementTree.fromstring(str(after)) is not None and "fusion" in after.text and "fusion" not in before.g.text


def test_what_is_too_large_to_be_looked_at_is_left_out():
    def f(x):
        for _ in range(200):
            x = 3.7 * x * (1 - x)
        return x

    assert not shown(lambda: assert_primitives(f, X, excludes=["sub"])).find("svg")
