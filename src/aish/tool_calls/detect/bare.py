"""Calls that are written as bare JSON, `{"name": …, "arguments": …}`, or as Python, `[look(city="Rome"), ask()]`.

Nothing marks these as calls but the name of a tool that is offered. So the first keys decide: as soon as they cannot be
those of a call, the text is let go.
"""

from __future__ import annotations

import re
import string

from aish.tool_calls.detect.call_cursor import Attempt, NeedMore, NotACall
from aish.tool_calls.detect.envelope import ARGUMENT_KEYS, BESIDE_KEYS, CALL_KEYS, CALL_TYPES, NAME_KEYS, Written
from aish.tool_calls.repair.lenient_json import COMMAS, INVISIBLE, QUOTES, Reader, Unreadable

_MAX_KEY_CHARS = 40
_MAX_NAME_CHARS = 160
_MAX_PAIRS = 6
_MAX_HEAD_CHARS = 2000  # of the first keys with what lies between them
_SPACE = re.compile(rf"(?:[\s{INVISIBLE}]+|//[^\n]*\n|#[^\n]*\n|/\*.*?\*/)*", re.S)
_OPEN_COMMENT = re.compile(r"(?:#|//)[^\n]*\Z|/\*(?:(?!\*/).)*\Z|/\Z", re.S)
_VISIBLE = frozenset("\"':,{[") | frozenset(string.ascii_letters)
_WORD = re.compile(r"[^\W\d]\w*")
# When to look at an open quote again: closed, or so long that it may be too long for a key.
_CLOSED = {opening: re.compile(rf"[{closing}]|.{{{_MAX_KEY_CHARS}}}", re.S) for opening, closing in QUOTES.items()}
_SCALAR = re.compile(r"[\w.+-]+")
_REST_OF_LINE = re.compile(r"[ \t\r;)]*")
_CALLEE = re.compile(r"[^\W\d][\w.]*")
_MORE_OF_IT = frozenset("\"'“")


def bare_object(attempt: Attempt) -> None:
    _Head(attempt.text, attempt.pos, attempt).check()
    start = attempt.pos
    text, sure = attempt.json()
    attempt.calls += attempt.read_calls(text, sure=sure, tagged=False)
    _settle_end(attempt, text, start)


def bare_list(attempt: Attempt) -> None:
    """`[` begins a list of call objects, a list of Python calls, or nothing of ours."""
    start = attempt.pos
    attempt.pos += 1
    char = attempt.peek()
    if char == "{":
        _Head(attempt.text, attempt.pos, attempt).check()
        attempt.pos = start
        text, sure = attempt.json()
        attempt.calls += attempt.read_calls(text, sure=sure, tagged=False)
        _settle_end(attempt, text, start)
    elif char and (callee := attempt.match(_CALLEE)) and attempt.tools.is_name(callee[0]):
        if attempt.text[callee.end() : callee.end() + 1] != "(":
            raise NotACall
        attempt.pos = start
        text, sure = attempt.json()
        if not (sure or text.endswith("]")):
            raise NotACall
        attempt.calls += python_calls(text[1:-1] if text.endswith("]") else text[1:])
    else:
        raise NotACall


def python_line(attempt: Attempt) -> None:
    """A line that is a call and nothing else: `name(key=value)`, or that within `print(…)`."""
    word = _CALLEE.match(attempt.text)
    if word is None:
        raise NotACall
    is_open = word.end() == len(attempt.text) and not attempt.final
    if is_open and any(name.startswith(word[0]) for name in attempt.tools.line_starts):
        raise NeedMore
    if attempt.text[word.end() : word.end() + 1] != "(" or not attempt.tools.begins_line(word[0]):
        raise NotACall(len(word[0]))
    attempt.pos = word.end()
    attempt.json()
    rest = attempt.match(_REST_OF_LINE)
    if rest is None or not (rest.end() == len(attempt.text) or attempt.text[rest.end()] == "\n"):
        raise NotACall(len(word[0]))
    try:
        calls = python_calls(attempt.text[: rest.end()])
    except NotACall:
        raise NotACall(len(word[0])) from None
    if not all(attempt.tools.begins_line(call.name) for call in calls):
        raise NotACall(len(word[0]))
    attempt.calls += calls
    attempt.pos = rest.end()


