"""Plots as inline SVG: a bar for each model and mode, its 95 % interval on top."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from aish.frontends.eval.figures import Row

_LABEL, _PLOT, _LINE, _HEAD = 300, 460, 24, 24


def bars(title: str, figures: Sequence[Row], esc: Callable[[str], str]) -> str:
    """`esc` makes text safe to stand in a page."""
    height, width = _HEAD + _LINE * len(figures) + 6, _LABEL + _PLOT + 70
    lines = [
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>{esc(title)}: exact answers in percent</title>",
        f'<text x="0" y="16" font-weight="600">{esc(title)}</text>',
        *_grid(height),
        *(piece for at, row in enumerate(figures) for piece in _bar(row, _HEAD + _LINE * at, esc)),
        "</svg>",
    ]
    return "\n".join(lines)


def _grid(height: int) -> Iterator[str]:
    for share in (0, 25, 50, 75, 100):
        x = _LABEL + _PLOT * share / 100
        yield f'<line class="grid" x1="{x:g}" x2="{x:g}" y1="{_HEAD - 4}" y2="{height}"/>'
        yield f'<text class="dim" x="{x:g}" y="14" text-anchor="middle">{share}</text>'


def _bar(row: Row, y: int, esc: Callable[[str], str]) -> Iterator[str]:
    low, high = (_LABEL + _PLOT * edge / 100 for edge in row.exact.interval)
    width, middle = _PLOT * row.exact.percent / 100, y + _LINE / 2
    label = f"{row.model} · {row.mode}"
    yield f'<text x="{_LABEL - 8}" y="{middle + 4:g}" text-anchor="end">{esc(_tail(label))}</text>'
    yield f'<rect class="bar" x="{_LABEL}" y="{y + 4}" width="{width:.1f}" height="{_LINE - 8}" rx="2"/>'
    yield f'<line class="span" x1="{low:.1f}" x2="{high:.1f}" y1="{middle:g}" y2="{middle:g}"/>'
    yield f'<text x="{_LABEL + _PLOT + 8}" y="{middle + 4:g}">{row.exact.percent:.1f} %</text>'


def _tail(label: str) -> str:
    """The end of a long name tells more than its beginning."""
    return label if len(label) <= 42 else "…" + label[-41:]
