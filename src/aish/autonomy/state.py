"""The stored state of work towards a goal, and the protocol of the frontend that shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from aish.types.decisions import Mode
from aish.types.events import Event, ToolResult
from aish.types.requests import TurnLimits
from aish.types.runs import Halt, HaltAnswer
from aish.types.usage import KeyBudget


class GoalState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that is needed to resume the work. It is stored as JSON, so the names of its fields do not change."""

    model: str = ""
    preplanner: str = ""
    second_opinion: str = ""
    tools: tuple[str, ...] = ("*",)
    may_fall_back: bool = True
    owner: str = ""
    payer: KeyBudget | None = None
    mode: Mode = Mode.AUTO
    system: str = ""
    max_steps: int = 16
    max_cost: float | None = None
    max_s: float = 3600.0
    turn: TurnLimits = TurnLimits()
    where: str = ""  # the frontend that runs it: a server resumes its own runs
    step: int = 0
    spent_s: float = 0.0
    tasks: str = ""
    note: str = msgspec.field(default="", name="told")  # text for the model at the next step
    skips: int = 0  # in a row
    idle: int = 0  # steps in a row without an effect
    commands: tuple[str, ...] = ()  # of the last step, still to be run
    asked: bool = False  # the model was asked, and its answer is not stored yet
    complete: bool = False  # the last step said so; it counts once its commands have run
    halt: Halt | None = None
    allowed_call: str = msgspec.field(
        default="", name="allowed"
    )  # the digest of the call that the user allowed at a halt


Show = Callable[[Sequence[Event]], None]


class Watcher(Protocol):
    """The frontend that shows the work and lets the user decide."""

    def notify_user(self, text: str) -> None: ...

    def step(self, number: int, max_steps: int, cost: float) -> AbstractAsyncContextManager[Show]:
        """Entered for the turn of a step. Gives a function that gets the events of the turn."""

    def show_command(self, command: str, result: ToolResult) -> None: ...

    async def decide(self, halt: Halt) -> HaltAnswer:
        """The decision about a halt. LEAVE if there is no user to ask."""
