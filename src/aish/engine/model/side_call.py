"""Makes one model call outside the conversation: text in, text or vectors out, without tools. It is counted and priced
like any other call."""

from __future__ import annotations

import asyncio

import msgspec

from aish.engine.model.ledger import AdmittedCall, Ledger
from aish.engine.model.router import Route
from aish.engine.prompt.token_counts import BYTES_PER_TOKEN, byte_length
from aish.types.chunks import UsageChunk
from aish.types.events import TextDelta
from aish.types.ids import new_id
from aish.types.messages import SystemMessage, user
from aish.types.requests import EmbeddingResult, Ids, Inputs, Sampling, StepRequest
from aish.types.usage import Category, KeyBudget, Usage

# Longer answers are cut: a side call wants a paragraph.
_MAX_CHARS = 64_000
_EMBEDDING_S = 600.0  # after this its reservation expires


class SideAnswer(msgspec.Struct, frozen=True):
    text: str
    usage: Usage


class SideCalls:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def ask(
        self,
        route: Route,
        text: str,
        *,
        system: str,
        category: Category,
        session: str,
        max_tokens: int,
        deadline_s: float,
        sampling: Sampling | None = None,
        plans_calls: bool = False,
        payer: KeyBudget | None = None,
    ) -> SideAnswer:
        """Returns the answer and its usage. `plans_calls` as in a StepRequest. Raises what the provider raises, and
        BudgetExceeded."""
        estimate = (byte_length(text) + byte_length(system)) // BYTES_PER_TOKEN
        asked = AdmittedCall(new_id("use"), session, route.name, category, estimate, payer)
        call = await self._ledger.admit(asked, answer_tokens=max_tokens, deadline_s=deadline_s)
        max_tokens = call.answer_tokens
        request = StepRequest(
            model=route.info.id,
            messages=(SystemMessage(system), user(text)),
            sampling=msgspec.structs.replace(sampling or route.sampling, max_tokens=max_tokens),
            deadline_s=deadline_s,
            session=session,
            stream=False,
            plans_calls=plans_calls,
            is_side_call=True,
        )
        try:
            answer, usage = await _read_answer(route, request)
        except BaseException as exc:
            self._not_answered(call, exc, Usage(estimate, estimated=True))
            raise
        guess = Usage(estimate, byte_length(answer) // BYTES_PER_TOKEN, estimated=True)
        return SideAnswer(answer.strip(), self._ledger.book(call, usage or guess))

    async def embed(self, route: Route, inputs: Inputs, payer: KeyBudget | None = None) -> EmbeddingResult:
        """Returns vectors and their usage, the backend's or our estimate. Raises what the provider raises, and
        BudgetExceeded."""
        guess = Usage(sum(map(_tokens_in, inputs)), estimated=True)
        asked = AdmittedCall(new_id("use"), "", route.name, Category.EMBED, guess.prompt_tokens, payer)
        call = await self._ledger.admit(asked, answer_tokens=0, deadline_s=_EMBEDDING_S)
        try:
            embedded = await route.provider.embed(route.info.id, inputs)
        except BaseException as exc:
            self._not_answered(call, exc, guess)
            raise
        return EmbeddingResult(embedded.vectors, self._ledger.book(call, embedded.usage or guess))

    def _not_answered(self, call: AdmittedCall, error: BaseException, asked: Usage) -> None:
        """A call that failed costs nothing. A call that was cancelled has been asked, and is paid for."""
        if isinstance(error, asyncio.CancelledError):
            self._ledger.book(call, asked)
        else:
            self._ledger.drop(call)


async def _read_answer(route: Route, request: StepRequest) -> tuple[str, Usage | None]:
    texts: list[str] = []
    usage: Usage | None = None
    async with route.provider.stream(request) as batches:
        async for batch in batches:
            texts += [chunk.text for chunk in batch if isinstance(chunk, TextDelta)]
            usage = next((chunk.usage for chunk in batch if isinstance(chunk, UsageChunk)), usage)
            if sum(map(len, texts)) > _MAX_CHARS:
                break
    return "".join(texts), usage


def _tokens_in(given: str | Ids) -> int:
    return -(-byte_length(given) // BYTES_PER_TOKEN) if isinstance(given, str) else len(given)
