"""Emphasis, code, links and escapes inside a block, while its text arrives.

A mark takes effect only if its closing mark follows; otherwise it is text: `*args` keeps its star. Text after an open
mark is therefore held back, but for at most `REACH` characters or to the end of the block. The result depends on the
text alone, never on how it was cut into pieces.
"""

from __future__ import annotations

import re
from typing import Protocol

from aish.frontends.shell.render.styles import BOLD, CODE, DIM, ITALIC, PLAIN, STRIKE, UNDERLINE, Style, join_styles

# Longer emphasis is shown with its marks, rather than held back for seconds.
REACH = 400
_MAX_DEPTH = 6
_SPECIAL = re.compile(r"[\\`*_~\[!\n]")
_TICKS = re.compile(r"`+")
_RUN = re.compile(r"`+|\*+|_+|~+")
_ESCAPABLE = frozenset("\\`*_{}#+-.!|<>~\n")  # not brackets: \( and \[ begin formulas, which stay readable
_MARKS = {mark: re.compile(rf"\\.|`+|{re.escape(mark)}+", re.DOTALL) for mark in "*_~"}
_EMPHASIS = {("*", 1): ITALIC, ("*", 2): BOLD, ("*", 3): f"{BOLD};{ITALIC}", ("~", 2): STRIKE}
_EMPHASIS |= {("_", count): _EMPHASIS["*", count] for count in (1, 2, 3)}
_LABEL = re.compile(r"\[((?:[^\[\]\\\n]|\\.|\[[^\[\]\n]*\])*)\]")
_TARGET = re.compile(r'\(((?:[^()\s]|\([^()\s]*\))*(?: +"[^"\n]*")?)\)')

_HOLD = -1


class TextTarget(Protocol):
    """Receives the text without marks, each piece with its style."""

    def text(self, text: str, style: Style = PLAIN) -> None: ...

    def newline(self) -> None: ...


