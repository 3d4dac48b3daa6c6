"""Writes the report as one HTML page with inline SVG plots: no scripts and no other files, for light and dark themes.

All text of models, backends and case files is untrusted, and is escaped by `esc`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from aish.frontends.eval.report import ALL, HEADS, TEXT_COLUMNS, EvalRow, Report, Result, compare_results, make_rows
from aish.frontends.terminal import visible

# More would make the page slow to open; the JSON report has them all.
MAX_FAILURES = 500
_MAX_CHARS = 1200

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2129; --dim: #667085; --paper: #fff; --line: #d8dce3; --bar: #3b76c9;
  --bad: #c0392b; --soft: #f4f6f9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ec; --dim: #98a2b3; --paper: #14171c; --line: #343a44;
  --bar: #6ea3ea; --bad: #f08a7e; --soft: #1c2027; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2rem; }
p.about { color: var(--dim); margin-top: .25rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; font: 12px/1.4 ui-monospace, monospace; }
.reason { color: var(--bad); } tr.whole td { font-weight: 600; background: var(--soft); }
svg { max-width: 100%; height: auto; } svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .dim { fill: var(--dim); } svg .bar { fill: var(--bar); } svg .span { stroke: var(--ink); stroke-width: 1.5; }
svg .grid { stroke: var(--line); }
"""

# Sizes of a plot in pixels.
_LABEL, _PLOT, _LINE, _HEAD = 300, 460, 24, 24


def page(report: Report, before: Report | None = None) -> str:
    return "\n".join(_parts(report, before))


def esc(text: str) -> str:
    """Escapes text for HTML, and makes control characters and direction overrides visible."""
    shown = visible(text if len(text) <= _MAX_CHARS else text[:_MAX_CHARS] + " …")
    return escape(shown, quote=True)


def _parts(report: Report, before: Report | None) -> Iterator[str]:
    figures = make_rows(report.results)
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    # A second line of defence: the browser neither runs scripts nor loads anything.
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>aish eval</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>aish eval</h1>"
    state = "" if report.complete else " · interrupted"
    about = f"{report.started} · aish {report.aish} · Python {report.python} · {report.platform}{state}"
    yield f'<p class="about">{esc(about)}</p>'
    yield "<h2>Exact answers</h2>"
    for suite in dict.fromkeys(row.suite for row in figures):
        yield _plot_bars(suite, [row for row in figures if row.suite == suite])
    yield "<h2>Figures</h2>"
    yield from _figures(figures)
    if before is not None:
        yield from _changes(report, before)
    yield from _failures([result for result in report.results if result.outcome != "right"])
    yield "</body>\n</html>\n"


def _plot_bars(title: str, figures: Sequence[EvalRow]) -> str:
    """An SVG with a bar and a 95 % interval for each model and mode."""
    height, width = _HEAD + _LINE * len(figures) + 6, _LABEL + _PLOT + 70
    lines = [
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>{esc(title)}: exact answers in percent</title>",
        f'<text x="0" y="16" font-weight="600">{esc(title)}</text>',
        *_grid(height),
        *(part for at, row in enumerate(figures) for part in _bar(row, _HEAD + _LINE * at)),
        "</svg>",
    ]
    return "\n".join(lines)


def _grid(height: int) -> Iterator[str]:
    for share in (0, 25, 50, 75, 100):
        x = _LABEL + _PLOT * share / 100
        yield f'<line class="grid" x1="{x:g}" x2="{x:g}" y1="{_HEAD - 4}" y2="{height}"/>'
        yield f'<text class="dim" x="{x:g}" y="14" text-anchor="middle">{share}</text>'


def _bar(row: EvalRow, y: int) -> Iterator[str]:
    low, high = (_LABEL + _PLOT * edge / 100 for edge in row.exact.interval)
    width, middle = _PLOT * row.exact.percent / 100, y + _LINE / 2
    label = f"{row.model} · {row.mode}"
    label = label if len(label) <= 42 else "…" + label[-41:]
    yield f'<text x="{_LABEL - 8}" y="{middle + 4:g}" text-anchor="end">{esc(label)}</text>'
    yield f'<rect class="bar" x="{_LABEL}" y="{y + 4}" width="{width:.1f}" height="{_LINE - 8}" rx="2"/>'
    yield f'<line class="span" x1="{low:.1f}" x2="{high:.1f}" y1="{middle:g}" y2="{middle:g}"/>'
    yield f'<text x="{_LABEL + _PLOT + 8}" y="{middle + 4:g}">{row.exact.percent:.1f} %</text>'


def _figures(figures: Sequence[EvalRow]) -> Iterator[str]:
    yield _table_head(*HEADS, texts=TEXT_COLUMNS)
    for row in figures:
        yield f"<tr{' class=whole' if row.suite == ALL else ''}>{_cells(row.cells, TEXT_COLUMNS)}</tr>"
    yield "</table></div>"


def _changes(report: Report, before: Report) -> Iterator[str]:
    yield f"<h2>Since {esc(before.started)}</h2>"
    yield _table_head("suite", "model", "mode", "now wrong", "now right", "compared", "before", "now", texts=5)
    for change in compare_results(before.results, report.results):
        texts = (change.suite, change.model, change.mode, ", ".join(change.lost), ", ".join(change.won))
        numbers = (str(change.compared), f"{change.before:.1f} %", f"{change.now:.1f} %")
        yield f"<tr>{_cells((*texts, *numbers), len(texts))}</tr>"
    yield "</table></div>"


def _table_head(*heads: str, texts: int) -> str:
    return f'<div class="wide"><table><tr>{_cells(heads, texts, "th")}</tr>'


def _cells(cells: Sequence[str], texts: int, tag: str = "td") -> str:
    """The cells of a row; those after the first `texts` are numbers."""
    marks = ("" if at < texts else ' class="number"' for at in range(len(cells)))
    return "".join(f"<{tag}{mark}>{esc(cell)}</{tag}>" for mark, cell in zip(marks, cells, strict=True))


def _failures(results: Sequence[Result]) -> Iterator[str]:
    if not results:
        return
    shown = f", the first {MAX_FAILURES}" if len(results) > MAX_FAILURES else ""
    yield f"<h2>Not right: {len(results)}{shown}</h2>"
    yield _table_head("case", "asked", "expected", "got", texts=4)
    for result in results[:MAX_FAILURES]:
        yield (
            f"<tr><td>{esc(result.case)}<br>{esc(result.model)}<br>{esc(result.mode)}</td>"
            f"<td><pre>{esc(result.question)}</pre></td><td><pre>{esc(result.expected)}</pre></td>"
            f"<td><pre>{esc(_got(result))}</pre>"
            f'<span class="reason">{esc(result.error or result.reason)}</span></td></tr>'
        )
    yield "</table></div>"


def _got(result: Result) -> str:
    return "\n".join(f"{call.name} {call.arguments}" for call in result.calls) or result.text
