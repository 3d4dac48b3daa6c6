"""What was measured, shown: a table for the terminal, and docs/benchmarks.md with its charts.

The page keeps what people wrote; only what stands between its two markers is made here. Reasons for being behind come
from reasons.toml, which is written by hand; a row that is behind without one says so.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench import svg
from bench.parts import PARTS
from bench.rows import Figure, Row

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
CHARTS = ROOT / "docs" / "bench"
REASONS = Path(__file__).with_name("reasons.toml")
BEGIN, END = "<!-- figures: made by `make bench`, do not edit -->", "<!-- end of figures -->"
NOTE_CHARS = 160

Results = Mapping[str, Any]


class PageError(Exception):
    """The page is not as it was left."""


# For the terminal.


def text_table(results: Results) -> str:
    lines = []
    for name, part in results["parts"].items():
        lines += ["", f"{name}: {PARTS.get(name, name)}"]
        lines += [_text_row(row) for row in _rows(part)]
        lines += [f"  failed: {part['failed']}"] * bool(part["failed"])
        lines += [f"  {note}" for note in _notes(part)]
    return "\n".join(lines)


def _text_row(row: Row) -> str:
    if row.part == "growth":
        curve = ", ".join(f"{size}: {shown(cost)} µs" for size, cost in row.limits.items())
        return f"  {row.what:<56} {shown(row.ours):>6} [{row.bar}: {_verdict(row)}]  {curve}"
    others = [f"{name} {shown(figure)}{_ratio(row, name)}" for name, figure in {**row.limits, **row.peers}.items()]
    bar = f"[{row.bar}: {_verdict(row)}]" if row.bar else ""
    return f"  {row.what:<44} {shown(row.ours):>10} {row.unit:<6} {bar:<34} {', '.join(others)}"


def _ratio(row: Row, name: str) -> str:
    times = row.times(name)
    return "" if times is None else f" ({_factor(times)})"


def _factor(times: float) -> str:
    return f"{times:.3g}×" if times >= 1 else f"{times:.2f}×"


def _verdict(row: Row) -> str:
    return {True: "held", False: "MISSED", None: "not judged"}[row.met]


# The page.


def write(results: Results) -> None:
    text = PAGE.read_text("utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise PageError(f"{PAGE} has lost its markers: put {BEGIN!r} and {END!r} where the figures belong")
    CHARTS.mkdir(parents=True, exist_ok=True)
    (CHARTS / "results.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    made = "\n".join(_figures(results))
    PAGE.write_text(f"{before}{BEGIN}\n\n{made}\n{END}{after}", "utf-8")


def _figures(results: Results) -> Iterator[str]:
    yield from _where(results)
    reasons = tomllib.loads(REASONS.read_text("utf-8"))
    for name, part in results["parts"].items():
        yield f"### {_title(name)}\n"
        rows = _rows(part)
        if chart := _chart(name, rows):
            (CHARTS / f"{name}.svg").write_text(chart, "utf-8")
            yield f"![{PARTS[name]}](bench/{name}.svg)\n"
        yield from _growth_table(rows) if name == "growth" else _markdown_table(rows)
        yield f"\nRepeat: `python -m bench {name}`. Measured {part['date']}, load average {part['load']}.\n"
        yield from _lists(part, rows, reasons.get(name, {}))


def _title(part: str) -> str:
    name = PARTS.get(part, part)
    return name[0].upper() + name[1:]


def _lists(part: Mapping[str, Any], rows: list[Row], reasons: Mapping[str, Any]) -> Iterator[str]:
    """What stands below a table: bars that were missed, who is ahead of us and why, who has no figure."""
    told = [f"Missed: {row.what}, {shown(row.ours)} {row.unit} ({row.bar})." for row in rows if row.met is False]
    told += _behind(rows, reasons)
    told += _notes(part)
    told += [f"This part did not come to its end: {part['failed']}"] * bool(part["failed"])
    if told:
        yield "\n".join(f"- {line}" for line in told) + "\n"


def _behind(rows: list[Row], reasons: Mapping[str, Any]) -> list[str]:
    """Each peer that is ahead once for each reason, with the rows it is ahead in."""
    ahead: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for who, times in row.behind().items():
            given = reasons.get(row.what.strip(), {}).get(who) or reasons.get("*", {}).get(who)
            why = given or "why is not known yet"
            ahead.setdefault((who, why), []).append(f"{row.what.strip()} ({times:.2g} times)")
    return [f"Behind {who}: {', '.join(rows)}. {why[0].upper()}{why[1:]}." for (who, why), rows in ahead.items()]


def _where(results: Results) -> Iterator[str]:
    facts = results["machine"]
    peers = ", ".join(f"{name} {version}" for name, version in facts["peers"].items())
    yield (
        f"Measured {facts['date']} at commit `{facts['commit']}`: aish {facts['aish']}, Python {facts['python']}, "
        f"node {facts['node']}, {facts['system']}, {facts['cores']} cores of {facts['cpu']}, {facts['memory_gb']} GB; "
        f"load average {facts['load']} at the end. Peers: {peers}.\n"
    )
    if results["quick"]:
        yield "This was a quick run: a look, not a judgement.\n"


def _markdown_table(rows: list[Row]) -> Iterator[str]:
    limits, peers = (_names(rows, group) for group in ("limits", "peers"))
    heads = ["what", "aish", *limits, *peers, "bar", "rounds"]
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        others = [shown({**row.limits, **row.peers}.get(name)) + _ratio(row, name) for name in (*limits, *peers)]
        bar = f"{row.bar} {_verdict(row)}" if row.bar else ""
        yield f"| {' | '.join([f'{row.what}, {row.unit}', f'**{shown(row.ours)}**', *others, bar, str(row.rounds)])} |"


def _growth_table(rows: list[Row]) -> Iterator[str]:
    yield "| what grows: what is measured | sizes | CPU, µs | exponent | bar |\n|---|---|---|---|---|"
    for row in rows:
        sizes, costs = (" / ".join(map(shown, each)) for each in (map(float, row.limits), row.limits.values()))
        yield f"| {row.what} | {sizes} | {costs} | **{shown(row.ours)}** | {row.bar} {_verdict(row)} |"


def _names(rows: list[Row], group: str) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in getattr(row, group)))


def _chart(part: str, rows: list[Row]) -> str:
    if part == "growth":
        several = {row.what: _relative(row) for row in rows if len(row.limits) > 1}
        across, up = "times the size", "times the cost; dashed: as the size"
        return svg.lines("Cost as the size grows", several, across=across, up=up) if several else ""
    found = [(f"{row.what}, {row.unit}", _times(row)) for row in rows]
    kept = [(what, figures) for what, figures in found if figures]
    title = f"{_title(part)}: how many times better aish is"
    return svg.dots(title, kept, here="aish", hollow=_names(rows, "limits")) if kept else ""


def _relative(row: Row) -> list[tuple[float, float]]:
    """A curve as times its first point."""
    points = [(float(size), cost) for size, cost in row.limits.items() if cost]
    return [(size / points[0][0], cost / points[0][1]) for size, cost in points]


def _times(row: Row) -> dict[str, float]:
    found = {name: row.times(name) for name in (*row.peers, *row.limits)}
    return {name: times for name, times in found.items() if times is not None and times > 0}


def _rows(part: Mapping[str, Any]) -> list[Row]:
    return [Row.of_json(each) for each in part["rows"]]


def _notes(part: Mapping[str, Any]) -> list[str]:
    """Said once, however many rows they concern."""
    rows = _rows(part)
    found = {who: why[:NOTE_CHARS] for row in rows for who, why in row.notes.items()}
    measured = {who for row in rows for who, figure in row.peers.items() if figure is not None}
    measured |= {row.what.partition(":")[0] for row in rows if row.ours is not None}  # of growth, by what grows
    return [f"{who}: {why}" if who in measured else f"No figure for {who}: {why}" for who, why in found.items()]


def shown(figure: Figure) -> str:
    if figure is None:
        return "-"
    if abs(figure) >= 1000 or figure == int(figure):
        return f"{figure:,.0f}"
    return f"{figure:.3g}"
