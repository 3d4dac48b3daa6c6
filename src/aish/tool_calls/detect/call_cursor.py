"""The cursor with which all forms of calls are read, from where a call may begin.

A form is read until it has calls, turns out to be none (`NotACall`), or needs more text (`NeedMore`). A decision never
changes when more text comes, so it does not matter how a text is cut into pieces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from aish.tool_calls.detect.envelope import WrittenCall, find_calls
from aish.tool_calls.detect.spans import BracketSpan, VerbatimSpan
from aish.tool_calls.repair.fuzzy_match import find_similar
from aish.tool_calls.repair.lenient_json import INVISIBLE, Reader, UnreadableJson, read_strictly
from aish.types.tools import JsonSchema, Repair

_SPACE = re.compile(rf"[\s{INVISIBLE}]*")
_MAX_MARKS = 32  # closing marks inside the strings of a call
_MAX_SPACE = 2000  # white space within a call; with more it is no call
_NAME = re.compile(
    r"[\"'“]?(?:name|tool|tool_name|function|function_name)[\"'”]?\s*[:=]\s*[\"'“]([^\"'“”\\]{1,128})[\"'”]"
)


class NotACall(Exception):
    """The next `skip` characters are plain text. With `verbatim`, so is the text after them, to the end of that
    stretch."""

    def __init__(self, skip: int = 1, verbatim: VerbatimSpan | None = None) -> None:
        super().__init__()
        self.skip = skip
        self.verbatim = verbatim


class NeedMore(Exception):
    """Continue when `span` ends or `mark` is seen; with any further text if neither is given."""

    def __init__(self, span: BracketSpan | None = None, mark: re.Pattern[str] | None = None) -> None:
        super().__init__()
        self.span = span
        self.mark = mark


class FoundCalls(msgspec.Struct, frozen=True):
    """Calls that take up the text to `end`."""

    end: int
    calls: tuple[WrittenCall, ...]


class ToolNames:
    """The names of the offered tools, with their schemas."""

    def __init__(self, schemas: Mapping[str, JsonSchema]) -> None:
        self.schemas = schemas
        self._found_names: dict[str, str | None] = {}

    def match_tool_name(self, name: str) -> str | None:
        """The offered name that a written name means, if any."""
        if name in self.schemas:
            return name
        if name not in self._found_names:
            if len(self._found_names) > 256:
                self._found_names.clear()
            self._found_names[name] = find_similar(name, self.schemas)
        return self._found_names[name]

    def is_tool_name(self, name: str) -> bool:
        return self.match_tool_name(name) is not None

    @cached_property
    def line_starts(self) -> frozenset[str]:
        """The possible beginnings of a line that is a Python call."""
        return _line_starts(tuple(self.schemas))

    def begins_line(self, word: str) -> bool:
        return word in self.line_starts or (word.startswith("default_api.") and self.is_tool_name(word))


@lru_cache(maxsize=32)  # the same tools are offered many times
def _line_starts(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset({"print", "default_api.", *names, *(name.replace("__", ".", 1) for name in names)})


class CallCursor:
    """`final`: no more text comes. `is_complete`: the model itself ended the text, so it was not cut off."""

    def __init__(self, text: str, tools: ToolNames, *, final: bool, is_complete: bool = False) -> None:
        self.text = text
        self.tools = tools
        self.final = final
        self.is_complete = is_complete
        self.pos = 0
        self.calls: list[WrittenCall] = []
        self.reach = 0  # how far it has read, even in vain

    def result(self) -> FoundCalls:
        return FoundCalls(self.pos, tuple(self.calls))

    def peek(self) -> str:
        """The next character that is not white space; "" at the very end."""
        before = self.pos
        self.pos = _SPACE.match(self.text, self.pos).end()  # type: ignore[union-attr]  # it always matches
        if self.pos - before > _MAX_SPACE:
            if not self.calls:
                raise NotACall
            return " "
        if self.pos < len(self.text):
            return self.text[self.pos]
        if not self.final:
            raise NeedMore
        return ""

    def take(self, *marks: str) -> str:
        """Returns the mark at this position and moves past it; "" if there is none."""
        longest = max(map(len, marks))
        rest = self.text[self.pos : self.pos + longest]
        if not self.final and len(rest) < longest and any(rest != mark and mark.startswith(rest) for mark in marks):
            raise NeedMore
        for mark in marks:
            if rest.startswith(mark):
                self.pos += len(mark)
                return mark
        return ""

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """A match that cannot become longer with more text."""
        found = pattern.match(self.text, self.pos)
        if found is not None and found.end() == len(self.text) and not self.final:
            raise NeedMore
        return found

    def json(self, closers: tuple[str, ...] = ()) -> tuple[str, bool]:
        """Reads the bracketed value here. Returns its text, and whether its end is certain although a bracket is
        missing.

        It ends with its bracket or with a closing mark, whichever comes first. A mark inside a string does not count,
        unless nothing else comes.
        """
        start, span = self.pos, BracketSpan()
        mark = re.compile("|".join(map(re.escape, closers))) if closers else None
        fed, first, seen = start, -1, 0
        while mark is not None and seen < _MAX_MARKS and (found := mark.search(self.text, fed)):
            if (length := span.feed(self.text[fed : found.start()])) >= 0:
                return self._take(start, fed + length), False
            if not span.in_string:
                return self._take(start, found.start()), True
            first = first if first >= 0 else found.start()
            span.feed(found[0])
            fed, seen = found.end(), seen + 1
        if (length := span.feed(self.text[fed:])) >= 0:
            return self._take(start, fed + length), False
        if not self.final:
            raise NeedMore(span, mark if seen < _MAX_MARKS else None)
        return self._take(start, first if first >= 0 else len(self.text)), first >= 0 or self.is_complete

    def _take(self, start: int, end: int) -> str:
        self.pos = end
        self.reach = max(self.reach, end)
        return self.text[start:end]

    def read_calls(self, text: str, *, is_complete: bool, tagged: bool) -> list[WrittenCall]:
        """The calls that a JSON text contains. A text that is clearly a call but cannot be read becomes a call whose
        arguments are that text: it cannot run, and the model gets an error."""
        value, repairs = self._read(text, is_complete=is_complete)
        if value is _BROKEN:
            named = _NAME.search(text)
            if named is None or not (tagged or self.tools.is_tool_name(named[1])):
                raise NotACall
            return [WrittenCall(named[1], text)]
        calls = find_calls(value, self.tools.is_tool_name, tagged=tagged)
        if calls is None:
            raise NotACall
        return [msgspec.structs.replace(call, repairs=repairs) for call in calls]

    def _read(self, text: str, *, is_complete: bool) -> tuple[Any, tuple[Repair, ...]]:
        try:
            return read_strictly(text), ()
        except UnreadableJson:
            pass
        reader = Reader(text, is_complete=is_complete, outer_may_miss=True)
        try:
            value = reader.value()
        except UnreadableJson:
            return _BROKEN, ()
        self.pos -= len(text) - reader.pos  # what follows a value that lacks its bracket is not part of it
        return value, tuple(reader.repairs())


_BROKEN = object()
