"""`/v1/conversations`: items that last, and the responses that were made in them, one at a time.

A conversation knows its last document; the documents know the ones before (see `responses_store`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.openai.responses.input_items import as_items, as_listed, read_items
from aish.frontends.http.openai.responses.plan import Plan
from aish.frontends.http.openai.responses.request import check_metadata
from aish.frontends.http.openai.responses.store import ITEMS, Kept, ResponseStore, list_page
from aish.frontends.http.server.bodies import decode_body
from aish.frontends.http.server.http_errors import Problem, bad_field
from aish.frontends.http.server.routes import Route
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.request_fields import check_count
from aish.types.ids import new_id
from aish.types.messages import Message
from aish.types.records import Document

KIND = "conversation"
MAX_NEW_ITEMS = 20  # OpenAI's own
_MAX_SWAPS = 100


class Conversation(msgspec.Struct, frozen=True):
    created_at: int
    metadata: dict[str, str] = {}
    head: str = ""


class _Body(msgspec.Struct, frozen=True):
    items: list[dict[str, Any]] | None = None
    metadata: dict[str, str] | None = None


_decoder = msgspec.json.Decoder(Conversation)
_body_decoder = msgspec.json.Decoder(_Body)


class Conversations:
    def __init__(self, service: Service, response_store: ResponseStore) -> None:
        self._service = service
        self._response_store = response_store
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def routes(self) -> list[Route]:
        one = "/v1/conversations/{id}"
        return [
            Route("POST", "/v1/conversations", self.create, "Begin a conversation"),
            Route("GET", one, self.show, "A conversation"),
            Route("POST", one, self.update, "Change what is noted of a conversation"),
            Route("DELETE", one, self.delete, "Delete a conversation"),
            Route("GET", f"{one}/items", self.list_items, "The items of a conversation"),
            Route("POST", f"{one}/items", self.add_items, "Add items to a conversation"),
            Route("GET", f"{one}/items/{{item}}", self.show_item, "One item of a conversation"),
            Route("DELETE", f"{one}/items/{{item}}", self.delete_item, "Delete an item of a conversation"),
        ]

    @asynccontextmanager
    async def alone_in(self, id: str) -> AsyncIterator[None]:
        """One response at a time; the next waits, but not longer than a turn may last."""
        lock = self._locks.setdefault(id, asyncio.Lock())
        try:
            async with asyncio.timeout(self._service.limits.wall_s):
                await lock.acquire()
        except TimeoutError:
            message = f"the conversation {id[:100]} is still answering another request"
            raise Problem(409, message, param="conversation", code="conversation_locked") from None
        try:
            yield
        finally:
            lock.release()

    async def get(self, id: str, caller: Caller) -> Conversation:
        return (await self._get(id, caller))[0]

    async def link(self, caller: Caller, plan: Plan) -> None:
        """The conversation goes on from this response; after another one, if another process made one meanwhile."""
        id, expected = plan.asked.conversation_id, plan.previous
        for _ in range(_MAX_SWAPS if id else 0):
            conversation, old = await self._get(id, caller)
            if conversation.head != expected:
                expected = conversation.head
                await self._response_store.move(plan.id, caller.key, previous=expected)
            changed = msgspec.structs.replace(conversation, head=plan.id)
            if await self._swap(id, caller, changed, old):
                return

    async def create(self, exchange: Exchange, caller: Caller) -> None:
        body = await self._body(exchange)
        id = new_id("resp").replace("resp_", "conv_")
        head, _ = await self._keep_items(caller, id, body.items or [], "")
        conversation = Conversation(int(time.time()), body.metadata or {}, head)
        await self._service.store.put(Document(KIND, id, msgspec.json.encode(conversation), caller.key))
        await exchange.reply(200, _object(id, conversation))

    async def show(self, exchange: Exchange, caller: Caller, id: str) -> None:
        await exchange.reply(200, _object(id, await self.get(id, caller)))

    async def update(self, exchange: Exchange, caller: Caller, id: str) -> None:
        body = await self._body(exchange)
        for _ in range(_MAX_SWAPS):
            conversation, old = await self._get(id, caller)
            changed = msgspec.structs.replace(conversation, metadata=body.metadata or {})
            if await self._swap(id, caller, changed, old):
                await exchange.reply(200, _object(id, changed))
                return
        raise _too_many()

    async def delete(self, exchange: Exchange, caller: Caller, id: str) -> None:
        """Items added by hand go with it; responses stay until they are deleted themselves."""
        conversation = await self.get(id, caller)
        await self._delete_added(await self._response_store.chain(conversation.head, caller.key), caller)
        await self._service.store.delete(KIND, id)
        await exchange.reply(200, msgspec.json.encode({"id": id, "object": "conversation.deleted", "deleted": True}))

    async def list_items(self, exchange: Exchange, caller: Caller, id: str) -> None:
        await exchange.reply(200, list_page(await self._items(id, caller), exchange.query))

    async def show_item(self, exchange: Exchange, caller: Caller, id: str, item: str) -> None:
        found = next((one for one in await self._items(id, caller) if one.get("id") == item), None)
        if found is None:
            raise _no_item(item)
        await exchange.reply(200, msgspec.json.encode(found))

    async def delete_item(self, exchange: Exchange, caller: Caller, id: str, item: str) -> None:
        """What is left becomes one document under a name of its own, so that no process remembers more of it. A
        response that the item is of stays whole until it is deleted itself."""
        chain: list[tuple[str, Kept]] = []

        async def join(conversation: Conversation) -> str:
            chain[:] = await self._response_store.chain(conversation.head, caller.key)
            if not any(each.get("id") == item for _, kept in chain for each in kept.items()):
                raise _no_item(item)
            name = new_id("resp")
            await self._response_store.put(name, caller.key, _joined(chain, without=item))
            return name

        changed = await self._go_on(id, caller, join)
        await self._delete_added(chain, caller)
        await exchange.reply(200, _object(id, changed))

    async def add_items(self, exchange: Exchange, caller: Caller, id: str) -> None:
        body = await self._body(exchange)
        if not body.items:
            raise bad_field("items", "must not be empty")
        given, added = body.items, list[dict[str, Any]]()

        async def add(conversation: Conversation) -> str:
            head, added[:] = await self._keep_items(caller, id, given, conversation.head)
            return head

        await self._go_on(id, caller, add)
        await exchange.reply(200, list_page(added, {"limit": "100"}, order="asc"))

    async def _items(self, id: str, caller: Caller) -> list[Any]:
        conversation = await self.get(id, caller)
        chain = await self._response_store.chain(conversation.head, caller.key)
        return [item for _, kept in chain for item in kept.items()]

    async def _keep_items(
        self, caller: Caller, id: str, given: list[dict[str, Any]], previous: str
    ) -> tuple[str, list[dict[str, Any]]]:
        """The document that holds them, and they with their ids."""
        if not given:
            return previous, []
        check_count("items", len(given), MAX_NEW_ITEMS)
        name = new_id("resp")
        suffix = name.removeprefix("resp_")
        items = [as_listed(item, f"{suffix}_i{n}") for n, item in enumerate(as_items(given))]
        raw = tuple(msgspec.Raw(msgspec.json.encode(item)) for item in items)
        read = read_items(items)
        kept = Kept(ITEMS, input=raw, messages=tuple(read.messages), previous=previous, conversation=id)
        await self._response_store.put(name, caller.key, kept)
        return name, items

    async def _get(self, id: str, caller: Caller) -> tuple[Conversation, bytes]:
        document = await self._service.store.find(KIND, id)
        if document is None or document.owner != caller.key:
            raise Problem(404, f"there is no conversation {id[:100]}", param="conversation", code="not_found")
        return _decoder.decode(document.body), document.body

    async def _go_on(self, id: str, caller: Caller, put: Callable[[Conversation], Awaitable[str]]) -> Conversation:
        """From the document that is `put`. Another process may go on from another one at the same time: then once
        more, so that neither is lost."""
        async with self.alone_in(id):
            for _ in range(_MAX_SWAPS):
                conversation, old = await self._get(id, caller)
                name = await put(conversation)
                changed = msgspec.structs.replace(conversation, head=name)
                if await self._swap(id, caller, changed, old):
                    return changed
                await self._response_store.delete(name, caller.key)
        raise _too_many()

    async def _swap(self, id: str, caller: Caller, changed: Conversation, old: bytes) -> bool:
        return await self._service.store.swap(Document(KIND, id, msgspec.json.encode(changed), caller.key), old=old)

    async def _delete_added(self, chain: Sequence[tuple[str, Kept]], caller: Caller) -> None:
        for name, kept in chain:
            if kept.status == ITEMS:
                await self._response_store.delete(name, caller.key)

    async def _body(self, exchange: Exchange) -> _Body:
        data = await exchange.body(self._service.config.max_body_bytes)
        body = decode_body(data or b"{}", _body_decoder)
        check_metadata(body.metadata)
        return body


def _joined(chain: Sequence[tuple[str, Kept]], *, without: str) -> Kept:
    """All items but one. Where it was, the messages are read anew from those beside it."""
    items: list[Any] = []
    messages: list[Message] = []
    for _, kept in chain:
        own = kept.items()
        left = [item for item in own if item.get("id") != without]
        items += left
        messages += kept.messages if len(left) == len(own) else read_items(left).messages
    raw = tuple(msgspec.Raw(msgspec.json.encode(item)) for item in items)
    last = chain[-1][1]
    return Kept(ITEMS, input=raw, messages=tuple(messages), conversation=last.conversation, listed=last.listed)


def _no_item(item: str) -> Problem:
    return Problem(404, f"there is no item {item[:100]}", param="item_id", code="not_found")


def _too_many() -> Problem:
    return Problem(409, "the conversation is changed by too many at once", code="conversation_locked")


def _object(id: str, conversation: Conversation) -> bytes:
    return msgspec.json.encode({
        "id": id, "object": "conversation", "created_at": conversation.created_at, "metadata": conversation.metadata,
    })  # fmt: skip
