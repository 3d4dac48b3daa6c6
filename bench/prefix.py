"""How much of a prompt a backend reads again: a scripted session in the shell, against a real llama.cpp.

    python bench/prefix.py            needs the embedded model (`aish models pull smollm2`)
    python bench/prefix.py --quick    twelve turns instead of thirty

A session has tools, remembered facts, mentions, attached output, a change of the directory, a delegate and, in the
second run, a window that becomes full. llama.cpp's own `timings` say how many tokens of each prompt it evaluated. Of
those, the ones that were sent before are counted: messages and tools that an earlier request held.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from aish import app
from aish.frontends.shell.ask_model import ask_model, ask_other_model
from aish.frontends.shell.commands.registry import run_meta
from aish.frontends.shell.shell import Notices, Shell
from aish.frontends.terminal import Output
from aish.providers.pool import PoolProvider
from aish.providers.scripted import ScriptedProvider
from aish.types.events import TextDelta
from aish.types.messages import SystemMessage, user
from aish.types.requests import StepRequest, TurnRequest
from bench.prefix_parts.llama import llama
from bench.prefix_parts.prompts import share_of_bytes
from bench.prefix_parts.proxy import Json, Proxy, Sent, fetch, recording

TURNS, QUICK_TURNS = 30, 12
WINDOW = 8192
SMALL_BUDGET = 3000  # the session does not fit it
FIRST_TOKEN_TURN = 20
_ROUNDS = 8
SLOTS = 2
BARS = {
    "evaluated again, %": 0.0,
    "evaluated again with a full window, %": 2.0,
    "first token late, of that in an empty session, times": 1.3,
    "requests of a session on another endpoint, %": 0.0,
}

_FILE = "settings.ini"
_TEXT = "the parser reads one line at a time and keeps what it has seen in a table of names and of places"
_WORDS = _TEXT.split()


@dataclass(frozen=True)
class Reread:
    """Of one request: the tokens that were sent before, and how many of them were evaluated."""

    sent_before: int
    evaluated: int


def question(turn: int) -> str:
    words = " ".join(_WORDS[(turn + at) % len(_WORDS)] for at in range(18))
    return f"Question {turn}: {words}?"


async def play_turn(shell: Shell, proxy: Proxy, turn: int, folder: Path) -> None:
    """One turn, with what its number says."""
    text = question(turn)
    answer = f"Answer {turn}. " + " ".join(_WORDS[(turn * 3 + at) % len(_WORDS)] for at in range(14))
    if turn % 7 == 2:
        await run_meta(shell, f"remember {_WORDS[turn % len(_WORDS)]} is what question {turn} is about")
    if turn % 5 == 3:
        text += f" See @{folder / _FILE}"
    if turn % 6 == 4:
        await shell.run_line("printf 'line %s\\n' 1 2 3", attach=True)
    if turn == 9:
        await shell.run_line(f"cd {folder / 'sub'}", attach=False)
    if turn == 11:
        await ask_other_model(shell, shell.request.model, "What is a table of names?")
    if turn % 3 == 1:
        proxy.replies.append(("runtime__add", {"a": turn, "b": 1}))
    if turn % 8 == 5:
        proxy.replies.append(("shell__run", {"command": f"echo {turn}; pwd"}))
    proxy.replies.append(answer)
    await ask_model(shell, text)


@asynccontextmanager
async def open_shell(proxy: Proxy, home: Path, settings: dict[str, str]) -> AsyncIterator[Shell]:
    """A shell with a live bash and a home of its own, whose model is behind the proxy."""
    folder = home / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / _FILE).write_text("[server]\nport = 8080\nname = first\n")
    os.environ.update(HOME=str(home), AISH_STORE__PATH=str(home / "aish.db"), **settings)
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        del os.environ[name]
    os.chdir(folder)
    runtime = app.runtime([f"up={proxy.url}/v1"])
    output = Output(io.StringIO(), io.StringIO(), color=False)
    request = TurnRequest(
        input=(user(""),),
        model="up:smollm2",
        tools=("runtime__*", "shell__*", "history__*"),
        memory=True,
        environment=True,
    )
    async with (
        runtime.engine(mcp=()) as engine,
        runtime.live_shell(on_output=lambda data: None, on_notice=lambda text: None) as live,
    ):
        yield Shell(
            engine, runtime, output, request, live=live, notices=Notices(output), approves_all=True,
            make_editor=lambda shell: SimpleNamespace(ask=None),
        )  # fmt: skip


async def play(upstream: str, turns: int, settings: dict[str, str]) -> tuple[Proxy, int]:
    """A whole session. Also the index of the first request of the turn whose first token is timed."""
    timed = 0
    with tempfile.TemporaryDirectory() as home:
        async with recording(upstream) as proxy, open_shell(proxy, Path(home), settings) as shell:
            proxy.side_answer = lambda body: "The user asks about a parser; nothing is open."
            for turn in range(1, turns + 1):
                if turn == min(FIRST_TOKEN_TURN, turns):
                    timed = len(proxy.sent)
                await play_turn(shell, proxy, turn, Path(home) / "work")
            os.chdir("/")
    return proxy, timed


def rereads(proxy: Proxy) -> list[Reread]:
    """What of each request was sent before, by llama.cpp's own count."""
    seen: set[str] = set()
    seen_tools: set[str] = set()
    found = []
    for sent in proxy.sent:
        messages, tools = sent.body["messages"], sent.body.get("tools") or []
        old = [message for message in messages if json.dumps(message) in seen]
        old_tools = tools if json.dumps(tools) in seen_tools else []
        before = _count_known(proxy, messages, old, old_tools)
        found.append(Reread(before, max(0, before - sent.cached)))
        seen.update(json.dumps(message) for message in messages)
        seen_tools.add(json.dumps(tools))
    return found


