"""Which store keeps the conversations, out of the configuration. Each kind is imported only where it is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aish.ports import Store

if TYPE_CHECKING:
    from aish.config.schema.config import StoreConfig


def make_store(config: StoreConfig) -> Store:
    """Opens nothing yet: a store opens at its first use."""
    if not config.enabled:
        from aish.storage.memory import MemoryStore

        return MemoryStore()
    if config.url:
        from aish.storage.postgres.store import PostgresStore

        return PostgresStore(config.url.reveal())
    from aish.storage.sqlite.store import SqliteStore

    return SqliteStore(Path(config.path))
