"""Meta commands about the conversation and the shell."""

from __future__ import annotations

import asyncio

import msgspec

from aish.errors import UsageError
from aish.frontends.file_tree import tree_lines
from aish.frontends.shell.approvals.verdict_text import level_line, verdict_lines
from aish.frontends.shell.commands.arguments import is_folder, path_of, unknown
from aish.frontends.shell.state import Shell
from aish.types.live_shell import RunResult

_MAX_FILES = 400


async def ask(shell: Shell, rest: str) -> None:
    if rest:
        await shell.talk(rest)
    else:
        shell.output.note("ask what? :ask TEXT")


async def exec_(shell: Shell, rest: str) -> None:
    if rest:
        await shell.run(rest, attach=shell.runtime.config.shell.attach_output, typed=True)
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
        shell.output.note("no model answers here; :doctor says why")


async def reasoning(shell: Shell, rest: str) -> None:
    match rest:
        case "fold" | "show" | "hide":
            shell.reasoning = rest
        case "":
            pass
        case _:
            raise unknown("reasoning", rest, "fold, show or hide")
    shell.output.note(f"thinking: {shell.reasoning}")


async def highlight(shell: Shell, rest: str) -> None:
    if rest not in ("", "on", "off"):
        raise unknown("highlight", rest, "on or off")
    if rest:
        shell.highlight = rest == "on"
    shell.output.note(f"highlight: {'on' if shell.highlight else 'off'}")


async def safety(shell: Shell, rest: str) -> None:
    line = f"{rest} ".removeprefix("check ").strip()
    if not line:
        shell.output.note("of which command? :safety check COMMAND")
        return
    shell.output.note(level_line(line, msgspec.structs.replace(shell.runtime.shell_context, cwd=shell.cwd)))
    for told in verdict_lines(shell.runtime.explain("shell__run", {"command": line})):
        shell.output.note(told)


async def diff(shell: Shell, rest: str) -> None:
    """Runs as any command of the person's, and goes along with the next question."""
    # Outside a repository `git diff` is another command, whose help is long.
    ran = await shell.run(f"git rev-parse --git-dir >/dev/null && git --no-pager diff {rest}".strip(), attach=True)
    shell.attached.insist()
    if not ran.status and not ran.output.strip():
        shell.output.note("git sees no difference")


async def tree(shell: Shell, rest: str) -> None:
    root = path_of(shell.cwd, rest or ".")
    if not is_folder(root):
        raise UsageError(f"{root} is no folder")
    lines = await asyncio.to_thread(tree_lines, root, _MAX_FILES)
    shell.attached.add(RunResult(f"tree {rest}".strip(), 0, shell.cwd, 0.0, "\n".join(lines)))
    shell.attached.insist()
    entries = "1 entry goes" if len(lines) == 1 else f"{len(lines)} entries go"
    shell.output.note(f"{entries} along with your next question")


async def clear(shell: Shell, rest: str) -> None:
    shell.output.clear_screen()


async def quit_(shell: Shell, rest: str) -> None:
    shell.leaving = True
