"""Writes turns for ever and says on stdout, line by line, what the store has acknowledged. Run by test_crash."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from aish.ports import Store
from aish.storage.postgres.store import PostgresStore
from aish.storage.sqlite.store import SqliteStore
from aish.types.events import TurnEnd
from aish.types.messages import AssistantMessage, user
from aish.types.records import SessionRecord, TurnRecord
from aish.types.usage import Usage


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def write_turns(store: Store, session: str) -> None:
    await store.create_session(SessionRecord(session, 1, 1))
    say("session", session)
    for index in range(1_000_000):
        turn = f"turn_{session}_{index}"
        number = await store.start_turn(TurnRecord(turn, session, 0, "m", 1, (user(turn),)))
        say("started", turn, number)
        for seq in range(1, 21):
            store.append_events(turn, seq, seq, b'{"seq":%d,"turn":"%s"}\n' % (seq, turn.encode()))
            if seq % 7 == 0:
                await store.flush()
                say("flushed", turn, seq)
        await store.finish_turn(
            turn, end=TurnEnd.ANSWERED, finished_ms=2, messages=(AssistantMessage(turn),), usage=Usage(index)
        )
        say("finished", turn, 20)


async def main(place: Path | str, process: str) -> None:
    url = str(place)
    store: Store = PostgresStore(url) if url.startswith("postgresql:") else SqliteStore(Path(place))
    async with asyncio.TaskGroup() as group:
        for index in range(4):
            group.create_task(write_turns(store, f"sess_{process}_{index}"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
