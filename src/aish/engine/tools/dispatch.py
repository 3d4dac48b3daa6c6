"""Dispatches the tool calls of a model: prepare, authorise, execute, finalise. Every effect goes through here.

Calls are prepared in order. Neighbouring reads run together, every other call runs alone. Results leave in the order of
the calls. Every failure becomes a result that the model can read, so each call has exactly one, except calls that wait
for others: the client's own tools, and calls whose decision comes later. Leaving the stream of events early cancels
what is running; `closing_outcome` then says how each call ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence

import msgspec

from aish.engine.tools.authorisation import HIDDEN_SECRET, Authoriser, Consent, PreparedCall
from aish.engine.tools.executor import Executor, Outcome, aish_says
from aish.engine.tools.selection import ToolSelection
from aish.engine.tools.turn_rights import TurnRights
from aish.engine.turn.events import EventChannel, EventFactory
from aish.engine.turn.hooks import TurnHooks
from aish.engine.turn.turn_limits import Budget
from aish.errors import RunLost
from aish.ports import Ask, Gate
from aish.runs.journal import Journal
from aish.safety.redaction.vault import has_placeholder
from aish.tool_calls.repair.repair import BadArguments, repair_arguments
from aish.types.decisions import (
    Mode,
)
from aish.types.events import Event, Status, ToolOutputDelta, ToolResult, TurnEnd
from aish.types.messages import TextPart, ToolCall
from aish.types.requests import ToolChoice
from aish.types.tools import MAX_NAME_CHARS, Effect, JsonObject, Repair, RepairKind, ResultStatus, ToolSpec

# Failures of the transport rather than of the tool: the user is told as well as the model.
_SHOWN_TO_USER = frozenset({
    ResultStatus.TRANSPORT, ResultStatus.SERVER_GONE, ResultStatus.RPC_ERROR, ResultStatus.TIMEOUT,
})  # fmt: skip


class RejectedCall(msgspec.Struct, frozen=True):
    call: ToolCall
    outcome: Outcome


class ClientCall(msgspec.Struct, frozen=True):
    """A call of the client's own tool."""

    call: ToolCall


Item = PreparedCall | RejectedCall | ClientCall


_ANY_TOOL = ToolChoice()


