"""What a compaction forgets: facts are told early, the session is compacted, and the facts are looked for.

    python bench/forgetting.py [MODEL]      the model that writes the notes; default embedded:smollm2

For each fact: is it in the notes that a real model wrote, and does `history__search` find it. The second has to hold
for all, whatever the model is.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from aish import app
from aish.engine.engine import Engine
from aish.providers.scripted import ScriptedProvider
from aish.types.chunks import CallFragment
from aish.types.events import TextDelta, ToolResult
from aish.types.messages import text_of, user
from aish.types.models import Capabilities, ModelProfile
from aish.types.requests import StepRequest, TurnRequest

# What is told, and the word that must not get lost.
FACTS = {
    "the staging server is called heron": "heron",
    "we decided to keep PostgreSQL 15 until March": "March",
    "Ines must approve each release": "Ines",
    "the login test fails only on port 8443": "8443",
    "never delete the folder attic": "attic",
    "the invoice number is 40721": "40721",
    "the parser lives in src/grammar/reader.py": "reader.py",
    "the budget is 1250 euros a month": "1250",
}
FILLER = "And tell me in a word that you have read it, so that we can go on with the next item of the list."


class Talker(ScriptedProvider):
    """The conversation's model: it says that it has read, and searches when it is asked to find."""

    def __init__(self) -> None:
        super().__init__("talker", {"model": self._say})

    def _say(self, request: StepRequest) -> list[TextDelta | CallFragment]:
        asked = request.messages[-1].text
        if asked.startswith("find "):
            return [CallFragment(0, "", "history__search", f'{{"query": "{asked[5:]}"}}')]
        return [TextDelta("Read.")]

    async def describe(self, model: str) -> ModelProfile:
        return ModelProfile(self.name, model, 4096, Capabilities(native_tools=True))


async def turn(engine: Engine, text: str, session: str) -> tuple[str, str]:
    """The session, and what the tools gave."""
    request = TurnRequest(input=(user(text),), model="talker:model", session=session, tools=("history__*",))
    given = ""
    async with engine.turn(request) as batches:
        async for events in batches:
            session = events[0].session
            given += "".join(text_of(event.body.parts) for event in events if isinstance(event.body, ToolResult))
    return session, given


async def measure(model: str) -> tuple[int, int, str]:
    """How many facts are in the notes, how many are found, and the notes."""
    cache = app.runtime([]).config.embedded.cache_dir
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(
            AISH_STORE__PATH=str(Path(home) / "aish.db"),
            AISH_CONTEXT__SUMMARY_MODEL=model,
            AISH_EMBEDDED__CACHE_DIR=str(cache),
        )
        async with app.runtime([]).engine(mcp=()) as engine:
            talker = Talker()
            engine.router.providers.add("talker", talker)  # type: ignore[attr-defined]
            session = ""
            for fact in FACTS:
                session, _ = await turn(engine, f"Note that {fact}. {FILLER}", session)
            session, _ = await turn(engine, "That was all.", session)
            await engine.compact(TurnRequest(input=(), model="talker:model", session=session))
            session, _ = await turn(engine, "What is next?", session)
            notes = next(message.text for message in talker.requests[-1].messages if "[earlier" in message.text)
            found = 0
            for fact, word in FACTS.items():
                _, given = await turn(engine, f"find {' '.join(fact.split()[1:4])}", session)
                found += word in given
    return sum(word in notes for word in FACTS.values()), found, notes


def main() -> int:
    kept, found, notes = asyncio.run(measure(sys.argv[1] if len(sys.argv) > 1 else "embedded:smollm2"))
    sys.stdout.write(f"{notes}\n\nin the notes   {kept} of {len(FACTS)}\nfound by search {found} of {len(FACTS)}\n")
    return int(found < len(FACTS))


if __name__ == "__main__":
    raise SystemExit(main())
