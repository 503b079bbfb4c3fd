"""The picture of a speed verdict: where its axis, its band and its bar stand."""

import re

import pytest

from autograder.measuring.picture import bar_svg, roofline_svg


def lines(picture, style):
    """(x1, x2) of the lines that are drawn in this style."""
    found = re.findall(r'<line x1="([\d.]+)" y1="[\d.]+" x2="([\d.]+)" y2="[\d.]+" ([^>]*)/>', picture)
    return [(float(x1), float(x2)) for x1, x2, how in found if style in how]


def marks(picture):
    """Where the numbers of the axis stand."""
    return {name: float(x) for x, name in re.findall(r'<text x="([\d.]+)" [^>]*>([\d.]+x)</text>', picture)}


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


def test_each_round_is_a_dot_and_each_tier_a_bar_that_says_what_it_earns():
    picture = bar_svg(5, 4, 6, 10, "red", rounds=[3, 5, 7], tiers={2: 1, 10: 3})
    axis = marks(picture)
    dots = [float(x) for x in re.findall(r'<circle cx="([\d.]+)" cy="[\d.]+" r="2.5"', picture)]
    assert len(dots) == 3 and dots == sorted(dots) and dots[1] == axis["5x"]
    assert [x for x, _ in lines(picture, "stroke-dasharray")] == [axis["2x"], axis["10x"]]
    words = re.findall(r'<text x="[\d.]+" y="(\d+)" [^>]*>(\d+x earns \d)</text>', picture)
    assert [said for _, said in words] == ["2x earns 1", "10x earns 3"]
    assert len({row for row, _ in words}) == 2, "each on a line of its own"
    assert ", 3 rounds from 3 to 7, 2x earns 1, 10x earns 3" in picture and "bar 10x" not in picture


@pytest.mark.parametrize("operations", [1e3, 1e6, 1e9])
def test_a_program_stands_below_its_roof(operations):
    """At 1e6 bytes, 1e10 bytes/s and 1e11 operations/s the roof bends at ten operations a byte."""
    possible = max(1e6 / 1e10, operations / 1e11)
    picture = roofline_svg(operations, 1e6, 4 * possible, 1e10, 1e11, possible)
    (roof,) = re.findall(r'<polyline points="([^"]+)"', picture)
    (slope, ridge, end) = [tuple(map(float, point.split(","))) for point in roof.split()]
    assert slope[1] > ridge[1] == end[1] and slope[0] < ridge[0] < end[0]
    x, y = map(float, re.search(r'<circle cx="([\d.]+)" cy="([\d.]+)"', picture).groups())
    assert (x < ridge[0]) == (operations < 1e7)
    height = ridge[1] if x >= ridge[0] else slope[1] + (ridge[1] - slope[1]) * (x - slope[0]) / (ridge[0] - slope[0])
    assert y > height, "y grows downwards"
    (top,) = re.findall(r'<line x1="[\d.]+" y1="[\d.]+" x2="[\d.]+" y2="([\d.]+)" stroke="#d1414a"', picture)
    assert float(top) == pytest.approx(height, abs=0.2), "the dashed line ends at the roof"
    assert "25 % of what this machine allows" in picture
    ((_, right), _) = lines(picture, "#888")
    assert end[0] == right, "the roof ends where the axis does"
    labels = {
        name: (float(x), float(y)) for x, y, name in re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)<', picture)
    }
    assert max(x for x, _ in labels.values()) <= right
    reached = f"{operations / (4 * possible) / 1e9:.3g}"
    near = abs(y - ridge[1]) <= 12
    assert labels[reached][1] == pytest.approx(y + (15 if near else 4)), (
        "beside the dot, or below the roof's own number"
    )
