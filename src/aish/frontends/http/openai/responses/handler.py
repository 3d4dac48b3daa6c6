"""`/v1/responses`: make, stream, get, cancel and delete responses, and count their input."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing
from functools import partial

import msgspec

from aish.engine.prompt.composer import compose_system
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.openai.conversations import ConversationRoutes
from aish.frontends.http.openai.responses.background import BackgroundResponses
from aish.frontends.http.openai.responses.request import ResponseBody, decode_response_body
from aish.frontends.http.openai.responses.run import ResponseRun
from aish.frontends.http.openai.responses.store import ResponseStore, list_page
from aish.frontends.http.openai.responses.turn_requests import ResponsePlan, make_plan
from aish.frontends.http.server.http_errors import bad_field, read_number
from aish.frontends.http.server.reply_stream import ReplyStream, run_while_connected
from aish.frontends.http.server.routes import HttpRoute
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.delivery import add_turn_header
from aish.types.messages import AssistantMessage, Message


class CurrentOwners:
    """The owners of the engine in service, which exists only after the server has started."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def me(self) -> str:
        return self._service.engine.liveness.me

    def is_alive(self, owner: str) -> bool:
        return self._service.engine.liveness.is_alive(owner)


_MAX_EVENTS = 1_000_000_000


class Responses:
    def __init__(self, service: Service) -> None:
        self._service = service
        self.response_store = ResponseStore(
            lambda: service.store,
            CurrentOwners(service),
            lambda: service.config.keep_days,
            service.redact_json,
        )
        self.conversations = ConversationRoutes(service, self.response_store)
        self._background = BackgroundResponses(service, self.response_store, self.conversations.link)

    async def create(self, exchange: Exchange, caller: Caller) -> None:
        service = self._service
        body = decode_response_body(await exchange.body(service.config.max_body_bytes))
        async with AsyncExitStack() as stack:
            plan = await self._plan(exchange, caller, body, stack)
            if body.background:
                await self._background.begin(exchange, caller, plan, stack.pop_all())
            elif body.stream:
                await self._stream(exchange, caller, plan)
            else:
                await self._whole(exchange, caller, plan)

    async def get(self, exchange: Exchange, caller: Caller, id: str) -> None:
        query = exchange.query
        if query.get("stream") == "true":
            after = query.get("starting_after", "")
            begin = read_number("starting_after", after, least=0, most=_MAX_EVENTS) + 1 if after else 0
            await self._background.resume(exchange, caller, id, begin)
            return
        await exchange.reply(200, await self._background.current(id, caller))

    async def delete(self, exchange: Exchange, caller: Caller, id: str) -> None:
        await self.response_store.get(id, caller.key)
        await self._background.end(id, caller)
        await self.response_store.delete(id, caller.key)
        await exchange.reply(200, msgspec.json.encode({"id": id, "object": "response", "deleted": True}))

    async def cancel(self, exchange: Exchange, caller: Caller, id: str) -> None:
        stored = await self.response_store.get(id, caller.key)
        if stored.setup is None:
            raise bad_field("response_id", "only a response in the background can be cancelled")
        await self._background.end(id, caller)
        await exchange.reply(200, await self._background.current(id, caller))

    async def input_items(self, exchange: Exchange, caller: Caller, id: str) -> None:
        stored = await self.response_store.get(id, caller.key)
        items = [msgspec.json.decode(item) for item in stored.input]
        await exchange.reply(200, list_page(items, exchange.query))

    async def input_tokens(self, exchange: Exchange, caller: Caller) -> None:
        service = self._service
        body = decode_response_body(await exchange.body(service.config.max_body_bytes))
        async with AsyncExitStack() as stack:
            plan = await self._plan(exchange, caller, body, stack)
            count = await run_while_connected(exchange, count_input(service, plan))
        answer = {"object": "response.input_tokens", "input_tokens": count}
        await exchange.reply(200, msgspec.json.encode(answer))

    async def _plan(
        self, exchange: Exchange, caller: Caller, body: ResponseBody, stack: AsyncExitStack
    ) -> ResponsePlan:
        head = ""
        if conversation := body.conversation_id:
            if not body.is_kept:
                raise bad_field("conversation", "needs store")
            await stack.enter_async_context(self.conversations.lock(conversation))
            head = (await self.conversations.get(conversation, caller)).head
        return await make_plan(self._service, self.response_store, exchange, caller, body, head)

    async def _stream(self, exchange: Exchange, caller: Caller, plan: ResponsePlan) -> None:
        run = self._make_run(exchange, caller, plan, has_begun=lambda: exchange.started)
        config = self._service.config
        reply_stream = ReplyStream(exchange, run.stream, heartbeat_s=config.heartbeat_s, encode_word=run.encode_word)
        with reply_stream:
            async with aclosing(run.pieces(reply_stream)) as pieces:
                try:
                    async for data in pieces:
                        await reply_stream.send(data)
                finally:
                    if run.stream.failed is not None:
                        exchange.failed_status = run.stream.failed.status
                await reply_stream.finish()
        await run.forget_attempts()

    async def _whole(self, exchange: Exchange, caller: Caller, plan: ResponsePlan) -> None:
        run = self._make_run(exchange, caller, plan, has_begun=lambda: False)
        config = self._service.config
        reply_stream = ReplyStream(exchange, None, heartbeat_s=config.heartbeat_s, encode_word=run.encode_word)
        with reply_stream:
            async with aclosing(run.pieces(reply_stream)) as pieces:
                async for _ in pieces:
                    pass
        if run.summary is not None:
            exchange.extra.append(run.summary.header())
        await exchange.reply(200, run.stream.whole)
        await run.forget_attempts()

    def _make_run(
        self, exchange: Exchange, caller: Caller, plan: ResponsePlan, *, has_begun: Callable[[], bool]
    ) -> ResponseRun:
        trace = bool(plan.body.stream and plan.body.trace)
        begun, link = partial(add_turn_header, exchange, trace=trace), self.conversations.link
        return ResponseRun(self._service, self.response_store, caller, plan, link, has_begun=has_begun, begun=begun)


