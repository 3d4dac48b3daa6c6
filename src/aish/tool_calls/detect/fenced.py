"""Calls in a fence: all that it holds is calls, and it is marked as JSON, as calls, or not at all.

Any other fence is code, with all that it quotes.
"""

from __future__ import annotations

import re

from aish.tool_calls.detect.bare import bare_list, bare_object, python_calls
from aish.tool_calls.detect.call_cursor import Attempt, NeedMore, NotACall
from aish.tool_calls.detect.tagged import STARTS, read_tag
from aish.tool_calls.detect.verbatim import fenced_code, inline_code, opening_line

_MARK = re.compile(r"`{1,16}|~{1,16}")
_LANGUAGE = re.compile(r"[\w+.-]*")
_CALL_FENCES = frozenset({"", "json", "tool_call", "tool_calls", "function_call", "tool_code"})
_PYTHON_FENCES = frozenset({"tool_code", "tool_call", "tool_calls"})
_CLOSING = re.compile(r"(`+|~+)[ \t\r]{0,20}")
_MIN_CLOSING = 2  # one is easily lost
_MIN_FENCE = 3
_FIRST_LINE = re.compile(r"\n( {0,24})")


def fence(attempt: Attempt) -> None:
    """Inline code, fenced code, or a fence around nothing but calls."""
    mark = _mark(attempt)
    language = attempt.match(_LANGUAGE)
    name = language[0].lower() if language else ""
    after_mark = attempt.pos
    if name in _CALL_FENCES:
        try:
            attempt.pos += len(name)
            _calls(attempt, mark, name)
        except NotACall:
            attempt.calls.clear()
            attempt.pos = after_mark
        else:
            return
    raise _code(attempt, mark)


def code(attempt: Attempt) -> None:
    """The same where no fence holds calls."""
    raise _code(attempt, _mark(attempt))


def _mark(attempt: Attempt) -> str:
    """The mark of a fence, and past it. Shorter ones are inline code, or nothing."""
    found = attempt.match(_MARK)
    if found is None:
        raise NotACall
    mark = found[0]
    if len(mark) < _MIN_FENCE:
        raise NotACall(len(mark), inline_code(mark) if mark[0] == "`" else None)
    attempt.pos = found.end()
    return mark


def _code(attempt: Attempt, mark: str) -> NotACall:
    """A mark with another one in its line is inline code."""
    line = attempt.match(opening_line(mark))
    end = line.end() if line else attempt.pos
    if attempt.text[end : end + 1] in ("\n", ""):
        attempt.pos = end
        first_line = attempt.match(_FIRST_LINE)
        return NotACall(end, fenced_code(mark, len(first_line[1]) if first_line else 0))
    return NotACall(len(mark), inline_code(mark) if mark[0] == "`" else None)


def _calls(attempt: Attempt, mark: str, language: str) -> None:
    start = attempt.pos
    char = attempt.peek()
    if not language and "\n" not in attempt.text[start : attempt.pos]:
        raise NotACall  # inline code in three backticks
    while char:
        if attempt.calls and char == mark[0]:
            return _close(attempt)
        _call(attempt, char, mark, language)
        char = attempt.peek()
    if not attempt.calls:
        raise NotACall
    return None


def _close(attempt: Attempt) -> None:
    closing = attempt.match(_CLOSING)
    if closing is None or len(closing[1]) < _MIN_CLOSING or attempt.text[closing.end() :][:1] not in ("\n", ""):
        raise NotACall
    attempt.pos = closing.end()


def _call(attempt: Attempt, char: str, mark: str, language: str) -> None:
    if char == "{":
        bare_object(attempt)
    elif opener := attempt.take(*STARTS):
        attempt.pos -= len(opener)
        read_tag(attempt, opener)
    elif char == "[":
        bare_list(attempt)
    elif language in _PYTHON_FENCES:
        _python(attempt, mark)
    else:
        raise NotACall


def _python(attempt: Attempt, mark: str) -> None:
    end = attempt.text.find(mark, attempt.pos)
    if end < 0 and not attempt.final:
        raise NeedMore(mark=re.compile(mark))
    end = end if end >= 0 else len(attempt.text)
    calls = python_calls(attempt.text[attempt.pos : end])
    if not all(attempt.tools.is_name(call.name) for call in calls):
        raise NotACall
    attempt.calls += calls
    attempt.pos = end
