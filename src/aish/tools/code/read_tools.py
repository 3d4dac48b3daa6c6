"""`read_file` and `search`: files as they are on disk, in parts that fit a model.

A file that is too large to load is scanned block by block. Its lines are counted as in `source`. The scan is bounded in
bytes, so that a file of any size takes a second or two in a thread. Lines beyond that are not found, and the total is
then a lower bound.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import threading
from itertools import islice

import msgspec

from aish.errors import ToolError
from aish.tools.code.backends.port import AnswerStatus, CodeAnswer
from aish.tools.code.contents import Contents
from aish.tools.code.files.source import BOM, MAX_SOURCE_BYTES, SourceText, decode, is_binary
from aish.tools.code.rendering import (
    LINE_CHARS,
    MAX_READ_LINES,
    ResultPage,
    envelope,
    format_line_start,
    group_by_file,
    join_lines,
    number_lines,
)
from aish.tools.code.search.search import Query, search
from aish.tools.workspace import TooLong, Workspace
from aish.types.tools import Arguments, ResultStatus

_LINE_END = re.compile(rb"\r\n|\r|\n")


class Bounds(msgspec.Struct, frozen=True):
    block_bytes: int = 1024 * 1024
    scanned_bytes: int = 1024 * 1024 * 1024
    max_collected_bytes: int = 4 * LINE_CHARS * MAX_READ_LINES  # the most that can be shown, in the widest characters


BOUNDS = Bounds()


class FilePart(msgspec.Struct, frozen=True):
    """Whole lines from `start` on; if `is_cut`, the beginning of one line.

    `total` counts the scanned lines; `counted` says that this was the whole file. `size` is in bytes.
    """

    text: str
    start: int
    total: int
    size: int
    counted: bool = True
    is_cut: bool = False
    is_binary: bool = False
    is_utf8: bool = True


def read_part(
    space: Workspace, path: str, start: int, end: int | None, stop: threading.Event, bounds: Bounds = BOUNDS
) -> FilePart:
    """Reads from line `start` to at least `end`, as far as there is room. A caller that no longer waits sets `stop`.

    Raises ToolError, also if there is no such line.
    """
    scan = _Scan(start, end, bounds.max_collected_bytes)
    with space.reading(path) as fd:
        size = os.fstat(fd).st_size
        left = bounds.scanned_bytes
        while left > 0 and not stop.is_set():
            block = os.read(fd, min(bounds.block_bytes, left))
            if not block:
                scan.finish()
                break
            if left == bounds.scanned_bytes and is_binary(block):
                return FilePart("", start, 0, size, is_binary=True)
            left -= len(block)
            scan.feed(block)
    if not scan.has_begun:
        raise _out_of_range(path, scan, start, end)
    text, is_cut, is_utf8 = _decode(scan, start)
    return FilePart(text, start, scan.lines, size, scan.is_over, is_cut, is_utf8=is_utf8)


class _Scan:
    """The state of a scan. A `\\r` at the end of a block is kept until the next block shows whether `\\n` follows."""

    def __init__(self, start: int, end: int | None, room: int) -> None:
        self._start, self._end, self._room = start, end, room
        self._pending = b""
        self._collected: list[bytes] = []
        self._ends = 0
        self._has_rest = False  # text follows the last line end
        self.has_everything = False  # everything from the first wanted line to the current offset
        self.is_over = False

    @property
    def lines(self) -> int:
        return self._ends + self._has_rest

    @property
    def has_begun(self) -> bool:
        return self.lines >= self._start

    @property
    def collected(self) -> bytes:
        return b"".join(self._collected)

    def feed(self, block: bytes) -> None:
        data = self._pending + block
        self._pending = b"\r" if data.endswith(b"\r") else b""
        self._scan(data[: len(data) - len(self._pending)])

    def finish(self) -> None:
        self._scan(self._pending)
        self.is_over = True

    def _scan(self, data: bytes) -> None:
        if not data:
            return
        before = self._ends
        self._ends += _count_ends(data)
        self._has_rest = not data.endswith((b"\n", b"\r"))
        if self.has_begun:
            self._collect(data, before)

    def _collect(self, data: bytes, before: int) -> None:
        at = _offset_after(data, self._start - 1 - before)
        is_wanted = self._end is None or before < self._end
        taken = data[at : at + self._room] if is_wanted else b""
        self.has_everything = at + len(taken) == len(data)
        self._room -= len(taken)
        self._collected.append(taken)


def _count_ends(data: bytes) -> int:
    ends = data.count(b"\n")
    return ends + data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else ends


def _offset_after(data: bytes, number: int) -> int:
    """Returns the offset after that many line ends."""
    if number <= 0:
        return 0
    return next(islice(_LINE_END.finditer(data), number - 1, None)).end()


def _decode(scan: _Scan, start: int) -> tuple[str, bool, bool]:
    """Returns the text, whether it is less than one line, and whether it is UTF-8. The last line of a file needs no
    line end."""
    data, is_cut = scan.collected, False
    if not (scan.is_over and scan.has_everything):
        whole = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        is_cut = not whole
        data = data[:whole] if whole else data
    data = data.removeprefix(BOM) if start == 1 else data
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=not is_cut), is_cut, True
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), is_cut, False


def _out_of_range(path: str, scan: _Scan, start: int, end: int | None) -> ToolError:
    if scan.is_over:
        text = f"{path} has lines 1 to {scan.lines}, not {start} to {end or scan.lines}"
    else:
        text = f"line {start} of {path} is too far on: its first {scan.lines} lines are all that is looked through here"
    return ToolError(text, status=ResultStatus.BAD_ARGUMENTS)


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
