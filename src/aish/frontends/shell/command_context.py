"""What the person ran, for the model to see: goes along with the next real question, once."""

from __future__ import annotations

import re

from aish.types.live_shell import RAN_MARK, RunEnd, RunResult

_MAX_PIECES = 20

_WORD = re.compile(r"[^\W_]{2,}")
# What points at something that was there before, or asks what became of it; and what says nothing of what a question
# is about.
_POINTING_WORDS = """
    this that these those it its they them here there above last latest previous again wrong why mean means fix error
    errors fail fails failed failing failure broken works worked output outputs printed result results happened missing
    explain problem problems issue solve das dies diese dieser dieses hier dort warum wieso weshalb fehler ausgabe
    ergebnis bedeutet falsch fehlt
"""
_COMMON_WORDS = """
    what which when where with from have does done will would could should about your mine some into more most make
    made like list name names find know want need please tell show give using used than then only just also first next
    time times exit line lines command commands help
"""
_SOCIAL = frozenset({"hi", "hey", "hello", "thanks", "thank", "bye", "hallo", "danke"})
_POINTING, _COMMON = frozenset(_POINTING_WORDS.split()), frozenset(_COMMON_WORDS.split())


class Attached:
    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._pieces: list[RunResult | str] = []
        self._insists = False

    def add(self, run: RunResult) -> None:
        self._pieces = [*self._pieces[1 - _MAX_PIECES :], run]

    def tell(self, text: str) -> None:
        """Something else the model should know, such as what another one answered."""
        self._pieces = [*self._pieces[1 - _MAX_PIECES :], text]
        self.insist()

    @property
    def last(self) -> RunResult | None:
        return next((piece for piece in reversed(self._pieces) if isinstance(piece, RunResult)), None)

    def clear(self) -> None:
        self._pieces = []
        self._insists = False

    def insist(self) -> None:
        """It was attached on purpose: it goes along with whatever is asked next."""
        self._insists = True

    def may_wait(self, question: str) -> bool:
        """Whether it is nothing but commands that went well, and the question is about something else: that it names,
        while it points at nothing and shares no word with them."""
        if self._insists or self.last is None or self.last.status:
            return False
        asked = {word.lower() for word in _WORD.findall(question)}
        named = {word for word in asked - _COMMON if len(word) > 3} | (asked & _SOCIAL)
        told = {word.lower() for word in _WORD.findall(self.peek())}
        return bool(named) and asked.isdisjoint(_POINTING) and named.isdisjoint(told)

    def peek(self) -> str:
        """For the model; "" if nothing was run since. The newest gets the most room."""
        left = self._max_chars
        if not left:
            return ""
        told: list[str] = []
        for piece in reversed(self._pieces):
            if left <= 0:
                told.append(f"[earlier: {len(self._pieces) - len(told)} more commands]")
                break
            text = _cut(piece, left) if isinstance(piece, str) else describe(piece, left)
            left -= len(text)
            told.append(text)
        return "\n\n".join(reversed(told))


def describe(run: RunResult, max_chars: int) -> str:
    head = f"{RAN_MARK} $ {run.line}\n[exit {run.status}]"
    if run.end is RunEnd.LOST:
        head += " (the shell was killed)"
    output = run.output.strip("\n")
    return f"{head}\n{_cut(output, max_chars)}" if output else head


def _cut(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return text
    head = max_chars * 2 // 3
    tail = max_chars - head
    return f"{text[:head]}\n[… {len(text) - max_chars} characters left out …]\n{text[len(text) - tail :]}"
