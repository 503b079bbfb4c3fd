"""The picture of a speed verdict: where its axis, its band and its bar stand."""

import re

import pytest

from autograder.measuring.picture import bar_svg


def lines(picture, style):
    """(x1, x2) of the lines that are drawn in this style."""
    found = re.findall(r'<line x1="([\d.]+)" y1="[\d.]+" x2="([\d.]+)" y2="[\d.]+" ([^>]*)/>', picture)
    return [(float(x1), float(x2)) for x1, x2, how in found if style in how]


def marks(picture):
    """Where the numbers of the axis stand."""
    return {name: float(x) for x, name in re.findall(r'<text x="([\d.]+)" y="45" [^>]*>([^<]*)</text>', picture)}


def test_the_band_goes_from_one_to_the_ratio_and_the_interval_lies_about_it():
    picture = bar_svg(5, 2, 10, None, "red")
    axis = marks(picture)
    assert lines(picture, 'stroke-width="8"') == [(axis["1x"], axis["5x"])]
    assert lines(picture, 'stroke-width="3"') == [(axis["2x"], axis["10x"])]
    assert f'<circle cx="{axis["5x"]}"' in picture
    assert 'aria-label="5x, interval 2 to 10"' in picture
    assert "bar" not in picture


def test_all_of_it_lies_in_the_picture():
    for numbers in [(5, 2, 10), (0.001, 0.0005, 0.002), (1, 1, 1), (4000, 3000, 70000)]:
        picture = bar_svg(*numbers, 2.0, "red")
        width = float(re.search(r'<svg width="(\d+)"', picture)[1])
        found = [float(x) for x in re.findall(r' (?:x|x1|x2|cx)="([-\d.]+)"', picture)]
        assert min(found) > 0 and max(found) < width, numbers


@pytest.mark.parametrize(
    ("high", "shown"),
    [
        (9, ["1x", "2x", "5x", "10x", "20x"]),
        (99, ["1x", "2x", "5x", "10x", "20x", "50x", "100x", "200x"]),
        (9999, ["1x", "10x", "100x", "1000x", "10000x"]),
    ],
)
def test_a_long_axis_has_tenfolds_alone(high, shown):
    assert list(marks(bar_svg(high / 2, 1, high, None, "red"))) == shown


@pytest.mark.parametrize(("bar", "side"), [(2, "right"), (90, "left")])
def test_the_bar_is_named_on_the_side_where_there_is_room(bar, side):
    picture = bar_svg(10, 8, 12, bar, "red")
    ((x, end),) = lines(picture, "stroke-dasharray")
    (text,) = re.findall(r"<text [^>]*>bar [^<]*</text>", picture)
    assert x == end and f'x="{x}"' in text and f">bar {bar}x<" in text
    assert ("end" in text) == (side == "left")
