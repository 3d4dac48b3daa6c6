"""Opens the conversation that a turn continues: a session's own, or one that the client brings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from aish.engine.model.router import Route
from aish.engine.prompt.compaction import Summaries, Summary
from aish.engine.prompt.history_cache import HistoryCache, PastTurn
from aish.engine.prompt.window import budget_for
from aish.engine.rewind import find_rewinds
from aish.engine.turn.recovery import close_interrupted_turn
from aish.engine.turn.resume_state import restore_context
from aish.errors import SessionBusy, SessionNotFound
from aish.ports import Clock, ProcessLiveness, Store
from aish.types.context import ContextRules
from aish.types.messages import Message, SystemMessage, UserMessage
from aish.types.records import SessionRecord, TurnRecord
from aish.types.requests import TurnRequest

_TITLE_CHARS = 80
# No tokenizer averages more bytes per token, so this many bytes surely fill a window.
_BYTES_PER_TOKEN_AT_MOST = 16

Redact = Callable[[str], str]
RedactMessages = Callable[[tuple[Message, ...]], tuple[Message, ...]]


class Conversation(msgspec.Struct, frozen=True):
    """`bounded`: aish keeps the conversation, or may drop turns of it to fit the window. `system` is the system message
    of a client's own conversation."""

    past: Sequence[PastTurn] = ()
    summary: Summary = Summary()
    bounded: bool = True
    system: str = ""

    def after(self, summary: Summary) -> Conversation:
        """The same conversation, whose earlier turns are in the summary."""
        past = [turn for turn in self.past if turn.number > summary.upto]
        return msgspec.structs.replace(self, past=past, summary=summary)

    def without(self, turns: Sequence[PastTurn]) -> Conversation:
        """The same conversation without its first turns."""
        return msgspec.structs.replace(self, past=self.past[len(turns) :])


class Conversations:
    """`running` are the ids of the turns under way in this process."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        liveness: ProcessLiveness,
        rules: ContextRules,
        summaries: Summaries,
        running: Collection[str],
        redact: Redact,
        redact_messages: RedactMessages,
    ) -> None:
        self._store = store
        self._clock = clock
        self._liveness = liveness
        self._rules = rules
        self._summaries = summaries
        self._running = running
        self._redact = redact
        self._redact_messages = redact_messages
        self._past = HistoryCache(store, self._close)

    async def open(self, session: str, request: TurnRequest, route: Route) -> Conversation:
        """A named session must exist, unless the client brings the history."""
        if not session:
            return await self._open_clients(request)
        record = await self._store.find_session(session) if request.session else None
        if record is not None:
            return await self._open_session(record, request, route)
        if request.session and request.context is None and not request.may_be_new:
            raise SessionNotFound(f"no session {session}", hint="`aish sessions list` shows what there is")
        now_ms = self._clock.now_ms()
        title = self._redact(_title(request.input))
        if request.parent:
            title = f"{request.agent}: {title}"[:_TITLE_CHARS]
        record = SessionRecord(session, now_ms, now_ms, title, route.name, parent=request.parent)
        await self._store.create_session(record)
        return _as_one_turn(request.context or (), bounded=request.context is None)

    async def take_over(self, session: str, left_by: str) -> None:
        """Closes the turn left open by a process that has lost its run, even if that process may live."""
        for turn in await self._store.list_turns(session, limit=1):
            if turn.end is None and turn.owner == left_by:
                await close_interrupted_turn(turn, self._store, self._clock, self._redact_messages)

    async def preview(self, session: str, route: Route, *, everything: bool = False) -> Conversation:
        """The conversation as a turn would find it. A session that does not exist has no history. `everything`: also
        turns that no window could hold."""
        record = await self._store.find_session(session) if session else None
        return await self._own(record, route, everything=everything) if record is not None else Conversation()

    async def history(self, session: str) -> tuple[Message, ...]:
        """All messages of a session that were not rewound."""
        rewinds = await find_rewinds(self._store, session)
        turns = [await self._close(turn) for turn in await self._store.list_turns(session)]
        return tuple(message for turn in turns if not rewinds.has_cut(turn.number) for message in turn.messages)

    async def _open_clients(self, request: TurnRequest) -> Conversation:
        restored = await restore_context(self._store, request.context) if request.context else ()
        return _in_turns(restored) if request.fit else _as_one_turn(restored, bounded=False)

    async def _open_session(self, record: SessionRecord, request: TurnRequest, route: Route) -> Conversation:
        own = await self._own(record, route)  # even if unused, since it closes turns that a crash left open
        return own if request.context is None else await self._open_clients(request)

    async def _own(self, record: SessionRecord, route: Route, *, everything: bool = False) -> Conversation:
        summary = await self._summaries.find(record.id) if record.turns else Summary()
        if summary.upto > record.turns:  # those turns are gone
            summary = Summary()
        budget = budget_for(route.info.context_size, self._rules, None)
        rewinds = await find_rewinds(self._store, record.id)
        is_bounded = budget is not None and not (summary.upto or rewinds.cuts or everything)
        enough = budget * _BYTES_PER_TOKEN_AT_MOST if budget is not None and is_bounded else None
        past = await self._past.turns(record, enough=enough, after=summary.upto)
        if rewinds.cuts:
            past = [turn for turn in past if not rewinds.has_cut(turn.number)]
        return Conversation(past, summary)

    async def _close(self, turn: TurnRecord) -> TurnRecord:
        """The turn, closed first if its process died."""
        if turn.end is not None:
            return turn
        mine = turn.owner == self._liveness.me
        if turn.id in self._running if mine else self._liveness.is_alive(turn.owner):
            raise SessionBusy(
                f"another aish ({turn.owner}) is still answering in session {turn.session}",
                hint="wait for it to finish, or start a new session",
            )
        return await close_interrupted_turn(turn, self._store, self._clock, self._redact_messages)


def _as_one_turn(messages: tuple[Message, ...], *, bounded: bool) -> Conversation:
    return Conversation((PastTurn(0, messages),) if messages else (), bounded=bounded)


def _in_turns(messages: tuple[Message, ...]) -> Conversation:
    """Splits messages into turns, each beginning with the user. System messages go into the system message, which
    stays."""
    system = "\n\n".join(message.text for message in messages if isinstance(message, SystemMessage))
    turns: list[list[Message]] = []
    for message in messages:
        if isinstance(message, SystemMessage):
            continue
        if isinstance(message, UserMessage) or not turns:
            turns.append([])
        turns[-1].append(message)
    return Conversation([PastTurn(n, tuple(turn)) for n, turn in enumerate(turns, 1)], system=system)


def _title(messages: Sequence[Message]) -> str:
    """The first line of the first user message."""
    first = next((message.text for message in messages if isinstance(message, UserMessage)), "")
    lines: Sequence[str] = first.strip().splitlines()
    return lines[0][:_TITLE_CHARS] if lines else ""
