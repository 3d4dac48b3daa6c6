"""`POST /v1/messages` and `/v1/messages/count_tokens`: for clients that speak Anthropic's API."""

from __future__ import annotations

import msgspec

from aish.frontends.asgi import Exchange
from aish.frontends.http.anthropic.encoder import MessagesReplyBuilder, MessagesStreamEncoder
from aish.frontends.http.anthropic.request import (
    MessagesBody,
    decode_messages_body,
    read_choice,
    read_conversation,
    read_sampling,
    read_tools,
)
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.openai.models import count_request
from aish.frontends.http.server.http_errors import anthropic_shape, bad_field
from aish.frontends.http.server.reply_stream import run_while_connected
from aish.frontends.http.server.routes import HttpRoute
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.delivery import collect_turn, stream_turn
from aish.frontends.http.turns.dynamic_mcp import connect_dynamic_servers, with_prior_consent
from aish.frontends.http.turns.request_fields import build_turn_request
from aish.frontends.http.turns.tool_fields import RequestTools, check_count, check_servers, choose_tools
from aish.types.ids import new_id
from aish.types.requests import TurnRequest


class Messages:
    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[HttpRoute]:
        one = "Answer a conversation in Anthropic's shape"
        count = "How many tokens a conversation is"
        return [
            HttpRoute("POST", "/v1/messages", self.create, one, anthropic_shape, body=MessagesBody),
            HttpRoute("POST", "/v1/messages/count_tokens", self.count, count, anthropic_shape, body=MessagesBody),
        ]

    async def create(self, exchange: Exchange, caller: Caller) -> None:
        service = self._service
        given, body = await self._read(exchange, caller)
        if given.max_tokens is None:
            raise bad_field("max_tokens", "is missing")
        functions, servers = read_tools(given)
        dynamic = await connect_dynamic_servers(service, caller, servers)
        check_servers(service, servers, dynamic)
        tools = await choose_tools(service, caller, functions, servers, dynamic)
        request = self._request(exchange, caller, given, tools, body)
        ask = service.consent_for(caller)
        if tools.agreed:
            ask = with_prior_consent(ask, tools.agreed)
        id, clients = (exchange.id or new_id("req")).replace("req_", "msg_"), tools.client_names
        trace = bool(given.trace)
        if given.stream:
            streamer = MessagesStreamEncoder(id=id, model=given.model, clients=clients, show_ours=bool(servers))
            await stream_turn(service, exchange, caller, streamer, request, ask, trace=trace)
            return
        whole = MessagesReplyBuilder(id=id, model=given.model, clients=clients, show_ours=bool(servers))
        await collect_turn(service, exchange, caller, whole, request, ask, trace=trace)

    async def count(self, exchange: Exchange, caller: Caller) -> None:
        given, _ = await self._read(exchange, caller)
        functions, servers = read_tools(given)
        dynamic = await connect_dynamic_servers(self._service, caller, servers)
        tools = await choose_tools(self._service, caller, functions, servers, dynamic)
        counting = count_request(self._service, given.model, read_conversation(given), tools)
        count = await run_while_connected(exchange, counting)
        await exchange.reply(200, msgspec.json.encode({"input_tokens": count.tokens}))

    async def _read(self, exchange: Exchange, caller: Caller) -> tuple[MessagesBody, bytes]:
        config = self._service.config
        body = await exchange.body(config.max_body_bytes)
        given = decode_messages_body(body)
        self._service.check_model(caller, given.model)
        check_count("messages", len(given.messages), config.max_messages)
        check_count("tools", len(given.tools or ()), config.max_tools)
        return given, body

    def _request(
        self, exchange: Exchange, caller: Caller, given: MessagesBody, tools: RequestTools, body: bytes
    ) -> TurnRequest:
        choice, parallel = read_choice(given.tool_choice)
        return build_turn_request(
            self._service,
            exchange,
            caller,
            given,
            read_conversation(given),
            tools,
            body,
            model=given.model,
            tool_choice=choice,
            parallel_calls=parallel,
            sampling=read_sampling(given),
            stream=bool(given.stream),
        )
