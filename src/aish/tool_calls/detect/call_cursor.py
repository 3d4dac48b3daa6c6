"""One attempt at reading a call from where it may begin: the cursor that all forms share.

A form reads on until it has calls, sees that this is none (`NotACall`), or has run out of text (`NeedMore`). What it
decides never changes when more text comes, so that it does not matter how a text is cut into pieces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from aish.tool_calls.detect.envelope import Written, find_calls
from aish.tool_calls.detect.span import Span
from aish.tool_calls.detect.verbatim import Verbatim
from aish.tool_calls.repair.fuzzy_match import find_near
from aish.tool_calls.repair.lenient_json import INVISIBLE, Reader, Unreadable, read_strictly
from aish.types.tools import JsonSchema, Repair

_SPACE = re.compile(rf"[\s{INVISIBLE}]*")
_MAX_MARKS = 32  # of those that may end a call, inside its strings
_MAX_SPACE = 2000  # within a call; more of it is no call
_NAME = re.compile(
    r"[\"'“]?(?:name|tool|tool_name|function|function_name)[\"'”]?\s*[:=]\s*[\"'“]([^\"'“”\\]{1,128})[\"'”]"
)


class NotACall(Exception):
    """`skip` characters are plain text; as long as `verbatim` goes on, what follows is, too."""

    def __init__(self, skip: int = 1, verbatim: Verbatim | None = None) -> None:
        super().__init__()
        self.skip = skip
        self.verbatim = verbatim


class NeedMore(Exception):
    """Looked at again when `span` ends or `mark` is seen, or with any more text if there is neither."""

    def __init__(self, span: Span | None = None, mark: re.Pattern[str] | None = None) -> None:
        super().__init__()
        self.span = span
        self.mark = mark


class Found(msgspec.Struct, frozen=True):
    """Calls that take the text up to `end`."""

    end: int
    calls: tuple[Written, ...]


class Tools:
    """The names that count, and what is known of each."""

    def __init__(self, schemas: Mapping[str, JsonSchema]) -> None:
        self.schemas = schemas
        self._meant: dict[str, str | None] = {}

    def meant(self, name: str) -> str | None:
        """The offered name that a written one means, if any."""
        if name in self.schemas:
            return name
        if name not in self._meant:
            if len(self._meant) > 256:
                self._meant.clear()
            self._meant[name] = find_near(name, self.schemas)
        return self._meant[name]

    def is_name(self, name: str) -> bool:
        return self.meant(name) is not None

    @cached_property
    def line_starts(self) -> frozenset[str]:
        """What a line that is a Python call begins with."""
        return _line_starts(tuple(self.schemas))

    def begins_line(self, word: str) -> bool:
        return word in self.line_starts or (word.startswith("default_api.") and self.is_name(word))


@lru_cache(maxsize=32)  # the same tools are offered again and again
def _line_starts(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset({"print", "default_api.", *names, *(name.replace("__", ".", 1) for name in names)})


class Attempt:
    """`final`: no more text comes. `whole`: and what there is was ended by the model itself, not cut off."""

    def __init__(self, text: str, tools: Tools, *, final: bool, whole: bool = False) -> None:
        self.text = text
        self.tools = tools
        self.final = final
        self.whole = whole
        self.pos = 0
        self.calls: list[Written] = []
        self.reach = 0  # how far it has been read, even if it then came to nothing

    def found(self) -> Found:
        return Found(self.pos, tuple(self.calls))

    def peek(self) -> str:
        """The next character that is not space; "" at the very end."""
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
        """The mark that stands here, and past it; "" if none does."""
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
        """A match that cannot grow any more."""
        found = pattern.match(self.text, self.pos)
        if found is not None and found.end() == len(self.text) and not self.final:
            raise NeedMore
        return found

    def json(self, closers: tuple[str, ...] = ()) -> tuple[str, bool]:
        """The text of the bracketed value here, and past it; and whether its end is sure though a bracket is missing.

        It ends with its bracket, or where a mark says that the call does, whichever comes first. A mark inside a string
        says nothing, unless nothing else comes.
        """
        start, span = self.pos, Span()
        mark = re.compile("|".join(map(re.escape, closers))) if closers else None
        fed, first, seen = start, -1, 0
        while mark is not None and seen < _MAX_MARKS and (found := mark.search(self.text, fed)):
            if (length := span.feed(self.text[fed : found.start()])) >= 0:
                return self._taken(start, fed + length), False
            if not span.in_string:
                return self._taken(start, found.start()), True
            first = first if first >= 0 else found.start()
            span.feed(found[0])
            fed, seen = found.end(), seen + 1
        if (length := span.feed(self.text[fed:])) >= 0:
            return self._taken(start, fed + length), False
        if not self.final:
            raise NeedMore(span, mark if seen < _MAX_MARKS else None)
        return self._taken(start, first if first >= 0 else len(self.text)), first >= 0 or self.whole

    def _taken(self, start: int, end: int) -> str:
        self.pos = end
        self.reach = max(self.reach, end)
        return self.text[start:end]

    def read_calls(self, text: str, *, sure: bool, tagged: bool) -> list[Written]:
        """The calls that a JSON text is. One that is plainly a call but cannot be read is a call all the same, whose
        arguments are the text: nobody can run it, and the model is told."""
        value, repairs = self._read(text, sure=sure)
        if value is _BROKEN:
            named = _NAME.search(text)
            if named is None or not (tagged or self.tools.is_name(named[1])):
                raise NotACall
            return [Written(named[1], text)]
        calls = find_calls(value, self.tools.is_name, tagged=tagged)
        if calls is None:
            raise NotACall
        return [msgspec.structs.replace(call, repairs=repairs) for call in calls]

    def _read(self, text: str, *, sure: bool) -> tuple[Any, tuple[Repair, ...]]:
        try:
            return read_strictly(text), ()
        except Unreadable:
            pass
        reader = Reader(text, whole=sure, outer_may_miss=True)
        try:
            value = reader.value()
        except Unreadable:
            return _BROKEN, ()
        self.pos -= len(text) - reader.pos  # what follows a value that lacks its bracket is not part of it
        return value, tuple(reader.repairs())


_BROKEN = object()
