"""`/v1/conversations`: stored items, and the responses that were made in them, one at a time.

A conversation names its last document; each document names the one before (see `responses/store.py`).
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
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.openai.responses.input_items import as_items, as_listed, read_items
from aish.frontends.http.openai.responses.request import check_metadata
from aish.frontends.http.openai.responses.store import ITEMS, ResponseStore, StoredResponse, list_page
from aish.frontends.http.openai.responses.turn_requests import ResponsePlan
from aish.frontends.http.server.http_errors import HttpProblem, bad_field, decode_body
from aish.frontends.http.server.routes import HttpRoute
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.tool_fields import check_count
from aish.types.ids import new_id
from aish.types.messages import Message
from aish.types.records import Document

KIND = "conversation"
MAX_NEW_ITEMS = 20  # OpenAI's own
_MAX_SWAPS = 100


class StoredConversation(msgspec.Struct, frozen=True):
    created_at: int
    metadata: dict[str, str] = {}
    head: str = ""


class _Body(msgspec.Struct, frozen=True):
    items: list[dict[str, Any]] | None = None
    metadata: dict[str, str] | None = None


_decoder = msgspec.json.Decoder(StoredConversation)
_body_decoder = msgspec.json.Decoder(_Body)


class ConversationRoutes:
    def __init__(self, service: Service, response_store: ResponseStore) -> None:
        self._service = service
        self._response_store = response_store
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def routes(self) -> list[HttpRoute]:
        one = "/v1/conversations/{id}"
        return [
            HttpRoute("POST", "/v1/conversations", self.create, "Begin a conversation"),
            HttpRoute("GET", one, self.show, "A conversation"),
            HttpRoute("POST", one, self.update, "Change what is noted of a conversation"),
            HttpRoute("DELETE", one, self.delete, "Delete a conversation"),
            HttpRoute("GET", f"{one}/items", self.list_items, "The items of a conversation"),
            HttpRoute("POST", f"{one}/items", self.add_items, "Add items to a conversation"),
            HttpRoute("GET", f"{one}/items/{{item}}", self.show_item, "One item of a conversation"),
            HttpRoute("DELETE", f"{one}/items/{{item}}", self.delete_item, "Delete an item of a conversation"),
        ]

    @asynccontextmanager
    async def lock(self, id: str) -> AsyncIterator[None]:
        """One response at a time. The next one waits, but not longer than a turn may last."""
        lock = self._locks.setdefault(id, asyncio.Lock())
        try:
            async with asyncio.timeout(self._service.limits.wall_s):
                await lock.acquire()
        except TimeoutError:
            message = f"the conversation {id[:100]} is still answering another request"
            raise HttpProblem(409, message, param="conversation", code="conversation_locked") from None
        try:
            yield
        finally:
            lock.release()

    async def get(self, id: str, caller: Caller) -> StoredConversation:
        return (await self._get(id, caller))[0]

    async def link(self, caller: Caller, plan: ResponsePlan) -> None:
        """Makes this response the last one of the conversation. If another process made one meanwhile, it comes after
        that."""
        id, expected = plan.body.conversation_id, plan.previous
        for _ in range(_MAX_SWAPS if id else 0):
            conversation, old = await self._get(id, caller)
            if conversation.head != expected:
                expected = conversation.head
                await self._response_store.move(plan.id, caller.key, previous=expected)
            changed = msgspec.structs.replace(conversation, head=plan.id)
            if await self._replace(id, caller, changed, old):
                return

    async def create(self, exchange: Exchange, caller: Caller) -> None:
        body = await self._body(exchange)
        id = new_id("resp").replace("resp_", "conv_")
        head, _ = await self._store_items(caller, id, body.items or [], "")
        conversation = StoredConversation(int(time.time()), body.metadata or {}, head)
        await self._service.store.put(Document(KIND, id, msgspec.json.encode(conversation), caller.key))
        await exchange.reply(200, _object(id, conversation))

    async def show(self, exchange: Exchange, caller: Caller, id: str) -> None:
        await exchange.reply(200, _object(id, await self.get(id, caller)))

    async def update(self, exchange: Exchange, caller: Caller, id: str) -> None:
        body = await self._body(exchange)
        for _ in range(_MAX_SWAPS):
            conversation, old = await self._get(id, caller)
            changed = msgspec.structs.replace(conversation, metadata=body.metadata or {})
            if await self._replace(id, caller, changed, old):
                await exchange.reply(200, _object(id, changed))
                return
        raise _too_many()

    async def delete(self, exchange: Exchange, caller: Caller, id: str) -> None:
        """Deletes added items with it. Responses stay until they are deleted themselves."""
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
        """Joins the rest into one new document, under a new name, so that no process has an outdated copy in its cache.
        A response that the item is part of stays whole until it is deleted itself."""
        chain: list[tuple[str, StoredResponse]] = []

        async def join(conversation: StoredConversation) -> str:
            chain[:] = await self._response_store.chain(conversation.head, caller.key)
            if not any(each.get("id") == item for _, stored in chain for each in stored.items()):
                raise _no_item(item)
            name = new_id("resp")
            await self._response_store.put(name, caller.key, _without_item(chain, without=item))
            return name

        changed = await self._append(id, caller, join)
        await self._delete_added(chain, caller)
        await exchange.reply(200, _object(id, changed))

    async def add_items(self, exchange: Exchange, caller: Caller, id: str) -> None:
        body = await self._body(exchange)
        if not body.items:
            raise bad_field("items", "must not be empty")
        given, added = body.items, list[dict[str, Any]]()

        async def add(conversation: StoredConversation) -> str:
            head, added[:] = await self._store_items(caller, id, given, conversation.head)
            return head

        await self._append(id, caller, add)
        await exchange.reply(200, list_page(added, {"limit": "100"}, order="asc"))

    async def _items(self, id: str, caller: Caller) -> list[Any]:
        conversation = await self.get(id, caller)
        chain = await self._response_store.chain(conversation.head, caller.key)
        return [item for _, stored in chain for item in stored.items()]

    async def _store_items(
        self, caller: Caller, id: str, given: list[dict[str, Any]], previous: str
    ) -> tuple[str, list[dict[str, Any]]]:
        """Returns the document that holds them, and the items with their ids."""
        if not given:
            return previous, []
        check_count("items", len(given), MAX_NEW_ITEMS)
        name = new_id("resp")
        suffix = name.removeprefix("resp_")
        items = [as_listed(item, f"{suffix}_i{n}") for n, item in enumerate(as_items(given))]
        raw = tuple(msgspec.Raw(msgspec.json.encode(item)) for item in items)
        read = read_items(items)
        stored = StoredResponse(ITEMS, input=raw, messages=tuple(read.messages), previous=previous, conversation=id)
        await self._response_store.put(name, caller.key, stored)
        return name, items

    async def _get(self, id: str, caller: Caller) -> tuple[StoredConversation, bytes]:
        document = await self._service.store.find(KIND, id)
        if document is None or document.owner != caller.key:
            raise HttpProblem(404, f"there is no conversation {id[:100]}", param="conversation", code="not_found")
        return _decoder.decode(document.body), document.body

    async def _append(
        self, id: str, caller: Caller, put: Callable[[StoredConversation], Awaitable[str]]
    ) -> StoredConversation:
        """Stores a document with `put` and makes it the last one. If another process does so at the same time, it tries
        again, so that neither is lost."""
        async with self.lock(id):
            for _ in range(_MAX_SWAPS):
                conversation, old = await self._get(id, caller)
                name = await put(conversation)
                changed = msgspec.structs.replace(conversation, head=name)
                if await self._replace(id, caller, changed, old):
                    return changed
                await self._response_store.delete(name, caller.key)
        raise _too_many()

    async def _replace(self, id: str, caller: Caller, changed: StoredConversation, old: bytes) -> bool:
        return await self._service.store.swap(Document(KIND, id, msgspec.json.encode(changed), caller.key), old=old)

    async def _delete_added(self, chain: Sequence[tuple[str, StoredResponse]], caller: Caller) -> None:
        for name, stored in chain:
            if stored.status == ITEMS:
                await self._response_store.delete(name, caller.key)

    async def _body(self, exchange: Exchange) -> _Body:
        data = await exchange.body(self._service.config.max_body_bytes)
        body = decode_body(data or b"{}", _body_decoder)
        check_metadata(body.metadata)
        return body


def _without_item(chain: Sequence[tuple[str, StoredResponse]], *, without: str) -> StoredResponse:
    """All items but one, as one document. Where the item was, the messages are read again from the items around it."""
    items: list[Any] = []
    messages: list[Message] = []
    for _, stored in chain:
        own = stored.items()
        left = [item for item in own if item.get("id") != without]
        items += left
        messages += stored.messages if len(left) == len(own) else read_items(left).messages
    raw = tuple(msgspec.Raw(msgspec.json.encode(item)) for item in items)
    last = chain[-1][1]
    return StoredResponse(
        ITEMS, input=raw, messages=tuple(messages), conversation=last.conversation, listed=last.listed
    )


def _no_item(item: str) -> HttpProblem:
    return HttpProblem(404, f"there is no item {item[:100]}", param="item_id", code="not_found")


def _too_many() -> HttpProblem:
    return HttpProblem(409, "the conversation is changed by too many at once", code="conversation_locked")


def _object(id: str, conversation: StoredConversation) -> bytes:
    return msgspec.json.encode({
        "id": id, "object": "conversation", "created_at": conversation.created_at, "metadata": conversation.metadata,
    })  # fmt: skip
