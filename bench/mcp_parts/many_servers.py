"""Twenty servers, five dead or silent; prints JSON: how long connecting held us up, what works, why the rest fails."""

import asyncio
import json
import sys
import time
from pathlib import Path

from aish.net.http.client import HttpClient
from aish.tools.mcp.servers import McpServers
from aish.tools.mcp.types import ServerSpec
from aish.tools.registry import Registry
from aish.types.messages import text_of

ECHO = (sys.executable, str(Path(__file__).with_name("echo_stdio.py")))
SILENT_S = 5.0
BAD = {
    "missing": ServerSpec("missing", command=("no-such-program-of-aish",)),
    "dies": ServerSpec("dies", command=(sys.executable, "-c", "raise SystemExit(3)")),
    "silent": ServerSpec("silent", command=("sleep", "600"), start_timeout_s=SILENT_S, close_wait_s=0.2),
    "mute": ServerSpec("mute", command=("cat", "/dev/zero"), start_timeout_s=SILENT_S, close_wait_s=0.2),
    "refused": ServerSpec("refused", url="http://127.0.0.1:1/mcp"),
}


async def main() -> None:
    good = [ServerSpec(f"good{number}", command=ECHO) for number in range(15)]
    async with HttpClient() as http:
        servers = McpServers(Registry(), http)
        began_s = time.perf_counter()
        for spec in (*BAD.values(), *good):
            servers.connect(spec)
        await asyncio.sleep(0)
        free_s = time.perf_counter() - began_s
        await servers.wait_until_started(30, [spec.name for spec in good])
        ready_s = time.perf_counter() - began_s
        calls = [servers.get(spec.name).session.call_tool("echo", {"text": spec.name}) for spec in good]
        answered = [len(text_of(output.parts)) for output in await asyncio.gather(*calls)]
        called_s = time.perf_counter() - began_s
        await servers.wait_until_started(30)
        failed = {name: failure.message for name in BAD if (failure := servers.get(name).failure)}
        await servers.aclose()
    right = answered.count(64)
    times = {"free_s": free_s, "ready_s": ready_s, "called_s": called_s}
    sys.stdout.write(json.dumps({**times, "working": right, "failed": failed}) + "\n")


asyncio.run(main())
