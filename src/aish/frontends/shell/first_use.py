"""The first minute: when there is no model to ask, offers to fetch the small one."""

from __future__ import annotations

from aish.engine.engine import Engine
from aish.errors import AishError, ModelNotFound
from aish.frontends.progress import ProgressLine
from aish.frontends.runtime import Runtime
from aish.frontends.shell.prompt.line_reader import LineSource
from aish.frontends.terminal import Output

SMALL_MODEL = "smollm2"
EMBEDDED_NAMES = (f"embedded:{SMALL_MODEL}", "embedded", SMALL_MODEL)


async def ensure_model(engine: Engine, runtime: Runtime, model: str, output: Output, lines: LineSource | None) -> None:
    """Does nothing where a model is named or can be found, or where nobody can be asked: the turn itself will say what
    is wrong with it, and a shell is of use without one."""
    model = model or runtime.config.model
    if lines is None or not runtime.can_embed or (model and model not in EMBEDDED_NAMES):
        return
    if runtime.model_cache.find(SMALL_MODEL) is not None:
        return
    try:
        await engine.router.resolve(model)
    except ModelNotFound:
        answer = await lines.read("No model found here. Fetch SmolLM2-135M to run inside aish (93 MB)? [Y/n] ")
        if answer is not None and answer.strip().lower() in ("", "y", "yes"):
            with ProgressLine(output) as progress:
                await runtime.pull(SMALL_MODEL, progress.show)
    except AishError:
        return
