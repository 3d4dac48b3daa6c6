"""Text for terminals: made safe before it is shown, quiet where it is not the answer."""

from __future__ import annotations

import sys
from typing import TextIO

# C0 and C1 controls but tab and newline: what came from a model, a tool or a file must not steer the terminal.
_CONTROLS = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"}
_CONTROLS |= {0x7F: "\u2421"} | dict.fromkeys(range(0x80, 0xA0), "\ufffd")
# Bidirectional overrides make text read other than it is.
_CONTROLS |= dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd")
# A carriage return before a newline is only a line end of another system.
_CONTROLS |= {0x0D: ""}


def visible(text: str) -> str:
    """The same text with control characters made visible instead of obeyed."""
    return text if text.isascii() and text.isprintable() else text.translate(_CONTROLS)


class Output:
    """Answers go to `out`, everything about them to `err`, dimmed where a person reads it."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None, *, color: bool | None = None) -> None:
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._color = self._err.isatty() if color is None else color
        self._column_zero = True

    def answer(self, text: str) -> None:
        if text:
            shown = visible(text)
            self._out.write(shown)
            self._out.flush()
            self._column_zero = shown.endswith("\n")

    def end_line(self) -> None:
        """So that what follows the answer starts on a line of its own."""
        if not self._column_zero:
            self._out.write("\n")
            self._out.flush()
            self._column_zero = True

    def line(self, text: str) -> None:
        """A line as it is, for output that other programs read."""
        self._out.write(text + "\n")
        self._out.flush()

    def note(self, text: str) -> None:
        self.end_line()
        shown = visible(text)
        self._err.write(f"\x1b[2m{shown}\x1b[0m\n" if self._color else f"{shown}\n")
        self._err.flush()

    def progress(self, text: str) -> None:
        """A line that replaces the one before it; nothing where nobody watches."""
        if self._color:
            self._err.write(f"\r\x1b[2K\x1b[2m{visible(text)}\x1b[0m")
            self._err.flush()

    def end_progress(self) -> None:
        if self._color:
            self._err.write("\r\x1b[2K")
            self._err.flush()
