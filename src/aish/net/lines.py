"""Lines and server-sent events out of a byte stream that arrives in any pieces.

Works on bytes, so a character cut in two is nobody's concern here. Time is linear in what is fed, and what is held is
never more than the bound plus one feed.
"""

from __future__ import annotations

from typing import NoReturn

import msgspec

from aish.errors import TooLarge

_BOM = b"\xef\xbb\xbf"
_MAX_RETRY_DIGITS = 10  # four months in milliseconds; int() of a megabyte of digits would take a while


class LineReader:
    """Lines without their `\\n` or `\\r\\n`."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max_bytes = max_line_bytes
        self._held = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes. After TooLarge the reader starts anew at the next feed."""
        *lines, rest = data.split(b"\n")
        if lines:
            if self._held:
                lines[0] = bytes(self._held + lines[0])
                self._held.clear()
            if b"\r" in data or lines[0].endswith(b"\r"):
                lines = [line.removesuffix(b"\r") for line in lines]
            if max(map(len, lines)) > self._max_bytes:
                self._refuse()
        if rest:
            self._held += rest
            self._check_held()
        return lines

    def finish(self) -> list[bytes]:
        """What is left: one line that was not ended, or none."""
        lines = [bytes(self._held).removesuffix(b"\r")] if self._held else []
        self._held.clear()
        return lines

    def _check_held(self) -> None:
        # A carriage return at the very end may belong to the line's end rather than to the line.
        if len(self._held) > self._max_bytes and len(self._held) - self._held.endswith(b"\r") > self._max_bytes:
            self._refuse()

    def _refuse(self) -> NoReturn:
        self._held.clear()
        raise TooLarge(f"a line is longer than {self._max_bytes} bytes")


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    """`event` is "message" where the stream names none, `id` the last one it gave, `retry` in milliseconds."""

    event: str
    data: bytes
    id: str = ""
    retry: int | None = None


class SseReader:
    """Server-sent events (WHATWG HTML, 9.2), where a last event without its blank line counts as well.

    The bound is on everything between two blank lines, comments included.
    """

    def __init__(self, max_event_bytes: int) -> None:
        self._max_bytes = max_event_bytes
        self._held = bytearray()  # an event that has not ended; only `\n` ends lines in it
        self._skip_lf = False  # the last feed ended in `\r`
        self._at_start = True
        self._last_id = ""

    @property
    def is_between(self) -> bool:
        """Whether what comes next begins an event."""
        return not self._held and not self._skip_lf

    def feed(self, data: bytes) -> list[SseEvent]:
        """The events that `data` completes. After TooLarge the reader starts anew at the next feed."""
        if self._skip_lf or b"\r" in data:
            data = self._unify_line_ends(data)
        return self._read_blocks(self._split(data))

    def feed_data(self, data: bytes) -> list[bytes]:
        """Only what they hold, for streams whose events have no names: nearly every read is of whole events of one line
        each, all of the same kind."""
        if not (self._skip_lf or b"\r" in data or self._held) and data.startswith(b"data: ") and data.endswith(b"\n\n"):
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
        """The event that the end of the stream cut off from its blank line, if it has data."""
        self._skip_lf = False
        events = self.feed(b"\n\n") if self._held else []
        self._held.clear()
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
        """The blocks that `data` completes; what follows them is held. A line end held may be half of a blank line."""
        completed: list[bytes] = []
        held = self._held
        if held and data:
            if held.endswith(b"\n") and data.startswith(b"\n"):
                completed.append(bytes(held[:-1]))
                data = data[1:]
                held.clear()
            elif (end := data.find(b"\n\n")) >= 0:
                completed.append(bytes(held + data[:end]))
                data = data[end + 2 :]
                held.clear()
        if held:
            held += data
        else:
            *blocks, rest = data.split(b"\n\n")
            completed += blocks
            held += rest
        self._check(completed)
        return completed

    def _check(self, completed: list[bytes]) -> None:
        held = self._held
        if len(held) > self._max_bytes and len(held) - held.endswith(b"\n") > self._max_bytes:
            self._refuse()
        if completed and max(map(len, completed)) > self._max_bytes:
            self._refuse()

    def _refuse(self) -> NoReturn:
        self._held.clear()
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
