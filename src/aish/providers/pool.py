"""Several endpoints that serve the same models, as one provider.

The least busy healthy one is asked. One that fails before its first chunk is set aside for a while and the next is
tried; after the first chunk there is no way back, since what was said cannot be unsaid. When all are set aside, the one
that has waited longest is tried all the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

import msgspec

from aish.errors import ProviderBusy, ProviderError, ProviderProtocolError, ProviderTimeout, ProviderUnavailable
from aish.ports import Provider
from aish.types.chunks import Chunk
from aish.types.models import ModelInfo
from aish.types.requests import StepRequest

T = TypeVar("T")

# Long enough not to stumble over a dead endpoint on every request, short enough to notice its return.
REST_S = 10.0
# Failures of the endpoint. A refused request would be refused by the others, too.
_OF_THE_ENDPOINT = (ProviderUnavailable, ProviderTimeout, ProviderBusy, ProviderProtocolError)


class _Member:
    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.in_flight = 0
        self.rests_until_s = 0.0


class PoolProvider:
    def __init__(
        self, name: str, members: Sequence[Provider], *, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._members = [_Member(provider) for provider in members]
        self._monotonic_s = monotonic_s

    @property
    def name(self) -> str:
        return self._name

    async def list_models(self) -> Sequence[ModelInfo]:
        return await self._first_to(lambda provider: provider.list_models())

    async def describe(self, model: str) -> ModelInfo:
        """Asks every member; the window is the smallest, since any of them may serve the next request."""
        answers = await asyncio.gather(*(m.provider.describe(model) for m in self._members), return_exceptions=True)
        infos = [answer for answer in answers if isinstance(answer, ModelInfo)]
        if not infos:
            raise next(answer for answer in answers if isinstance(answer, BaseException))
        sizes = [info.context_size for info in infos if info.context_size is not None]
        return msgspec.structs.replace(infos[0], context_size=min(sizes, default=None))

    @asynccontextmanager
    async def stream(self, request: StepRequest) -> AsyncIterator[AsyncGenerator[Chunk, None]]:
        async with aclosing(self._chunks(request)) as chunks:
            yield chunks

    async def count_tokens(self, model: str, text: str) -> int | None:
        return await self._in_order()[0].provider.count_tokens(model, text)

    async def embed(self, model: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return await self._first_to(lambda provider: provider.embed(model, texts))

    async def aclose(self) -> None:
        for member in self._members:
            await member.provider.aclose()

    async def _chunks(self, request: StepRequest) -> AsyncGenerator[Chunk, None]:
        deadline_s = self._monotonic_s() + request.deadline_s
        failure: ProviderError | None = None
        for member in self._in_order():
            left_s = deadline_s - self._monotonic_s()
            if failure is not None and left_s <= 0:
                break
            begun = False
            try:
                async with aclosing(_counted(member, msgspec.structs.replace(request, deadline_s=left_s))) as chunks:
                    async for chunk in chunks:
                        begun = True
                        yield chunk
                member.rests_until_s = 0.0
                return
            except _OF_THE_ENDPOINT as exc:
                self._rest(member)
                if begun:
                    raise
                failure = exc
        raise failure or ProviderUnavailable(f"{self._name} has no endpoints")

    async def _first_to(self, do: Callable[[Provider], Awaitable[T]]) -> T:
        failure: ProviderError | None = None
        for member in self._in_order():
            try:
                return await do(member.provider)
            except _OF_THE_ENDPOINT as exc:
                self._rest(member)
                failure = exc
        raise failure or ProviderUnavailable(f"{self._name} has no endpoints")

    def _in_order(self) -> list[_Member]:
        """Healthy ones first, the least busy of them first; then those that rest, the longest rested first."""
        now_s = self._monotonic_s()
        healthy = [member for member in self._members if member.rests_until_s <= now_s]
        resting = [member for member in self._members if member.rests_until_s > now_s]
        return [*sorted(healthy, key=lambda m: m.in_flight), *sorted(resting, key=lambda m: m.rests_until_s)]

    def _rest(self, member: _Member) -> None:
        member.rests_until_s = self._monotonic_s() + REST_S


async def _counted(member: _Member, request: StepRequest) -> AsyncGenerator[Chunk, None]:
    member.in_flight += 1
    try:
        async with member.provider.stream(request) as chunks:
            async for chunk in chunks:
                yield chunk
    finally:
        member.in_flight -= 1
