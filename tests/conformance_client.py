"""The client under test for the official MCP conformance suite: `python conformance_client.py URL`.

Does what a careful client does with any server: connects, lists everything, calls every tool, reads every resource and
prompt. The suite tells by environment variables which revision to speak and, for some scenarios, what to call.
Elicitation and sampling are refused on purpose, so the scenarios about granting them do not pass.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import Any

from aish.net.http.client import HttpClient
from aish.tools.mcp.connect import open_session
from aish.tools.mcp.errors import McpError
from aish.tools.mcp.session import McpClientSession
from aish.tools.mcp.types import McpTool, ServerSpec

_SAMPLES: dict[str, Any] = {"string": "text", "integer": 3, "number": 2, "boolean": True, "object": {}, "array": []}


async def main(url: str) -> None:
    stateless = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "") >= "2026"
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    spec = ServerSpec("suite", url=url, protocol="2026-07-28" if stateless else "legacy", call_timeout_s=20)
    async with HttpClient() as http, open_session(spec, http=http, on_event=report) as session:
        await call_tools(session, context.get("toolCalls"))
        for resource in await session.list_resources():
            with suppress(McpError):
                await session.read_resource(resource.uri)
        for prompt in await session.list_prompts():
            with suppress(McpError):
                await session.get_prompt(prompt.name, {each.name: "text" for each in prompt.arguments})


async def call_tools(session: McpClientSession, wanted: list[dict[str, Any]] | None) -> None:
    tools = {tool.name: tool for tool in session.tools}
    if wanted is None:
        wanted = [{"name": name, "arguments": sample(tool)} for name, tool in tools.items()]
    if "json_schema_echo" in tools and len(tools) == 2:
        focal = next(tool for name, tool in tools.items() if name != "json_schema_echo")
        wanted = [{"name": "json_schema_echo", "arguments": {"schema": focal.schema}}]
    for call in wanted:
        with suppress(McpError):
            await session.call_tool(call["name"], call.get("arguments", {}))


def sample(tool: McpTool) -> dict[str, Any]:
    properties = tool.schema.get("properties", {})
    return {name: _SAMPLES.get(str(schema.get("type")), "text") for name, schema in properties.items()}


def report(event: object) -> None:
    sys.stderr.write(f"{event}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
