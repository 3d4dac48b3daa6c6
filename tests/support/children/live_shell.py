"""Owns a live bash that runs two jobs, prints their pids, and waits to be killed."""

import asyncio
import sys
from pathlib import Path

from aish.tools.bash.shell import LiveBash, LiveBashSpec


async def main() -> None:
    async with LiveBash.open(LiveBashSpec(cwd=Path("/"))) as shell:
        await shell.run_user("sleep 600 & nohup sleep 601 >/dev/null 2>&1 &", None)
        result = await shell.run_user("jobs -p | tr '\\n' ' '", None)
        sys.stdout.write(f"{shell.pid} {result.output}\n")
        sys.stdout.flush()
        await asyncio.sleep(600)


asyncio.run(main())
