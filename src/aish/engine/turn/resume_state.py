"""Turns that did something their asker does not know of: it is held until the asker comes back.

An asker that keeps the conversation itself saw only its own calls. When it returns with their results, the message it
remembers is replaced by everything the turn really said and did, so that the model sees our results, too. What is held
is found by the id of the first call that was left: an id of ours, which nobody can guess.

And one whose answer broke off asks the same again, as clients do on their own. It then goes on from the tools that have
run: an effect is not repeated. Where the process died, or another one still has to say what it did, the turn is found
by a note that is written before its first effect.
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

Redact = Callable[[bytes], bytes]  # takes known secrets out of a line of JSON

HELD_ENDS = (TurnEnd.CLIENT_TOOLS, TurnEnd.APPROVAL)
# A client that has not come back after a day never will.
KEPT_MS = 24 * 3600 * 1000
KIND = "held"

# Clients ask again within a minute or so.
RETRY_MS = 15 * 60 * 1000
RETRY = "retry"
_MAX_ATTEMPTS = 64  # at one request, under way or dead: each is looked up
ALREADY = "[aish] this call was decided and carried out already, by an earlier request; it was not run again."
BROKE_OFF = (TurnEnd.CANCELLED, TurnEnd.FAILED)

_decoder = msgspec.json.Decoder(tuple[Message, ...])
_done_decoder = msgspec.json.Decoder(Done)


async def hold(store: Store, turn: Turn, redact: Redact) -> None:
    """Durable before the asker hears of its calls. Nothing is held where we did nothing that it did not see."""
    produced = turn.produced()
    if turn.asker_remembers and any(isinstance(message, ToolMessage) for message in produced):
        body, now_ms = redact(msgspec.json.encode(produced)), turn.now_ms()
        await store.put(Document(KIND, turn.left_calls[0].id, body, created_ms=now_ms, expires_ms=now_ms + KEPT_MS))


async def restore_held(store: Store, context: Sequence[Message]) -> tuple[Message, ...]:
    firsts = {m.tool_calls[0].id for m in context if isinstance(m, AssistantMessage) and m.tool_calls}
    held = {found.id: found.body for found in await store.find_many(KIND, firsts)} if firsts else {}
    if not held:
        return tuple(context)
    restored: list[Message] = []
    covered: set[str] = set()
    known = _results(context)
    for message in context:
        calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
        whole = _decoder.decode(held[calls[0].id]) if calls and calls[0].id in held else ()
        if whole and known.isdisjoint(_results(whole)):  # otherwise the asker knows of them already
            covered |= {call.id for m in whole if isinstance(m, AssistantMessage) for call in m.tool_calls}
            restored += whole
        elif calls and all(call.id in covered for call in calls):
            continue  # the same step, which this client took apart into a message for each call
        else:
            restored.append(message)
    return tuple(restored)


def _results(messages: Sequence[Message]) -> set[str]:
    return {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}


async def note_attempt(store: Store, turn: Turn) -> None:
    """Durable, like the intent of the first effect that it goes with."""
    turn.is_noted = True
    id, now_ms = _under_way(turn.retry_key), turn.now_ms()
    while True:
        found = await store.find(RETRY, id)
        if found is None:
            if await store.put_new(_document(id, turn.id.encode(), now_ms)):
                return
        elif await store.swap(_document(id, b"%b %b" % (found.body, turn.id.encode()), now_ms), old=found.body):
            return


async def settle_attempt(store: Store, turn: Turn, redact: Redact) -> None:
    """Once a turn has ended that was or may be tried again: what it and those before it did is kept for the next, or
    forgotten if it ended well; and its own note is not needed any more."""
    key, now_ms = turn.retry_key, turn.now_ms()
    if turn.may_be_retried:
        done = Done(without_half_answers(turn.produced()), turn.had_effect)
        if _results(done.messages):
            await store.put(_document(key, redact(msgspec.json.encode(done)), now_ms))
    elif turn.resumed is not None:
        await store.delete(RETRY, key)
    if turn.is_noted:
        await _forget_notes(store, key, (turn.id,), now_ms)


async def keep_done(store: Store, key: str, done: Done, turns: Collection[str], redact: Redact, now_ms: int) -> None:
    """In place of the notes of turns that could not say it themselves."""
    await store.put(_document(key, redact(msgspec.json.encode(done)), now_ms))
    await _forget_notes(store, key, turns, now_ms)


async def _forget_notes(store: Store, key: str, turns: Collection[str], now_ms: int) -> None:
    id = _under_way(key)
    while (found := await store.find(RETRY, id)) is not None:
        left = b" ".join(turn for turn in found.body.split() if turn.decode() not in turns)
        if await store.swap(_document(id, left, now_ms), old=found.body):
            return


async def find_tried(store: Store, key: str) -> tuple[Done | None, list[str]]:
    """What earlier attempts have done, and the turns of those that have not said so yet. It stays until one has ended
    well: of two at once, neither runs it again."""
    bodies = {found.id: found.body for found in await store.find_many(RETRY, (key, _under_way(key)))}
    done, turns = bodies.get(key), bodies.get(_under_way(key), b"")
    return None if done is None else _done_decoder.decode(done), turns.decode().split()[-_MAX_ATTEMPTS:]


def _under_way(key: str) -> str:
    return f"{key}/under way"


def _document(id: str, body: bytes, now_ms: int) -> Document:
    return Document(RETRY, id, body, created_ms=now_ms, expires_ms=now_ms + RETRY_MS)


def without_half_answers(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Text that broke off is said anew; calls and their results stay."""
    return tuple(m for m in messages if not (isinstance(m, AssistantMessage) and not m.tool_calls))


def with_more_done(before: Done | None, messages: Sequence[Message]) -> Done:
    """What an attempt did that could not say so itself. It may have said it after all, just before it died."""
    known = before.messages if before is not None else ()
    if not _results(known).isdisjoint(_results(messages)):
        messages = ()
    return Done((*known, *without_half_answers(messages)), had_effect=True)


async def use_answers(store: Store, request: TurnRequest, now_ms: int) -> TurnRequest:
    """A yes lets its call run once: the same request sent again does not run it again."""
    used = [id for id in request.answers if not await store.put_new(_used(id, now_ms))]
    if not used:
        return request
    told = tuple(ToolMessage(id, "", (TextPart(ALREADY),)) for id in used)
    left = {id: answer for id, answer in request.answers.items() if id not in used}
    return msgspec.structs.replace(request, answers=left, input=(*told, *request.input))


def _used(call: str, now_ms: int) -> Document:
    return Document("decided", call, b"{}", created_ms=now_ms, expires_ms=now_ms + KEPT_MS)


def answering(answers: Mapping[str, Answer], ask: Ask | None) -> Ask:
    """Asks only what has not been answered already."""

    async def answer(question: Question) -> Answer:
        known = answers.get(question.call)
        if known is not None:
            return known
        if ask is None:
            raise LookupError("nobody is there to be asked")
        return await ask(question)

    return answer
