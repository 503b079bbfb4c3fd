"""The small pictures of a speed verdict, as SVG without scripts: the ratio beside its bars, and the machine's roof.

Letters have the colour of the text around them, so that they are legible in the light and in the dark theme.
"""

import math
from collections.abc import Mapping, Sequence

_WIDTH, _LEFT, _RIGHT = 420, 12, 12
_ROUNDS = 12  # the height of the row of dots
_STYLE = 'font-size="11" font-family="sans-serif" role="img" style="max-width:100%;height:auto"'
_GREY = 'stroke="#888"'


def bar_svg(
    ratio: float,
    low: float,
    high: float,
    bar: float | None,
    colour: str,
    rounds: Sequence[float] = (),
    tiers: Mapping[float, float] | None = None,
) -> str:
    """An inline SVG of about 1 kB: the ratio with its interval, and the bar, on a logarithmic axis.

    All are ratios of times. `rounds` are those of the single pairs, a dot each; `tiers` are further bars with what they
    earn, in points.
    """
    tiers = dict(tiers or {})
    bars = sorted({*tiers, *([bar] if bar else [])})
    shown = [value for value in (ratio, low, high, *bars, *rounds, 1.0) if value]
    first, last = math.floor(math.log10(min(shown)) * 3) / 3, math.ceil(math.log10(max(shown)) * 3 + 0.5) / 3

    def x(value: float) -> float:
        return round(_LEFT + (math.log10(value) - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT), 1)

    rows = len(bars)  # each bar's words on a line of their own: near ones would cover each other
    band = 13 * rows + 8
    dots = band + 14
    axis = dots + (_ROUNDS if rounds else 0)
    parts = [_line(_LEFT, axis, _WIDTH - _RIGHT, axis, _GREY)]
    for mark in _marks(first, last):
        at = x(mark)
        parts.append(_line(at, axis, at, axis + 4, _GREY))
        anchor = "middle" if at < _WIDTH - 24 else "end"
        parts.append(f'<text x="{at}" y="{axis + 15}" text-anchor="{anchor}" fill="currentColor">{mark:g}x</text>')
    parts.append(_line(x(1), band, x(ratio), band, f'stroke="{colour}" stroke-width="8" opacity="0.35"'))
    parts.append(_line(x(low), band, x(high), band, f'stroke="{colour}" stroke-width="3"'))
    parts.append(f'<circle cx="{x(ratio)}" cy="{band}" r="4" fill="{colour}"/>')
    for one in rounds:
        parts.append(f'<circle cx="{x(one)}" cy="{dots}" r="2.5" fill="none" stroke="currentColor" opacity="0.7"/>')
    for row, value in enumerate(bars):
        at, height = x(value), 13 * row + 10
        parts.append(_line(at, height - 8, at, axis, 'stroke="currentColor" stroke-width="1.5" stroke-dasharray="3 2"'))
        side = 'dx="4"' if at < 0.6 * _WIDTH else 'dx="-4" text-anchor="end"'
        earns = f" earns {tiers[value]:g}" if value in tiers else ""
        name = "" if earns else "bar "
        parts.append(f'<text x="{at}" y="{height}" {side} fill="currentColor">{name}{value:g}x{earns}</text>')
    label = f"{ratio:.3g}x, interval {low:.3g} to {high:.3g}"
    label += f", {len(rounds)} rounds from {min(rounds):.3g} to {max(rounds):.3g}" if rounds else ""
    label += "".join(f", {bar:g}x earns {points:g}" for bar, points in tiers.items())
    return f"{_svg(axis + 18, label)}{''.join(parts)}</svg>"


def roofline_svg(
    operations: float, moved: float, seconds: float, bandwidth: float, arithmetic: float, possible: float
) -> str:
    """The roof of this machine over operations a byte, and a dot where the program stands below it.

    Arguments:
      operations, moved, seconds: of one call: floating-point operations, bytes, and how long it took.
      bandwidth, arithmetic: of the machine, in bytes and in operations a second.
      possible: the shortest time of such a call, in seconds; above the dot a line goes up to it.

    Both axes are logarithmic.
    """
    height, left, top, bottom = 150, 64, 12, 124
    here, ridge = operations / moved, arithmetic / bandwidth
    first, last = _decades(here, ridge)
    reached, limit = operations / seconds, operations / possible
    lowest, highest = _decades(reached, limit, arithmetic)

    def x(value: float) -> float:
        return round(left + (math.log10(value) - first) / (last - first) * (_WIDTH - _RIGHT - left), 1)

    def y(value: float) -> float:
        share = (math.log10(value) - lowest) / (highest - lowest)
        return round(bottom - min(max(share, 0.0), 1.0) * (bottom - top), 1)

    start = max(10.0**first, 10.0**lowest / bandwidth)
    roof = f"{x(start)},{y(start * bandwidth)} {x(ridge)},{y(arithmetic)} {x(10.0**last)},{y(arithmetic)}"
    parts = [
        _line(left, bottom, _WIDTH - _RIGHT, bottom, _GREY),
        _line(left, top, left, bottom, _GREY),
        f'<polyline points="{roof}" fill="none" stroke="currentColor" stroke-width="1.5"/>',
        _line(x(here), y(reached), x(here), y(limit), 'stroke="#d1414a" stroke-width="1.5" stroke-dasharray="3 2"'),
        f'<circle cx="{x(here)}" cy="{y(reached)}" r="5" fill="#d1414a"/>',
    ]
    text = '<text x="{}" y="{}" fill="currentColor" text-anchor="{}">{}</text>'.format
    for power in range(math.ceil(first), math.floor(last) + 1):
        parts.append(text(x(10.0**power), bottom + 13, "middle", f"{10.0**power:g}"))
    parts += [
        text(_WIDTH - _RIGHT, height - 1, "end", "operations a byte"),
        text(left - 6, y(arithmetic) + 4, "end", f"{arithmetic / 1e9:.3g}"),
        text(
            left - 6,
            y(reached) + 4 if abs(y(reached) - y(arithmetic)) > 12 else y(reached) + 15,
            "end",
            f"{reached / 1e9:.3g}",
        ),
        text(left - 6, bottom + 13, "end", "GFLOP/s"),
    ]
    share = min(100.0, 100 * possible / seconds)
    label = f"{reached / 1e9:.3g} GFLOP/s at {here:.3g} operations a byte: {share:.3g} % of what this machine allows"
    return f"{_svg(height, label)}{''.join(parts)}</svg>"


def _svg(height: float, label: str) -> str:
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    return f'<svg {size} xmlns="http://www.w3.org/2000/svg" {_STYLE} aria-label="{label}">'


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" {style}/>'


def _decades(*values: float) -> tuple[float, float]:
    """Powers of ten around these, with some room."""
    return math.floor(math.log10(min(values)) - 0.3), math.ceil(math.log10(max(values)) + 0.3)


def _marks(first: float, last: float) -> list[float]:
    """1, 2, 5 and their tenfolds inside the axis; the tenfolds alone where that is too many."""
    decades = range(math.floor(first), math.ceil(last) + 1)
    steps = (1, 2, 5) if last - first < 2.5 else (1,)
    marks = [step * 10.0**decade for decade in decades for step in steps]
    return [mark for mark in marks if first - 1e-9 <= math.log10(mark) <= last + 1e-9]
