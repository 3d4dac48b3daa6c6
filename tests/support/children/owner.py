"""An aish of the smallest kind: owns a family, prints its pids, and waits to be killed.

Arguments: `noprctl`, `noguard`.
"""

import asyncio
import sys
from pathlib import Path

from aish.process import orphan_guard
from aish.process.child import ChildProcess, ProcessSpec


async def main() -> None:
    family = Path(__file__).with_name("family.py")
    spec = ProcessSpec(argv=(sys.executable, str(family), "stubborn"), name="family")
    async with ChildProcess.start(spec) as child:
        async for piece in child.stdout:
            sys.stdout.write(piece.decode())
            sys.stdout.flush()


if "noprctl" in sys.argv:
    orphan_guard._find_prctl = lambda: None  # type: ignore[assignment]
if "noguard" in sys.argv:
    orphan_guard.watch = orphan_guard.unwatch = lambda group: None
asyncio.run(main())
