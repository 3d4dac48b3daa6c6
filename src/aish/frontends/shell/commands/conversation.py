"""`:ask`, `:exec`, `:model`, `:diff`, `:undo` and their like: the conversation and the shell."""

from __future__ import annotations

import asyncio
import time

import msgspec

from aish.errors import UsageError
from aish.frontends.file_tree import tree_lines
from aish.frontends.shell.approvals.call_view import level_line, verdict_lines
from aish.frontends.shell.ask_model import ask_model
from aish.frontends.shell.commands.arguments import is_folder, resolve_path, unknown_argument
from aish.frontends.shell.shell import Shell
from aish.types.live_shell import RunResult

_MAX_FILES = 400
_SHOWN_PATHS = 3


async def ask(shell: Shell, rest: str) -> None:
    if rest:
        await ask_model(shell, rest)
    else:
        shell.output.note("ask what? :ask TEXT")


async def exec_(shell: Shell, rest: str) -> None:
    if rest:
        await shell.run_line(rest, attach=shell.runtime.config.shell.attach_output, typed=True)
    else:
        shell.output.note("run what? :exec COMMAND")


async def model(shell: Shell, rest: str) -> None:
    if rest:
        await shell.switch_model(rest)
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
            shell.set_display(reasoning=rest)
        case "":
            pass
        case _:
            raise unknown_argument("reasoning", rest, "fold, show or hide")
    shell.output.note(f"thinking: {shell.reasoning}")


async def highlight(shell: Shell, rest: str) -> None:
    if rest not in ("", "on", "off"):
        raise unknown_argument("highlight", rest, "on or off")
    if rest:
        shell.set_display(highlight=rest == "on")
    shell.output.note(f"highlight: {'on' if shell.highlight else 'off'}")


async def safety(shell: Shell, rest: str) -> None:
    line = f"{rest} ".removeprefix("check ").strip()
    if not line:
        shell.output.note("of which command? :safety check COMMAND")
        return
    shell.output.note(level_line(line, msgspec.structs.replace(shell.runtime.shell_context, cwd=shell.cwd)))
    for verdict_line in verdict_lines(shell.runtime.explain("shell__run", {"command": line})):
        shell.output.note(verdict_line)


async def diff(shell: Shell, rest: str) -> None:
    """Runs `git diff` in the live bash and sends its output with the next question."""
    # Outside a repository `git diff` is another command, whose help is long.
    result = await shell.run_line(
        f"git rev-parse --git-dir >/dev/null && git --no-pager diff {rest}".strip(), attach=True
    )
    shell.command_context.pin()
    if not result.status and not result.output.strip():
        shell.output.note("git sees no difference")


async def tree(shell: Shell, rest: str) -> None:
    root = resolve_path(shell.cwd, rest or ".")
    if not is_folder(root):
        raise UsageError(f"{root} is no folder")
    lines = await asyncio.to_thread(tree_lines, root, _MAX_FILES)
    shell.command_context.add_run(RunResult(f"tree {rest}".strip(), 0, shell.cwd, 0.0, "\n".join(lines)))
    shell.command_context.pin()
    entries = "1 entry goes" if len(lines) == 1 else f"{len(lines)} entries go"
    shell.output.note(f"{entries} along with your next question")


async def undo(shell: Shell, rest: str) -> None:
    """Takes back an edit of the code tools, or lists those that can be taken back."""
    if rest != "list":
        shell.output.note(await shell.runtime.undo_edit(rest))
        return
    edits = await shell.runtime.list_undoable()
    for edit in edits:
        when = time.strftime("%d %b %H:%M", time.localtime(edit.made_ms / 1000))
        more = f" and {len(edit.paths) - _SHOWN_PATHS} more" if len(edit.paths) > _SHOWN_PATHS else ""
        shell.output.note(f"{edit.id}  {when}  {edit.title}  ({', '.join(edit.paths[:_SHOWN_PATHS])}{more})")
    if not edits:
        shell.output.note("there is nothing to undo")


async def clear(shell: Shell, rest: str) -> None:
    shell.output.clear_screen()


async def quit_(shell: Shell, rest: str) -> None:
    shell.leave()
