"""Finds our marks in what comes from the terminal, wherever the pieces are cut. Knows nothing of what they mean.

A mark is `ESC ] 133 ; LETTER ; aish=NONCE BEL`, and only with the nonce of the line that runs: whatever else looks like
one belongs to a program, and is passed on. So is what we typed ourselves, which the terminal echoes: it is left out.
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
        self._held = b""

    def expect(self, nonce: str, *, before: str = "", echo: bytes = b"") -> None:
        """From now on, marks with this nonce count; `echo` is left out the first time it comes.

        `before` is the nonce of the line before: all that can be said with it is that bash has not moved on.
        """
        self._patterns = {_spelled(mark, nonce): mark for mark in (Mark.START, Mark.END, Mark.WAITING)}
        if before:
            self._patterns[_spelled(Mark.WAITING, before)] = Mark.STILL_WAITING
        if echo:
            self._patterns[echo] = None
        self._longest = max(map(len, self._patterns), default=0)

    def feed(self, data: bytes) -> Iterator[bytes | Mark]:
        """Pieces of output and marks, in order. What may be the start of a mark is held until more comes."""
        data = self._held + data
        self._held = b""
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
        keep = self._beginning(data)
        if keep:
            data, self._held = data[:-keep], data[-keep:]
        if data:
            yield data

    def flush(self) -> bytes:
        """What was held, when nothing more will come."""
        held, self._held = self._held, b""
        return held

    def _find(self, data: bytes) -> tuple[int, bytes | None]:
        best, found = len(data), None
        for pattern in self._patterns:
            at = data.find(pattern, 0, best + len(pattern))
            if 0 <= at < best:
                best, found = at, pattern
        return best, found

    def _beginning(self, data: bytes) -> int:
        """How many bytes at the end could be the beginning of a pattern."""
        tail = data[-(self._longest - 1) :] if self._longest > 1 else b""
        for first in {pattern[:1] for pattern in self._patterns}:
            at = tail.find(first)
            while at >= 0:
                rest = tail[at:]
                if any(pattern.startswith(rest) for pattern in self._patterns):
                    return len(rest)
                at = tail.find(first, at + 1)
        return 0


def _spelled(mark: Mark, nonce: str) -> bytes:
    return f"\x1b]133;{mark};aish={nonce}\x07".encode()
