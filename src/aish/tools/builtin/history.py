"""`history__search`: finds what was said earlier in the session of the call, in turns that are no longer sent.

It reads that session only, which the sender of the request may use anyway. Stored turns are redacted.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import msgspec

from aish.errors import ToolError
from aish.ports import CallContext, Store
from aish.types.checkpoints import REWIND_KIND, SessionRewinds
from aish.types.messages import AssistantMessage, Message, TextPart, ToolMessage, UserMessage
from aish.types.records import TurnRecord
from aish.types.tools import HISTORY_SEARCH, HISTORY_SOURCE, Arguments, Effect, ResultStatus, ToolOutput, ToolSpec

_MAX_FOUND = 8
_MAX_WORDS = 50
_EXCERPT_CHARS = 500
_MAX_TURN_CHARS = 16_000
_PAGE = 200  # turns read at once
_MAX_TURNS = 10_000  # of a session; a month of steady work

_SPEC = ToolSpec(
    HISTORY_SEARCH.removeprefix(f"{HISTORY_SOURCE}__"),
    "Find what was said earlier in this conversation and is now only in the notes: messages that hold the most words "
    "of the query, the newest first. With `turn`, the whole of that turn.",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "words that the messages hold"},
            "turn": {"type": "integer", "minimum": 1, "description": "the number of a turn that was found"},
        },
        "additionalProperties": False,
    },
    Effect.READ,
    HISTORY_SOURCE,
    timeout_s=20,
)
_SPECS = (_SPEC,)


class HistoryTools:
    """`store` opens the store when it is first needed."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    def specs(self) -> Sequence[ToolSpec]:
        return _SPECS

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        if name != _SPEC.name:
            raise ToolError(f"there is no tool {name}", status=ResultStatus.UNKNOWN_TOOL)
        if not context.session:
            raise ToolError("this call belongs to no session, so there is nothing to search")
        if (number := arguments.get("turn")) is not None:
            text = await self._read_turn(context.session, int(number))
        else:
            text = await self._search(context.session, str(arguments.get("query", "")))
        return ToolOutput((TextPart(text),))

    async def aclose(self) -> None:
        """The store belongs to others."""

    async def _search(self, session: str, query: str) -> str:
        words = set(query.casefold().split()[:_MAX_WORDS])
        if not words:
            raise ToolError("there is nothing to search for; give a query or a turn", status=ResultStatus.BAD_ARGUMENTS)
        rewinds = await self._find_rewinds(session)
        best: list[_Found] = []
        async for page in self._pages(session):
            turns = [turn for turn in page if not rewinds.has_cut(turn.number)]
            best = heapq.nlargest(_MAX_FOUND, (*best, *await asyncio.to_thread(_find_in, turns, words)))
        shown = (f"turn {number}, {role}: {_excerpt(text, words)}" for _, number, _, role, text in best)
        return "\n\n".join(shown) or "nothing was found"

    async def _read_turn(self, session: str, number: int) -> str:
        turns = await self._store().list_turns(session, before=number + 1, limit=1)
        if not turns or turns[0].number != number or (await self._find_rewinds(session)).has_cut(number):
            raise ToolError(f"there is no turn {number}", status=ResultStatus.BAD_ARGUMENTS)
        text = "\n\n".join(f"{role}: {text}" for role, text in _texts(turns[0].messages))
        if len(text) <= _MAX_TURN_CHARS:
            return text
        return f"{text[:_MAX_TURN_CHARS]}\n[aish] … {len(text) - _MAX_TURN_CHARS} characters left out …"

    async def _find_rewinds(self, session: str) -> SessionRewinds:
        """Which turns the user has taken back: they are not found."""
        document = await self._store().find(REWIND_KIND, session)
        return msgspec.json.decode(document.body, type=SessionRewinds) if document else SessionRewinds()

    async def _pages(self, session: str) -> AsyncIterator[Sequence[TurnRecord]]:
        """All turns in pages, the newest page first."""
        before: int | None = None
        for _ in range(_MAX_TURNS // _PAGE):
            page = await self._store().list_turns(session, before=before, limit=_PAGE)
            yield page
            if len(page) < _PAGE:
                return
            before = page[0].number


_Found = tuple[int, int, int, str, str]  # words that were found, turn, message, role, text


def _find_in(turns: Sequence[TurnRecord], words: set[str]) -> list[_Found]:
    found: list[_Found] = []
    for turn in turns:
        for place, (role, text) in enumerate(_texts(turn.messages)):
            lowered = text.casefold()
            if count := sum(word in lowered for word in words):
                found.append((count, turn.number, place, role, text))
    return heapq.nlargest(_MAX_FOUND, found)


def _texts(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    for message in messages:
        match message:
            case UserMessage():
                yield "user", message.text
            case AssistantMessage(text, calls):
                called = "\n".join(f"{call.name} {call.arguments}" for call in calls)
                yield "assistant", "\n".join(filter(None, (text, called)))
            case ToolMessage(name=name):
                yield f"result of {name}", message.text
            case _:
                pass


def _excerpt(text: str, words: set[str]) -> str:
    """The text around the first word that is found."""
    lowered = text.casefold()
    first = min(place for word in words if (place := lowered.find(word)) >= 0)
    begin = max(0, first - _EXCERPT_CHARS // 3)
    cut = text[begin : begin + _EXCERPT_CHARS]
    return f"{'… ' if begin else ''}{cut}{' …' if begin + _EXCERPT_CHARS < len(text) else ''}"
