"""`:run`, `:copy`, `:edit`, `:revise`, `:last` and `:expand`: what can be done with the last answer and its output."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from tempfile import NamedTemporaryFile

from aish.config import paths
from aish.errors import UsageError
from aish.frontends.shell.approvals.proposal_menu import run_chosen, show_command
from aish.frontends.shell.ask_model import ask_model
from aish.frontends.shell.prompt.routing import Destination, KnownNames, route_line
from aish.frontends.shell.shell import PASTE, Shell
from aish.frontends.terminal import visible
from aish.safety.policy.rules import SHELL_TOOL
from aish.tool_calls.detect.proposals import AnswerBlock
from aish.types.decisions import Verdict
from aish.types.messages import text_of

_PAGER = "${PAGER:-$(command -v less || command -v more || echo cat)}"
_ORDINARY = "gate.exec"  # the rule that asks about any command; the others have found something in this one


async def run(shell: Shell, rest: str) -> None:
    block = find_block(shell, rest, runnable=True)
    judged = shell.runtime.explain(SHELL_TOOL, {"command": block.command})
    show_command(shell, block.command)
    if judged.verdict is not Verdict.ALLOW:
        shell.output.note(f"  {judged.reason}")
    is_grave = judged.verdict is Verdict.ASK and judged.rule != _ORDINARY
    if is_grave and not judged.insist and not await _confirm(shell):
        return
    await run_chosen(shell, block.command)


async def _confirm(shell: Shell) -> bool:
    typed = await shell.read("run it? [y/N] ") or ""
    if typed.strip().lower() in ("y", "yes"):
        return True
    if typed.strip().lower() not in ("", "n", "no"):
        shell.type_ahead(typed)
    shell.output.note("  it was not run")
    return False


async def copy(shell: Shell, rest: str) -> None:
    if shell.answer.blocks or rest:
        block = find_block(shell, rest)
        title, text = f"block {block.number}", block.command or block.text
    else:
        title, text = "the last answer", shell.answer.text.strip()
    if not text:
        raise UsageError("there is no answer to copy from yet")
    file = _write_copy(shell, text)
    how = "copied" if shell.output.copy(text) else "too long for the clipboard of a terminal"
    shell.output.note(f"{title} ({len(text)} characters): {how}; it is in {file}, too")


def _write_copy(shell: Shell, text: str) -> Path:
    """Keeps the text in a file of the user's own, for terminals that take no clipboard."""
    folder = paths.cache_dir(shell.runtime.launch_context.env)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / "copied.txt"
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as opened:
        opened.write(f"{text}\n")
    return file


async def edit(shell: Shell, rest: str) -> None:
    """Puts a block at the next prompt, where it can be changed and entered."""
    block = find_block(shell, rest, runnable=True)
    routed = route_line(block.command, KnownNames.of(shell.live))
    is_shell = routed.destination is Destination.SHELL
    shell.type_ahead(PASTE.format(block.command if is_shell else f"!{block.command}"))


async def revise(shell: Shell, rest: str) -> None:
    """Sends a block back to the model, with what should be different."""
    first, _, others = rest.partition(" ")
    number, wish = (first, others.strip()) if first.isdecimal() else ("", rest)
    block = find_block(shell, number)
    if not wish:
        raise UsageError("what should be different? :revise [N] TEXT")
    await ask_model(shell, f"{wish}\n\nThis is about:\n\n~~~{block.language}\n{block.text}\n~~~")


async def last(shell: Shell, rest: str) -> None:
    if not shell.answer.text.strip():
        raise UsageError("there is no answer yet")
    shell.make_printer().show_text(shell.answer.text)


async def expand(shell: Shell, rest: str) -> None:
    """Pages the result of a call of the last turn that had calls."""
    results = shell.results
    if not results:
        raise UsageError("no tool has been called yet")
    if rest and not (rest.isdecimal() and 1 <= int(rest) <= len(results)):
        raise UsageError(f"there is no output {rest}", hint=f"there are 1 to {len(results)}")
    result = results[int(rest) - 1 if rest else -1]
    with NamedTemporaryFile("w", prefix="aish-output-", suffix=".txt", encoding="utf-8", errors="replace") as file:
        file.write(f"{visible(text_of(result.parts))}\n")
        file.flush()
        await shell.run_line(f"{_PAGER} {shlex.quote(file.name)}", attach=False)


def find_block(shell: Shell, rest: str, *, runnable: bool = False) -> AnswerBlock:
    """The block of that number, by default the last one. Raises UsageError."""
    blocks = shell.answer.blocks
    if rest and not rest.isdecimal():
        raise UsageError(
            f"{rest!r} is not the number of a block", hint="the numbers stand beside the blocks of the answer"
        )
    found = [block for block in blocks if str(block.number) == rest.lstrip("0")] if rest else list(blocks)
    wanted = [block for block in found if block.command] if runnable else found
    if wanted:
        return wanted[-1]
    if found and rest:
        what = found[0].language or "text"
        raise UsageError(f"block {rest} is {what}, not for a shell", hint=f":copy {rest} copies it")
    if runnable and not rest:
        raise UsageError("the last answer has no block that a shell can run")
    known = ", ".join(str(block.number) for block in blocks)
    raise UsageError(f"the last answer has no block {rest}".rstrip(), hint=known and f"it has {known}")
