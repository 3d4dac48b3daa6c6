"""`read_file` and `search`: files as they are on disk, in pieces that fit a model."""

from __future__ import annotations

from aish.errors import ToolError
from aish.tools.ide.answer import Answer, Status
from aish.tools.ide.contents import Contents
from aish.tools.ide.rendering import Page, by_file, envelope, joined, numbered
from aish.tools.ide.searching.search import Query, search
from aish.tools.ide.source import MAX_SOURCE_BYTES, Source, decode, is_binary
from aish.tools.workspace import Workspace
from aish.types.tools import Arguments, ResultStatus

_SEARCH_SHOWN = 100


async def read_file(space: Workspace, contents: Contents, arguments: Arguments) -> str:
    path = space.relative(str(arguments["path"]))
    data = await contents.read(path, max_bytes=MAX_SOURCE_BYTES)
    source, answer = _readable(path, data)
    if not source.lines or is_binary(data):
        return envelope(answer, "total=0", revision=source.revision)
    count = len(source.lines)
    start, end = int(arguments.get("start_line", 1)), int(arguments.get("end_line", count))
    if not 1 <= start <= min(count, end):
        text = f"{path} has lines 1 to {count}, not {start} to {end}"
        raise ToolError(text, status=ResultStatus.BAD_ARGUMENTS)
    shown, last = numbered(source, start, min(end, count))
    more = f"truncated=true next_line={last + 1}" if last < min(end, count) else "truncated=false"
    return joined(envelope(answer, f"lines={start}-{last} total={count} {more}", revision=source.revision), shown)


def _readable(path: str, data: bytes) -> tuple[Source, Answer[None]]:
    if is_binary(data):
        note = f"a binary file of {len(data)} bytes, which is not shown"
        return Source(path, data, ""), Answer(None, "aish", Status.UNSUPPORTED, note)
    try:
        source = decode(path, data)
    except ToolError as exc:
        return Source(path, data, data.decode("utf-8", "replace")), Answer(None, "aish", Status.PARTIAL, exc.message)
    return source, Answer(None, "aish", note="" if data else "the file is empty")


async def search_files(space: Workspace, arguments: Arguments, *, search_path: str) -> str:
    query = Query(
        str(arguments["pattern"]),
        regex=bool(arguments.get("regex", False)),
        ignore_case=bool(arguments.get("ignore_case", False)),
        glob=str(arguments.get("glob", "")),
        below=str(arguments.get("path", "")),
    )
    found = await search(space, query, search_path=search_path)
    limit, offset = int(arguments.get("limit", _SEARCH_SHOWN)), int(arguments.get("offset", 0))
    page = Page(len(found.places), offset, limit, complete=found.complete)
    is_all = found.complete and not found.note
    answer = Answer(None, found.by, Status.FRESH if is_all else Status.PARTIAL, found.note)
    return joined(envelope(answer, page), by_file(found.places[page.start : page.end]))
