"""Shows edits as a unified diff within bounds. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator

from aish.tools.code.files.source import is_binary, split_lines

MAX_LINES = 200
MAX_CHARS = 12_000
_LINE_CHARS = 300
_NAMED = 20
_BLANKS = re.compile(r"[ \t]{40,}")
# The user waits for the diff, and comparing larger texts takes too long.
_MAX_COMPARED_BYTES = 256 * 1024

Before = bytes | None
After = bytes | None


def diff_of(files: Iterable[tuple[str, Before, After]]) -> str:
    """Formats as much as fits, and names the files that are not completely shown."""
    shown: list[str] = []
    cut: list[str] = []
    used = 0
    for path, before, after in files:
        lines = (piece for line in _lines(path, before, after) for piece in _in_pieces(line))
        for line in lines if not cut else ("",):
            if cut or len(shown) >= MAX_LINES or used + len(line) >= MAX_CHARS:
                cut.append(path)
                break
            shown.append(line)
            used += len(line) + 1
    if cut:
        names = ", ".join(cut[:_NAMED])
        shown.append(f"… and more, in {len(cut)} files: {names}{', …' if len(cut) > _NAMED else ''}")
    return "\n".join(shown)


def _in_pieces(line: str) -> Iterator[str]:
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
    if not found:  # an empty file is created or removed
        yield from (f"--- {names[0]}", f"+++ {names[1]}")


def _text(content: bytes | None) -> str | None:
    if content is None:
        return ""
    if is_binary(content) or len(content) > _MAX_COMPARED_BYTES:
        return None
    return content.decode("utf-8", "replace")
