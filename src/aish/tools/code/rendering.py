"""Formats answers for a model: one line with the status, then the result, as short as possible. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from aish.tools.code.answer import Answer, Place, Problem, Status, Symbol
from aish.tools.code.files.source import Source

MAX_READ_LINES = 400
MAX_READ_CHARS = 14_000  # below the limit of a tool result, so that the model sees our own truncation mark
LINE_CHARS = 500
BODY_LINES = 40
_MESSAGE_CHARS = 400
_DECLARED_CHARS = 120


class Page:
    """One page of a long list."""

    def __init__(self, total: int, offset: int, limit: int, *, complete: bool = True) -> None:
        self.start = min(offset, total)
        self.end = min(offset + limit, total)
        self._total = total
        self._complete = complete

    def __str__(self) -> str:
        total = f"{self._total}" if self._complete else f"{self._total}+"
        if self.end >= self._total and self._complete:
            return f"total={total} truncated=false"
        more = f" next_offset={self.end}" if self.end < self._total else ""
        return f"total={total} shown={self.start + 1}-{self.end} truncated=true{more}"


def envelope(answer: Answer[object], *more: object, revision: str = "") -> str:
    """Returns the first line of every result, with the note below it."""
    words = [f"backend={answer.backend}", f"status={answer.status}"]
    if revision:
        words.append(f"revision={revision}")
    first = " ".join([*words, *(str(part) for part in more if str(part))])
    return f"{first}\nnote: {answer.note}" if answer.note else first


def joined(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


def by_file(places: Iterable[Place]) -> str:
    """Lists each file once, with its lines below it."""
    blocks: list[str] = []
    for path, group in groupby(places, key=lambda place: place.path):
        found = list(group)
        lines = [f"  {place.line}: {place.text}" if place.text else f"  {place.line}" for place in found]
        blocks.append("\n".join([f"{path} (outside the workspace)" if found[0].outside else path, *lines]))
    return "\n".join(blocks)


def symbol_tree(symbols: Sequence[Symbol]) -> str:
    return "\n".join(f"{'  ' * one.depth}{one.line}-{one.end_line} {one.kind} {_declared(one)}" for one in symbols)


def symbol_list(symbols: Sequence[Symbol]) -> str:
    return "\n".join(f"{one.path}:{one.line} {one.kind} {one.name}{_within(one)}" for one in symbols)


def _declared(symbol: Symbol) -> str:
    if symbol.name not in symbol.text or symbol.kind == "variable":
        return symbol.name
    return symbol.text[:_DECLARED_CHARS]


def _within(symbol: Symbol) -> str:
    return f" in {symbol.container}" if symbol.container else ""


def problem_list(problems: Sequence[Problem]) -> str:
    return "\n".join(_problem(one) for one in problems)


def _problem(one: Problem) -> str:
    origin = " ".join(part for part in (one.source, one.code) if part)
    message = " ".join(one.message.split())[:_MESSAGE_CHARS]
    return f"{one.path}:{one.line}: {one.severity}: {message}{f' [{origin}]' if origin else ''}"


def problem_summary(answer: Answer[tuple[Problem, ...]]) -> str:
    """Returns the diagnostics, or a text for an empty list that depends on the status."""
    if answer.value:
        return problem_list(answer.value)
    return {
        Status.FRESH: "no problems",
        Status.PENDING: "not known yet: this does not mean that there are none",
        Status.PARTIAL: "none reported so far: there may be some",
        Status.STALE: "none in an older text",
        Status.UNSUPPORTED: "nobody here can tell",
    }[answer.status]


def numbered(source: Source, start: int, end: int, *, first: int = 1) -> tuple[str, int]:
    """Numbers as many lines as fit; also returns the last one. The first line of the source has the number `first`."""
    lines: list[str] = []
    used, last = 0, start - 1
    for number in range(start, min(end, start + MAX_READ_LINES - 1) + 1):
        line = source.line(number - first + 1)
        shown = f"{number}\t{line if len(line) <= LINE_CHARS else _cut(line)}"
        used += len(shown) + 1
        if used > MAX_READ_CHARS and lines:
            break
        lines.append(shown)
        last = number
    return "\n".join(lines), last


def _cut(line: str) -> str:
    return f"{line[:LINE_CHARS]}… ({len(line)} characters)"


def beginning(number: int, line: str) -> str:
    """Shows the beginning of a line that was not read to its end."""
    return f"{number}\t{line[:LINE_CHARS]}… (more than {len(line)} characters)"


def body(source: Source, line: int, end_line: int) -> str:
    """Shows a declaration, cut if it is long."""
    last = max(line, min(end_line, len(source.lines)))
    shown = min(last, line + BODY_LINES - 1)
    text, at = numbered(source, line, shown)
    return text if at == last else f"{text}\n… to line {last}"
