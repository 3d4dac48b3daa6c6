"""Finds the calls in a model's text as it streams. What is no call passes byte for byte, and as soon as that is sure.

Text without any character that could begin a call costs one search. Where one could begin, the text from there on is
held until it is a call or cannot be one. Code passes as it is: inline code, and fenced code unless all that the fence
holds is a call. What comes out does not depend on how the text was cut into pieces.

A call that is not finished when the text ends comes out with its arguments as they stand. These are no JSON, so nobody
can run it, and the model is told; without a name there is nothing to tell, and it is text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from aish.calls.attempt import Attempt, Found, NeedMore, NotACall, Tools
from aish.calls.bare import bare_list, bare_object, python_calls, python_line
from aish.calls.envelope import CALL_KEYS, Written
from aish.calls.tagged import STARTS, function_tag, tagged
from aish.types.tools import JsonSchema

# Arguments may hold a whole file; a model in a loop must not hold everything.
MAX_HELD_CHARS = 1024 * 1024
_FIRST_LOOK_CHARS = 1024
# Beginnings of calls that came to nothing: a text with so many is not written by a model that calls tools.
_MAX_FAILURES = 64
_TAIL_CHARS = 64  # longer than any mark, which may lie across two pieces
_MARKS = "<[{`"
# What cannot be a call at the first look: objects with another first key (looked up), lists of values, comparisons.
_PLAIN = re.compile(r"\{\s*\"(\w+)\"|\[\s*(?=[\"'\d\]-])|<(?=[\s\d=])")
_BACKTICKS = re.compile(r"`{1,16}")
_FENCE_INFO = re.compile(r"[\w+.-]*")
_JSON_FENCES = frozenset({
    "", "json", "jsonc", "json5", "jsonl", "tool_call", "tool_calls", "tool", "tools", "function", "function_call",
    "functions", "xml", "text", "txt", "plaintext", "python", "py", "javascript", "js", "yaml", "action",
})  # fmt: skip
_PYTHON_FENCES = frozenset({"tool_code", "tool_call", "tool_calls"})
_NOT_ONLY_CALLS = frozenset("{[\"',/#}")

Piece = str | Written


class Recogniser:
    """`marked_only`: calls that nothing marks as such are text. For models that are known to call in a better way."""

    def __init__(self, schemas: Mapping[str, JsonSchema], *, marked_only: bool = False) -> None:
        self._marked_only = marked_only
        self._tools = Tools(schemas)
        self._held: list[str] = []
        self._held_chars = 0
        self._tail = ""
        self._waits: NeedMore | None = None
        self._literal = ""  # the mark that ends the code we are in
        self._whole = False
        self._failures = 0
        self.searched_chars = 0  # how much was looked at, again and again where that was needed: it has to be bounded
        # A line may be a Python call: at the start of one, what the names begin with is a trigger, too.
        firsts = "".join(sorted({re.escape(name[0]) for name in self._tools.line_starts if name}))
        self._trigger = _trigger_for(firsts)
        self._first = re.compile(f"[{firsts}]")
        self._at_line_start = True

    def passes(self, text: str) -> bool:
        """Whether the text can be handed on as it is: nearly always, and without a call of `feed`."""
        if self._waits is not None or self._literal or self._trigger.search(text) is not None:
            return False
        if self._at_line_start and self._first.match(text) is not None:
            return False
        self._at_line_start = text[-1:] == "\n" or (self._at_line_start and not text)
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
        return self._scan(self._release(), final=False) if self._is_woken(text) else []

    def finish(self, *, whole: bool) -> list[Piece]:
        """The text has ended: by the model's own will if `whole`, else it was cut off."""
        self._whole = whole
        return self._scan(self._release(), final=True)

    def _release(self) -> str:
        text = "".join(self._held)
        self._held, self._held_chars, self._waits, self._tail = [], 0, None, ""
        return text

    def _hold_back(self, text: str) -> None:
        self._held, self._held_chars = [text], len(text)
        self._tail = text[-_TAIL_CHARS:]
        self._at_line_start = text[0] not in _MARKS

    def _is_woken(self, piece: str) -> bool:
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
            if self._failures > _MAX_FAILURES:
                _add_text(pieces, text[pos:])
                break
            if self._literal:
                pos = self._pass_literal(text, pos, pieces, final=final)
                continue
            start = self._next_trigger(text, pos)
            _add_text(pieces, text[pos:start])
            if start == len(text):
                break
            if (plain := _PLAIN.match(text, start)) and plain[1] not in CALL_KEYS:
                _add_text(pieces, plain[0])
                pos = plain.end()
                continue
            pos = self._try(text, start, pieces, final=final)
        if self._waits is None and text:
            self._at_line_start = text[-1] == "\n"
        return pieces

    def _next_trigger(self, text: str, pos: int) -> int:
        at_line_start = text[pos - 1] == "\n" if pos else self._at_line_start
        if at_line_start and self._first.match(text, pos):
            return pos
        trigger = self._trigger.search(text, pos)
        if trigger is None:
            return len(text)
        return trigger.start() + 1 if trigger[0] == "\n" else trigger.start()

    def _try(self, text: str, start: int, pieces: list[Piece], *, final: bool) -> int:
        """Where to go on after what begins here. Most beginnings are decided within a few characters, so that a look at
        these comes first; what it decides stands, since more text never changes it."""
        if len(text) - start > _FIRST_LOOK_CHARS:
            end = self._look(text[start : start + _FIRST_LOOK_CHARS], pieces, final=False)
            if end >= 0:
                return start + end
        end = self._look(text[start:], pieces, final=final)
        if end < 0:
            self._hold_back(text[start:])
        return start + end if end >= 0 else len(text)

    def _look(self, candidate: str, pieces: list[Piece], *, final: bool) -> int:
        """How much of the candidate is settled; -1 if more of it is needed."""
        self.searched_chars += len(candidate)
        self._waits = None
        attempt = Attempt(candidate, self._tools, final=final, whole=self._whole)
        try:
            found = _marked(attempt) if self._marked_only else _attempt(attempt)
        except NotACall as plain:
            self._failures += attempt.has_begun
            _add_text(pieces, candidate[: plain.skip])
            self._literal = plain.literal
            return plain.skip
        except NeedMore as waits:
            self._waits = waits
            return -1
        pieces += found.calls
        return found.end

    def _pass_literal(self, text: str, pos: int, pieces: list[Piece], *, final: bool) -> int:
        """Code, up to its closing mark; inline code ends with its line at the latest."""
        mark = self._literal
        end = text.find(mark, pos)
        line = text.find("\n", pos) if len(mark) < 3 else -1
        if line >= 0 and (end < 0 or line < end):
            end, mark = line, "\n"
        if end < 0:
            return self._pass_unclosed(text, pos, pieces, final=final)
        self._literal = ""
        _add_text(pieces, text[pos : end + len(mark)])
        return end + len(mark)

    def _pass_unclosed(self, text: str, pos: int, pieces: list[Piece], *, final: bool) -> int:
        """All of it is code, but for backticks at the very end: they may be the beginning of the mark."""
        kept = len(text) if final else len(text.rstrip("`"))
        kept = max(kept, pos)
        _add_text(pieces, text[pos:kept])
        if kept < len(text):
            self._waits = NeedMore()
            self._hold_back(text[kept:])
        return len(text)


