"""FastMCP's client, doing what calls_own.py does. Runs where FastMCP is installed."""

import asyncio
import sys
import time

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main(kind: str, *target: str) -> None:
    where = StdioTransport(command=target[0], args=list(target[1:])) if kind == "stdio" else target[0]
    async with Client(where) as client:
        await client.list_tools()
        while line := await asyncio.to_thread(sys.stdin.readline):
            count = int(line)
            began_s, spent_s = time.perf_counter(), time.process_time()
            for _ in range(count):
                await client.call_tool("echo", {"text": "x" * 64})
            took_s, spent_s = time.perf_counter() - began_s, time.process_time() - spent_s
            sys.stdout.write(f"{count / took_s} {spent_s / count * 1e6}\n")
            sys.stdout.flush()


asyncio.run(main(*sys.argv[1:]))
