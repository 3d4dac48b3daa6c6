"""The `search` tool: finds lines that contain a text or match an expression, in files that are not ignored. All work is
bounded.

ripgrep opens files by name, and a link may be swapped meanwhile. So its matches are read again through the workspace,
and only confirmed ones are returned.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable

import msgspec

from aish.errors import ToolError
from aish.tools.code.answer import Location
from aish.tools.code.files.source import is_binary, split_lines
from aish.tools.code.search import ripgrep
from aish.tools.code.search.walk import IgnoreRules, SkippedFiles, matches_glob, walk_files
from aish.tools.workspace import HardLinked, TooLong, Workspace
from aish.types.tools import ResultStatus

MAX_MATCHES = 5000  # found; fewer are shown
TIMEOUT_S = 20.0
_MAX_FILE_BYTES = 4 * 1024 * 1024
_TEXT_CHARS = 240
_LINE_CHARS = 10_000  # of a line are searched

Matcher = Callable[[str], bool]


class Query(msgspec.Struct, frozen=True):
    pattern: str
    regex: bool = False
    ignore_case: bool = False
    glob: str = ""
    below: str = ""


class SearchResult(msgspec.Struct, frozen=True):
    locations: tuple[Location, ...]
    complete: bool  # False if a limit stopped the search
    by: str
    note: str = ""  # what was skipped


async def search(space: Workspace, query: Query, *, search_path: str) -> SearchResult:
    """Raises ToolError for an invalid expression."""
    matches = build_matcher(query)
    below = await asyncio.to_thread(_find_folder, space, query.below)
    if below is None:
        skipped = SkippedFiles()
        matching = _in_file(space, space.relative(query.below), matches, skipped)[:MAX_MATCHES]
        return SearchResult(tuple(matching), len(matching) < MAX_MATCHES, "aish", str(skipped))
    query = msgspec.structs.replace(query, below=below)
    program = ripgrep.find_ripgrep(search_path)
    if program:
        found = await ripgrep.search_lines(program, space.root, query, max_lines=MAX_MATCHES, timeout_s=TIMEOUT_S)
        if found is not None:
            lines, complete = found
            names, are_all = await ripgrep.list_files(program, space.root, query, timeout_s=TIMEOUT_S)
            locations = await asyncio.to_thread(_verify_matches, space, query, lines, matches)
            skipped = await asyncio.to_thread(_count_skipped, space, query, names)
            skipped.stopped = not are_all
            return SearchResult(tuple(locations), complete, "ripgrep", str(skipped))
    stop = threading.Event()
    timer = asyncio.get_running_loop().call_later(TIMEOUT_S, stop.set)
    try:
        return await asyncio.to_thread(_search_walk, space, query, matches, stop)
    finally:
        timer.cancel()
        stop.set()


def _find_folder(space: Workspace, name: str) -> str | None:
    """Returns the folder, "" for the root; None for a file. Raises ToolError if it is neither."""
    path = space.relative(name or ".")
    try:
        space.entries(path)
    except ToolError:
        space.check_readable(path)
        return None
    return "" if path == "." else path


def build_matcher(query: Query) -> Matcher:
    """Takes linear time in the line for any expression, because a model may send a hostile one."""
    text = query.pattern
    if not text or "\n" in text:
        raise ToolError("the pattern must be one line of text", status=ResultStatus.BAD_ARGUMENTS)
    if query.regex:
        return _compile_expression(f"(?i){text}" if query.ignore_case else text)
    if query.ignore_case:
        return lambda line: text.casefold() in line.casefold()
    return lambda line: text in line


def _compile_expression(text: str) -> Matcher:
    import jsonschema_rs  # its expressions take linear time

    try:
        checker = jsonschema_rs.validator_for({"pattern": text}, pattern_options=jsonschema_rs.RegexOptions())
    except (jsonschema_rs.ValidationError, ValueError) as exc:
        hint = "escape ( [ { . * + ? \\ with a backslash, or leave `regex` out to search for the text itself"
        raise ToolError(f"'{text}' is no regular expression; {hint}", status=ResultStatus.BAD_ARGUMENTS) from exc
    return checker.is_valid


def _search_walk(space: Workspace, query: Query, matches: Matcher, stop: threading.Event) -> SearchResult:
    locations: list[Location] = []
    complete, skipped = True, SkippedFiles()
    for path in walk_files(space, below=query.below, skipped=skipped):
        if stop.is_set() or len(locations) >= MAX_MATCHES:
            complete = False
            break
        if matches_glob(path, query.glob):
            locations += _in_file(space, path, matches, skipped)
    complete = complete and len(locations) <= MAX_MATCHES and not skipped.stopped
    return SearchResult(tuple(sorted(locations)[:MAX_MATCHES]), complete, "aish", str(skipped))


def _count_skipped(space: Workspace, query: Query, names: Iterable[str]) -> SkippedFiles:
    """Counts the files listed by ripgrep that it does not search, or that we do not read."""
    skipped, ignoring = SkippedFiles(), IgnoreRules(space)
    for name in names:
        if not matches_glob(name, query.glob):
            continue
        try:
            status = (space.root / name).lstat()
        except OSError:  # gone
            continue
        is_large = status.st_size > _MAX_FILE_BYTES
        is_linked = space.withholds(name, status)
        if (is_large or is_linked) and not ignoring.ignores(name, below=query.below):
            skipped.linked += is_linked
            skipped.too_large += is_large and not is_linked
    return skipped


def _verify_matches(
    space: Workspace, query: Query, lines: Iterable[tuple[str, int]], matches: Matcher
) -> list[Location]:
    """Keeps matches in files that are not ignored: ripgrep lets a glob override ignore files, and knows none above its
    folder."""
    found: dict[str, set[int]] = {}
    for path, number in lines:
        found.setdefault(path, set()).add(number)
    ignoring = IgnoreRules(space)
    wanted = [
        path
        for path in sorted(found)
        if matches_glob(path, query.glob) and not ignoring.ignores(path, below=query.below)
    ]
    read = SkippedFiles()
    return [place for path in wanted for place in _in_file(space, path, matches, read) if place.line in found[path]]


def _in_file(space: Workspace, path: str, matches: Matcher, skipped: SkippedFiles) -> list[Location]:
    try:
        data = space.read(path, max_bytes=_MAX_FILE_BYTES)
    except TooLong:
        skipped.too_large += 1
        return []
    except HardLinked:
        skipped.linked += 1
        return []
    except ToolError:  # gone, or not allowed
        return []
    if is_binary(data):
        return []
    lines = split_lines(data.decode("utf-8", "replace"))
    return [
        Location(path, number, number, line.strip()[:_TEXT_CHARS])
        for number, line in enumerate(lines, 1)
        if matches(line[:_LINE_CHARS].rstrip("\r\n"))
    ]
