"""Builds the engine's request from the fields that all APIs have in some form: session, limits, planner, knobs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Literal

import msgspec

from aish.errors import UsageError
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.server.http_errors import HttpProblem, bad_field, check_mode, uncovered_model
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.tool_fields import (
    RequestTools,
    add_agent_tools,
    runnable_tools,
)
from aish.frontends.long_runs import make_planning
from aish.safety.policy.modes import strictest
from aish.types.decisions import Mode
from aish.types.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
)
from aish.types.requests import Knobs, Sampling, ToolChoice, TurnLimits, TurnRequest
from aish.types.runs import Planning

_SESSION_HEADERS = (b"x-session-id", b"session-id", b"session_id")
_MAX_SESSION_CHARS = 128
# Version, trace, span and flags, as in W3C Trace Context; ids of all zeros are invalid.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
RETRY_HEADERS = (*_SESSION_HEADERS, b"x-client-request-id", b"thread-id")


class Extensions(Knobs, frozen=True):
    """Body fields that every API takes beyond its own: ours, and the knobs of local backends."""

    repetition_penalty: float | None = None
    session_id: str | None = None
    use_server_history: bool | None = None
    max_steps: int | None = None
    max_tool_calls: int | None = None
    trace: bool | None = None
    planner: Any = None
    tool_mode: Literal["auto", "native", "constrained", "prompted"] | None = None
    mode: str | None = None


_knob_values = attrgetter(*Knobs.__struct_fields__)
_NO_KNOBS = Knobs()


def read_knobs(given: Extensions) -> Knobs | None:
    """Returns None where no knob is set. `repetition_penalty` is another name of `repeat_penalty`, which wins."""
    knobs = Knobs(*_knob_values(given))
    if knobs.repeat_penalty is None and given.repetition_penalty is not None:
        knobs = msgspec.structs.replace(knobs, repeat_penalty=given.repetition_penalty)
    return knobs if knobs != _NO_KNOBS else None


def read_limits(service: Service, extensions: Extensions) -> TurnLimits:
    """A request may lower the configured limits, never raise them."""
    limits = service.limits
    steps, calls = extensions.max_steps, extensions.max_tool_calls
    if steps is None and calls is None:
        return limits
    if steps is not None and steps < 1:
        raise bad_field("max_steps", "must be at least 1")
    if calls is not None and calls < 0:
        raise bad_field("max_tool_calls", "must not be negative")
    return msgspec.structs.replace(
        limits,
        max_steps=limits.max_steps if steps is None else min(steps, limits.max_steps),
        max_tool_calls=limits.max_tool_calls if calls is None else min(calls, limits.max_tool_calls),
    )


def read_mode(service: Service, owner: str, given: str | None) -> Mode | None:
    """The mode of a request; None leaves everything as it is. A key that is not an administrator's goes no further than
    `serve.max_mode`."""
    most = service.config.max_mode if owner else Mode.AUTO
    if given is None:
        return None if service.mode is Mode.ASK else strictest(service.mode, most)
    return check_mode(given, most)


def read_planning(service: Service, caller: Caller, extensions: Extensions) -> Planning | None:
    configured = service.runtime.config.planner
    try:
        planning = make_planning(configured, extensions.planner)
    except UsageError as exc:
        raise HttpProblem(400, exc.message, param="planner", code="invalid_value") from exc
    if planning is not None and planning.model != configured.model:
        service.check_model(caller, planning.model)
    elif planning is not None and planning.model and not caller.may_use_model(planning.model):
        raise uncovered_model(planning.model)
    return planning


def read_session(service: Service, exchange: Exchange, caller: Caller, extensions: Extensions) -> str:
    """Returns the stored name of the session that the request names, "" for none."""
    named = extensions.session_id or ""
    if not named and service.config.client_sessions:
        named = exchange.headers.first(_SESSION_HEADERS)
    if not named:
        return ""
    if len(named) > _MAX_SESSION_CHARS or not named.isprintable():
        raise bad_field("session_id", f"must be printable and at most {_MAX_SESSION_CHARS} characters")
    if service.engine.redact(named) != named:  # it would be part of every event and could not be removed
        raise bad_field("session_id", "looks like a key; name the session otherwise")
    return caller.session(named)


def make_retry_key(caller: Caller, client: str, body: bytes) -> str:
    """Identifies this very request of a client that has identified itself: opencode, codex and others repeat a request
    on their own when an answer breaks off."""
    return hashlib.sha256(b"\0".join((caller.key.encode(), client.encode("latin-1", "replace"), body))).hexdigest()


def read_traceparent(exchange: Exchange) -> str:
    """The client's own trace, "" if it names none or an invalid one."""
    given = exchange.headers.get("traceparent") or ""
    return given if _TRACEPARENT.fullmatch(given) else ""


