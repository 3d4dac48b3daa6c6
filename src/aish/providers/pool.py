"""Several endpoints that serve the same models, as one provider.

A conversation stays with the member that has read it, as long as that is healthy: another one would have to read all of
it again. A new conversation goes to the least busy healthy member. A member that fails before its first chunk rests for
a while, and the next one is tried. After the first chunk there is no other try, since text that was sent cannot be
taken back. If all rest, the one that has rested longest is tried. A member that comes back gets a single request, and
more once it has begun to answer it. A member that lacks the model is skipped and stays healthy.

A member that is silent after a request may be thinking about a long prompt, or its host may have lost its power, which
nothing on the connection shows. So, as long as there is another healthy member, a silent one is asked for its models,
which costs it nothing. Any reply counts as alive. So does a refused connection: if the server had ended, its system
would have ended the request.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, OrderedDict
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
from aish.types.chunks import Batch
from aish.types.messages import UserMessage
from aish.types.models import Capabilities, ModelProfile
from aish.types.requests import EmbeddingResult, Inputs, StepRequest

# How much silence before a check, and between checks.
SILENCE_S = 10.0
# For the reply to a check. A busy member may miss one, but not two in a row.
ANSWER_S = 5.0
_MAX_UNANSWERED = 2
_CANCEL_WAIT_S = 1.0


@asynccontextmanager
async def watch_silence(provider: Provider, *, silence_s: float, answer_s: float) -> AsyncIterator[None]:
    """A context for waiting for the first chunk. Raises ProviderUnavailable if the endpoint is gone."""
    loop = asyncio.get_running_loop()
    checks: list[asyncio.Task[str]] = []
    try:
        async with asyncio.timeout(None) as patience:

            def check() -> None:
                checks.append(loop.create_task(_check_repeatedly(provider, patience, silence_s, answer_s)))

            timer = loop.call_later(silence_s, check)
            try:
                yield
            finally:
                timer.cancel()
                await _cancel_all(checks)
    except TimeoutError as exc:
        if not patience.expired():
            raise
        raise ProviderUnavailable(f"{checks[0].result()}; it had taken a request and said nothing") from exc


async def _check_repeatedly(provider: Provider, patience: asyncio.Timeout, silence_s: float, answer_s: float) -> str:
    """Ends the waiting when the endpoint is gone, and returns why."""
    unanswered = 0
    while True:
        why = await _check_once(provider, answer_s)
        unanswered = unanswered + 1 if why else 0
        if unanswered == _MAX_UNANSWERED:
            patience.reschedule(asyncio.get_running_loop().time())
            return why
        if not unanswered:
            await asyncio.sleep(silence_s)


async def _check_once(provider: Provider, answer_s: float) -> str:
    """Returns why there is no reply; "" if there is one."""
    try:
        async with asyncio.timeout(answer_s):
            await provider.list_models()
    except TimeoutError:
        return f"{provider.name}: no answer within {answer_s:g} s"
    except ProviderTimeout as exc:
        return exc.message
    except ProviderError:
        pass
    return ""


async def _cancel_all(tasks: list[asyncio.Task[str]]) -> None:
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=_CANCEL_WAIT_S)


T = TypeVar("T")

# Conversations whose member is remembered; an entry takes about 200 bytes.
_MAX_CONVERSATIONS = 20_000
# Many callers may begin in the same words. Their requests are spread when one member has so many more than another.
_MAX_MORE_IN_FLIGHT = 3
# Of each message at the beginning of a conversation, to tell conversations apart.
_OPENING_CHARS = 2000
# Long enough to spare requests the dead endpoint, short enough to notice its return.
REST_S = 10.0
# A busy endpoint may name its own time, up to this.
MAX_REST_S = 60.0
# Failures of the endpoint. A request that one refuses would be refused by the others, too.
_ENDPOINT_FAILURES = (ProviderUnavailable, ProviderTimeout, ProviderBusy, ProviderProtocolError)
_RETRYABLE = (*_ENDPOINT_FAILURES, ModelNotFound)


class _Member:
    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.in_flight = 0
        self.rests_until_s = 0.0
        self.failed_last = False  # its last request failed
        self.has_trial = False  # one request is trying it out

    def is_healthy(self, now_s: float) -> bool:
        return self.rests_until_s <= now_s and not self.has_trial

    def mark_healthy(self) -> None:
        self.failed_last = self.has_trial = False

    @contextmanager
    def in_use(self) -> Iterator[None]:
        tries = self.failed_last
        self.has_trial = self.has_trial or tries
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self.has_trial = self.has_trial and not tries


class _Homes:
    """The member that has read each conversation. The conversations used least recently are forgotten."""

    def __init__(self, max_conversations: int) -> None:
        self._max = max_conversations
        self._members: OrderedDict[str, _Member] = OrderedDict()
        self._counts: Counter[_Member] = Counter()

    def find(self, conversation: str) -> _Member | None:
        return self._members.get(conversation)

    def count(self, member: _Member) -> int:
        return self._counts[member]

    def note(self, conversation: str, member: _Member) -> None:
        before = self._members.pop(conversation, None)
        if before is None and len(self._members) >= self._max:
            _, before = self._members.popitem(last=False)
        if before is not None:
            self._counts[before] -= 1
        self._members[conversation] = member
        self._counts[member] += 1


def _conversation_of(request: StepRequest) -> tuple[str, bool]:
    """What the requests of one conversation have in common, and whether it is surely one conversation. That is its
    session or, if the client keeps the conversation, its beginning."""
    if request.conversation:
        return request.conversation, True
    opening: list[str] = []
    for message in request.messages:
        opening.append(message.text[:_OPENING_CHARS])
        if isinstance(message, UserMessage):
            break
    return f"{request.model}\0{hash(tuple(opening))}", False


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
        max_conversations: int = _MAX_CONVERSATIONS,
    ) -> None:
        self._name = name
        self._members = [_Member(provider) for provider in members]
        self._homes = _Homes(max_conversations)
        self._call_s = call_s  # after so long no other member is tried
        self._monotonic_s = monotonic_s
        self._watch = partial(watch_silence, silence_s=silence_s, answer_s=answer_s)

    @property
    def name(self) -> str:
        return self._name

    async def list_models(self) -> Sequence[ModelProfile]:
        return await self._try_members(lambda provider: provider.list_models())

    async def describe(self, model: str) -> ModelProfile:
        """Asks every member and reports what all of them support: any of them may serve the next request."""
        answers = await asyncio.gather(*(self._describe(member, model) for member in self._members))
        infos = [answer for answer in answers if isinstance(answer, ModelProfile)]
        if not infos:
            raise self._error_to_raise([answer for answer in answers if isinstance(answer, ProviderError)])
        sizes = [info.context_size for info in infos if info.context_size is not None]
        parameters = [info.parameters for info in infos if info.parameters is not None]
        capabilities = _common_capabilities([info.capabilities for info in infos])
        return ModelProfile(self._name, model, min(sizes, default=None), capabilities, min(parameters, default=None))

    @asynccontextmanager
    async def stream(
        self, request: StepRequest, relay: TextRelay | None = None
    ) -> AsyncIterator[AsyncGenerator[Batch, None]]:
        async with aclosing(self._batches(request, relay)) as batches:
            yield batches

    def prepare(self, request: StepRequest) -> StepRequest:
        """The same for any member, since they serve the same models in the same way."""
        return self._members[0].provider.prepare(request) if self._members else request

    async def count_tokens(self, model: str, text: str) -> int | None:
        for member in self._in_order()[:1]:
            return await member.provider.count_tokens(model, text)
        return None

    async def count_prompt(self, request: StepRequest) -> int | None:
        for member in self._in_order()[:1]:
            return await member.provider.count_prompt(request)
        return None

    async def embed(self, model: str, inputs: Inputs) -> EmbeddingResult:
        return await self._try_members(lambda provider: provider.embed(model, inputs))

    async def aclose(self) -> None:
        for member in self._members:
            await member.provider.aclose()

    async def _describe(self, member: _Member, model: str) -> ModelProfile | ProviderError:
        try:
            return await member.provider.describe(model)
        except ProviderError as exc:
            self._note_failure(member, exc)
            return exc

    async def _batches(self, request: StepRequest, relay: TextRelay | None) -> AsyncGenerator[Batch, None]:
        began_s = self._monotonic_s()
        failures: list[ProviderError] = []
        conversation, is_sure = _conversation_of(request)
        order = self._in_order(self._home_of(conversation, is_sure=is_sure))
        for index, member in enumerate(order):
            taken_s = self._monotonic_s() - began_s
            if failures and taken_s >= min(request.deadline_s, self._call_s):
                break
            begun = False
            try:
                left = msgspec.structs.replace(request, deadline_s=request.deadline_s - taken_s)
                async with aclosing(_stream_from(member, left, relay)) as batches:
                    async with self._silence_watch(member, order[index + 1 :]):
                        first = await anext(batches, None)
                    if first is None:
                        raise ProviderProtocolError(f"{self._name} answered with nothing")
                    begun = True
                    member.mark_healthy()
                    self._homes.note(conversation, member)
                    yield first
                    async for batch in batches:
                        yield batch
                member.rests_until_s = 0.0
                return
            except _RETRYABLE as exc:
                self._note_failure(member, exc)
                if begun or (isinstance(exc, ProviderTimeout) and exc.is_deadline):  # no time is left to ask another
                    raise
                failures.append(exc)
        raise self._error_to_raise(failures)

    def _silence_watch(self, member: _Member, others: Sequence[_Member]) -> AbstractAsyncContextManager[None]:
        """Does not watch where there is no other member to turn to."""
        now_s = self._monotonic_s()
        return self._watch(member.provider) if any(each.is_healthy(now_s) for each in others) else nullcontext()

    async def _try_members(self, do: Callable[[Provider], Awaitable[T]]) -> T:
        failures: list[ProviderError] = []
        order = self._in_order()
        for index, member in enumerate(order):
            try:
                with member.in_use():
                    async with self._silence_watch(member, order[index + 1 :]):
                        return await do(member.provider)
            except _RETRYABLE as exc:
                self._note_failure(member, exc)
                failures.append(exc)
        raise self._error_to_raise(failures)

    def _home_of(self, conversation: str, *, is_sure: bool) -> _Member | None:
        home = self._homes.find(conversation)
        if home is None or is_sure:
            return home
        is_overloaded = home.in_flight > min(member.in_flight for member in self._members) + _MAX_MORE_IN_FLIGHT
        return None if is_overloaded else home

    def _in_order(self, home: _Member | None = None) -> list[_Member]:
        """Healthy members first: the home of the conversation, then the least busy, then the one with the fewest
        conversations. Then resting ones, the longest rested first."""
        now_s = self._monotonic_s()
        healthy = [member for member in self._members if member.is_healthy(now_s)]
        resting = [member for member in self._members if not member.is_healthy(now_s)]
        healthy.sort(key=lambda m: (m is not home, m.in_flight, self._homes.count(m)))
        return [*healthy, *sorted(resting, key=lambda m: m.rests_until_s)]

    def _note_failure(self, member: _Member, error: ProviderError) -> None:
        if isinstance(error, _ENDPOINT_FAILURES):
            asked_s = error.retry_after_s if isinstance(error, ProviderBusy) else None
            member.rests_until_s = self._monotonic_s() + min(asked_s or REST_S, MAX_REST_S)
            member.failed_last = True

    def _error_to_raise(self, failures: Sequence[ProviderError]) -> ProviderError:
        """Prefers a refusal or a missing model: it says more than that another member was away."""
        refusals = [failure for failure in failures if not isinstance(failure, _ENDPOINT_FAILURES)]
        nothing = ProviderUnavailable(f"{self._name} has no endpoints")
        return next(iter([*refusals, *reversed(failures)]), nothing)


def _common_capabilities(all_capabilities: Sequence[Capabilities]) -> Capabilities:
    return Capabilities(
        native_tools=all(can.native_tools for can in all_capabilities),
        constrained=frozenset.intersection(*(can.constrained for can in all_capabilities)),
        tokenize=all(can.tokenize for can in all_capabilities),
        vision=all(can.vision for can in all_capabilities),
        embeddings=all(can.embeddings for can in all_capabilities),
    )


async def _stream_from(member: _Member, request: StepRequest, relay: TextRelay | None) -> AsyncGenerator[Batch, None]:
    with member.in_use():
        async with member.provider.stream(request, relay) as batches:
            async for batch in batches:
                yield batch
