"""Stores what a turn did that its client does not know, until the client returns.

A client that keeps the conversation itself has seen only its own calls. When it returns with their results, the message
that it remembers is replaced by everything the turn said and did, so that the model sees our results, too. This state
is found by the id of the first call that was left to the client: an id of ours, which cannot be guessed.

A client whose answer broke off sends the same request again, as client libraries do on their own. The new turn goes on
from the tools that have run, so no effect is repeated. Where the process died, or another process has yet to store what
it did, the earlier turn is found by a note that is written before its first effect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from aish.ports import Ask, Store
from aish.types.decisions import Answer, Question
from aish.types.events import TurnEnd
from aish.types.messages import AssistantMessage, Message, TextPart, ToolMessage
from aish.types.records import Document
from aish.types.requests import Done, TurnRequest

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
_MAX_ATTEMPTS = 64  # at one request: each is looked up
_RETURN_KIND = "held"
RETRY_KIND = "retry"
ALREADY_DECIDED = "[aish] this call was decided and carried out already, by an earlier request; it was not run again."

_messages_decoder = msgspec.json.Decoder(tuple[Message, ...])
_done_decoder = msgspec.json.Decoder(Done)


def may_be_retried(turn: Turn) -> bool:
    """Whether the client may send the same request again, since its answer broke off."""
    return bool(turn.retry_key) and turn.end in _RETRY_ENDS


async def store_for_return(store: Store, turn: Turn, redact: Redact) -> None:
    """Stores the turn before its client hears of the calls it is to run. Does nothing if the client saw everything."""
    produced = turn.produced()
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


async def note_attempt(store: Store, turn: Turn) -> None:
    """Notes that the turn is about to have its first effect. Durable with the intent of that effect."""
    id, now_ms = _notes_id(turn.retry_key), turn.now_ms()
    while True:
        found = await store.find(RETRY_KIND, id)
        if found is None:
            if await store.put_new(_retry_document(id, turn.id.encode(), now_ms)):
                return
        elif await store.swap(_retry_document(id, b"%b %b" % (found.body, turn.id.encode()), now_ms), old=found.body):
            return


async def end_attempt(store: Store, turn: Turn, redact: Redact, *, noted: bool) -> None:
    """Stores what an attempt and those before it did, for the next one, or forgets it if the turn ended well.

    `noted`: the attempt has a note, which is not needed any more."""
    key, now_ms = turn.retry_key, turn.now_ms()
    if may_be_retried(turn):
        done = Done(drop_unfinished_answers(turn.produced()), turn.had_effect)
        if _result_ids(done.messages):
            await store.put(_retry_document(key, redact(msgspec.json.encode(done)), now_ms))
    elif turn.request.resumed is not None:
        await store.delete(RETRY_KIND, key)
    if noted:
        await _remove_notes(store, key, (turn.id,), now_ms)


async def store_done(store: Store, key: str, done: Done, turns: Collection[str], redact: Redact, now_ms: int) -> None:
    """Stores what turns have done that could not store it themselves, in place of their notes."""
    await store.put(_retry_document(key, redact(msgspec.json.encode(done)), now_ms))
    await _remove_notes(store, key, turns, now_ms)


async def _remove_notes(store: Store, key: str, turns: Collection[str], now_ms: int) -> None:
    id = _notes_id(key)
    while (found := await store.find(RETRY_KIND, id)) is not None:
        left = b" ".join(turn for turn in found.body.split() if turn.decode() not in turns)
        if await store.swap(_retry_document(id, left, now_ms), old=found.body):
            return


async def find_attempts(store: Store, key: str) -> tuple[Done | None, list[str]]:
    """What earlier attempts have stored, and the turns that have only a note. It stays until an attempt has ended well:
    of two attempts at once, neither runs it again."""
    bodies = {found.id: found.body for found in await store.find_many(RETRY_KIND, (key, _notes_id(key)))}
    done, turns = bodies.get(key), bodies.get(_notes_id(key), b"")
    return None if done is None else _done_decoder.decode(done), turns.decode().split()[-_MAX_ATTEMPTS:]


def _notes_id(key: str) -> str:
    return f"{key}/under way"


def _retry_document(id: str, body: bytes, now_ms: int) -> Document:
    return Document(RETRY_KIND, id, body, created_ms=now_ms, expires_ms=now_ms + _RETRY_MS)


def drop_unfinished_answers(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Drops text without calls, which the next attempt says again. Calls and their results stay."""
    return tuple(m for m in messages if not (isinstance(m, AssistantMessage) and not m.tool_calls))


def add_messages(before: Done | None, messages: Sequence[Message]) -> Done:
    """Adds the messages of an attempt that is not known to have stored them. It may have, just before it died."""
    known = before.messages if before is not None else ()
    if not _result_ids(known).isdisjoint(_result_ids(messages)):
        messages = ()
    return Done((*known, *drop_unfinished_answers(messages)), had_effect=True)


async def use_answers(store: Store, request: TurnRequest, now_ms: int) -> TurnRequest:
    """Uses up the decisions of a request. Each lets its call run once, also if the same request is sent again."""
    used = [id for id in request.answers if not await store.put_new(_used(id, now_ms))]
    if not used:
        return request
    results = tuple(ToolMessage(id, "", (TextPart(ALREADY_DECIDED),)) for id in used)
    left = {id: answer for id, answer in request.answers.items() if id not in used}
    return msgspec.structs.replace(request, answers=left, input=(*results, *request.input))


def _used(call: str, now_ms: int) -> Document:
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
