"""What the side shell answers: its records parsed, its candidates made fit for the line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from aish.tools.bash.completion.words import Split, quoted
from aish.types.live_shell import Candidate, Completions

_MAX_CANDIDATES = 1000
# More than any completion that helps anybody; what comes beyond is not kept.
_ANSWER_MAX_BYTES = 4 * 1024 * 1024


class Answer(msgspec.Struct, frozen=True):
    number: str
    candidates: tuple[str, ...]
    words: str
    options: str


class AnswerParser:
    def __init__(self) -> None:
        self.group = 0
        self._rest = b""
        self._candidates: list[str] = []
        self._words = ""
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Answer]:
        *records, self._rest = (self._rest + data).split(b"\0")
        self._rest = self._rest[:_ANSWER_MAX_BYTES]
        for record in records:
            kind, _, text = os.fsdecode(record).partition("\n" if record[:5] in (b"words", b"lines") else " ")
            if kind == "end":
                yield self._end(text)
            elif kind == "pid":
                self.group = int(text)
            elif kind == "words":
                self._words = text
            elif self._size < _ANSWER_MAX_BYTES:
                self._size += len(text)
                self._candidates += text.splitlines() if kind == "lines" else [text]

    def _end(self, text: str) -> Answer:
        number, _, options = text.partition(" ")
        answer = Answer(number, tuple(dict.fromkeys(self._candidates)), self._words, options)
        self._candidates, self._words, self._size = [], "", 0
        return answer


def completions_of(answer: Answer, cut: Split, cwd: str) -> Completions:
    options = answer.options.split()
    fitting = [text for text in answer.candidates if text]
    kept = sorted(fitting)[:_MAX_CANDIDATES]
    if "filenames" in options:
        candidates = tuple(_file(text, cut.quote, cwd) for text in kept)
    else:
        ends = "nospace" not in options
        candidates = tuple(Candidate(text.rstrip(" "), ends_word=ends or text.endswith(" ")) for text in kept)
    return Completions(cut.start, candidates, len(fitting) - len(kept))


def _file(text: str, quote: str, cwd: str) -> Candidate:
    path = Path(cwd, Path(text).expanduser() if text.startswith("~") else text)
    folder = path.is_dir()
    name = quoted(text.rstrip("/") + "/" if folder else text, quote)
    return Candidate(name if folder or not quote else name + quote, ends_word=not folder)
