"""Calls in a code fence that contains nothing else and is marked as JSON, as calls, or not at all.

Any other fence is code, with everything it quotes.
"""

from __future__ import annotations

import re

from aish.tool_calls.detect.bare import bare_list, bare_object, python_calls
from aish.tool_calls.detect.call_cursor import CallCursor, NeedMore, NotACall
from aish.tool_calls.detect.spans import fenced_code, inline_code, opening_line
from aish.tool_calls.detect.tagged import STARTS, read_tag

_MARK = re.compile(r"`{1,16}|~{1,16}")
_LANGUAGE = re.compile(r"[\w+.-]*")
_CALL_FENCES = frozenset({"", "json", "tool_call", "tool_calls", "function_call", "tool_code"})
_PYTHON_FENCES = frozenset({"tool_code", "tool_call", "tool_calls"})
_CLOSING = re.compile(r"(`+|~+)[ \t\r]{0,20}")
_MIN_CLOSING = 2  # models sometimes lose one
_MIN_FENCE = 3
_FIRST_LINE = re.compile(r"\n( {0,24})")


def fence(cursor: CallCursor) -> None:
    """Reads inline code, fenced code, or a fence around nothing but calls."""
    mark = _mark(cursor)
    language = cursor.match(_LANGUAGE)
    name = language[0].lower() if language else ""
    after_mark = cursor.pos
    if name in _CALL_FENCES:
        try:
            cursor.pos += len(name)
            _calls(cursor, mark, name)
        except NotACall:
            cursor.calls.clear()
            cursor.pos = after_mark
        else:
            return
    raise _code(cursor, mark)


def code(cursor: CallCursor) -> None:
    """The same where fences contain no calls."""
    raise _code(cursor, _mark(cursor))


def _mark(cursor: CallCursor) -> str:
    """Reads the mark of a fence. Shorter marks are inline code, or nothing."""
    found = cursor.match(_MARK)
    if found is None:
        raise NotACall
    mark = found[0]
    if len(mark) < _MIN_FENCE:
        raise NotACall(len(mark), inline_code(mark) if mark[0] == "`" else None)
    cursor.pos = found.end()
    return mark


def _code(cursor: CallCursor, mark: str) -> NotACall:
    """A mark with another one in the same line is inline code."""
    line = cursor.match(opening_line(mark))
    end = line.end() if line else cursor.pos
    if cursor.text[end : end + 1] in ("\n", ""):
        cursor.pos = end
        first_line = cursor.match(_FIRST_LINE)
        return NotACall(end, fenced_code(mark, len(first_line[1]) if first_line else 0))
    return NotACall(len(mark), inline_code(mark) if mark[0] == "`" else None)


def _calls(cursor: CallCursor, mark: str, language: str) -> None:
    start = cursor.pos
    char = cursor.peek()
    if not language and "\n" not in cursor.text[start : cursor.pos]:
        raise NotACall  # inline code in three backticks
    while char:
        if cursor.calls and char == mark[0]:
            return _close(cursor)
        _call(cursor, char, mark, language)
        char = cursor.peek()
    if not cursor.calls:
        raise NotACall
    return None


def _close(cursor: CallCursor) -> None:
    closing = cursor.match(_CLOSING)
    if closing is None or len(closing[1]) < _MIN_CLOSING or cursor.text[closing.end() :][:1] not in ("\n", ""):
        raise NotACall
    cursor.pos = closing.end()


def _call(cursor: CallCursor, char: str, mark: str, language: str) -> None:
    if char == "{":
        bare_object(cursor)
    elif opener := cursor.take(*STARTS):
        cursor.pos -= len(opener)
        read_tag(cursor, opener)
    elif char == "[":
        bare_list(cursor)
    elif language in _PYTHON_FENCES:
        _python(cursor, mark)
    else:
        raise NotACall


def _python(cursor: CallCursor, mark: str) -> None:
    end = cursor.text.find(mark, cursor.pos)
    if end < 0 and not cursor.final:
        raise NeedMore(mark=re.compile(mark))
    end = end if end >= 0 else len(cursor.text)
    calls = python_calls(cursor.text[cursor.pos : end])
    if not all(cursor.tools.is_tool_name(call.name) for call in calls):
        raise NotACall
    cursor.calls += calls
    cursor.pos = end
