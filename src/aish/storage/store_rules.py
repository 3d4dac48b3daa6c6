"""Rules, texts and row formats that all adapters share."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from aish.errors import SessionNotFound, StoreError
from aish.types.events import TurnEnd
from aish.types.messages import AssistantMessage, Message, UserMessage
from aish.types.records import Document, Fact, FactKind, SessionRecord, TurnRecord
from aish.types.runs import RunKind, RunRecord, RunState, StepRecord, StepState
from aish.types.usage import Reservation, Usage, UsageRecord

TITLE_CHARS = 80
# Per turn. Only the beginning of long texts is searched, since a search reads this much of every turn.
SEARCHABLE_CHARS = 16_384
# More words narrow down little, and each costs a pass.
MAX_WORDS = 16


def title_of(messages: Iterable[Message]) -> str:
    """The first line of the first user message that is not empty."""
    first = next((message for message in messages if isinstance(message, UserMessage)), None)
    lines = first.text.splitlines() if first else []
    line = next((line for line in lines if line.strip()), "")
    return " ".join(line.split())[:TITLE_CHARS]


def fold(text: str) -> str:
    """The form in which text is compared. SQLite's string functions stop at NUL and cannot take lone surrogates."""
    return text[:SEARCHABLE_CHARS].casefold().replace("\0", " ").encode("utf-8", "replace").decode()


def fold_messages(messages: Iterable[Message]) -> str:
    """Questions and answers, without tool output."""
    return fold("\n".join(message.text for message in messages if isinstance(message, UserMessage | AssistantMessage)))


def words_of(query: str) -> tuple[str, ...]:
    return tuple(fold(query).split()[:MAX_WORDS])


# A run of letters and digits; in scripts without spaces, each letter. `_` is neither, so a part of `snake_case` finds
# it.
_WORD = r"(?=\w)[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\u3040-\u30ff]|[^\W_\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+"


@cache
def _word() -> re.Pattern[str]:
    """Compiled late: such classes take milliseconds to compile, and few processes search."""
    return re.compile(_WORD)


def whole_words(text: str) -> list[str]:
    """The words with `_`, which earlier versions stored as one word each."""
    return [word for word in re.findall(r"\w+", fold(text)) if "_" in word]


def index_words(text: str) -> list[str]:
    """The words that full-text search compares, without case and accents."""
    if text.isascii():
        return re.findall(r"[a-z0-9]+", fold(text))
    plain = unicodedata.normalize("NFKD", fold(text)).casefold()  # a superscript A becomes an A only here
    return _word().findall("".join(char for char in plain if not unicodedata.combining(char)))


# The kinds of documents that a session has under its id: its summary, and what it can be rewound to.
OF_SESSIONS = ("summary", "rewind", "shown_tools")

RUNNING = "running"  # the state of a turn without an end

# The columns of each table, in the order of the records' fields.
SESSION_COLUMNS = "id, created_ms, updated_ms, title, model, turns, parent"
TURN_COLUMNS = "id, session, number, model, started_ms, input, state, finished_ms, messages, usage, owner"
DOCUMENT_COLUMNS = "kind, id, body, owner, created_ms, expires_ms"
FACT_COLUMNS = "f.id, f.text, f.created_ms, f.updated_ms, f.kind, f.tags, f.source"
RUN_COLUMNS = "id, kind, session, goal, state, body, reason, created_ms, updated_ms, owner, fence, lease_ms"
STEP_COLUMNS = (
    "run, number, call, tool, effect, state, key, digest, arguments, witness, status, outcome, started_ms, finished_ms"
)

messages_decoder = msgspec.json.Decoder(tuple[Message, ...])
_usage_decoder = msgspec.json.Decoder(Usage)
_tags_decoder = msgspec.json.Decoder(tuple[str, ...])

# A lease that ends later than this was written before the clock was set back.
_LONGEST_LEASE_MS = 600_000


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


def plain(name: str) -> str:
    """An id typed on a command line may contain invalid text; it then names nothing."""
    return name.encode("utf-8", "replace").decode()


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


def store_closed() -> StoreError:
    return StoreError("the store is closed", hint="open a new one")


def already_there(kind: str, name: str) -> StoreError:
    return StoreError(f"there is already a {kind} {name}", hint="make it under another id")


def no_session(session: str) -> SessionNotFound:
    return SessionNotFound(f"there is no session {session}", hint="list them with `aish sessions list`")


def no_turn(turn: str) -> SessionNotFound:
    return SessionNotFound(f"there is no turn {turn}: it was never started, or its session was deleted")


def run_of(row: Sequence[Any]) -> RunRecord:
    id, kind, session, goal, state, *rest = row
    return RunRecord(id, RunKind(kind), session, goal, RunState(state), *rest)


def step_of(row: Sequence[Any]) -> StepRecord:
    run, number, call, tool, effect, state, *rest = row
    return StepRecord(run, number, call, tool, effect, StepState(state), *rest)


def step_row(step: StepRecord) -> tuple[object, ...]:
    """In the order of STEP_COLUMNS."""
    row = msgspec.structs.astuple(step)
    return (*row[:5], step.state.value, *row[6:])


def fact_of(row: Sequence[Any]) -> Fact:
    """From FACT_COLUMNS."""
    id, text, created_ms, updated_ms, kind, tags, source = row
    return Fact(id, text, created_ms, updated_ms, FactKind(kind), _tags_decoder.decode(tags), source)


def document_row(document: Document, now_ms: int) -> tuple[object, ...]:
    """In the order of DOCUMENT_COLUMNS."""
    created_ms = document.created_ms or now_ms
    return document.kind, document.id, document.body, document.owner, created_ms, document.expires_ms
