"""`read_file` and `search`: files as they are on disk, in parts that fit a model."""

from __future__ import annotations

import asyncio
import threading

from aish.errors import ToolError
from aish.tools.code.answer import AnswerStatus, CodeAnswer
from aish.tools.code.contents import Contents
from aish.tools.code.files.large_files import FilePart, read_part
from aish.tools.code.files.source import MAX_SOURCE_BYTES, SourceText, decode, is_binary
from aish.tools.code.rendering import ResultPage, envelope, format_line_start, group_by_file, join_lines, number_lines
from aish.tools.code.search.search import Query, search
from aish.tools.workspace import TooLong, Workspace
from aish.types.tools import Arguments, ResultStatus

_SEARCH_SHOWN = 100


async def read_file(space: Workspace, contents: Contents, arguments: Arguments) -> str:
    path = space.relative(str(arguments["path"]))
    try:
        data = await contents.read(path, max_bytes=MAX_SOURCE_BYTES)
    except TooLong as exc:
        return await _read_large(space, path, arguments, exc)
    source, answer = _decode_leniently(path, data)
    if not source.lines or is_binary(data):
        return envelope(answer, "total=0", revision=source.revision)
    count = len(source.lines)
    start, end = int(arguments.get("start_line", 1)), int(arguments.get("end_line", count))
    if not 1 <= start <= min(count, end):
        text = f"{path} has lines 1 to {count}, not {start} to {end}"
        raise ToolError(text, status=ResultStatus.BAD_ARGUMENTS)
    shown, last = number_lines(source, start, min(end, count))
    more = f"truncated=true next_line={last + 1}" if last < min(end, count) else "truncated=false"
    return join_lines(envelope(answer, f"lines={start}-{last} total={count} {more}", revision=source.revision), shown)


async def _read_large(space: Workspace, path: str, arguments: Arguments, too_long: TooLong) -> str:
    """Shows some lines of a large file. There is no revision, because such a file cannot be edited."""
    start, end = int(arguments.get("start_line", 1)), arguments.get("end_line")
    if "start_line" not in arguments and end is None:
        text = f"{too_long.message}; give start_line and end_line to read some of its lines"
        raise ToolError(text, status=too_long.status)
    if end is not None and int(end) < start:
        raise ToolError(f"there are no lines {start} to {end}", status=ResultStatus.BAD_ARGUMENTS)
    stop = threading.Event()
    try:
        part = await asyncio.to_thread(read_part, space, path, start, end, stop)
    finally:
        stop.set()
    return _format_part(path, part, end)


def _format_part(path: str, part: FilePart, end: int | None) -> str:
    if part.is_binary:
        return envelope(CodeAnswer(None, "aish", AnswerStatus.UNSUPPORTED, _binary_note(part.size)), "total=0")
    source = SourceText(path, b"", part.text)
    last_read = part.start + len(source.lines) - 1
    wanted = min(end or part.total, part.total) if part.counted else end
    if part.is_cut:
        shown, last = format_line_start(part.start, part.text), part.start
    else:
        shown, last = number_lines(source, part.start, min(last_read, wanted or last_read), first=part.start)
    more = "truncated=true" if wanted is None or last < wanted else "truncated=false"
    if more == "truncated=true" and (part.counted or last < part.total):  # lines that were not scanned cannot be read
        more += f" next_line={last + 1}"
    total = f"total={part.total}" if part.counted else f"total={part.total}+"
    note = f"some lines of {part.size} bytes, which are too many to be edited here: there is no revision"
    if not part.counted:
        note += f"; it has more than {part.total} lines, the rest was not counted"
    if not part.is_utf8:
        note += "; it is not UTF-8, and shown with replacement marks"
    answer = CodeAnswer(None, "aish", AnswerStatus.FRESH if part.is_utf8 else AnswerStatus.PARTIAL, note)
    return join_lines(envelope(answer, f"lines={part.start}-{last} {total} {more}"), shown)


def _binary_note(size: int) -> str:
    return f"a binary file of {size} bytes, which is not shown"


def _decode_leniently(path: str, data: bytes) -> tuple[SourceText, CodeAnswer[None]]:
    if is_binary(data):
        return SourceText(path, data, ""), CodeAnswer(None, "aish", AnswerStatus.UNSUPPORTED, _binary_note(len(data)))
    try:
        source = decode(path, data)
    except ToolError as exc:
        return SourceText(path, data, data.decode("utf-8", "replace")), CodeAnswer(
            None, "aish", AnswerStatus.PARTIAL, exc.message
        )
    return source, CodeAnswer(None, "aish", note="" if data else "the file is empty")


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
    page = ResultPage(len(found.locations), offset, limit, complete=found.complete)
    is_all = found.complete and not found.note
    answer = CodeAnswer(None, found.by, AnswerStatus.FRESH if is_all else AnswerStatus.PARTIAL, found.note)
    return join_lines(envelope(answer, page), group_by_file(found.locations[page.start : page.end]))
