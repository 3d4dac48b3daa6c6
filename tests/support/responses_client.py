"""The HTTP application over a scripted engine, called as a client of the responses API calls it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from aish.config.schema.config import Config
from aish.engine.engine import Engine
from aish.frontends.http.server.app import App
from aish.frontends.http.server.service import Service
from aish.frontends.runtime import LaunchContext
from support.asgi import Reply, Visit
from support.engines import Bench
from support.eventually import eventually

MODEL = "scripted:model"


class _Runtime:
    def __init__(self, bench: Bench, config: Config) -> None:
        self.config = config
        self.launch_context = LaunchContext(Path("/work"), {})
        self.notices: tuple[str, ...] = ()
        self.mcp_servers: Mapping[str, Any] = {}
        self.dynamic_mcp_servers: Sequence[Any] = ()
        self._bench = bench

    @asynccontextmanager
    async def engine(self, *, mcp: Any = None, serving: bool = False, shared: bool = False) -> AsyncIterator[Engine]:
        yield self._bench.engine

    async def wait_for_mcp(self, timeout_s: float, names: Sequence[str] = ()) -> Sequence[str]:
        return ()


class Site:
    """A server in this process. `key` says who asks from now on."""

    def __init__(self, bench: Bench, **serve: Any) -> None:
        config = msgspec.structs.replace(Config(), serve=msgspec.convert(serve, type(Config().serve)))
        self.bench = bench
        self.service = Service(_Runtime(bench, config))  # type: ignore[arg-type]
        self.key = ""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Site]:
        async with self.service.open():
            self.app = App(self.service, {})
            yield self

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)

    def visit(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Visit:
        path, _, query = path.partition("?")
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        pairs = [("host", "localhost"), *(headers or {}).items()]
        visit = Visit(method, pairs, [data])
        visit._scope |= {"path": path, "query_string": query.encode()}
        return visit

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.visit(method, path, body, named).run(self)

    async def create(self, input: Any = "hello", **fields: Any) -> Any:
        """The response object, or what was said instead."""
        body = {"model": MODEL, "input": input, **fields}
        reply = await self.send("POST", "/v1/responses", body)
        assert reply.status == 200, reply.body
        return reply.json

    async def stream(self, input: Any = "hello", **fields: Any) -> list[Any]:
        reply = await self.send("POST", "/v1/responses", {"model": MODEL, "input": input, "stream": True, **fields})
        assert reply.status == 200, reply.body
        return events_of(reply.body)

    async def refused(self, **body: Any) -> tuple[int, Any]:
        reply = await self.send("POST", "/v1/responses", {"model": MODEL, "input": "hello", **body})
        return reply.status, reply.json["error"]

    async def get(self, path: str) -> Any:
        reply = await self.send("GET", path)
        assert reply.status == 200, reply.body
        return reply.json

    async def until(self, id: str, status: str) -> Any:
        """The response, once it has come to this status."""
        found: list[Any] = []

        async def arrived() -> bool:
            found[:] = [await self.get(f"/v1/responses/{id}")]
            return bool(found[0]["status"] == status)

        await eventually(arrived)
        return found[0]


def events_of(data: bytes) -> list[Any]:
    """Each event with the name of its line checked against its type."""
    events = []
    for block in data.decode().split("\n\n")[:-1]:
        name, _, line = block.partition("\ndata: ")
        event = json.loads(line)
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


def kinds(events: list[Any]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def of(events: list[Any], kind: str) -> list[Any]:
    return [event for event in events if event["type"] == f"response.{kind}"]


def text_of(response: Any) -> str:
    parts = [part for item in response["output"] if item["type"] == "message" for part in item["content"]]
    return "".join(part["text"] for part in parts)


TERMINAL = ("completed", "incomplete", "failed")


def check_stream(events: list[Any]) -> None:
    """One lifecycle, numbered without gaps, in which every item is opened, filled and closed in order."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert kinds(events)[:2] == ["created", "in_progress"]
    ends = [kind for kind in kinds(events) if kind in TERMINAL]
    assert ends == [kinds(events)[-1]] and kinds(events).count("created") == 1
    assert len({event["response"]["id"] for event in events if "response" in event}) == 1
    added = {event["output_index"]: event["item"] for event in of(events, "output_item.added")}
    done = {event["output_index"]: event["item"] for event in of(events, "output_item.done")}
    assert sorted(added) == sorted(done) == list(range(len(added)))
    assert [done[index] for index in sorted(done)] == events[-1]["response"]["output"]
    for index, item in added.items():
        _check_item(item, [e for e in events if e.get("output_index") == index], done[index])


def _check_item(added: Any, events: list[Any], done: Any) -> None:
    assert (added["type"], added["id"]) == (done["type"], done["id"])
    assert kinds(events)[0] == "output_item.added" and kinds(events)[-1] == "output_item.done"
    assert {event["item_id"] for event in events if "item_id" in event} <= {added["id"]}
    deltas = "".join(event["delta"] for event in events if "delta" in event)
    if added["type"] in ("message", "reasoning"):
        assert added.get("content", []) == [] and added.get("summary", []) == []
        assert kinds(events)[1].endswith("part.added")
        assert deltas == (done.get("content") or done["summary"])[0]["text"]
    elif added["type"] in ("function_call", "mcp_call"):
        assert added["arguments"] == "" and deltas == done["arguments"]
