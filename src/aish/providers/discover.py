"""Looks for model servers that already run on this machine: all well-known places at once, half a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from aish.config.schema import DiscoveryConfig, ServerConfig
from aish.errors import AishError
from aish.ports import Provider


async def discover(settings: DiscoveryConfig, make_provider: Callable[[ServerConfig], Provider]) -> Sequence[Provider]:
    """Those that list at least one model, in the order of the settings."""
    probes = (_probe(make_provider(server), settings.timeout_s) for server in settings.servers)
    return [provider for provider in await asyncio.gather(*probes) if provider is not None]


async def _probe(provider: Provider, timeout_s: float) -> Provider | None:
    """Something else may listen there, or nothing: neither is worth a word."""
    try:
        async with asyncio.timeout(timeout_s):
            return provider if await provider.list_models() else None
    except (AishError, TimeoutError):
        return None
