"""What the user ran since the last question. The model sees it once, with the next question it may belong to."""

from __future__ import annotations

import re

import msgspec

from aish.types.live_shell import RAN_MARK, RunEnd, RunResult

_MAX_ENTRIES = 20

_WORD = re.compile(r"[^\W_]{2,}")
# Words that refer to something before, or ask what became of it.
_REFERRING_WORDS = """
    this that these those it its they them here there above last latest previous again wrong why mean means fix error
    errors fail fails failed failing failure broken works worked output outputs printed result results happened missing
    explain problem problems issue solve das dies diese dieser dieses hier dort warum wieso weshalb fehler ausgabe
    ergebnis bedeutet falsch fehlt
"""
# Words that do not tell what a question is about.
_COMMON_WORDS = """
    what which when where with from have does done will would could should about your mine some into more most make
    made like list name names find know want need please tell show give using used than then only just also first next
    time times exit line lines command commands help
"""
_SOCIAL = frozenset({"hi", "hey", "hello", "thanks", "thank", "bye", "hallo", "danke"})
_REFERRING, _COMMON = frozenset(_REFERRING_WORDS.split()), frozenset(_COMMON_WORDS.split())


class _Run(msgspec.Struct, frozen=True):
    result: RunResult
    is_proposal: bool

    def describe(self, max_chars: int) -> str:
        return describe_run(self.result, max_chars, is_proposal=self.is_proposal)


class CommandContext:
    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._entries: list[_Run | str] = []
        self._is_pinned = False

    def add_run(self, run: RunResult, *, is_proposal: bool = False) -> None:
        """`is_proposal`: the model proposed the command, and the user chose to run it."""
        self._entries = [*self._entries[1 - _MAX_ENTRIES :], _Run(run, is_proposal)]

    def add_text(self, text: str) -> None:
        """Adds something else that the model should see, such as the answer of another model."""
        self._entries = [*self._entries[1 - _MAX_ENTRIES :], text]
        self.pin()

    @property
    def last_run(self) -> RunResult | None:
        return next((entry.result for entry in reversed(self._entries) if isinstance(entry, _Run)), None)

    def clear(self) -> None:
        self._entries = []
        self._is_pinned = False

    def pin(self) -> None:
        """Sends it with the next question, whatever that is about: the user attached it on purpose."""
        self._is_pinned = True

    def is_unrelated_to(self, question: str) -> bool:
        """Whether the question is clearly about something else: the commands succeeded, and the question names its own
        subject, refers to nothing before and shares no word with the commands."""
        if self._is_pinned or self.last_run is None or self.last_run.status:
            return False
        asked = {word.lower() for word in _WORD.findall(question)}
        subjects = {word for word in asked - _COMMON if len(word) > 3} | (asked & _SOCIAL)
        shown = {word.lower() for word in _WORD.findall(self.text())}
        return bool(subjects) and asked.isdisjoint(_REFERRING) and subjects.isdisjoint(shown)

    def text(self) -> str:
        """The context for the model; "" if nothing was run. The newest entries get the most room."""
        left = self._max_chars
        if not left:
            return ""
        texts: list[str] = []
        for entry in reversed(self._entries):
            if left <= 0:
                texts.append(f"[earlier: {len(self._entries) - len(texts)} more commands]")
                break
            text = _shorten(entry, left) if isinstance(entry, str) else entry.describe(left)
            left -= len(text)
            texts.append(text)
        return "\n\n".join(reversed(texts))


def describe_run(run: RunResult, max_chars: int, *, is_proposal: bool = False) -> str:
    head = f"{RAN_MARK} $ {run.line}\n[exit {run.status}]"
    if is_proposal:
        head += " (you proposed it)"
    if run.end in (RunEnd.LOST, RunEnd.EXITED):
        head += " (this ended the shell, and a new one took over)"
    output = run.output.strip("\n")
    return f"{head}\n{_shorten(output, max_chars)}" if output else head


def _shorten(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return text
    head = max_chars * 2 // 3
    tail = max_chars - head
    return f"{text[:head]}\n[… {len(text) - max_chars} characters left out …]\n{text[len(text) - tail :]}"
