"""Finds our marks in the terminal's output, however it is split.

A mark is `ESC ] 133 ; LETTER ; aish=NONCE BEL` with the nonce of the running line. Any other such sequence belongs to a
program and is passed on. The echo of what we typed is removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum


class Mark(StrEnum):
    START = "C"
    END = "D"
    WAITING = "P"
    STILL_WAITING = "P of the line before"


class MarkParser:
    def __init__(self) -> None:
        self._patterns: dict[bytes, Mark | None] = {}
        self._longest = 0
        self._pending = b""

    def expect(self, nonce: str, *, before: str = "", echo: bytes = b"") -> None:
        """From now on marks with this nonce count; `echo` is removed once.

        `before` is the nonce of the previous line: a mark with it only says that bash is still waiting.
        """
        self._patterns = {_encode_mark(mark, nonce): mark for mark in (Mark.START, Mark.END, Mark.WAITING)}
        if before:
            self._patterns[_encode_mark(Mark.WAITING, before)] = Mark.STILL_WAITING
        if echo:
            self._patterns[echo] = None
        self._longest = max(map(len, self._patterns), default=0)

    def feed(self, data: bytes) -> Iterator[bytes | Mark]:
        """Yields output and marks in order. Bytes that may begin a mark are kept until more arrive."""
        data = self._pending + data
        self._pending = b""
        while True:
            at, pattern = self._find(data)
            if pattern is None:
                break
            if at:
                yield data[:at]
            mark = self._patterns[pattern]
            if mark is None:
                del self._patterns[pattern]
            data = data[at + len(pattern) :]
            if mark is not None:
                yield mark
        keep = self._pattern_prefix_size(data)
        if keep:
            data, self._pending = data[:-keep], data[-keep:]
        if data:
            yield data

    def flush(self) -> bytes:
        """Returns the buffered bytes when no more will arrive."""
        pending, self._pending = self._pending, b""
        return pending

    def _find(self, data: bytes) -> tuple[int, bytes | None]:
        best, found = len(data), None
        for pattern in self._patterns:
            at = data.find(pattern, 0, best + len(pattern))
            if 0 <= at < best:
                best, found = at, pattern
        return best, found

    def _pattern_prefix_size(self, data: bytes) -> int:
        """Returns how many bytes at the end may begin a pattern."""
        tail = data[-(self._longest - 1) :] if self._longest > 1 else b""
        for first in {pattern[:1] for pattern in self._patterns}:
            at = tail.find(first)
            while at >= 0:
                rest = tail[at:]
                if any(pattern.startswith(rest) for pattern in self._patterns):
                    return len(rest)
                at = tail.find(first, at + 1)
        return 0


def _encode_mark(mark: Mark, nonce: str) -> bytes:
    return f"\x1b]133;{mark};aish={nonce}\x07".encode()
