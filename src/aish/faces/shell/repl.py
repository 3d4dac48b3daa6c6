"""The shell: one prompt for your bash and a model.

A line is read, goes where it belongs (`routing`), and the prompt is back. The terminal has one owner at a time: the
line editor while it reads, the live bash while a command runs, the answer while the model speaks. Ctrl-C stops what
runs, not the shell; Ctrl-D, `exit` and `:quit` leave.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from aish.calls.proposals import CONTRACT, proposals
from aish.engine.session import Engine
from aish.errors import AishError, ProcessError
from aish.faces.mentions import Places, expand
from aish.faces.runtime import LiveShell, Runtime
from aish.faces.shell.attached import Attached
from aish.faces.shell.carrying_out import carry_out
from aish.faces.shell.delegating import carry_out_delegations, contract, delegations
from aish.faces.shell.heard import Heard
from aish.faces.shell.hints import asks_for_command, runnable, shown, sorted_out, told_to_model
from aish.faces.shell.interrupts import on_interrupt
from aish.faces.shell.lines import unechoed
from aish.faces.shell.meta import run_meta
from aish.faces.shell.narrate import Narrator
from aish.faces.shell.prompting import Prompt
from aish.faces.shell.routing import Goal, Routed, route
from aish.faces.shell.state import Shell, nothing
from aish.faces.terminal import Output
from aish.ports import Ask
from aish.types.command_hints import CommandHint
from aish.types.live_shell import RunEnd, RunResult
from aish.types.messages import TextPart, UserMessage
from aish.types.requests import TurnRequest

_NOT_FOUND = 127
_REFRESH_S = 1.0
_WRONG = "What went wrong with the last command, and how do I mend it?"

MakeAsk = Callable[[Shell], Ask]
MakeView = Callable[[Shell], Narrator]


async def run_shell(
    engine: Engine, runtime: Runtime, request: TurnRequest, output: Output, *, ask: MakeAsk, view: MakeView
) -> int:
    config = runtime.config.shell
    notices = Notices(output)
    async with AsyncExitStack() as stack:
        shell = Shell(
            engine,
            runtime,
            await _open_live(stack, runtime, notices),
            output,
            _not_yet,
            msgspec.structs.replace(request, system=_told(runtime, request)),
            Attached(config.attach_max_chars if config.attach_output else 0),
            highlight=config.highlight,
            reasoning=config.reasoning,
        )
        return await _Repl(shell, ask, view, notices).loop()


def _told(runtime: Runtime, request: TurnRequest) -> str:
    others = contract(list(runtime.config.presets))
    return "\n\n".join(filter(None, (CONTRACT, others, request.system)))


async def _not_yet(question: str, typed: str) -> str | None:
    return None


class Notices:
    """What the live shell has to say. Held while a program has the terminal: it would come out crooked."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._held: list[str] | None = None

    def say(self, text: str) -> None:
        if self._held is None:
            self._output.note(f"· {text}")
        else:
            self._held.append(text)

    @contextmanager
    def held(self) -> Iterator[None]:
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            for text in held:
                self.say(text)


async def _open_live(stack: AsyncExitStack, runtime: Runtime, notices: Notices) -> LiveShell | None:
    def show(data: bytes) -> None:
        sys.stdout.write(data.decode("utf-8", "replace"))
        sys.stdout.flush()

    try:
        return await stack.enter_async_context(runtime.live_shell(on_output=show, on_notice=notices.say))
    except (ImportError, ProcessError) as exc:
        notices.say(f"there is no live shell here ({exc}); every line goes to the model")
        return None


