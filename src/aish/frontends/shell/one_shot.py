"""One-shot use: a question from the command line, its answer on stdout, an exit code for scripts."""

from __future__ import annotations

import argparse
import select
import sys
from typing import TYPE_CHECKING

import msgspec

from aish.errors import SessionNotFound, UsageError
from aish.frontends.runtime import Runtime
from aish.frontends.shell.prompt.line_reader import LineSource
from aish.frontends.shell.render.styles import look_for
from aish.frontends.signals import run_until_done
from aish.frontends.terminal import Output, has_person
from aish.types.ids import OWN_SESSIONS
from aish.types.limits import Limits
from aish.types.messages import TextPart, UserMessage, text_of, user
from aish.types.requests import TurnRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aish.engine.engine import Engine
    from aish.frontends.shell.render.event_printer import Narrator
    from aish.frontends.shell.state import Shell
    from aish.ports import Ask, Store
    from aish.types.command_hints import CommandHint

# More than any model's window; a larger pipe is a mistake.
MAX_STDIN_BYTES = 4 * 1024 * 1024
SAMPLE_QUESTION = "What is the capital of France?"
# Started without a terminal by `make run`: how long a question may take to begin to arrive.
_SAMPLE_WAIT_S = 2.0


class _Question(msgspec.Struct, frozen=True):
    """The words given, then what is piped in. Either may be missing."""

    words: str
    piped: str

    @property
    def whole(self) -> str:
        return "\n\n".join(part for part in (self.words, self.piped) if part)


def run(arguments: argparse.Namespace, runtime: Runtime) -> int:
    question = _question(arguments)
    if not question.whole and not has_person():
        raise UsageError("nothing to ask: no question given and nothing piped in", hint='try: aish "a question"')
    return run_until_done(_run(arguments, runtime, question))


async def _run(arguments: argparse.Namespace, runtime: Runtime, question: _Question) -> int:
    env = runtime.process_environment.env
    around = look_for(sys.stderr, env)
    output = Output(color=around.styled, live=around.live)
    lines = LineSource()
    if not question.whole and any(file.ignored for file in runtime.loaded.files):
        from aish.frontends.shell.approvals.project_trust import ask_about_project

        runtime = await ask_about_project(runtime, output, lines)
    for notice in runtime.notices:
        output.note(f"· {notice}")
    async with runtime.engine() as engine:
        request = await _request(arguments, runtime, question.whole)
        await _ensure_model(engine, runtime, request.model, output, lines)
        if not question.whole:
            return await _interact(arguments, engine, runtime, request, output, lines)
        return await _answer(arguments, engine, runtime, request, question, output, lines)


async def _ensure_model(engine: Engine, runtime: Runtime, model: str, output: Output, lines: LineSource) -> None:
    """Where somebody can be asked whether to fetch one."""
    if has_person():
        from aish.frontends.shell.first_use import ensure_model

        await ensure_model(engine, runtime, model, output, lines)


async def _answer(
    arguments: argparse.Namespace,
    engine: Engine,
    runtime: Runtime,
    request: TurnRequest,
    question: _Question,
    output: Output,
    lines: LineSource,
) -> int:
    """One question."""
    from aish.frontends.shell.approvals.consent import consent_for
    from aish.frontends.shell.command_hints import runnable, shown
    from aish.frontends.shell.mcp_wait import await_tools
    from aish.frontends.shell.render.event_printer import JsonNarrator, narrator_for
    from aish.frontends.shell.render.turn_printer import answer

    hints = () if arguments.json else await _hints(runtime, question)
    if runnable(hints) and (await engine.router.resolve(request.model)).info.is_weak:
        for line in shown(hints):  # a small model makes lines up; these are known to work here
            output.line(line)
        return 0
    await await_tools(runtime, output)
    request = msgspec.structs.replace(request, input=(await _message(runtime, question, hints),))
    look = look_for(output.out, runtime.process_environment.env)
    narrator = JsonNarrator(output) if arguments.json else narrator_for(output, look)
    await answer(engine, request, narrator, consent_for(output, lines, yes=arguments.yes))
    return narrator.exit_code


async def _message(runtime: Runtime, question: _Question, hints: Sequence[CommandHint]) -> UserMessage:
    """The question with what its own words mention. What is piped in is data: a diff is full of @, and whoever wrote it
    is not to choose which files go along."""
    from aish.frontends.mentions import Places, expand
    from aish.frontends.shell.command_hints import told_to_model

    mentioned = await expand(question.words, Places(runtime.process_environment.cwd, runtime.mcp_servers))
    asked = _Question(text_of(mentioned.parts[:1]), question.piped).whole
    return UserMessage((TextPart(asked + told_to_model(hints)), *mentioned.parts[1:]))


