"""A bot that answers questions about tickets, built on the library: python examples/bot.py "what is open?"

Each line on stdin is one more question of the same conversation. AISH_MODEL names the model, such as local:qwen3.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from aish import Aish, Question, tool

TICKETS = Path(os.environ.get("TICKETS", "tickets.json"))


@tool(effect="read")
def tickets(state: str = "open") -> list[dict[str, object]]:
    """The tickets of a state, open or closed."""
    return [ticket for ticket in json.loads(TICKETS.read_text()) if ticket["state"] == state]


@tool(effect="write")
def close_ticket(id: int) -> str:
    """Closes a ticket."""
    found = json.loads(TICKETS.read_text())
    for ticket in found:
        if ticket["id"] == id:
            ticket["state"] = "closed"
    TICKETS.write_text(json.dumps(found, indent=2))
    return f"closed #{id}"


def approve(question: Question) -> bool:
    """The bot may close tickets, and nothing else."""
    return question.tool == "app__close_ticket"


async def main(questions: list[str], model: str = os.environ.get("AISH_MODEL", "")) -> None:
    session = ""
    async with Aish(model, tools=[tickets, close_ticket]) as aish:
        for question in questions:
            reply = await aish.ask(question, session=session, approve=approve)
            session = reply.session
            print(reply.text)


if __name__ == "__main__":
    given = [" ".join(sys.argv[1:])] if sys.argv[1:] else []
    asyncio.run(main([*given, *(line.strip() for line in sys.stdin if line.strip())]))
