"""The interactive loop: reads a line, sends it where it belongs (`prompt.routing`), and draws the prompt again.

Ctrl-C stops what runs, not the shell; Ctrl-D, `exit` and `:quit` leave.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec

from aish.engine.engine import Engine
from aish.errors import AishError, ProcessError
from aish.frontends.runtime import LiveShell, Runtime
from aish.frontends.shell.prompt.editor import LineEditor
from aish.frontends.shell.prompt.history import PromptHistory
from aish.frontends.shell.prompt.routing import Destination, KnownNames, RoutedLine, route_line
from aish.frontends.shell.shell import Notices, Shell, do_nothing, format_error
from aish.frontends.signals import is_stopped_alone, on_interrupt
from aish.frontends.terminal import Output, is_interactive
from aish.tool_calls.detect.proposals import CONTRACT
from aish.types.requests import TurnRequest

_NOT_FOUND = 127
_REFRESH_S = 1.0
# How the model asks one of the other models; `ask_model` finds these lines.
_DELEGATION_RULES = (
    "To ask another model, write one line: DELEGATE: NAME QUESTION. Its answer comes back to you. The names are {}."
)
WHAT_WENT_WRONG = "What went wrong with the last command, and what would fix it?"


async def run_shell(
    engine: Engine, runtime: Runtime, request: TurnRequest, output: Output, *, approves_all: bool, typed: str = ""
) -> int:
    """`typed` stands at the first prompt."""
    notices = Notices(output)
    async with AsyncExitStack() as stack:
        shell = Shell(
            engine,
            runtime,
            output,
            msgspec.structs.replace(request, system=_system_text(runtime, request)),
            live=await _open_live(stack, runtime, notices),
            notices=notices,
            approves_all=approves_all,
            make_editor=_make_editor,
            history=_open_history(runtime),
        )
        shell.type_ahead(typed)
        if is_interactive() and shell.history.create():
            from aish.frontends.shell.setup import show_welcome

            await show_welcome(engine, request.model or runtime.config.model, output)
        return await _Repl(shell).run()


def _system_text(runtime: Runtime, request: TurnRequest) -> str:
    names = ", ".join(runtime.config.presets)
    return "\n\n".join(filter(None, (CONTRACT, names and _DELEGATION_RULES.format(names), request.system)))


async def _open_live(stack: AsyncExitStack, runtime: Runtime, notices: Notices) -> LiveShell | None:
    def show(data: bytes) -> None:
        sys.stdout.write(data.decode("utf-8", "replace"))
        sys.stdout.flush()

    try:
        return await stack.enter_async_context(runtime.live_shell(on_output=show, on_notice=notices.show))
    except (ImportError, ProcessError) as exc:
        notices.show(f"there is no live shell here ({exc}); every line goes to the model")
        return None


def _make_editor(shell: Shell) -> LineEditor:
    env = shell.runtime.launch_context.env
    plain = not sys.stdout.isatty() or env.get("TERM") in ("dumb", "")
    return LineEditor(shell, shell.history, plain=plain)


def _open_history(runtime: Runtime) -> PromptHistory:
    store = runtime.config.store
    if not store.enabled or not store.path:
        return PromptHistory(None)
    folder = Path(store.path).parent
    history = PromptHistory(folder / "history.jsonl")
    history.import_old_file(folder / "history")
    return history


class _Repl:
    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._has_warned_of_jobs = False

    async def run(self) -> int:
        shell = self._shell
        try:
            with on_interrupt(do_nothing):  # between two lines
                await self._handle_lines()
        finally:
            shell.close()
        return (shell.live.exit_code or 0) if shell.live else 0

    async def _handle_lines(self) -> None:
        shell = self._shell
        if shell.request.session:
            from aish.frontends.shell.commands.conversation import show_session

            await self._run_guarded(show_session(shell))
        while not shell.is_leaving:
            try:
                line = await shell.read_line()
            except KeyboardInterrupt:
                continue
            if line is None:
                if self._may_leave():
                    break
            elif line:
                await self._handle(line)

    def _may_leave(self) -> bool:
        """Whether no jobs would end with the shell, or the user was warned of them."""
        live = self._shell.live
        if live is not None and live.jobs and not self._has_warned_of_jobs:
            self._has_warned_of_jobs = True
            jobs = "is 1 job" if live.jobs == 1 else f"are {live.jobs} jobs"
            self._shell.output.note(f"there {jobs}; once more to leave all the same")
            return False
        return True

    async def _handle(self, line: str) -> None:
        self._has_warned_of_jobs = False
        routed: RoutedLine | None = await self._route(line)
        if routed is not None and routed.unknown:
            from aish.frontends.shell.command_not_found import answer_unknown

            routed = await answer_unknown(self._shell, routed)
        if routed is None:
            self._shell.keep_line(line)
        else:
            await self._follow(routed, line)

    async def _follow(self, routed: RoutedLine, line: str) -> None:
        if routed.destination not in (Destination.SHELL, Destination.QUIET_SHELL):
            self._shell.keep_line(line)
        match routed.destination:
            case Destination.META:
                await self._run_guarded(self._run_meta(routed.text))
            case Destination.SHELL | Destination.QUIET_SHELL:
                await self._run_guarded(self._run_typed(routed, line))
            case Destination.MODEL:
                await self._run_guarded(self._ask_model(routed.text or WHAT_WENT_WRONG))
            case Destination.NOTHING:
                pass

    async def _run_guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Ctrl-C stops the work, and its errors are printed. A bug in one line must not end the shell, whose jobs and
        variables would be lost."""
        doing = asyncio.ensure_future(work)
        note = self._shell.output.note
        try:
            with on_interrupt(doing.cancel):
                await doing
        except asyncio.CancelledError:
            if not is_stopped_alone(doing):
                raise
            note("stopped")
        except AishError as exc:
            note(format_error(exc))
        except Exception as exc:
            note(f"aish: internal error: {type(exc).__name__}: {exc}\n  this is a bug in aish; the shell goes on")
            if sys.flags.dev_mode:
                traceback.print_exc()

    async def _route(self, line: str) -> RoutedLine:
        """Routes a line, and once more after a refresh: the last command may have defined a word that is not known."""
        live = self._shell.live
        known = KnownNames.of(live, self._shell.skill_names)
        routed = route_line(line, known)
        is_known = routed.destination is not Destination.MODEL and not routed.unknown
        if live is None or is_known or routed.is_explicit:
            return routed
        with suppress(ProcessError):
            await live.refresh(_REFRESH_S)
        return route_line(line, known)

    async def _run_typed(self, routed: RoutedLine, line: str) -> None:
        shell = self._shell
        if not routed.text:
            return
        attach = routed.destination is Destination.SHELL and shell.runtime.config.shell.attach_output
        result = await shell.run_line(routed.text, attach=attach, typed=True)
        is_marked = routed.is_explicit and result.line == routed.text and line.strip() != routed.text.strip()
        shell.keep_command(result, line if is_marked else "")
        if result.status == _NOT_FOUND and not routed.is_explicit and len(routed.text.split()) > 1:
            typed = await shell.read("ask the model instead? [y/N] ")
            answer = (typed or "").strip().lower()
            if answer in ("y", "yes"):
                shell.command_context.clear()
                await self._ask_model(routed.text)
            elif answer not in ("", "n", "no"):  # the user has typed the next line and not read the question
                shell.type_ahead(f"{typed}\n")

    async def _run_meta(self, text: str) -> None:
        from aish.frontends.shell.commands.registry import needs_workspace, run_meta

        if needs_workspace(text):
            await self._follow_user()
        await run_meta(self._shell, text)

    async def _follow_user(self) -> None:
        """Only a line of the user moves the workspace: a model's `cd` does not move the shell."""
        from aish.frontends.shell.commands.workspace import follow_user

        await follow_user(self._shell)

    async def _ask_model(self, text: str) -> None:
        from aish.frontends.shell.ask_model import ask_model  # not before the first question

        await self._follow_user()
        await ask_model(self._shell, text)
