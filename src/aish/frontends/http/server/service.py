"""What the handlers of the server work with: the engine host and the parts that live as long as the server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.server.engine_host import EngineHost
from aish.frontends.http.sessions.approvals import Approvals
from aish.frontends.http.sessions.event_feed import FeedWatcher
from aish.frontends.http.sessions.runs import ServerRuns
from aish.frontends.http.turns.background_turns import BackgroundTurns
from aish.frontends.runtime import Runtime
from aish.ports import Ask


class Service(EngineHost):
    def __init__(self, runtime: Runtime, keys: Sequence[str] = (), *, must_have_keys: bool = False) -> None:
        super().__init__(runtime, keys, must_have_keys=must_have_keys)
        self.feed = FeedWatcher(self)
        self.approvals = Approvals(self, on_change=self.feed.note_approval_change)
        self.background_turns = BackgroundTurns()
        self.runs = ServerRuns(self, self.consent_for)

    def consent_for(self, caller: Caller) -> Ask | None:
        """Asks this caller where the gate wants consent; None: every question is refused."""
        return partial(self.approvals.ask, caller) if self.config.approvals == "wait" else None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Service]:
        async with self.open_engine(), self.background_turns, self.feed, self.runs:
            yield self