def response_routes(service: Service) -> list[HttpRoute]:
    api = Responses(service)
    one = "/v1/responses/{id}"
    return [
        HttpRoute("POST", "/v1/responses", api.create, "Make a response", body=ResponseBody),
        HttpRoute(
            "POST", "/v1/responses/input_tokens", api.input_tokens, "Count the tokens of an input", body=ResponseBody
        ),
        HttpRoute("GET", one, api.get, "A stored response, or the rest of its stream"),
        HttpRoute("DELETE", one, api.delete, "Delete a stored response"),
        HttpRoute("POST", f"{one}/cancel", api.cancel, "Cancel a response in the background", free=True),
        HttpRoute("GET", f"{one}/input_items", api.input_items, "The input of a stored response"),
        *api.conversations.routes(),
    ]


CHARS_A_TOKEN = 4


async def count_input(service: Service, plan: ResponsePlan) -> int:
    request, engine = plan.request, service.engine
    route = await engine.router.resolve(request.model)
    messages = (*(request.context or ()), *request.input)
    offered = (
        engine.visible_tools(request.tools, interactive=False, dynamic_mcp=request.dynamic_mcp, owner=request.owner)
        if request.tools
        else ()
    )
    tools = [*request.client_tools, *offered]
    texts = [compose_system(route.system, request.system), *(_text(message) for message in messages)]
    texts += [msgspec.json.encode([tool.name, tool.description, tool.schema]).decode() for tool in tools]
    text = "\n".join(filter(None, texts))
    counted = await route.provider.count_tokens(route.info.id, text)
    return counted if counted is not None else -(-len(text) // CHARS_A_TOKEN)


def _text(message: Message) -> str:
    if isinstance(message, AssistantMessage):
        calls = "\n".join(f"{call.name} {call.arguments}" for call in message.tool_calls)
        return "\n".join(filter(None, (message.text, calls)))
    return message.text