class Dispatcher:
    """Dispatches the calls of one turn."""

    def __init__(
        self,
        *,
        tools: ToolSelection,
        gate: Gate,
        executor: Executor,
        budget: Budget,
        events: EventFactory,
        ask: Ask | None,
        ask_about: Sequence[str] = (),
        repair: bool = True,
        journal: Journal | None = None,
        owner: str = "",
        mode: Mode | None = None,
        live_output: bool = False,
        rights: TurnRights | None = None,
        hooks: TurnHooks,
    ) -> None:
        """`journal` is that of the run these calls belong to, if any. `owner` and `mode` as in an EffectRequest.
        `live_output`: what running tools print is passed on. `rights` are those of the turn."""
        self._rights, self._hooks, self._live_output = rights, hooks, live_output
        self._tools = tools
        self._executor = executor
        self._budget, self._repair, self._journal = budget, repair, journal
        self._channel = EventChannel(events)
        self._consent = consent = Consent(
            gate=gate, ask=ask, ask_about=ask_about, journal=journal, executor=executor, budget=budget,
            channel=self._channel, hooks=hooks,
        )  # fmt: skip
        session = rights.session if rights else events.session
        self._authoriser = Authoriser(
            consent, hooks, budget, self._channel, owner=owner, turn=events.turn, session=session, mode=mode
        )
        self._outcomes: dict[str, Outcome] = {}
        self._begun: set[str] = set()
        self._cut: Collection[str] = ()
        self._is_complete = True
        self._choice = ToolChoice()
        self._deferred: TurnEnd | None = None  # calls wait for the client or for a decision

    def run(
        self,
        calls: Sequence[ToolCall],
        *,
        cut: Collection[str] = (),
        is_complete: bool = True,
        choice: ToolChoice = _ANY_TOOL,
    ) -> AsyncGenerator[list[Event], None]:
        """`cut` are ids of calls that the model did not complete: they get a result and never run.
        `is_complete`: the model ended by itself. `choice` is what the request allows it to call."""
        self._cut, self._is_complete, self._choice = cut, is_complete, choice
        return self._channel.events(self._serve(calls))

    @property
    def end(self) -> TurnEnd | None:
        """Why the turn must end after these calls, if it must. Calls that wait for others go before any limit."""
        return self._deferred or self._authoriser.stop

    def closing_outcome(self, call: ToolCall) -> Outcome:
        """The outcome of a call whose result was not sent because the turn was cancelled."""
        if outcome := self._outcomes.get(call.id):
            return outcome
        if call.id in self._begun:
            return aish_says(ResultStatus.CANCELLED, "cancelled while it ran; it may or may not have had its effect.")
        return aish_says(ResultStatus.CANCELLED, "cancelled before it ran.")

    def find_structured(self, call: ToolCall) -> JsonObject | None:
        """The structured result of a call that has run, with secrets."""
        outcome = self._outcomes.get(call.id)
        return outcome.structured if outcome else None

    async def _serve(self, calls: Sequence[ToolCall]) -> None:
        items = [self._prepare(call) for call in calls]
        self._authoriser.expect([item for item in items if isinstance(item, PreparedCall)])
        for group in _groups(items):
            admitted = [await self._admit(item) for item in group if isinstance(item, PreparedCall)]
            as_admitted = {item.call.id: item for item in admitted if item is not None}
            # A hook or the user may have turned a read into more than that.
            for together in _groups(list(as_admitted.values())):
                await self._run_admitted([item for item in together if isinstance(item, PreparedCall)])
            for item in group:
                await self._finalise(as_admitted.get(item.call.id, item), is_last=item is items[-1])

    def _prepare(self, call: ToolCall) -> Item:
        if self._tools.is_client_tool(call.name):
            return ClientCall(call)
        if call.id in self._cut or not (self._is_complete or call.arguments.strip()):
            text = "the call was cut off at the token limit, or is too long. Make it again, shorter."
            return self._reject(call, aish_says(ResultStatus.BAD_ARGUMENTS, text))
        try:
            if (search := self._tools.tool_search) is not None:
                if (found := search.search(call)) is not None:
                    return self._reject(call, Outcome(ResultStatus.OK, (TextPart(found),)))
                call = search.unwrap(call)
        except BadArguments as exc:
            return self._reject(call, aish_says(ResultStatus.BAD_ARGUMENTS, f"{exc}. Send one JSON object."))
        spec = self._tools.find(call.name) or (self._tools.find_meant(call.name) if self._repair else None)
        if spec is None:
            return self._reject(call, self._no_such_tool(call.name))
        if self._choice.mode == "none" or self._choice.named not in ("", spec.name):
            wanted = f"only {self._choice.named} may be called" if self._choice.named else "no tool may be called"
            return self._reject(call, aish_says(ResultStatus.NOT_ALLOWED, f"{wanted} in answer to this request."))
        return self._prepare_arguments(call, spec)

    def _prepare_arguments(self, call: ToolCall, spec: ToolSpec) -> Item:
        """Repairs and checks the arguments. Errors go to the model one by one, so that it can do better."""
        try:
            # Arguments that end with a comma or colon are not complete.
            is_complete = self._is_complete and not call.arguments.rstrip().endswith((",", ":"))
            repaired = repair_arguments(call.arguments, spec, is_complete=is_complete, repair=self._repair)
        except BadArguments as exc:
            text = f"{exc}. Send one JSON object and try again."
            return self._reject(call, aish_says(ResultStatus.BAD_ARGUMENTS, text))
        if repaired.errors:
            text = f"the arguments do not fit the schema of {spec.name}: {'; '.join(repaired.errors)}"
            return self._reject(call, aish_says(ResultStatus.SCHEMA, text))
        repairs = repaired.repairs
        if spec.name != call.name:
            repairs = (Repair(RepairKind.TOOL_NAME, "", call.name[:MAX_NAME_CHARS], spec.name), *repairs)
        return PreparedCall(call, spec.with_effect_of(repaired.arguments), repaired.arguments, repairs)

    def _no_such_tool(self, name: str) -> Outcome:
        if self._tools.is_known(name):
            return aish_says(ResultStatus.NOT_ALLOWED, f"the tool {name} is not allowed in this request.")
        near = self._tools.near(name)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        return aish_says(ResultStatus.UNKNOWN_TOOL, f"there is no tool named {name}.{hint}")

    def _reject(self, call: ToolCall, outcome: Outcome) -> RejectedCall:
        self._outcomes[call.id] = outcome
        self._authoriser.note_rejected(call)
        return RejectedCall(call, outcome)

    async def _admit(self, item: PreparedCall) -> PreparedCall | None:
        """A refusal becomes the outcome of the call."""
        admitted = await self._authoriser.authorise(item)
        if isinstance(admitted, PreparedCall):
            return admitted
        self._outcomes[item.call.id] = admitted
        return None

    async def _run_admitted(self, admitted: Sequence[PreparedCall]) -> None:
        """If one call cannot be journalled, the others are cancelled and the first failure is raised."""
        try:
            async with asyncio.TaskGroup() as group:
                for item in admitted:
                    self._begun.add(item.call.id)
                    group.create_task(self._run(item))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _run(self, item: PreparedCall) -> None:
        call = item.call.id
        if self._budget.remaining_s <= 0:
            self._outcomes[call] = aish_says(ResultStatus.LIMIT, "not run: the turn's time is up.")
            return
        try:
            outcome = await self._execute_journalled(item) if self._journal else await self._execute(item)
        except RunLost as exc:
            self._authoriser.stop_turn(TurnEnd.CANCELLED)
            self._outcomes[call] = aish_says(ResultStatus.CANCELLED, f"{exc.message}.")
            return
        if item.spec.effect is Effect.WRITE and outcome.status is ResultStatus.OK:
            self._authoriser.forget_repeats(item)
        if has_placeholder(item.arguments):
            outcome = outcome.with_note(HIDDEN_SECRET)
        if item.edited or item.hooked:
            outcome = outcome.with_note(_edited_note(item))
        self._outcomes[call] = await self._add_hook_notes(item, outcome)

    async def _add_hook_notes(self, item: PreparedCall, outcome: Outcome) -> Outcome:
        if not self._hooks.has("after_tool"):
            return outcome
        verdict = await self._hooks.after_tool(item.spec, item.arguments, outcome.text, outcome.status)
        for notice in verdict.notices:
            self._channel.send_progress(Status(notice), item.call.id)
        for note in reversed(verdict.notes):
            outcome = outcome.with_note(f"a hook adds: {note}")
        return outcome

    async def _execute(self, item: PreparedCall) -> Outcome:
        def show_output(text: str, left_out_chars: int) -> None:
            if not self._consent.is_relaying:  # it would be drawn over the question
                self._channel.send_progress(ToolOutputDelta(text, left_out_chars), item.call.id)

        rights = None
        if item.spec.runs_turns and self._rights is not None:
            rights = self._rights.for_child(self._tools, self._budget, self._consent.relay_for(item.call.id))
        return await self._executor.run(
            item.spec,
            item.arguments,
            call=item.call.id,
            deadline_s=self._budget.remaining_s,
            on_status=lambda text: self._channel.send_progress(Status(text), item.call.id),
            on_output=show_output if self._live_output else None,
            is_proved=item.is_proved,
            is_unasked=item.is_unasked,
            rights=rights,
            ask=self._consent.relay_for(item.call.id),
        )

    async def _execute_journalled(self, item: PreparedCall) -> Outcome:
        assert self._journal is not None
        call = item.call.id
        witness = (
            "" if item.spec.effect is Effect.READ else await self._executor.compute_witness(item.spec, item.arguments)
        )
        await self._journal.intend(call, item.spec, item.arguments, witness)
        outcome = await self._execute(item)
        await self._journal.conclude(call, outcome.truncate(self._budget.limits.result_max_chars))
        return outcome

    async def _finalise(self, item: Item, *, is_last: bool) -> None:
        """Sends the result of the call. Nothing waits for the last one: it ends the stream."""
        call = item.call
        if isinstance(item, ClientCall) or call.id in self._authoriser.later:
            self._defer(item)
            return
        effect = item.spec.effect if isinstance(item, PreparedCall) else None
        outcome = self._outcomes[call.id].truncate(self._budget.limits.result_max_chars)
        if outcome.status in _SHOWN_TO_USER:
            self._channel.send_progress(Status(f"{call.name}: {outcome.text}"), call.id)
        if (search := self._tools.tool_search) and isinstance(item, PreparedCall) and outcome.status is ResultStatus.OK:
            await search.uses.note(item.spec.name)
        repairs = item.repairs if isinstance(item, PreparedCall) else ()
        result = result_event(call, outcome, effect, repairs)
        if is_last:
            self._channel.send_nowait(result, call.id)
        else:
            await self._channel.send(result, call.id)

    def _defer(self, item: Item) -> None:
        """Leaves a call to the client or to a later decision. The client's tools come first: it must run them before
        anything else."""
        clients = isinstance(item, ClientCall) or self._deferred is TurnEnd.CLIENT_TOOLS
        self._deferred = TurnEnd.CLIENT_TOOLS if clients else TurnEnd.APPROVAL


def _edited_note(item: PreparedCall) -> str:
    who = "the user" if item.edited else "a hook"
    return f"{who} ran this with other arguments: {msgspec.json.encode(item.arguments).decode()}"


def result_event(
    call: ToolCall, outcome: Outcome, effect: Effect | None = None, repairs: tuple[Repair, ...] = ()
) -> ToolResult:
    return ToolResult(
        call.name,
        outcome.status,
        outcome.parts,
        effect,
        outcome.duration_ms,
        outcome.truncated_chars,
        repairs or msgspec.UNSET,
        child_turn=outcome.child_turn or msgspec.UNSET,
    )


def _groups(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Groups neighbours that only read or will not run; every other call is a group of its own."""
    reads: list[Item] = []
    for item in items:
        if not isinstance(item, PreparedCall) or item.spec.effect is Effect.READ:
            reads.append(item)
            continue
        if reads:
            yield reads
            reads = []
        yield [item]
    if reads:
        yield reads
