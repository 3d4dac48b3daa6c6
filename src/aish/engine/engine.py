"""The public facade of the engine. It loads what turns need with the first turn, so that a first prompt stays fast."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import TYPE_CHECKING

from aish.engine.model.ledger import Caps, Ledger, Prices
from aish.engine.model.router import Router
from aish.engine.model.selection import ModelSelector, Routing
from aish.engine.model.side_call import SideCalls
from aish.ports import (
    Ask,
    CallerRights,
    Checkpoints,
    Clock,
    ExtensionPoints,
    Gate,
    NoExtensions,
    ProcessLiveness,
    Store,
    TextSink,
    Toolset,
)
from aish.safety.redaction.redactor import Redactor
from aish.types.context import NO_TEXTS, Background, ContextRules, ContextView, SystemTexts
from aish.types.decisions import Mode
from aish.types.events import Event, ToolResult, UsageReported, decode_event
from aish.types.ids import new_id
from aish.types.messages import Message, ToolCall
from aish.types.models import AGENT_MODEL
from aish.types.requests import TurnLimits, TurnRequest
from aish.types.tools import ToolSpec

if TYPE_CHECKING:
    from aish.engine.prompt.compaction import Summaries
    from aish.engine.prompt.conversation import Conversations
    from aish.engine.rewind import Rewinds, TurnCheckpoints
    from aish.engine.tools.tool_search import ToolLimiter
    from aish.engine.turn.builder import TurnBuilder
    from aish.engine.turn.recorder import Recorder
    from aish.engine.turn.runner import TurnRunner
    from aish.runs.journal import Journal
    from aish.runs.ownership import RunKeeper


FindBackground = Callable[[TurnRequest], Awaitable[Background]]


async def find_no_background(request: TurnRequest) -> Background:
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
        liveness: ProcessLiveness,
        redactor: Redactor,
        system: SystemTexts = NO_TEXTS,
        rules: ContextRules | None = None,
        routing: Routing | None = None,
        prices: Prices | None = None,
        caps: Caps | None = None,
        find_background: FindBackground = find_no_background,
        extensions: ExtensionPoints | None = None,
        write_through: bool = False,
        shared: bool = False,
        checkpoints: Callable[[], Checkpoints] | None = None,
        as_agent: Callable[[TurnRequest], TurnRequest] | None = None,
    ) -> None:
        """`store` may be a function that opens it when it is first needed. `write_through`: events are written before
        they are shown. `shared`: several processes run turns of the same sessions; a turn waits for another process's
        turn in its session. `checkpoints` None: no turn can be rewound. `as_agent` narrows a request whose model is the
        name of an agent to what that agent does."""
        self.router = router
        self._given_store = store
        self.tools = tools
        self.clock, self.liveness = clock, liveness
        self.selector = ModelSelector(router, routing or Routing())
        self._prices = prices or Prices({})
        self._caps = caps or Caps()
        self._gate, self._redactor = gate, redactor
        self._system, self._rules = system, rules or ContextRules()
        self._find_background = find_background
        self._extensions = extensions or NoExtensions()
        self._write_through, self.shared = write_through, shared
        self._checkpoints, self._as_agent = checkpoints, as_agent

    def turn(
        self,
        request: TurnRequest,
        *,
        ask: Ask | None = None,
        journal: Journal | None = None,
        on_left: Callable[[Sequence[Event]], None] | None = None,
        text_sink: TextSink | None = None,
        caller: CallerRights | None = None,
    ) -> AbstractAsyncContextManager[AsyncGenerator[Sequence[Event], None]]:
        """Runs one turn and yields its events in batches. An invalid request raises on entering; later failures are
        events.

        `ask` puts the gate's questions to the user; None means that there is no user to ask. `journal` belongs to the
        run that the turn is part of. Leaving the context stops everything; `on_left` gets the events that were
        not yet yielded then, among them the end. `text_sink` gets single words as they are read from the backend; they
        are in no batch. `caller` is the turn that starts this one: what is spent here is taken from its budget.
        """
        from aish.engine.turn.runner import TurnContext

        if self._as_agent is not None and request.model.startswith(AGENT_MODEL):
            request = self._as_agent(request)
        return TurnContext(self._runner, request, ask, journal, on_left, text_sink, caller)

    async def refresh_tools(self) -> None:
        """Takes up tools that have changed on the disk, for those who list tools without a turn."""
        await self._extensions.refresh()

    def visible_tools(
        self, globs: Sequence[str] = ("*",), *, interactive: bool, dynamic_mcp: str = "", owner: str = ""
    ) -> Sequence[ToolSpec]:
        """The tools that the globs name and that the gate shows to a request of this owner."""
        toolset = self._builder.toolset(dynamic_mcp)
        return self._builder.select_tools(globs, interactive=interactive, toolset=toolset, owner=owner).specs

    def tools_for(self, dynamic_mcp: str) -> Toolset:
        """All tools, with those of the dynamic MCP servers of a request."""
        return self._builder.toolset(dynamic_mcp) if dynamic_mcp else self.tools

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
        mode: Mode | None = None,
        after: str = "",
    ) -> ToolResult:
        """Makes one call without a model, through the same dispatch and the same gate. `arguments` is JSON text.

        `on_status` gets the lines that the tool shows while it runs. Cancelling stops the tool. The call belongs to no
        session, and nothing of it is stored. `ask_about` are globs of tools that are asked about even where the gate
        allows them. `owner` is the key whose rules apply, `mode` the mode: see EffectRequest. `after` is the session
        whose last answer has proposed the call.
        """
        from aish.engine.tools.direct_call import call_tool

        await self.refresh_tools()
        limits = TurnLimits() if wall_s is None else TurnLimits(wall_s=wall_s)
        return await call_tool(
            self._builder, self.clock, self._redactor, ToolCall(new_id("call"), name, arguments), limits,
            globs=tools, ask=ask, on_status=on_status, journal=journal, ask_about=ask_about, owner=owner,
            mode=mode, after=after,
        )  # fmt: skip

    def redact(self, text: str) -> str:
        """The text as it is stored and shown."""
        return self._redactor.text(text)

    def redact_json(self, line: bytes) -> bytes:
        """The same for JSON. Everything that is stored beside the events goes through it."""
        return self._redactor.line(line)

    def redact_pieces(self, pieces: Sequence[str]) -> Sequence[str]:
        """The same for a text in pieces. Returns as many."""
        return self._redactor.pieces(pieces)

    def flush_running_turns(self, to_the_end: Collection[str] = ()) -> None:
        """Writes what the running turns have said, for a reader of the store. Text that may be the start of a secret is
        held back, except for the turns in `to_the_end`."""
        self._recorder.flush_running_turns(to_the_end)

    async def forget_attempts(self, turn: str) -> None:
        """The client has got the answer of this turn: the same request, sent again, is a new one."""
        if turn:
            await self._runner.forget_attempts(turn)

    async def history(self, session: str) -> tuple[Message, ...]:
        """All messages of a session."""
        return await self._conversations.history(session)

    async def view_context(self, request: TurnRequest) -> ContextView:
        """What the model would be sent for this request now."""
        if self._as_agent is not None and request.model.startswith(AGENT_MODEL):
            request = self._as_agent(request)
        selected = await self.selector.select(request)
        conversation = await self._conversations.preview(request.session, selected.route)
        return await self._builder.view(request, selected, conversation)

    async def recent_prompts(self, session: str, *, limit: int = 10) -> list[UsageReported]:
        """What was reported of the newest model calls of a session, in order: their size, and how much of it the
        backend had read before."""
        found: list[UsageReported] = []
        for turn in reversed(await self.store.list_turns(session, limit=limit)):
            events = map(decode_event, (await self.store.read_events(turn.id)).splitlines())
            found[:0] = [event.body for event in events if isinstance(event.body, UsageReported)]
            if len(found) >= limit:
                break
        return found[-limit:]

    async def compact(self, request: TurnRequest, keep: str = "") -> int:
        """Compacts the earlier turns of the request's session into notes, all but the last one. Returns how many.
        `keep` says what the notes must keep. Raises what asking a model raises; then nothing has changed."""
        return await self._runner.compact(request, keep)

    async def finish_hooks(self) -> None:
        """Waits, for a bounded time, for the hooks of turns that are over."""
        if "_runner" in self.__dict__:
            await self._runner.finish_end_hooks()

    async def aclose(self) -> None:
        """Closes tools, providers and the store, in that order, even if one of them fails."""
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
    def side_calls(self) -> SideCalls:
        return SideCalls(self.ledger)

    @cached_property
    def runs(self) -> RunKeeper:
        from aish.runs.ownership import RunKeeper

        return RunKeeper(self.store, self.clock, self.liveness, self.tools, self._redactor.line)

    @cached_property
    def _summaries(self) -> Summaries:
        from aish.engine.prompt.compaction import Summaries

        return Summaries(self.store, self.router, self.side_calls, self._rules)

    @cached_property
    def turn_checkpoints(self) -> TurnCheckpoints:
        from aish.engine.rewind import TurnCheckpoints

        return TurnCheckpoints(self._checkpoints, lambda: self.store)

    @cached_property
    def rewinds(self) -> Rewinds:
        from aish.engine.rewind import Rewinds

        return Rewinds(self._checkpoints, self.store, self.clock, self._runner.hold_session, self.history)

    @cached_property
    def _builder(self) -> TurnBuilder:
        from aish.engine.model.model_caller import ModelCallDeps, TokenCounters
        from aish.engine.prompt.prefix_breaks import SentPrompts
        from aish.engine.turn.builder import TurnBuilder

        return TurnBuilder(
            tools=self.tools,
            gate=self._gate,
            clock=self.clock,
            model_deps=ModelCallDeps(
                self.router, self.selector, self.ledger, self._summaries, self._rules, TokenCounters(), SentPrompts()
            ),
            side_calls=self.side_calls,
            redact=self._redactor.text,
            system=self._system,
            make_limiter=self._make_limiter,
            find_background=self._find_background,
            extensions=self._extensions,
            checkpoints=self.turn_checkpoints,
        )

    def _make_limiter(self) -> ToolLimiter:
        from aish.engine.tools.tool_search import ShownTools, ToolLimiter, ToolUses  # few have so many tools

        store, clock = self.store, self.clock
        return ToolLimiter(ToolUses(store, clock), ShownTools(store, clock), self._rules.max_tools_share)

    @cached_property
    def _recorder(self) -> Recorder:
        from aish.engine.turn.recorder import Recorder

        return Recorder(self.store, self._redactor, write_through=self._write_through)

    @cached_property
    def _conversations(self) -> Conversations:
        from aish.engine.prompt.conversation import Conversations

        return Conversations(
            store=self.store,
            clock=self.clock,
            liveness=self.liveness,
            rules=self._rules,
            summaries=self._summaries,
            running=self._recorder.running,
            redact=self._redactor.text,
            redact_messages=self._recorder.redact_messages,
        )

    @cached_property
    def _runner(self) -> TurnRunner:
        from aish.engine.turn.runner import TurnRunner

        return TurnRunner(
            builder=self._builder,
            selector=self.selector,
            conversations=self._conversations,
            summaries=self._summaries,
            recorder=self._recorder,
            runs=self.runs,
            store=self.store,
            clock=self.clock,
            liveness=self.liveness,
            shared=self.shared,
        )


async def flatten(batches: AsyncIterator[Sequence[Event]]) -> AsyncGenerator[Event, None]:
    """Yields the events of batches one by one. Slower than batches."""
    async for events in batches:
        for event in events:
            yield event