class Inline:
    def __init__(self, target: TextTarget, style: Style = PLAIN, *, depth: int = 0) -> None:
        self._target = target
        self._style = style
        self._depth = depth
        self._pending = ""
        self._before = ""  # the character before the pending text
        self._passed = 0  # characters before the pending text
        self._unclosed_until: dict[tuple[str, int], int] = {}  # by mark: up to here no closing mark was found

    def feed(self, text: str) -> None:
        self._pending += text
        self._process(final=False)

    def finish(self, style: Style = PLAIN) -> None:
        """Ends the block: open marks become text. The next block has this style."""
        self._process(final=True)
        self._style, self._before = style, ""
        self._unclosed_until.clear()

    def _process(self, *, final: bool) -> None:
        text, at = self._pending, 0
        while at < len(text):
            found = _SPECIAL.search(text, at)
            stop = found.start() if found else len(text)
            if stop > at:
                self._target.text(text[at:stop], self._style)
            after = self._special(text, stop, final=final) if found else stop
            if after == _HOLD:
                at = stop
                break
            at = after
        if at:
            self._before, self._pending = text[at - 1], text[at:]
            self._passed += at

    def _special(self, text: str, at: int, *, final: bool) -> int:
        """Handles the special character at `at` and those that belong to it. Returns the offset after them, or
        _HOLD."""
        match text[at]:
            case "\n":
                self._target.newline()
                return at + 1
            case "\\":
                return self._escape(text, at, final=final)
            case "`":
                return self._code(text, at, final=final)
            case "[" | "!":
                return self._link(text, at, final=final)
            case _:
                return self._emphasis(text, at, final=final)

    def _literal(self, text: str) -> None:
        self._target.text(text, self._style)

    def _escape(self, text: str, at: int, *, final: bool) -> int:
        if at + 1 == len(text):
            if not final:
                return _HOLD
            self._literal("\\")
            return at + 1
        following = text[at + 1]
        if following not in _ESCAPABLE:
            self._literal("\\")
            return at + 1
        if following == "\n":
            self._target.newline()
        else:
            self._literal(following)
        return at + 2

    def _code(self, text: str, at: int, *, final: bool) -> int:
        end = _run_end(text, at)
        if end == len(text) and not final and end < at + REACH:
            return _HOLD
        for closing in _TICKS.finditer(text, end, at + REACH):
            if closing.end() == len(text) and not final:
                return _HOLD
            if closing.end() - closing.start() == end - at:
                self._show_code(text[end : closing.start()])
                return closing.end()
        if not final and len(text) <= at + REACH:
            return _HOLD
        self._literal(text[at:end])
        return end

    def _show_code(self, code: str) -> None:
        code = code.replace("\n", " ")
        if code.startswith(" ") and code.endswith(" ") and code.strip():
            code = code[1:-1]
        self._target.text(code, join_styles(self._style, CODE))

    def _link(self, text: str, at: int, *, final: bool) -> int:
        image = text[at] == "!"
        start = at + image
        if image and (start == len(text) or text[start] != "["):
            if start == len(text) and not final:
                return _HOLD
            self._literal("!")
            return start
        label = _LABEL.match(text, start, at + REACH)
        target = _TARGET.match(text, label.end(), at + REACH) if label else None
        if label and target:
            self._show_link(label.group(1), target.group(1))
            return target.end()
        if not final and len(text) <= at + REACH and _may_become_link(text, start, label):
            return _HOLD
        self._literal(text[at : start + 1])
        return start + 1

    def _show_link(self, label: str, address: str) -> None:
        self._inside(label, join_styles(self._style, UNDERLINE))
        if address and address != label:
            self._target.text(f" ({address})" if label else address, join_styles(self._style, DIM))

    def _emphasis(self, text: str, at: int, *, final: bool) -> int:
        end = _run_end(text, at)
        if end == len(text) and not final and end < at + REACH:
            return _HOLD
        style = _EMPHASIS.get((text[at], end - at))
        if style is None or self._depth == _MAX_DEPTH or not self._opens(text, at, end):
            self._literal(text[at:end])
            return end
        closing = self._find_closing(text, at, end, final=final)
        if closing == _HOLD:
            return _HOLD
        if not closing:
            self._literal(text[at:end])
            return end
        self._inside(text[end : closing - (end - at)], join_styles(self._style, style))
        return closing

    def _opens(self, text: str, at: int, end: int) -> bool:
        before = text[at - 1] if at else self._before
        return end < len(text) and not text[end].isspace() and not (text[at] == "_" and before.isalnum())

    def _find_closing(self, text: str, at: int, end: int, *, final: bool) -> int:
        """The end of the mark that closes this one; 0 if there is none, _HOLD if that is not known yet."""
        mark, count = text[at], end - at
        reach = at + REACH
        start = max(end, self._unclosed_until.get((mark, count), 0) - self._passed)
        position = start
        while found := _MARKS[mark].search(text, position, reach):
            if found.end() == len(text) and not final:
                return _HOLD
            position = found.end()
            if text[found.start()] == "`":
                ending = _code_end(text, found.start(), found.end(), reach)
                if not final and len(text) <= reach and ending in (0, len(text)):
                    return _HOLD
                position = ending or position
            elif text[found.start()] == mark and _closes(text, found.start(), position, count):
                return position
        if not final and len(text) <= reach:
            return _HOLD
        self._unclosed_until[mark, count] = self._passed + min(reach, len(text))
        return 0

    def _inside(self, text: str, style: Style) -> None:
        inner = Inline(self._target, style, depth=self._depth + 1)
        inner._pending = text
        inner._process(final=True)


def _run_end(text: str, at: int) -> int:
    """The end of a run of the same mark. A very long run is cut, and is text."""
    run = _RUN.match(text, at, at + REACH)
    return run.end() if run else at + 1


def _closes(text: str, start: int, end: int, count: int) -> bool:
    run = end - start
    if text[start - 1].isspace() or not (run == count or (run == 3 and count < 3)):
        return False
    return not (text[start] == "_" and end < len(text) and text[end].isalnum())


def _code_end(text: str, start: int, end: int, reach: int) -> int:
    """The end of the code that begins with these backticks; 0 if they are not closed."""
    for closing in _TICKS.finditer(text, end, reach):
        if closing.end() - closing.start() == end - start:
            return closing.end()
    return 0


def _may_become_link(text: str, start: int, label: re.Match[str] | None) -> bool:
    if "\n" in text[start:]:
        return False
    return label is None or label.end() == len(text) or text[label.end()] == "("
