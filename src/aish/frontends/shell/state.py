"""What the shell's parts share: the engine, the live shell, and what the person has set since it began."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from aish.engine.engine import Engine
from aish.frontends.runtime import LiveShell, Runtime
from aish.frontends.shell.command_context import Attached
from aish.frontends.terminal import Output
from aish.types.live_shell import RunResult
from aish.types.requests import TurnRequest
from aish.types.usage import Usage

if TYPE_CHECKING:
    from aish.autonomy.turn_summary import Heard
    from aish.frontends.shell.render.event_printer import Narrator
    from aish.frontends.shell.render.styles import Reasoning

ReadLine = Callable[[str, str], Awaitable[str | None]]  # what stands before it, what stands in it already


class Run(Protocol):
    def __call__(self, line: str, *, attach: bool, typed: bool = False) -> Awaitable[RunResult]:
        """`typed`: it is the person's own line, and the prompt shows how it ended."""


def nothing() -> None:
    pass


async def _unasked(text: str) -> None:
    raise AssertionError("the shell is not open yet")


async def _nowhere(line: str, *, attach: bool, typed: bool = False) -> RunResult:
    raise AssertionError("the shell is not open yet")


def _unseen() -> Narrator:
    raise AssertionError("the shell is not open yet")


async def _unshown(request: TurnRequest, heard: Heard) -> None:
    raise AssertionError("the shell is not open yet")


class Shell(msgspec.Struct, eq=False):
    """`talk` asks the model, `show` shows a turn as it comes, `view` makes what shows one, `run` runs a line in
    the live shell: set by whoever drives it."""

    engine: Engine
    runtime: Runtime
    live: LiveShell | None  # None where there can be none
    output: Output
    ask: ReadLine
    request: TurnRequest  # model, session, tools and limits of the next turn
    attached: Attached
    model: str = ""  # its full name, once it is known
    unrouted: str = ""  # the model of before `:route on`
    window: int | None = None
    context_tokens: int = 0  # of the last request
    usage: Usage = Usage()
    cost_since_ms: int = 0  # what `:cost` counts from
    highlight: bool = True
    reasoning: Reasoning = "fold"
    status: str = ""
    leaving: bool = False
    stop: Callable[[], object] = nothing  # the answer that is being given
    talk: Callable[[str], Awaitable[None]] = _unasked
    show: Callable[[TurnRequest, Heard], Awaitable[None]] = _unshown
    view: Callable[[], Narrator] = _unseen
    run: Run = _nowhere

    @property
    def cwd(self) -> str:
        return self.live.cwd if self.live else str(self.runtime.process_environment.cwd)

    async def read(self, prompt: str, typed: str = "") -> str | None:
        """A short answer of the person's."""
        return await self.ask(prompt, typed)

    def change(self, **fields: object) -> None:
        """Of the next turns."""
        self.request = msgspec.structs.replace(self.request, **fields)

    async def look_up_model(self) -> None:
        route = await self.engine.router.resolve(self.request.model)
        self.model, self.window = route.name, route.info.context_size
