"""`aish mcp serve`: our tools for the program that started us, over stdin and stdout.

stdout is protocol and nothing else: the real one is kept for it, and whatever else in this process or its children
prints goes to stderr. Ends when stdin ends, or by a signal.
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
    source_fd, sink_fd = _keep_protocol_apart()
    return run_until_done(_serve(arguments.tools or _ALL, runtime, source_fd, sink_fd))


async def _serve(tools: list[str], runtime: Runtime, source_fd: int, sink_fd: int) -> int:
    async with runtime.engine() as engine:
        # Most clients ask for the list at once and only once. Servers that take longer are announced when ready.
        settling = asyncio.ensure_future(runtime.wait_for_mcp(runtime.config.mcp.wait_s))

        async def settled() -> None:
            await asyncio.wait({settling})
            if tools != _ALL and not server.specs():
                print(f"aish: there is no tool that {' '.join(tools)} names", file=sys.stderr, flush=True)

        try:
            server = ToolServer(engine, tools=tools, list_changed=True, settled=settled)
            await StdioServer(server, source_fd=source_fd, sink_fd=sink_fd).serve()
        finally:
            settling.cancel()
    return 0


def _keep_protocol_apart() -> tuple[int, int]:
    """Where the protocol is from now on. Its old places are nothing to read and stderr."""
    sys.stdout.flush()
    source_fd, sink_fd = os.dup(_STDIN), os.dup(_STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    os.dup2(_STDERR, _STDOUT)
    return source_fd, sink_fd
