"""Deletes old sessions."""

from __future__ import annotations

from aish.ports import Store

_DAY_MS = 86_400_000
# Each is a durable write. A portion takes well below a second, so shutting down does not wait longer.
_AT_ONCE = 100


async def forget_old_sessions(store: Store, *, keep_days: int, now_ms: int) -> int:
    """Deletes sessions that were not used for this long, in portions. Returns how many."""
    before_ms = max(0, now_ms - keep_days * _DAY_MS)
    old = await store.list_sessions(limit=_AT_ONCE, before=(before_ms, ""))
    for session in old:
        await store.delete_session(session.id)
    return len(old)
