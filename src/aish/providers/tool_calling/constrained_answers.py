"""Reads a constrained answer while it streams: decodes the text of `{"answer": …}`, and passes a call's arguments on.

If a backend promised the schema and does not follow it, its answer is read like any other text, and calls are looked
for. Not behind an answer: a model that has answered does not call, so the rest is text. Text after the arguments within
a call's object is added to them. They are no JSON then, so the call does not run and the model gets an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from aish.tool_calls.detect.spans import BracketSpan
from aish.types.chunks import CallFragment, Chunk
from aish.types.events import TextDelta

_CALL = re.compile(r'\s*\{\s*"name"\s*:\s*"((?:[^"\\]|\\.){1,256})"\s*,\s*"arguments"\s*:\s*(?=\{)')
_ANSWER = re.compile(r'\s*\{\s*"answer"\s*:\s*(?=\S)')
_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{:,]|\Z)', re.S)
# The tokens that an answer may begin with; None is any string.
_FORMS: tuple[tuple[str | None, ...], ...] = (
    ("{", '"name"', ":", None, ",", '"arguments"', ":"),
    ("{", '"answer"', ":"),
)
_MAX_HEAD_CHARS = 600
_STRING_END = re.compile(r'"|\\.?', re.S)
_OPEN_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z")


class TextReader(Protocol):
    """Reads text that may contain calls."""

    def text(self, text: str) -> list[Chunk]: ...

    def finish(self, *, is_complete: bool) -> list[Chunk]: ...

    @property
    def is_within_call(self) -> bool: ...


class ConstrainedReader:
    """`free` reads text that does not follow the schema. `new_index` numbers calls."""

    def __init__(self, free: TextReader, new_index: Callable[[], int]) -> None:
        self._free = free
        self._new_index = new_index
        self._head = ""
        self._state = self._in_head
        self._span = BracketSpan()
        self._index = 0

    @property
    def is_within_call(self) -> bool:
        return self._state in (self._in_arguments, self._in_tail) or self._free.is_within_call

    def passes(self, text: str) -> bool:
        return False

    def text(self, text: str) -> list[Chunk]:
        chunks: list[Chunk] = []
        while text:
            text = self._state(text, chunks)
        return chunks

    def finish(self, *, is_complete: bool) -> list[Chunk]:
        chunks: list[Chunk] = []
        if self._head and self._state == self._in_string:
            _add(chunks, _decode(self._head))
        elif self._head.strip():
            chunks += self._free.text(self._head)
        self._head = ""
        return [*chunks, *self._free.finish(is_complete=is_complete)]

    def _in_head(self, text: str, chunks: list[Chunk]) -> str:
        head = self._head + text
        if call := _CALL.match(head):
            self._head, self._span, self._index = "", BracketSpan(), self._new_index()
            chunks.append(CallFragment(self._index, name=_decode(call[1])))
            self._state = self._in_arguments
            return head[call.end() :]
        if answer := _ANSWER.match(head):
            return self._begin_answer(head[answer.end() :])
        if _may_become(head):
            self._head = head
            return ""
        self._head, self._state = "", self._in_free_text
        return head

    def _begin_answer(self, rest: str) -> str:
        self._head = ""
        if rest[0] == '"':
            self._state = self._in_string
            return rest[1:]
        self._span = BracketSpan()
        self._state = self._in_value if rest[0] in "{[" else self._in_scalar
        return rest

    def _in_arguments(self, text: str, chunks: list[Chunk]) -> str:
        end = self._span.feed(text)
        chunks.append(CallFragment(self._index, arguments=text if end < 0 else text[:end]))
        if end < 0:
            return ""
        self._state = self._in_tail
        return text[end:]

    def _in_value(self, text: str, chunks: list[Chunk]) -> str:
        """An answer that is JSON itself: its text is the answer."""
        end = self._span.feed(text)
        _add(chunks, text if end < 0 else text[:end])
        if end < 0:
            return ""
        self._state = self._in_end
        return text[end:]

    def _in_scalar(self, text: str, chunks: list[Chunk]) -> str:
        value, brace, rest = text.partition("}")
        _add(chunks, value)
        if brace:
            self._state = self._in_end
        return brace + rest

    def _in_string(self, text: str, chunks: list[Chunk]) -> str:
        text = self._head + text
        self._head = ""
        pos = 0
        while found := _STRING_END.search(text, pos):
            if found[0] == '"':
                _add(chunks, _decode(text[: found.start()]))
                self._state = self._in_end
                return text[found.end() :]
            pos = found.end()
        held = _OPEN_ESCAPE.search(text)
        cut = held.start() if held else len(text)
        _add(chunks, _decode(text[:cut]))
        self._head = text[cut:]
        return ""

    def _in_tail(self, text: str, chunks: list[Chunk]) -> str:
        """The closing bracket of a call. Another object after it is read like the first."""
        rest = text.lstrip()
        if rest.startswith("}"):
            self._state = self._in_head
            return rest[1:].lstrip()
        if rest:
            self._state = self._in_excess
        return rest

    def _in_excess(self, text: str, chunks: list[Chunk]) -> str:
        chunks.append(CallFragment(self._index, arguments=text))
        return ""

    def _in_end(self, text: str, chunks: list[Chunk]) -> str:
        """The closing bracket of an answer, and superfluous ones."""
        rest = text.lstrip("} \t\r\n")
        if rest:
            self._state = self._in_rest
        return rest

    def _in_rest(self, text: str, chunks: list[Chunk]) -> str:
        _add(chunks, text)
        return ""

    def _in_free_text(self, text: str, chunks: list[Chunk]) -> str:
        chunks += self._free.text(text)
        return ""


def _may_become(head: str) -> bool:
    """Whether it can only be the beginning of a call or of an answer."""
    tokens: list[str] = []
    pos = 0
    while pos < len(head):
        found = _TOKEN.match(head, pos)
        if found is None or found.end() == pos:
            return False
        tokens += [found[1]] if found[1] else []
        pos = found.end()
    return len(head) <= _MAX_HEAD_CHARS and any(_begins(form, tokens) for form in _FORMS)


def _begins(form: Sequence[str | None], tokens: Sequence[str]) -> bool:
    if len(tokens) > len(form):
        return False
    pairs = list(zip(form, tokens, strict=False))
    complete = all(want == token or (want is None and token[0] == '"') for want, token in pairs[:-1])
    return complete and all(want.startswith(token) if want else token[0] == '"' for want, token in pairs[-1:])


def _add(chunks: list[Chunk], text: str) -> None:
    if text:
        chunks.append(TextDelta(text))


def _decode(content: str) -> str:
    """Decodes the content of a JSON string. Half a character becomes a replacement character."""
    if "\\" not in content:
        return content
    try:
        return msgspec.json.decode(f'"{content}"', type=str)
    except msgspec.DecodeError:
        pass
    try:
        return (
            str(json.loads(f'"{content}"', strict=False)).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )
    except ValueError:
        return content
