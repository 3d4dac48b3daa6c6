"""Looks for model servers that already run on this machine: asks all configured addresses at once, for half a
second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from aish.config.schema.models import DiscoveryConfig, ServerConfig
from aish.errors import AishError
from aish.ports import Provider


async def discover(settings: DiscoveryConfig, make_provider: Callable[[ServerConfig], Provider]) -> Sequence[Provider]:
    """Returns the servers that list at least one model, in the order of the settings. Of two names for one address, the
    first."""
    probes = (_probe(make_provider(server), settings.timeout_s) for server in settings.servers)
    found: dict[str, Provider] = {}
    for server, provider in zip(settings.servers, await asyncio.gather(*probes), strict=True):
        if provider is not None:
            found.setdefault(_address(server.url), provider)
    return list(found.values())


async def _probe(provider: Provider, timeout_s: float) -> Provider | None:
    """Another program may listen there, or none: neither is reported."""
    try:
        async with asyncio.timeout(timeout_s):
            return provider if await provider.list_models() else None
    except (AishError, TimeoutError):
        return None


def _address(url: str) -> str:
    """Host and port. A server is the same under any path and any name of its host."""
    parts = urlsplit(url)
    if not parts.hostname:
        return url
    host = "127.0.0.1" if parts.hostname in ("localhost", "::1") else parts.hostname
    return f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
