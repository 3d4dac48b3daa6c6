"""What the model sees, measured: how true our counts are, whether a window is kept, and what composing costs.

    python bench/context.py            everything; needs the embedded model (`aish models pull smollm2`)
    python bench/context.py --quick    ten conversations instead of fifty

Counts are compared with the `prompt_tokens` that the embedded llama.cpp reports for the very same request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aish import app
from aish.engine.engine import Engine
from aish.engine.model.router import Route, Router
from aish.engine.prompt.composer import Composer, SystemParts
from aish.engine.prompt.history_cache import PastTurn
from aish.engine.prompt.token_counts import TokenCounter
from aish.engine.prompt.window import budget_for
from aish.ports import Provider, TextRelay
from aish.process.clock import SystemClock
from aish.process.liveness import ProcessOwners
from aish.providers.scripted import ScriptedProvider
from aish.safety.redaction.redactor import Redactor
from aish.storage.memory import MemoryStore
from aish.tools.registry import Registry
from aish.types.chunks import Batch, UsageChunk
from aish.types.context import ContextRules
from aish.types.events import TextDelta
from aish.types.messages import AssistantMessage, Message, TextPart, ToolCall, ToolMessage, user
from aish.types.models import Capabilities, ModelProfile
from aish.types.requests import Sampling, StepRequest, TurnRequest
from aish.types.tools import Effect, ToolSpec

WINDOW = 4096
BARS = {"worst count off, %": 2.0, "compose 2 000 turns, ms": 5.0}

PROSE = (
    "The ferry leaves the north pier at a quarter past seven, unless the wind is above six, in which case nobody knows."
    " My aunt keeps her seeds in labelled jam jars, sorted by the month in which they like to be forgotten. "
)
CODE = (
    "def fold(items: list[int], *, start: int = 0) -> int:\n    total = start\n    for item in items:\n"
    "        total += item if item % 2 else -item\n    return total\n\nassert fold([1, 2, 3]) == 2  # -> {'ok': True}\n"
)
CHINESE = "请帮我看看这个目录里有哪些文件比较大，并且告诉我可以删除哪些旧的日志。今天下午三点之前完成就可以。"
EMOJI = "Done ✅ — shipped 🚀🚀 with 3 fixes 🐛🔧 and a 👩‍💻 review; naïve café façade ☕️ — ½ price! "
LOG = (
    "2026-11-15T09:14:03.512Z ERROR [worker-7] pool.py:212 timeout after 30.0s (attempt 3/5) "
    "id=7f3a9c2e path=/var/lib/app/q.db\n"
)
KINDS = {"prose": PROSE, "code": CODE, "chinese": CHINESE, "emoji": EMOJI, "log": LOG}


def tools(rng: random.Random) -> tuple[ToolSpec, ...]:
    number = rng.choice((0, 1, 3, 6))
    names = ("files__list", "files__read", "shell__run", "runtime__add", "web__fetch", "calendar__add")
    return tuple(
        ToolSpec(
            name,
            f"{name.replace('__', ' ')}: {PROSE[: rng.randrange(20, 90)]}",
            {
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "where to look"},
                    "limit": {"type": "integer"},
                    "mode": {"type": "string", "enum": ["fast", "deep"]},
                },
                "required": ["path"],
            },
            Effect.READ,
            name.split("__")[0],
        )
        for name in names[:number]
    )


def text(rng: random.Random, most: int) -> str:
    piece = KINDS[rng.choice(list(KINDS))]
    return (piece * rng.randrange(1, most))[: rng.randrange(20, 400 * most)]


def turns(rng: random.Random, offered: tuple[ToolSpec, ...]) -> list[PastTurn]:
    made = []
    for number in range(1, rng.randrange(1, 6)):
        messages: list[Message] = [user(text(rng, 3))]
        if offered and rng.random() < 0.6:
            call = ToolCall(
                f"call_{number}", rng.choice(offered).name, json.dumps({"path": f"/tmp/{number}", "limit": 3})
            )
            messages.append(AssistantMessage("", (call,)))
            messages.append(ToolMessage(call.id, call.name, (TextPart(text(rng, rng.choice((2, 8)))),)))
        messages.append(AssistantMessage(text(rng, 3)))
        made.append(PastTurn(number, tuple(messages)))
    return made


def composer(route: Route, past: list[PastTurn], offered: tuple[ToolSpec, ...], rules: ContextRules) -> Composer:
    return Composer(
        SystemParts("You are a helpful assistant. Answer briefly and plainly."),
        route,
        Router({}),
        TokenCounter(route.provider, route.info.id),
        rules,
        past,
        offered,
        "auto",
        budget=budget_for(route.info.context_size, rules, None),
        always_count=True,
    )


async def counts(number: int) -> dict[str, float]:
    """Ours, and four characters a token, beside what the backend says."""
    rng = random.Random(7)
    ours, naive, by_kind = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AISH_STORE__PATH"] = str(Path(folder) / "aish.db")
        runtime = app.runtime([])
        async with runtime.engine(mcp=()) as engine:
            route = await engine.router.resolve("embedded:smollm2")
            for _ in range(number):
                offered = tools(rng)
                asked = user(text(rng, 4))
                one = composer(route, turns(rng, offered), offered, ContextRules())
                composed = await one.compose((asked,))
                request = StepRequest(
                    route.info.id, composed.messages, offered, sampling=Sampling(max_tokens=1), session="bench"
                )
                reported = await prompt_tokens(route.provider, request)
                chars = sum(len(message.text) for message in composed.messages)
                chars += sum(len(json.dumps(tool.schema)) + len(tool.description) for tool in offered)
                assert composed.tokens is not None
                ours.append(abs(composed.tokens - reported) / reported * 100)
                naive.append(abs(chars // 4 - reported) / reported * 100)
                by_kind.append(reported)
    return {
        "conversations": number,
        "tokens, median": statistics.median(by_kind),
        "tokens, most": max(by_kind),
        "worst count off, %": round(max(ours), 2),
        "median count off, %": round(statistics.median(ours), 2),
        "characters/4, worst off, %": round(max(naive), 1),
        "characters/4, median off, %": round(statistics.median(naive), 1),
    }


async def prompt_tokens(provider: Provider, request: StepRequest) -> int:
    usage = None
    async with provider.stream(request) as batches:
        async for batch in batches:
            usage = next((chunk.usage for chunk in batch if isinstance(chunk, UsageChunk)), usage)
    assert usage is not None
    return usage.prompt_tokens


class Small(ScriptedProvider):
    """Says so many words, in a window of its own, and keeps how large each request was."""

    def __init__(self) -> None:
        super().__init__("small", {"model": lambda request: [TextDelta(self.answer)]})
        self.answer = "fine"
        self.sizes: list[int] = []

    async def describe(self, model: str) -> ModelProfile:
        return ModelProfile(self.name, model, WINDOW, Capabilities(native_tools=True, tokenize=True))

    @asynccontextmanager
    async def stream(
        self, request: StepRequest, relay: TextRelay | None = None
    ) -> AsyncIterator[AsyncGenerator[Batch, None]]:
        self.sizes.append(sum(len(message.text.split()) + 3 for message in request.messages))
        async with super().stream(request, relay) as batches:
            yield batches


def small_engine(provider: Small) -> Engine:
    from aish.safety.commands import ShellContext
    from aish.safety.policy.gate import PolicyGate
    from aish.safety.policy.judgement import CAREFUL

    return Engine(
        router=Router({"small": provider}),
        tools=Registry(),
        gate=PolicyGate((), verdicts=CAREFUL, shell=ShellContext(cwd="/", home="/")),
        store=MemoryStore(),
        clock=SystemClock(),
        liveness=ProcessOwners(),
        redactor=Redactor([]),
        rules=ContextRules(answer_room=512),
    )


async def window() -> dict[str, float]:
    """300 turns in a window of 4 096: never exceeded, and never a turn emptier than needed."""
    rng = random.Random(3)
    provider = Small()
    engine = small_engine(provider)
    session = ""
    said: list[int] = []
    left: list[int] = []
    over = 0
    for _ in range(300):
        provider.answer = "word " * rng.randrange(5, 300)
        question = "ask " * rng.randrange(5, 200)
        request = TurnRequest(input=(user(question),), model="small:model", session=session)
        async with engine.turn(request) as batches:
            async for events in batches:
                session = events[0].session
        budget = WINDOW - 512
        size = provider.sizes[-1]
        over += size > budget
        # The turn that was left out first would have fitted if there were this much room.
        fits = fitting(said, len(question.split()) + 3, budget)
        left.append(fits - size)
        said.append(len(question.split()) + len(provider.answer.split()) + 6)
    await engine.aclose()
    return {"turns": 300, "requests over the budget": over, "most tokens left unused that a turn needed": max(left)}


def fitting(said: list[int], now: int, budget: int) -> int:
    """The most that whole turns, newest first, can fill."""
    total = now
    for size in reversed(said):
        if total + size > budget:
            break
        total += size
    return total


async def composing() -> dict[str, float]:
    """One more turn in a session of 2 000, its counts known."""
    provider = Small()
    engine = small_engine(provider)
    route = await engine.router.resolve("small:model")
    past = [PastTurn(n, (user(f"question {n} " * 20), AssistantMessage(f"answer {n} " * 60))) for n in range(1, 2001)]
    one = composer(route, past, (), ContextRules(answer_room=512))
    await one.compose((user("now"),))
    took = []
    for _ in range(50):
        started = time.perf_counter()
        await one.compose((user("now"),))
        took.append((time.perf_counter() - started) * 1000)
    await engine.aclose()
    return {"compose 2 000 turns, ms": round(statistics.median(took), 3)}


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = {**await composing(), **await window(), **await counts(10 if arguments.quick else 50)}
    if arguments.json:
        say(json.dumps(figures))
    else:
        for name, value in figures.items():
            bar = f"   (bar {BARS[name]:g})" if name in BARS else ""
            say(f"{name:<45} {value:>10g}{bar}")
    kept = figures["requests over the budget"] == 0 and figures["most tokens left unused that a turn needed"] <= 0
    return 0 if kept and all(figures[name] <= bar for name, bar in BARS.items()) else 1


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
