"""Stores what a turn did that its client does not know, until the client returns.

A client that keeps the conversation itself has seen only its own calls. When it returns with their results, the message
that it remembers is replaced by everything the turn said and did, so that the model sees our results, too. This state
is found by the id of the first call that was left to the client: an id of ours, which cannot be guessed.

A client whose answer broke off sends the same request again, as client libraries do on their own. The new turn goes on
from the tools that have run, so no effect is repeated. The earlier turns are found by a note, which is written before
the first effect and removed when an answer has been delivered. What they did is read from their events.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from aish.errors import EffectUnknown
from aish.ports import Ask, Store
from aish.types.decisions import Answer, Question
from aish.types.events import TurnEnd
from aish.types.messages import AssistantMessage, Message, TextPart, ToolMessage
from aish.types.records import Document
from aish.types.requests import EarlierAttempts, TurnRequest

if TYPE_CHECKING:
    from aish.engine.turn.loop import Turn

Redact = Callable[[bytes], bytes]  # removes known secrets from a line of JSON

# Ends after which the client is expected to return.
RETURN_ENDS = (TurnEnd.CLIENT_TOOLS, TurnEnd.APPROVAL)
# Ends after which clients send the same request again, within a minute or so.
_RETRY_ENDS = (TurnEnd.CANCELLED, TurnEnd.FAILED)
# A client that has not returned after a day never will.
_RETURN_MS = 24 * 3600 * 1000
_RETRY_MS = 15 * 60 * 1000
MAX_ATTEMPTS = 64  # at one request: each is read
_RETURN_KIND = "held"
RETRY_KIND = "retry"
ALREADY_DECIDED = "[aish] this call was decided and carried out already, by an earlier request; it was not run again."

_messages_decoder = msgspec.json.Decoder(tuple[Message, ...])


def may_be_retried(turn: Turn) -> bool:
    """Whether the client may send the same request again, since its answer broke off."""
    return bool(turn.retry_key) and turn.end in _RETRY_ENDS


async def store_for_return(store: Store, turn: Turn, redact: Redact) -> None:
    """Stores the turn before its client hears of the calls it is to run. Does nothing if the client saw everything."""
    produced = turn.new_messages()
    if turn.request.context is not None and any(isinstance(message, ToolMessage) for message in produced):
        body, now_ms = redact(msgspec.json.encode(produced)), turn.now_ms()
        id = turn.open_calls[0].id
        await store.put(Document(_RETURN_KIND, id, body, created_ms=now_ms, expires_ms=now_ms + _RETURN_MS))


async def restore_context(store: Store, context: Sequence[Message]) -> tuple[Message, ...]:
    """The conversation that a client brings, with what our turns did between its messages."""
    firsts = {m.tool_calls[0].id for m in context if isinstance(m, AssistantMessage) and m.tool_calls}
    stored = {found.id: found.body for found in await store.find_many(_RETURN_KIND, firsts)} if firsts else {}
    if not stored:
        return tuple(context)
    restored: list[Message] = []
    covered: set[str] = set()
    known = _result_ids(context)
    for message in context:
        calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
        whole = _messages_decoder.decode(stored[calls[0].id]) if calls and calls[0].id in stored else ()
        if whole and known.isdisjoint(_result_ids(whole)):  # otherwise the client knows of them already
            covered |= {call.id for m in whole if isinstance(m, AssistantMessage) for call in m.tool_calls}
            restored += whole
        elif calls and all(call.id in covered for call in calls):
            continue  # the same step, which this client has split into a message for each call
        else:
            restored.append(message)
    return tuple(restored)


def _result_ids(messages: Sequence[Message]) -> set[str]:
    return {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}


async def note_attempt(store: Store, key: str, turn: str, now_ms: int) -> None:
    """Notes that the turn is an attempt at the request. Durable with the intent of its first effect."""
    id = _notes_id(key)
    while True:
        found = await store.find(RETRY_KIND, id)
        if found is None:
            if await store.put_new(_retry_document(id, turn.encode(), now_ms)):
                return
        elif await store.swap(_retry_document(id, b"%b %b" % (found.body, turn.encode()), now_ms), old=found.body):
            return


async def forget_attempts(store: Store, key: str, turns: Collection[str], now_ms: int) -> None:
    """Removes the notes of these turns, since the client has its answer."""
    id = _notes_id(key)
    while (found := await store.find(RETRY_KIND, id)) is not None:
        left = b" ".join(turn for turn in found.body.split() if turn.decode() not in turns)
        if await store.swap(_retry_document(id, left, now_ms), old=found.body):
            return


async def find_attempts(store: Store, key: str) -> list[str]:
    """The turns that are earlier attempts. A note stays until an attempt has ended well and its answer was delivered:
    of two attempts at once, neither runs again what these have done. Raises EffectUnknown if there are too many."""
    found = await store.find(RETRY_KIND, _notes_id(key))
    turns = found.body.decode().split() if found is not None else []
    if len(turns) > MAX_ATTEMPTS:
        raise EffectUnknown(
            f"this request has been tried {len(turns)} times within minutes, and each attempt broke off",
            hint="send it as a new request",
        )
    return turns


def check_effects(attempts: EarlierAttempts) -> None:
    """Raises EffectUnknown if an attempt was broken off in the middle of an effect: no answer may hide that."""
    if attempts.unknown:
        raise EffectUnknown(
            f"an earlier attempt at this request was broken off while it ran {', '.join(attempts.unknown)}, which may "
            "or may not have had its effect",
            hint="look at what it did, then send a new request",
        )


def _notes_id(key: str) -> str:
    return f"{key}/under way"


def _retry_document(id: str, body: bytes, now_ms: int) -> Document:
    return Document(RETRY_KIND, id, body, created_ms=now_ms, expires_ms=now_ms + _RETRY_MS)


def drop_unfinished_answers(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Drops text without calls, which the next attempt says again. Calls and their results stay."""
    return tuple(m for m in messages if not (isinstance(m, AssistantMessage) and not m.tool_calls))


async def use_answers(store: Store, request: TurnRequest, now_ms: int) -> TurnRequest:
    """Uses up the decisions of a request. Each lets its call run once, also if the same request is sent again."""
    used = [id for id in request.answers if not await store.put_new(_use_marker(id, now_ms))]
    if not used:
        return request
    results = tuple(ToolMessage(id, "", (TextPart(ALREADY_DECIDED),)) for id in used)
    left = {id: answer for id, answer in request.answers.items() if id not in used}
    return msgspec.structs.replace(request, answers=left, input=(*results, *request.input))


def _use_marker(call: str, now_ms: int) -> Document:
    return Document("decided", call, b"{}", created_ms=now_ms, expires_ms=now_ms + _RETURN_MS)


def answer_from(answers: Mapping[str, Answer], ask: Ask | None) -> Ask:
    """Answers from the decisions that a request brings, and asks only about other calls."""

    async def answer(question: Question) -> Answer:
        known = answers.get(question.call)
        if known is not None:
            return known
        if ask is None:
            raise LookupError("there is no user to ask")
        return await ask(question)

    return answer
