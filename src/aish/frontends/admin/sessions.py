"""`aish sessions list|show|replay|search|export|delete`. (`resume` opens the shell.)"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime

from aish.engine.turn.transcript import record_from_events
from aish.errors import SessionNotFound, UsageError
from aish.frontends.runtime import Runtime
from aish.frontends.signals import run_until_done
from aish.frontends.terminal import visible
from aish.ports import Store
from aish.types.ids import OWN_SESSIONS
from aish.types.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from aish.types.records import SessionRecord, TurnRecord

_MAX_LISTED = 100_000
_HINT = "`aish sessions list` shows what there is"


def run(arguments: argparse.Namespace, runtime: Runtime) -> int:
    return run_until_done(_run(arguments, runtime.store, runtime.redacted))


async def _run(arguments: argparse.Namespace, store: Store, redacted: Callable[[str], str]) -> int:
    try:
        if arguments.action in ("list", "search"):
            return await _list(store, limit=arguments.limit, search=arguments.query)
        id = await _resolve(store, arguments.id)
        if arguments.action == "show":
            return await _show(store, id, redacted)
        action = {"replay": _replay, "export": _export, "delete": _delete}[arguments.action]
        return await action(store, id)
    finally:
        await store.aclose()


async def _list(store: Store, *, limit: int, search: str) -> int:
    if not 1 <= limit <= _MAX_LISTED:
        raise UsageError(f"--limit must be between 1 and {_MAX_LISTED}")
    sessions = await store.list_sessions(limit=limit, search=search)
    for session in sessions:
        print(_session_line(session))
    if not sessions:
        print("no sessions" if not search else f"no session holds {search!r}", file=sys.stderr)
    return 0


async def _show(store: Store, name: str, redacted: Callable[[str], str]) -> int:
    for turn in await _find_turns(store, name):
        if not turn.messages:  # it is unfinished, has no messages, or belongs to no session
            turn = record_from_events((await store.read_events(turn.id)).splitlines(), turn)
        for message in turn.messages or turn.input:
            print(visible(redacted(_message_text(message))))
        if turn.end is None or turn.end != "answered":
            print(f"[{turn.end or 'unfinished'}]")
        print()
    return 0


async def _replay(store: Store, name: str) -> int:
    """Prints the recorded bytes: exactly what `--json` printed when the turn ran."""
    turn = (await _find_turns(store, name))[-1]
    return await _print_events(store, turn)


async def _export(store: Store, name: str) -> int:
    for turn in await _find_turns(store, name):
        await _print_events(store, turn)
    return 0


async def _delete(store: Store, name: str) -> int:
    if not await store.delete_session(name):
        raise SessionNotFound(f"no session {name}", hint=_HINT)
    print(f"deleted {name}")
    return 0


async def _print_events(store: Store, turn: TurnRecord) -> int:
    sys.stdout.flush()
    sys.stdout.buffer.write(await store.read_events(turn.id))
    return 0


async def _resolve(store: Store, name: str) -> str:
    if name != "latest":
        return name
    sessions = await store.list_sessions(limit=1, under=OWN_SESSIONS)
    if not sessions:
        raise SessionNotFound("there are no sessions yet")
    return sessions[0].id


async def _find_turns(store: Store, name: str) -> list[TurnRecord]:
    """The turns of a session, or the turn with this id. Raises SessionNotFound."""
    if name.startswith("turn_"):
        turn = await store.find_turn(name)
        turns = [turn] if turn else []
    else:
        turns = list(await store.list_turns(name))
    if not turns:
        raise SessionNotFound(f"no session or turn {name}", hint=_HINT)
    return turns


def _session_line(session: SessionRecord) -> str:
    when = datetime.fromtimestamp(session.updated_ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    return visible(f"{session.id}  {when}  {session.turns:>3} turns  {session.model}  {session.title}")


def _message_text(message: Message) -> str:
    match message:
        case UserMessage():
            return f"> {message.text}"
        case AssistantMessage(text, calls):
            return "\n".join(filter(None, [text, *(f"→ {call.name} {call.arguments}" for call in calls)]))
        case ToolMessage(name=name):
            return f"← {name}: {message.text}"
        case SystemMessage(text):
            return f"[system] {text}"
