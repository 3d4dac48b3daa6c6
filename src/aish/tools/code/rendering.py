"""Formats answers for a model: one line with the status, then the result, as short as possible. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from aish.tools.code.backends.port import AnswerStatus, CodeAnswer, Diagnostic, Location, Symbol
from aish.tools.code.files.source import SourceText, is_binary, split_lines

MAX_READ_LINES = 400
MAX_READ_CHARS = 14_000  # below the limit of a tool result, so that the model sees our own truncation mark
LINE_CHARS = 500
BODY_LINES = 40
_MESSAGE_CHARS = 400
_DECLARED_CHARS = 120


class ResultPage:
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


def envelope(answer: CodeAnswer[object], *more: object, revision: str = "") -> str:
    """Returns the first line of every result, with the note below it."""
    words = [f"backend={answer.backend}", f"status={answer.status}"]
    if revision:
        words.append(f"revision={revision}")
    first = " ".join([*words, *(str(part) for part in more if str(part))])
    return f"{first}\nnote: {answer.note}" if answer.note else first


def join_lines(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


def group_by_file(locations: Iterable[Location]) -> str:
    """Lists each file once, with its lines below it."""
    blocks: list[str] = []
    for path, group in groupby(locations, key=lambda location: location.path):
        found = list(group)
        lines = [f"  {location.line}: {location.text}" if location.text else f"  {location.line}" for location in found]
        blocks.append("\n".join([f"{path} (outside the workspace)" if found[0].outside else path, *lines]))
    return "\n".join(blocks)


def format_symbol_tree(symbols: Sequence[Symbol]) -> str:
    return "\n".join(
        f"{'  ' * one.depth}{one.line}-{one.end_line} {one.kind} {_declaration_text(one)}" for one in symbols
    )


def format_symbol_list(symbols: Sequence[Symbol]) -> str:
    return "\n".join(f"{one.path}:{one.line} {one.kind} {one.name}{_container_text(one)}" for one in symbols)


def _declaration_text(symbol: Symbol) -> str:
    if symbol.name not in symbol.text or symbol.kind == "variable":
        return symbol.name
    return symbol.text[:_DECLARED_CHARS]


def _container_text(symbol: Symbol) -> str:
    return f" in {symbol.container}" if symbol.container else ""


def format_diagnostics(problems: Sequence[Diagnostic]) -> str:
    return "\n".join(_format_problem(diagnostic) for diagnostic in problems)


def _format_problem(diagnostic: Diagnostic) -> str:
    origin = " ".join(part for part in (diagnostic.source, diagnostic.code) if part)
    message = " ".join(diagnostic.message.split())[:_MESSAGE_CHARS]
    return f"{diagnostic.path}:{diagnostic.line}: {diagnostic.severity}: {message}{f' [{origin}]' if origin else ''}"


def summarise_diagnostics(answer: CodeAnswer[tuple[Diagnostic, ...]]) -> str:
    """Returns the diagnostics, or a text for an empty list that depends on the status."""
    if answer.value:
        return format_diagnostics(answer.value)
    return {
        AnswerStatus.FRESH: "no problems",
        AnswerStatus.PENDING: "not known yet: this does not mean that there are none",
        AnswerStatus.PARTIAL: "none reported so far: there may be some",
        AnswerStatus.STALE: "none in an older text",
        AnswerStatus.UNSUPPORTED: "not supported here",
    }[answer.status]


def number_lines(source: SourceText, start: int, end: int, *, first: int = 1) -> tuple[str, int]:
    """Numbers as many lines as fit; also returns the last one. The first line of the source has the number `first`."""
    lines: list[str] = []
    used, last = 0, start - 1
    for number in range(start, min(end, start + MAX_READ_LINES - 1) + 1):
        line = source.line(number - first + 1)
        shown = f"{number}\t{line if len(line) <= LINE_CHARS else _shorten(line)}"
        used += len(shown) + 1
        if used > MAX_READ_CHARS and lines:
            break
        lines.append(shown)
        last = number
    return "\n".join(lines), last


def _shorten(line: str) -> str:
    return f"{line[:LINE_CHARS]}… ({len(line)} characters)"


def format_line_start(number: int, line: str) -> str:
    """Shows the beginning of a line that was not read to its end."""
    return f"{number}\t{line[:LINE_CHARS]}… (more than {len(line)} characters)"


def format_declaration(source: SourceText, line: int, end_line: int) -> str:
    """Shows a declaration, cut if it is long."""
    last = max(line, min(end_line, len(source.lines)))
    shown = min(last, line + BODY_LINES - 1)
    text, at = number_lines(source, line, shown)
    return text if at == last else f"{text}\n… to line {last}"


MAX_LINES = 200
MAX_CHARS = 12_000
_LINE_CHARS = 300
_MAX_NAMED = 20
_BLANKS = re.compile(r"[ \t]{40,}")
# The user waits for the diff, and comparing larger texts takes too long.
_MAX_COMPARED_BYTES = 256 * 1024

Before = bytes | None
After = bytes | None


def format_diff(files: Iterable[tuple[str, Before, After]]) -> str:
    """Formats as much as fits, and names the files that are not completely shown."""
    shown: list[str] = []
    cut: list[str] = []
    used = 0
    for path, before, after in files:
        lines = (piece for line in _diff_lines(path, before, after) for piece in _split_long_line(line))
        for line in lines if not cut else ("",):
            if cut or len(shown) >= MAX_LINES or used + len(line) >= MAX_CHARS:
                cut.append(path)
                break
            shown.append(line)
            used += len(line) + 1
    if cut:
        names = ", ".join(cut[:_MAX_NAMED])
        shown.append(f"… and more, in {len(cut)} files: {names}{', …' if len(cut) > _MAX_NAMED else ''}")
    return "\n".join(shown)


def _split_long_line(line: str) -> Iterator[str]:
    """Splits long lines. Changed text is shown in full, so that nothing can hide behind many blanks."""
    if len(line) <= _LINE_CHARS:
        yield line
        return
    sign, rest = line[:1], _BLANKS.sub(lambda run: f"[{len(run[0])} blanks]", line[1:])
    if sign not in "+-":
        yield f"{sign}{rest[:_LINE_CHARS]}… {max(0, len(rest) - _LINE_CHARS)} more characters"
        return
    for start in range(0, len(rest), _LINE_CHARS):
        yield f"{sign}{rest[start : start + _LINE_CHARS]}"


def _diff_lines(path: str, before: Before, after: After) -> Iterator[str]:
    old, new = _diff_text(before), _diff_text(after)
    if old is None or new is None:
        yield f"--- {path}: {len(before or b'')} bytes become {len(after or b'')}, too many or no text to show"
        return
    names = ("/dev/null" if before is None else f"a/{path}", "/dev/null" if after is None else f"b/{path}")
    found = False
    for line in difflib.unified_diff(split_lines(old), split_lines(new), *names, n=2):
        found = True
        yield line.rstrip("\r\n")
        if not line.endswith(("\n", "\r")) and line[:1] in " +-":
            yield "\\ no newline at the end"
    if not found:  # an empty file is created or removed
        yield from (f"--- {names[0]}", f"+++ {names[1]}")


def _diff_text(content: bytes | None) -> str | None:
    if content is None:
        return ""
    if is_binary(content) or len(content) > _MAX_COMPARED_BYTES:
        return None
    return content.decode("utf-8", "replace")
