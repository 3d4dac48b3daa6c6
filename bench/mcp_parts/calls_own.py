"""Our client: `calls_own.py stdio|http TARGET…`; for each number on stdin that many calls: their rate, µs of CPU."""

import asyncio
import sys
import time

from aish.net.http.client import HttpClient
from aish.tools.mcp.connect import open_session
from aish.tools.mcp.types import ServerSpec


async def main(kind: str, *target: str) -> None:
    spec = ServerSpec("echo", command=target) if kind == "stdio" else ServerSpec("echo", url=target[0])
    async with HttpClient() as http, open_session(spec, http=http) as session:
        while line := await asyncio.to_thread(sys.stdin.readline):
            count = int(line)
            began_s, spent_s = time.perf_counter(), time.process_time()
            for _ in range(count):
                await session.call_tool("echo", {"text": "x" * 64})
            took_s, spent_s = time.perf_counter() - began_s, time.process_time() - spent_s
            sys.stdout.write(f"{count / took_s} {spent_s / count * 1e6}\n")
            sys.stdout.flush()


asyncio.run(main(*sys.argv[1:]))
