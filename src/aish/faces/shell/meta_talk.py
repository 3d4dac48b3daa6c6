"""Meta commands about the conversation and the shell."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from aish.faces.shell.state import Shell
from aish.faces.shell.verdicts import verdict_lines
from aish.types.live_shell import RunResult
from aish.types.messages import AssistantMessage

_MOST_FILES = 400
_TREE_DEPTH = 4
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", "target", "dist", "build", ".cache"})


async def ask(shell: Shell, rest: str) -> None:
    if rest:
        await shell.talk(rest)
    else:
        shell.output.note("ask what? :ask TEXT")


async def exec_(shell: Shell, rest: str) -> None:
    if rest:
        await shell.run(rest, attach=True)
    else:
        shell.output.note("run what? :exec COMMAND")


async def model(shell: Shell, rest: str) -> None:
    if rest:
        route = await shell.engine.router.resolve(rest)
        shell.change(model=rest)
        shell.model, shell.window = route.name, route.info.context_size
    else:
        await shell.look_up_model()
    window = f", {shell.window} tokens of context" if shell.window else ""
    shell.output.note(f"model: {shell.model}{window}")


async def models(shell: Shell, rest: str) -> None:
    infos = await shell.engine.router.list_models()
    for preset, settings in shell.runtime.config.presets.items():
        shell.output.note(f"  {preset} → {settings.model}")
    for info in infos:
        shell.output.note(f"{'*' if info.name == shell.model else ' '} {info.name}")
    if not infos:
        shell.output.note("no model answers here; `aish doctor` says why")


async def context(shell: Shell, rest: str) -> None:
    """Parts and their size, by characters; the last request as the backend counted it."""
    history = await shell.engine.history(shell.request.session) if shell.request.session else ()
    said = sum(len(message.text) for message in history)
    tools = shell.engine.offered(shell.request.tools, interactive=True)
    parts = {"system": len(shell.request.system), "conversation": said, "tools": sum(len(str(t.schema)) for t in tools)}
    total = sum(parts.values()) or 1
    for name, chars in parts.items():
        bar = "█" * round(30 * chars / total)
        shell.output.note(f"{name:<13} ~{chars // 4:>6} tokens  {bar}")
    turns = sum(isinstance(message, AssistantMessage) for message in history)
    window = shell.window or "?"
    shell.output.note(f"{turns} answers so far; the last request had {shell.context_tokens} of {window} tokens")
    if shell.attached.last is not None:
        shell.output.note("what you ran since goes along with your next question")


async def cost(shell: Shell, rest: str) -> None:
    usage = shell.usage
    money = "cost unknown" if usage.cost is None else f"${usage.cost:.4f}"
    about = " (estimated)" if usage.estimated else ""
    shell.output.note(f"{usage.prompt_tokens} tokens in, {usage.completion_tokens} out{about}; {money}")


async def reasoning(shell: Shell, rest: str) -> None:
    match rest:
        case "fold" | "show" | "hide":
            shell.reasoning = rest
    shell.output.note(f"thinking: {shell.reasoning}")


async def highlight(shell: Shell, rest: str) -> None:
    if rest in ("on", "off"):
        shell.highlight = rest == "on"
    shell.output.note(f"highlight: {'on' if shell.highlight else 'off'}")


async def safety(shell: Shell, rest: str) -> None:
    line = f"{rest} ".removeprefix("check ").strip()
    if not line:
        shell.output.note("of which command? :safety check COMMAND")
        return
    for told in verdict_lines(shell.runtime.explain("shell__run", {"command": line})):
        shell.output.note(told)


async def diff(shell: Shell, rest: str) -> None:
    """Runs as any command of the person's, and goes along with the next question."""
    # Outside a repository `git diff` is another command, whose help is long.
    await shell.run(f"git rev-parse --git-dir >/dev/null && git --no-pager diff {rest}".strip(), attach=True)


async def tree(shell: Shell, rest: str) -> None:
    root = Path(shell.cwd) / (rest or ".")
    lines = await asyncio.to_thread(lambda: list(_lines(root, _TREE_DEPTH)))
    text = "\n".join(lines[:_MOST_FILES])
    if len(lines) > _MOST_FILES:
        text += f"\n… {len(lines) - _MOST_FILES} more"
    shell.attached.add(RunResult(f"tree {rest}".strip(), 0, shell.cwd, 0.0, text))
    shell.output.note(f"{min(len(lines), _MOST_FILES)} entries go along with your next question")


async def clear(shell: Shell, rest: str) -> None:
    shell.output.clear_screen()


async def quit_(shell: Shell, rest: str) -> None:
    shell.leaving = True


def _lines(folder: Path, depth: int, indent: str = "") -> Iterator[str]:
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: (entry.is_file(), entry.name))
    except OSError:
        return
    for entry in entries[:_MOST_FILES]:
        if entry.name in _SKIPPED or entry.is_symlink():
            continue
        is_folder = entry.is_dir()
        yield f"{indent}{entry.name}{'/' if is_folder else ''}"
        if is_folder and depth > 1:
            yield from _lines(entry, depth - 1, indent + "  ")
