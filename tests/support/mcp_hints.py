"""The well-behaved MCP server with two more tools, whose annotations claim what they do."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from mcp_stub import Server, tool

if __name__ == "__main__":
    server = Server()
    server.tools.append(tool("look", annotations={"readOnlyHint": True}))
    server.tools.append(tool("destroy", annotations={"destructiveHint": True}))
    server.run()
