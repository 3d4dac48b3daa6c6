"""Builds turns: selects tools, composes the system message, and connects model, dispatcher and planner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

import msgspec

from aish.engine.engine import FindBackground
from aish.engine.model.model_caller import ModelCallDeps, ModelCaller
from aish.engine.model.router import Route
from aish.engine.model.selection import SelectedModel
from aish.engine.model.side_call import SideCalls
from aish.engine.prompt.compaction import count_turns
from aish.engine.prompt.composer import SystemParts, compose_system
from aish.engine.prompt.conversation import Conversation
from aish.engine.prompt.history_cache import PastTurn
from aish.engine.prompt.message_notes import add_mode_note, add_notes
from aish.engine.rewind import TurnCheckpoints
from aish.engine.tools.dispatch import Dispatcher
from aish.engine.tools.executor import BeforeEffect, ConcurrencyLimits, Executor
from aish.engine.tools.selection import MANY_TOOLS, ToolSelection, combine_tools
from aish.engine.tools.turn_rights import TurnRights
from aish.engine.turn.events import EventFactory, Transcript
from aish.engine.turn.hooks import TurnHooks
from aish.engine.turn.loop import Compaction, Turn, TurnParts
from aish.engine.turn.resume_state import answer_from
from aish.engine.turn.turn_limits import Budget, start_budget
from aish.errors import AishError, UsageError
from aish.planner.run import question_text
from aish.ports import Ask, CallerRights, Clock, DynamicToolset, ExtensionPoints, Gate, Toolset
from aish.runs.journal import Journal
from aish.types.context import ContextView, SystemTexts
from aish.types.decisions import Mode
from aish.types.globs import Globs, globs_of
from aish.types.ids import new_id
from aish.types.requests import ToolChoice, TurnRequest
from aish.types.runs import Planning
from aish.types.tools import HISTORY_SEARCH, HISTORY_SOURCE, Effect, ToolSpec

if TYPE_CHECKING:
    from aish.engine.tools.tool_search import ToolLimiter
    from aish.planner.planner import Planner
    from aish.planner.run import PlanRun


class _Given(msgspec.Struct, frozen=True):
    """What stays the same in a turn, whatever becomes of the conversation before it."""

    request: TurnRequest
    selected: SelectedModel
    ask: Ask | None
    journal: Journal | None
    toolset: Toolset
    events: EventFactory
    budget: Budget
    transcript: Transcript
    hooks: TurnHooks
    caller: CallerRights | None


class TurnBuilder:
    def __init__(
        self,
        *,
        tools: Toolset,
        gate: Gate,
        clock: Clock,
        model_deps: ModelCallDeps,
        side_calls: SideCalls,
        redact: Callable[[str], str],
        system: SystemTexts,
        make_limiter: Callable[[], ToolLimiter],
        find_background: FindBackground,
        extensions: ExtensionPoints,
        checkpoints: TurnCheckpoints,
    ) -> None:
        self._tools = tools
        self._gate = gate
        self._clock = clock
        self._model_deps = model_deps
        self._side_calls = side_calls
        self._redact = redact
        self._system = system
        self._make_limiter = make_limiter
        self._find_background = find_background
        self._extensions = extensions
        self._checkpoints = checkpoints
        self._concurrency = ConcurrencyLimits()
        self._read_only: set[str] = set()  # tools of servers that only read when they were selected last

    async def build(
        self,
        session: str,
        request: TurnRequest,
        selected: SelectedModel,
        conversation: Conversation,
        ask: Ask | None,
        journal: Journal | None,
        plan: PlanRun | None,
        caller: CallerRights | None = None,
    ) -> Turn:
        """`caller` is the turn that starts this one, if any."""
        events = EventFactory(session, new_id("turn"), self._clock.now_ns)
        request, hooks, hook_notices = await self._run_hooks(request, events, selected.route)
        budget, transcript = start_budget(request.limits, self._clock, caller), Transcript()
        ask = answer_from(request.answers, ask) if request.answers else ask
        toolset = self.toolset(request.dynamic_mcp) if request.dynamic_mcp else self._tools
        given = _Given(request, selected, ask, journal, toolset, events, budget, transcript, hooks, caller)
        full = await self._add_notes(request, selected.route, conversation) if _takes_notes(request) else request
        parts, compaction = await self._make_parts(given, full, conversation), None
        if conversation.past and (turns := await parts.model.find_overdue_turns()):
            # Already with the notes that leave with their turns, since the message is stored before the turn begins.
            full = await self._add_notes(request, selected.route, conversation.without(turns))
            compaction = Compaction(len(turns), partial(self._compact, given, full, conversation, turns))
        _check_demand(request.tool_choice, parts.tools)
        planner = await self._planner(plan, full, selected, parts.tools, session, ask) if plan is not None else None
        notes = (*selected.notes, *hook_notices, *self._note_changed_tools(parts.tools.specs))
        return Turn(full, parts, notes, compaction, planner, budget, events, transcript, hooks)

    async def _run_hooks(
        self, request: TurnRequest, events: EventFactory, route: Route
    ) -> tuple[TurnRequest, TurnHooks, Sequence[str]]:
        """Takes up tools and hooks that have changed, and runs those before the turn. Returns notices for the user."""
        problems = await self._extensions.refresh()
        hooks = TurnHooks(self._extensions, session=events.session, turn=events.turn, model=route.name)
        notices: Sequence[str] = ()
        if hooks.has("before_turn"):
            request, notices = await hooks.before_turn(request)
        return request, hooks, (*problems, *notices)

    async def _make_parts(self, given: _Given, full: TurnRequest, conversation: Conversation) -> TurnParts:
        """`full` is the request with its notes."""
        selected, events, budget, ask = given.selected, given.events, given.budget, given.ask
        route, is_asked = selected.route, ask is not None
        tools = self._select_for(given.request, given.toolset, route, conversation, interactive=is_asked)
        if len(tools.specs) > MANY_TOOLS:
            tools = await self._show_fewer(tools, given.request, selected.route, events.session)
        system = self._system_parts(full, selected.route, conversation, tools)
        model = ModelCaller(
            self._model_deps, selected, full, conversation, system, tools.specs, given.transcript, budget, events
        )
        rights = TurnRights(full, events, selected.route.name, given.caller)
        make_dispatcher = partial(
            self.dispatcher, events, budget, tools, ask, rights, given.journal, toolset=given.toolset, hooks=given.hooks
        )
        return TurnParts(tools, conversation.past, model, make_dispatcher)

    async def _compact(
        self, given: _Given, full: TurnRequest, conversation: Conversation, turns: Sequence[PastTurn]
    ) -> tuple[TurnParts, str]:
        """Puts turns into the summary before the window is full. If that fails, they leave the window without."""
        summaries = self._model_deps.summaries
        try:
            summary = await summaries.extend(
                given.events.session,
                conversation.summary,
                turns,
                given.selected.route,
                is_searchable=True,
                payer=given.request.payer,
                find_remaining_s=lambda: given.budget.remaining_s,
            )
        except AishError as exc:
            note = summaries.failure_notice(exc)
        else:
            conversation, note = conversation.after(summary), f"{count_turns(len(turns))} became notes"
        return await self._make_parts(given, full, conversation), note

    async def _add_notes(self, request: TurnRequest, route: Route, conversation: Conversation) -> TurnRequest:
        """The request with what the model is told besides the conversation, if it wants that. The smallest models are
        not told of the machine and the project: a longer prompt confuses them."""
        full = add_mode_note(request, conversation.past)
        if not (request.memory or request.project or request.environment):
            return full
        background = await self._find_background(request)
        if route.info.is_weak:
            background = msgspec.structs.replace(background, fixed="", place="", workspace="")
        request = add_notes(full, background, conversation.past)
        if not background.fixed:
            return request
        return msgspec.structs.replace(request, system=compose_system(request.system, background.fixed))

    def _note_changed_tools(self, specs: Sequence[ToolSpec]) -> list[str]:
        """Tells of tools whose server no longer says that they only read."""
        hinted = [spec for spec in specs if spec.hints is not None]
        if not hinted:
            return []
        changed = {spec.name for spec in hinted if spec.effect is not Effect.READ and spec.name in self._read_only}
        self._read_only -= changed
        self._read_only |= {spec.name for spec in hinted if spec.effect is Effect.READ}
        return [f"{name} has changed: its server no longer says that it only reads" for name in sorted(changed)]

    async def view(self, request: TurnRequest, selected: SelectedModel, conversation: Conversation) -> ContextView:
        """What the model would be sent for this request now, by parts."""
        await self._extensions.refresh()
        toolset = self.toolset(request.dynamic_mcp)
        tools = self._select_for(request, toolset, selected.route, conversation, interactive=True)
        if len(tools.specs) > MANY_TOOLS:
            tools = await self._show_fewer(tools, request, selected.route, request.session)
        request = await self._add_notes(request, selected.route, conversation)
        system = self._system_parts(request, selected.route, conversation, tools)
        events, budget = (
            EventFactory(request.session, "", self._clock.now_ns),
            start_budget(request.limits, self._clock),
        )
        model = ModelCaller(
            self._model_deps, selected, request, conversation, system, tools.specs, Transcript(), budget, events
        )
        return await model.view()

    async def _planner(
        self,
        plan: PlanRun,
        request: TurnRequest,
        selected: SelectedModel,
        tools: ToolSelection,
        session: str,
        ask: Ask | None,
    ) -> Planner | None:
        """None if the request has no tools of ours to plan with."""
        from aish.planner.planner import Planner  # few turns are planned
        from aish.planner.writer import PlanWriter

        planning = request.planner or Planning()
        specs = {spec.name: spec for spec in tools.own_specs}
        if not specs:
            return None
        is_limited = len(specs) > sum(spec.name in specs for spec in tools.specs)
        listed = self._limiter.find_for_plan(tools, question_text(request)) if is_limited else None
        route = await self._model_deps.router.resolve(planning.model) if planning.model else selected.route
        charged_to, payer = request.charged_to or session, request.payer
        writer = PlanWriter(
            self._side_calls,
            route,
            list(specs.values()),
            planning,
            session=charged_to,
            payer=payer,
            listed=listed,
        )
        return Planner(writer, planning, specs, plan.journal, plan.save, ask)

    def _system_parts(
        self,
        request: TurnRequest,
        route: Route,
        conversation: Conversation,
        tools: ToolSelection,
    ) -> SystemParts:
        texts = self._system
        more = () if route.info.is_weak else (texts.instructions, texts.tools_note if tools.specs else "")
        base = compose_system(texts.base, route.system, request.system, conversation.system, *more)
        summary = conversation.summary
        if not summary.upto or request.is_autonomous:
            return SystemParts(base)
        return SystemParts(base, summary.notes(offers_search=tools.find(HISTORY_SEARCH) is not None))

    @cached_property
    def _limiter(self) -> ToolLimiter:
        return self._make_limiter()

    async def _show_fewer(
        self, tools: ToolSelection, request: TurnRequest, route: Route, session: str
    ) -> ToolSelection:
        """The same tools, of which fewer are shown if all would take too much of the model's window."""
        if not self._limiter.is_needed(tools, route.info.context_size):
            return tools
        demanded = tools.canonical(request.tool_choice.named) if request.tool_choice.named else ""
        if route.info.is_small:
            return await self._limiter.limit_to_question(
                tools, question_text(request), session, with_own=not route.info.is_weak, demanded=demanded
            )
        return await self._limiter.limit(tools, route.info.context_size, session, demanded=demanded)

    def toolset(self, dynamic_mcp: str) -> Toolset:
        """All tools, with those of the dynamic MCP servers of a request."""
        if dynamic_mcp and isinstance(self._tools, DynamicToolset):
            return self._tools.with_dynamic(dynamic_mcp)
        return self._tools

    def _select_for(
        self, request: TurnRequest, toolset: Toolset, route: Route, conversation: Conversation, *, interactive: bool
    ) -> ToolSelection:
        clients: Sequence[ToolSpec] = request.client_tools
        if not clients and not request.tools:
            return ToolSelection(toolset.specs)
        among = Globs(request.tool_choice.among) if request.tool_choice.among else None
        if among is not None:
            clients = [spec for spec in clients if spec.name in among]
        return self.select_tools(
            request.tools, interactive=interactive, clients=clients, toolset=toolset, among=among, owner=request.owner,
            mode=request.mode, searches=conversation.summary.is_searchable, runs_turns=not route.info.is_weak,
        )  # fmt: skip

    def select_tools(
        self,
        globs: Sequence[str],
        *,
        interactive: bool,
        clients: Sequence[ToolSpec] = (),
        toolset: Toolset | None = None,
        among: Globs | None = None,
        owner: str = "",
        mode: Mode | None = None,
        searches: bool = False,
        runs_turns: bool = False,
    ) -> ToolSelection:
        """The tools that the globs name and the gate shows, and those of the client. `searches`: also the one that
        searches the session, whose earlier turns are no longer sent. `runs_turns`: also those that run turns."""
        toolset = toolset or self._tools
        if not globs:
            return combine_tools(toolset.specs, (), clients)
        known = toolset.specs()
        is_visible = self._gate.is_visible
        if owner or mode is not None:
            is_visible = partial(is_visible, owner=owner, mode=mode)
        wanted = globs_of(tuple(globs))
        selected = [spec for spec in known if spec.name in wanted and is_visible(spec, interactive=interactive)]
        if not searches:
            selected = [spec for spec in selected if spec.source != HISTORY_SOURCE]
        if not runs_turns:
            selected = [spec for spec in selected if not spec.runs_turns]
        if among is not None:
            selected = [spec for spec in selected if spec.name in among]
        return combine_tools(lambda: known, selected, clients)

    def dispatcher(
        self,
        events: EventFactory,
        budget: Budget,
        tools: ToolSelection,
        ask: Ask | None,
        rights: TurnRights | None = None,
        journal: Journal | None = None,
        ask_about: Sequence[str] = (),
        toolset: Toolset | None = None,
        owner: str = "",
        mode: Mode | None = None,
        after: str = "",
        hooks: TurnHooks | None = None,
    ) -> Dispatcher:
        """`rights` None: the calls are made by a program, without a model; `after` is the session whose last turn has
        proposed them."""
        request = rights.request if rights else None
        hooks = hooks or TurnHooks(self._extensions, session=events.session or after, turn=events.turn, model="")
        owner, mode = (request.owner, request.mode) if request else (owner, mode)
        return Dispatcher(
            tools=tools,
            gate=self._gate,
            executor=self._make_executor(events, toolset, owner, after, rights),
            budget=budget,
            events=events,
            ask=ask,
            ask_about=request.ask_about if request else ask_about,
            repair=request is None or request.repair,
            journal=journal,
            owner=owner,
            mode=mode,
            live_output=request is not None and request.live_output,
            rights=rights,
            hooks=hooks,
        )

    def _make_executor(
        self, events: EventFactory, toolset: Toolset | None, owner: str, after: str, rights: TurnRights | None
    ) -> Executor:
        return Executor(
            tools=toolset or self._tools,
            concurrency=self._concurrency,
            clock=self._clock,
            session=events.session,
            turn=events.turn,
            redact=self._redact,
            owner=owner,
            for_programs=rights is None,
            before_effect=self._before_effect(events, after, rights),
        )

    def _before_effect(self, events: EventFactory, after: str, rights: TurnRights | None) -> BeforeEffect | None:
        """Takes the checkpoint of the turn, or of the last turn of the session that the calls come after. The effects
        of an agent belong to the turn that has called it, which has taken its checkpoint before."""
        after = rights.request.parent if rights else after
        if not self._checkpoints.is_enabled or (rights and rights.caller) or not (events.session or after):
            return None
        if events.session and not after:
            return partial(self._checkpoints.take, events.session, events.turn)
        return partial(self._checkpoints.take_for_last_turn, after)


def _takes_notes(request: TurnRequest) -> bool:
    return request.mode is not None or request.memory or request.project or request.environment


def _check_demand(choice: ToolChoice, tools: ToolSelection) -> None:
    """Raises UsageError if a demanded call cannot be made."""
    if choice.mode != "required":
        return
    names = [spec.name for spec in tools.specs]
    if not names:
        raise UsageError(
            "tool_choice demands a call, and no tool is offered", hint="offer one, or leave the choice out"
        )
    if choice.named and choice.named not in names and tools.canonical(choice.named) not in names:
        raise UsageError(
            f"tool_choice names {choice.named}, which is not offered", hint=f"there are {', '.join(names[:8])}"
        )
