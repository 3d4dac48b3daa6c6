"""The official SDK's client: `python sdk_client.py MODE CALLS COMMAND…` connects, lists, calls, and says what it saw.

CALLS is JSON, a list of names and arguments. The SDK itself holds structured results against what was promised.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(mode: str, calls: str, command: str, *arguments: str) -> None:
    parameters = StdioServerParameters(command=command, args=list(arguments))
    async with Client(stdio_client(parameters), mode=mode) as client:
        tools = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        results = [seen(await client.call_tool(name, given)) for name, given in json.loads(calls)]
        told = {"version": client.protocol_version, "tools": tools, "results": results}
        sys.stdout.write(json.dumps(told) + "\n")


def seen(result: Any) -> dict[str, Any]:
    texts = [block.text for block in result.content]
    return {"texts": texts, "structured": result.structured_content, "is_error": result.is_error}


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
