"""Our client and very long lines; prints JSON: seconds for 4 and 16 MiB, and what refusing 64 MiB cost."""

import asyncio
import json
import resource
import statistics
import sys
import time
from pathlib import Path

from aish.tools.mcp.connect import open_session
from aish.tools.mcp.errors import McpError
from aish.tools.mcp.types import ServerSpec

ECHO = (sys.executable, str(Path(__file__).with_name("echo_stdio.py")))
ROUNDS = 5


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def refusal() -> dict[str, str | float]:
    """First, while the peak is still that of a small process."""
    async with open_session(ServerSpec("echo", command=ECHO)) as session:
        await session.call_tool("echo", {"text": "warm"})
        before_mib, began_s = peak_mib(), time.perf_counter()
        try:
            await session.call_tool("echo", {"text": "big:64"})
        except McpError as exc:
            refused = exc.kind
        took_s, grown_mib = time.perf_counter() - began_s, peak_mib() - before_mib
        await session.call_tool("echo", {"text": "still there"})
    return {"refused": refused, "refusal_s": took_s, "refusal_grown_mib": grown_mib}


async def reading() -> dict[str, float]:
    took: dict[int, list[float]] = {4: [], 16: []}
    async with open_session(ServerSpec("echo", command=ECHO, max_message_bytes=64 << 20)) as session:
        for _ in range(ROUNDS):
            for mib, seconds in took.items():
                began_s = time.perf_counter()
                await session.call_tool("echo", {"text": f"big:{mib}"})
                seconds.append(time.perf_counter() - began_s)
    return {f"read_{mib}_s": statistics.median(seconds) for mib, seconds in took.items()}


async def main() -> None:
    sys.stdout.write(json.dumps({**await refusal(), **await reading()}) + "\n")


asyncio.run(main())
