"""Asks the model from the shell: sends what was run along, prints the answer, and offers what it proposes. Other models
are asked by `:delegate`, and by the `DELEGATE:` lines of an answer.

Loaded with the first question, not with the first prompt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from aish.autonomy.turn_summary import TurnSummary
from aish.errors import ModelNotFound, StoreError
from aish.frontends.mentions import MentionScope, expand_mentions
from aish.frontends.shell.approvals.plan_approval import ask_about_plan, is_plan
from aish.frontends.shell.approvals.proposal_menu import Offered, offer_commands
from aish.frontends.shell.command_hints import (
    hint_lines,
    hints_for_model,
    is_clear_command_question,
    is_command_question,
    program_of,
    ready_commands,
    split_by_availability,
)
from aish.frontends.shell.shell import Shell, format_error
from aish.frontends.terminal import visible
from aish.tool_calls.detect.proposals import lines_of_prose, proposals
from aish.types.decisions import Mode
from aish.types.live_shell import CommandHint
from aish.types.messages import TextPart, UserMessage, user
from aish.types.requests import TurnRequest
from aish.types.usage import Category

_LINE = re.compile(r" {0,3}(?:[-*] )?DELEGATE:[ \t]*(\S+)[ \t]+(\S.*)")
_MAX_QUESTIONS = 5


async def ask_model(shell: Shell, text: str) -> None:
    """Asks, prints the answer and offers to run what it proposes. Repeats while the user wants to continue."""
    hints = await shell.runtime.find_commands(text) if is_command_question(text) else ()
    is_weak = is_command_question(text) and await _has_no_strong_model(shell, text)
    known = ready_commands(hints) if is_weak else []
    if is_weak:
        for line in hint_lines(hints):
            shell.output.note(line)
    if is_weak and is_clear_command_question(text) and any(hint.here for hint in hints):
        await offer_commands(shell, known)  # a small model invents command lines; these are known
        return
    continues = False
    while True:
        reply = await _ask(shell, text, hints, continues=continues)
        if reply is None:
            return
        if shell.mode is Mode.PLAN and is_plan(visible(reply), text):
            approved = await ask_about_plan(shell, reply)
            if approved is None:
                return
            text, hints, known, continues = approved, (), [], True
            continue
        commands = _drop_missing(shell, proposals(visible(reply))) or known
        if not commands:
            shell.mention_blocks()
        questions = find_delegations(reply)
        goes_on = await _offer(shell, commands) if commands else False
        answered = await run_delegations(shell, questions) if questions else False
        if not (answered or goes_on):
            return
        text, hints, known, continues = "Go on.", (), [], True


async def _is_weak_model(shell: Shell, text: str) -> bool:
    request = msgspec.structs.replace(shell.request, input=(user(text),))
    return (await shell.find_model_info(request)).is_weak


async def _has_no_strong_model(shell: Shell, text: str) -> bool:
    """Without any model the index of commands still has an answer."""
    try:
        return await _is_weak_model(shell, text)
    except ModelNotFound:
        if shell.request.model:
            raise
        return True


def _drop_missing(shell: Shell, commands: list[str]) -> list[str]:
    """Drops the proposals before the first one that can run here. Those after it stay: a command may install a program
    that a later one needs."""
    live = shell.live
    if live is None or not commands:
        return commands
    available, _ = split_by_availability(commands, lambda word: live.resolve(word) is not None)
    first = commands.index(available[0]) if available else len(commands)
    for program in filter(None, map(program_of, commands[:first])):
        shell.output.note(f"· {program} is not on this machine")
    return commands[first:]


async def _offer(shell: Shell, commands: list[str]) -> bool:
    """Offers the proposals. Whether the model is to go on with what came out; otherwise the next question tells it."""
    setting = shell.runtime.config.shell.continue_after_commands
    offered = await offer_commands(shell, commands, can_continue=setting == "ask")
    return offered is Offered.CONTINUE or (offered is Offered.RAN and setting == "always")


async def _ask(shell: Shell, text: str, hints: Sequence[CommandHint], *, continues: bool) -> str | None:
    """The text of the answer. None if the user stopped it: it is stored, but nothing is proposed."""
    context = shell.command_context
    ran = context.text()
    if ran and not continues and context.is_unrelated_to(text) and await _is_weak_model(shell, text):
        ran = ""  # a small model mistakes it for a task; it waits for a question that may be about it
    question = await expand_mentions(text, MentionScope.of(shell.runtime, Path(shell.cwd), text))
    # The first line of the first part names the session, so what was run comes last.
    extra = [TextPart(f"\n\n{ran}")] if ran else []
    if hint_text := hints_for_model(hints):
        extra.append(TextPart(hint_text))
    summary = TurnSummary()
    request = msgspec.structs.replace(shell.request, input=(UserMessage((*question.parts, *extra)),))
    is_stopped = await _show_turn(shell, request, summary)
    shell.record_turn(summary)
    if ran and not summary.has_failed:  # otherwise it is sent with the next try
        context.clear()
    return None if is_stopped else summary.text


async def _show_turn(shell: Shell, request: TurnRequest, summary: TurnSummary) -> bool:
    """On a full disk help is needed most: if nothing can be stored, the shell goes on without a store."""
    try:
        return await shell.show_turn(request, summary)
    except StoreError as exc:
        if summary.model:  # the turn has begun
            raise
        shell.output.note(format_error(exc))
        shell.output.note("· from here on nothing is kept, and the model does not see what was said before")
        await shell.leave_store()
        return await shell.show_turn(msgspec.structs.replace(shell.request, input=request.input), summary)


def find_delegations(reply: str) -> list[tuple[str, str]]:
    found = [(match[1], match[2].strip()) for line in lines_of_prose(reply) if (match := _LINE.fullmatch(line))]
    return list(dict.fromkeys(found))[:_MAX_QUESTIONS]


async def ask_other_model(shell: Shell, name: str, text: str) -> bool:
    """Asks without history, tools or memory. Returns whether there was an answer. The next question includes it."""
    route = await shell.engine.router.resolve(name)
    request = msgspec.structs.replace(
        shell.request,
        input=(user(text),),
        model=name,
        session="",
        kept=False,
        context=(),
        system="",
        tools=(),
        memory=False,
        project=False,
        environment=False,
        category=Category.DELEGATE,
        charged_to=shell.request.session,
    )
    shell.output.note(f"→ {route.name}")
    summary = TurnSummary()
    await shell.show_turn(request, summary)
    shell.record_usage(summary.usage)
    if not summary.text.strip():
        return False
    shell.command_context.add_text(f"[{route.name} was asked] {text}\n[it answered]\n{summary.text.strip()}")
    return True


async def run_delegations(shell: Shell, questions: list[tuple[str, str]]) -> bool:
    """Asks the models that the user agrees to. Whether any of them answered."""
    answered = False
    for name, text in questions:
        typed = await shell.read(f"ask {name}: {text}? [y/N] ")
        if (typed or "").strip().lower() in ("y", "yes"):
            answered = await ask_other_model(shell, name, text) or answered
    return answered
