"""An MCP server that publishes skills has a tool that reads them, as the server has listed them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aish.errors import ToolError
from aish.net.http.client import HttpClient
from aish.tools.mcp.server import McpServer
from aish.tools.mcp.servers import McpServers
from aish.tools.registry import Registry
from aish.types.messages import text_of
from aish.types.tools import Effect
from support.hostile import Hostile

DEADLINE_S = 30.0


class Context:
    session, turn, call, owner, is_proved, is_unasked = "s", "t", "c", "", False, False
    rights = None

    def status(self, text: str) -> None:
        pass

    def output(self, text: str) -> None:
        pass


@asynccontextmanager
async def connected(hostile: Hostile, *modes: str, env: dict[str, str] | None = None) -> AsyncIterator[McpServer]:
    async with asyncio.timeout(DEADLINE_S), HttpClient() as http:
        servers = McpServers(Registry(), http)
        try:
            server = servers.connect(hostile.spec(*modes, env=env or {}))
            await servers.wait_until_started(DEADLINE_S)
            yield server
        finally:
            await servers.aclose()


async def read(server: McpServer, **arguments: str) -> str:
    return text_of((await server.call("read_skill", arguments, Context())).parts)


async def test_skills_of_a_server_are_described_without_escapes_and_read(hostile: Hostile) -> None:
    async with connected(hostile, "skills") as server:
        spec = next(spec for spec in server.specs() if spec.name == "read_skill")
        assert spec.description.endswith("\n- deploy: how to deploy") and spec.effect is Effect.READ
        text = await read(server, name="deploy")
        assert "Push it." in text and text.endswith("Other files: references/hosts.md")
        assert await read(server, name="deploy", file="references/hosts.md") == "one host\n"


async def test_what_a_server_does_not_list_is_not_asked_for(hostile: Hostile) -> None:
    async with connected(hostile, "skills") as server:
        for name, file in (("other", ""), ("deploy", "../x/SKILL.md")):
            with pytest.raises(ToolError, match="at the MCP server files"):
                await read(server, name=name, file=file)


async def test_a_file_that_is_not_the_listed_one_is_refused(hostile: Hostile) -> None:
    async with connected(hostile, "skills", env={"ALTERED": "1"}) as server:
        with pytest.raises(ToolError, match="is not the file that its server has listed"):
            await read(server, name="deploy")


async def test_a_server_that_cannot_list_its_skills_has_its_tools_all_the_same(hostile: Hostile) -> None:
    async with connected(hostile, "skills", "no_skill_list") as server:
        assert [spec.name for spec in server.specs()] == ["echo", "fail", "env"]
        assert any("the skills cannot be listed" in line for line in server.log)


async def test_a_server_that_publishes_no_skills_has_no_such_tool(hostile: Hostile) -> None:
    async with connected(hostile) as server:
        assert "read_skill" not in [spec.name for spec in server.specs()]
