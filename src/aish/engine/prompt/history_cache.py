"""Caches the turns of recent sessions, so that each turn of a long session reads one new record instead of all."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence

from aish.engine.prompt.token_counts import max_tokens_of
from aish.ports import Store
from aish.types.messages import Message, ToolMessage
from aish.types.records import SessionRecord, TurnRecord

# Turns are read in pages that begin at fixed numbers: which turns leave the window depends on where reading began.
_PAGE = 200
# Sessions in use at the same time. Of each, no more is cached than a window may hold.
_MAX_SESSIONS = 64
# A session with more text is read anew for each turn, which a turn of that size does not notice. 64 of these would
# take a quarter of a gigabyte.
_MAX_SESSION_BYTES = 4 * 1024 * 1024

Close = Callable[[TurnRecord], Awaitable[TurnRecord]]


class PastTurn:
    """A turn as the model is shown it. `max_tokens` bounds its size without counting."""

    __slots__ = ("max_tokens", "messages", "number", "result_ids", "sizes")

    def __init__(self, number: int, messages: tuple[Message, ...]) -> None:
        self.number = number
        self.messages = messages
        self.max_tokens = sum(max_tokens_of(message) for message in messages)
        self.result_ids = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
        self.sizes: dict[str, float] = {}  # by model


class _CachedSession:
    def __init__(self, created_ms: int) -> None:
        self.created_ms = created_ms
        self.turns: list[PastTurn] = []  # in order
        self.first = 0  # turns `first..last` are cached; 0: none
        self.last = 0
        self.size = 0  # about, in bytes


class HistoryCache:
    """`close` ends a turn whose process died."""

    def __init__(self, store: Store, close: Close) -> None:
        self._store = store
        self._close = close
        self._cached: OrderedDict[str, _CachedSession] = OrderedDict()

    async def turns(self, session: SessionRecord, *, enough: int | None, after: int = 0) -> Sequence[PastTurn]:
        """The newest turns in order: all numbered above `after`, or as many as surely hold more than `enough` bytes."""
        cached = self._cached.get(session.id)
        if cached is None or cached.created_ms != session.created_ms or cached.last > session.turns:
            cached = self._cached[session.id] = _CachedSession(session.created_ms)
        self._cached.move_to_end(session.id)
        while len(self._cached) > _MAX_SESSIONS:
            self._cached.popitem(last=False)
        if cached.last < session.turns:
            await self._read_new(session, cached)
        while cached.first > after + 1 and (enough is None or sum(turn.max_tokens for turn in cached.turns) < enough):
            await self._read_older(session.id, cached)
        if cached.size > _MAX_SESSION_BYTES:
            self._cached.pop(session.id, None)
        return [turn for turn in cached.turns if turn.number > after]

    async def _read_new(self, session: SessionRecord, cached: _CachedSession) -> None:
        missing = session.turns - cached.last
        is_next = cached.first > 0 and missing <= _PAGE
        records = await self._store.list_turns(
            session.id, limit=missing if is_next else (session.turns - 1) % _PAGE + 1
        )
        if not is_next:
            cached.turns.clear()
            cached.size = cached.first = 0
        new = await self._close_all(turn for turn in records if turn.number > cached.last)
        cached.turns += new
        cached.size += sum(turn.max_tokens for turn in new)
        if records:
            cached.first = cached.first or records[0].number
            cached.last = session.turns

    async def _read_older(self, session: str, cached: _CachedSession) -> None:
        records = await self._store.list_turns(session, before=cached.first, limit=_PAGE)
        older = await self._close_all(records)
        cached.turns[:0] = older
        cached.size += sum(turn.max_tokens for turn in older)
        cached.first = records[0].number if records else 1

    async def _close_all(self, records: Iterable[TurnRecord]) -> list[PastTurn]:
        closed = [await self._close(record) for record in records]
        return [PastTurn(turn.number, turn.messages) for turn in closed if turn.messages]
