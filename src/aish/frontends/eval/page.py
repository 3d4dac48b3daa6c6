"""The report as one HTML page: no script, no other file, light and dark, nothing in it but text and plots.

Everything a model, a backend or a case file said is untrusted and goes through `esc`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from aish.frontends.eval.baseline import compare
from aish.frontends.eval.figures import Row, rows
from aish.frontends.eval.page_plots import bars
from aish.frontends.eval.results import Report, Result
from aish.frontends.eval.table import percent
from aish.frontends.terminal import visible

# A page that a browser opens at once; the JSON has them all.
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

_COLUMNS = (
    "n", "exact", "95 %", "right tool", "called", "valid", "refused", "rounds", "retries", "repairs", "median s",
    "tokens", "errors",
)  # fmt: skip


def page(report: Report, before: Report | None = None) -> str:
    return "\n".join(_parts(report, before))


def esc(text: str) -> str:
    """As text, with control characters and direction overrides made visible."""
    shown = visible(text if len(text) <= _MAX_CHARS else text[:_MAX_CHARS] + " …")
    return escape(shown, quote=True)


def _parts(report: Report, before: Report | None) -> Iterator[str]:
    figures = rows(report.results)
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    # Even if something slipped through `esc`, a browser would neither run nor load it.
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>aish eval</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>aish eval</h1>"
    state = "" if report.complete else " · interrupted"
    about = f"{report.started} · aish {report.aish} · Python {report.python} · {report.platform}{state}"
    yield f'<p class="about">{esc(about)}</p>'
    yield "<h2>Exact answers</h2>"
    for suite in dict.fromkeys(row.suite for row in figures):
        yield bars(suite, [row for row in figures if row.suite == suite], esc)
    yield "<h2>Figures</h2>"
    yield from _figures(figures)
    if before is not None:
        yield from _changes(report, before)
    yield from _failures([result for result in report.results if result.outcome != "right"])
    yield "</body>\n</html>\n"


def _figures(figures: Sequence[Row]) -> Iterator[str]:
    heads = "".join(f'<th class="number">{column}</th>' for column in _COLUMNS)
    yield f'<div class="wide"><table><thead><tr><th>suite</th><th>model</th><th>mode</th>{heads}</tr></thead><tbody>'
    for row in figures:
        low, high = row.exact.interval
        cells = (
            str(row.exact.of), percent(row.exact), f"{low:.0f}–{high:.0f}", percent(row.tool), percent(row.called),
            percent(row.valid), percent(row.refused), f"{row.rounds:.1f}", str(row.retries), str(row.repairs),
            f"{row.median_s:.2f}", f"{row.tokens:.0f}", str(row.errors),
        )  # fmt: skip
        numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
        words = "".join(f"<td>{esc(word)}</td>" for word in (row.suite, row.model, row.mode))
        yield f"<tr{' class=whole' if row.suite == 'all' else ''}>{words}{numbers}</tr>"
    yield "</tbody></table></div>"


def _changes(report: Report, before: Report) -> Iterator[str]:
    yield f"<h2>Since {esc(before.started)}</h2>"
    yield '<div class="wide"><table><thead><tr><th>suite</th><th>model</th><th>mode</th>'
    yield '<th class="number">compared</th><th class="number">before</th><th class="number">now</th>'
    yield "<th>now wrong</th><th>now right</th></tr></thead>"
    for change in compare(before.results, report.results):
        words = "".join(f"<td>{esc(word)}</td>" for word in (change.suite, change.model, change.mode))
        numbers = "".join(
            f'<td class="number">{cell}</td>'
            for cell in (str(change.compared), f"{change.before:.1f} %", f"{change.now:.1f} %")
        )
        yield f"<tr>{words}{numbers}<td>{esc(', '.join(change.lost))}</td><td>{esc(', '.join(change.won))}</td></tr>"
    yield "</table></div>"


def _failures(results: Sequence[Result]) -> Iterator[str]:
    if not results:
        return
    shown = f", the first {MAX_FAILURES}" if len(results) > MAX_FAILURES else ""
    yield f"<h2>Not right: {len(results)}{shown}</h2>"
    yield '<div class="wide"><table><thead><tr><th>case</th><th>asked</th><th>expected</th><th>got</th></tr></thead>'
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
