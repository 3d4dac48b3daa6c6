"""The contract of a provider: what every backend has to keep, see `aish.ports.Provider`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec

from aish.errors import ProviderError, ProviderTimeout
from aish.ports import Provider
from aish.testing.contracts import END_S, run_checks
from aish.types.chunks import Chunk, StepFinished
from aish.types.events import TextDelta
from aish.types.messages import user
from aish.types.requests import StepRequest

_DEADLINE_S = 30.0
_NO_MODEL = "no-such-model-of-the-contract"
_SHOWN_CHARS = 200
_TEXTS = ("one two", "", "\udcff \ud83d", "x" * 100_000)


class _Subject(msgspec.Struct, frozen=True):
    make: Callable[[], Provider]
    model: str

    def request(self, deadline_s: float = _DEADLINE_S, model: str = "") -> StepRequest:
        return StepRequest(model or self.model, (user("Say a few words."),), deadline_s=deadline_s)


async def provider_contract(make: Callable[[], Provider], *, model: str) -> None:
    """Holds a provider to its contract. `make` makes one whose backend answers; `model` is one of its models, which
    answers the same request with the same text each time. Raises ContractBroken, which names every promise that is
    broken."""
    checks = (
        _the_last_chunk_finishes, _answers_again, _leaving_early_ends_the_request, _lets_exceptions_through,
        _can_be_cancelled, _keeps_the_deadline, _fails_with_provider_errors, _counting_never_raises,
        _what_is_listed_can_be_described, _preparing_is_pure, _relayed_words_are_in_no_batch, _embeds_each_input,
        _closing_twice_is_allowed,
    )  # fmt: skip
    await run_checks("provider", checks, _Subject(make, model))


async def _the_last_chunk_finishes(subject: _Subject) -> None:
    """The last chunk of an answer, and no other, is StepFinished."""
    async with _open_provider(subject) as provider:
        chunks = await _ask(provider, subject.request())
    finishes = [isinstance(chunk, StepFinished) for chunk in chunks]
    assert finishes and finishes[-1], "the answer has no end"
    assert not any(finishes[:-1]), "something came after the end"


async def _answers_again(subject: _Subject) -> None:
    """One provider answers again, and several requests at once."""
    async with _open_provider(subject) as provider:
        await _ask(provider, subject.request())
        answers = await asyncio.gather(*(_ask(provider, subject.request()) for _ in range(3)))
    assert all(isinstance(chunks[-1], StepFinished) for chunks in answers), "an answer has no end"


async def _leaving_early_ends_the_request(subject: _Subject) -> None:
    """A stream can be left after its first batch, and before it."""
    async with _open_provider(subject) as provider:
        async with provider.stream(subject.request()) as batches:
            await anext(batches)
        async with provider.stream(subject.request()):
            pass
        await _ask(provider, subject.request())


async def _lets_exceptions_through(subject: _Subject) -> None:
    """An exception of the reader leaves the stream as it is."""
    async with _open_provider(subject) as provider:
        with suppress(ZeroDivisionError):
            async with provider.stream(subject.request()) as batches:
                await anext(batches)
                raise ZeroDivisionError
            raise AssertionError("the exception was swallowed")


async def _can_be_cancelled(subject: _Subject) -> None:
    """Cancelling the reader ends it with CancelledError."""
    begun = asyncio.Event()

    async def read(provider: Provider) -> None:
        try:
            async with provider.stream(subject.request()) as batches:
                await anext(batches)
                begun.set()
                await asyncio.Event().wait()
        finally:
            begun.set()

    async with _open_provider(subject) as provider:
        task = asyncio.ensure_future(read(provider))
        try:
            await begun.wait()
        finally:
            task.cancel()
            done, _ = await asyncio.wait({task}, timeout=END_S)
        assert done, f"it did not end within {END_S:g} s"
        if not task.cancelled():
            task.result()
            raise AssertionError("it ended otherwise")


async def _keeps_the_deadline(subject: _Subject) -> None:
    """A deadline that has passed is a ProviderTimeout with `is_deadline`."""
    async with _open_provider(subject) as provider:
        try:
            await _ask(provider, subject.request(deadline_s=0.0))
        except ProviderTimeout as exc:
            assert exc.is_deadline, "is_deadline is not set"
        else:
            raise AssertionError("it answered")


async def _fails_with_provider_errors(subject: _Subject) -> None:
    """A model that does not exist is a ProviderError with a message."""
    async with _open_provider(subject) as provider:
        try:
            await _ask(provider, subject.request(model=_NO_MODEL))
        except ProviderError as exc:
            assert exc.message, "the error has no message"
        else:
            raise AssertionError("it answered")


async def _counting_never_raises(subject: _Subject) -> None:
    """Counting tokens gives a number or None, for any text."""
    async with _open_provider(subject) as provider:
        for text in _TEXTS:
            count = await provider.count_tokens(subject.model, text)
            assert count is None or count >= 0, f"{count} tokens"
        prompt = await provider.count_prompt(subject.request())
        assert prompt is None or prompt >= 0, f"{prompt} tokens"


async def _what_is_listed_can_be_described(subject: _Subject) -> None:
    """Every listed model has the provider's name, and can be described."""
    async with _open_provider(subject) as provider:
        for listed in await provider.list_models():
            assert listed.provider == provider.name, f"{listed.provider} is not {provider.name}"
            assert (await provider.describe(listed.id)).id == listed.id, "it is described as another"


