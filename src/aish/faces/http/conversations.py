"""`/v1/conversations`: items that last, and the responses that were made in them, one at a time.

A conversation knows its last document; the documents know the ones before (see `responses_store`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from aish.faces.asgi import Exchange
from aish.faces.http.asked import check_count
from aish.faces.http.bodies import decode_body, read_body
from aish.faces.http.callers import Caller
from aish.faces.http.problems import Problem, bad_field
from aish.faces.http.responses_items import as_items, as_listed, read_items
from aish.faces.http.responses_plan import Plan
from aish.faces.http.responses_request import check_metadata
from aish.faces.http.responses_store import ITEMS, Kept, Shelf, list_page
from aish.faces.http.routes import Route
from aish.faces.http.service import Service
from aish.types.ids import new_id
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
    def __init__(self, service: Service, shelf: Shelf) -> None:
        self._service = service
        self._shelf = shelf
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
                await self._shelf.move(plan.id, caller.key, previous=expected)
            changed = msgspec.structs.replace(conversation, head=plan.id)
            if await self._service.store.swap(Document(KIND, id, msgspec.json.encode(changed), caller.key), old=old):
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
        await exchange.reply(200, _object(id, await self._change(id, caller, metadata=body.metadata or {})))

    async def delete(self, exchange: Exchange, caller: Caller, id: str) -> None:
        """Items added by hand go with it; responses stay until they are deleted themselves."""
        conversation = await self.get(id, caller)
        for name, kept in await self._shelf.chain(conversation.head, caller.key):
            if kept.status == ITEMS:
                await self._shelf.delete(name, caller.key)
        await self._service.store.delete(KIND, id)
        await exchange.reply(200, msgspec.json.encode({"id": id, "object": "conversation.deleted", "deleted": True}))

    async def list_items(self, exchange: Exchange, caller: Caller, id: str) -> None:
        await exchange.reply(200, list_page(await self._items(id, caller), exchange.query))

    async def show_item(self, exchange: Exchange, caller: Caller, id: str, item: str) -> None:
        found = next((one for one in await self._items(id, caller) if one.get("id") == item), None)
        if found is None:
            raise Problem(404, f"there is no item {item[:100]}", param="item_id", code="not_found")
        await exchange.reply(200, msgspec.json.encode(found))

    async def add_items(self, exchange: Exchange, caller: Caller, id: str) -> None:
        body = await self._body(exchange)
        if not body.items:
            raise bad_field("items", "must not be empty")
        async with self.alone_in(id):
            conversation = await self.get(id, caller)
            head, added = await self._keep_items(caller, id, body.items, conversation.head)
            await self._change(id, caller, head=head)
        await exchange.reply(200, list_page(added, {"limit": "100"}, order="asc"))

    async def _items(self, id: str, caller: Caller) -> list[Any]:
        conversation = await self.get(id, caller)
        chain = await self._shelf.chain(conversation.head, caller.key)
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
        await self._shelf.put(name, caller.key, kept)
        return name, items

    async def _get(self, id: str, caller: Caller) -> tuple[Conversation, bytes]:
        document = await self._service.store.find(KIND, id)
        if document is None or document.owner != caller.key:
            raise Problem(404, f"there is no conversation {id[:100]}", param="conversation", code="not_found")
        return _decoder.decode(document.body), document.body

    async def _change(self, id: str, caller: Caller, **fields: Any) -> Conversation:
        """Another process may change it at the same time: then once more."""
        for _ in range(_MAX_SWAPS):
            conversation, old = await self._get(id, caller)
            changed = msgspec.structs.replace(conversation, **fields)
            document = Document(KIND, id, msgspec.json.encode(changed), caller.key)
            if await self._service.store.swap(document, old=old):
                return changed
        raise Problem(409, "the conversation is changed by too many at once", code="conversation_locked")

    async def _body(self, exchange: Exchange) -> _Body:
        data = await read_body(exchange, self._service.config.max_body_bytes)
        body = decode_body(data or b"{}", _body_decoder)
        check_metadata(body.metadata)
        return body


def _object(id: str, conversation: Conversation) -> bytes:
    return msgspec.json.encode({
        "id": id, "object": "conversation", "created_at": conversation.created_at, "metadata": conversation.metadata,
    })  # fmt: skip
