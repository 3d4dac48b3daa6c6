"""Finds the calls in a model's text as it streams. What is no call passes byte for byte, and as soon as that is sure.

Text without any character that could begin a call costs one search. Where one could begin, the text from there on is
held until it is a call or cannot be one. Code and thinking pass as they are, and so does JSON that is no call with all
that it holds: only marks count in it. What comes out does not depend on how the text was cut into pieces.

A call that is not finished when the text ends comes out with its arguments as they stand. These are no JSON, so nobody
can run it, and the model is told; without a name there is nothing to tell, and it is text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from aish.tool_calls.detect.bare import bare_list, bare_object, python_line
from aish.tool_calls.detect.call_cursor import Attempt, Found, NeedMore, NotACall, Tools
from aish.tool_calls.detect.envelope import CALL_KEYS, Written
from aish.tool_calls.detect.fenced import code, fence
from aish.tool_calls.detect.span import Span
from aish.tool_calls.detect.tagged import STARTS, read_tag
from aish.tool_calls.detect.verbatim import THINKING, Verbatim, thinking
from aish.types.tools import JsonSchema

# Arguments may hold a whole file; a model in a loop must not hold everything.
MAX_HELD_CHARS = 1024 * 1024
_FIRST_LOOK_CHARS = 1024
# What may be read in vain, beside as much as the text is long: so the work grows with the text and not with its square.
_FREE_WASTE_CHARS = 64 * 1024
_TAIL_CHARS = 64  # longer than any mark, which may lie across two pieces
_MARKS = "<[{`~"
_CODE_MARKS = "`~"
# What cannot be a call at the first look: objects with another first key (looked up), lists of values, comparisons, and
# all but the last of many brackets.
_PLAIN = re.compile(r"\{\s*\"(\w+)\"|(?:\[\s{0,20})+(?=[\"'\d\]\[-])|<+(?=[^tfr|｜]|t[^oh]|f[^u]|r[^e])|\{+(?=\{)")
# What is JSON, or code, if it is no call.
_DATA = re.compile(r"\{\s*[\"'“\w{]|\[\s*[{\[\"']")
_INNER_DATA = frozenset("\"'[{")
_STOPS_IN_DATA = re.compile(r"<(?=[tfr|｜]|\Z)|\[(?=T|\Z)|`{3}|~{3}|(?:`{1,2}|~{1,2})\Z")

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
        self._verbatim: Verbatim | None = None  # the code or thinking we are in
        self._data: Span | None = None  # the JSON we are in that is no call
        self._whole = False
        self._settled = 0  # characters of the text that came before what is looked at
        self._wasted = 0
        # A line may be a Python call: at the start of one, what the names begin with is a trigger, too.
        self._trigger, self._first = _triggers_for(self._tools.line_starts)
        self._at_line_start = True

    def passes(self, text: str) -> bool:
        """Whether the text can be handed on as it is: nearly always, and without a call of `feed`."""
        if self._waits is not None or self._verbatim or self._data:
            return False
        # Each of these by itself, and nearly always none: to look for six characters costs a tenth of the search.
        may_begin = "<" in text or "[" in text or "{" in text or "\n" in text or "`" in text or "~" in text
        if may_begin and self._trigger.search(text) is not None:
            return False
        if self._at_line_start and self._first.match(text) is not None:
            return False
        self._at_line_start = text[-1:] == "\n" or (self._at_line_start and not text)
        self._settled += len(text)
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
            if self._verbatim is not None:
                pos = self._pass_verbatim(self._verbatim, text, pos, pieces, final=final)
            elif self._data is not None:
                pos = self._pass_data(self._data, text, pos, pieces, final=final)
            else:
                pos = self._pass_text(text, pos, pieces, final=final)
        self._settled += len(text) - self._held_chars
        if self._waits is None and text:
            self._at_line_start = text[-1] == "\n"
        return _merged(pieces)

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
        if text[start] not in _CODE_MARKS and self._is_overdrawn(start):
            pieces.append(text[start])
            return start + 1
        return self._try(text, start, pieces, final=final, marked_only=self._marked_only)

    def _is_overdrawn(self, start: int) -> bool:
        """Whether too much was read in vain for what has come so far."""
        return self._wasted > _FREE_WASTE_CHARS + self._settled + start

    def _begin_data(self, passed: str) -> None:
        self._data = Span()
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
        """Where to go on after what begins here. Most beginnings are decided within a few characters, so that a look at
        these comes first; what it decides stands, since more text never changes it."""
        if len(text) - start > _FIRST_LOOK_CHARS:
            first = text[start : start + _FIRST_LOOK_CHARS]
            end = self._look(first, pieces, final=False, marked_only=marked_only)
            if end >= 0:
                return start + end
        end = self._look(text[start:], pieces, final=final, marked_only=marked_only)
        if end < 0:
            self._hold_back(text[start:])
        return start + end if end >= 0 else len(text)

    def _look(self, candidate: str, pieces: list[Piece], *, final: bool, marked_only: bool) -> int:
        """How much of the candidate is settled; -1 if more of it is needed."""
        self._waits = None
        attempt = Attempt(candidate, self._tools, final=final, whole=self._whole)
        try:
            found = _marked(attempt) if marked_only else _attempt(attempt)
        except NotACall as plain:
            self._wasted += max(attempt.reach, attempt.pos)
            self._let_go(candidate, plain, pieces)
            return plain.skip
        except NeedMore as waits:
            self._waits = waits
            return -1
        pieces += found.calls
        self._data = None
        return found.end

    def _let_go(self, candidate: str, plain: NotACall, pieces: list[Piece]) -> None:
        passed = candidate[: plain.skip]
        pieces.append(passed)
        self._verbatim = plain.verbatim
        if self._data is not None:
            self._data.feed(passed)
        elif not self._marked_only and _DATA.match(candidate):
            self._begin_data(passed)

    def _pass_verbatim(self, verbatim: Verbatim, text: str, pos: int, pieces: list[Piece], *, final: bool) -> int:
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

    def _pass_data(self, data: Span, text: str, pos: int, pieces: list[Piece], *, final: bool) -> int:
        """Up to its closing bracket, or to a mark outside of its strings: then it was no JSON after all."""
        found = _STOPS_IN_DATA.search(text, pos)
        stop = found.start() if found else len(text)
        length = data.feed(text[pos:stop])
        end = stop if length < 0 else pos + length
        pieces.append(text[pos:end])
        if length >= 0:
            self._data = None
        if length >= 0 or found is None:
            return end
        if data.in_string or (text[stop] not in _CODE_MARKS and self._is_overdrawn(stop)):
            return self._pass_in_data(data, text, stop, pieces)
        if text[stop] not in _CODE_MARKS:
            return self._try(text, stop, pieces, final=final, marked_only=True)
        if len(found[0]) < 3:
            return self._pass_in_data(data, text, stop, pieces) if final else self._hold_rest(text, stop)
        self._data = None
        return stop

    def _pass_in_data(self, data: Span, text: str, pos: int, pieces: list[Piece]) -> int:
        pieces.append(text[pos])
        if data.feed(text[pos]) >= 0:
            self._data = None
        return pos + 1


@lru_cache(maxsize=32)
def _triggers_for(line_starts: frozenset[str]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """In a text, and at the start of a line. One set of characters comes first: that is looked for three times as fast
    as one of several beginnings."""
    firsts = "".join(sorted({re.escape(name[0]) for name in line_starts if name}))
    return re.compile(rf"[<\[{{`~\n](?:(?<![~\n])|(?<=~)(?:~|\Z)|(?<=\n)(?=[{firsts}]))"), re.compile(f"[{firsts}]")


def _is_data(text: str, plain: re.Match[str]) -> bool:
    return plain[0][0] != "<" and (text[plain.end()] in _INNER_DATA or plain[0].count("[") > 1)


def _merged(pieces: list[Piece]) -> list[Piece]:
    """Texts that follow each other made one."""
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


def _attempt(attempt: Attempt) -> Found:
    """Reads what begins at the start of the text. Raises NotACall or NeedMore."""
    char = attempt.text[0]
    if char not in _MARKS:
        python_line(attempt)
    elif char in _CODE_MARKS:
        fence(attempt)
    elif char == "{":
        bare_object(attempt)
    elif not _tag(attempt):
        if char != "[":
            raise NotACall
        bare_list(attempt)
    return attempt.found()


def _marked(attempt: Attempt) -> Found:
    """The same, where only marks count. Code is still passed over, with all that it quotes."""
    if attempt.text[0] in _CODE_MARKS:
        code(attempt)
    if attempt.text[0] not in "<[" or not _tag(attempt):
        raise NotACall
    return attempt.found()


def _tag(attempt: Attempt) -> bool:
    opener = attempt.take(*STARTS, *THINKING)
    if opener in THINKING:
        raise NotACall(len(opener), thinking(opener))
    if opener:
        attempt.pos = 0
        read_tag(attempt, opener)
    return bool(opener)
