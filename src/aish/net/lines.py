"""Splits a byte stream into lines or server-sent events.

Works on bytes, so characters may be cut between two pieces. Time is linear in the input, and memory is bounded by the
limit plus one feed.
"""

from __future__ import annotations

from typing import NoReturn

import msgspec

from aish.errors import TooLarge

_BOM = b"\xef\xbb\xbf"
_MAX_RETRY_DIGITS = 10  # four months in milliseconds; int() is slow for very long numbers


class LineReader:
    """Lines without their `\\n` or `\\r\\n`."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max_bytes = max_line_bytes
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes. After TooLarge the reader starts again with the next feed."""
        *lines, rest = data.split(b"\n")
        if lines:
            if self._pending:
                lines[0] = bytes(self._pending + lines[0])
                self._pending.clear()
            if b"\r" in data or lines[0].endswith(b"\r"):
                lines = [line.removesuffix(b"\r") for line in lines]
            if max(map(len, lines)) > self._max_bytes:
                self._refuse()
        if rest:
            self._pending += rest
            self._check_pending()
        return lines

    def finish(self) -> list[bytes]:
        """The last line if it was not ended, or no line."""
        lines = [bytes(self._pending).removesuffix(b"\r")] if self._pending else []
        self._pending.clear()
        return lines

    def _check_pending(self) -> None:
        # A carriage return at the very end may be part of the line end.
        if (
            len(self._pending) > self._max_bytes
            and len(self._pending) - self._pending.endswith(b"\r") > self._max_bytes
        ):
            self._refuse()

    def _refuse(self) -> NoReturn:
        self._pending.clear()
        raise TooLarge(f"a line is longer than {self._max_bytes} bytes")


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    """`event` is "message" if the stream names none, `id` the last one given, `retry` in milliseconds."""

    event: str
    data: bytes
    id: str = ""
    retry: int | None = None


class SseReader:
    """Reads server-sent events (WHATWG HTML, 9.2). A last event without its blank line is accepted, too.

    The bound applies to everything between two blank lines, including comments.
    """

    def __init__(self, max_event_bytes: int) -> None:
        self._max_bytes = max_event_bytes
        self._pending = bytearray()  # an incomplete event, with line ends unified to `\n`
        self._skip_lf = False  # the last feed ended in `\r`
        self._at_start = True
        self._last_id = ""

    @property
    def is_between_events(self) -> bool:
        """Whether the next byte begins an event."""
        return not self._pending and not self._skip_lf

    def feed(self, data: bytes) -> list[SseEvent]:
        """The events that `data` completes. After TooLarge the reader starts again with the next feed."""
        if self._skip_lf or b"\r" in data:
            data = self._unify_line_ends(data)
        return self._read_blocks(self._split(data))

    def feed_data(self, data: bytes) -> list[bytes]:
        """The data of the events that `data` completes, for streams whose events have no names. Fast for the usual read
        of complete events of one line each."""
        if (
            not (self._skip_lf or b"\r" in data or self._pending)
            and data.startswith(b"data: ")
            and data.endswith(b"\n\n")
        ):
            values = data[6:-2].split(b"\n\ndata: ")
            if data.count(b"\n") == 2 * len(values) and len(data) <= self._max_bytes:
                self._at_start = False
                return values
        return [event.data for event in self.feed(data)]

    def _read_blocks(self, blocks: list[bytes]) -> list[SseEvent]:
        if not blocks:
            return []
        if self._at_start:
            self._at_start = False
            blocks[0] = blocks[0].removeprefix(_BOM)
        events: list[SseEvent] = []
        for block in blocks:
            if block.startswith(b"data: ") and b"\n" not in block:
                events.append(SseEvent("message", block[6:], self._last_id))
            elif block and (event := self._parse(block)) is not None:
                events.append(event)
        return events

    def finish(self) -> list[SseEvent]:
        """The last event, if the stream ended without its blank line and it has data."""
        self._skip_lf = False
        events = self.feed(b"\n\n") if self._pending else []
        self._pending.clear()
        return events

    def _unify_line_ends(self, data: bytes) -> bytes:
        if self._skip_lf and data:
            self._skip_lf = False
            data = data.removeprefix(b"\n")
        if b"\r" in data:
            self._skip_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _split(self, data: bytes) -> list[bytes]:
        """The blocks that `data` completes; the rest stays pending. A pending line end may be half of a blank line."""
        completed: list[bytes] = []
        pending = self._pending
        if pending and data:
            if pending.endswith(b"\n") and data.startswith(b"\n"):
                completed.append(bytes(pending[:-1]))
                data = data[1:]
                pending.clear()
            elif (end := data.find(b"\n\n")) >= 0:
                completed.append(bytes(pending + data[:end]))
                data = data[end + 2 :]
                pending.clear()
        if pending:
            pending += data
        else:
            *blocks, rest = data.split(b"\n\n")
            completed += blocks
            pending += rest
        self._check_size(completed)
        return completed

    def _check_size(self, completed: list[bytes]) -> None:
        pending = self._pending
        if len(pending) > self._max_bytes and len(pending) - pending.endswith(b"\n") > self._max_bytes:
            self._refuse()
        if completed and max(map(len, completed)) > self._max_bytes:
            self._refuse()

    def _refuse(self) -> NoReturn:
        self._pending.clear()
        raise TooLarge(f"an event is larger than {self._max_bytes} bytes")

    def _parse(self, block: bytes) -> SseEvent | None:
        name = "message"
        data: list[bytes] = []
        retry: int | None = None
        for line in block.split(b"\n"):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                data.append(value)
            elif field == b"event":
                name = value.decode("utf-8", "replace") or "message"
            elif field == b"id" and b"\0" not in value:
                self._last_id = value.decode("utf-8", "replace")
            elif field == b"retry" and value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
                retry = int(value)
        return SseEvent(name, b"\n".join(data), self._last_id, retry) if data else None