def _count_known(proxy: Proxy, messages: list[Json], old: list[Json], tools: list[Json]) -> int:
    if not old and not tools:
        return 0
    first_new = next((message for message in messages if message not in old), None)
    begins = first_new is None or first_new["role"] == "assistant"
    return proxy.count(old or [{"role": "system", "content": ""}], tools, begins_answer=begins)


def share(found: list[Reread]) -> float:
    return 100 * sum(each.evaluated for each in found) / max(1, sum(each.sent_before for each in found))


def first_token_times(proxy: Proxy, timed: int) -> tuple[float, float]:
    """How many times as long the prompt of the timed turn takes as the same question in an empty session: one in which
    the server has to read tools and system message, and one in which it has read them for another session.

    The second says what cannot be saved: each new token attends to all before it. A model as small as this one spends
    most of its time on that, a larger one little.
    """
    body = proxy.sent[timed].body
    *before, newest = body["messages"]
    late, warm, cold = [], [], []
    for number in range(_ROUNDS):  # in turns and each in its slot, so that other work on the machine slows down all
        question = _numbered(newest, number)
        late.append(_prompt_ms(proxy, body, [*before, question], slot=0))
        cold.append(_prompt_ms(proxy, body, [_numbered(before[0], number), question], slot=1))
        warm.append(_prompt_ms(proxy, body, [_numbered(before[0], number), _numbered(question, number)], slot=1))
    return min(late[1:]) / min(cold[1:]), min(late[1:]) / min(warm[1:])


def _numbered(message: Json, number: int) -> Json:
    """Another text of the same length, so that the server has not read it."""
    return {**message, "content": f"{number} {message['content']}"}


def _prompt_ms(proxy: Proxy, body: Json, messages: list[Json], *, slot: int) -> float:
    asked = {**body, "id_slot": slot, "messages": messages, "stream": False, "max_tokens": 1, "temperature": 0.0}
    answer = fetch(f"{proxy.upstream}/v1/chat/completions", json.dumps(asked).encode())
    return float(answer["timings"]["prompt_ms"])


async def pool_moves(turns: int) -> float:
    """Percent of the requests of four sessions, in turns, that went to another endpoint of three than the first."""
    served: dict[str, list[str]] = {}

    def member(name: str) -> ScriptedProvider:
        def answer(request: StepRequest) -> list[TextDelta]:
            served.setdefault(request.session, []).append(name)
            return [TextDelta("fine")]

        return ScriptedProvider(name, {"model": answer})

    pool = PoolProvider("pool", [member(name) for name in "abc"])
    for turn in range(turns):
        for session in range(4):
            messages = (SystemMessage("same for all"), user(f"{session} {turn}"))
            async with pool.stream(StepRequest("model", messages, session=f"sess_{session}")) as batches:
                async for _ in batches:
                    pass
    moved = sum(name != names[0] for names in served.values() for name in names)
    return 100 * moved / sum(map(len, served.values()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--requests", action="store_true", help="show each request")
    arguments = parser.parse_args()
    figures = measure(quick=arguments.quick, show=arguments.requests)
    for name, value in figures.items():
        bar = f"   (bar {BARS[name]:g})" if name in BARS else ""
        say(f"{name:<56} {value:>10.4g}{bar}")
    return int(any(figures[name] > bar for name, bar in BARS.items() if name in figures))


def measure(*, quick: bool, show: bool = False) -> dict[str, float]:
    turns = QUICK_TURNS if quick else TURNS
    model = app.runtime([]).model_cache.find("smollm2")
    assert model is not None, "aish models pull smollm2"
    figures: dict[str, float] = {"requests of a session on another endpoint, %": asyncio.run(pool_moves(turns))}
    with llama(model, slots=SLOTS, window=WINDOW) as upstream:
        proxy, timed = asyncio.run(play(upstream, turns, {}))
        found = rereads(proxy)
        show_requests(proxy.sent, found) if show else None
        figures |= {
            "requests": len(found),
            "tokens of the last prompt": proxy.sent[-1].cached + proxy.sent[-1].evaluated,
            "evaluated again, %": share(found),
            "read again by bytes, %": share_of_bytes(each.body for each in proxy.sent),
        }
        cold, warm = first_token_times(proxy, timed)
        figures |= {
            "first token late, of that in an empty session, times": cold,
            "the same if its system message is cached, times": warm,
        }
    if quick:
        return figures
    with llama(model, slots=SLOTS, window=WINDOW) as upstream:
        full = {"AISH_CONTEXT__TOKEN_BUDGET": str(SMALL_BUDGET), "AISH_CONTEXT__SUMMARIZE_ON_EVICT": "true"}
        proxy, _ = asyncio.run(play(upstream, turns, full))
        found = rereads(proxy)
        show_requests(proxy.sent, found) if show else None
        figures["evaluated again with a full window, %"] = share(found)
    return figures


def show_requests(sent: list[Sent], found: list[Reread]) -> None:
    for number, (each, reread) in enumerate(zip(sent, found, strict=True), 1):
        kind = "side" if each.is_side_call else ""
        say(f"{number:>3} {each.cached:>6} cached {each.evaluated:>5} read {reread.evaluated:>5} again {kind}")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
