"""Whether an endpoint that says nothing thinks, or is gone.

A long prompt takes minutes before the first word of its answer. So does a host that has lost its power: nobody tells
that the connection is dead. What tells them apart is another question, for the models it has, which costs it nothing.
Any answer will do, and so will a connection refused: had the server ended, its system would have ended the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aish.errors import ProviderError, ProviderTimeout, ProviderUnavailable
from aish.ports import Provider

# Of silence, before it is asked, and again after each answer.
SILENCE_S = 10.0
# For an answer. It may be busy, but not so busy that it leaves two questions in a row unanswered.
ANSWER_S = 5.0
_QUESTIONS = 2
_END_S = 1.0


@asynccontextmanager
async def watched(provider: Provider, *, silence_s: float, answer_s: float) -> AsyncIterator[None]:
    """For as long as the first word is waited for. ProviderUnavailable where the endpoint is gone."""
    loop = asyncio.get_running_loop()
    checks: list[asyncio.Task[str]] = []
    try:
        async with asyncio.timeout(None) as patience:

            def check() -> None:
                checks.append(loop.create_task(_gone(provider, patience, silence_s, answer_s)))

            timer = loop.call_later(silence_s, check)
            try:
                yield
            finally:
                timer.cancel()
                await _end(checks)
    except TimeoutError as exc:
        if not patience.expired():
            raise
        raise ProviderUnavailable(f"{checks[0].result()}; it had taken a request and said nothing") from exc


async def _gone(provider: Provider, patience: asyncio.Timeout, silence_s: float, answer_s: float) -> str:
    """Ends all patience when it is gone, and says why."""
    unanswered = 0
    while True:
        why = await _silence(provider, answer_s)
        unanswered = unanswered + 1 if why else 0
        if unanswered == _QUESTIONS:
            patience.reschedule(asyncio.get_running_loop().time())
            return why
        if not unanswered:
            await asyncio.sleep(silence_s)


async def _silence(provider: Provider, answer_s: float) -> str:
    """What there is of it, in words; nothing where it answers."""
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


async def _end(tasks: list[asyncio.Task[str]]) -> None:
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=_END_S)
