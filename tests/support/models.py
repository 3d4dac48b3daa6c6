"""The real small model, kept between runs: in the cache of the real home, or where AISH_TEST_MODEL_CACHE says."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from aish.net.http.client import HttpClient
from aish.providers.model_store.cache import ModelCache

# Read at import, before any test gets a home of its own.
_ROOT = Path(os.environ.get("AISH_TEST_MODEL_CACHE") or Path.home() / ".cache" / "aish" / "models")

# Its threads wait for each other many times for each token: with as many as there are cores, whatever else runs makes
# it eight times slower. The console's test uses the default.
THREADS = 1


@pytest.fixture(scope="session")
def model_cache() -> ModelCache:
    """Holds smollm2; the first run on a machine pulls it."""
    cache = ModelCache(_ROOT)
    if cache.find("smollm2") is None:
        asyncio.run(_pull(cache))
    return cache


async def _pull(cache: ModelCache) -> None:
    http = HttpClient()
    try:
        await cache.pull("smollm2", report=lambda progress: None, fetch=http)
    finally:
        await http.aclose()
