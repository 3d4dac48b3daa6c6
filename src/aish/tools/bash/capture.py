"""Captures a command's output for a model, in bounded memory.

Escape sequences are removed, of a line that redraws itself after `\\r` only the last state is kept, full-screen output
is left out, and of long output the beginning and the end are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from aish.tools.builtin.shell import HEAD_BYTES, TAIL_BYTES, BoundedOutput
from aish.types.live_shell import RunEnd, RunResult

_PRIVATE_MODE = re.compile(rb"\x1b\[\?([0-9;]{1,32})([hl])")
_UNFINISHED = re.compile(rb"\x1b(?:\[(?:\?[0-9;]{0,32})?)?\Z")
_ALTERNATE = frozenset({47, 1047, 1049})
_CURSOR = 25
# Modes that make a prompt unusable: keypad and cursor keys, mouse and focus reports, bracketed paste, synchronized
# output. The cursor must be on.
_WATCHED = _ALTERNATE | {1, 9, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 2004, 2026}


class ScreenWatch:
    def __init__(self) -> None:
        self._on: set[int] = set()
        self._cursor_hidden = False
        self._pending = b""
        self.used_full_screen = False

    @property
    def in_full_screen(self) -> bool:
        return bool(self._on & _ALTERNATE)

    def feed(self, data: bytes) -> bytes:
        """Returns the part that was not written to the alternate screen."""
        if not self._pending and b"\x1b" not in data:
            return b"" if self.in_full_screen else data
        data = self._pending + data
        unfinished = _UNFINISHED.search(data)
        self._pending = data[unfinished.start() :] if unfinished else b""
        data = data[: len(data) - len(self._pending)]
        shown, start = [], 0
        for match in _PRIVATE_MODE.finditer(data):
            if not self.in_full_screen:
                shown.append(data[start : match.start()])
            start = match.end()
            self._set_modes(match[1], on=match[2] == b"h")
        if not self.in_full_screen:
            shown.append(data[start:])
        return b"".join(shown)

    def _set_modes(self, numbers: bytes, *, on: bool) -> None:
        for number in (int(each) for each in numbers.split(b";") if each):
            if number == _CURSOR:
                self._cursor_hidden = not on
            elif number in _WATCHED:
                (self._on.add if on else self._on.discard)(number)
        self.used_full_screen = self.used_full_screen or self.in_full_screen

    def restore_sequence(self) -> bytes:
        """Returns what to send to restore the terminal."""
        modes = b"".join(b"\x1b[?%dl" % number for number in sorted(self._on, reverse=True))
        modes += b"\x1b[?25h" if self._cursor_hidden else b""
        self._on.clear()
        self._cursor_hidden = False
        return modes + (b"\x1b>\x1b[0m" if modes else b"")


_ESCAPES = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    rb"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # OSC, DCS, and strings
    rb"|\x1b[ -/]*[0-~]"
    rb"|[\x01-\x07\x0e-\x1a\x7f]"
)
_CONTROLS = re.compile(rb"[\x01-\x07\x0e-\x1b\x7f]")
_OVERWRITTEN = re.compile(rb"(?m)^[^\n]*\r(?=[^\n\r])")
_BACKSPACED = re.compile(rb"[^\n\x08]\x08")
_BACKSPACES = 16  # in a row; a spinner needs a few, and each costs another pass
_LINE_ENDS = re.compile(rb"\r+\n")
_SNIFF_BYTES = 4096
_TITLE_CHARS = 60
# Longer lines are passed on in parts. No program prints such a line as one.
_LINE_MAX_BYTES = 64 * 1024


class OutputCapture:
    """`on_text` gets the cleaned text early: whole lines, and the rest at the end."""

    def __init__(self, on_text: Callable[[str], None] | None = None) -> None:
        self.screen = ScreenWatch()
        self.total_bytes = 0
        self.binary = False
        self._on_text = on_text
        self._capture = BoundedOutput(HEAD_BYTES, TAIL_BYTES)
        self._clean_bytes = 0
        self._line = b""

    def add(self, data: bytes) -> None:
        if self.total_bytes < _SNIFF_BYTES and b"\0" in data[: _SNIFF_BYTES - self.total_bytes]:
            self.binary = True
        self.total_bytes += len(data)
        shown = self.screen.feed(data)
        if not shown:
            return
        whole, newline, rest = shown.rpartition(b"\n")
        if newline:
            self._add_clean(_clean(self._line + whole + newline))
            self._line = rest
        else:
            self._line += rest
        if len(self._line) > _LINE_MAX_BYTES:
            self._line = self._shorten(self._line)

    def _shorten(self, line: bytes) -> bytes:
        _, redraw, last = line.rpartition(b"\r")
        if redraw and last:
            return last
        self._add_clean(_clean(line))
        return b""

    def _add_clean(self, text: bytes) -> None:
        self._clean_bytes += len(text)
        self._capture.add(text)
        if self._on_text is not None and text and not self.binary:
            self._on_text(text.decode("utf-8", "replace"))

    def finish(self) -> None:
        line, self._line = self._line, b""
        if line:
            self._add_clean(_clean(line))

    @property
    def left_out_bytes(self) -> int:
        return max(0, self._clean_bytes - HEAD_BYTES - TAIL_BYTES)

    def result(
        self, line: str, status: int, cwd: str, duration_s: float, end: RunEnd, *, jobs: int = 0, typed_ahead: str = ""
    ) -> RunResult:
        """Call `finish` first."""
        return RunResult(
            line=line,
            status=status,
            cwd=cwd,
            duration_s=duration_s,
            output=self.text(line, status),
            end=end,
            total_bytes=self.total_bytes,
            left_out_bytes=self.left_out_bytes,
            full_screen=self.screen.used_full_screen,
            binary=self.binary,
            jobs=jobs,
            typed_ahead=typed_ahead,
        )

    def text(self, line: str, status: int) -> str:
        """Call `finish` first."""
        if self.binary:
            return f"[aish] {self.total_bytes} bytes of binary output"
        text = self._capture.text()
        if not self.screen.used_full_screen:
            return text
        ran = f"ran {_title_of(line)}, exit {status}"
        return f"{text.rstrip()}\n{ran}" if text.strip() else ran


def _clean(data: bytes) -> bytes:
    if _CONTROLS.search(data):
        data = _ESCAPES.sub(b"", data)
    data = data.replace(b"\r\n", b"\n")
    if b"\r" in data:
        data = _LINE_ENDS.sub(b"\n", data)  # some programs send \r\r\n
        data = _OVERWRITTEN.sub(b"", data).replace(b"\r", b"")
    for _ in range(_BACKSPACES):
        if b"\x08" not in data:
            break
        data = _BACKSPACED.sub(b"", data)
    return data.translate(None, b"\0\x08")


def _title_of(line: str) -> str:
    """Returns the beginning of a line, as a title for full-screen output."""
    first, *more = line.strip().splitlines() or [""]
    cut = first[:_TITLE_CHARS]
    return cut + ("…" if more or cut != first else "")
