"""Answers one question from the command line, on stdout and with an exit code for scripts; without one, opens the
shell."""

from __future__ import annotations

import argparse
import select
import sys
from typing import TYPE_CHECKING

import msgspec

from aish.errors import SessionNotFound, UsageError
from aish.frontends.runtime import Runtime, find_entries
from aish.frontends.shell.prompt.line_reader import StdinReader
from aish.frontends.shell.render.styles import display_for, make_output
from aish.frontends.signals import run_until_done
from aish.frontends.terminal import Output, is_interactive
from aish.types.decisions import Mode
from aish.types.ids import OWN_SESSIONS
from aish.types.messages import TextPart, UserMessage, text_of, user
from aish.types.requests import TurnLimits, TurnRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aish.config.instructions import InstructionFile
    from aish.config.prompt_files import PromptFile
    from aish.engine.engine import Engine
    from aish.ports import Store
    from aish.types.live_shell import CommandHint

# More than any model's window; a larger pipe is a mistake.
MAX_STDIN_BYTES = 4 * 1024 * 1024
SAMPLE_QUESTION = "What is the capital of France?"
# Started without a terminal by `make run`: how long a question may take to begin to arrive.
_SAMPLE_WAIT_S = 2.0


class _Question(msgspec.Struct, frozen=True):
    """The words of the command line, then the text from stdin. Either may be empty."""

    words: str
    piped: str

    @property
    def text(self) -> str:
        return "\n\n".join(part for part in (self.words, self.piped) if part)


def run(arguments: argparse.Namespace, runtime: Runtime) -> int:
    question = _read_question(arguments)
    if not question.text and not is_interactive():
        raise UsageError("nothing to ask: no question given and nothing piped in", hint='try: aish "a question"')
    return run_until_done(_run(arguments, runtime, question))


async def _run(arguments: argparse.Namespace, runtime: Runtime, question: _Question) -> int:
    output = make_output(runtime.launch_context.env)
    reader = StdinReader()
    if not question.text and (any(file.ignored for file in runtime.loaded.files) or _has_untrusted(runtime)):
        from aish.frontends.shell.setup import ask_about_project

        runtime = await ask_about_project(runtime, output, reader)
    for notice in (*runtime.notices, *_instruction_notices(runtime)):
        output.note(f"· {notice}")
    question, prompt = _expand_prompt_file(runtime, question)
    async with runtime.engine() as engine:
        if question.words:
            expanded = await _run_own_command(runtime, question, output)
            if expanded is None:
                return 0
            question = expanded
        request = await _make_request(arguments, runtime, question.text)
        if prompt is not None:
            from aish.frontends.shell.commands.own_commands import narrow_to_prompt

            request = narrow_to_prompt(request, prompt)
        typed = ""
        if is_interactive():
            from aish.frontends.shell.setup import ensure_model

            typed = await ensure_model(engine, runtime, request.model, output, reader)
        if not question.text:
            return await _interact(arguments, engine, runtime, request, output, reader, typed)
        return await _answer(arguments, engine, runtime, request, question, output, reader)


async def _run_own_command(runtime: Runtime, question: _Question, output: Output) -> _Question | None:
    """Runs the command of a Python extension that the question begins with, and prints its text. Returns what is to be
    asked then, None if nothing is. Raises ToolError."""
    name, _, rest = question.words.partition(" ")
    for problem in await runtime.extensions.refresh():
        output.note(f"· {problem}")
    if name.removeprefix(":") not in runtime.extensions.commands:
        return question
    folder = str(runtime.launch_context.cwd)
    found = await runtime.extensions.run_command(name.removeprefix(":"), rest.strip(), folder)
    if found.text:
        output.answer(found.text.rstrip("\n") + "\n")
    return _Question(found.prompt, question.piped) if found.prompt else None


def _has_untrusted(runtime: Runtime) -> bool:
    """Whether the project has files for models that the user has not decided about."""
    return any(file.state == "untrusted" for file in _files_for_models(runtime))


def _instruction_notices(runtime: Runtime) -> Iterator[str]:
    for file in _files_for_models(runtime):
        if file.problem:
            yield f"{file.path} {file.problem}; it is ignored"
        elif file.state == "untrusted":
            yield f"{file.path} is ignored until you trust it: `aish config trust`"
    if prompts := runtime.prompt_files():
        from aish.frontends.shell.commands.registry import is_built_in  # few have prompt files

        yield from (f"{one.file.path} is not used: :{one.name} is built in" for one in prompts if is_built_in(one.name))


def _files_for_models(runtime: Runtime) -> Sequence[InstructionFile]:
    if not runtime.config.context.environment:
        return ()
    tools = (tool.file for tool in runtime.extensions.tool_files())
    return *runtime.instruction_files(), *(entry.file for _, entry in find_entries(runtime)), *tools


