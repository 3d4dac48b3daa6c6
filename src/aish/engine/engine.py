"""The engine's front door. Light: what turns need is loaded with the first of them, and not for a first prompt."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from aish.engine.model.ledger import Caps, Ledger, Prices
from aish.engine.model.router import Router
from aish.engine.model.selection import Chooser, Routing
from aish.engine.model.side_call import Aside
from aish.ports import Ask, Clock, Gate, Listener, Owners, Store, Toolset
from aish.safety.redaction.redactor import Redactor
from aish.types.context import ContextRules, ContextView
from aish.types.events import Event, ToolResult
from aish.types.messages import Message
from aish.types.requests import TurnRequest
from aish.types.tools import ToolSpec

if TYPE_CHECKING:
    from aish.engine.prompt.summary import Summaries
    from aish.engine.turn.builder import TurnMaker
    from aish.engine.turn.runner import Turns
    from aish.runs.journal import Journal
    from aish.runs.ownership import RunKeeper


class Background(msgspec.Struct, frozen=True):
    """What is known besides the conversation."""

    memory: str = ""
    project: str = ""


FindBackground = Callable[[TurnRequest], Awaitable[Background]]


async def nothing_known(request: TurnRequest) -> Background:
    return Background()


class Engine:
    def __init__(
        self,
        *,
        router: Router,
        tools: Toolset,
        gate: Gate,
        store: Store | Callable[[], Store],
        clock: Clock,
        owners: Owners,
        redactor: Redactor,
        system: str = "",
        tools_note: str = "",
        rules: ContextRules | None = None,
        routing: Routing | None = None,
        prices: Prices | None = None,
        caps: Caps | None = None,
        background: FindBackground = nothing_known,
        write_through: bool = False,
        shared: bool = False,
    ) -> None:
        """`shared`: other processes answer in the same sessions at the same time, and are waited for. `background`
        finds what is known of the user and the project. `tools_note` is told to models that have tools. `store` may
        also be what makes one, when it is first needed."""
        self.router = router
        self._given_store = store
        self.tools = tools
        self.clock = clock
        self.owners = owners
        self.chooser = Chooser(router, routing or Routing())
        self._prices = prices or Prices({})
        self._caps = caps or Caps()
        self._gate = gate
        self._redactor = redactor
        self._system = system
        self._tools_note = tools_note
        self._rules = rules or ContextRules()
        self._background = background
        self._write_through = write_through
        self.shared = shared

    def turn(
        self,
        request: TurnRequest,
        *,
        ask: Ask | None = None,
        journal: Journal | None = None,
        left: Callable[[Sequence[Event]], None] | None = None,
        listener: Listener | None = None,
    ) -> AbstractAsyncContextManager[AsyncGenerator[Sequence[Event], None]]:
        """Run one turn; its events come in batches. What is wrong with the request itself is raised on entering; later
        failures are events.

        `ask` puts the gate's questions to a person; None means nobody is there. `journal` is that of the run the turn
        belongs to. Leaving the context stops everything; what it owed then, its end above all, is told to `left`.
        `listener` hears what a model says as it is read from the wire; what it has heard is in no batch.
        """
        return self._turns.turn(request, ask=ask, journal=journal, left=left, listener=listener)

    def offered(
        self, tools: Sequence[str] = ("*",), *, interactive: bool, guests: str = "", owner: str = ""
    ) -> Sequence[ToolSpec]:
        """The tools these globs name that the gate would let a request of this owner see, with those of its guests."""
        return self._maker.offer(tools, interactive=interactive, source=self._maker.tools(guests), owner=owner).specs

    def tools_for(self, guests: str) -> Toolset:
        """All there are for a request that has brought these."""
        return self._maker.tools(guests) if guests else self.tools

    async def call_tool(
        self,
        name: str,
        arguments: str,
        *,
        tools: Sequence[str] = ("*",),
        ask: Ask | None = None,
        on_status: Callable[[str], None] = lambda text: None,
        journal: Journal | None = None,
        ask_about: Sequence[str] = (),
        wall_s: float | None = None,
        owner: str = "",
    ) -> ToolResult:
        """One call without a model, through the same dispatch and the same gate. `arguments` is JSON text.

        `on_status` hears the lines the tool shows while it runs. Cancelling it stops the tool. It belongs to no
        session, so nothing of it is stored. `ask_about` are globs that are asked about even where the gate allows.
        `owner` as in an EffectRequest.
        """
        return await self._turns.call_tool(
            name,
            arguments,
            tools=tools,
            ask=ask,
            on_status=on_status,
            journal=journal,
            ask_about=ask_about,
            wall_s=wall_s,
            owner=owner,
        )

    def redacted(self, text: str) -> str:
        """As it would be stored or shown."""
        return self._redactor.text(text)

    def redacted_json(self, line: bytes) -> bytes:
        """The same for JSON. Whatever is kept beside the events goes through it."""
        return self._redactor.line(line)

    def redacted_pieces(self, pieces: Sequence[str]) -> Sequence[str]:
        """The same for a text in pieces, as many."""
        return self._redactor.pieces(pieces)

    def catch_up(self, whole: Collection[str] = ()) -> None:
        """What was said in the turns under way is given to the store now, for whoever reads it there."""
        self._turns.catch_up(whole)

    async def history(self, session: str) -> tuple[Message, ...]:
        """Everything that was said in a session."""
        return await self._turns.history(session)

    async def view_context(self, request: TurnRequest) -> ContextView:
        """What the model would be sent for it now."""
        return await self._turns.view_context(request)

    async def aclose(self) -> None:
        """Ends tools, providers and the store, in that order. One that fails does not keep the others open."""
        is_made = "store" in self.__dict__ or not callable(self._given_store)
        for aclose in (self.tools.aclose, self.router.aclose, *([self.store.aclose] if is_made else [])):
            try:
                await aclose()
            except Exception:
                continue

    @cached_property
    def store(self) -> Store:
        return self._given_store() if callable(self._given_store) else self._given_store

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger(self.store, self.clock, self._prices, self._caps)

    @cached_property
    def aside(self) -> Aside:
        return Aside(self.ledger)

    @cached_property
    def runs(self) -> RunKeeper:
        from aish.runs.ownership import RunKeeper

        return RunKeeper(self.store, self.clock, self.owners, self.tools, self._redactor.line)

    @cached_property
    def _summaries(self) -> Summaries:
        from aish.engine.prompt.summary import Summaries

        return Summaries(self.store, self.router, self.aside, self._rules)

    @cached_property
    def _maker(self) -> TurnMaker:
        from aish.engine.model.call import Counters, ModelCallDeps
        from aish.engine.turn.builder import TurnMaker

        return TurnMaker(
            tools=self.tools,
            gate=self._gate,
            clock=self.clock,
            means=ModelCallDeps(self.router, self.chooser, self.ledger, self._summaries, self._rules, Counters()),
            aside=self.aside,
            redact=self._redactor.text,
            system=self._system,
            tools_note=self._tools_note,
            background=self._background,
        )

    @cached_property
    def _turns(self) -> Turns:
        from aish.engine.turn.runner import Turns

        return Turns(
            maker=self._maker,
            chooser=self.chooser,
            runs=self.runs,
            store=self.store,
            clock=self.clock,
            owners=self.owners,
            redactor=self._redactor,
            rules=self._rules,
            summaries=self._summaries,
            write_through=self._write_through,
            shared=self.shared,
        )


async def flattened(batches: AsyncIterator[Sequence[Event]]) -> AsyncGenerator[Event, None]:
    """One by one, for whoever does not mind the cost."""
    async for events in batches:
        for event in events:
            yield event
