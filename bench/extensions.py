"""What tools in Python cost: the start of their process, a call beside a plain MCP call, and a list of a hundred files.

    python bench/extensions.py                500 calls a round, 7 rounds

Every figure is the median of the rounds, in milliseconds. A call goes through `ToolProcess` to a Python function; the
call beside it asks the same process over the same MCP session for `ping`, which is what MCP itself costs. Exit code 1
when a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from aish.config.tool_files import ToolFileFinder
from aish.extensions.manifest import PythonSource
from aish.tools.extensions.process import CallPlace, ToolProcess
from aish.tools.extensions.toolset import ExtensionTools
from aish.tools.registry import Registry

CALL_BAR_MS = 0.5  # over the MCP call itself
START_BAR_MS = 250.0
LIST_BAR_MS = 30.0
FILES = 100
CODE = """from aish import tool


@tool(effect="read")
async def tool{n}(x: int = 0) -> int:
    "Tool {n}."
    return x
"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(measure(Path(folder), arguments.calls, arguments.rounds))


async def measure(folder: Path, calls: int, rounds: int) -> int:
    source = write(folder / "one.py", 0)
    starts, mcp_calls, tool_calls = [], [], []
    for _ in range(rounds):
        process = ToolProcess(workspace=lambda: folder)
        began = time.perf_counter()
        await process.call_tool(source, "tool0", {}, CallPlace(str(folder)))
        starts.append(since(began))
        session = await process._current().session()
        mcp_calls.append(await per_call(partial(session.request, "ping", {}, dict, timeout_s=30), calls))
        tool = partial(process.call_tool, source, "tool0", {"x": 1}, CallPlace(str(folder)))
        tool_calls.append(await per_call(tool, calls))
        await process.aclose()
    over = statistics.median(tool - mcp for tool, mcp in zip(tool_calls, mcp_calls, strict=True))
    listed = await measure_list(folder, rounds)
    say(f"the first call, with the start of the process (bar {START_BAR_MS:g})", statistics.median(starts))
    say("an MCP call that does nothing", statistics.median(mcp_calls))
    say("a call of a Python tool", statistics.median(tool_calls))
    say(f"a call of a Python tool, over the MCP call (bar {CALL_BAR_MS:g})", over)
    say(f"{FILES} files found and listed from the cache (bar {LIST_BAR_MS:g})", listed)
    missed = over > CALL_BAR_MS or statistics.median(starts) > START_BAR_MS or listed > LIST_BAR_MS
    return 1 if missed else 0


async def measure_list(folder: Path, rounds: int) -> float:
    home = folder / "home"
    for number in range(FILES):
        write(home / ".config" / "aish" / "tools" / f"tool{number}.py", number)
    env = {"HOME": str(home)}
    await list_tools(folder, env)  # fills the cache
    return statistics.median([await list_tools(folder, env) for _ in range(rounds)])


async def list_tools(folder: Path, env: dict[str, str]) -> float:
    """As a new start of aish does it."""
    process = ToolProcess(workspace=lambda: folder)
    registry = Registry()
    began = time.perf_counter()
    finder = ToolFileFinder(env)
    tools = ExtensionTools(
        process,
        registry,
        lambda: [file.source for file in finder.find(folder)],
        cache_file=folder / "cache.json",
        workspace=lambda: folder,
    )
    await tools.refresh()
    took = since(began)
    assert len(registry.specs()) == FILES
    await process.aclose()
    return took


async def per_call(call: Any, calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        await call()
    return since(began) / calls


def write(path: Path, number: int) -> PythonSource:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(CODE.format(n=number))
    return PythonSource("my", path=str(path), revision=hashlib.sha256(path.read_bytes()).hexdigest())


def since(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def say(what: str, milliseconds: float) -> None:
    sys.stdout.write(f"{milliseconds:9.3f} ms  {what}\n")


if __name__ == "__main__":
    sys.exit(main())
