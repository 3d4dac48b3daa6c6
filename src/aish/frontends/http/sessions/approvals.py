"""Tool calls that wait for consent: listed at `/v1/approvals`, answered there, refused if no answer comes in time.

A question is stored, so every process that shares the store can list and answer it. The process that waits polls the
store. The first answer counts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.server.engine_host import EngineHost
from aish.frontends.http.server.http_errors import HttpProblem, bad_field, decode_body
from aish.ports import Store
from aish.tool_calls.schema.validator import schema_errors
from aish.types.decisions import Answer, Choice, Question, QuestionKind
from aish.types.ids import new_id
from aish.types.records import Document
from aish.types.tools import Arguments

KIND = "approval"
CONFIRMATION = "yes"
# How often to look for an answer that another process received.
_POLL_S = 1.0
# How long an answered question can still be read.
_KEEP_ANSWERED_MS = 3600 * 1000
_MAX_BODY_BYTES = 4 * 1024 * 1024


class Approval(msgspec.Struct, frozen=True, omit_defaults=True):
    """`process` is the one that waits for the answer."""

    id: str
    question: Question
    created_ms: int
    expires_ms: int
    process: str = msgspec.field(default="", name="asker")
    answer: Answer | None = None
    answered_by: str = ""  # the id of the key
    answered_ms: int = 0


class Given(msgspec.Struct, frozen=True):
    """`confirm` spells out "yes" where the gate insists on asking: one wrong click must not lose a home."""

    choice: Choice
    note: str = ""
    confirm: str = ""
    arguments: dict[str, Any] | None = None


_decoder = msgspec.json.Decoder(Approval)
_given_decoder = msgspec.json.Decoder(Given)


def is_waiting(approval: Approval, host: EngineHost) -> bool:
    """Whether the process that asked still waits: its question stays in the store when the process dies."""
    owners, process = host.engine.liveness, approval.process
    is_alive = process in ("", owners.me) or owners.is_alive(process)
    return approval.answer is None and approval.expires_ms > host.now_ms() and is_alive


class Approvals:
    def __init__(self, host: EngineHost, on_change: Callable[[], None]) -> None:
        self._host = host
        self._on_change = on_change
        self._waiting: dict[str, asyncio.Event] = {}

    async def reply_with_pending(self, exchange: Exchange, caller: Caller) -> None:
        found = await self._host.store.list_documents(KIND, owner=None if caller.admin else caller.key)
        pending = [shown for document in found if is_waiting(shown := _decoder.decode(document.body), self._host)]
        await exchange.reply(200, msgspec.json.encode({"object": "list", "data": pending}))

    async def get(self, exchange: Exchange, caller: Caller, id: str) -> None:
        document = await self._find(caller, id)
        await exchange.reply(200, document.body)

    async def answer(self, exchange: Exchange, caller: Caller, id: str) -> None:
        given = decode_body(await exchange.body(_MAX_BODY_BYTES), _given_decoder)
        document = await self._find(caller, id)
        approval = _decoder.decode(document.body)
        if approval.answer is not None:
            raise _already_answered(approval)
        if not is_waiting(approval, self._host):
            raise _not_found(id)
        _check(approval.question, given)
        answered = msgspec.structs.replace(
            approval,
            answer=Answer(given.choice, given.note, given.arguments, for_all=caller.admin),
            answered_by=caller.key,
            answered_ms=self._host.now_ms(),
        )
        changed = msgspec.structs.replace(document, body=msgspec.json.encode(answered))
        if not await self._host.store.swap(changed, old=document.body):
            raise _already_answered(_decoder.decode((await self._find(caller, id)).body))
        if id in self._waiting:
            self._waiting[id].set()
        self._on_change()
        await exchange.reply(200, changed.body)

    async def ask(self, caller: Caller, question: Question) -> Answer:
        store, wait_s = self._host.store, self._host.config.approval_timeout_s
        now_ms = time.time_ns() // 1_000_000
        due_ms = now_ms + round(wait_s * 1000)
        approval = Approval(new_id("appr"), question, now_ms, due_ms, self._host.engine.liveness.me)
        body = msgspec.json.encode(approval)
        await store.put(Document(KIND, approval.id, body, caller.key, now_ms, due_ms + _KEEP_ANSWERED_MS))
        self._on_change()
        answered = self._waiting[approval.id] = asyncio.Event()
        answer: Answer | None = None
        try:
            async with asyncio.timeout(wait_s):
                answer = await self._answer_to(store, approval.id, answered)
        except TimeoutError:
            pass
        finally:
            del self._waiting[approval.id]
            if answer is None:  # timed out or cancelled: it can no longer be answered
                await store.delete(KIND, approval.id)
                self._on_change()
        return answer or Answer(Choice.NO, f"no answer within {wait_s:g} s")

    async def _answer_to(self, store: Store, id: str, answered: asyncio.Event) -> Answer:
        while True:
            await _wait_at_most(answered.wait(), _POLL_S)
            document = await store.find(KIND, id)
            if document is None:
                return Answer(Choice.NO, "the question was withdrawn")
            if (answer := _decoder.decode(document.body).answer) is not None:
                return answer

    async def _find(self, caller: Caller, id: str) -> Document:
        document = await self._host.store.find(KIND, id)
        if document is None or not (caller.admin or document.owner == caller.key):
            raise _not_found(id)
        return document


def _not_found(id: str) -> HttpProblem:
    return HttpProblem(404, f"there is no question {id[:80]}, or its answer is no longer awaited")


def _already_answered(approval: Approval) -> HttpProblem:
    """The first answer counts. A later one gets an error that says what it was."""
    choice = approval.answer.choice.value if approval.answer else "unknown"
    by = f" by {approval.answered_by}" if approval.answered_by else ""
    text = f"the question {approval.id} has been answered already: {choice}{by}"
    return HttpProblem(409, text, param=choice, code="already_answered")


def _check(question: Question, given: Given) -> None:
    if question.kind is QuestionKind.INPUT:
        _check_input(question, given)
        return
    if given.choice is Choice.LATER:
        raise bad_field("choice", "must be yes, no, step, turn, session, always or edit")
    if given.choice is Choice.ALWAYS and not question.always:
        raise bad_field("choice", "no rule would be narrow enough to allow this always")
    if given.choice in (Choice.TURN, Choice.SESSION) and not question.like:
        raise bad_field("choice", "this is asked about each time")
    if given.choice is Choice.STEP and not question.others:
        raise bad_field("choice", "there are no other calls like this in the step")
    if question.insist and given.choice is not Choice.NO and given.confirm != CONFIRMATION:
        raise bad_field("confirm", f'must be "{CONFIRMATION}": {question.reason}')
    if given.choice is Choice.EDIT:
        _check_edit(question, given.arguments)


def _check_input(question: Question, given: Given) -> None:
    """What a tool asks for is answered in words, as one of the choices if there are any."""
    if given.choice not in (Choice.YES, Choice.NO):
        raise bad_field("choice", "must be yes, with the answer in note, or no")
    choices = question.arguments.get("choices", [])
    if given.choice is Choice.YES and choices and given.note not in choices:
        raise bad_field("note", f"must be one of {', '.join(map(str, choices))}")


def _check_edit(question: Question, arguments: Arguments | None) -> None:
    """If the arguments do not fit, the question stays open."""
    if question.kind is not QuestionKind.EFFECT:
        raise bad_field("choice", "must be yes or no: this asks whether to go on")
    if arguments is None:
        raise bad_field("arguments", "an edit says the arguments to use instead")
    if errors := schema_errors(question.schema, arguments):
        raise bad_field("arguments", f"do not fit {question.tool}: {'; '.join(errors)}")


async def _wait_at_most(work: Any, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        return
