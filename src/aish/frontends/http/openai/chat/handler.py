"""`POST /v1/chat/completions`."""

from __future__ import annotations

import time

from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.openai.chat.encoder import ChatStream, ChatWhole
from aish.frontends.http.openai.chat.request import ChatBody, decode_chat, read_messages, read_sampling, read_tools
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.delivery import collect_turn, stream_turn
from aish.frontends.http.turns.dynamic_mcp import bring_servers, consenting
from aish.frontends.http.turns.request_fields import (
    NO_TOOLS,
    Tools,
    begin_request,
    check_count,
    check_servers,
    choose_tools,
    tool_choice,
)
from aish.types.ids import new_id
from aish.types.requests import TurnRequest


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
        ask = service.ask(caller)
        if tools.agreed:
            ask = consenting(ask, tools.agreed)
        if chat.stream:
            usage = bool(chat.stream_options and chat.stream_options.include_usage)
            streamer = ChatStream(id, model, created, clients, usage=usage, trace=trace)
            await stream_turn(service, exchange, caller, streamer, request, ask, trace=trace)
            return
        whole = ChatWhole(id, model, created, clients, trace=trace)
        await exchange.reply(200, await collect_turn(service, exchange, caller, whole, request, ask, trace=trace))

    async def _tools(self, chat: ChatBody, caller: Caller) -> Tools:
        given = chat.tools or []
        check_count("tools", len(given), self._service.config.max_tools)
        functions, servers = read_tools(given)
        guests = await bring_servers(self._service, caller, servers) if servers else None
        check_servers(self._service, servers, guests)
        return choose_tools(self._service, caller, functions, servers, guests)

    def _request(self, exchange: Exchange, caller: Caller, chat: ChatBody, tools: Tools, body: bytes) -> TurnRequest:
        service = self._service
        check_count("messages", len(chat.messages), service.config.max_messages)
        return begin_request(
            service,
            exchange,
            caller,
            chat,
            read_messages(chat.messages),
            tools,
            body,
            model=chat.model,
            tool_choice=tool_choice("tool_choice", chat.tool_choice),
            parallel_calls=chat.parallel_tool_calls,
            sampling=read_sampling(chat),
            stream=bool(chat.stream),
        )
