"""The one small picture of a speed verdict: a ratio with its interval, and the bar, on a logarithmic axis."""

import math

_WIDTH, _HEIGHT, _LEFT, _RIGHT = 420, 46, 12, 12


def bar_svg(ratio: float, low: float, high: float, bar: float | None, colour: str) -> str:
    """An inline SVG of about 1 kB. All four numbers are ratios of times."""
    shown = [value for value in (ratio, low, high, bar, 1.0) if value]
    first, last = math.floor(math.log10(min(shown)) * 3) / 3, math.ceil(math.log10(max(shown)) * 3 + 0.5) / 3

    def x(value: float) -> float:
        return round(_LEFT + (math.log10(value) - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT), 1)

    def line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
        return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" {style}/>'

    grey, axis = 'stroke="#999"', 30
    parts = [line(_LEFT, axis, _WIDTH - _RIGHT, axis, grey)]
    for mark in _marks(first, last):
        at = x(mark)
        parts.append(line(at, axis, at, axis + 4, grey))
        anchor = "middle" if at < _WIDTH - 24 else "end"
        style = f'text-anchor="{anchor}" fill="currentColor" fill-opacity="0.75"'
        parts.append(f'<text x="{at}" y="{axis + 15}" {style}>{mark:g}x</text>')
    parts.append(line(x(1), 18, x(ratio), 18, f'stroke="{colour}" stroke-width="8" opacity="0.35"'))
    parts.append(line(x(low), 18, x(high), 18, f'stroke="{colour}" stroke-width="3"'))
    parts.append(f'<circle cx="{x(ratio)}" cy="18" r="4" fill="{colour}"/>')
    if bar:
        parts.append(line(x(bar), 6, x(bar), axis, 'stroke="currentColor" stroke-width="1.5" stroke-dasharray="3 2"'))
        side = 'dx="4"' if x(bar) < 0.8 * _WIDTH else 'dx="-4" text-anchor="end"'
        parts.append(f'<text x="{x(bar)}" y="8" {side} fill="currentColor">bar {bar:g}x</text>')
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    label = f"{ratio:.3g}x, interval {low:.3g} to {high:.3g}"
    style = 'font-size="10" font-family="sans-serif" role="img"'
    return f'<svg {size} {style} aria-label="{label}">{"".join(parts)}</svg>'


def _marks(first: float, last: float) -> list[float]:
    """1, 2, 5 and their tenfolds inside the axis; the tenfolds alone where that is too many."""
    decades = range(math.floor(first), math.ceil(last) + 1)
    steps = (1, 2, 5) if last - first < 2.5 else (1,)
    marks = [step * 10.0**decade for decade in decades for step in steps]
    return [mark for mark in marks if first - 1e-9 <= math.log10(mark) <= last + 1e-9]
