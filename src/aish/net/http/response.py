"""Parses HTTP/1.1 responses from bytes in any pieces. Does no I/O and does not wait.

httptools does the grammar and the framing. Added here: skipping 1xx heads, the end of a body without framing, HEAD
requests (no body), and the bound on everything that is not body.
"""

from __future__ import annotations

import httptools

from aish.errors import BadResponse, TooLarge, WireError
from aish.net.http.message import NO_HEADERS, Headers

_WRONG_PORT = "Is this the right port, and is it http rather than https?"


class _ExtraData(Exception):
    """Stops the parser at the first byte after the response."""


class ResponseParser:
    """Parses the responses of one connection, one after another. Each is fed from `begin` until `complete` or `error`.

    Only `keep_alive` may change after that. If it is false, the connection cannot be used again.
    """

    def __init__(self, origin: str, max_header_bytes: int) -> None:
        self._origin = origin
        self._max_header_bytes = max_header_bytes
        self._parts: list[bytes] = []
        self.on_body = self._parts.append  # called from C
        self._parser = httptools.HttpResponseParser(self)
        self._head_only = False

    def begin(self, *, head_only: bool) -> None:
        if self._head_only:  # the old parser still waits for a body
            self._parser = httptools.HttpResponseParser(self)
        self.status = 0
        self.reason = ""
        self.headers = NO_HEADERS
        self.has_head = False  # status and headers are set
        self.complete = False
        self.keep_alive = False  # complete, and the connection may carry another request
        self.error: WireError | None = None
        self._head_only = head_only
        self._until_close = False
        self._raw_headers: list[tuple[bytes, bytes]] = []
        self._header_bytes = 0
        self._overhead_bytes = 0  # received since the last byte of body: heads, trailers, chunk extensions

    def feed(self, data: bytes) -> bytes:
        """The body bytes in `data`. `complete` and `error` apply after them."""
        if self.complete:
            self.keep_alive = False
            return b""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            self._handle_parser_error(exc)
        parts = self._parts
        if not parts:
            self._count_overhead(len(data))
            return b""
        self._overhead_bytes = 0
        piece = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        if self._head_only:
            self.keep_alive = False
            return b""
        return piece

    def end(self) -> None:
        """The peer closed the connection in an orderly way."""
        if self.has_head and self._until_close:
            self.complete = True
        self.keep_alive = False

    def release(self) -> None:
        """Breaks the reference cycle with the C parser, so that memory is freed with the connection."""
        del self._parser, self.on_body

    def _handle_parser_error(self, exc: Exception) -> None:
        self.keep_alive = False
        if self.complete or self.error is not None:
            return
        if self.has_head:
            self.error = BadResponse(f"{self._origin}: the body breaks the rules of HTTP: {exc}")
        else:
            self.error = BadResponse(f"{self._origin}: the answer is not HTTP: {exc}", hint=_WRONG_PORT)
        self.error.__cause__ = exc

    def _count_overhead(self, count: int) -> None:
        # httptools buffers a header until its end, so an endless one has to be stopped here.
        self._overhead_bytes += count
        if self._overhead_bytes > self._max_header_bytes and not self.complete and self.error is None:
            self.error = self._too_large()

    def _too_large(self) -> TooLarge:
        return TooLarge(f"{self._origin}: the headers are larger than {self._max_header_bytes} bytes")

    # Called by httptools.

    def on_message_begin(self) -> None:
        if self.complete:
            raise _ExtraData
        self._reason = b""

    def on_status(self, text: bytes) -> None:
        self._reason += text

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > self._max_header_bytes:
            self.error = self._too_large()
            raise self.error
        if not self.has_head:
            self._raw_headers.append((name.lower(), value))  # later headers are trailers, which are dropped

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status == 101:
            self.error = BadResponse(f"{self._origin}: switches to another protocol without being asked to")
            raise self.error
        if status < 200:
            self._raw_headers.clear()
            return
        self.status = status
        self.reason = self._reason.decode("latin-1")
        self.headers = Headers(self._raw_headers)
        self.has_head = True
        # Without keep-alive and without framing, the body ends with the connection.
        self._until_close = not (self._parser.should_keep_alive() or _is_framed(self._raw_headers))
        if self._head_only:
            self.on_message_complete()

    def on_message_complete(self) -> None:
        if self.has_head and not self.complete:
            self.complete = True
            self.keep_alive = self._parser.should_keep_alive()


def _is_framed(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether the head defines the end of the body. The last coding decides; httptools refuses contradictions."""
    framed = False
    for name, value in headers:
        if name == b"content-length":
            framed = True
        elif name == b"transfer-encoding":
            framed = value.lower().rpartition(b",")[2].strip() == b"chunked"
    return framed