async def _hints(runtime: Runtime, question: _Question) -> Sequence[CommandHint]:
    """What this machine has for a question that asks for a command, and not about what is piped in."""
    from aish.frontends.shell.command_hints import surely_asks_for_command

    asks = not question.piped and surely_asks_for_command(question.words)
    return await runtime.find_commands(question.words) if asks else ()


async def _interact(
    arguments: argparse.Namespace,
    engine: Engine,
    runtime: Runtime,
    request: TurnRequest,
    output: Output,
    lines: LineSource,
) -> int:
    """The shell; where there can be none, a plain prompt."""
    if sys.platform == "win32":
        from aish.frontends.shell.approvals.consent import consent_for
        from aish.frontends.shell.plain_prompt import chat

        return await chat(engine, request, output, lines, ask=consent_for(output, lines, yes=arguments.yes))
    from aish.frontends.shell.repl import run_shell

    env = runtime.process_environment.env

    def ask(shell: Shell) -> Ask:
        from aish.frontends.shell.approvals.consent import TerminalConsent, always_yes

        return always_yes if arguments.yes else TerminalConsent(output, shell)

    def view(shell: Shell) -> Narrator:
        from aish.frontends.shell.render.event_printer import narrator_for

        return narrator_for(output, look_for(output.out, env, highlight=shell.highlight, reasoning=shell.reasoning))

    return await run_shell(engine, runtime, request, output, ask=ask, view=view)


async def _request(arguments: argparse.Namespace, runtime: Runtime, question: str) -> TurnRequest:
    return TurnRequest(
        input=(user(question),),
        model=arguments.model,
        session=await _session(arguments, runtime),
        system=arguments.system,
        tools=_tools(arguments, runtime),
        limits=_limits(arguments, runtime),
        memory=runtime.config.memory.inject,
        project=runtime.config.context.project_tree,
    )


async def _session(arguments: argparse.Namespace, runtime: Runtime) -> str:
    """The one to go on with; "" is a new one."""
    if arguments.session:
        await _check_session(runtime.store, arguments.session)
        return str(arguments.session)
    if not arguments.resume:
        return ""
    sessions = await runtime.store.list_sessions(limit=1, under=OWN_SESSIONS)
    if not sessions:
        raise UsageError("there is no session to go on with", hint="leave out --continue to start one")
    return sessions[0].id


async def _check_session(store: Store, session: str) -> None:
    """A prompt would else be drawn whose every question fails."""
    if await store.find_session(session) is None:
        raise SessionNotFound(f"no session {session}", hint="`aish sessions list` shows what there is")


def _tools(arguments: argparse.Namespace, runtime: Runtime) -> tuple[str, ...]:
    if arguments.tools is None:
        return runtime.config.tools.offer
    return tuple(glob for glob in arguments.tools if glob != "none")


def _limits(arguments: argparse.Namespace, runtime: Runtime) -> Limits:
    limits = runtime.config.limits.limits()
    if arguments.max_steps is None:
        return limits
    if arguments.max_steps < 1:
        raise UsageError("--max-steps must be at least 1")
    return Limits(**{**{f: getattr(limits, f) for f in limits.__struct_fields__}, "max_steps": arguments.max_steps})


def _question(arguments: argparse.Namespace) -> _Question:
    words = " ".join(word for word in arguments.question if word != "-").strip()
    words = words.encode("utf-8", "replace").decode()  # a word that is not UTF-8 arrives as lone surrogates
    piped = "" if sys.stdin is None or sys.stdin.isatty() else _read_stdin(arguments)
    if arguments.sample and not words and not piped.strip() and not has_person():
        return _Question(SAMPLE_QUESTION, "")
    return _Question(words, piped.strip("\n") if piped.strip() else "")


def _read_stdin(arguments: argparse.Namespace) -> str:
    if arguments.sample and not select.select([sys.stdin], [], [], _SAMPLE_WAIT_S)[0]:
        return ""
    data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    if len(data) > MAX_STDIN_BYTES:
        raise UsageError(
            f"what is piped in is larger than {MAX_STDIN_BYTES // 1024 // 1024} MiB, more than any model can read",
            hint="pipe in the part that matters, for instance with head or grep",
        )
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")
