"""What work towards a goal keeps between its steps, and the frontend that watches it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from aish.types.events import Event, ToolResult
from aish.types.limits import Limits
from aish.types.runs import Halt, HaltAnswer


class NorrisBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """What has to be known to go on."""

    model: str = ""
    preplanner: str = ""
    second_opinion: str = ""
    tools: tuple[str, ...] = ("*",)
    may_fall_back: bool = True
    owner: str = ""
    system: str = ""
    max_steps: int = 16
    max_cost: float | None = None
    max_s: float = 3600.0
    turn: Limits = Limits()
    where: str = ""  # the frontend that keeps it going: a server takes up its own
    step: int = 0
    spent_s: float = 0.0
    tasks: str = ""
    told: str = ""  # for the model, at the next step
    skips: int = 0  # in a row
    idle: int = 0
    commands: tuple[str, ...] = ()  # of the last step, still to be run
    asked: bool = False  # the model was; what it answered is not in here yet
    complete: bool = False  # the last step said so; it holds once its commands have run
    halt: Halt | None = None
    allowed: str = ""  # the digest of the call that a person said yes to while it stood halted


Show = Callable[[Sequence[Event]], None]


class Watcher(Protocol):
    """The frontend. `halt` is where a person decides."""

    def note(self, text: str) -> None: ...

    def step(self, number: int, most: int, cost: float) -> AbstractAsyncContextManager[Show]:
        """Open while the step's turn is under way; what it gives is shown the events, to the turn's last."""

    def ran(self, command: str, result: ToolResult) -> None: ...

    async def halt(self, halt: Halt) -> HaltAnswer: ...
