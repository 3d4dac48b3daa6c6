"""The shell: one prompt for your bash and a model.

A line is read, goes where it belongs (`routing`), and the prompt is back. The terminal has one owner at a time: the
line editor while it reads, the live bash while a command runs, the answer while the model speaks. Ctrl-C stops what
runs, not the shell; Ctrl-D, `exit` and `:quit` leave.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from aish.engine.engine import Engine
from aish.errors import AishError, ProcessError
from aish.frontends.runtime import LiveShell, Runtime
from aish.frontends.shell.command_context import Attached
from aish.frontends.shell.error_text import error_text
from aish.frontends.shell.interrupts import on_interrupt, was_stopped
from aish.frontends.shell.prompt.editor import Prompt
from aish.frontends.shell.prompt.routing import Goal, Routed, route
from aish.frontends.shell.state import Shell, nothing
from aish.frontends.terminal import Output
from aish.tool_calls.detect.proposals import CONTRACT
from aish.types.live_shell import RunEnd, RunResult
from aish.types.requests import TurnRequest

if TYPE_CHECKING:
    from aish.autonomy.turn_summary import Heard
    from aish.frontends.shell.ask_model import Talking
    from aish.frontends.shell.render.event_printer import Narrator
    from aish.ports import Ask

_NOT_FOUND = 127
_REFRESH_S = 1.0
WHAT_WENT_WRONG = "What went wrong with the last command, and what would mend it?"

MakeAsk = Callable[[Shell], "Ask"]
MakeView = Callable[[Shell], "Narrator"]


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
            Attached(config.attach_max_chars),
            highlight=config.highlight,
            reasoning=config.reasoning,
        )
        return await _Repl(shell, ask, view, notices).loop()


def _told(runtime: Runtime, request: TurnRequest) -> str:
    presets = list(runtime.config.presets)
    others = ""
    if presets:
        from aish.frontends.shell.commands.delegate import contract

        others = contract(presets)
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
        plain = not sys.stdout.isatty() or _is_plain(shell.runtime)
        self._prompt = Prompt(shell, _history_file(shell.runtime), plain=plain)
        self._typed = ""
        self._warned_of_jobs = False
        shell.ask = self._prompt.ask
        shell.talk = self._talk
        shell.run = self.run
        shell.show = self._show
        shell.view = lambda: view(shell)
        self._naming: asyncio.Task[None] | None = None
        self._prompt.on_drawn = self._begin_naming

    async def loop(self) -> int:
        shell = self._shell
        try:
            with on_interrupt(nothing):  # between two lines
                await self._lines()
        finally:
            if self._naming is not None:
                self._naming.cancel()
        return (shell.live.exit_code or 0) if shell.live else 0

    async def _lines(self) -> None:
        shell = self._shell
        if shell.request.session:
            from aish.frontends.shell.commands.records import resumed

            await self._guarded(resumed(shell))
        while not shell.leaving:
            line = await self._read()
            if line is None:
                if self._may_leave():
                    break
            elif line:
                await self._take(line)

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
                from aish.frontends.shell.commands.registry import run_meta

                await self._guarded(run_meta(self._shell, routed.text))
            case Goal.SHELL | Goal.QUIET_SHELL:
                await self._guarded(self._run_typed(routed))
            case Goal.MODEL:
                await self._guarded(self._talk(routed.text or WHAT_WENT_WRONG))
            case Goal.NOTHING:
                pass

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Ctrl-C stops it, and what it raises is told. The shell with its jobs and variables is worth more than a line
        of it: it outlives a bug of ours."""
        doing = asyncio.ensure_future(work)
        note = self._shell.output.note
        try:
            with on_interrupt(doing.cancel):
                await doing
        except asyncio.CancelledError:
            if not was_stopped(doing):
                raise
            note("stopped")
        except AishError as exc:
            note(error_text(exc))
        except Exception as exc:
            note(f"aish: internal error: {type(exc).__name__}: {exc}\n  this is a bug in aish; the shell goes on")
            if sys.flags.dev_mode:
                traceback.print_exc()

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
        if routed.goal is Goal.SHELL and self._shell.runtime.config.shell.attach_output:
            self._shell.attached.add(result)
        if result.status == _NOT_FOUND and not routed.sure and len(routed.text.split()) > 1:
            answer_ = await self._prompt.ask("ask the model instead? [y/N] ")
            said = (answer_ or "").strip().lower()
            if said in ("y", "yes"):
                self._shell.attached.clear()
                await self._talk(routed.text)
            elif said not in ("", "n", "no"):  # the next line, by somebody who did not look
                self._typed = f"{answer_}\n{self._typed}"

    async def run(self, line: str, *, attach: bool, typed: bool = False) -> RunResult:
        before = self._shell.status
        result = await self._run(line)
        if not typed:
            self._shell.status = before
        if attach:
            self._shell.attached.add(result)
        return result

    async def _run(self, line: str) -> RunResult:
        shell = self._shell
        if shell.live is None:
            raise ProcessError("there is no live shell here", hint="ask the model, or use another terminal")
        terminal = sys.stdin.fileno() if sys.stdin.isatty() else None
        with self._notices.held(), on_interrupt(nothing):  # the program has the keys; what is run is not left half way
            result = await shell.live.run_user(line, terminal)
        if result.output and not result.output.endswith("\n") and not result.full_screen:
            shell.output.note("")  # the prompt is drawn from the edge, over what stands there
        shell.status = "" if result.status == 0 else f"[{result.status}]"
        self._typed = result.typed_ahead
        if result.end is RunEnd.EXITED:
            shell.leaving = True
        return result

    async def _talk(self, text: str) -> None:
        await self._talking.talk(text)

    async def _show(self, request: TurnRequest, heard: Heard) -> None:
        await self._talking.show(request, heard)

    @cached_property
    def _talking(self) -> Talking:
        from aish.frontends.shell.ask_model import Talking

        return Talking(self._shell, self._make_ask)

    def _begin_naming(self) -> None:
        self._naming = asyncio.create_task(self._name_model())

    async def _name_model(self) -> None:
        """Once the prompt is drawn: all that a turn needs is loaded meanwhile, beside the keys that are typed."""
        await asyncio.to_thread(self._shell.runtime.load_for_turns)
        with suppress(AishError):
            await self._shell.look_up_model()


def _is_plain(runtime: Runtime) -> bool:
    env = runtime.process_environment.env
    return bool(env.get("NO_COLOR")) or env.get("TERM") in ("dumb", "")


def _history_file(runtime: Runtime) -> Path | None:
    store = runtime.config.store
    return Path(store.path).parent / "history" if store.enabled and store.path else None
