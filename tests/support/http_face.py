"""The server frontend in this process: an engine under test behind the ASGI application, asked without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aish.agents.roster import AgentRoster
from aish.config.schema.config import Config, LimitsConfig, ServeConfig
from aish.engine.engine import Engine
from aish.frontends.http.server.app import App
from aish.frontends.http.server.service import Service
from aish.frontends.runtime import LaunchContext
from support.asgi import Reply, Visit
from support.containment import FakeSandbox
from support.engines import Bench


class FakeRuntime:
    """A runtime around one engine. `reloads_to` is what its configuration says when it is read again."""

    def __init__(self, bench: Bench, *, limits: dict[str, Any] | None = None, **serve: Any) -> None:
        self.bench = bench
        self.config = Config(serve=ServeConfig(**serve), limits=LimitsConfig(**(limits or {})))
        self.launch_context = LaunchContext(Path("/work"), {})
        self.mcp_servers: dict[str, Any] = {}
        self.dynamic_mcp_servers: Sequence[Any] = ()
        self.notices: Sequence[str] = ()
        self.closed = False
        self.settled = asyncio.Event()  # its MCP servers
        self.settled.set()
        self.waited_for = False
        self.reloads_to: FakeRuntime | None = None
        self.containment = FakeSandbox()
        self.agents = AgentRoster()

    @asynccontextmanager
    async def engine(self, *, serving: bool = False, shared: bool = False) -> AsyncIterator[Engine]:
        assert serving
        try:
            yield self.bench.engine
        finally:
            self.closed = True

    async def wait_for_mcp(self, timeout_s: float, names: Sequence[str] = ()) -> Sequence[str]:
        self.waited_for = True
        await asyncio.wait_for(self.settled.wait(), timeout_s)
        return ()

    def reload(self) -> FakeRuntime:
        assert self.reloads_to is not None
        return self.reloads_to


class Face:
    def __init__(self, service: Service, app: App) -> None:
        self.service = service
        self.app = app

    def visit(self, method: str, path: str, body: Any = None, **headers: str) -> Visit:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        sent = {"host": "localhost:8600", "content-length": str(len(data)), **headers}
        pairs = [(name.replace("_", "-"), value) for name, value in sent.items()]
        path, _, query = path.partition("?")
        visit = Visit(method, pairs, [data])
        visit._scope |= {"path": path, "query_string": query.encode()}
        return visit

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        return await self.visit(method, path, body, **headers).run(self.app)

    async def chat(self, text: str = "hello", **fields: Any) -> Reply:
        usual = {"model": "scripted:model", "messages": [{"role": "user", "content": text}]}
        return await self.ask("POST", "/v1/chat/completions", {**usual, **fields})

    async def chunks(self, text: str = "hello", **fields: Any) -> list[dict[str, Any]]:
        """The chunks of a streamed answer, which must come to its proper end."""
        reply = await self.chat(text, stream=True, **fields)
        assert reply.status == 200, reply.body
        return sse(reply)


def sse(reply: Reply) -> list[dict[str, Any]]:
    lines = [line for line in reply.body.decode().split("\n\n") if line and not line.startswith(":")]
    assert lines[-1] == "data: [DONE]", reply.body
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


@asynccontextmanager
async def face(
    bench: Bench,
    *,
    keys: Sequence[str] = (),
    must_have_keys: bool = False,
    runtime: FakeRuntime | None = None,
    **serve: Any,
) -> AsyncIterator[Face]:
    service = Service(runtime or FakeRuntime(bench, **serve), keys, must_have_keys=must_have_keys)
    async with asyncio.timeout(20), service.open():
        yield Face(service, App(service, {}))


def function(name: str, **schema: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": "d", "parameters": schema or {"type": "object"}},
    }
