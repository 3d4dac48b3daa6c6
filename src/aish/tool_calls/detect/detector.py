"""Finds the calls in a model's text as it streams. All other text passes unchanged, as soon as it cannot be a call.

Text without any character that could begin a call costs one search. From such a character on, text is held until it is
a call or cannot be one. Code and thinking pass unchanged. So does JSON that is no call, with everything in it, except
for calls between marks. The result does not depend on how the text was cut into pieces.

A call that is incomplete when the text ends is passed on with the arguments as they are. They are no JSON, so it cannot
run, and the model gets an error. Without a name it is plain text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from aish.tool_calls.detect.bare import bare_list, bare_object, python_line
from aish.tool_calls.detect.call_cursor import CallCursor, FoundCalls, NeedMore, NotACall, ToolNames
from aish.tool_calls.detect.envelope import CALL_KEYS, WrittenCall
from aish.tool_calls.detect.fenced import code, fence
from aish.tool_calls.detect.spans import THINKING, BracketSpan, VerbatimSpan, thinking
from aish.tool_calls.detect.tagged import STARTS, read_tag
from aish.types.tools import JsonSchema

# Arguments may contain a whole file. A model that repeats itself must not fill the memory.
MAX_HELD_CHARS = 1024 * 1024
_FIRST_LOOK_CHARS = 1024
# How much may be read in vain beyond the length of the text, so that the work grows linearly with the text.
_FREE_WASTED_CHARS = 64 * 1024
_TAIL_CHARS = 64  # longer than any mark, which may be split between two pieces
_MARKS = "<[{`~"
_CODE_MARKS = "`~"
# What is no call by its first characters: objects with another first key (looked up), lists of values, comparisons,
# and all but the last of many brackets.
_PLAIN = re.compile(r"\{\s*\"(\w+)\"|(?:\[\s{0,20})+(?=[\"'\d\]\[-])|<+(?=[^tfr|｜]|t[^oh]|f[^u]|r[^e])|\{+(?=\{)")
# JSON or code, if it is no call.
_DATA = re.compile(r"\{\s*[\"'“\w{]|\[\s*[{\[\"']")
_INNER_DATA = frozenset("\"'[{")
_STOPS_IN_DATA = re.compile(r"<(?=[tfr|｜]|\Z)|\[(?=T|\Z)|`{3}|~{3}|(?:`{1,2}|~{1,2})\Z")

Piece = str | WrittenCall


class CallDetector:
    """`marked_only`: only calls between marks count. For models that are known to call natively."""

    def __init__(self, schemas: Mapping[str, JsonSchema], *, marked_only: bool = False) -> None:
        self._marked_only = marked_only
        self._tools = ToolNames(schemas)
        self._held: list[str] = []
        self._held_chars = 0
        self._tail = ""
        self._waits: NeedMore | None = None
        self._verbatim: VerbatimSpan | None = None  # the code or thinking at this point
        self._data: BracketSpan | None = None  # the JSON at this point, which is no call
        self._is_complete = False
        self._passed_chars = 0  # characters of the text before the current one
        self._wasted_chars = 0
        # A line may be a Python call, so at the start of a line the first letters of names are triggers, too.
        self._trigger, self._first = _triggers_for(self._tools.line_starts)
        self._at_line_start = True

    def passes(self, text: str) -> bool:
        """Whether the text can be passed on unchanged without calling `feed`, as nearly all text can."""
        if self._waits is not None or self._verbatim or self._data:
            return False
        # Six searches for one character cost a tenth of the regular expression, and nearly always find nothing.
        may_begin = "<" in text or "[" in text or "{" in text or "\n" in text or "`" in text or "~" in text
        if may_begin and self._trigger.search(text) is not None:
            return False
        if self._at_line_start and self._first.match(text) is not None:
            return False
        self._at_line_start = text[-1:] == "\n" or (self._at_line_start and not text)
        self._passed_chars += len(text)
        return True

    @property
    def is_holding(self) -> bool:
        """Whether text is held back because it may be a call."""
        return self._waits is not None

    def feed(self, text: str) -> list[Piece]:
        if self._waits is None:
            return self._scan(text, final=False)
        self._held.append(text)
        self._held_chars += len(text)
        if self._held_chars > MAX_HELD_CHARS:
            return self._scan(self._release(), final=True)
        return self._scan(self._release(), final=False) if self._may_continue(text) else []

    def finish(self, *, is_complete: bool) -> list[Piece]:
        """The text has ended: by the model itself if `is_complete`, else it was cut off."""
        self._is_complete = is_complete
        return self._scan(self._release(), final=True)

    def _release(self) -> str:
        text = "".join(self._held)
        self._held, self._held_chars, self._waits, self._tail = [], 0, None, ""
        return text

    def _hold_back(self, text: str) -> None:
        self._held, self._held_chars = [text], len(text)
        self._tail = text[-_TAIL_CHARS:]
        self._at_line_start = text[0] not in _MARKS

    def _may_continue(self, piece: str) -> bool:
        waits = self._waits
        if waits is None or (waits.span is None and waits.mark is None):
            return True
        ended = waits.span is not None and waits.span.feed(piece) >= 0
        seen = waits.mark is not None and waits.mark.search(self._tail + piece) is not None
        self._tail = (self._tail + piece)[-_TAIL_CHARS:]
        return ended or seen

    def _scan(self, text: str, *, final: bool) -> list[Piece]:
        pieces: list[Piece] = []
        pos = 0
        while pos < len(text):
            if self._verbatim is not None:
                pos = self._pass_verbatim(self._verbatim, text, pos, pieces, final=final)
            elif self._data is not None:
                pos = self._pass_data(self._data, text, pos, pieces, final=final)
            else:
                pos = self._pass_text(text, pos, pieces, final=final)
        self._passed_chars += len(text) - self._held_chars
        if self._waits is None and text:
            self._at_line_start = text[-1] == "\n"
        return _join_texts(pieces)

    def _pass_text(self, text: str, pos: int, pieces: list[Piece], *, final: bool) -> int:
        start = self._next_trigger(text, pos)
        pieces.append(text[pos:start])
        if start == len(text):
            return start
        if (plain := _PLAIN.match(text, start)) and plain[1] not in CALL_KEYS:
            pieces.append(plain[0])
            if not self._marked_only and (plain[1] or _is_data(text, plain)):
                self._begin_data(plain[0])
            return plain.end()
        if text[start] not in _CODE_MARKS and self._is_over_budget(start):
            pieces.append(text[start])
            return start + 1
        return self._try(text, start, pieces, final=final, marked_only=self._marked_only)

    def _is_over_budget(self, start: int) -> bool:
        """Whether too much was read in vain for the text so far."""
        return self._wasted_chars > _FREE_WASTED_CHARS + self._passed_chars + start

    def _begin_data(self, passed: str) -> None:
        self._data = BracketSpan()
        self._data.feed(passed)

    def _next_trigger(self, text: str, pos: int) -> int:
        at_line_start = text[pos - 1] == "\n" if pos else self._at_line_start
        if at_line_start and self._first.match(text, pos):
            return pos
        trigger = self._trigger.search(text, pos)
        if trigger is None:
            return len(text)
        return trigger.start() + 1 if trigger[0] == "\n" else trigger.start()

    def _try(self, text: str, start: int, pieces: list[Piece], *, final: bool, marked_only: bool) -> int:
        """Returns where to continue after a possible beginning. Most are decided within a few characters, so the
        first ones are read first; more text never changes the decision."""
        if len(text) - start > _FIRST_LOOK_CHARS:
            first = text[start : start + _FIRST_LOOK_CHARS]
            end = self._examine(first, pieces, final=False, marked_only=marked_only)
            if end >= 0:
                return start + end
        end = self._examine(text[start:], pieces, final=final, marked_only=marked_only)
        if end < 0:
            self._hold_back(text[start:])
        return start + end if end >= 0 else len(text)

    def _examine(self, candidate: str, pieces: list[Piece], *, final: bool, marked_only: bool) -> int:
        """Returns how much of the candidate is decided; -1 if more text is needed."""
        self._waits = None
        cursor = CallCursor(candidate, self._tools, final=final, is_complete=self._is_complete)
        try:
            found = _read_marked(cursor) if marked_only else _read_candidate(cursor)
        except NotACall as plain:
            self._wasted_chars += max(cursor.reach, cursor.pos)
            self._pass_candidate(candidate, plain, pieces)
            return plain.skip
        except NeedMore as waits:
            self._waits = waits
            return -1
        pieces += found.calls
        self._data = None
        return found.end

    def _pass_candidate(self, candidate: str, plain: NotACall, pieces: list[Piece]) -> None:
        passed = candidate[: plain.skip]
        pieces.append(passed)
        self._verbatim = plain.verbatim
        if self._data is not None:
            self._data.feed(passed)
        elif not self._marked_only and _DATA.match(candidate):
            self._begin_data(passed)

    def _pass_verbatim(self, verbatim: VerbatimSpan, text: str, pos: int, pieces: list[Piece], *, final: bool) -> int:
        end, is_over = verbatim.find_end(text, pos, final=final)
        pieces.append(text[pos:end])
        if is_over:
            self._verbatim = None
            return end
        return self._hold_rest(text, end)

    def _hold_rest(self, text: str, start: int) -> int:
        if start < len(text):
            self._waits = NeedMore()
            self._hold_back(text[start:])
        return len(text)

    def _pass_data(self, data: BracketSpan, text: str, pos: int, pieces: list[Piece], *, final: bool) -> int:
        """Passes JSON up to its closing bracket, or to a mark outside of its strings, which means that it was no
        JSON."""
        found = _STOPS_IN_DATA.search(text, pos)
        stop = found.start() if found else len(text)
        length = data.feed(text[pos:stop])
        end = stop if length < 0 else pos + length
        pieces.append(text[pos:end])
        if length >= 0:
            self._data = None
        if length >= 0 or found is None:
            return end
        if data.in_string or (text[stop] not in _CODE_MARKS and self._is_over_budget(stop)):
            return self._pass_in_data(data, text, stop, pieces)
        if text[stop] not in _CODE_MARKS:
            return self._try(text, stop, pieces, final=final, marked_only=True)
        if len(found[0]) < 3:
            return self._pass_in_data(data, text, stop, pieces) if final else self._hold_rest(text, stop)
        self._data = None
        return stop

    def _pass_in_data(self, data: BracketSpan, text: str, pos: int, pieces: list[Piece]) -> int:
        pieces.append(text[pos])
        if data.feed(text[pos]) >= 0:
            self._data = None
        return pos + 1


@lru_cache(maxsize=32)
def _triggers_for(line_starts: frozenset[str]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns for triggers in a text, and at the start of a line. They begin with one set of characters, which is
    searched three times as fast as alternatives."""
    firsts = "".join(sorted({re.escape(name[0]) for name in line_starts if name}))
    return re.compile(rf"[<\[{{`~\n](?:(?<![~\n])|(?<=~)(?:~|\Z)|(?<=\n)(?=[{firsts}]))"), re.compile(f"[{firsts}]")


