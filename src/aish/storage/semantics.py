"""What every adapter does alike, whatever it keeps records in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from aish.errors import SessionNotFound, StoreError
from aish.storage.texts import title_of
from aish.types.events import TurnEnd
from aish.types.messages import Message
from aish.types.records import SessionRecord, TurnRecord
from aish.types.runs import RunRecord
from aish.types.usage import Reservation, Usage, UsageRecord

SUMMARY = "summary"  # the kind of document that tells what was said in a session, under its id: it goes with it

RUNNING = "running"  # the state of a turn without an end

messages_decoder = msgspec.json.Decoder(tuple[Message, ...])
_usage_decoder = msgspec.json.Decoder(Usage)

# A lease further ahead than any that is given was written by a clock that has been put back since.
_LONGEST_LEASE_MS = 600_000


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
    """The lines of rows that reach past `after_seq`, without those up to it. Each line is one number."""
    return b"".join(_skip_lines(body, after_seq - first_seq + 1) for first_seq, body in rows)


def _skip_lines(body: bytes, count: int) -> bytes:
    start = 0
    for _ in range(count):
        start = body.index(b"\n", start) + 1
    return body[start:]


def lease_is_over(run: RunRecord, now_ms: int, dead: str) -> bool:
    """Whether the run may be taken over; `dead` is an owner that is known to be gone."""
    if not run.owner or run.owner == dead:
        return True
    return not now_ms < run.lease_ms <= now_ms + _LONGEST_LEASE_MS


# What calls came to is summed up by it: every time zone is some quarters of an hour away, so days stay what they are.
QUARTER_MS = 900_000


def quarter_of(at_ms: int) -> tuple[int, int]:
    """When it began and when it ends."""
    start_ms = at_ms - at_ms % QUARTER_MS
    return start_ms, start_ms + QUARTER_MS


def usage_row(record: UsageRecord) -> tuple[str | int | float | None, ...]:
    """In the order of the columns: id, at_ms, session, model, category, tokens in and out, cost, estimate."""
    usage = record.usage
    tokens = (usage.prompt_tokens, usage.completion_tokens)
    return (
        record.id,
        record.at_ms,
        record.session,
        record.model,
        record.category._value_,  # `value` is a function
        *tokens,
        usage.cost,
        record.estimate,
    )


def reservation_row(wanted: Reservation) -> tuple[str | int | float, ...]:
    """In the order of the columns: id, at_ms, expires_ms, session, model, category, cost."""
    category = wanted.category.value
    return wanted.id, wanted.at_ms, wanted.expires_ms, wanted.session, wanted.model, category, wanted.cost


def is_over_cap(cost: float, cap: float | None) -> bool:
    # A cap that was reached to the last digit by sums of floats is not exceeded.
    return cap is not None and cost > cap + 1e-9


def already_there(kind: str, name: str) -> StoreError:
    return StoreError(f"there is already a {kind} {name}", hint="make it under another id")


def no_session(session: str) -> SessionNotFound:
    return SessionNotFound(f"there is no session {session}", hint="list them with `aish sessions list`")


def no_turn(turn: str) -> SessionNotFound:
    return SessionNotFound(f"there is no turn {turn}: it was never started, or its session was deleted")
