"""Writes to the terminal, and shows the progress of downloads. Control characters in texts are shown, not obeyed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from aish.frontends.runtime import Progress

# C0 and C1 controls except tab and newline: text of a model, a tool or a file must not control the terminal.
_CONTROLS = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"}
_CONTROLS |= {0x7F: "\u2421"} | dict.fromkeys(range(0x80, 0xA0), "\ufffd")
# Bidirectional overrides make text look different from what it is.
_CONTROLS |= dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd")
# Terminals show nothing for these, but models read them: tags, and selectors of variants beyond those of emoji.
_CONTROLS |= dict.fromkeys((*range(0x2060, 0x2065), *range(0xE0000, 0xE01F0)), "\ufffd")
# Lone surrogates cannot be written at all.
_CONTROLS |= dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
# A carriage return before a newline is a line end of another system.
_CONTROLS |= {0x0D: ""}
# Parameters of SGR codes for colours, as styles of this program have them.
_COLOR = re.compile(r"^(?:[34][0-7]|9[0-7]|10[0-7])$")
_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_WIDTH = 24
# Terminals take at most 100 000 characters of such a sequence, in base64.
_MAX_COPIED_BYTES = 74_994


def visible(text: str) -> str:
    """The text with control characters replaced by visible symbols."""
    return text if text.isascii() and text.isprintable() else text.translate(_CONTROLS)


def is_interactive() -> bool:
    """Whether there is a user at a terminal who can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def without_colors(text: str) -> str:
    """The text with its SGR codes, of which only bold, dim, italic, underlined and struck are left."""
    return _SGR.sub(lambda code: f"\x1b[{_without_colors(code[1])}m" if _without_colors(code[1]) else "", text)


def _without_colors(style: str) -> str:
    return ";".join(part for part in style.split(";") if not _COLOR.match(part))


