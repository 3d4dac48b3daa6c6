"""One turn at a time in a session, also where several processes share the store: whoever answers holds a note there.

A note of a process that has died counts for nothing.
"""

from __future__ import annotations

import asyncio

from aish.errors import SessionBusy
from aish.ports import Owners, Store
from aish.types.records import Document

KIND = "answering"
_LOOK_S = 0.05


async def hold_session(store: Store, session: str, owners: Owners, wait_s: float, gone: str = "") -> None:
    """Waits for others, but not longer than a turn may last. `gone` has lost the session though it may live. Raises
    SessionBusy."""
    mine = Document(KIND, session, owners.me.encode())
    loop = asyncio.get_running_loop()
    due_s = loop.time() + wait_s
    while not await store.put_new(mine):
        other = await store.find(KIND, session)
        if other is not None and ((holder := other.body.decode()) == gone or not owners.is_alive(holder)):
            await store.swap(mine, old=other.body)
            if (now := await store.find(KIND, session)) is not None and now.body == mine.body:
                return
        if loop.time() >= due_s:
            raise SessionBusy(f"another aish is still answering in session {session}", hint="wait for it to finish")
        await asyncio.sleep(_LOOK_S)


async def leave_session(store: Store, session: str, owners: Owners) -> None:
    found = await store.find(KIND, session)
    if found is not None and found.body == owners.me.encode():
        await store.delete(KIND, session)
