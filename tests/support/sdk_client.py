"""The official SDK's client: `python sdk_client.py MODE COMMAND…` connects, lists, adds 2 and 3, says what it saw."""

from __future__ import annotations

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(mode: str, command: str, *arguments: str) -> None:
    parameters = StdioServerParameters(command=command, args=list(arguments))
    async with Client(stdio_client(parameters), mode=mode) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("runtime__add", {"a": 2, "b": 3})
        seen = {"version": client.protocol_version, "tools": tools, "text": result.content[0].text}
        sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