def build_turn_request(
    service: Service,
    exchange: Exchange,
    caller: Caller,
    extensions: Extensions,
    messages: Sequence[Message],
    tools: RequestTools,
    body: bytes,
    *,
    model: str,
    tool_choice: ToolChoice,
    parallel_calls: bool | None,
    sampling: Sampling,
    stream: bool,
) -> TurnRequest:
    """Does what is the same for every API whose clients send the conversation. The caller of this function passes what
    each API has in a form of its own."""
    session = read_session(service, exchange, caller, extensions)
    from_store = bool(extensions.use_server_history)
    if from_store and not session:
        raise bad_field("use_server_history", "needs a session_id")
    if not from_store:
        check_has_input("messages", messages)
    context, new = ((), tuple(messages)) if from_store else split_conversation(messages)
    who, owner = exchange.headers.first(RETRY_HEADERS), caller.owner
    ours = runnable_tools(service, caller, tools) if tools.agreed else tools.ours
    return TurnRequest(
        input=new,
        session=session,
        kept=bool(session),
        may_be_new=True,
        context=None if from_store else context,
        tools=add_agent_tools(service, caller, model, ours),
        dynamic_mcp="" if tools.dynamic is None else tools.dynamic.name,
        client_tools=tools.clients,
        tool_mode=extensions.tool_mode,
        mode=read_mode(service, owner, extensions.mode),
        ask_about=tools.ask,
        may_fall_back=caller.may_use_model(service.fallback),
        retry_key=make_retry_key(caller, who, body) if who else "",
        planner=None if extensions.planner is None else read_planning(service, caller, extensions),
        limits=read_limits(service, extensions),
        traceparent=read_traceparent(exchange) if b"traceparent" in exchange.headers.raw else "",
        model=model,
        tool_choice=tool_choice,
        parallel_calls=parallel_calls,
        sampling=sampling,
        stream=stream,
        owner=owner,
        models=caller.models,
        payer=caller.payer,
    )


def read_response_format(field: str, given: Any) -> tuple[dict[str, Any] | None, bool]:
    """Returns the schema of the answer, and whether it has to be any JSON object. Both APIs nest the schema in two
    ways."""
    match given:
        case None | {"type": "text"}:
            return None, False
        case {"type": "json_object"}:
            return None, True
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema, False
        case {"type": "json_schema", "schema": dict(schema)}:
            return schema, False
        case _:
            raise bad_field(field, "must be text, json_object or json_schema with its schema")


def check_has_input(field: str, messages: Sequence[Message]) -> None:
    """Tool results without their calls are ignored, so they alone are no input. Some clients drop old messages."""
    first = messages[0] if messages else None
    if first is None or (type(first) is ToolMessage and all(type(each) is ToolMessage for each in messages)):
        raise bad_field(field, "holds nothing to answer: results come with the calls they belong to")


def split_conversation(messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Returns the conversation so far, and what is new in it: the messages after the assistant's last one."""
    for end in range(len(messages), 0, -1):
        if type(messages[end - 1]) is AssistantMessage:
            return tuple(messages[:end]), tuple(messages[end:])
    for index, message in enumerate(messages):
        if type(message) is not SystemMessage:
            return tuple(messages[:index]), tuple(messages[index:])
    return (), tuple(messages)


MAX_TOP_LOGPROBS = 20


def check_top_logprobs(count: int | None) -> int:
    if not 0 <= (count or 0) <= MAX_TOP_LOGPROBS:
        raise bad_field("top_logprobs", f"must be from 0 to {MAX_TOP_LOGPROBS}")
    return count or 0