def python_calls(text: str) -> list[Written]:
    """Calls with a comma, a semicolon or a new line between them. `print(…)` around one is taken off."""
    calls: list[Written] = []
    reader = Reader(text)
    try:
        while True:
            reader.space()
            if reader.pos >= len(text):
                return calls
            if printed := re.compile(r"print\(\s*(?=[^\W\d][\w.]*\()").match(text, reader.pos):
                reader.pos = printed.end()
            name, arguments = reader.python_call()
            calls.append(Written(name.removesuffix(".call"), arguments, tuple(reader.respelt())))
            reader.space()
            while text[reader.pos : reader.pos + 1] in (",", ";", ")") and reader.pos < len(text):
                reader.pos += 1
                reader.space()
    except Unreadable:
        raise NotACall from None


def _settle_end(attempt: Attempt, text: str, start: int) -> None:
    """Looks at what follows: brackets too many go with the call; another member means that one closed too early."""
    if attempt.pos < start + len(text):
        return  # its bracket is missing, and what follows is something else
    before = attempt.pos
    while attempt.peek() in ("}", "]") and attempt.peek():
        attempt.pos += 1
        before = attempt.pos
    if (char := attempt.peek()) and char in COMMAS:
        attempt.pos += 1
        following = attempt.peek()
        if following == "{":
            return
        if following and following in _MORE_OF_IT:
            attempt.calls[:] = [Written(call.name, attempt.text[start : attempt.pos]) for call in attempt.calls[:1]]
    attempt.pos = before


class _Head:
    """The first keys of an object, as far as they hold plain values."""

    def __init__(self, text: str, pos: int, attempt: Attempt) -> None:
        self._text = text
        self._start = pos
        self._pos = pos + 1
        self._attempt = attempt

    def check(self) -> None:
        """Returns if it may be a call; NotACall or NeedMore otherwise."""
        self._check_pairs()
        if self._pos - self._start > _MAX_HEAD_CHARS:
            raise NotACall

    def _check_pairs(self) -> None:
        for _ in range(_MAX_PAIRS):
            key = self._word(_MAX_KEY_CHARS)
            if key not in CALL_KEYS:
                raise NotACall
            self._separator()
            char = self._next()
            if char in ("{", "["):
                if key != "function" or char == "[":
                    return
                self._pos += 1
                continue
            if key in ARGUMENT_KEYS:
                return
            self._check_value(key, char)
            if self._next() not in COMMAS:
                return
            while self._next() in COMMAS:
                self._pos += 1

    def _check_value(self, key: str, char: str) -> None:
        value = self._word(_MAX_NAME_CHARS) if char in QUOTES else self._scalar()
        if key == "type":
            if value not in CALL_TYPES:
                raise NotACall
        elif key in NAME_KEYS:
            if " " in value.strip() or not self._attempt.tools.is_name(value):
                raise NotACall
        elif key not in BESIDE_KEYS:
            raise NotACall

    def _next(self) -> str:
        char = self._text[self._pos : self._pos + 1]
        if char in _VISIBLE:
            return char
        self._pos = _SPACE.match(self._text, self._pos).end()  # type: ignore[union-attr]  # it always matches
        if self._pos >= len(self._text) or _OPEN_COMMENT.match(self._text, self._pos):
            self._run_out()
        return self._text[self._pos]

    def _word(self, max_chars: int) -> str:
        char = self._next()
        if char not in QUOTES:
            return self._scalar(_WORD)
        ends = [at for mark in QUOTES[char] if (at := self._text.find(mark, self._pos + 1)) >= 0]
        length = min(ends) - self._pos - 1 if ends else len(self._text) - self._pos
        if length > max_chars:
            raise NotACall
        if not ends:
            self._run_out(_CLOSED[char])
        word = self._text[self._pos + 1 : self._pos + 1 + length]
        self._pos += length + 2
        return word

    def _scalar(self, pattern: re.Pattern[str] = _SCALAR) -> str:
        found = pattern.match(self._text, self._pos)
        if found is None or len(found[0]) > _MAX_NAME_CHARS:
            raise NotACall
        if found.end() == len(self._text):
            self._run_out()
        self._pos = found.end()
        return found[0]

    def _separator(self) -> None:
        char = self._next()
        if char not in ":=：":
            raise NotACall
        self._pos += 1
        if self._text[self._pos : self._pos + 1] in (">", "="):
            self._pos += 1

    def _run_out(self, mark: re.Pattern[str] | None = None) -> None:
        """Too little to say anything. At the very end that is no call."""
        if self._attempt.final or len(self._text) - self._start > _MAX_HEAD_CHARS:
            raise NotACall
        raise NeedMore(mark=mark)
