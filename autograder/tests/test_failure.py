"""How a check speaks: its four parts in their order, and these lines in the place of a traceback."""

import pytest

from autograder.failure import CheckFailed, fail, passed


def raised_in(file):
    """A failure that is raised in line 3 of a file."""
    with pytest.raises(CheckFailed) as caught:
        exec(compile('\n\nfail("It is 1, not 2.", attempt="count.")', file, "exec"), {"fail": fail})
    return caught.value


def test_the_parts_come_in_their_order_and_what_is_not_known_is_left_out():
    assert str(CheckFailed("It is 1, not 2.", evidence="a\nb", why="c.", attempt="d.")) == (
        "✗ It is 1, not 2.\n  a\n  b\n  Why this usually happens: c.\n  Try: d."
    )
    assert str(CheckFailed("It is 1, not 2.")) == "✗ It is 1, not 2."


@pytest.mark.parametrize("file", ["/tmp/ipykernel_12/345.py", "<ipython-input-1-ab>"])
def test_a_notebook_shows_the_message_and_the_line_of_the_cell(file):
    lines = ["\x1b[1m✗ It is 1, not 2.\x1b[0m", "  Try: count.", "  (line 3 of this cell)"]
    assert raised_in(file)._render_traceback_() == lines


def test_outside_a_notebook_there_is_no_line():
    assert raised_in("exercise.py")._render_traceback_() == ["\x1b[1m✗ It is 1, not 2.\x1b[0m", "  Try: count."]


def test_what_passes_is_one_line_of_standard_output(capfd):
    passed("f is right")
    assert capfd.readouterr() == ("✓ f is right\n", "")
