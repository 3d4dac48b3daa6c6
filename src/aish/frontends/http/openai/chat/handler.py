"""`POST /v1/chat/completions`: decodes the request, reads its messages and runs the turn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.openai.attachments import read_file_part, read_image
from aish.frontends.http.openai.chat.encoder import ChatReplyBuilder, ChatStreamEncoder
from aish.frontends.http.server.http_errors import bad_field, decode_body
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.delivery import collect_turn, stream_turn
from aish.frontends.http.turns.dynamic_mcp import connect_dynamic_servers, with_prior_consent
from aish.frontends.http.turns.request_fields import (
    Extensions,
    build_turn_request,
    check_top_logprobs,
    read_knobs,
    read_response_format,
)
from aish.frontends.http.turns.tool_fields import (
    NO_TOOLS,
    ClientFunction,
    McpEntry,
    RequestTools,
    check_count,
    check_servers,
    choose_tools,
    read_function,
    read_mcp,
    tool_choice,
)
from aish.types.ids import new_id
from aish.types.messages import (
    AssistantMessage,
    Message,
    Part,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from aish.types.requests import Sampling, TurnRequest


class _CallFunction(msgspec.Struct, frozen=True):
    name: str
    arguments: str = ""


class _Call(msgspec.Struct, frozen=True):
    id: str
    function: _CallFunction | None = None


class ChatMessage(msgspec.Struct, frozen=True):
    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    reasoning_content: str | None = None


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class ChatBody(Extensions, frozen=True, kw_only=True):
    messages: list[ChatMessage]
    model: str = ""
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    n: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    reasoning_effort: str | None = None
    response_format: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None


_decoder = msgspec.json.Decoder(ChatBody)


def decode_chat(body: bytes) -> ChatBody:
    chat = decode_body(body, _decoder)
    if not chat.messages:
        raise bad_field("messages", "must not be empty")
    if chat.n not in (None, 1):
        raise bad_field("n", "only one choice is given")
    return chat


def read_chat_messages(messages: Sequence[ChatMessage]) -> list[Message]:
    """Returns the canonical messages in order. Results get the name of the tool that their call names."""
    names: dict[str, str] = {}
    read: list[Message] = []
    for index, message in enumerate(messages):
        if message.role == "user" and isinstance(message.content, str):
            read.append(UserMessage((TextPart(message.content),)))
            continue
        field = f"messages[{index}]"
        match message.role:
            case "system" | "developer":
                read.append(SystemMessage(_text(f"{field}.content", message.content)))
            case "user":
                read.append(UserMessage(_parts(f"{field}.content", message.content)))
            case "assistant":
                calls = _calls(message)
                names.update((call.id, call.name) for call in calls)
                text = _text(f"{field}.content", message.content)
                read.append(AssistantMessage(text, calls, message.reasoning_content or ""))
            case "tool" | "function":
                id = message.tool_call_id or message.name or ""
                if not id:
                    raise bad_field(f"{field}.tool_call_id", "a tool message says which call it answers")
                read.append(ToolMessage(id, names.get(id, ""), _parts(f"{field}.content", message.content)))
            case other:
                raise bad_field(f"{field}.role", f"there is no role {other[:40]!r}")
    return read


def read_sampling(chat: ChatBody) -> Sampling:
    schema, json_object = read_response_format("response_format", chat.response_format)
    return Sampling(
        temperature=chat.temperature,
        top_p=chat.top_p,
        max_tokens=_most_tokens(chat),
        stop=(chat.stop,) if isinstance(chat.stop, str) else tuple(chat.stop or ()),
        seed=chat.seed,
        json_schema=schema,
        json_object=json_object,
        reasoning_effort=chat.reasoning_effort or "",
        frequency_penalty=chat.frequency_penalty,
        presence_penalty=chat.presence_penalty,
        logit_bias=chat.logit_bias,
        logprobs=None if chat.logprobs is None and chat.top_logprobs is None else _logprobs(chat),
        knobs=read_knobs(chat),
    )


def read_tools(tools: Sequence[dict[str, Any]]) -> tuple[list[ClientFunction], list[McpEntry]]:
    """Tools of unknown kinds are ignored."""
    functions: list[ClientFunction] = []
    servers: list[McpEntry] = []
    for index, tool in enumerate(tools):
        field = f"tools[{index}]"
        if tool.get("type") == "mcp":
            servers.append(read_mcp(field, tool))
        elif tool.get("type", "function") == "function":
            given = tool.get("function", tool if "name" in tool else None)
            if not isinstance(given, dict):
                raise bad_field(f"{field}.function", "must be an object")
            functions.append(read_function(f"{field}.function", given))
    return functions, servers


def _calls(message: ChatMessage) -> tuple[ToolCall, ...]:
    calls = [call for call in message.tool_calls or () if call.function is not None]
    return tuple(ToolCall(c.id, c.function.name, c.function.arguments) for c in calls if c.function)


def _text(field: str, content: str | list[dict[str, Any]] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = _parts(field, content)
    return "".join(part.text for part in parts if isinstance(part, TextPart))


def _parts(field: str, content: str | list[dict[str, Any]] | None) -> tuple[Part, ...]:
    if content is None or isinstance(content, str):
        return (TextPart(content or ""),)
    return tuple(_part(f"{field}[{index}]", part) for index, part in enumerate(content))


def _part(field: str, part: dict[str, Any]) -> Part:
    match part:
        case {"type": "text" | "input_text" | "output_text" | "refusal"}:
            text = part.get("text", part.get("refusal"))
            if not isinstance(text, str):
                raise bad_field(f"{field}.text", "must be text")
            return TextPart(text)
        case {"type": "image_url", "image_url": str(url)} | {"type": "image_url", "image_url": {"url": str(url)}}:
            return read_image(f"{field}.image_url", url)
        case {"type": "file", "file": dict(given)}:
            return read_file_part(f"{field}.file", given)
        case {"type": kind}:
            raise bad_field(f"{field}.type", f"parts of type {str(kind)[:40]} are not taken")
        case _:
            raise bad_field(field, "a part says its type")


def _logprobs(chat: ChatBody) -> int | None:
    if not chat.logprobs and chat.top_logprobs:
        raise bad_field("top_logprobs", "needs logprobs to be true")
    return check_top_logprobs(chat.top_logprobs) if chat.logprobs else None


def _most_tokens(chat: ChatBody) -> int | None:
    for field, value in (("max_completion_tokens", chat.max_completion_tokens), ("max_tokens", chat.max_tokens)):
        if value is not None and value < 1:
            raise bad_field(field, "must be at least 1")
    return chat.max_completion_tokens or chat.max_tokens


class ChatCompletions:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def create(self, exchange: Exchange, caller: Caller) -> None:
        service = self._service
        body = await exchange.body(service.config.max_body_bytes)
        chat = decode_chat(body)
        service.check_model(caller, chat.model)
        tools = await self._tools(chat, caller) if chat.tools or service.config.tools else NO_TOOLS
        request = self._request(exchange, caller, chat, tools, body)
        id = (exchange.id or new_id("req")).replace("req_", "chatcmpl-")
        model, created, trace = chat.model, int(time.time()), bool(chat.trace)
        clients = tools.client_names
        ask = service.consent_for(caller)
        if tools.agreed:
            ask = with_prior_consent(ask, tools.agreed)
        if chat.stream:
            usage = bool(chat.stream_options and chat.stream_options.include_usage)
            streamer = ChatStreamEncoder(id, model, created, clients, usage=usage, trace=trace)
            await stream_turn(service, exchange, caller, streamer, request, ask, trace=trace)
            return
        whole = ChatReplyBuilder(id, model, created, clients, trace=trace)
        await collect_turn(service, exchange, caller, whole, request, ask, trace=trace)

    async def _tools(self, chat: ChatBody, caller: Caller) -> RequestTools:
        if not chat.tools:
            return await choose_tools(self._service, caller, ())
        check_count("tools", len(chat.tools), self._service.config.max_tools)
        functions, servers = read_tools(chat.tools)
        dynamic = await connect_dynamic_servers(self._service, caller, servers) if servers else None
        check_servers(self._service, servers, dynamic)
        return await choose_tools(self._service, caller, functions, servers, dynamic)

    def _request(
        self, exchange: Exchange, caller: Caller, chat: ChatBody, tools: RequestTools, body: bytes
    ) -> TurnRequest:
        service = self._service
        check_count("messages", len(chat.messages), service.config.max_messages)
        return build_turn_request(
            service,
            exchange,
            caller,
            chat,
            read_chat_messages(chat.messages),
            tools,
            body,
            model=chat.model,
            tool_choice=tool_choice("tool_choice", chat.tool_choice),
            parallel_calls=chat.parallel_tool_calls,
            sampling=read_sampling(chat),
            stream=bool(chat.stream),
        )
