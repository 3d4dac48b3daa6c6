"""Tickets in a JSON file of the workspace."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import msgspec

from aish import Context, Deny, HookEvent, Prompt, command, hook, settings, tool

State = Literal["open", "closed"]


@settings
class Settings(msgspec.Struct):
    file: str = "tickets.json"


@dataclass
class Ticket:
    id: int
    title: str
    state: State = "open"


@tool(effect="read")
def ticket(id: int, *, ctx: Context) -> Ticket:
    """One ticket by its number."""
    return _read(ctx)[id]


@tool(effect="read")
def tickets(state: State = "open", *, ctx: Context) -> list[Ticket]:
    """The tickets of a state.

    Args:
        state: open ones, unless closed ones are asked for
    """
    return [each for each in _read(ctx).values() if each.state == state]


@tool(effect="write")
def close_ticket(id: int, *, ctx: Context) -> str:
    """Closes a ticket."""
    found = _read(ctx)
    found[id].state = "closed"
    _path(ctx).write_text(json.dumps([asdict(each) for each in found.values()], indent=2))
    return f"closed #{id}: {found[id].title}"


@command("standup")
def standup(*, ctx: Context) -> Prompt:
    """What is open."""
    lines = [f"#{each.id} {each.title}" for each in _read(ctx).values() if each.state == "open"]
    return Prompt("Say in two sentences what the team has to do:\n" + "\n".join(lines))


@hook("before_tool", tools=["tickets__close_ticket"])
def keep_the_first(event: HookEvent) -> Deny | None:
    return Deny("#1 is the pinned ticket") if event.arguments.get("id") == 1 else None


def _path(ctx: Context) -> Path:
    return ctx.workspace / ctx.settings.file


def _read(ctx: Context) -> dict[int, Ticket]:
    found = [Ticket(**each) for each in json.loads(_path(ctx).read_text())]
    return {each.id: each for each in found}
