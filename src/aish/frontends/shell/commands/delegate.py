"""Asks another model and adds its answer to the conversation: `:delegate`, and the `DELEGATE:` lines of a reply."""

from __future__ import annotations

import re

import msgspec

from aish.autonomy.turn_summary import TurnSummary
from aish.frontends.shell.shell import Shell
from aish.tool_calls.detect.proposals import lines_of_prose
from aish.types.messages import user
from aish.types.usage import Category

_LINE = re.compile(r" {0,3}(?:[-*] )?DELEGATE:[ \t]*(\S+)[ \t]+(\S.*)")
_MAX_QUESTIONS = 5


def delegation_rules(names: list[str]) -> str:
    """Text for the system message: how the model asks one of the other models."""
    return (
        "To ask another model, write one line: DELEGATE: NAME QUESTION. Its answer comes back to you. "
        f"The names are {', '.join(names)}."
    )


def find_delegations(reply: str) -> list[tuple[str, str]]:
    found = [(match[1], match[2].strip()) for line in lines_of_prose(reply) if (match := _LINE.fullmatch(line))]
    return list(dict.fromkeys(found))[:_MAX_QUESTIONS]


async def ask_other_model(shell: Shell, name: str, text: str) -> bool:
    """Asks without history, tools or memory. Whether there was an answer; it is sent with the next question."""
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