def _is_data(text: str, plain: re.Match[str]) -> bool:
    return plain[0][0] != "<" and (text[plain.end()] in _INNER_DATA or plain[0].count("[") > 1)


def _join_texts(pieces: list[Piece]) -> list[Piece]:
    """Joins consecutive texts."""
    merged: list[Piece] = []
    texts: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
            continue
        merged += [text] if (text := "".join(texts)) else []
        merged.append(piece)
        texts.clear()
    return [*merged, text] if (text := "".join(texts)) else merged


def _read_candidate(cursor: CallCursor) -> FoundCalls:
    """Reads what begins at the start of the text. Raises NotACall or NeedMore."""
    char = cursor.text[0]
    if char not in _MARKS:
        python_line(cursor)
    elif char in _CODE_MARKS:
        fence(cursor)
    elif char == "{":
        bare_object(cursor)
    elif not _tag(cursor):
        if char != "[":
            raise NotACall
        bare_list(cursor)
    return cursor.result()


def _read_marked(cursor: CallCursor) -> FoundCalls:
    """The same where only calls between marks count. Code is still skipped, with everything it quotes."""
    if cursor.text[0] in _CODE_MARKS:
        code(cursor)
    if cursor.text[0] not in "<[" or not _tag(cursor):
        raise NotACall
    return cursor.result()


def _tag(cursor: CallCursor) -> bool:
    opener = cursor.take(*STARTS, *THINKING)
    if opener in THINKING:
        raise NotACall(len(opener), thinking(opener))
    if opener:
        cursor.pos = 0
        read_tag(cursor, opener)
    return bool(opener)
