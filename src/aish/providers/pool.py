"""Several endpoints that serve the same models, as one provider.

The least busy healthy one is asked. One that fails before its first chunk is set aside for a while and the next is
tried; after the first chunk there is no way back, since what was said cannot be unsaid. When all are set aside, the one
that has waited longest is tried all the same. One that comes back is given one request, and more when it has begun to
answer that. One that lacks the model is passed over, and is as healthy as before. One that takes a request and says
nothing is asked whether it is there at all (`pool_check`), as long as there is a healthy one to go on to.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import TypeVar

import msgspec

from aish.errors import (
    ModelNotFound,
    ProviderBusy,
    ProviderError,
    ProviderProtocolError,
    ProviderTimeout,
    ProviderUnavailable,
)
from aish.ports import Provider, TextRelay
from aish.providers.pool_health import ANSWER_S, SILENCE_S, watched
from aish.types.chunks import Batch
from aish.types.embeddings import Embedded, Inputs
from aish.types.models import Capabilities, ModelInfo
from aish.types.requests import StepRequest

T = TypeVar("T")

# Long enough not to stumble over a dead endpoint on every request, short enough to notice its return.
REST_S = 10.0
# A busy one may name its own time, within reason.
MAX_REST_S = 60.0
# Failures of the endpoint. A refused request would be refused by the others, too.
_OF_THE_ENDPOINT = (ProviderUnavailable, ProviderTimeout, ProviderBusy, ProviderProtocolError)
_TRY_ANOTHER = (*_OF_THE_ENDPOINT, ModelNotFound)


class _Member:
    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.in_flight = 0
        self.rests_until_s = 0.0
        self.is_doubted = False  # it failed last
        self.is_tried = False  # and a request is about to find out

    def is_healthy(self, now_s: float) -> bool:
        return self.rests_until_s <= now_s and not self.is_tried

    def answered(self) -> None:
        self.is_doubted = self.is_tried = False

    @contextmanager
    def asked(self) -> Iterator[None]:
        tries = self.is_doubted
        self.is_tried = self.is_tried or tries
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self.is_tried = self.is_tried and not tries


class PoolProvider:
    def __init__(
        self,
        name: str,
        members: Sequence[Provider],
        *,
        call_s: float = math.inf,
        monotonic_s: Callable[[], float] = time.monotonic,
        silence_s: float = SILENCE_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._name = name
        self._members = [_Member(provider) for provider in members]
        self._call_s = call_s  # no other is asked after so long
        self._monotonic_s = monotonic_s
        self._watched = partial(watched, silence_s=silence_s, answer_s=answer_s)

    @property
    def name(self) -> str:
        return self._name

    async def list_models(self) -> Sequence[ModelInfo]:
        return await self._first_to(lambda provider: provider.list_models())

    async def describe(self, model: str) -> ModelInfo:
        """Asks every member, and promises only what all can keep: any of them may serve the next request."""
        answers = await asyncio.gather(*(self._describe(member, model) for member in self._members))
        infos = [answer for answer in answers if isinstance(answer, ModelInfo)]
        if not infos:
            raise self._worst([answer for answer in answers if isinstance(answer, ProviderError)])
        sizes = [info.context_size for info in infos if info.context_size is not None]
        parameters = [info.parameters for info in infos if info.parameters is not None]
        capabilities = _shared([info.capabilities for info in infos])
        return ModelInfo(self._name, model, min(sizes, default=None), capabilities, min(parameters, default=None))

    @asynccontextmanager
    async def stream(
        self, request: StepRequest, relay: TextRelay | None = None
    ) -> AsyncIterator[AsyncGenerator[Batch, None]]:
        async with aclosing(self._batches(request, relay)) as batches:
            yield batches

    def prepared(self, request: StepRequest) -> StepRequest:
        """As by any member: they serve the same models in the same way."""
        return self._members[0].provider.prepared(request) if self._members else request

    async def count_tokens(self, model: str, text: str) -> int | None:
        for member in self._in_order()[:1]:
            return await member.provider.count_tokens(model, text)
        return None

    async def count_prompt(self, request: StepRequest) -> int | None:
        for member in self._in_order()[:1]:
            return await member.provider.count_prompt(request)
        return None

    async def embed(self, model: str, inputs: Inputs) -> Embedded:
        return await self._first_to(lambda provider: provider.embed(model, inputs))

    async def aclose(self) -> None:
        for member in self._members:
            await member.provider.aclose()

    async def _describe(self, member: _Member, model: str) -> ModelInfo | ProviderError:
        try:
            return await member.provider.describe(model)
        except ProviderError as exc:
            self._rest_after(member, exc)
            return exc

    async def _batches(self, request: StepRequest, relay: TextRelay | None) -> AsyncGenerator[Batch, None]:
        began_s = self._monotonic_s()
        failures: list[ProviderError] = []
        order = self._in_order()
        for place, member in enumerate(order):
            taken_s = self._monotonic_s() - began_s
            if failures and taken_s >= min(request.deadline_s, self._call_s):
                break
            begun = False
            try:
                left = msgspec.structs.replace(request, deadline_s=request.deadline_s - taken_s)
                async with aclosing(_counted(member, left, relay)) as batches:
                    async with self._patience(member, order[place + 1 :]):
                        first = await anext(batches, None)
                    if first is None:
                        raise ProviderProtocolError(f"{self._name} answered with nothing")
                    begun = True
                    member.answered()
                    yield first
                    async for batch in batches:
                        yield batch
                member.rests_until_s = 0.0
                return
            except _TRY_ANOTHER as exc:
                self._rest_after(member, exc)
                if begun or (isinstance(exc, ProviderTimeout) and exc.is_deadline):  # no time is left to ask another
                    raise
                failures.append(exc)
        raise self._worst(failures)

    def _patience(self, member: _Member, others: Sequence[_Member]) -> AbstractAsyncContextManager[None]:
        """Without end where there is nobody to go on to."""
        now_s = self._monotonic_s()
        return self._watched(member.provider) if any(each.is_healthy(now_s) for each in others) else nullcontext()

    async def _first_to(self, do: Callable[[Provider], Awaitable[T]]) -> T:
        failures: list[ProviderError] = []
        order = self._in_order()
        for place, member in enumerate(order):
            try:
                with member.asked():
                    async with self._patience(member, order[place + 1 :]):
                        return await do(member.provider)
            except _TRY_ANOTHER as exc:
                self._rest_after(member, exc)
                failures.append(exc)
        raise self._worst(failures)

    def _in_order(self) -> list[_Member]:
        """Healthy ones first, the least busy of them first; then those that rest, the longest rested first."""
        now_s = self._monotonic_s()
        healthy = [member for member in self._members if member.is_healthy(now_s)]
        resting = [member for member in self._members if not member.is_healthy(now_s)]
        return [*sorted(healthy, key=lambda m: m.in_flight), *sorted(resting, key=lambda m: m.rests_until_s)]

    def _rest_after(self, member: _Member, error: ProviderError) -> None:
        if isinstance(error, _OF_THE_ENDPOINT):
            asked_s = error.retry_after_s if isinstance(error, ProviderBusy) else None
            member.rests_until_s = self._monotonic_s() + min(asked_s or REST_S, MAX_REST_S)
            member.is_doubted = True

    def _worst(self, failures: Sequence[ProviderError]) -> ProviderError:
        """One to tell: a refusal or a missing model says more than that another was away."""
        telling = [failure for failure in failures if not isinstance(failure, _OF_THE_ENDPOINT)]
        nothing = ProviderUnavailable(f"{self._name} has no endpoints")
        return next(iter([*telling, *reversed(failures)]), nothing)


def _shared(all_capabilities: Sequence[Capabilities]) -> Capabilities:
    return Capabilities(
        native_tools=all(can.native_tools for can in all_capabilities),
        constrained=frozenset.intersection(*(can.constrained for can in all_capabilities)),
        tokenize=all(can.tokenize for can in all_capabilities),
        vision=all(can.vision for can in all_capabilities),
        embeddings=all(can.embeddings for can in all_capabilities),
    )


async def _counted(member: _Member, request: StepRequest, relay: TextRelay | None) -> AsyncGenerator[Batch, None]:
    with member.asked():
        async with member.provider.stream(request, relay) as batches:
            async for batch in batches:
                yield batch
