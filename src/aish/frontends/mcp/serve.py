"""`aish mcp serve`: offers the tools to the program that started aish, over stdin and stdout.

Only the protocol may be on stdout: anything else that this process or its children print goes to stderr. Ends when
stdin ends, or by a signal.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from aish.frontends.mcp.protocol import ToolServer
from aish.frontends.mcp.stdio import StdioServer
from aish.frontends.runtime import Runtime
from aish.frontends.signals import run_until_done

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_ALL = ["*"]


def run(arguments: argparse.Namespace, runtime: Runtime) -> int:
    source_fd, sink_fd = _redirect_standard_streams()
    return run_until_done(_serve(arguments.tools or _ALL, runtime, source_fd, sink_fd))


async def _serve(tools: list[str], runtime: Runtime, source_fd: int, sink_fd: int) -> int:
    async with runtime.engine() as engine:
        # Most clients ask for the list once, right away. Tools of servers that take longer are announced later.
        connecting = asyncio.ensure_future(runtime.wait_for_mcp(runtime.config.mcp.wait_s))

        async def wait_for_tools() -> None:
            await asyncio.wait({connecting})
            if tools != _ALL and not server.specs():
                print(f"aish: there is no tool that {' '.join(tools)} names", file=sys.stderr, flush=True)

        try:
            server = ToolServer(engine, tools=tools, list_changed=True, wait_for_tools=wait_for_tools)
            await StdioServer(server, source_fd=source_fd, sink_fd=sink_fd).serve()
        finally:
            connecting.cancel()
    return 0


def _redirect_standard_streams() -> tuple[int, int]:
    """Moves stdin and stdout to new descriptors, which are returned. fd 0 becomes /dev/null, and fd 1 becomes
    stderr."""
    sys.stdout.flush()
    source_fd, sink_fd = os.dup(_STDIN), os.dup(_STDOUT)
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, _STDIN)
    os.close(devnull)
    os.dup2(_STDERR, _STDOUT)
    return source_fd, sink_fd
