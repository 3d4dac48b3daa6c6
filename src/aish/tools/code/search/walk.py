"""Walks the files of a workspace that are not ignored (`.gitignore`, `.ignore`), ordered by name. Links are not
followed.

The rules are git's: the last matching pattern decides, `!` negates, a pattern with a slash is relative to its folder,
one without matches a name at any depth, and a trailing slash matches folders only.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from aish.errors import ToolError
from aish.tools.workspace import Workspace
from aish.types.globs import plain_glob

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


MAX_FOLDERS = 20_000
_IGNORE_FILE_BYTES = 256 * 1024
_BRACES = re.compile(r"\{([^{}]*)\}")
_MAX_BRACES, _MAX_ALTERNATIVES = 4, 64


_SECRET_HINT = "to look into one, name it as `path`, and the user is asked"


class SkippedFiles(msgspec.Struct):
    """What a search has skipped, and why, so that its result is not taken for complete."""

    too_large: int = 0
    unreadable: int = 0
    linked: int = 0
    secret: int = 0
    stopped: bool = False  # at a limit of folders, files or time

    def __str__(self) -> str:
        parts = (
            (self.too_large, f"{self.too_large} files are too large to be looked at"),
            (self.unreadable, f"{self.unreadable} files are no text in UTF-8"),
            (self.linked, f"{self.linked} files are hard links, perhaps to files outside, and not read"),
            (self.secret, f"{self.secret} files hold secrets by their names and are left out; {_SECRET_HINT}"),
            (self.stopped, "the workspace is too large for all of it to be looked at"),
        )
        return "; ".join(text for is_so, text in parts if is_so)


def walk_files(space: Workspace, *, below: str = "", skipped: SkippedFiles | None = None) -> Iterator[str]:
    """Yields the files below a folder, "" for all. Stops after MAX_FOLDERS."""
    above = IgnoreRules(space).patterns(below.rpartition("/")[0]) if below else ()
    waiting: list[tuple[str, tuple[Pattern, ...]]] = [(below, above)]
    seen = 0
    while waiting and seen < MAX_FOLDERS:
        folder, patterns = waiting.pop()
        seen += 1
        with suppress(ToolError):  # gone, or not allowed
            entries = space.entries(folder or ".")
            patterns += tuple(_own_patterns(space, folder, [name for name, _ in entries]))
            found = [(f"{folder}/{name}" if folder else name, name, kind) for name, kind in entries]
            listed = [
                (path, kind)
                for path, name, kind in found
                if name not in ALWAYS and not is_ignored(path, patterns, folder=kind == "folder")
            ]
            yield from (path for path, kind in listed if kind == "file")
            waiting += [(path, patterns) for path, kind in reversed(listed) if kind == "folder"]
    if waiting and skipped is not None:
        skipped.stopped = True


class IgnoreRules:
    """The ignore files of a workspace. Each is read once."""

    def __init__(self, space: Workspace) -> None:
        self._space = space
        self._known: dict[str, tuple[Pattern, ...]] = {}

    def patterns(self, folder: str) -> tuple[Pattern, ...]:
        """Returns the patterns of the folder and those above it, outermost first."""
        above: tuple[Pattern, ...] = ()
        for one in ("", *(folder[: slash.start()] for slash in re.finditer("/", folder)), folder):
            if one not in self._known:
                self._known[one] = (*above, *_own_patterns(self._space, one, FILES))
            above = self._known[one]
        return above

    def ignores(self, path: str, *, below: str) -> bool:
        """Whether a walk from the folder `below` skips the path. `below` itself is never ignored."""
        at = len(below) + 1 if below else 0
        while at < len(path):
            end = path.find("/", at)
            part = path if end < 0 else path[:end]
            if is_ignored(part, self.patterns(part.rpartition("/")[0]), folder=end >= 0):
                return True
            at = len(part) + 1
        return False


def _own_patterns(space: Workspace, folder: str, names: Sequence[str]) -> Iterator[Pattern]:
    for file in FILES:
        if file in names:
            with suppress(ToolError):
                data = space.read(f"{folder}/{file}" if folder else file, max_bytes=_IGNORE_FILE_BYTES)
                yield from read_patterns(data.decode("utf-8", "replace"), folder)


def matches_glob(path: str, glob: str) -> bool:
    """`*.py` matches the name, `src/**/*.py` the path; `{a,b}` matches either."""
    glob = plain_glob(glob)
    if not glob:
        return True
    subject = path if "/" in glob else path.rpartition("/")[2]
    return any(compile_regex(glob_to_regex(one)).fullmatch(subject) for one in _alternatives(glob))


@functools.lru_cache(maxsize=64)
def _alternatives(glob: str) -> tuple[str, ...]:
    found = [glob]
    for _ in range(_MAX_BRACES):
        opened = [_BRACES.search(one) for one in found]
        if not any(opened) or len(found) > _MAX_ALTERNATIVES:
            break
        found = [
            one[: at.start()] + choice + one[at.end() :] if at else one
            for one, at in zip(found, opened, strict=True)
            for choice in (at[1].split(",") if at else ("",))
        ]
    return tuple(found[:_MAX_ALTERNATIVES])
