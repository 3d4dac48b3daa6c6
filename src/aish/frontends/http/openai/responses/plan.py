"""From a request for a response to the turns it takes: what it goes on from, which calls were approved, what is new."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import msgspec

from aish.engine.prompt.result_pairing import open_calls
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.openai.responses.input_items import Approval, ReadItems, as_items, as_listed, read_items
from aish.frontends.http.openai.responses.output_items import Setup
from aish.frontends.http.openai.responses.request import ResponseBody, read_choice, read_sampling
from aish.frontends.http.openai.responses.response_object import make_head
from aish.frontends.http.openai.responses.store import ITEMS, RUNNING, Kept, ResponseStore
from aish.frontends.http.openai.responses.tools import Chosen, choose
from aish.frontends.http.server.http_errors import Problem, bad_field
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.request_fields import (
    RETRY_HEADERS,
    check_count,
    check_said,
    limits_of,
    planning_from,
    retry_key_of,
    session_of,
    split_new,
    traceparent_of,
)
from aish.frontends.runtime import BroughtTools
from aish.types.decisions import Answer, Choice
from aish.types.ids import new_id
from aish.types.messages import AssistantMessage, Message, TextPart, ToolCall, ToolMessage
from aish.types.requests import ToolChoice, TurnRequest


class Plan(msgspec.Struct, frozen=True):
    """`first` runs calls that were approved, without asking the model; `request` asks it. `history` is what came
    before, `given` the messages of the input, with results we made of refusals. `guests` and `agreed` as in Chosen."""

    id: str
    asked: ResponseBody
    setup: Setup
    request: TurnRequest
    first: TurnRequest | None
    items: tuple[msgspec.Raw, ...]
    history: tuple[Message, ...]
    given: tuple[Message, ...]
    previous: str
    listed: tuple[str, ...]
    guests: BroughtTools | None = None
    agreed: frozenset[str] = frozenset()


async def make_plan(
    service: Service, response_store: ResponseStore, exchange: Exchange, caller: Caller, asked: ResponseBody, head: str
) -> Plan:
    """`head` is the last document of the conversation, "" where there is none."""
    service.check_model(caller, asked.model)
    previous = asked.previous_response_id or head
    before = await _before(response_store, caller, asked, previous)
    items = await _items(service, response_store, caller, asked, previous)
    read = read_items(items)
    check_count("input", len(read.messages), service.config.max_messages)
    listed = {*(before.listed if before else ()), *read.listed}
    chosen = await choose(service, caller, asked, listed)
    history = await response_store.history(previous, caller.key) if previous else ()
    _check_approvals(asked, read, history)
    if not (history or asked.instructions or asked.use_server_history):
        check_said("input", read.messages)
    conversation = _Conversation(history, read)
    base = _base(service, exchange, caller, asked, chosen)
    first, request = conversation.requests(base, chosen.approvable)
    id = new_id("resp")
    return Plan(
        id,
        asked,
        _setup(id, asked, chosen, conversation),
        request,
        first,
        items=_listed(id, items) if asked.is_kept else (),
        history=history,
        given=(*read.messages, *conversation.refusals()),
        previous=previous,
        listed=tuple(sorted({*listed, *(listing.label for listing in chosen.listings)})),
        guests=chosen.guests,
        agreed=chosen.agreed,
    )


class _Conversation:
    """What was said before and what is new, with the decisions that came along."""

    def __init__(self, history: tuple[Message, ...], read: ReadItems) -> None:
        whole = (*history, *read.messages)
        self._context, self._new = split_new(whole)
        self._all_new = tuple(read.messages)
        self._decided = [
            (call, read.approvals[call.id])
            for call in open_calls([*self._context, *self._results()])
            if call.id in read.approvals
        ]

    def approved(self) -> dict[str, ToolCall]:
        return {call.id: call for call, decision in self._decided if decision.approve}

    def asked_by(self) -> dict[str, str]:
        """The ids of the items that asked for what was approved."""
        return {call.id: decision.request for call, decision in self._decided if decision.approve}

    def refusals(self) -> list[Message]:
        return [_refusal(call, decision) for call, decision in self._decided if not decision.approve]

    def requests(self, base: TurnRequest, approvable: frozenset[str]) -> tuple[TurnRequest | None, TurnRequest]:
        """The one that runs what was approved, if anything was, and the one that asks the model."""
        if base.context is None:
            return None, _with(base, input=self._all_new)
        if not self._decided:
            return None, _with(base, context=self._context, input=self._new)
        settled = (*self._results(), *self.refusals())
        others = tuple(message for message in self._new if not isinstance(message, ToolMessage))
        approved = self.approved()
        if not approved:
            return None, _with(base, context=self._context, input=(*settled, *others))
        first = _with(
            base,
            context=self._context,
            input=settled,
            tools=tuple({call.name for call in approved.values()} & approvable),
            client_tools=(),
            tool_choice=ToolChoice(),
            answers={id: Answer(Choice.YES) for id in approved},
            limits=msgspec.structs.replace(base.limits, max_steps=0),
        )
        return first, _with(base, context=(*self._context, *settled), input=others)

    def _results(self) -> list[Message]:
        return [message for message in self._new if isinstance(message, ToolMessage)]


def _setup(id: str, asked: ResponseBody, chosen: Chosen, conversation: _Conversation) -> Setup:
    created = int(time.time())
    head = make_head(id, created, asked)
    streams = asked.stream or asked.background
    return Setup(
        id,
        head.decode(),
        (make_head(id, created, asked, light=True) if streams else head).decode(),
        functions=chosen.functions,
        late=chosen.late,
        approved=conversation.approved(),
        requests=conversation.asked_by(),
        listings=chosen.listings,
        summary=bool((asked.reasoning or {}).get("summary")),
    )


async def _before(response_store: ResponseStore, caller: Caller, asked: ResponseBody, previous: str) -> Kept | None:
    kept = await response_store.find(previous, caller.key) if previous else None
    field = "previous_response_id"
    if asked.previous_response_id and (kept is None or kept.status == ITEMS):
        raise Problem(404, f"{field}: there is no such response", param=field, code="previous_response_not_found")
    if asked.previous_response_id and kept is not None and kept.status in RUNNING:
        raise Problem(409, f"{field}: {previous} is still being made", param=field, code="not_finished")
    return kept


def _check_approvals(asked: ResponseBody, read: ReadItems, history: Iterable[Message]) -> None:
    if not read.approvals:
        return
    if asked.use_server_history:
        raise bad_field("use_server_history", "goes without approvals: send the request for approval along")
    messages = (message for part in (history, read.messages) for message in part)
    made = {call.id for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls}
    if unknown := [approval.request for id, approval in read.approvals.items() if id not in made]:
        raise bad_field("input", f"no request for approval {unknown[0][:100]} is known")


async def _items(
    service: Service, response_store: ResponseStore, caller: Caller, asked: ResponseBody, previous: str
) -> list[dict[str, Any]]:
    """With what references refer to in their place."""
    items = as_items(asked.input)
    check_count("input", len(items), service.config.max_messages)
    if not any(item["type"] == "item_reference" for item in items):
        return items
    before = await response_store.chain(previous, caller.key) if previous else []
    found: list[dict[str, Any]] = []
    for place, item in enumerate(items):
        if item["type"] == "item_reference":
            id = item.get("id")
            there = await response_store.find_item(id, caller.key, before) if isinstance(id, str) else None
            if there is None:
                raise bad_field(f"input[{place}].id", "there is no such item")
            item = there
        found.append(item)
    return found


def _base(service: Service, exchange: Exchange, caller: Caller, asked: ResponseBody, chosen: Chosen) -> TurnRequest:
    """The request without its conversation; `context` None where the session has it."""
    session = session_of(service, exchange, caller, asked)
    from_store = bool(asked.use_server_history)
    if from_store and not session:
        raise bad_field("use_server_history", "needs a session_id")
    if from_store and (asked.previous_response_id or asked.conversation is not None):
        raise bad_field("use_server_history", "goes without previous_response_id and conversation")
    who = exchange.headers.first(RETRY_HEADERS)
    return TurnRequest(
        input=(),
        model=asked.model,
        session=session,
        kept=bool(session),
        may_be_new=True,
        context=None if from_store else (),
        fit=asked.truncation == "auto",
        system=asked.instructions or "",
        tools=chosen.ours,
        guests=chosen.guests.name if chosen.guests is not None else "",
        client_tools=chosen.clients,
        tool_mode=asked.tool_mode,
        ask_about=chosen.ask_about,
        may_fall_back=caller.may_use_model(service.fallback),
        tool_choice=read_choice(asked.tool_choice, asked.tools or []),
        parallel_calls=asked.parallel_tool_calls,
        sampling=read_sampling(asked),
        retry_key=retry_key_of(caller, who, msgspec.json.encode(asked)) if who else "",
        planner=planning_from(service, caller, asked),
        limits=limits_of(service, asked),
        traceparent=traceparent_of(exchange),
        stream=bool(asked.stream or asked.background),
        owner=caller.owner,
    )


def _refusal(call: ToolCall, decision: Approval) -> Message:
    return ToolMessage(call.id, call.name, (TextPart(f"[aish] refused: {decision.reason or 'the user said no'}"),))


def _listed(id: str, items: list[dict[str, Any]]) -> tuple[msgspec.Raw, ...]:
    suffix = id.removeprefix("resp_")
    listed = (as_listed(item, f"{suffix}_i{number}") for number, item in enumerate(items))
    return tuple(msgspec.Raw(msgspec.json.encode(item)) for item in listed)


_with = msgspec.structs.replace
