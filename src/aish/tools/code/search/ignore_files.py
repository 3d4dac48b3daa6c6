"""Reads ignore files (`.gitignore`, `.ignore`). Pure.

The rules are git's: the last matching pattern decides, `!` negates, a pattern with a slash is relative to its folder,
one without matches a name at any depth, and a trailing slash matches folders only.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import msgspec

FILES = (".gitignore", ".ignore")
MAX_PATTERNS = 2000
# Always skipped, whatever the ignore files say.
ALWAYS = frozenset({".git", ".hg", ".svn"})


class Pattern(msgspec.Struct, frozen=True):
    """`base` is the folder of the ignore file, "" for the root."""

    base: str
    regex: str
    is_negated: bool
    is_folder_only: bool


def read_patterns(text: str, base: str) -> list[Pattern]:
    lines = [line.rstrip("\r\n") for line in text.split("\n")[:MAX_PATTERNS]]
    return [pattern for line in lines if (pattern := _pattern(line, base)) is not None]


def _pattern(line: str, base: str) -> Pattern | None:
    line = re.sub(r"(?<!\\) +$", "", line)
    if not line or line.startswith("#"):
        return None
    is_negated = line.startswith("!")
    line = line.removeprefix("!").removeprefix("\\")
    is_folder_only = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    anchored = "/" in line
    regex = glob_to_regex(line.lstrip("/"))
    return Pattern(base, regex if anchored else f"(?:.*/)?{regex}", is_negated, is_folder_only)


def glob_to_regex(glob: str) -> str:
    """Converts a glob to a regex for a whole path: `*` stops at a slash, `**` does not."""
    pieces, at = [], 0
    while at < len(glob):
        for mark, regex in (("**/", "(?:.*/)?"), ("/**", "/.*"), ("**", ".*"), ("*", "[^/]*"), ("?", "[^/]")):
            if glob.startswith(mark, at) and (mark != "/**" or at + 3 == len(glob)):
                pieces.append(regex)
                at += len(mark)
                break
        else:
            piece, at = _literal(glob, at)
            pieces.append(piece)
    return "".join(pieces)


def _literal(glob: str, at: int) -> tuple[str, int]:
    if glob[at] == "[" and (end := glob.find("]", at + 2)) > 0:
        inside = glob[at + 1 : end].replace("\\", "\\\\")
        return f"[{'^' + inside[1:] if inside[0] in '!^' else inside}]", end + 1
    if glob[at] == "\\" and at + 1 < len(glob):
        return re.escape(glob[at + 1]), at + 2
    return re.escape(glob[at]), at + 1


def is_ignored(path: str, patterns: Sequence[Pattern], *, folder: bool) -> bool:
    """Patterns are ordered by folder, outermost first."""
    for pattern in reversed(patterns):
        if pattern.is_folder_only and not folder:
            continue
        below = path.removeprefix(f"{pattern.base}/") if pattern.base else path
        if compile_regex(pattern.regex).fullmatch(below):
            return not pattern.is_negated
    return False


@functools.lru_cache(maxsize=4096)
def compile_regex(regex: str) -> re.Pattern[str]:
    try:
        return re.compile(regex)
    except re.error:  # a class such as [z-a]
        return re.compile(r"(?!)")
