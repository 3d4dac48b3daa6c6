"""Calls that wait for consent: shown at `/v1/approvals`, answered there, refused when nobody answers in time.

A question lies in the store, so that any process that shares it can show and answer it; the one that waits looks there
now and then. The first answer counts.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import msgspec

from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.server.bodies import decode_body
from aish.frontends.http.server.http_errors import Problem, bad_field
from aish.ports import Store
from aish.tool_calls.schema.validator import schema_errors
from aish.types.decisions import Answer, Choice, Question, QuestionKind
from aish.types.ids import new_id
from aish.types.records import Document
from aish.types.tools import Arguments

if TYPE_CHECKING:
    from aish.frontends.http.server.service import Service

KIND = "approval"
# How often to look for an answer that another process took.
_LOOK_S = 1.0
# How long an answered question can still be looked at.
_KEPT_MS = 3600 * 1000
_MAX_BODY_BYTES = 4 * 1024 * 1024


class Approval(msgspec.Struct, frozen=True, omit_defaults=True):
    """`asker` is the process that waits for the answer."""

    id: str
    question: Question
    created_ms: int
    expires_ms: int
    asker: str = ""
    answer: Answer | None = None
    answered_by: str = ""  # the id of their key
    answered_ms: int = 0


class Given(msgspec.Struct, frozen=True):
    choice: Choice
    note: str = ""
    arguments: dict[str, Any] | None = None


_decoder = msgspec.json.Decoder(Approval)
_given_decoder = msgspec.json.Decoder(Given)


class Approvals:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._waiting: dict[str, asyncio.Event] = {}

    def is_waiting(self, approval: Approval) -> bool:
        """Whoever asked may have died, and its question lies there still."""
        owners, asker = self._service.engine.owners, approval.asker
        is_there = asker in ("", owners.me) or owners.is_alive(asker)
        return approval.answer is None and approval.expires_ms > self._service.now_ms() and is_there

    async def list(self, exchange: Exchange, caller: Caller) -> None:
        found = await self._service.store.list_documents(KIND, owner=None if caller.admin else caller.key)
        pending = [shown for document in found if self.is_waiting(shown := _decoder.decode(document.body))]
        await exchange.reply(200, msgspec.json.encode({"object": "list", "data": pending}))

    async def get(self, exchange: Exchange, caller: Caller, id: str) -> None:
        document = await self._find(caller, id)
        await exchange.reply(200, document.body)

    async def answer(self, exchange: Exchange, caller: Caller, id: str) -> None:
        given = decode_body(await exchange.body(_MAX_BODY_BYTES), _given_decoder)
        document = await self._find(caller, id)
        approval = _decoder.decode(document.body)
        if approval.answer is not None:
            raise _answered(approval)
        if not self.is_waiting(approval):
            raise _nobody_waits(id)
        _check(approval.question, given)
        answered = msgspec.structs.replace(
            approval,
            answer=Answer(given.choice, given.note, given.arguments, for_all=caller.admin),
            answered_by=caller.key,
            answered_ms=self._service.now_ms(),
        )
        changed = msgspec.structs.replace(document, body=msgspec.json.encode(answered))
        if not await self._service.store.swap(changed, old=document.body):
            raise _answered(_decoder.decode((await self._find(caller, id)).body))
        if id in self._waiting:
            self._waiting[id].set()
        self._service.news.poke()
        await exchange.reply(200, changed.body)

    async def ask(self, caller: Caller, question: Question) -> Answer:
        store, wait_s = self._service.store, self._service.config.approval_timeout_s
        now_ms = time.time_ns() // 1_000_000
        due_ms = now_ms + round(wait_s * 1000)
        approval = Approval(new_id("appr"), question, now_ms, due_ms, self._service.engine.owners.me)
        body = msgspec.json.encode(approval)
        await store.put(Document(KIND, approval.id, body, caller.key, now_ms, due_ms + _KEPT_MS))
        self._service.news.poke()
        answered = self._waiting[approval.id] = asyncio.Event()
        answer: Answer | None = None
        try:
            async with asyncio.timeout(wait_s):
                answer = await self._answer_to(store, approval.id, answered)
        except TimeoutError:
            pass
        finally:
            del self._waiting[approval.id]
            if answer is None:  # timed out or left: nobody should answer it any more
                await store.delete(KIND, approval.id)
                self._service.news.poke()
        return answer or Answer(Choice.NO, f"nobody answered within {wait_s:g} s")

    async def _answer_to(self, store: Store, id: str, answered: asyncio.Event) -> Answer:
        while True:
            await _within(answered.wait(), _LOOK_S)
            document = await store.find(KIND, id)
            if document is None:
                return Answer(Choice.NO, "the question was withdrawn")
            if (answer := _decoder.decode(document.body).answer) is not None:
                return answer

    async def _find(self, caller: Caller, id: str) -> Document:
        document = await self._service.store.find(KIND, id)
        if document is None or not (caller.admin or document.owner == caller.key):
            raise _nobody_waits(id)
        return document


def _nobody_waits(id: str) -> Problem:
    return Problem(404, f"there is no question {id[:80]}, or nobody waits for its answer any more")


def _answered(approval: Approval) -> Problem:
    """The first answer counts; whoever comes later is told what it was."""
    choice = approval.answer.choice.value if approval.answer else "unknown"
    by = f" by {approval.answered_by}" if approval.answered_by else ""
    text = f"the question {approval.id} has been answered already: {choice}{by}"
    return Problem(409, text, param=choice, code="already_answered")


def _check(question: Question, given: Given) -> None:
    if given.choice is Choice.LATER:
        raise bad_field("choice", "must be yes, no, turn, always or edit")
    if given.choice is Choice.ALWAYS and not question.always:
        raise bad_field("choice", "no rule would be narrow enough to allow this always")
    if given.choice is Choice.TURN and not question.like:
        raise bad_field("choice", "this is asked about each time")
    if given.choice is Choice.EDIT:
        _check_edit(question, given.arguments)


def _check_edit(question: Question, arguments: Arguments | None) -> None:
    """What does not fit leaves the question open: they can be written better."""
    if question.kind is not QuestionKind.EFFECT:
        raise bad_field("choice", "must be yes or no: this asks whether to go on")
    if arguments is None:
        raise bad_field("arguments", "an edit says the arguments to use instead")
    if errors := schema_errors(question.schema, arguments):
        raise bad_field("arguments", f"do not fit {question.tool}: {'; '.join(errors)}")


async def _within(work: Any, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        return