async def _answer(
    arguments: argparse.Namespace,
    engine: Engine,
    runtime: Runtime,
    request: TurnRequest,
    question: _Question,
    output: Output,
    reader: StdinReader,
) -> int:
    """Answers one question."""
    from aish.frontends.shell.approvals.consent import make_consent
    from aish.frontends.shell.command_hints import hint_lines
    from aish.frontends.shell.render.event_printer import JsonEventPrinter, print_turn, printer_for
    from aish.frontends.shell.setup import wait_for_tools

    hints = () if arguments.json else await _find_hints(runtime, question)
    if any(hint.here for hint in hints) and (await engine.router.resolve(request.model)).info.is_weak:
        for line in hint_lines(hints):  # a small model invents command lines; these are known to work here
            output.line(line)
        return 0
    await wait_for_tools(runtime, output)
    request = msgspec.structs.replace(request, input=(await _make_message(runtime, question, hints),))
    display = display_for(output.out, runtime.launch_context.env)
    request = msgspec.structs.replace(request, live_output=display.live or arguments.json)
    printer = JsonEventPrinter(output) if arguments.json else printer_for(output, display)
    ask = make_consent(output, reader, runtime.launch_context.env, yes=arguments.yes)
    await print_turn(engine, request, printer, ask)
    return printer.exit_code


def _expand_prompt_file(runtime: Runtime, question: _Question) -> tuple[_Question, PromptFile | None]:
    """What the prompt file asks, if the question is `:NAME ARGUMENTS`."""
    if not question.words.startswith(":"):
        return question, None
    from aish.frontends.shell.commands.own_commands import find_prompt

    found = find_prompt(runtime, question.words)
    return (question, None) if found is None else (_Question(found[1], question.piped), found[0])


async def _make_message(runtime: Runtime, question: _Question, hints: Sequence[CommandHint]) -> UserMessage:
    """Expands the mentions in the words of the question, but not those in piped text: a diff is full of @, and its
    author must not choose which files are sent."""
    from aish.frontends.shell.command_hints import hints_for_model

    if "@" not in question.words and not question.words.startswith("/"):
        return UserMessage((TextPart(question.text + hints_for_model(hints)),))
    from aish.frontends.mentions import MentionScope, expand_mentions

    scope = MentionScope.of(runtime, runtime.launch_context.cwd, question.words)
    expanded = await expand_mentions(question.words, scope)
    text = _Question(text_of(expanded.parts[:1]), question.piped).text
    return UserMessage((TextPart(text + hints_for_model(hints)), *expanded.parts[1:]))


async def _find_hints(runtime: Runtime, question: _Question) -> Sequence[CommandHint]:
    """Hints for a question that asks for a command, and not about piped text."""
    from aish.frontends.shell.command_hints import is_clear_command_question

    asks_for_command = not question.piped and is_clear_command_question(question.words)
    return await runtime.find_commands(question.words) if asks_for_command else ()


async def _interact(
    arguments: argparse.Namespace,
    engine: Engine,
    runtime: Runtime,
    request: TurnRequest,
    output: Output,
    reader: StdinReader,
    typed: str,
) -> int:
    """Opens the shell, with `typed` at its prompt; on Windows a plain prompt."""
    if sys.platform == "win32":
        from aish.frontends.shell.approvals.consent import make_consent
        from aish.frontends.shell.plain_prompt import chat

        ask = make_consent(output, reader, runtime.launch_context.env, yes=arguments.yes)
        return await chat(engine, request, output, reader, ask=ask)
    from aish.frontends.shell.repl import run_shell

    return await run_shell(engine, runtime, request, output, approves_all=arguments.yes, typed=typed)


async def _make_request(arguments: argparse.Namespace, runtime: Runtime, question: str) -> TurnRequest:
    return TurnRequest(
        input=(user(question),),
        model=arguments.model,
        session=await _find_session(arguments, runtime),
        system=arguments.system,
        tools=_tool_globs(arguments, runtime),
        limits=_limits(arguments, runtime),
        mode=Mode(arguments.mode) if arguments.mode else runtime.config.gate.mode,
        memory=runtime.config.memory.inject,
        project=runtime.config.context.project_tree,
        environment=runtime.config.context.environment,
    )


async def _find_session(arguments: argparse.Namespace, runtime: Runtime) -> str:
    """The session to continue; "" begins a new one."""
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
    """Fails before a prompt is drawn at which every question would fail."""
    if await store.find_session(session) is None:
        raise SessionNotFound(f"no session {session}", hint="`aish sessions list` shows what there is")


def _tool_globs(arguments: argparse.Namespace, runtime: Runtime) -> tuple[str, ...]:
    if arguments.tools is None:
        return runtime.config.tools.offer
    return tuple(glob for glob in arguments.tools if glob != "none")


def _limits(arguments: argparse.Namespace, runtime: Runtime) -> TurnLimits:
    limits = runtime.config.limits.limits()
    if arguments.max_steps is None:
        return limits
    if arguments.max_steps < 1:
        raise UsageError("--max-steps must be at least 1")
    return msgspec.structs.replace(limits, max_steps=arguments.max_steps)


def _read_question(arguments: argparse.Namespace) -> _Question:
    words = " ".join(word for word in arguments.question if word != "-").strip()
    words = words.encode("utf-8", "replace").decode()  # a word that is not UTF-8 arrives as lone surrogates
    piped = "" if sys.stdin is None or sys.stdin.isatty() else _read_stdin(arguments)
    if arguments.sample and not words and not piped.strip() and not is_interactive():
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
