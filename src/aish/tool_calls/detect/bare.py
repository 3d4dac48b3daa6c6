"""Calls written as bare JSON, `{"name": …, "arguments": …}`, or as Python, `[look(city="Rome"), ask()]`.

Only the name of an offered tool marks them as calls. So the first keys decide: as soon as they cannot be those of a
call, the text is passed on.
"""

from __future__ import annotations

import re
import string

from aish.tool_calls.detect.call_cursor import CallCursor, NeedMore, NotACall
from aish.tool_calls.detect.envelope import ARGUMENT_KEYS, BESIDE_KEYS, CALL_KEYS, CALL_TYPES, NAME_KEYS, WrittenCall
from aish.tool_calls.repair.lenient_json import COMMAS, INVISIBLE, QUOTES, Reader, UnreadableJson

_MAX_KEY_CHARS = 40
_MAX_NAME_CHARS = 160
_MAX_PAIRS = 6
_MAX_HEAD_CHARS = 2000  # of the first keys and what is between them
_SPACE = re.compile(rf"(?:[\s{INVISIBLE}]+|//[^\n]*\n|#[^\n]*\n|/\*.*?\*/)*", re.S)
_OPEN_COMMENT = re.compile(r"(?:#|//)[^\n]*\Z|/\*(?:(?!\*/).)*\Z|/\Z", re.S)
_VISIBLE = frozenset("\"':,{[") | frozenset(string.ascii_letters)
_WORD = re.compile(r"[^\W\d]\w*")
# When to continue after an open quote: it is closed, or possibly too long for a key.
_CLOSED = {opening: re.compile(rf"[{closing}]|.{{{_MAX_KEY_CHARS}}}", re.S) for opening, closing in QUOTES.items()}
_SCALAR = re.compile(r"[\w.+-]+")
_REST_OF_LINE = re.compile(r"[ \t\r;)]*")
_CALLEE = re.compile(r"[^\W\d][\w.]*")
_MORE_OF_IT = frozenset("\"'“")


def bare_object(cursor: CallCursor) -> None:
    _Head(cursor.text, cursor.pos, cursor).check()
    start = cursor.pos
    text, is_complete = cursor.json()
    cursor.calls += cursor.read_calls(text, is_complete=is_complete, tagged=False)
    _read_past_end(cursor, text, start)


def bare_list(cursor: CallCursor) -> None:
    """`[` begins a list of call objects, a list of Python calls, or no call at all."""
    start = cursor.pos
    cursor.pos += 1
    char = cursor.peek()
    if char == "{":
        _Head(cursor.text, cursor.pos, cursor).check()
        cursor.pos = start
        text, is_complete = cursor.json()
        cursor.calls += cursor.read_calls(text, is_complete=is_complete, tagged=False)
        _read_past_end(cursor, text, start)
    elif char and (callee := cursor.match(_CALLEE)) and cursor.tools.is_tool_name(callee[0]):
        if cursor.text[callee.end() : callee.end() + 1] != "(":
            raise NotACall
        cursor.pos = start
        text, is_complete = cursor.json()
        if not (is_complete or text.endswith("]")):
            raise NotACall
        cursor.calls += python_calls(text[1:-1] if text.endswith("]") else text[1:])
    else:
        raise NotACall


def python_line(cursor: CallCursor) -> None:
    """A line that is only a call: `name(key=value)`, or such a call within `print(…)`."""
    word = _CALLEE.match(cursor.text)
    if word is None:
        raise NotACall
    is_open = word.end() == len(cursor.text) and not cursor.final
    if is_open and any(name.startswith(word[0]) for name in cursor.tools.line_starts):
        raise NeedMore
    if cursor.text[word.end() : word.end() + 1] != "(" or not cursor.tools.begins_line(word[0]):
        raise NotACall(len(word[0]))
    cursor.pos = word.end()
    cursor.json()
    rest = cursor.match(_REST_OF_LINE)
    if rest is None or not (rest.end() == len(cursor.text) or cursor.text[rest.end()] == "\n"):
        raise NotACall(len(word[0]))
    try:
        calls = python_calls(cursor.text[: rest.end()])
    except NotACall:
        raise NotACall(len(word[0])) from None
    if not all(cursor.tools.begins_line(call.name) for call in calls):
        raise NotACall(len(word[0]))
    cursor.calls += calls
    cursor.pos = rest.end()


def python_calls(text: str) -> list[WrittenCall]:
    """Calls separated by commas, semicolons or new lines. `print(…)` around one is removed."""
    calls: list[WrittenCall] = []
    reader = Reader(text)
    try:
        while True:
            reader.space()
            if reader.pos >= len(text):
                return calls
            if printed := re.compile(r"print\(\s*(?=[^\W\d][\w.]*\()").match(text, reader.pos):
                reader.pos = printed.end()
            name, arguments = reader.python_call()
            calls.append(WrittenCall(name.removesuffix(".call"), arguments, tuple(reader.respelt())))
            reader.space()
            while text[reader.pos : reader.pos + 1] in (",", ";", ")") and reader.pos < len(text):
                reader.pos += 1
                reader.space()
    except UnreadableJson:
        raise NotACall from None


def _read_past_end(cursor: CallCursor, text: str, start: int) -> None:
    """Reads what follows: superfluous brackets belong to the call; another member means that a bracket closed too
    early."""
    if cursor.pos < start + len(text):
        return  # the bracket is missing, so the rest is something else
    before = cursor.pos
    while cursor.peek() in ("}", "]") and cursor.peek():
        cursor.pos += 1
        before = cursor.pos
    if (char := cursor.peek()) and char in COMMAS:
        cursor.pos += 1
        following = cursor.peek()
        if following == "{":
            return
        if following and following in _MORE_OF_IT:
            cursor.calls[:] = [WrittenCall(call.name, cursor.text[start : cursor.pos]) for call in cursor.calls[:1]]
    cursor.pos = before


class _Head:
    """The first keys of an object, as long as their values are plain."""

    def __init__(self, text: str, pos: int, cursor: CallCursor) -> None:
        self._text = text
        self._start = pos
        self._pos = pos + 1
        self._read_candidate = cursor

    def check(self) -> None:
        """Returns if this may be a call; raises NotACall or NeedMore otherwise."""
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
            if " " in value.strip() or not self._read_candidate.tools.is_tool_name(value):
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
        """The text is too short to decide. At the end of the text it is no call."""
        if self._read_candidate.final or len(self._text) - self._start > _MAX_HEAD_CHARS:
            raise NotACall
        raise NeedMore(mark=mark)
