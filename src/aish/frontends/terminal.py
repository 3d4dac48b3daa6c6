"""Text for terminals: made safe before it is shown, quiet where it is not the answer."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TextIO

# C0 and C1 controls but tab and newline: what came from a model, a tool or a file must not steer the terminal.
_CONTROLS = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"}
_CONTROLS |= {0x7F: "\u2421"} | dict.fromkeys(range(0x80, 0xA0), "\ufffd")
# Bidirectional overrides make text read other than it is.
_CONTROLS |= dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd")
# Lone surrogates cannot be written at all.
_CONTROLS |= dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
# A carriage return before a newline is only a line end of another system.
_CONTROLS |= {0x0D: ""}


def visible(text: str) -> str:
    """The same text with control characters made visible instead of obeyed."""
    return text if text.isascii() and text.isprintable() else text.translate(_CONTROLS)


def has_person() -> bool:
    """Whether somebody sits there who can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


class Output:
    """Answers go to `out`, everything about them to `err`, dimmed where a person reads it. `live` says whether a line
    of progress may be drawn there; if not given, where there is colour."""

    def __init__(
        self,
        out: TextIO | None = None,
        err: TextIO | None = None,
        *,
        color: bool | None = None,
        live: bool | None = None,
    ) -> None:
        self.out = out or sys.stdout
        self._err = err or sys.stderr
        self._color = self._err.isatty() if color is None else color
        self._live = self._color if live is None else live
        self._column_zero = True

    @property
    def at_line_start(self) -> bool:
        return self._column_zero

    def answer(self, text: str) -> None:
        if text:
            shown = visible(text)
            self.out.write(shown)
            self.out.flush()
            self._column_zero = shown.endswith("\n")

    def shown(self, text: str) -> None:
        """Of an answer, what was made safe before it was given its styles."""
        self.out.write(text)
        self.out.flush()
        self._column_zero = text.endswith("\n")

    def end_line(self) -> None:
        """So that what follows the answer starts on a line of its own."""
        if not self._column_zero:
            self.out.write("\n")
            self.out.flush()
            self._column_zero = True

    def line(self, text: str) -> None:
        """A line as it is, for output that other programs read."""
        self.out.write(text + "\n")
        self.out.flush()

    def note(self, text: str) -> None:
        self.end_line()
        shown = visible(text)
        self._err.write(f"\x1b[2m{shown}\x1b[0m\n" if self._color else f"{shown}\n")
        self._err.flush()

    def aside(self, runs: Iterable[tuple[str, str]]) -> None:
        """A line like a note, in pieces that each have a style: the parameters of an SGR code."""
        self.end_line()
        shown = ((visible(text), style) for text, style in runs)
        line = "".join(f"\x1b[{style}m{text}\x1b[0m" if style and self._color else text for text, style in shown)
        self._err.write(f"{line}\n")
        self._err.flush()

    def clear_screen(self) -> None:
        if self._live:
            self._err.write("\x1b[2J\x1b[H")
            self._err.flush()

    def progress(self, text: str) -> None:
        """A line that replaces the one before it; nothing where nobody watches."""
        if self._live:
            shown = visible(text)
            self._err.write(f"\r\x1b[2K\x1b[2m{shown}\x1b[0m" if self._color else f"\r\x1b[2K{shown}")
            self._err.flush()

    def end_progress(self) -> None:
        if self._live:
            self._err.write("\r\x1b[2K")
            self._err.flush()
