"""Charts as SVG, written by hand: dots on a logarithmic scale for figures beside peers, lines for growth.

Knows nothing of benchmarks: it is given names and numbers. Text is escaped; nothing is loaded from anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from xml.sax.saxutils import escape

WIDTH = 960
RIGHT, TOP = 40, 58
CHAR = 6.6  # about the width of a letter
LINE = 24
INK, SOFT, GRID = "#222222", "#666666", "#dddddd"
COLOURS = ("#4477aa", "#cc6677", "#228833", "#aa8800", "#66ccee", "#aa3377", "#888888", "#994455", "#332288", "#117733")


def dots(
    title: str, rows: Sequence[tuple[str, Mapping[str, float]]], *, here: str, hollow: Collection[str] = ()
) -> str:
    """Each row a line, each figure a dot: how many times ours it is. Right of 1 ours is better."""
    names = list(dict.fromkeys(name for _, figures in rows for name in figures))
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(names)}
    low, high = _decades([value for _, figures in rows for value in figures.values()] + [1.0])
    left = 24 + CHAR * max(len(what) for what, _ in rows)

    def across(value: float) -> float:
        return left + (math.log10(value) - low) / (high - low) * (WIDTH - left - RIGHT)

    height = TOP + LINE * len(rows) + 40
    parts = [_head(height, title), *_legend(colours, hollow)]
    bottom = TOP + LINE * len(rows)
    for power in range(low, high + 1):
        parts += _upright(across(10.0**power), bottom, _times(10.0**power), strong=power == 0)
    for number, (what, figures) in enumerate(rows):
        y = TOP + LINE * number + LINE / 2
        parts.append(_text(left - 12, y + 4, what, anchor="end"))
        ends = f'x1="{left:.1f}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}"'
        parts.append(f'<line {ends} stroke="{GRID}" stroke-dasharray="1 4"/>')
        for name, value in figures.items():
            tip = f"{name}: {value:.3g} times"
            parts.append(_dot(across(value), y, colours[name], tip, hollow=name in hollow))
    parts.append(_text(across(1.0), bottom + 32, here, anchor="middle"))
    return _whole(height, parts)


def lines(title: str, curves: Mapping[str, Sequence[tuple[float, float]]], *, across: str, up: str) -> str:
    """Both axes logarithmic; a dashed line shows what growing with the size would be."""
    height, bottom = 460, 400
    sizes = [x for points in curves.values() for x, _ in points]
    costs = [y for points in curves.values() for _, y in points]
    low_x, high_x = _decades(sizes)
    low_y, high_y = _decades([*costs, min(sizes), max(sizes)])

    def place(x: float, y: float) -> tuple[float, float]:
        left, wide = 70.0, WIDTH - 70.0 - 350.0
        part_x = (math.log10(x) - low_x) / (high_x - low_x)
        part_y = (math.log10(y) - low_y) / (high_y - low_y)
        return left + part_x * wide, bottom - part_y * (bottom - TOP)

    parts = [_head(height, title)]
    for power in range(low_x, high_x + 1):
        x, _ = place(10.0**power, 10.0**low_y)
        parts += _upright(x, bottom, f"{10.0**power:g}×", strong=False)
    for power in range(low_y, high_y + 1):
        x, y = place(10.0**low_x, 10.0**power)
        end, _ = place(10.0**high_x, 10.0**power)
        parts.append(f'<line x1="{x}" y1="{y:.1f}" x2="{end}" y2="{y:.1f}" stroke="{GRID}"/>')
        parts.append(_text(x - 8, y + 4, f"{10.0**power:g}×", anchor="end", colour=SOFT))
    parts.append(_path([place(x, x) for x in (min(sizes), max(sizes))], SOFT, dashed=True))
    ends = []
    for index, (name, points) in enumerate(curves.items()):
        colour = COLOURS[index % len(COLOURS)]
        parts.append(_path([place(x, y) for x, y in points], colour))
        ends.append((place(*points[-1])[1], name, colour))
    parts += _labels(ends, place(10.0**high_x, 1.0)[0] + 10)
    parts.append(_text(70, bottom + 40, across))
    parts.append(_text(70, TOP - 12, up, colour=SOFT))
    return _whole(height, parts)


def _labels(ends: list[tuple[float, str, str]], x: float) -> list[str]:
    """Names at the ends of their lines, moved apart so that each can be read."""
    parts, last = [], 0.0
    for y, name, colour in sorted(ends):
        last = max(y, last + 16)
        parts.append(_text(x, last + 4, name, colour=colour))
    return parts


def _dot(x: float, y: float, colour: str, tip: str, *, hollow: bool) -> str:
    look = f'fill="#ffffff" stroke="{colour}" stroke-width="2.5"' if hollow else f'fill="{colour}"'
    return f'<circle cx="{x:.1f}" cy="{y}" r="{4 if hollow else 5}" {look}><title>{escape(tip)}</title></circle>'


def _legend(colours: Mapping[str, str], hollow: Collection[str]) -> list[str]:
    parts, x = [], 12.0
    for name, colour in colours.items():
        parts.append(_dot(x + 5, 40, colour, name, hollow=name in hollow))
        parts.append(_text(x + 14, 44, name))
        x += 30 + 7.2 * len(name)
    return parts


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values)) + 1e-9), math.ceil(math.log10(max(values)) - 1e-9)
    return low, max(high, low + 1)


def _upright(x: float, bottom: float, label: str, *, strong: bool) -> list[str]:
    colour, width = (INK, 2) if strong else (GRID, 1)
    line = f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}" stroke-width="{width}"/>'
    return [line, _text(x, bottom + 16, label, anchor="middle", colour=SOFT)]


def _times(value: float) -> str:
    return f"{value:,.0f}×" if value >= 1 else f"1/{1 / value:,.0f}"


def _path(points: Sequence[tuple[float, float]], colour: str, *, dashed: bool = False) -> str:
    at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = ' stroke-dasharray="6 5"' if dashed else ""
    return f'<polyline points="{at}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", colour: str = INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _head(height: int, title: str) -> str:
    paper = f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
    return f'{paper}<text x="12" y="22" font-weight="bold" font-size="15" fill="{INK}">{escape(title)}</text>'


def _whole(height: int, parts: Sequence[str]) -> str:
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    font = 'font-family="system-ui, sans-serif" font-size="12"'
    inner = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>\n{inner}\n</svg>\n'
