"""`aish sessions`, `aish memory` and `aish cost`: what the store has of earlier runs. (`resume` opens the shell.)"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from aish.engine.model.ledger import day_start_ms
from aish.engine.turn.events import record_from_events
from aish.errors import SessionNotFound, UsageError
from aish.frontends.memory_service import MAX_FACTS, MemoryService, short_id
from aish.frontends.runtime import Runtime
from aish.frontends.signals import run_until_done
from aish.frontends.spending_table import (
    By,
    chart_lines,
    format_calls,
    format_cost,
    group_spending,
    spending_lines,
    total_spending,
)
from aish.frontends.terminal import visible
from aish.ports import Store
from aish.types.ids import OWN_SESSIONS
from aish.types.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from aish.types.records import FactKind, SessionRecord, TurnRecord
from aish.types.usage import SpendingTotal

_MAX_LISTED = 100_000
_HINT = "`aish sessions list` shows what there is"
_MAX_BYTES = 64 * 1024 * 1024
_SPAN = re.compile(r"(\d{1,5})([dhw])")
_HOURS = {"h": 1, "d": 24, "w": 168}


def run_sessions(arguments: argparse.Namespace, runtime: Runtime) -> int:
    return run_until_done(_manage_sessions(arguments, runtime.store, runtime.redact_text))


async def _manage_sessions(arguments: argparse.Namespace, store: Store, redacted: Callable[[str], str]) -> int:
    try:
        if arguments.action in ("list", "search"):
            await _list_sessions(store, limit=arguments.limit, search=arguments.query, of_agents=arguments.agents)
            return 0
        name = await _resolve(store, arguments.id)
        match arguments.action:
            case "delete":
                await _delete(store, name)
            case "show":
                await _show(store, await _find_turns(store, name), redacted)
            case "replay":
                await _print_events(store, (await _find_turns(store, name))[-1:])
            case _:
                await _print_events(store, await _find_turns(store, name))
    finally:
        await store.aclose()
    return 0


async def _list_sessions(store: Store, *, limit: int, search: str, of_agents: bool) -> None:
    if not 1 <= limit <= _MAX_LISTED:
        raise UsageError(f"--limit must be between 1 and {_MAX_LISTED}")
    if of_agents:
        every = await store.list_sessions(limit=_MAX_LISTED, search=search, parent=None)
        sessions: Sequence[SessionRecord] = [session for session in every if session.parent][:limit]
    else:
        sessions = await store.list_sessions(limit=limit, search=search)
    for session in sessions:
        print(_session_line(session))
    if not sessions:
        print("no sessions" if not search else f"no session holds {search!r}", file=sys.stderr)


async def _show(store: Store, turns: Sequence[TurnRecord], redacted: Callable[[str], str]) -> None:
    for turn in turns:
        if not turn.messages:  # it is unfinished, has no messages, or belongs to no session
            turn = record_from_events((await store.read_events(turn.id)).splitlines(), turn)
        for message in turn.messages or turn.input:
            print(visible(redacted(_message_text(message))))
        if turn.end is None or turn.end != "answered":
            print(f"[{turn.end or 'unfinished'}]")
        print()


async def _delete(store: Store, name: str) -> None:
    if not await store.delete_session(name):
        raise SessionNotFound(f"no session {name}", hint=_HINT)
    print(f"deleted {name}")


async def _print_events(store: Store, turns: Sequence[TurnRecord]) -> None:
    """Prints the recorded bytes: exactly what `--json` printed when the turns ran."""
    sys.stdout.flush()
    for turn in turns:
        sys.stdout.buffer.write(await store.read_events(turn.id))


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
    of = f"  (called by {session.parent})" if session.parent else ""
    return visible(f"{session.id}  {when}  {session.turns:>3} turns  {session.model}  {session.title}{of}")


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


def run_memory(arguments: argparse.Namespace, runtime: Runtime) -> int:
    return run_until_done(_manage_memory(arguments, runtime))


async def _manage_memory(arguments: argparse.Namespace, runtime: Runtime) -> int:
    store = runtime.store
    memory = MemoryService(store, time.time_ns() // 1_000_000, runtime.redact_text)
    try:
        match arguments.action:
            case "add":
                fact = await memory.add(" ".join(arguments.text), FactKind(arguments.kind))
                print(f"[{short_id(fact)}] {visible(fact.text)}")
            case "forget":
                print(f"forgotten: {visible((await memory.forget(arguments.id)).text)}")
            case "import":
                print(f"{await memory.load(_read_lines(arguments.file))} imported")
            case "export":
                for line in await memory.dump():
                    sys.stdout.write(line.decode())
            case _:
                await _list_facts(store, " ".join(arguments.words_))
    finally:
        await store.aclose()
    return 0


async def _list_facts(store: Store, words: str) -> None:
    found = await (store.search_facts(words, limit=100) if words else store.list_facts(limit=MAX_FACTS))
    for fact in found:
        tags = "".join(f" #{tag}" for tag in fact.tags)
        print(f"[{short_id(fact)}] {fact.kind:<10} {visible(fact.text)}{tags}")
    if not found:
        print(
            "nothing is remembered" if not words else f"nothing remembered has a word of {words[:80]!r}",
            file=sys.stderr,
        )


def _read_lines(name: str) -> list[bytes]:
    try:
        with nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as exc:
        raise UsageError(f"{name} cannot be read: {exc.strerror or exc}") from exc
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{name} is larger than {_MAX_BYTES >> 20} MiB")
    return data.splitlines()


def run_cost(arguments: argparse.Namespace, runtime: Runtime) -> int:
    by = _parse_fields(arguments.by)
    since_ms = _parse_since(arguments.since)
    return run_until_done(_show_cost(runtime.store, arguments, by, since_ms))


async def _show_cost(store: Store, arguments: argparse.Namespace, by: tuple[By, ...], since_ms: int) -> int:
    try:
        rows = await store.list_spent(since_ms=since_ms, session=arguments.session or None)
    finally:
        await store.aclose()
    groups = group_spending(rows, by)
    if arguments.json:
        for key, spent in groups.items():
            print(json.dumps({**dict(zip(by, key, strict=True)), **_json_fields(spent)}))
        return 0
    if not groups:
        print("no calls are recorded", file=sys.stderr)
        return 0
    for line in spending_lines(groups, by):
        print(line)
    if bars := chart_lines(group_spending(rows, by[:1])):
        print("", *bars, sep="\n")
    whole = total_spending(rows)
    tokens = f"{whole.prompt_tokens} tokens in, {whole.completion_tokens} out"
    print(f"\n{format_calls(whole)}, {tokens}; cost {format_cost(whole)}")
    return 0


def _json_fields(spent: SpendingTotal) -> dict[str, object]:
    """`cost` is null if the cost of no call is known; `unknown` counts the calls that it does not include."""
    fields = msgspec.structs.asdict(spent)
    if spent.calls and spent.unknown == spent.calls:
        fields["cost"] = None
    return fields


def _parse_fields(text: str) -> tuple[By, ...]:
    known: dict[str, By] = {"day": "day", "model": "model", "category": "category"}
    wanted = [field.strip() for field in text.split(",") if field.strip()]
    if not wanted or any(field not in known for field in wanted):
        raise UsageError(f"--by {text!r} is not known", hint="day, model and category, with commas between them")
    return tuple(dict.fromkeys(known[field] for field in wanted))


def _parse_since(text: str) -> int:
    if not text:
        return 0
    if span := _SPAN.fullmatch(text):
        return int((time.time() - int(span[1]) * _HOURS[span[2]] * 3600) * 1000)
    now_ms = time.time_ns() // 1_000_000
    try:
        return day_start_ms(now_ms) if text == "today" else int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):  # no date, or one out of range
        raise UsageError(f"--since {text!r} is no time", hint="for example 7d, 12h, today or 2026-11-01") from None
