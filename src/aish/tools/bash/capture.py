"""A command's output as a model should read it, in bounded memory whatever the program prints.

Escape sequences are taken out, a line that redraws itself after `\\r` is what it showed last, what went to the full
screen is left out, and of all that the first and the last is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from aish.tools.bash.screen import ScreenWatch
from aish.tools.builtin.shell import HEAD_BYTES, TAIL_BYTES, Capture

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
# A line longer than this is passed on in parts; far past what anybody writes as one.
_LINE_MAX_BYTES = 64 * 1024


class OutputCapture:
    """`on_text` hears the cleaned text as it becomes known: whole lines, and the rest at the end."""

    def __init__(self, on_text: Callable[[str], None] | None = None) -> None:
        self.screen = ScreenWatch()
        self.total_bytes = 0
        self.binary = False
        self._on_text = on_text
        self._kept = Capture(HEAD_BYTES, TAIL_BYTES)
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
            self._keep(_clean(self._line + whole + newline))
            self._line = rest
        else:
            self._line += rest
        if len(self._line) > _LINE_MAX_BYTES:
            self._line = self._shorten(self._line)

    def _shorten(self, line: bytes) -> bytes:
        _, redraw, last = line.rpartition(b"\r")
        if redraw and last:
            return last
        self._keep(_clean(line))
        return b""

    def _keep(self, text: bytes) -> None:
        self._clean_bytes += len(text)
        self._kept.add(text)
        if self._on_text is not None and text and not self.binary:
            self._on_text(text.decode("utf-8", "replace"))

    def finish(self) -> None:
        line, self._line = self._line, b""
        if line:
            self._keep(_clean(line))

    @property
    def left_out_bytes(self) -> int:
        return max(0, self._clean_bytes - HEAD_BYTES - TAIL_BYTES)

    def text(self, title: str, status: int) -> str:
        """After `finish`."""
        if self.binary:
            return f"[aish] {self.total_bytes} bytes of binary output"
        text = self._kept.text()
        if not self.screen.used_full_screen:
            return text
        ran = f"ran {title}, exit {status}"
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
