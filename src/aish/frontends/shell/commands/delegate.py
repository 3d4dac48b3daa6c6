"""Asking another model and bringing its answer back: `:delegate`, and the `DELEGATE:` lines of a reply."""

from __future__ import annotations

import re

import msgspec

from aish.autonomy.turn_summary import Heard
from aish.frontends.shell.state import Shell
from aish.tool_calls.detect.proposals import lines_of_prose
from aish.types.messages import user
from aish.types.usage import Category

_LINE = re.compile(r" {0,3}(?:[-*] )?DELEGATE:[ \t]*(\S+)[ \t]+(\S.*)")
_MAX = 5


def contract(names: list[str]) -> str:
    """What the model is told, where there is somebody to delegate to."""
    if not names:
        return ""
    return (
        "To ask another model, write one line: DELEGATE: NAME QUESTION. Its answer comes back to you. "
        f"The names are {', '.join(names)}."
    )


def delegations(reply: str) -> list[tuple[str, str]]:
    found = [(match[1], match[2].strip()) for line in lines_of_prose(reply) if (match := _LINE.fullmatch(line))]
    return list(dict.fromkeys(found))[:_MAX]


async def delegate_to(shell: Shell, name: str, text: str) -> bool:
    """Whether there was an answer. It goes along with the next question."""
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
    heard = Heard()
    await shell.show(request, heard)
    shell.usage = shell.usage + heard.usage
    if not heard.said.strip():
        return False
    shell.attached.tell(f"[{route.name} was asked] {text}\n[it answered]\n{heard.said.strip()}")
    return True


async def carry_out_delegations(shell: Shell, wanted: list[tuple[str, str]]) -> bool:
    answered = False
    for name, text in wanted:
        typed = await shell.read(f"ask {name}: {text}? [y/N] ")
        if (typed or "").strip().lower() in ("y", "yes"):
            answered = await delegate_to(shell, name, text) or answered
    return answered
