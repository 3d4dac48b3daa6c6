"""`:context`, `:cost`, `:route` and `:delegate`: what the model sees, what it costs, and which model answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from aish.config.instructions import InstructionFile
from aish.engine.model.ledger import day_start_ms, dollars
from aish.frontends.runtime import find_entries
from aish.frontends.shell.ask_model import ask_model, ask_other_model
from aish.frontends.shell.commands.arguments import unknown_argument
from aish.frontends.shell.shell import Shell
from aish.frontends.spending_table import (
    By,
    estimate_note,
    format_calls,
    format_cost,
    group_spending,
    spending_lines,
    total_spending,
)
from aish.types.context import ContextView
from aish.types.events import UsageReported
from aish.types.messages import user
from aish.types.usage import SpentRow

_BAR = 40
_FILLS = "█▓▒░▚▞▖"


async def context(shell: Shell, rest: str) -> None:
    """What the model would see of the question given, with the commands that were run since the last one."""
    ran = shell.command_context.text()
    question = "\n\n".join(part for part in (rest, ran) if part)
    request = msgspec.structs.replace(shell.request, input=(user(question),) if question else ())
    _show_view(shell, await shell.view_context(request))
    if shell.request.session:
        _show_cached(shell, await shell.engine.recent_prompts(shell.request.session))
    if ran:
        shell.output.note("what you ran since goes along with your next question")


def _show_view(shell: Shell, view: ContextView) -> None:
    known = view.budget or view.window
    room = known or max(view.tokens, 1)
    bar = "".join(
        _FILLS[index % len(_FILLS)] * max(1, round(_BAR * part.tokens / max(room, view.tokens)))
        for index, part in enumerate(view.parts)
    )
    shell.output.note(f"{bar.ljust(_BAR, '·')} {view.tokens} of {room} tokens" if known else f"{view.tokens} tokens")
    for index, part in enumerate(view.parts):
        shell.output.note(f"{_FILLS[index % len(_FILLS)]} {part.name:<13} {part.tokens:>7}")
    window = f"a window of {view.window}" if view.window else "a window of unknown size"
    counted = "counted by its own tokenizer" if view.counted_by == "backend" else "estimated, four bytes a token"
    shell.output.note(f"{view.model}, {window}; {counted}")
    left_out = f", {view.left_out} older ones left out" if view.left_out else ""
    turns = "1 earlier turn goes" if view.turns == 1 else f"{view.turns} earlier turns go"
    shell.output.note(f"{turns} along{left_out}")


def _show_cached(shell: Shell, prompts: Sequence[UsageReported]) -> None:
    """Shows of the last requests how much the backend had read before, and why a prompt began anew."""
    if not any(prompt.usage.cached_tokens for prompt in prompts):
        return  # the backend does not say, or has no cache
    shell.output.note("the last requests, and how much of each the backend had cached:")
    for prompt in prompts:
        usage = prompt.usage
        share = 100 * usage.cached_tokens // max(1, usage.prompt_tokens)
        why = f"; {prompt.prefix_lost}" if prompt.prefix_lost else ""
        shell.output.note(f"  {usage.prompt_tokens:>7} tokens, {share:>3} % cached{why}")


async def compact(shell: Shell, rest: str) -> None:
    """Has earlier turns become notes now. The session keeps them, and the model can search them."""
    request = msgspec.structs.replace(shell.request, input=())
    before = await shell.view_context(request)
    if not shell.request.session or not before.turns:
        shell.output.note("there is nothing to compact: no earlier turn goes along")
        return
    count = await shell.engine.compact(request, rest)
    after = await shell.view_context(request)
    turns = "1 earlier turn" if count == 1 else f"{count} earlier turns"
    shell.output.note(f"{turns} became notes: {after.tokens} tokens go along, {before.tokens} before")


INIT_QUESTION = (
    "Look at this repository and propose an AGENTS.md for its root: what it is, how it is laid out, the commands that "
    "build, check and test it, and the rules of its code that a newcomer would break. Read the README, the build "
    "files, the continuous integration and some of the code first. At most 60 lines of short sentences. Write only "
    "what you have seen. Then create the file, or, if you have no tool that writes files, show it."
)


async def init(shell: Shell, rest: str) -> None:
    """Has the model propose instructions for this project."""
    await ask_model(shell, f"{INIT_QUESTION}\n\n{rest}".strip())


async def reload(shell: Shell, rest: str) -> None:
    """Reads the project's instructions and the environment again."""
    shell.runtime.reread_project()
    files = await asyncio.to_thread(lambda: [*shell.runtime.instruction_files(), *_entry_files(shell)])
    for file in files:
        state = file.problem or (
            "the model gets it" if file.state == "trusted" else f"{file.state}: `:trust` accepts it"
        )
        shell.output.note(f"{_relative(file.path, shell.runtime.workspaces.folder)}: {state}")
    if not files:
        shell.output.note("this project has no instructions for models (AGENTS.md); :init proposes some")


