"""The `search` tool: finds lines that contain a text or match an expression, in files that are not ignored. All work is
bounded.

ripgrep opens files by name, and a link may be swapped meanwhile. So its matches are read again through the workspace,
and only confirmed ones are returned.

Files that hold secrets by their names are left out, unless the call asks for them by name: such a call is asked about.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from aish.errors import ProcessError, ToolError
from aish.process.child import ChildProcess, ProcessSpec
from aish.tools.code.backends.port import Location
from aish.tools.code.files.source import is_binary, split_lines
from aish.tools.code.search.walk import IgnoreRules, SkippedFiles, matches_glob, walk_files
from aish.tools.workspace import HardLinked, TooLong, Workspace
from aish.types.globs import plain_glob
from aish.types.tools import ResultStatus

MAX_MATCHES = 5000  # found; fewer are shown
TIMEOUT_S = 20.0
_MAX_FILE_BYTES = 4 * 1024 * 1024
_TEXT_CHARS = 240
_LINE_CHARS = 10_000  # of a line are searched

Matcher = Callable[[str], bool]
IsLeftOut = Callable[[str], bool]


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
    is_left_out = await asyncio.to_thread(_find_left_out, space, query)
    program = find_ripgrep(search_path)
    if program:
        found = await search_lines(program, space.root, query, max_lines=MAX_MATCHES, timeout_s=TIMEOUT_S)
        if found is not None:
            lines, complete = found
            names, are_all = await list_files(program, space.root, query, timeout_s=TIMEOUT_S)
            locations = await asyncio.to_thread(_verify_matches, space, query, lines, matches, is_left_out)
            skipped = await asyncio.to_thread(_count_skipped, space, query, names, is_left_out)
            skipped.stopped = not are_all
            return SearchResult(tuple(locations), complete, "ripgrep", str(skipped))
    stop = threading.Event()
    timer = asyncio.get_running_loop().call_later(TIMEOUT_S, stop.set)
    try:
        return await asyncio.to_thread(_search_walk, space, query, matches, is_left_out, stop)
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


def _find_left_out(space: Workspace, query: Query) -> IsLeftOut:
    """Returns the test for files that the search leaves out. Below the folder no link is followed."""
    folder = str(space.resolve(query.below)) if query.below else ""
    if space.asks_for_secrets(folder, plain_glob(query.glob)):
        return lambda path: False
    if folder == query.below:
        return space.holds_secret
    return lambda path: space.holds_secret(folder + path[len(query.below) :])


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


def _search_walk(
    space: Workspace, query: Query, matches: Matcher, is_left_out: IsLeftOut, stop: threading.Event
) -> SearchResult:
    locations: list[Location] = []
    complete, skipped = True, SkippedFiles()
    for path in walk_files(space, below=query.below, skipped=skipped):
        if stop.is_set() or len(locations) >= MAX_MATCHES:
            complete = False
            break
        if not matches_glob(path, query.glob):
            continue
        if is_left_out(path):
            skipped.secret += 1
        else:
            locations += _in_file(space, path, matches, skipped)
    complete = complete and len(locations) <= MAX_MATCHES and not skipped.stopped
    return SearchResult(tuple(sorted(locations)[:MAX_MATCHES]), complete, "aish", str(skipped))


def _count_skipped(space: Workspace, query: Query, names: Iterable[str], is_left_out: IsLeftOut) -> SkippedFiles:
    """Counts the files listed by ripgrep that it does not search, or that we do not read."""
    skipped, ignoring, root = SkippedFiles(), IgnoreRules(space), str(space.root)
    for name in names:
        if not matches_glob(name, query.glob):
            continue
        if is_left_out(name):
            skipped.secret += not ignoring.ignores(name, below=query.below)
            continue
        try:
            status = os.lstat(f"{root}/{name}")  # a Path for each file would take longer than the call
        except OSError:  # gone
            continue
        is_large = status.st_size > _MAX_FILE_BYTES
        is_linked = space.withholds(name, status)
        if (is_large or is_linked) and not ignoring.ignores(name, below=query.below):
            skipped.linked += is_linked
            skipped.too_large += is_large and not is_linked
    return skipped


def _verify_matches(
    space: Workspace, query: Query, lines: Iterable[tuple[str, int]], matches: Matcher, is_left_out: IsLeftOut
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
        if matches_glob(path, query.glob) and not is_left_out(path) and not ignoring.ignores(path, below=query.below)
    ]
    read = SkippedFiles()
    return [
        location for path in wanted for location in _in_file(space, path, matches, read) if location.line in found[path]
    ]


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


# Ignore files outside the workspace are not used, as in our own walk.
_FILES = (
    "--no-config", "--color=never", "--null", "--hidden", "--no-messages", "--no-require-git", "--no-ignore-parent",
    "--no-ignore-global", "--no-ignore-exclude", "--glob=!.git", "--glob=!.hg", "--glob=!.svn",
)  # fmt: skip
_LINES = ("--no-heading", "--with-filename", "--line-number", "--sort=path", "--max-columns=200", "--max-filesize=4M")
_MAX_BYTES = 8 * 1024 * 1024
# The expression is invalid, or an option is unknown.
_FAILED = 2


def find_ripgrep(search_path: str) -> str:
    folders = os.pathsep.join(part for part in search_path.split(os.pathsep) if part.startswith("/"))
    return (shutil.which("rg", path=folders) or "") if folders else ""


async def search_lines(
    program: str, root: Path, query: Query, *, max_lines: int, timeout_s: float
) -> tuple[list[tuple[str, int]], bool] | None:
    """Returns paths and lines, and whether they are complete; None if ripgrep cannot answer."""
    output, ended = await _output(program, _arguments(query), root, max_lines=max_lines, timeout_s=timeout_s)
    if output is None:
        return None
    found = [line for raw in output.split(b"\n")[:max_lines] if (line := _line(raw)) is not None]
    return found, ended


async def list_files(program: str, root: Path, query: Query, *, timeout_s: float) -> tuple[list[str], bool]:
    """Returns all files that ripgrep would search, of any size, and whether they are complete."""
    words = [*_FILES, *_glob(query), "--files", "--", f"./{query.below}"]
    output, ended = await _output(program, words, root, max_lines=_MAX_BYTES, timeout_s=timeout_s)
    names = (output or b"").split(b"\0")[:-1]
    return [os.fsdecode(name).removeprefix("./") for name in names], ended


async def _output(
    program: str, words: Sequence[str], root: Path, *, max_lines: int, timeout_s: float
) -> tuple[bytes | None, bool]:
    """Returns the output, and whether it is complete; None if ripgrep cannot answer."""
    spec = ProcessSpec((program, *words), name="rg", cwd=root, close_wait_s=0.05, term_wait_s=0.5)
    output, ended = bytearray(), False
    try:
        async with ChildProcess.start(spec) as child:
            child.close_stdin()
            try:
                async with asyncio.timeout(timeout_s):
                    async for piece in child.stdout:
                        output += piece
                        if len(output) > _MAX_BYTES or output.count(b"\n") > max_lines:
                            break
                    else:
                        ended = True
                        if await child.wait() >= _FAILED:
                            return None, False
            except TimeoutError:
                pass
    except ProcessError:
        return None, False
    return bytes(output), ended


def _arguments(query: Query) -> list[str]:
    words = [*_FILES, *_LINES, *_glob(query)]
    if not query.regex:
        words.append("--fixed-strings")
    if query.ignore_case:
        words.append("--ignore-case")
    return [*words, f"--regexp={query.pattern}", "--", f"./{query.below}"]


def _glob(query: Query) -> list[str]:
    glob = plain_glob(query.glob)
    return [f"--glob={glob}"] if glob and not glob.startswith("!") else []  # a leading ! would invert it


def _line(raw: bytes) -> tuple[str, int] | None:
    path, _, rest = raw.partition(b"\0")
    number = rest.partition(b":")[0]
    return (os.fsdecode(path).removeprefix("./"), int(number)) if number.isdigit() else None