class _Repl:
    def __init__(self, shell: Shell, ask: MakeAsk, view: MakeView, notices: Notices) -> None:
        self._shell = shell
        self._notices = notices
        self._make_ask = ask
        self._make_view = view
        plain = not sys.stdout.isatty() or _is_plain(shell.runtime)
        self._prompt = Prompt(shell, _history_file(shell.runtime), plain=plain)
        self._typed = ""
        self._warned_of_jobs = False
        self._is_weak = False
        shell.ask = self._prompt.ask
        shell.talk = self.talk
        shell.run = self.run
        shell.show = self.show
        shell.view = lambda: view(shell)
        self._naming: asyncio.Task[None] | None = None
        self._prompt.on_drawn = self._begin_naming

    async def loop(self) -> int:
        shell = self._shell
        try:
            if shell.request.session:
                from aish.faces.shell.meta_records import resumed

                await self._guarded(resumed(shell))
            while not shell.leaving:
                line = await self._read()
                if line is None:
                    if self._may_leave():
                        break
                elif line:
                    await self._take(line)
        finally:
            if self._naming is not None:
                self._naming.cancel()
        return (shell.live.exit_code or 0) if shell.live else 0

    async def _read(self) -> str | None:
        typed, self._typed = self._typed, ""
        try:
            return await self._prompt.read(typed)
        except KeyboardInterrupt:
            return ""

    def _may_leave(self) -> bool:
        """Jobs would end with the shell: said once."""
        live = self._shell.live
        if live is not None and live.jobs and not self._warned_of_jobs:
            self._warned_of_jobs = True
            jobs = "is 1 job" if live.jobs == 1 else f"are {live.jobs} jobs"
            self._shell.output.note(f"there {jobs}; once more to leave all the same")
            return False
        return True

    async def _take(self, line: str) -> None:
        self._warned_of_jobs = False
        routed = await self._routed(line)
        match routed.goal:
            case Goal.META:
                await run_meta(self._shell, routed.text)
            case Goal.SHELL | Goal.QUIET_SHELL:
                await self._guarded(self._run_typed(routed))
            case Goal.MODEL:
                await self._guarded(self.talk(routed.text or _WRONG))
            case Goal.NOTHING:
                pass

    async def _guarded(self, work: Awaitable[None]) -> None:
        try:
            await work
        except AishError as exc:
            self._shell.output.note(f"aish: {exc.message}" + (f"\n  {exc.hint}" if exc.hint else ""))

    async def _routed(self, line: str) -> Routed:
        """A word that the shell does not know may be one that the last command has just made."""
        live = self._shell.live
        if live is None:
            return route(line, lambda word: None)
        routed = route(line, live.resolve)
        if routed.goal is not Goal.MODEL or routed.sure:
            return routed
        with suppress(ProcessError):
            await live.refresh(_REFRESH_S)
        return route(line, live.resolve)

    async def _run_typed(self, routed: Routed) -> None:
        if not routed.text:
            return
        result = await self._run(routed.text)
        if routed.goal is Goal.SHELL:
            self._shell.attached.add(result)
        if result.status == _NOT_FOUND and not routed.sure and len(routed.text.split()) > 1:
            answer_ = await self._prompt.ask("ask the model instead? [y/N] ")
            if answer_ is not None and answer_.strip().lower() in ("y", "yes"):
                self._shell.attached.clear()
                await self.talk(routed.text)

    async def run(self, line: str, *, attach: bool) -> None:
        result = await self._run(line)
        if attach:
            self._shell.attached.add(result)

    async def _run(self, line: str) -> RunResult:
        shell = self._shell
        if shell.live is None:
            raise ProcessError("there is no live shell here", hint="ask the model, or use another terminal")
        terminal = sys.stdin.fileno() if sys.stdin.isatty() else None
        with self._notices.held():
            result = await shell.live.run_user(line, terminal)
        shell.status = "" if result.status == 0 else f"[{result.status}]"
        self._typed = result.typed_ahead
        if result.end is RunEnd.EXITED:
            shell.leaving = True
        return result

    async def talk(self, text: str) -> None:
        """Ask, show the answer, and offer what it proposes; again while the person wants to go on."""
        shell = self._shell
        hints = await self._hints(text)
        while True:
            said = await self._ask(text, hints)
            commands, others = self._offered(proposals(said), hints), delegations(said)
            hints = ()
            ran = await carry_out(shell, commands) if commands else False
            answered = await carry_out_delegations(shell, others) if others else False
            if not (answered or (ran and await self._goes_on())):
                return
            text = "Go on."

    async def _hints(self, text: str) -> Sequence[CommandHint]:
        """What this machine has for a question that asks for a command; shown, where the model is small."""
        if not asks_for_command(text):
            return ()
        shell = self._shell
        hints = await shell.runtime.find_commands(text)
        self._is_weak = (await shell.engine.router.resolve(shell.request.model)).info.is_weak
        if self._is_weak:
            for line in shown(hints):
                shell.output.note(line)
        return hints

    def _offered(self, commands: list[str], hints: Sequence[CommandHint]) -> list[str]:
        """Of what the model proposes, what can be run here; of a small model's question, a line that surely can."""
        live = self._shell.live
        if live is not None and commands:
            commands, missing = sorted_out(commands, lambda word: live.resolve(word) is not None)
            for program in missing:
                self._shell.output.note(f"· {program} is not on this machine")
        return commands or (runnable(hints) if hints and self._is_weak else [])

    async def _goes_on(self) -> bool:
        match self._shell.runtime.config.shell.continue_after_commands:
            case "always":
                return True
            case "never":
                return False
            case _:
                answer_ = await self._prompt.ask("tell the model what came out? [y/N] ")
                return answer_ is not None and answer_.strip().lower() in ("y", "yes")

    async def _ask(self, text: str, hints: Sequence[CommandHint] = ()) -> str:
        """What the model said, "" if it was stopped: Ctrl-C does, and what was said so far is kept, but half a command
        is no proposal."""
        shell = self._shell
        question = await expand(text, Places(Path(shell.cwd), shell.runtime.mcp_servers))
        heard = Heard()
        # Its first line names the session, so what was run comes last.
        attached = tuple(TextPart(f"\n\n{ran}") for ran in [shell.attached.peek()] if ran)
        if told := told_to_model(hints):
            attached = (*attached, TextPart(told))
        request = msgspec.structs.replace(shell.request, input=(UserMessage((*question.parts, *attached)),))
        stopped = await self._show(request, heard)
        self._keep(heard)
        if not heard.failed:  # else it goes along with the next try
            shell.attached.clear()
        return "" if stopped else heard.said

    async def show(self, request: TurnRequest, heard: Heard) -> None:
        await self._show(request, heard)

    async def _show(self, request: TurnRequest, heard: Heard) -> bool:
        """Whether it was stopped."""
        shell = self._shell
        asking = asyncio.ensure_future(self._answer(request, heard))
        shell.stop = asking.cancel
        with unechoed(), on_interrupt(asking.cancel):
            try:
                await asking
            except asyncio.CancelledError:
                if not asking.cancelled():
                    raise
                shell.output.note("stopped")
            finally:
                shell.stop = nothing
        return asking.cancelled()

    async def _answer(self, request: TurnRequest, heard: Heard) -> None:
        shell = self._shell
        view = self._make_view(shell)
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

    def _begin_naming(self) -> None:
        self._naming = asyncio.create_task(self._name_model())

    async def _name_model(self) -> None:
        """Once the prompt is drawn: all that a turn needs is loaded meanwhile, beside the keys that are typed."""
        await asyncio.to_thread(self._shell.runtime.load_for_turns)
        with suppress(AishError):
            await self._shell.look_up_model()


def _is_plain(runtime: Runtime) -> bool:
    env = runtime.surroundings.env
    return bool(env.get("NO_COLOR")) or env.get("TERM") in ("dumb", "")


def _history_file(runtime: Runtime) -> Path | None:
    store = runtime.config.store
    return Path(store.path).parent / "history" if store.enabled and store.path else None