@lru_cache(maxsize=64)
def _trigger_for(firsts: str) -> re.Pattern[str]:
    return re.compile(rf"[<\[{{`]|\n(?=[{firsts}])")


def _add_text(pieces: list[Piece], text: str) -> None:
    if not text:
        return
    if pieces and isinstance(pieces[-1], str):
        pieces[-1] += text
    else:
        pieces.append(text)


def _attempt(attempt: Attempt) -> Found:
    """Reads what begins at the start of the text. Raises NotACall or NeedMore."""
    text = attempt.text
    if text[0] not in _MARKS:
        python_line(attempt)
        return attempt.found()
    if text[0] == "`":
        return _fence(attempt)
    if text[0] == "{":
        bare_object(attempt)
        return attempt.found()
    if opener := attempt.take(*STARTS):
        attempt.pos = 0
        _tag(attempt, opener)
    elif text[0] == "[":
        bare_list(attempt)
    else:
        raise NotACall
    return attempt.found()


def _marked(attempt: Attempt) -> Found:
    """The same, where only marks count. Code is still passed over, with all that it quotes."""
    if attempt.text[0] == "`":
        ticks = attempt.match(_BACKTICKS)
        raise NotACall(len(ticks[0]), ticks[0]) if ticks else NotACall
    opener = attempt.take(*STARTS) if attempt.text[0] in "<[" else ""
    if not opener:
        raise NotACall
    attempt.pos = 0
    _tag(attempt, opener)
    return attempt.found()


def _tag(attempt: Attempt, opener: str) -> None:
    if opener == "<function=":
        function_tag(attempt)
    else:
        tagged(attempt, opener)


def _fence(attempt: Attempt) -> Found:
    """Backticks: inline code, fenced code, or a fence around nothing but calls."""
    ticks = attempt.match(_BACKTICKS)
    assert ticks is not None
    if len(ticks[0]) < 3:
        raise NotACall(len(ticks[0]), ticks[0])
    attempt.pos = ticks.end()
    info = attempt.match(_FENCE_INFO)
    name = info[0].lower() if info else ""
    attempt.pos = info.end() if info else attempt.pos
    code = NotACall(attempt.pos, ticks[0])
    if name not in _JSON_FENCES | _PYTHON_FENCES:
        raise code
    try:
        _fenced(attempt, ticks[0], name)
    except NotACall:
        raise code from None
    return attempt.found()


def _fenced(attempt: Attempt, ticks: str, info: str) -> None:
    while True:
        char = attempt.peek()
        if attempt.take(ticks) or not char:
            if not attempt.calls:
                raise NotACall
            return
        if attempt.calls and char not in _NOT_ONLY_CALLS and char != "<" and info not in _PYTHON_FENCES:
            return  # the closing fence is missing
        _fenced_call(attempt, char, ticks, info)


def _fenced_call(attempt: Attempt, char: str, ticks: str, info: str) -> None:
    if char == "{":
        bare_object(attempt)
    elif opener := attempt.take(*STARTS):
        attempt.pos -= len(opener)
        _tag(attempt, opener)
    elif char == "[":
        bare_list(attempt)
    elif info in _PYTHON_FENCES:
        _python_fence(attempt, ticks)
    else:
        raise NotACall


def _python_fence(attempt: Attempt, ticks: str) -> None:
    end = attempt.text.find(ticks, attempt.pos)
    if end < 0 and not attempt.final:
        raise NeedMore(mark=re.compile(ticks))
    end = end if end >= 0 else len(attempt.text)
    calls = python_calls(attempt.text[attempt.pos : end])
    if not all(attempt.tools.is_name(call.name) for call in calls):
        raise NotACall
    attempt.calls += calls
    attempt.pos = end
