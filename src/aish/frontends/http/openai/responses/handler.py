"""`/v1/responses`: made, streamed, kept, found, cancelled and deleted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing
from functools import partial

import msgspec

from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.openai.conversations import Conversations
from aish.frontends.http.openai.responses.background import Background
from aish.frontends.http.openai.responses.plan import Plan, make_plan
from aish.frontends.http.openai.responses.request import ResponseBody, decode_response_body
from aish.frontends.http.openai.responses.run import Making
from aish.frontends.http.openai.responses.store import ResponseStore, list_page
from aish.frontends.http.openai.responses.token_count import count_input
from aish.frontends.http.server.disconnect_monitor import Watch, while_there
from aish.frontends.http.server.http_errors import bad_field
from aish.frontends.http.server.queries import read_number
from aish.frontends.http.server.routes import Route
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.delivery import name_turn


class EngineOwners:
    """Those of the engine in service, which is there only once the server has begun."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def me(self) -> str:
        return self._service.engine.owners.me

    def is_alive(self, owner: str) -> bool:
        return self._service.engine.owners.is_alive(owner)


_MAX_EVENTS = 1_000_000_000


class Responses:
    def __init__(self, service: Service) -> None:
        self._service = service
        self.response_store = ResponseStore(
            lambda: service.store,
            EngineOwners(service),
            lambda: service.config.keep_days,
            service.redacted,
        )
        self.conversations = Conversations(service, self.response_store)
        self._background = Background(service, self.response_store, self.conversations.link)

    async def create(self, exchange: Exchange, caller: Caller) -> None:
        service = self._service
        asked = decode_response_body(await exchange.body(service.config.max_body_bytes))
        async with AsyncExitStack() as stack:
            plan = await self._plan(exchange, caller, asked, stack)
            if asked.background:
                await self._background.begin(exchange, caller, plan, stack.pop_all())
            elif asked.stream:
                await self._streamed(exchange, caller, plan)
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
        kept = await self.response_store.get(id, caller.key)
        if kept.setup is None:
            raise bad_field("response_id", "only a response in the background can be cancelled")
        await self._background.end(id, caller)
        await exchange.reply(200, await self._background.current(id, caller))

    async def input_items(self, exchange: Exchange, caller: Caller, id: str) -> None:
        kept = await self.response_store.get(id, caller.key)
        items = [msgspec.json.decode(item) for item in kept.input]
        await exchange.reply(200, list_page(items, exchange.query))

    async def input_tokens(self, exchange: Exchange, caller: Caller) -> None:
        service = self._service
        asked = decode_response_body(await exchange.body(service.config.max_body_bytes))
        async with AsyncExitStack() as stack:
            plan = await self._plan(exchange, caller, asked, stack)
            count = await while_there(exchange, count_input(service, plan))
        answer = {"object": "response.input_tokens", "input_tokens": count}
        await exchange.reply(200, msgspec.json.encode(answer))

    async def _plan(self, exchange: Exchange, caller: Caller, asked: ResponseBody, stack: AsyncExitStack) -> Plan:
        head = ""
        if conversation := asked.conversation_id:
            if not asked.is_kept:
                raise bad_field("conversation", "needs store")
            await stack.enter_async_context(self.conversations.alone_in(conversation))
            head = (await self.conversations.get(conversation, caller)).head
        return await make_plan(self._service, self.response_store, exchange, caller, asked, head)

    async def _streamed(self, exchange: Exchange, caller: Caller, plan: Plan) -> None:
        making = self._making(exchange, caller, plan, has_begun=lambda: exchange.started)
        config = self._service.config
        watch = Watch(exchange, making.stream, heartbeat_s=config.heartbeat_s)
        with watch:
            async with aclosing(making.pieces(watch)) as pieces:
                try:
                    async for data in pieces:
                        await watch.send(data)
                finally:
                    if making.stream.failed is not None:
                        exchange.failed_status = making.stream.failed.status
                await watch.finish()

    async def _whole(self, exchange: Exchange, caller: Caller, plan: Plan) -> None:
        making = self._making(exchange, caller, plan, has_begun=lambda: False)
        config = self._service.config
        watch = Watch(exchange, None, heartbeat_s=config.heartbeat_s)
        with watch:
            async with aclosing(making.pieces(watch)) as pieces:
                async for _ in pieces:
                    pass
        if making.summary is not None:
            exchange.extra.append(making.summary.header())
        await exchange.reply(200, making.stream.whole)

    def _making(self, exchange: Exchange, caller: Caller, plan: Plan, *, has_begun: Callable[[], bool]) -> Making:
        trace = bool(plan.asked.stream and plan.asked.trace)
        begun, link = partial(name_turn, exchange, trace=trace), self.conversations.link
        return Making(self._service, self.response_store, caller, plan, link, has_begun=has_begun, begun=begun)


def responses_routes(service: Service) -> list[Route]:
    api = Responses(service)
    one = "/v1/responses/{id}"
    return [
        Route("POST", "/v1/responses", api.create, "Make a response", body=ResponseBody),
        Route(
            "POST", "/v1/responses/input_tokens", api.input_tokens, "Count the tokens of an input", body=ResponseBody
        ),
        Route("GET", one, api.get, "A stored response, or the rest of its stream"),
        Route("DELETE", one, api.delete, "Delete a stored response"),
        Route("POST", f"{one}/cancel", api.cancel, "Cancel a response in the background", free=True),
        Route("GET", f"{one}/input_items", api.input_items, "The input of a stored response"),
        *api.conversations.routes(),
    ]
