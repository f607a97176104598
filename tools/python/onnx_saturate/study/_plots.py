"""Plots of a study as SVG, without a library; the same points give the same text."""
from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#888888", "#b8a800")
"""Of Okabe and Ito, which any sight tells apart; the page of `saturate --html` has them, too."""
_STYLE = "<style>text{font:11px sans-serif;fill:#444}.grid{stroke:#888;stroke-opacity:.3;fill:none}.even{stroke:#444;fill:none}@media(prefers-color-scheme:dark){text{fill:#ccc}.even{stroke:#bbb}}</style>"


@dataclass(frozen=True)
class Point:
    """One thing that was measured."""

    x: float
    y: float
    group: str
    """Points of one group have one colour."""
    label: str
    hollow: bool = False


def _svg(width: float, height: float, body: Sequence[str], title: str) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img" aria-label="{html.escape(title)}">'
    return f"{head}{_STYLE}{''.join(body)}</svg>"


def _text(x: float, y: float, words: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'


def _ticks(low: float, high: float, log: bool) -> list[float]:
    """Where an axis has lines: at powers of ten, or at round steps."""
    if log:
        return [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    step = 10.0 ** math.floor(math.log10((high - low) or 1))
    step = step / 5 if (high - low) / step < 2 else step / 2 if (high - low) / step < 5 else step
    return [step * k for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _axis(values: Sequence[float], log: bool, begin: float, end: float) -> tuple[Callable[[float], float], list[float]]:
    """Places of values, and where lines are."""
    low, high = min(values), max(values)
    if log:
        ticks = _ticks(low, high, True)
        low, high = min(low, ticks[0]), max(high, ticks[-1])
        if low == high:
            low, high = low / 10, high * 10
        first, last = math.log10(low), math.log10(high)
        return (lambda value: begin + (end - begin) * (math.log10(value) - first) / (last - first)), ticks
    room = (high - low or abs(high) or 1) * 0.05
    low, high = low - room, high + room
    return (lambda value: begin + (end - begin) * (value - low) / (high - low)), _ticks(low, high, False)


def legend(groups: Sequence[str], left: float, top: float) -> list[str]:
    """Colours and what they stand for, below each other."""
    out = []
    for number, group in enumerate(groups):
        y = top + 15 * number
        out += [f'<circle cx="{left:g}" cy="{y - 4:g}" r="4" fill="{COLOURS[number % len(COLOURS)]}"/>', _text(left + 9, y, group, "start")]
    return out


def scatter(points: Sequence[Point], title: str, x_name: str, y_name: str, log: tuple[bool, bool] = (True, True), even: bool = False) -> str:
    """A cloud of points; `even`: with the line on which both are the same."""
    shown = [p for p in points if (p.x > 0 or not log[0]) and (p.y > 0 or not log[1]) and math.isfinite(p.x) and math.isfinite(p.y)]
    if not shown:
        return ""
    size, left, bottom = 340.0, 56.0, 34.0
    x_at, x_ticks = _axis([p.x for p in shown], log[0], left, size)
    y_at, y_ticks = _axis([p.y for p in shown], log[1], size - bottom, 10)
    out = []
    for tick in x_ticks:
        out += [f'<path class="grid" d="M{x_at(tick):.1f} 10V{size - bottom:g}"/>', _text(x_at(tick), size - bottom + 14, f"{tick:g}")]
    for tick in y_ticks:
        out += [f'<path class="grid" d="M{left:g} {y_at(tick):.1f}H{size:g}"/>', _text(left - 4, y_at(tick) + 4, f"{tick:g}", "end")]
    if even:
        low, high = max(min(x_ticks), min(y_ticks)), min(max(x_ticks), max(y_ticks))
        if low < high:
            out.append(f'<path class="even" d="M{x_at(low):.1f} {y_at(low):.1f}L{x_at(high):.1f} {y_at(high):.1f}"/>')
    groups = list(dict.fromkeys(p.group for p in shown))
    for p in shown:
        colour = COLOURS[groups.index(p.group) % len(COLOURS)]
        look = f'fill="none" stroke="{colour}"' if p.hollow else f'fill="{colour}" fill-opacity="0.8"'
        out.append(f'<circle cx="{x_at(p.x):.1f}" cy="{y_at(p.y):.1f}" r="4" {look}><title>{html.escape(p.label)}</title></circle>')
    out += [_text((left + size) / 2, size - 4, x_name), f'<g transform="rotate(-90 12 {size / 2:g})">{_text(12, size / 2, y_name)}</g>']
    out += legend(groups, size + 14, 20)
    return _svg(size + 24 + 7 * max(map(len, groups)), max(size, 20.0 + 15 * len(groups)), out, title)


@dataclass(frozen=True)
class Bar:
    """A figure with its interval."""

    label: str
    value: float
    low: float | None
    high: float | None
    group: str


def intervals(bars: Sequence[Bar], title: str, line: float) -> str:
    """Figures below each other, each with its interval; `line`: where nothing has changed."""
    shown = [bar for bar in bars if math.isfinite(bar.value)]
    if not shown:
        return ""
    left = 12 + 6.6 * max(len(bar.label) for bar in shown)
    groups = list(dict.fromkeys(bar.group for bar in shown))
    bottom = 14.0 * len(shown) + 8
    at, ticks = _axis([line, *(v for bar in shown for v in (bar.value, bar.low, bar.high) if v is not None)], False, left, left + 300)
    out = []
    for tick in ticks:
        out += [f'<path class="grid" d="M{at(tick):.1f} 4V{bottom:g}"/>', _text(at(tick), bottom + 13, f"{tick:g}")]
    out.append(f'<path class="even" d="M{at(line):.1f} 4V{bottom:g}"/>')
    for number, bar in enumerate(shown):
        y, colour = 14.0 * number + 13, COLOURS[groups.index(bar.group) % len(COLOURS)]
        out.append(_text(left - 6, y + 4, bar.label, "end"))
        if bar.low is not None and bar.high is not None:
            out.append(f'<path stroke="{colour}" d="M{at(bar.low):.1f} {y:g}H{at(bar.high):.1f}"/>')
        out.append(f'<circle cx="{at(bar.value):.1f}" cy="{y:g}" r="3.5" fill="{colour}"><title>{html.escape(bar.label)}: {bar.value:.4g}</title></circle>')
    out += legend(groups, left + 318, 20)
    return _svg(left + 330 + 7 * max(map(len, groups)), max(bottom + 20, 24.0 + 15 * len(groups)), out, title)
