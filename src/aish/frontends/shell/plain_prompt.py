"""A plain prompt: a question a line, the answer below it. Ctrl-C stops an answer, Ctrl-D leaves."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from aish.engine.engine import Engine
from aish.errors import AishError
from aish.frontends.shell.interrupts import on_interrupt, was_stopped
from aish.frontends.shell.prompt.line_reader import LineSource
from aish.frontends.shell.render.event_printer import Narrator
from aish.frontends.shell.render.turn_printer import answer
from aish.frontends.terminal import Output
from aish.ports import Ask
from aish.types.messages import user
from aish.types.requests import TurnRequest

_HELP = ":quit leaves, :model NAME switches, :models lists, :new starts a new session, :help shows this"


async def chat(engine: Engine, first: TurnRequest, output: Output, lines: LineSource, *, ask: Ask | None) -> int:
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # gives `input` line editing and history
    request = first
    route = await engine.router.resolve(request.model)
    output.note(f"aish on {route.name}. {_HELP}")
    while (line := await _next_line(output, lines)) is not None:
        text = line.strip()
        if text in (":quit", ":q", ":exit"):
            break
        if text.startswith(":"):
            request = await _meta(engine, request, text, output)
        elif text:
            request = await _turn(engine, request, text, output, ask)
    return 0


async def _next_line(output: Output, lines: LineSource) -> str | None:
    with on_interrupt(lambda: output.note("(Ctrl-D or :quit leaves)")):
        return await lines.read("aish> ")


async def _turn(engine: Engine, request: TurnRequest, text: str, output: Output, ask: Ask | None) -> TurnRequest:
    narrator = Narrator(output)
    answering = asyncio.ensure_future(
        answer(engine, msgspec.structs.replace(request, input=(user(text),)), narrator, ask)
    )
    with on_interrupt(answering.cancel):
        try:
            await answering
        except AishError as exc:
            output.note(f"aish: {exc.message}" + (f"\n  {exc.hint}" if exc.hint else ""))
        except asyncio.CancelledError:
            if not was_stopped(answering):
                raise
            output.note("stopped")
    return msgspec.structs.replace(request, session=narrator.session or request.session)


async def _meta(engine: Engine, request: TurnRequest, text: str, output: Output) -> TurnRequest:
    command, _, rest = text.partition(" ")
    try:
        match command:
            case ":model":
                route = await engine.router.resolve(rest.strip() or request.model)
                if not rest.strip():
                    output.note(f"model: {route.name}")
                    return request
                output.note(f"model: {route.name}")
                return msgspec.structs.replace(request, model=rest.strip())
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
