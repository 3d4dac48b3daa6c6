"""Puts turns together: what a request is offered, what the model is told, who dispatches its calls, who plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from aish.engine.engine import Background, FindBackground
from aish.engine.model.call import Asking, ModelCallDeps
from aish.engine.model.router import Route
from aish.engine.model.selection import Chosen
from aish.engine.model.side_call import Aside
from aish.engine.prompt.conversation import Conversation
from aish.engine.prompt.system_message import SystemParts, compose_system
from aish.engine.tools.dispatch import Dispatcher
from aish.engine.tools.executor import ConcurrencyLimits, Executor
from aish.engine.tools.selection import Offer, offering
from aish.engine.turn.budget import Meter, metering
from aish.engine.turn.event_factory import Scribe
from aish.engine.turn.loop import Turn
from aish.engine.turn.resume_state import answering
from aish.engine.turn.transcript import Transcript
from aish.errors import UsageError
from aish.ports import Ask, Clock, Gate, Hosting, Toolset
from aish.runs.journal import Journal
from aish.types.context import ContextView
from aish.types.globs import Globs, globs_of
from aish.types.ids import new_id
from aish.types.plans import Planning
from aish.types.requests import ToolChoice, TurnRequest
from aish.types.tools import Effect, ToolSpec

if TYPE_CHECKING:
    from aish.planner.executor import Planner
    from aish.planner.run import PlanRun


NOTHING_KNOWN = Background()


class TurnMaker:
    def __init__(
        self,
        *,
        tools: Toolset,
        gate: Gate,
        clock: Clock,
        means: ModelCallDeps,
        aside: Aside,
        redact: Callable[[str], str],
        system: str,
        tools_note: str,
        background: FindBackground,
    ) -> None:
        self._tools = tools
        self._gate = gate
        self._clock = clock
        self._means = means
        self._aside = aside
        self._redact = redact
        self._system = system
        self._tools_note = tools_note
        self.background = background
        self._lanes = ConcurrencyLimits()
        self._readers: set[str] = set()  # tools of servers that only read when they were offered last

    def turn(
        self,
        session: str,
        request: TurnRequest,
        chosen: Chosen,
        conversation: Conversation,
        background: Background,
        ask: Ask | None,
        journal: Journal | None,
    ) -> Turn:
        scribe = Scribe(session, new_id("turn"), self._clock.now_ns)
        meter, transcript = metering(request.limits, self._clock), Transcript()
        if request.answers:
            ask = answering(request.answers, ask)
        tools = self.tools(request.guests) if request.guests else self._tools
        offer = self._offer_for(request, tools, interactive=ask is not None)
        if request.tool_choice.mode == "required":
            _check_demand(request.tool_choice, offer)
        system = self._system_parts(request, chosen.route, conversation, offer, background)
        asking = Asking(self._means, chosen, request, conversation, system, offer.specs, transcript, meter, scribe)
        dispatcher = partial(self.dispatcher, scribe, meter, offer, ask, request, journal, tools=tools)
        past, notes = conversation.past, (*chosen.notes, *self._changed_tools(offer.specs))
        return Turn(asking, transcript, notes, past, request, offer, dispatcher, meter, scribe)

    def _changed_tools(self, offered: Sequence[ToolSpec]) -> list[str]:
        """What is to be told of tools whose server no longer says that they only read."""
        theirs = [spec for spec in offered if spec.hints is not None]
        changed = {spec.name for spec in theirs if spec.effect is not Effect.READ and spec.name in self._readers}
        self._readers -= changed
        self._readers |= {spec.name for spec in theirs if spec.effect is Effect.READ}
        return [f"{name} has changed: its server no longer says that it only reads" for name in sorted(changed)]

    async def view(self, request: TurnRequest, chosen: Chosen, conversation: Conversation) -> ContextView:
        """What the model would be sent for it now."""
        offer = self._offer_for(request, self.tools(request.guests), interactive=True)
        background = await self.background(request) if request.memory or request.project else NOTHING_KNOWN
        system = self._system_parts(request, chosen.route, conversation, offer, background)
        scribe, meter = Scribe(request.session, "", self._clock.now_ns), metering(request.limits, self._clock)
        asking = Asking(self._means, chosen, request, conversation, system, offer.specs, Transcript(), meter, scribe)
        return await asking.view()

    async def planner(
        self, plan: PlanRun, request: TurnRequest, chosen: Chosen, offer: Offer, session: str
    ) -> Planner | None:
        """None where there is nothing to plan with."""
        from aish.planner.executor import Planner  # few turns are planned
        from aish.planner.writer import PlanWriter

        planning = request.planner or Planning()
        tools = {spec.name: spec for spec in offer.specs if not offer.is_clients(spec.name)}
        if not tools:
            return None
        route = await self._means.router.resolve(planning.model) if planning.model else chosen.route
        writer = PlanWriter(self._aside, route, list(tools.values()), planning, session=request.charged_to or session)
        return Planner(writer, planning, tools, plan.journal, plan.save)

    def _system_parts(
        self, request: TurnRequest, route: Route, conversation: Conversation, offer: Offer, background: Background
    ) -> SystemParts:
        note = self._tools_note if offer.specs and not route.info.is_weak else ""
        base = compose_system(self._system, route.system, request.system, conversation.system, note)
        summary = conversation.summary.text
        if summary and request.is_autonomous:
            summary = ""
        return SystemParts(base, background.memory, background.project, summary)

    def tools(self, guests: str) -> Toolset:
        """All there are, with those of the guests a request has brought."""
        return self._tools.seen_by(guests) if guests and isinstance(self._tools, Hosting) else self._tools

    def _offer_for(self, request: TurnRequest, tools: Toolset, *, interactive: bool) -> Offer:
        clients: Sequence[ToolSpec] = request.client_tools
        if not clients and not request.tools:
            return Offer(tools.specs)
        if not (named := request.tool_choice.among):
            return self.offer(
                request.tools, interactive=interactive, clients=clients, source=tools, owner=request.owner
            )
        among = Globs(named)
        clients = [spec for spec in clients if spec.name in among]
        return self.offer(
            request.tools, interactive=interactive, clients=clients, source=tools, among=among, owner=request.owner
        )

    def offer(
        self,
        tools: Sequence[str],
        *,
        interactive: bool,
        clients: Sequence[ToolSpec] = (),
        source: Toolset | None = None,
        among: Globs | None = None,
        owner: str = "",
    ) -> Offer:
        source = source or self._tools
        if not tools:
            return offering(source.specs, (), clients)
        known = source.specs()
        offers = partial(self._gate.offers, owner=owner) if owner else self._gate.offers
        wanted = globs_of(tuple(tools))
        offered = [spec for spec in known if spec.name in wanted and offers(spec, interactive=interactive)]
        if among is not None:
            offered = [spec for spec in offered if spec.name in among]
        return offering(lambda: known, offered, clients)

    def dispatcher(
        self,
        scribe: Scribe,
        meter: Meter,
        offer: Offer,
        ask: Ask | None,
        request: TurnRequest | None = None,
        journal: Journal | None = None,
        ask_about: Sequence[str] = (),
        tools: Toolset | None = None,
        owner: str = "",
    ) -> Dispatcher:
        owner = request.owner if request else owner
        executor = Executor(
            tools=tools or self._tools,
            lanes=self._lanes,
            clock=self._clock,
            session=scribe.session,
            turn=scribe.turn,
            redact=self._redact,
            owner=owner,
            for_programs=request is None,
        )
        return Dispatcher(
            offer=offer,
            gate=self._gate,
            executor=executor,
            meter=meter,
            scribe=scribe,
            ask=ask,
            ask_about=request.ask_about if request else ask_about,
            repair=request is None or request.repair,
            journal=journal,
            owner=owner,
        )


def _check_demand(choice: ToolChoice, offer: Offer) -> None:
    names = [spec.name for spec in offer.specs]
    if not names:
        raise UsageError(
            "tool_choice demands a call, and no tool is offered", hint="offer one, or leave the choice out"
        )
    if choice.named and choice.named not in names and offer.canonical(choice.named) not in names:
        raise UsageError(
            f"tool_choice names {choice.named}, which is not offered", hint=f"there are {', '.join(names[:8])}"
        )
