"""The docstring of each public name says what goes in, what comes out, and what is raised."""

import ast
import inspect
import re
import sys

import pytest

import autograder

PUBLIC = sorted(autograder.__all__)
# What cannot happen: a line that is not reached, and the method of a base class.
NEVER = {"AssertionError", "NotImplementedError"}


def definitions(module):
    """The functions and classes of a module, by name, as syntax trees."""
    tree = ast.parse(inspect.getsource(module))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def raised(name, defined):
    """The names of the exceptions that a function or class of a module raises, by itself or by others of the module."""
    found, seen, ahead = set(), set(), [name]
    while ahead:
        current = ahead.pop()
        if current in seen or current not in defined:
            continue
        seen.add(current)
        for node in ast.walk(defined[current]):
            if isinstance(node, ast.Name):
                ahead.append(node.id)
                found |= {"CheckFailed"} if node.id == "fail" else set()
            elif isinstance(node, ast.Raise) and node.exc is not None:
                error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
                found.add(ast.unparse(error))
    return {error for error in found if error[0].isupper()} - NEVER


def mentions(text, word):
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def test_there_are_sixteen():
    assert len(PUBLIC) == 16


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_says_what_goes_in_and_what_comes_out(name):
    public = getattr(autograder, name)
    text = inspect.getdoc(public)
    assert text, f"{name} has no docstring"
    for parameter in inspect.signature(public).parameters:
        assert re.search(rf"^{parameter}  +\S", text, re.MULTILINE), f"{name} does not say what {parameter} is"
    assert re.search("Returns|Prints", text), f"{name} does not say what it returns or prints"


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_says_what_it_raises(name):
    public = getattr(autograder, name)
    text = inspect.getdoc(public)
    errors = raised(name, definitions(sys.modules[public.__module__]))
    if errors:
        assert re.search(r"[Rr]aises", text), f"{name} raises {errors} and does not say so"
    for error in errors:
        assert mentions(text, error), f"{name} raises {error} and does not say when"


def test_the_test_sees_what_is_raised():
    def errors(name):
        return raised(name, definitions(sys.modules[getattr(autograder, name).__module__]))

    assert errors("assert_max_traces") == {"CheckFailed", "ValueError"}
    assert errors("speedup") >= {"CheckFailed", "TypeError", "ValueError"}
    assert errors("trace_log") == {"TypeError"}
    assert errors("show_guess") == set()