def _entry_files(shell: Shell) -> list[InstructionFile]:
    return [entry.file for _, entry in find_entries(shell.runtime)]


async def skills(shell: Shell, rest: str) -> None:
    """Lists the skills, or shows the text of one."""
    if rest:
        shell.output.note(await shell.runtime.read_skill(rest))
        return
    found = shell.runtime.skills()
    for skill in found:
        path, problem = _relative(skill.file.path, shell.runtime.workspaces.folder), skill.file.problem
        state = problem or f"{skill.file.state}: `:trust` accepts it"
        shell.output.note(f"{skill.name}: {skill.description}" if skill.is_usable else f"{path}: {state}")
    if not found:
        shell.output.note("there are no skills here")
    shell.output.note("/NAME at the beginning of a question has the model follow one; :skills NAME shows it")


def _relative(path: Path, folder: Path) -> Path:
    return path.relative_to(folder) if path.is_relative_to(folder) else path


async def cost(shell: Shell, rest: str) -> None:
    if rest == "reset":
        shell.restart_cost_count(time.time_ns() // 1_000_000)
        shell.output.note("counting from here; nothing is deleted (`aish cost` shows everything)")
        return
    if rest not in ("", "detail"):
        raise unknown_argument("cost", rest, "detail or reset")
    rows = await _spent_rows(shell)
    if rest == "detail":
        by: tuple[By, ...] = ("model", "category")
        for line in spending_lines(group_spending(rows, by), by):
            shell.output.note(line)
    spent = total_spending(rows)
    shell.output.note(
        f"this session: {format_calls(spent)}, {spent.prompt_tokens} tokens in, {spent.completion_tokens} out"
        f"{estimate_note(spent)}; cost {format_cost(spent)}"
    )
    await _show_caps(shell)


async def _spent_rows(shell: Shell) -> list[SpentRow]:
    session = shell.request.session
    if not session:
        return []
    return list(await shell.engine.store.list_spent(since_ms=shell.cost_since_ms, session=session))


async def _show_caps(shell: Shell) -> None:
    """Shows what is left of each cap. What was spent before `:cost reset` counts, too."""
    caps = shell.engine.ledger.caps
    if caps.session is not None:
        session = shell.request.session
        spent = (await shell.engine.store.sum_spending(session=session)).cost if session else 0.0
        shell.output.note(f"cap for a session: {dollars(caps.session)}, {dollars(max(0.0, caps.session - spent))} left")
    if caps.day is not None:
        today = await shell.engine.store.sum_spending(since_ms=day_start_ms(time.time_ns() // 1_000_000))
        shell.output.note(f"cap for a day: {dollars(caps.day)}, {dollars(max(0.0, caps.day - today.cost))} left")


async def route(shell: Shell, rest: str) -> None:
    word, _, text = rest.partition(" ")
    match word:
        case "on" | "off":
            await shell.switch_routing(on=word == "on")
            shell.output.note(f"routing by the kind of question: {word}")
        case "check" if text.strip():
            await _explain_route(shell, text)
        case "check":
            shell.output.note("check what? :route check TEXT")
        case "":
            _show_routing(shell)
        case _:
            raise unknown_argument("route", word, "check TEXT, on or off")


async def _explain_route(shell: Shell, text: str) -> None:
    explained = shell.engine.selector.explain(text)
    shell.output.note(f"{explained.classified.kind}: {'; '.join(explained.classified.reasons)}")
    on = shell.routes_automatically
    found = await shell.engine.router.resolve(explained.preset or ("" if on else shell.request.model))
    preset = f"{explained.preset} → " if explained.preset else "no preset for it; the default, "
    shell.output.note(f"it would go to {preset}{found.name}")
    if not on:
        shell.output.note("routing is off: every question goes to the model you chose (:route on)")


def _show_routing(shell: Shell) -> None:
    routing = shell.runtime.config.routing
    shell.output.note(f"routing by the kind of question: {'on' if shell.routes_automatically else 'off'}")
    for kind, preset in routing.classes().items():
        shell.output.note(f"  {kind:<10} → {preset}")
    if not routing.classes():
        shell.output.note("  no kind has a preset yet: set code, reasoning, … under [routing]")
    shell.output.note(f"  when a model cannot be reached: {routing.fallback or 'nothing else is asked'}")


async def delegate(shell: Shell, rest: str) -> None:
    name, _, text = rest.partition(" ")
    if not text.strip():
        shell.output.note("ask which model what? :delegate MODEL TEXT")
        return
    await ask_other_model(shell, name, text.strip())
