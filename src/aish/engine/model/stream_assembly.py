"""Turns one step's chunks into events, putting tool calls together from their fragments.

Backends differ: fragments of several calls interleave, `index` or `id` or `name` may be missing, ids repeat from step
to step. What leaves here is uniform: started (with a name), argument deltas, ready; each call with an id unique in
its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from msgspec import UNSET

from aish.engine.turn.events import EventFactory
from aish.types.chunks import Batch, CallFragment, StepEnd, StepFinished, UsageChunk
from aish.types.events import (
    ArgumentsDelta,
    Body,
    Event,
    ReasoningDelta,
    Status,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
)
from aish.types.ids import new_id
from aish.types.messages import ToolCall
from aish.types.tools import Repair
from aish.types.usage import Usage

# More than any sane step makes; a backend that streams endless new calls is cut off here.
MAX_CALLS = 128
# A megabyte of arguments is legal, if odd; a model in a loop must not eat memory.
MAX_ARGUMENTS_CHARS = 4 * 1024 * 1024
# An answer longer than any window; a backend that never ends one is cut off here.
MAX_TEXT_CHARS = 8 * 1024 * 1024
NAMELESS = "nameless_tool"

# An answer is cut when so many characters at its end repeat one short piece. Small models often fall into that; a
# screen has 2000 characters, and horizontal rules are shorter than 900.
WEAK_LOOP_CHARS = 900
# A capable model may be asked for pages of the same row.
LOOP_CHARS = 60_000
_CHECK_EVERY_CHARS = 300
_MAX_PERIOD = 300
_PROBE_CHARS = 60


class _Draft:
    """A call being put together."""

    def __init__(self, index: int, call: str) -> None:
        self.index = index
        self.call = call
        self.backend_id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.repairs: tuple[Repair, ...] = ()
        self.size = 0


class StepAssembler(msgspec.Struct, eq=False):
    """The answer of the model in one step: its calls, its usage and how it ended.

    `own_ids`: each call gets an id of ours, since some backends use an id again and again.
    """

    _events: EventFactory
    _used_ids: set[str]
    _canonical: Callable[[str], str]
    own_ids: bool = False
    _drafts: dict[int, _Draft] = {}
    _current: _Draft | None = None
    _noted_index: bool = False
    calls: list[ToolCall] = []
    end: StepEnd | None = None
    usage: Usage | None = None
    text_chars: int = 0
    check_at_chars: int = 0  # when the text has so many characters, it is checked for repetition

    @property
    def has_output(self) -> bool:
        return bool(self.text_chars or self._drafts)

    @property
    def is_full(self) -> bool:
        """Whether the answer has reached a length at which it is cut."""
        return self.text_chars >= MAX_TEXT_CHARS

    def must_be_checked(self) -> bool:
        """Whether enough text came since the last check for its length and for repetition."""
        if self.text_chars < self.check_at_chars:
            return False
        self.check_at_chars = self.text_chars + max(_CHECK_EVERY_CHARS, self.text_chars // 50)
        return True

    @property
    def is_complete(self) -> bool:
        """Whether the model ended by itself. Only then may a closing bracket be missing from a call."""
        return self.end in (StepEnd.STOP, StepEnd.TOOL_CALLS)

    @property
    def cut_calls(self) -> frozenset[str]:
        """Ids of calls that are not complete: the model was stopped in them, or their arguments are too long."""
        last = {self.calls[-1].id} if self.calls and self.end is StepEnd.LENGTH else set()
        return frozenset(last | {draft.call for draft in self._drafts.values() if draft.size > MAX_ARGUMENTS_CHARS})

    def feed(self, batch: Batch) -> list[Event]:
        if len(batch) == 1 and type(chunk := batch[0]) is TextDelta:  # as a model says it
            self.text_chars += len(chunk.text)
            return [self._events.event(chunk)]
        words: list[Body] = []  # the batch begins with them; nearly always they are all of it
        for chunk in batch:
            if type(chunk) is not TextDelta:
                break
            words.append(chunk)
            self.text_chars += len(chunk.text)
        events = self._events.events(words) if words else []
        event = self._events.event
        for chunk in batch[len(words) :]:
            if type(chunk) is TextDelta or type(chunk) is ReasoningDelta:
                self.text_chars += len(chunk.text)
                events.append(event(chunk))
            elif type(chunk) is CallFragment:
                self._fragment(chunk, events)
            elif type(chunk) is UsageChunk:
                self.usage = chunk.usage
            elif type(chunk) is StepFinished:
                self.end = chunk.end
            elif type(chunk) is Status:
                events.append(event(chunk))
        return events

    def finish(self) -> list[Event]:
        """Makes every draft a ready call, in the order they began. All fragments are in."""
        return list(self._ready()) if self._drafts else []

    def _ready(self) -> Iterator[Event]:
        for draft in self._drafts.values():
            if not draft.name:
                yield from self._start(draft, NAMELESS)
            call = ToolCall(draft.call, draft.name, "".join(draft.pieces))
            self.calls.append(call)
            yield self._events.event(ToolCallReady(call.name, call.arguments, draft.repairs or UNSET), call.id)

    def _fragment(self, fragment: CallFragment, events: list[Event]) -> None:
        if fragment.index is None and not self._noted_index:
            self._noted_index = True
            note = "the backend leaves out the index of tool calls; reading them in order"
            events.append(self._events.event(Status(note)))
        draft = self._draft_for(fragment)
        if draft is None:
            return
        if fragment.name and not draft.name:
            events += self._start(draft, fragment.name)
        if fragment.repairs:
            draft.repairs += fragment.repairs
        piece = fragment.arguments
        draft.size += len(piece)
        if not piece or draft.size > MAX_ARGUMENTS_CHARS:
            return
        draft.pieces.append(piece)
        if draft.name:
            events.append(self._events.event(ArgumentsDelta(piece), draft.call))

    def _draft_for(self, fragment: CallFragment) -> _Draft | None:
        draft = self._current if fragment.index is None else self._drafts.get(fragment.index)
        if draft is None or (fragment.index is None and _begins_another(draft, fragment)):
            if len(self._drafts) >= MAX_CALLS:
                self._current = None  # drop what follows without an index, too
                return None
            draft = self._open(fragment)
        elif fragment.id and not draft.backend_id:
            draft.backend_id = fragment.id
        self._current = draft
        return draft

    def _open(self, fragment: CallFragment) -> _Draft:
        index = max(self._drafts, default=-1) + 1 if fragment.index is None else fragment.index
        draft = _Draft(index, self._unique(fragment.id))
        draft.backend_id = fragment.id
        self._drafts[index] = draft
        return draft

    def _unique(self, backend_id: str) -> str:
        usable = backend_id and not self.own_ids and backend_id not in self._used_ids
        call = backend_id if usable else new_id("call")
        self._used_ids.add(call)
        return call

    def _start(self, draft: _Draft, name: str) -> Iterator[Event]:
        draft.name = self._canonical(name)
        yield self._events.event(ToolCallStarted(draft.index, draft.name), draft.call)
        for piece in draft.pieces:
            yield self._events.event(ArgumentsDelta(piece), draft.call)


def _begins_another(draft: _Draft, fragment: CallFragment) -> bool:
    """Without an index, a new id (or, where ids are missing, a new name after arguments) begins the next call."""
    if fragment.id and draft.backend_id:
        return fragment.id != draft.backend_id
    return bool(fragment.name and draft.name and draft.pieces)


def repetition_chars(*, is_weak: bool) -> int:
    """How many repetitive characters make an answer of this model useless."""
    return WEAK_LOOP_CHARS if is_weak else LOOP_CHARS


def is_repetitive(text: str, chars: int = WEAK_LOOP_CHARS) -> bool:
    """Whether the last `chars` characters are one short piece, repeated exactly."""
    tail = text[-chars:]
    if len(tail) < chars:
        return False
    before = tail.rfind(tail[-_PROBE_CHARS:], 0, len(tail) - 1)
    period = len(tail) - _PROBE_CHARS - before
    return before >= 0 and period <= _MAX_PERIOD and tail[period:] == tail[:-period]
