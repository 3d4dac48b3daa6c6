"""The turns a session has had, kept at hand: each turn of a long session reads one new record, not all of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence

from aish.engine.prompt.token_counts import most_tokens
from aish.ports import Store
from aish.types.messages import Message, ToolMessage
from aish.types.records import SessionRecord, TurnRecord

_PAGE = 200
# Sessions answered in at about the same time; of each no more is kept than a window may hold.
_MAX_SESSIONS = 64

Close = Callable[[TurnRecord], Awaitable[TurnRecord]]


class PastTurn:
    """A turn as the model is shown it. `most_tokens` bounds its size without counting."""

    __slots__ = ("messages", "most_tokens", "number", "result_ids", "sizes")

    def __init__(self, number: int, messages: tuple[Message, ...]) -> None:
        self.number = number
        self.messages = messages
        self.most_tokens = sum(most_tokens(message) for message in messages)
        self.result_ids = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
        self.sizes: dict[str, float] = {}  # by model


class _Kept:
    def __init__(self, created_ms: int) -> None:
        self.created_ms = created_ms
        self.turns: list[PastTurn] = []  # in order
        self.first = 0  # numbers `first..last` have been read; 0: none
        self.last = 0


class HistoryCache:
    """`close` gives a turn its end if its process died before it could."""

    def __init__(self, store: Store, close: Close) -> None:
        self._store = store
        self._close = close
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def turns(self, session: SessionRecord, *, enough: int | None, after: int = 0) -> Sequence[PastTurn]:
        """The newest, in order: all those numbered above `after`, or as many as surely are more than `enough` bytes."""
        kept = self._kept.get(session.id)
        if kept is None or kept.created_ms != session.created_ms or kept.last > session.turns:
            kept = self._kept[session.id] = _Kept(session.created_ms)
        self._kept.move_to_end(session.id)
        while len(self._kept) > _MAX_SESSIONS:
            self._kept.popitem(last=False)
        if kept.last < session.turns:
            await self._read_new(session, kept)
        while kept.first > after + 1 and (enough is None or sum(turn.most_tokens for turn in kept.turns) < enough):
            await self._read_older(session.id, kept)
        return [turn for turn in kept.turns if turn.number > after]

    async def _read_new(self, session: SessionRecord, kept: _Kept) -> None:
        missing = session.turns - kept.last
        records = await self._store.list_turns(session.id, limit=min(missing, _PAGE))
        if missing > _PAGE:
            kept.turns.clear()
        kept.turns += await self._closed(turn for turn in records if turn.number > kept.last)
        if records:
            kept.first = kept.first if kept.first and missing <= _PAGE else records[0].number
            kept.last = session.turns

    async def _read_older(self, session: str, kept: _Kept) -> None:
        records = await self._store.list_turns(session, before=kept.first, limit=_PAGE)
        kept.turns[:0] = await self._closed(records)
        kept.first = records[0].number if records else 1

    async def _closed(self, records: Iterable[TurnRecord]) -> list[PastTurn]:
        closed = [await self._close(record) for record in records]
        return [PastTurn(turn.number, turn.messages) for turn in closed if turn.messages]
