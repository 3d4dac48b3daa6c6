"""Skills that MCP servers publish are listed by a call and read as their servers have listed them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aish.errors import ToolError
from aish.net.http.client import HttpClient
from aish.tools.builtin.skills import SkillTools
from aish.tools.mcp.servers import McpServers
from aish.tools.registry import Registry
from support.hostile import Hostile

DEADLINE_S = 30.0


@asynccontextmanager
async def tools_of(hostile: Hostile, *modes: str, env: dict[str, str] | None = None) -> AsyncIterator[SkillTools]:
    async with asyncio.timeout(DEADLINE_S), HttpClient() as http:
        servers = McpServers(Registry(), http)
        try:
            server = servers.connect(hostile.spec(*modes, env=env or {}))
            await servers.wait_until_started(DEADLINE_S)
            yield SkillTools(list, lambda: {"ops": server}, lambda path, glob=False: False)
        finally:
            await servers.aclose()


async def test_skills_of_a_server_are_listed_without_escapes_and_read(hostile: Hostile) -> None:
    async with tools_of(hostile, "skills") as tools:
        (spec,) = tools.specs()
        assert "deploy" not in spec.description and "MCP servers have more" in spec.description
        assert await tools.list_all() == "ops:deploy: how to deploy"
        text = await tools.read("ops:deploy")
        assert text.startswith("[from the MCP server ops]\n") and "Push it." in text
        assert text.endswith("Other files: references/hosts.md")
        assert await tools.read("ops:deploy", "references/hosts.md") == "one host\n"


async def test_what_a_server_does_not_list_is_not_asked_for(hostile: Hostile) -> None:
    async with tools_of(hostile, "skills") as tools:
        for name, file in (("ops:other", ""), ("ops:deploy", "../x/SKILL.md"), ("nope:deploy", "")):
            with pytest.raises(ToolError):
                await tools.read(name, file)


async def test_a_file_that_is_not_the_listed_one_is_refused(hostile: Hostile) -> None:
    async with tools_of(hostile, "skills", env={"ALTERED": "1"}) as tools:
        with pytest.raises(ToolError, match="is not the file that its server has listed"):
            await tools.read("ops:deploy")


async def test_a_server_that_publishes_no_skills_is_never_asked_for_them(hostile: Hostile) -> None:
    async with tools_of(hostile) as tools:
        assert tools.specs() == () and await tools.list_all() == "There are no skills."
