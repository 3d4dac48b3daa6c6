"""A server made with the official SDK, over HTTP: `python sdk_http_server.py PORT`. Runs where the SDK is installed."""

from __future__ import annotations

import sys

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("peer", log_level="ERROR")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@server.tool()
async def grow(name: str, context: Context) -> str:
    """Another tool, of which clients that asked for it are told."""
    server.add_tool(add, name=name)
    await context.notify_tools_changed()
    return "grown"


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