class Output:
    """Writes answers to `out`, and everything else to `err`, dimmed on a terminal. `live` says whether progress may be
    drawn there; by default where there are styles. `monochrome`: no style has a colour."""

    def __init__(
        self,
        out: TextIO | None = None,
        err: TextIO | None = None,
        *,
        color: bool | None = None,
        live: bool | None = None,
        monochrome: bool = False,
    ) -> None:
        self.out = out or sys.stdout
        self._given_err = err
        self._err = err or sys.stderr
        self._color = self._err.isatty() if color is None else color
        self._live = self._color if live is None else live
        self._monochrome = monochrome
        self._column_zero = True

    @property
    def at_line_start(self) -> bool:
        return self._column_zero

    @property
    def _notes(self) -> TextIO:
        """Where lines go. While a prompt is drawn, `sys.stderr` is replaced by one that writes above it."""
        return self._given_err or sys.stderr

    def answer(self, text: str) -> None:
        if text:
            shown = visible(text)
            self.out.write(shown)
            self.out.flush()
            self._column_zero = shown.endswith("\n")

    def write_safe(self, text: str) -> None:
        """Writes a part of an answer that is already safe and may contain styles."""
        self.out.write(without_colors(text) if self._monochrome else text)
        self.out.flush()
        self._column_zero = text.endswith("\n")

    def end_line(self) -> None:
        """Ends the line of the answer, so that what follows starts on its own line."""
        if not self._column_zero:
            self.out.write("\n")
            self.out.flush()
            self._column_zero = True

    def line(self, text: str) -> None:
        """Writes a line unchanged, for output that other programs read."""
        self.out.write(text + "\n")
        self.out.flush()

    def note(self, text: str) -> None:
        """Writes a line about the answer, to `err`."""
        self.end_line()
        shown = visible(text)
        self._notes.write(f"\x1b[2m{shown}\x1b[0m\n" if self._color else f"{shown}\n")
        self._notes.flush()

    def styled_note(self, runs: Iterable[tuple[str, str]]) -> None:
        """Writes a note as runs of text, each with a style: the parameters of an SGR code."""
        self.end_line()
        shown = ((visible(text), _without_colors(style) if self._monochrome else style) for text, style in runs)
        line = "".join(f"\x1b[{style}m{text}\x1b[0m" if style and self._color else text for text, style in shown)
        self._notes.write(f"{line}\n")
        self._notes.flush()

    def alarm(self, text: str) -> None:
        """Writes a line that must not be missed: red, or bold on a terminal without colours."""
        self.end_line()
        style = "1;31" if self._color and not self._monochrome else "1" if self._notes.isatty() else ""
        shown = visible(text)
        self._notes.write(f"\x1b[{style}m{shown}\x1b[0m\n" if style else f"{shown}\n")
        self._notes.flush()

    def copy(self, text: str) -> bool:
        """Puts the text on the clipboard, if the terminal does that for programs (OSC 52). Whether it was sent."""
        from base64 import b64encode  # for the first copy

        data = text.encode("utf-8", "replace")
        if not self._live or len(data) > _MAX_COPIED_BYTES:
            return False
        self.control(f"\x1b]52;c;{b64encode(data).decode()}\a")
        return True

    def clear_screen(self) -> None:
        self.control("\x1b[2J\x1b[H")

    def control(self, sequence: str) -> None:
        """Sends a control sequence of aish itself to the terminal, if there is one."""
        if self._live:
            self._err.write(sequence)
            self._err.flush()

    def progress(self, text: str) -> None:
        """Draws a line that replaces the progress line before it. Does nothing without a terminal."""
        if self._live:
            shown = visible(text)
            self._err.write(f"\r\x1b[2K\x1b[2m{shown}\x1b[0m" if self._color else f"\r\x1b[2K{shown}")
            self._err.flush()

    def draw_lines(self, lines: Sequence[str], rows_before: int) -> None:
        """Draws progress lines over the last `rows_before` rows that were drawn so. Each must fit in a row. Nothing is
        erased before it is written over, so nothing flickers."""
        if self._live:
            dim, plain = ("\x1b[2m", "\x1b[0m") if self._color else ("", "")
            body = "\n".join(f"{dim}{visible(line)}{plain}\x1b[K" for line in lines)
            self._err.write(f"{_to_first_row(rows_before)}{body}\x1b[J")
            self._err.flush()

    def erase_lines(self, rows: int) -> None:
        if self._live:
            self._err.write(f"{_to_first_row(rows)}\x1b[J")
            self._err.flush()

    def draw_suffix(self, text: str) -> None:
        """Draws a note behind an unfinished line; the cursor stays at its end."""
        if self._live:
            shown = f"\x1b[2m{text}\x1b[0m" if self._color else text
            self._err.write(f"{shown}\x1b[K\x1b[{len(text)}D")
            self._err.flush()

    def erase_suffix(self) -> None:
        if self._live:
            self._err.write("\x1b[K")
            self._err.flush()

    def end_progress(self) -> None:
        if self._live:
            self._err.write("\r\x1b[2K")
            self._err.flush()


def _to_first_row(rows: int) -> str:
    return f"\r\x1b[{rows - 1}A" if rows > 1 else "\r"


class ProgressLine:
    """The progress of a download: a moving bar on a terminal, elsewhere a line for each phase."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._phase = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.end_progress()

    def show(self, progress: Progress) -> None:
        if progress.phase not in (self._phase, "done"):
            self._phase = progress.phase
            self._output.end_progress()
            self._output.note(f"· {progress.phase}")
        if progress.total:
            share = min(1.0, progress.done / progress.total)
            bar = "█" * int(share * _WIDTH)
            self._output.progress(f"  {bar:<{_WIDTH}} {share:4.0%}  {_size(progress.done)} of {_size(progress.total)}")
        elif progress.done:
            self._output.progress(f"  {_size(progress.done)}")


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB"
