"""Asking the model from the shell: the question goes along with what was run, the answer is shown as it comes, and what
it proposes is offered. Loaded with the first question, not with the first prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from aish.autonomy.turn_summary import Heard
from aish.frontends.mentions import Places, expand
from aish.frontends.shell.approvals.proposals import carry_out
from aish.frontends.shell.command_hints import (
    asks_for_command,
    program_of,
    runnable,
    shown,
    sorted_out,
    surely_asks_for_command,
    told_to_model,
)
from aish.frontends.shell.commands.delegate import carry_out_delegations, delegations
from aish.frontends.shell.interrupts import on_interrupt, was_stopped
from aish.frontends.shell.prompt.terminal_echo import unechoed
from aish.frontends.shell.state import Shell, nothing
from aish.ports import Ask
from aish.tool_calls.detect.proposals import proposals
from aish.types.command_hints import CommandHint
from aish.types.messages import TextPart, UserMessage, user
from aish.types.requests import TurnRequest


class Talking:
    """`make_ask` makes what puts the gate's questions to the person."""

    def __init__(self, shell: Shell, make_ask: Callable[[Shell], Ask]) -> None:
        self._shell = shell
        self._make_ask = make_ask
        self._is_weak = False

    async def talk(self, text: str) -> None:
        """Ask, show the answer, and offer what it proposes; again while the person wants to go on."""
        shell = self._shell
        hints = await self._hints(text)
        goes_on = False
        if self._is_weak and surely_asks_for_command(text) and (known := runnable(hints)):
            await carry_out(shell, known)  # a small model makes lines up, and runs them; this one is known to work here
            return
        while True:
            said = await self._ask(text, hints, goes_on=goes_on)
            if said is None:
                return
            commands, others = self._offered(proposals(said), hints), delegations(said)
            hints = ()
            ran = await carry_out(shell, commands) if commands else False
            answered = await carry_out_delegations(shell, others) if others else False
            if not (answered or (ran and await self._goes_on())):
                return
            text, goes_on = "Go on.", True

    async def show(self, request: TurnRequest, heard: Heard) -> bool:
        """A turn as it comes; whether it was stopped: Ctrl-C does."""
        shell = self._shell
        asking = asyncio.ensure_future(self._answer(request, heard))
        shell.stop = asking.cancel
        with unechoed(), on_interrupt(asking.cancel):
            try:
                await asking
            except asyncio.CancelledError:
                if not was_stopped(asking):
                    raise
                shell.output.note("stopped")
            finally:
                shell.stop = nothing
        return asking.cancelled()

    async def _hints(self, text: str) -> Sequence[CommandHint]:
        """What this machine has for a question that asks for a command; shown, where the model is small."""
        if not asks_for_command(text):
            return ()
        shell = self._shell
        hints = await shell.runtime.find_commands(text)
        self._is_weak = await self._asks_weak_model(text)
        if self._is_weak:
            for line in shown(hints):
                shell.output.note(line)
        return hints

    async def _asks_weak_model(self, text: str) -> bool:
        """Whether it is one that will answer this."""
        request = msgspec.structs.replace(self._shell.request, input=(user(text),))
        return (await self._shell.engine.chooser.choose(request)).route.info.is_weak

    def _offered(self, commands: list[str], hints: Sequence[CommandHint]) -> list[str]:
        """Of what the model proposes, what can be run here, or may once something before it was run; of a small model's
        question, a line that surely can."""
        live = self._shell.live
        if live is not None and commands:
            there, _ = sorted_out(commands, lambda word: live.resolve(word) is not None)
            first = commands.index(there[0]) if there else len(commands)
            for program in filter(None, map(program_of, commands[:first])):
                self._shell.output.note(f"· {program} is not on this machine")
            commands = commands[first:]
        return commands or (runnable(hints) if hints and self._is_weak else [])

    async def _goes_on(self) -> bool:
        match self._shell.runtime.config.shell.continue_after_commands:
            case "always":
                return True
            case "never":
                return False
            case _:
                answer = await self._shell.read("tell the model what came out? [y/N] ")
                return answer is not None and answer.strip().lower() in ("y", "yes")

    async def _ask(self, text: str, hints: Sequence[CommandHint], *, goes_on: bool) -> str | None:
        """What the model said; None if it was stopped: what was said is kept, but nothing is proposed."""
        shell = self._shell
        ran = shell.attached.peek()
        if ran and not goes_on and shell.attached.may_wait(text) and await self._asks_weak_model(text):
            ran = ""  # which would take it for more to do; it waits for a question that may be about it
        question = await expand(text, Places(Path(shell.cwd), shell.runtime.mcp_servers))
        heard = Heard()
        # Its first line names the session, so what was run comes last.
        attached: tuple[TextPart, ...] = (TextPart(f"\n\n{ran}"),) if ran else ()
        if told := told_to_model(hints):
            attached = (*attached, TextPart(told))
        request = msgspec.structs.replace(shell.request, input=(UserMessage((*question.parts, *attached)),))
        stopped = await self.show(request, heard)
        self._keep(heard)
        if ran and not heard.failed:  # else it goes along with the next try
            shell.attached.clear()
        return None if stopped else heard.said

    async def _answer(self, request: TurnRequest, heard: Heard) -> None:
        shell = self._shell
        view = shell.view()
        async with (
            view.waiting(f"waiting for {shell.model or 'a model'}"),
            shell.engine.turn(request, ask=self._make_ask(shell)) as batches,
        ):
            async for events in batches:
                heard.see(events)
                view.show_all(events)

    def _keep(self, heard: Heard) -> None:
        shell = self._shell
        if heard.session:
            shell.change(session=heard.session)
        shell.model = heard.model or shell.model
        shell.usage = shell.usage + heard.usage
        shell.context_tokens = heard.context_tokens or shell.context_tokens
