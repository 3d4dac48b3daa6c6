"""The conversation a turn goes on from: a session's own, or one the asker brings along."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from aish.engine.model.router import Route
from aish.engine.prompt.history_cache import HistoryCache, PastTurn
from aish.engine.prompt.summary import Summaries, Summary
from aish.engine.prompt.window import budget_for
from aish.engine.turn.recovery import close_interrupted
from aish.engine.turn.resume_state import restore_context
from aish.errors import SessionBusy, SessionNotFound
from aish.ports import Clock, ProcessLiveness, Store
from aish.types.context import ContextRules
from aish.types.messages import Message, SystemMessage, UserMessage
from aish.types.records import SessionRecord, TurnRecord
from aish.types.requests import TurnRequest

_TITLE_CHARS = 80
# No tokenizer makes tokens that hold more than this on average: so many bytes surely fill a window.
_BYTES_PER_TOKEN_AT_MOST = 16

Redact = Callable[[str], str]
RedactMessages = Callable[[tuple[Message, ...]], tuple[Message, ...]]


class Conversation(msgspec.Struct, frozen=True):
    """`bounded`: ours to keep, and so to keep within the window. `system` is what the asker's own begins with."""

    past: Sequence[PastTurn] = ()
    summary: Summary = Summary()
    bounded: bool = True
    system: str = ""


class Conversations:
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
        """`running` are the turns under way in this process."""
        self._store = store
        self._clock = clock
        self._liveness = liveness
        self._rules = rules
        self._summaries = summaries
        self._running = running
        self._redact = redact
        self._redact_messages = redact_messages
        self._past = HistoryCache(store, self._closed)

    async def open(self, session: str, request: TurnRequest, route: Route) -> Conversation:
        """A named session has to be there, unless the asker brings the history along."""
        if not session:
            return await self._brought(request)
        record = await self._store.find_session(session) if request.session else None
        if record is not None:
            return await self._resumed(record, request, route)
        if request.session and request.context is None and not request.may_be_new:
            raise SessionNotFound(f"no session {session}", hint="`aish sessions list` shows what there is")
        now_ms = self._clock.now_ms()
        title = self._redact(_title(request.input))
        await self._store.create_session(SessionRecord(session, now_ms, now_ms, title, route.name))
        return _of(request.context or (), bounded=request.context is None)

    async def take_over(self, session: str, left_by: str) -> None:
        """Closes the turn that a process has left open which lost its run, though it may still live."""
        for turn in await self._store.list_turns(session, limit=1):
            if turn.end is None and turn.owner == left_by:
                await close_interrupted(turn, self._store, self._clock, self._redact_messages)

    async def preview(self, session: str, route: Route) -> Conversation:
        """As a turn would find it; a session that is not there has no past."""
        record = await self._store.find_session(session) if session else None
        return await self._own(record, route) if record is not None else Conversation()

    async def history(self, session: str) -> tuple[Message, ...]:
        """Everything that was said in it."""
        turns = [await self._closed(turn) for turn in await self._store.list_turns(session)]
        return tuple(message for turn in turns for message in turn.messages)

    async def _brought(self, request: TurnRequest) -> Conversation:
        brought = await restore_context(self._store, request.context) if request.context else ()
        return _in_turns(brought) if request.fit else _of(brought, bounded=False)

    async def _resumed(self, record: SessionRecord, request: TurnRequest, route: Route) -> Conversation:
        own = await self._own(record, route)  # also where it is not used: closes what a crash left open
        return own if request.context is None else await self._brought(request)

    async def _own(self, record: SessionRecord, route: Route) -> Conversation:
        summary = await self._summaries.find(record.id) if self._rules.summarize else Summary()
        budget = budget_for(route.info.context_size, self._rules, None)
        enough = None if budget is None or summary.upto else budget * _BYTES_PER_TOKEN_AT_MOST
        past = await self._past.turns(record, enough=enough, after=summary.upto)
        return Conversation(past, summary)

    async def _closed(self, turn: TurnRecord) -> TurnRecord:
        """The turn, closed first if its process died before it could."""
        if turn.end is not None:
            return turn
        mine = turn.owner == self._liveness.me
        if turn.id in self._running if mine else self._liveness.is_alive(turn.owner):
            raise SessionBusy(
                f"another aish ({turn.owner}) is still answering in session {turn.session}",
                hint="wait for it to finish, or start a new session",
            )
        return await close_interrupted(turn, self._store, self._clock, self._redact_messages)


def _of(messages: tuple[Message, ...], *, bounded: bool) -> Conversation:
    return Conversation((PastTurn(0, messages),) if messages else (), bounded=bounded)


def _in_turns(messages: tuple[Message, ...]) -> Conversation:
    """A turn begins with what the user says. What stands before the first is for the system message, which stays."""
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
    """The first line of what the user said first."""
    said = next((message.text for message in messages if isinstance(message, UserMessage)), "")
    lines: Sequence[str] = said.strip().splitlines()
    return lines[0][:_TITLE_CHARS] if lines else ""
