"""A plain prompt for Windows, where there is no live bash: a question per line, the answer below it.

Ctrl-C stops an answer, Ctrl-D leaves.
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from aish.engine.engine import Engine
from aish.errors import AishError
from aish.frontends.shell.prompt.line_reader import StdinReader
from aish.frontends.shell.render.event_printer import EventPrinter, print_turn
from aish.frontends.signals import is_stopped_alone, on_interrupt
from aish.frontends.terminal import Output
from aish.ports import Ask
from aish.types.messages import user
from aish.types.requests import TurnRequest

_HELP = ":quit leaves, :model NAME switches, :models lists, :new starts a new session, :help shows this"


async def chat(engine: Engine, request: TurnRequest, output: Output, reader: StdinReader, *, ask: Ask | None) -> int:
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # gives `input` line editing and history
    route = await engine.router.resolve(request.model)
    output.note(f"aish on {route.name}. {_HELP}")
    while (line := await _read_line(output, reader)) is not None:
        text = line.strip()
        if text in (":quit", ":q", ":exit"):
            break
        if text.startswith(":"):
            request = await _run_meta(engine, request, text, output)
        elif text:
            request = await _answer(engine, request, text, output, ask)
    return 0


async def _read_line(output: Output, reader: StdinReader) -> str | None:
    with on_interrupt(lambda: output.note("(Ctrl-D or :quit leaves)")):
        return await reader.read("aish> ")


async def _answer(engine: Engine, request: TurnRequest, text: str, output: Output, ask: Ask | None) -> TurnRequest:
    printer = EventPrinter(output)
    answering = asyncio.ensure_future(
        print_turn(engine, msgspec.structs.replace(request, input=(user(text),)), printer, ask)
    )
    with on_interrupt(answering.cancel):
        try:
            await answering
        except AishError as exc:
            output.note(f"aish: {exc.message}" + (f"\n  {exc.hint}" if exc.hint else ""))
        except asyncio.CancelledError:
            if not is_stopped_alone(answering):
                raise
            output.note("stopped")
    return msgspec.structs.replace(request, session=printer.session or request.session)


async def _run_meta(engine: Engine, request: TurnRequest, text: str, output: Output) -> TurnRequest:
    command, _, rest = text.partition(" ")
    try:
        match command:
            case ":model":
                route = await engine.router.resolve(rest.strip() or request.model)
                output.note(f"model: {route.name}")
                return msgspec.structs.replace(request, model=rest.strip() or request.model)
            case ":models":
                for info in await engine.router.list_models():
                    output.note(info.name)
            case ":new":
                return msgspec.structs.replace(request, session="")
            case ":help":
                output.note(_HELP)
            case _:
                output.note(f"unknown command {command}. {_HELP}")
    except AishError as exc:
        output.note(f"aish: {exc.message}" + (f"\n  {exc.hint}" if exc.hint else ""))
    return request
