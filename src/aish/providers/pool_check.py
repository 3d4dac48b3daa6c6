"""Whether an endpoint that says nothing thinks, or is gone.

A long prompt takes minutes before the first word of its answer. So does a host that has lost its power: nobody tells
that the connection is dead. What tells them apart is another question, for the models it has, which costs it nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aish.errors import ProviderError, ProviderTimeout, ProviderUnavailable
from aish.ports import Provider

# Of silence, before it is asked, and again after each answer.
SILENCE_S = 10.0
# It may be busy, but not so busy.
ANSWER_S = 10.0


@asynccontextmanager
async def watched(provider: Provider, *, silence_s: float, answer_s: float) -> AsyncIterator[None]:
    """For as long as the first word is waited for. ProviderUnavailable where the endpoint is gone."""
    try:
        async with asyncio.timeout(None) as patience:
            watch = asyncio.create_task(_watch(provider, patience, silence_s, answer_s))
            try:
                yield
            finally:
                watch.cancel()
    except TimeoutError as exc:
        if not patience.expired():
            raise
        silent_s = silence_s + answer_s
        raise ProviderUnavailable(f"{provider.name} has said nothing for {silent_s:g} s and lists no models") from exc


async def _watch(provider: Provider, patience: asyncio.Timeout, silence_s: float, answer_s: float) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(silence_s)
        if not await _is_there(provider, answer_s):
            patience.reschedule(loop.time())
            return


async def _is_there(provider: Provider, answer_s: float) -> bool:
    """Any answer will do, a refusal as well."""
    try:
        async with asyncio.timeout(answer_s):
            await provider.list_models()
    except (ProviderUnavailable, ProviderTimeout, TimeoutError):
        return False
    except ProviderError:
        pass
    return True
