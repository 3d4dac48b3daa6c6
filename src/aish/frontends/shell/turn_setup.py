"""What a command on the command line does before its first turn: offers to fetch a model, and waits for MCP servers."""

from __future__ import annotations

from aish.engine.engine import Engine
from aish.errors import AishError, ModelNotFound
from aish.frontends.progress import ProgressLine
from aish.frontends.runtime import Runtime
from aish.frontends.shell.prompt.line_reader import StdinReader
from aish.frontends.shell.render.event_printer import Spinner
from aish.frontends.terminal import Output

SMALL_MODEL = "smollm2"
EMBEDDED_NAMES = (f"embedded:{SMALL_MODEL}", "embedded", SMALL_MODEL)


async def ensure_model(
    engine: Engine, runtime: Runtime, model: str, output: Output, reader: StdinReader | None
) -> None:
    """Offers to fetch the small model if no model can be found.

    Does nothing if a model is named or found, or if there is no user to ask (`reader` None): the turn itself reports
    what is wrong, and a shell is useful without a model.
    """
    model = model or runtime.config.model
    if reader is None or not runtime.can_embed or (model and model not in EMBEDDED_NAMES):
        return
    if runtime.model_cache.find(SMALL_MODEL) is not None:
        return
    try:
        await engine.router.resolve(model)
    except ModelNotFound:
        answer = await reader.read("No model found here. Fetch SmolLM2-135M to run inside aish (93 MB)? [Y/n] ")
        if answer is not None and answer.strip().lower() in ("", "y", "yes"):
            with ProgressLine(output) as progress:
                await runtime.pull(SMALL_MODEL, progress.show)
    except AishError:
        return


async def wait_for_tools(runtime: Runtime, output: Output) -> None:
    """Waits a bounded time for MCP servers that still connect, and names those whose tools are missing."""
    if not runtime.mcp_servers:
        return
    async with Spinner(output, "connecting MCP servers"):
        connecting = await runtime.wait_for_mcp(runtime.config.mcp.wait_s)
    for name, server in runtime.mcp_servers.items():
        if name in connecting:
            output.note(f"· MCP server {name} is still connecting; its tools are left out of this turn")
        elif server.failure is not None and server.state != "ready":
            output.note(f"· {server.failure.message}")
