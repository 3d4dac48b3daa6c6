"""Watches what a program does to the terminal: does it use the whole screen, and which modes does it leave behind?"""

from __future__ import annotations

import re

_PRIVATE_MODE = re.compile(rb"\x1b\[\?([0-9;]{1,32})([hl])")
_UNFINISHED = re.compile(rb"\x1b(?:\[(?:\?[0-9;]{0,32})?)?\Z")
_ALTERNATE = frozenset({47, 1047, 1049})
_CURSOR = 25
# What makes a prompt unusable if it stays: keypad and cursor keys, mouse reports, focus reports, pastes in brackets,
# output held back. The cursor is the one that has to be on.
_WATCHED = _ALTERNATE | {1, 9, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 2004, 2026}


class ScreenWatch:
    def __init__(self) -> None:
        self._on: set[int] = set()
        self._cursor_hidden = False
        self._held = b""
        self.used_full_screen = False

    @property
    def in_full_screen(self) -> bool:
        return bool(self._on & _ALTERNATE)

    def feed(self, data: bytes) -> bytes:
        """The part of it that did not go to the alternate screen."""
        if not self._held and b"\x1b" not in data:
            return b"" if self.in_full_screen else data
        data = self._held + data
        unfinished = _UNFINISHED.search(data)
        self._held = data[unfinished.start() :] if unfinished else b""
        data = data[: len(data) - len(self._held)]
        kept, start = [], 0
        for match in _PRIVATE_MODE.finditer(data):
            if not self.in_full_screen:
                kept.append(data[start : match.start()])
            start = match.end()
            self._set(match[1], on=match[2] == b"h")
        if not self.in_full_screen:
            kept.append(data[start:])
        return b"".join(kept)

    def _set(self, numbers: bytes, *, on: bool) -> None:
        for number in (int(each) for each in numbers.split(b";") if each):
            if number == _CURSOR:
                self._cursor_hidden = not on
            elif number in _WATCHED:
                (self._on.add if on else self._on.discard)(number)
        self.used_full_screen = self.used_full_screen or self.in_full_screen

    def undo(self) -> bytes:
        """What to send so that the terminal is as before."""
        modes = b"".join(b"\x1b[?%dl" % number for number in sorted(self._on, reverse=True))
        modes += b"\x1b[?25h" if self._cursor_hidden else b""
        self._on.clear()
        self._cursor_hidden = False
        return modes + (b"\x1b>\x1b[0m" if modes else b"")
