"""Before the first turn: welcomes a new user, asks whether to trust the project, offers to fetch a model, and waits for
MCP servers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from aish.config.load import join_names
from aish.config.user_decisions import content_hash, project_content, refuse, trust_project_file, was_refused
from aish.engine.engine import Engine
from aish.errors import AishError, ConfigError, ModelNotFound
from aish.frontends.runtime import Runtime, find_entries
from aish.frontends.shell.prompt.line_reader import StdinReader
from aish.frontends.shell.render.wait_line import waiting_for
from aish.frontends.terminal import Output, ProgressLine

SMALL_MODEL = "smollm2"
EMBEDDED_NAMES = (f"embedded:{SMALL_MODEL}", "embedded", SMALL_MODEL)
# Longer files cannot be accepted here: the user would trust an end that was not shown.
_MAX_LINES = 100
_MAX_CHARS = 8000
_WELCOME_WAIT_S = 2.0  # for the name of the model; the first prompt waits for it


async def ensure_model(engine: Engine, runtime: Runtime, model: str, output: Output, reader: StdinReader | None) -> str:
    """Offers to fetch the small model if no model can be found. Returns what was typed there and is no answer.

    Does nothing if a model is named or found, or if there is no user to ask (`reader` None): the turn itself reports
    what is wrong, and a shell is useful without a model.
    """
    model = model or runtime.config.model
    if reader is None or not runtime.can_embed or (model and model not in EMBEDDED_NAMES):
        return ""
    if runtime.model_cache.find(SMALL_MODEL) is not None:
        return ""
    try:
        await engine.router.resolve(model)
    except ModelNotFound:
        answer = await reader.read("No model found here. Fetch SmolLM2-135M to run inside aish (93 MB)? [Y/n] ")
        word = "n" if answer is None else answer.strip().lower()
        if word in ("", "y", "yes"):
            with ProgressLine(output) as progress:
                await runtime.pull(SMALL_MODEL, progress.show)
        elif word not in ("n", "no"):
            return answer or ""
    except AishError:
        pass
    return ""


async def show_welcome(engine: Engine, model: str, output: Output) -> None:
    """Three lines: what can be done, which model answers, and how to get a better one."""
    output.note("This is your bash, and a model: type commands, or ask in plain words (:help).")
    better = "A better one: aish models pull qwen2.5-7b, or start Ollama; :models lists all."
    try:
        async with asyncio.timeout(_WELCOME_WAIT_S):
            route = await engine.router.resolve(model)
    except ModelNotFound:
        output.note("No model was found, so questions have to wait for one.")
    except TimeoutError:
        output.note("The model is still being looked for; :model says which one answers.")
    except AishError:
        output.note(f"{model or 'The model'} does not answer yet; :doctor says more.")
    else:
        if route.info.is_weak:
            output.note(f"{route.name} answers. It is very small: it finds commands, and little else.")
        else:
            output.note(f"{route.name} answers.")
            better = ":models lists others, :model NAME switches. Shift-Tab sets what runs unasked."
    output.note(better)


async def wait_for_tools(runtime: Runtime, output: Output) -> None:
    """Waits a bounded time for MCP servers that still connect, and names those whose tools are missing."""
    if not runtime.mcp_servers:
        return
    async with waiting_for(output, "connecting MCP servers"):
        connecting = await runtime.wait_for_mcp(runtime.config.mcp.wait_s)
    for name, server in runtime.mcp_servers.items():
        if name in connecting:
            output.note(f"· MCP server {name} is still connecting; its tools are left out of this turn")
        elif server.failure is not None and server.state != "ready":
            output.note(f"· {server.failure.message}")


async def ask_about_project(runtime: Runtime, output: Output, reader: StdinReader) -> Runtime:
    """Asks whether to trust the settings of the project and its instructions for models. Returns the runtime to
    continue with: a new one if the user trusted the settings. Yes and no are remembered for the exact content of a
    file; any other answer means "later"."""
    try:
        for file in runtime.loaded.files:
            if file.ignored:
                notes = (
                    f"This project has settings for aish, {file.path}:",
                    f"Ignored until you trust it: {join_names(file.ignored)}",
                )
                if await _ask_about(file.path, notes, runtime, output, reader):
                    runtime = runtime.reload()
                break
        if runtime.config.context.environment:
            await _ask_about_instructions(runtime, output, reader)
            await _ask_about_entries(runtime, output, reader)
        await _ask_about_tools(runtime, output, reader)
    except ConfigError as exc:  # the file or the record of trusted files is gone or has changed: nothing is trusted
        output.note(f"aish: {exc.message}")
    return runtime


async def _ask_about_instructions(runtime: Runtime, output: Output, reader: StdinReader) -> None:
    untrusted = [file.path for file in runtime.instruction_files() if file.state == "untrusted"]
    for path in untrusted:
        notes = f"This project has instructions for models, {path}:", "No model gets them until you trust them."
        await _ask_about(path, notes, runtime, output, reader)
    if untrusted:
        runtime.reread_project()


async def _ask_about_tools(runtime: Runtime, output: Output, reader: StdinReader) -> None:
    for tool in runtime.extensions.tool_files():
        if tool.file.state == "untrusted":
            path = tool.file.path
            notes = f"This project has tools in Python, {path}:", "They run as you, outside of the sandbox."
            await _ask_about(path, notes, runtime, output, reader)


async def _ask_about_entries(runtime: Runtime, output: Output, reader: StdinReader) -> None:
    """One question for all skills, agents and prompt files of the project; `s` shows their texts first."""
    found = [(kind, entry) for kind, entry in find_entries(runtime) if entry.file.state == "untrusted"]
    if not found:
        return
    output.note(f"This project has {_count_kinds(kind for kind, _ in found)}. No model gets what you do not trust.")
    entries = [entry for _, entry in found]
    for kind, entry in found:
        name = entry.name if kind == "skill" else f"{kind} {entry.name}"
        output.note(f"  │ {name}: {entry.description}")
    env, answer = runtime.launch_context.env, "s"
    while answer == "s":
        reader.drop_typed_ahead()
        typed = await reader.read("Trust as it is now? [y]es [n]o [s]how [l]ater: ")
        answer = (typed or "").strip().lower()[:1]
        for entry in entries:
            match answer:
                case "y":
                    trust_project_file(entry.file.path, env=env, expected=content_hash(entry.file.content))
                case "n":
                    refuse(entry.file.path, entry.file.content, env=env)
                case "s":
                    output.note(f"{entry.file.path}:")
                    for line in entry.file.content.decode("utf-8", "replace").splitlines():
                        output.note(f"  │ {line}")
    runtime.reread_project()


def _count_kinds(kinds: Iterable[str]) -> str:
    """As in "a skill and 2 agents for models"."""
    counts = Counter(kinds)
    parts = [f"{'an' if kind == 'agent' else 'a'} {kind}" if n == 1 else f"{n} {kind}s" for kind, n in counts.items()]
    return f"{join_names(parts)} for models"


async def _ask_about(path: Path, notes: tuple[str, str], runtime: Runtime, output: Output, reader: StdinReader) -> bool:
    """Shows the file between the notes, and asks. Whether the user trusts it."""
    env = runtime.launch_context.env
    content = project_content(path)
    if was_refused(path, content, env=env):
        return False
    output.note(notes[0])
    whole = _show_start(content.decode("utf-8", "replace"), output)
    output.note(notes[1])
    if not whole:
        output.note("It is too long to be shown here: read it, and `aish config trust` accepts it.")
    reader.drop_typed_ahead()
    answer = await reader.read("Trust it as it is now? [y]es [n]o [l]ater: " if whole else "Ask again? [n]o [l]ater: ")
    match (answer or "").strip().lower():
        case "y" | "yes" if whole:
            trust_project_file(path, env=env, expected=content_hash(content))
            return True
        case "n" | "no":
            refuse(path, content, env=env)
    return False


def _show_start(text: str, output: Output) -> bool:
    """Prints the text up to a limit. Whether that was all of it."""
    lines = text[:_MAX_CHARS].rstrip("\n").split("\n")
    for line in lines[:_MAX_LINES]:
        output.note(f"  │ {line}")
    return len(text) <= _MAX_CHARS and len(lines) <= _MAX_LINES
