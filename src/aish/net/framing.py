"""Splits a byte stream into messages, framed by newlines (MCP) or by Content-Length (LSP).

No input makes a reader fail. A message that is too long is discarded while it arrives, except for its two ends, from
which its id may still be read; reading continues with the next message. Time is linear in the input, and memory is
bounded by the limit plus one feed.
"""

from __future__ import annotations

import re
from typing import Protocol

import msgspec

DEFAULT_MAX_BYTES = 8 * 1024 * 1024  # a screenshot in base64 fits; a runaway server cannot fill memory
END_BYTES = 4096  # kept of each end of a discarded message: an id is within the first or last hundred bytes
_MAX_HEADER_BYTES = 8192
_LENGTH = re.compile(rb"^content-length[ \t]*:[ \t]*(\d{1,18})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_HEADERS_END = re.compile(rb"\r?\n\r?\n")


class Oversize(msgspec.Struct, frozen=True):
    """The ends of a message that was too long."""

    head: bytes
    tail: bytes
    size: int


class Framing(Protocol):
    garbage: int  # counts pieces between messages that were no message

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        """The messages that `data` completes."""

    def frame(self, body: bytes) -> bytes:
        """Encodes one message for the wire. `body` is JSON."""


class _DiscardedMessage:
    """A message that is discarded while it arrives."""

    def __init__(self) -> None:
        self._head = b""
        self._tail = b""
        self.size = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        if len(self._head) < END_BYTES:
            self._head += data[: END_BYTES - len(self._head)]
        self._tail = (self._tail + data[-END_BYTES:])[-END_BYTES:]

    def ends(self) -> Oversize:
        return Oversize(self._head, self._tail, self.size)


class NewlineFraming:
    """One message per line. Empty lines are skipped."""

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.garbage = 0
        self._max_bytes = max_bytes
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._discarded: _DiscardedMessage | None = None

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        *lines, rest = data.split(b"\n")
        messages: list[bytes | Oversize] = []
        for line in lines:
            message = self._complete(line)
            if message:
                messages.append(message)
        if rest:
            self._add(rest)
        return messages

    def frame(self, body: bytes) -> bytes:
        # JSON has no raw line end inside strings, so one can only be whitespace between values.
        if b"\n" in body or b"\r" in body:
            body = body.replace(b"\n", b" ").replace(b"\r", b" ")
        return body + b"\n"

    def _complete(self, line: bytes) -> bytes | Oversize:
        if self._pending_bytes or self._discarded is not None:
            self._add(line)
            if self._discarded is not None:
                ends, self._discarded = self._discarded.ends(), None
                return ends
            line = b"".join(self._pending)
            self._pending.clear()
            self._pending_bytes = 0
        elif len(line) > self._max_bytes:
            return Oversize(line[:END_BYTES], line[-END_BYTES:], len(line))
        return line.strip(b"\r \t")

    def _add(self, piece: bytes) -> None:
        if self._discarded is not None:
            self._discarded.add(piece)
            return
        self._pending.append(piece)
        self._pending_bytes += len(piece)
        if self._pending_bytes > self._max_bytes:
            self._discarded = _DiscardedMessage()
            for pending in self._pending:
                self._discarded.add(pending)
            self._pending.clear()
            self._pending_bytes = 0


class ContentLengthFraming:
    """`Content-Length: N`, a blank line, N bytes. Headers without a length are skipped as garbage."""

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.garbage = 0
        self._max_bytes = max_bytes
        self._header = b""
        self._body: list[bytes] = []
        self._missing = 0  # bytes of the body still to come
        self._discarded: _DiscardedMessage | None = None

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        messages: list[bytes | Oversize] = []
        if self._header:
            data, self._header = self._header + data, b""
        at = 0
        while at < len(data):
            at = self._take_body(data, at, messages) if self._missing else self._take_header(data, at)
        return messages

    def frame(self, body: bytes) -> bytes:
        return b"Content-Length: %d\r\n\r\n" % len(body) + body

    def _take_header(self, data: bytes, at: int) -> int:
        """Parses a header. Returns the offset of its end."""
        end = _HEADERS_END.search(data, at)
        if end is None:
            self._header = data[at:]
            if len(self._header) > _MAX_HEADER_BYTES:
                self.garbage += 1
                self._header = self._header[-64:]  # the garbage may end in the beginning of a header
            return len(data)
        lengths = _LENGTH.findall(data[at : end.start()])  # a slice, so that its start matches as a line start
        if not lengths:
            self.garbage += 1
            return end.end()
        self._missing = int(lengths[-1])
        self._discarded = _DiscardedMessage() if self._missing > self._max_bytes else None
        return end.end()

    def _take_body(self, data: bytes, at: int, messages: list[bytes | Oversize]) -> int:
        piece = data[at : at + self._missing]
        self._missing -= len(piece)
        if self._discarded is not None:
            self._discarded.add(piece)
        else:
            self._body.append(piece)
        if not self._missing:
            messages.append(self._discarded.ends() if self._discarded is not None else b"".join(self._body))
            self._body.clear()
            self._discarded = None
        return at + len(piece)
