"""Turns a request for a response into the turns it takes: previous messages, approved calls, new input and tools.

A client that names one of our servers is itself asked for consent where the gate or the client wants that: the question
ends the turn, and the answer begins another. For all other tools consent works as in every API.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from aish.engine.prompt.normalise import open_calls
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.openai.responses.input_items import (
    ApprovalDecision,
    ReadItems,
    as_items,
    as_listed,
    read_items,
)
from aish.frontends.http.openai.responses.objects import EncoderSetup, ToolListing, make_head, split_name
from aish.frontends.http.openai.responses.request import (
    DeclaredTools,
    Namespaced,
    ResponseBody,
    read_choice,
    read_declared,
    read_sampling,
)
from aish.frontends.http.openai.responses.store import ITEMS, RUNNING, ResponseStore, StoredResponse
from aish.frontends.http.server.http_errors import HttpProblem, bad_field
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.dynamic_mcp import connect_dynamic_servers, with_prior_consent
from aish.frontends.http.turns.request_fields import (
    RETRY_HEADERS,
    check_has_input,
    make_retry_key,
    read_limits,
    read_mode,
    read_planning,
    read_session,
    read_traceparent,
    split_conversation,
)
from aish.frontends.http.turns.tool_fields import ToolsByServer, add_agent_tools, check_count, choose_tools
from aish.frontends.runtime import DynamicMcpTools
from aish.ports import Ask
from aish.safety.policy.rules import SHELL_TOOL
from aish.types.decisions import Answer, Choice, Question, QuestionKind
from aish.types.globs import Globs
from aish.types.ids import new_id
from aish.types.messages import AssistantMessage, Message, TextPart, ToolCall, ToolMessage
from aish.types.requests import ToolChoice, TurnRequest
from aish.types.tools import ToolSpec


class ResponseTools(msgspec.Struct, frozen=True):
    """`functions` are the client's, by the model's name for them; `late` as in EncoderSetup. `approvable` are the tools
    that run once the client has approved. `dynamic` are the servers that it has brought, `agreed` tools of theirs that
    it has approved ahead of time."""

    ours: tuple[str, ...] = ()
    clients: tuple[ToolSpec, ...] = ()
    functions: dict[str, Namespaced] = {}
    ask_about: tuple[str, ...] = ()
    late: frozenset[str] = frozenset()
    approvable: frozenset[str] = frozenset()
    listings: tuple[ToolListing, ...] = ()
    dynamic: DynamicMcpTools | None = None
    agreed: frozenset[str] = frozenset()


async def choose_response_tools(
    service: Service, caller: Caller, body: ResponseBody, listed: Collection[str]
) -> ResponseTools:
    """`listed` are the labels of servers whose tools were listed before."""
    given = body.tools or []
    check_count("tools", len(given), service.config.max_tools)
    declared = read_declared(given)
    check_count("tools", len(declared.functions), service.config.max_tools)
    dynamic = await connect_dynamic_servers(service, caller, declared.mcp) if declared.mcp else None
    tools = await choose_tools(service, caller, declared.functions, declared.mcp, dynamic)
    functions = {spec.name: declared.spaces.get(spec.name, Namespaced(spec.name)) for spec in tools.clients}
    if not declared.mcp:
        return ResponseTools(tools.ours, tools.clients, functions)
    offered = partial(service.engine.visible_tools, tools.ours, dynamic_mcp=tools.dynamic_name, owner=caller.owner)
    with_consent = {spec.name: spec for spec in offered(interactive=True)}
    without_consent = {spec.name for spec in offered(interactive=False)}
    gated = {name for name in with_consent if name not in without_consent or name == SHELL_TOOL}
    asked_about, by_server = Globs(tools.ask), ToolsByServer(with_consent)
    late = frozenset(n for n in with_consent if n in asked_about or (n in gated and _may_ask(n, declared)))
    late -= tools.agreed
    usable = with_consent if service.consent_for(caller) is not None else without_consent | late | tools.agreed
    return ResponseTools(
        ours=tuple(name for name in tools.ours if name in usable),
        clients=tools.clients,
        functions=functions,
        ask_about=tools.ask,
        late=late,
        approvable=late | without_consent | tools.agreed,
        dynamic=dynamic,
        agreed=tools.agreed,
        listings=tuple(
            _listing(entry.label, [with_consent[name] for name in by_server.tools(entry.label, entry.allowed)])
            for entry in declared.mcp
            if entry.label not in listed
        ),
    )


def response_consent(service: Service, caller: Caller, late: frozenset[str], agreed: frozenset[str]) -> Ask | None:
    """Answers the gate: for tools in `late` the client decides later, tools in `agreed` are approved, others as in
    every API."""
    others = service.consent_for(caller)
    if agreed:
        others = with_prior_consent(others, agreed)
    if not late:
        return others

    async def ask(question: Question) -> Answer:
        if question.tool in late:
            return Answer(Choice.LATER if question.kind is QuestionKind.EFFECT else Choice.NO)
        return await others(question) if others is not None else Answer(Choice.NO, "there was no user to ask")

    return ask


def _may_ask(name: str, declared: DeclaredTools) -> bool:
    label, _ = split_name(name)
    return label not in declared.silent and any(entry.label == label for entry in declared.mcp)


def _listing(label: str, specs: Sequence[ToolSpec]) -> ToolListing:
    tools = tuple(
        {"name": split_name(spec.name)[1], "description": spec.description, "input_schema": spec.schema}
        for spec in specs
    )
    return ToolListing(label, tools, None if tools else f"no tools of {label} can be used here")


class ResponsePlan(msgspec.Struct, frozen=True):
    """`first` runs approved calls without asking the model; `request` asks it. `history` are the messages before,
    `given` the messages of the input, with results that we made of refusals. `dynamic` and `agreed` are
    those of ResponseTools."""

    id: str
    body: ResponseBody
    setup: EncoderSetup
    request: TurnRequest
    first: TurnRequest | None
    items: tuple[msgspec.Raw, ...]
    history: tuple[Message, ...]
    given: tuple[Message, ...]
    previous: str
    listed: tuple[str, ...]
    dynamic: DynamicMcpTools | None = None
    agreed: frozenset[str] = frozenset()


async def make_plan(
    service: Service, response_store: ResponseStore, exchange: Exchange, caller: Caller, body: ResponseBody, head: str
) -> ResponsePlan:
    """`head` is the last document of the conversation, "" where there is none."""
    service.check_model(caller, body.model)
    previous = body.previous_response_id or head
    before = await _before(response_store, caller, body, previous)
    items = await _items(service, response_store, caller, body, previous)
    read = read_items(items)
    check_count("input", len(read.messages), service.config.max_messages)
    listed = {*(before.listed if before else ()), *read.listed}
    chosen = await choose_response_tools(service, caller, body, listed)
    history = await response_store.history(previous, caller.key) if previous else ()
    _check_approvals(body, read, history)
    if not (history or body.instructions or body.use_server_history):
        check_has_input("input", read.messages)
    conversation = _Conversation(history, read)
    base = _base(service, exchange, caller, body, chosen)
    first, request = conversation.requests(base, chosen.approvable)
    id = new_id("resp")
    return ResponsePlan(
        id,
        body,
        _setup(id, body, chosen, conversation),
        request,
        first,
        items=_list_items(id, items) if body.is_kept else (),
        history=history,
        given=(*read.messages, *conversation.refusals()),
        previous=previous,
        listed=tuple(sorted({*listed, *(listing.label for listing in chosen.listings)})),
        dynamic=chosen.dynamic,
        agreed=chosen.agreed,
    )


class _Conversation:
    """The previous messages and the new ones, with the decisions about calls."""

    def __init__(self, history: tuple[Message, ...], read: ReadItems) -> None:
        whole = (*history, *read.messages)
        self._context, self._new = split_conversation(whole)
        self._all_new = tuple(read.messages)
        self._decided = [
            (call, read.approvals[call.id])
            for call in open_calls([*self._context, *self._results()])
            if call.id in read.approvals
        ]

    def approved_calls(self) -> dict[str, ToolCall]:
        return {call.id: call for call, decision in self._decided if decision.approve}

    def request_ids(self) -> dict[str, str]:
        """The ids of the items that asked for approved calls."""
        return {call.id: decision.request for call, decision in self._decided if decision.approve}

    def refusals(self) -> list[Message]:
        return [_refusal(call, decision) for call, decision in self._decided if not decision.approve]

    def requests(self, base: TurnRequest, approvable: frozenset[str]) -> tuple[TurnRequest | None, TurnRequest]:
        """Returns the request that runs approved calls, if there are any, and the one that asks the model."""
        if base.context is None:
            return None, _with(base, input=self._all_new)
        if not self._decided:
            return None, _with(base, context=self._context, input=self._new)
        results = (*self._results(), *self.refusals())
        others = tuple(message for message in self._new if not isinstance(message, ToolMessage))
        approved = self.approved_calls()
        if not approved:
            return None, _with(base, context=self._context, input=(*results, *others))
        first = _with(
            base,
            context=self._context,
            input=results,
            tools=tuple({call.name for call in approved.values()} & approvable),
            client_tools=(),
            tool_choice=ToolChoice(),
            answers={id: Answer(Choice.YES) for id in approved},
            limits=msgspec.structs.replace(base.limits, max_steps=0),
        )
        return first, _with(base, context=(*self._context, *results), input=others)

    def _results(self) -> list[Message]:
        return [message for message in self._new if isinstance(message, ToolMessage)]


def _setup(id: str, body: ResponseBody, chosen: ResponseTools, conversation: _Conversation) -> EncoderSetup:
    created = int(time.time())
    head = make_head(id, created, body)
    streams = body.stream or body.background
    return EncoderSetup(
        id,
        head.decode(),
        (make_head(id, created, body, light=True) if streams else head).decode(),
        functions=chosen.functions,
        late=chosen.late,
        approved=conversation.approved_calls(),
        requests=conversation.request_ids(),
        listings=chosen.listings,
        summary=bool((body.reasoning or {}).get("summary")),
    )


async def _before(
    response_store: ResponseStore, caller: Caller, body: ResponseBody, previous: str
) -> StoredResponse | None:
    stored = await response_store.find(previous, caller.key) if previous else None
    field = "previous_response_id"
    if body.previous_response_id and (stored is None or stored.status == ITEMS):
        raise HttpProblem(404, f"{field}: there is no such response", param=field, code="previous_response_not_found")
    if body.previous_response_id and stored is not None and stored.status in RUNNING:
        raise HttpProblem(409, f"{field}: {previous} is still being made", param=field, code="not_finished")
    return stored


def _check_approvals(body: ResponseBody, read: ReadItems, history: Iterable[Message]) -> None:
    if not read.approvals:
        return
    if body.use_server_history:
        raise bad_field("use_server_history", "goes without approvals: send the request for approval along")
    messages = (message for part in (history, read.messages) for message in part)
    made = {call.id for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls}
    if unknown := [approval.request for id, approval in read.approvals.items() if id not in made]:
        raise bad_field("input", f"no request for approval {unknown[0][:100]} is known")


async def _items(
    service: Service, response_store: ResponseStore, caller: Caller, body: ResponseBody, previous: str
) -> list[dict[str, Any]]:
    """The input items; references are replaced by the items that they refer to."""
    items = as_items(body.input)
    check_count("input", len(items), service.config.max_messages)
    if not any(item["type"] == "item_reference" for item in items):
        return items
    before = await response_store.chain(previous, caller.key) if previous else []
    found: list[dict[str, Any]] = []
    for index, item in enumerate(items):
        if item["type"] == "item_reference":
            id = item.get("id")
            there = await response_store.find_item(id, caller.key, before) if isinstance(id, str) else None
            if there is None:
                raise bad_field(f"input[{index}].id", "there is no such item")
            item = there
        found.append(item)
    return found


def _base(
    service: Service, exchange: Exchange, caller: Caller, body: ResponseBody, chosen: ResponseTools
) -> TurnRequest:
    """The request without its conversation; `context` None where the stored session has it."""
    session = read_session(service, exchange, caller, body)
    from_store = bool(body.use_server_history)
    if from_store and not session:
        raise bad_field("use_server_history", "needs a session_id")
    if from_store and (body.previous_response_id or body.conversation is not None):
        raise bad_field("use_server_history", "goes without previous_response_id and conversation")
    who = exchange.headers.first(RETRY_HEADERS)
    return TurnRequest(
        input=(),
        model=body.model,
        session=session,
        kept=bool(session),
        may_be_new=True,
        context=None if from_store else (),
        fit=body.truncation == "auto",
        system=body.instructions or "",
        tools=add_agent_tools(service, caller, body.model, chosen.ours),
        dynamic_mcp=chosen.dynamic.name if chosen.dynamic is not None else "",
        client_tools=chosen.clients,
        tool_mode=body.tool_mode,
        mode=read_mode(service, caller.owner, body.mode),
        ask_about=chosen.ask_about,
        may_fall_back=caller.may_use_model(service.fallback),
        tool_choice=read_choice(body.tool_choice, body.tools or []),
        parallel_calls=body.parallel_tool_calls,
        sampling=read_sampling(body),
        retry_key=make_retry_key(caller, who, msgspec.json.encode(body)) if who else "",
        planner=read_planning(service, caller, body),
        limits=read_limits(service, body),
        traceparent=read_traceparent(exchange),
        stream=bool(body.stream or body.background),
        owner=caller.owner,
        models=caller.models,
        payer=caller.payer,
    )


def _refusal(call: ToolCall, decision: ApprovalDecision) -> Message:
    return ToolMessage(call.id, call.name, (TextPart(f"[aish] refused: {decision.reason or 'the user said no'}"),))


def _list_items(id: str, items: list[dict[str, Any]]) -> tuple[msgspec.Raw, ...]:
    suffix = id.removeprefix("resp_")
    listed = (as_listed(item, f"{suffix}_i{number}") for number, item in enumerate(items))
    return tuple(msgspec.Raw(msgspec.json.encode(item)) for item in listed)


_with = msgspec.structs.replace
