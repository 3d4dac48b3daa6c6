"""A question on the command line waits a little for MCP servers that still connect, and says whose tools it lacks."""

from __future__ import annotations

from aish.frontends.runtime import Runtime
from aish.frontends.shell.render.spinner import Waiting
from aish.frontends.terminal import Output


async def await_tools(runtime: Runtime, output: Output) -> None:
    if not runtime.mcp_servers:
        return
    async with Waiting(output, "connecting MCP servers"):
        connecting = await runtime.mcp_settled(runtime.config.mcp.wait_s)
    for name, server in runtime.mcp_servers.items():
        if name in connecting:
            output.note(f"· MCP server {name} is still connecting; its tools are left out of this turn")
        elif server.failure is not None and server.state != "ready":
            output.note(f"· {server.failure.message}")
