"""A server made with the official SDK, over HTTP: `python sdk_http_server.py PORT`. Runs where the SDK is installed."""

from __future__ import annotations

import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("peer", log_level="ERROR")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
