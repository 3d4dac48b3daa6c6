"""Rules and row formats that all adapters share."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from aish.errors import SessionNotFound, StoreError
from aish.storage.texts import title_of
from aish.types.events import TurnEnd
from aish.types.facts import Fact, FactKind
from aish.types.messages import Message
from aish.types.records import Document, SessionRecord, TurnRecord
from aish.types.runs import RunKind, RunRecord, RunState, StepRecord, StepState
from aish.types.usage import Reservation, Usage, UsageRecord

SUMMARY = "summary"  # the kind of the document that summarises a session, under its id; deleted with the session

RUNNING = "running"  # the state of a turn without an end

messages_decoder = msgspec.json.Decoder(tuple[Message, ...])
_usage_decoder = msgspec.json.Decoder(Usage)
_tags_decoder = msgspec.json.Decoder(tuple[str, ...])

# A lease that ends later than this was written before the clock was set back.
_LONGEST_LEASE_MS = 600_000


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


def session_with_turn(session: SessionRecord, turn: TurnRecord, number: int) -> SessionRecord:
    return msgspec.structs.replace(
        session,
        updated_ms=max(session.updated_ms, turn.started_ms),
        title=session.title or title_of(turn.input),
        model=turn.model or session.model,
        turns=number,
    )


def turn_of(row: Sequence[Any]) -> TurnRecord:
    id_, session, number, model, started_ms, input_, state, finished_ms, messages, usage, owner = row
    return TurnRecord(
        id=id_,
        session=session,
        number=number if session else 0,
        model=model,
        started_ms=started_ms,
        input=messages_decoder.decode(input_),
        end=None if state == RUNNING else TurnEnd(state),
        finished_ms=finished_ms,
        messages=() if messages is None else messages_decoder.decode(messages),
        usage=Usage() if usage is None else _usage_decoder.decode(usage),
        owner=owner,
    )


def events_after(rows: Iterable[tuple[int, bytes]], after_seq: int) -> bytes:
    """The lines of these rows after `after_seq`. Each line has one number."""
    return b"".join(_skip_lines(body, after_seq - first_seq + 1) for first_seq, body in rows)


def _skip_lines(body: bytes, count: int) -> bytes:
    start = 0
    for _ in range(count):
        start = body.index(b"\n", start) + 1
    return body[start:]


def lease_is_over(run: RunRecord, now_ms: int, dead: str) -> bool:
    """Whether the run may be taken over. `dead` is an owner that is known to be gone."""
    if not run.owner or run.owner == dead:
        return True
    return not now_ms < run.lease_ms <= now_ms + _LONGEST_LEASE_MS


# Usage is summed up by quarters of an hour. Every time zone is some quarters away from UTC, so sums of days stay right.
QUARTER_MS = 900_000


def quarter_of(at_ms: int) -> tuple[int, int]:
    """The beginning and the end of the quarter of an hour."""
    start_ms = at_ms - at_ms % QUARTER_MS
    return start_ms, start_ms + QUARTER_MS


def usage_row(record: UsageRecord) -> tuple[str | int | float | None, ...]:
    """The columns id, at_ms, session, model, category, tokens in, tokens out, cost, estimate."""
    usage = record.usage
    tokens = (usage.prompt_tokens, usage.completion_tokens)
    return (
        record.id,
        record.at_ms,
        record.session,
        record.model,
        record.category._value_,  # faster than `value`, which is a property
        *tokens,
        usage.cost,
        record.estimate,
    )


def reservation_row(wanted: Reservation) -> tuple[str | int | float, ...]:
    """The columns id, at_ms, expires_ms, session, model, category, cost."""
    category = wanted.category.value
    return wanted.id, wanted.at_ms, wanted.expires_ms, wanted.session, wanted.model, category, wanted.cost


def is_over_cap(cost: float, cap: float | None) -> bool:
    # A cap that is reached exactly is not exceeded, whatever the rounding of sums.
    return cap is not None and cost > cap + 1e-9


def already_there(kind: str, name: str) -> StoreError:
    return StoreError(f"there is already a {kind} {name}", hint="make it under another id")


def no_session(session: str) -> SessionNotFound:
    return SessionNotFound(f"there is no session {session}", hint="list them with `aish sessions list`")


def no_turn(turn: str) -> SessionNotFound:
    return SessionNotFound(f"there is no turn {turn}: it was never started, or its session was deleted")


# The columns of a run and of a step, in the order of the records' fields.
RUN_COLUMNS = "id, kind, session, goal, state, body, reason, created_ms, updated_ms, owner, fence, lease_ms"
STEP_COLUMNS = (
    "run, number, call, tool, effect, state, key, digest, arguments, witness, status, outcome, started_ms, finished_ms"
)


def run_of(row: Sequence[Any]) -> RunRecord:
    id, kind, session, goal, state, *rest = row
    return RunRecord(id, RunKind(kind), session, goal, RunState(state), *rest)


def step_of(row: Sequence[Any]) -> StepRecord:
    run, number, call, tool, effect, state, *rest = row
    return StepRecord(run, number, call, tool, effect, StepState(state), *rest)


def fact_of(row: Sequence[Any]) -> Fact:
    """From the columns id, text, created_ms, updated_ms, kind, tags, source."""
    id, text, created_ms, updated_ms, kind, tags, source = row
    return Fact(id, text, created_ms, updated_ms, FactKind(kind), _tags_decoder.decode(tags), source)


def document_row(document: Document, now_ms: int) -> tuple[object, ...]:
    """The columns kind, id, body, owner, created_ms, expires_ms."""
    created_ms = document.created_ms or now_ms
    return document.kind, document.id, document.body, document.owner, created_ms, document.expires_ms