async def _preparing_is_pure(subject: _Subject) -> None:
    """Preparing a request changes nothing and gives the same each time."""
    request = subject.request()
    before = msgspec.json.encode(request)
    async with _open_provider(subject) as provider:
        assert provider.prepare(request) == provider.prepare(request), "it differs"
    assert msgspec.json.encode(request) == before, "the request was changed"


async def _relayed_words_are_in_no_batch(subject: _Subject) -> None:
    """Words that a relay has taken, and those in batches, are the whole answer together."""
    relay = _Relay()
    async with _open_provider(subject) as provider:
        plain = "".join(map(_text_of, await _ask(provider, subject.request())))
        async with provider.stream(subject.request(), relay) as batches:
            async for batch in batches:
                relay.has_begun = True
                relay.texts += map(_text_of, batch)
    assert not relay.was_early, "it was offered text before the first batch"
    whole = "".join(relay.texts)
    assert whole == plain, f"it is {whole[:_SHOWN_CHARS]!r}, and {plain[:_SHOWN_CHARS]!r} without a relay"


async def _embeds_each_input(subject: _Subject) -> None:
    """Embedding gives a vector for each input, or a ProviderError."""
    async with _open_provider(subject) as provider:
        with suppress(ProviderError):
            found = await provider.embed(subject.model, ["one", "two"])
            assert len(found.vectors) == 2, f"{len(found.vectors)} vectors for 2 inputs"


async def _closing_twice_is_allowed(subject: _Subject) -> None:
    """Closing can be repeated."""
    provider = subject.make()
    await provider.aclose()
    await provider.aclose()


@asynccontextmanager
async def _open_provider(subject: _Subject) -> AsyncIterator[Provider]:
    provider = subject.make()
    try:
        yield provider
    finally:
        await provider.aclose()


def _text_of(chunk: Chunk) -> str:
    return chunk.text if isinstance(chunk, TextDelta) else ""


class _Relay:
    """Takes every other word."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.has_begun = self.was_early = self._takes = False

    def scan_with(self, passes: Callable[[str], bool]) -> None:
        pass

    def accept(self, text: str) -> bool:
        self.was_early = self.was_early or not self.has_begun
        self._takes = not self._takes
        if self._takes:
            self.texts.append(text)
        return self._takes


async def _ask(provider: Provider, request: StepRequest) -> list[Chunk]:
    async with provider.stream(request) as batches:
        return [chunk async for batch in batches for chunk in batch]
