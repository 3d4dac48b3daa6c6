"""Edits as a unified diff for a person to look at, within bounds. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from aish.tools.ide.source import is_binary, split_lines

MAX_LINES = 200
MAX_CHARS = 12_000
_LINE_CHARS = 300
_NAMED = 20
# Comparing larger texts takes longer than a person likes to wait for a question.
_MAX_COMPARED_BYTES = 256 * 1024

Before = bytes | None
After = bytes | None


def diff_of(files: Iterable[tuple[str, Before, After]]) -> str:
    """As much as fits, and which files are not, or not wholly, in it."""
    shown: list[str] = []
    cut: list[str] = []
    used = 0
    for path, before, after in files:
        for line in _lines(path, before, after) if not cut else ("",):
            line = line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}…"
            if cut or len(shown) >= MAX_LINES or used + len(line) >= MAX_CHARS:
                cut.append(path)
                break
            shown.append(line)
            used += len(line) + 1
    if cut:
        names = ", ".join(cut[:_NAMED])
        shown.append(f"… and more, in {len(cut)} files: {names}{', …' if len(cut) > _NAMED else ''}")
    return "\n".join(shown)


def _lines(path: str, before: Before, after: After) -> Iterator[str]:
    old, new = _text(before), _text(after)
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
    if not found:  # an empty file comes or goes
        yield from (f"--- {names[0]}", f"+++ {names[1]}")


def _text(content: bytes | None) -> str | None:
    if content is None:
        return ""
    if is_binary(content) or len(content) > _MAX_COMPARED_BYTES:
        return None
    return content.decode("utf-8", "replace")
