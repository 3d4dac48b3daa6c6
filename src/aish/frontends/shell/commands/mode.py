"""`:mode`: how much the model's tools may do without a question."""

from __future__ import annotations

from aish.frontends.shell.commands.arguments import unknown_argument
from aish.frontends.shell.shell import Shell
from aish.types.decisions import Mode

MODE_TEXTS = {
    Mode.ASK: "you are asked before anything is changed",
    Mode.EDITS: "edits of files in the project run unasked; :undo takes them back",
    Mode.AUTO: "edits and commands that lose nothing run unasked, commands only inside the sandbox",
    Mode.PLAN: "nothing is changed; the model ends with a plan for you to approve",
}


async def mode(shell: Shell, rest: str) -> None:
    if rest and rest not in set(Mode):
        raise unknown_argument("mode", rest, ", ".join(Mode))
    if rest:
        shell.switch_mode(Mode(rest))
    shell.output.note(f"mode {shell.mode}: {MODE_TEXTS[shell.mode]}")
    if shell.mode is Mode.AUTO and not await shell.runtime.containment.is_active():
        shell.output.note("no sandbox without network is active here, so commands are asked about (:doctor says why)")
