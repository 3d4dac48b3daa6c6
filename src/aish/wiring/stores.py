"""Which store keeps the conversations, out of the configuration. Each kind is imported only where it is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aish.ports import Store

if TYPE_CHECKING:
    from aish.config.schema import StoreConfig


def make_store(config: StoreConfig) -> Store:
    """Opens nothing yet: a store opens at its first use."""
    if not config.enabled:
        from aish.store.memory import MemoryStore

        return MemoryStore()
    if config.url:
        from aish.store.postgres.store import PostgresStore

        return PostgresStore(config.url.reveal())
    from aish.store.sqlite import SqliteStore

    return SqliteStore(Path(config.path))
