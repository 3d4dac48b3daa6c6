"""A tool round in the server: what one round more costs, over stdio and HTTP, beside others that run tools themselves.

A turn of few rounds and one of many are asked for in turns, one at a time; the slope between their medians is a round.
What the model and the MCP server take themselves, asked with nothing in between, goes off. LiteLLM stops after one
round, so there a turn of one round stands beside a plain answer.
"""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench import mcp
from bench.effort import Effort
from bench.gateway_parts import gateways, kinds, measures
from bench.gateway_parts.gate import body
from bench.gateway_parts.gateways import DidNotStart, Gateway, Json, Kind, Upstream
from bench.peers import PeerMissing
from bench.rows import Bar, Row, row

PART = "toolround"
MORE = f"{kinds.TOOLS_CONFIG}[limits]\nmax_steps = 32\nmax_tool_calls = 64\n"
WARM = 3  # turns that are thrown away
LITELLM_MCP = measures.LITELLM_MCP


@dataclass(frozen=True)
class Contender:
    name: str
    make: Callable[[Upstream, int, str], Kind]  # the URL of the MCP server, "" for stdio
    few: int
    many: int
    path: str = gateways.CHAT


@dataclass(frozen=True)
class Round:
    ms: float
    cpu_us: float
    turn_ms: float  # of `many` rounds


OURS = Contender("aish", lambda up, port, url: kinds.aish(up, port, tools=True, url=url, more=MORE), 1, 20)
PEERS = (
    Contender("litellm", lambda up, port, url: kinds.litellm(up, port, tools=True, url=url), 0, 1),
    Contender("ollama-mcp-bridge", lambda up, port, url: kinds.bridge(up, port, url=url), 1, 20, "/api/chat"),
)


def rows(effort: Effort) -> Iterator[Row]:
    turns = effort.rounds(30, 12)
    peers = PEERS if effort.peers and not effort.quick else ()
    with gateways.upstream_running() as upstream, http_server() as url:
        for wire, where in (("stdio", ""), ("HTTP", url)):
            own_ms = measures.echo_ms() if not where else http_ms(where)
            found, notes = {}, {}
            for contender in (OURS, *peers):
                try:
                    found[contender.name] = measured(contender, upstream, where, "look", own_ms, turns)
                except (DidNotStart, PeerMissing, ValueError, OSError, http.client.HTTPException) as exc:
                    notes[contender.name] = f"over {wire}: {exc}"
            yield from told(f"a round over {wire}", found, notes, turns)
        effects = measured(OURS, upstream, "", "echo", measures.echo_ms(), turns)
        what = "a round over stdio with effects, written down before it happens"
        yield row(PART, what, "ms", effects.ms, bar=Bar(most=2), rounds=turns)


def told(what: str, found: dict[str, Round], notes: dict[str, str], turns: int) -> Iterator[Row]:
    ours = found.pop("aish", None)
    added, bar = {name: each.ms for name, each in found.items()}, Bar(most=2)
    yield row(PART, f"{what}: added", "ms", ours.ms if ours else None, peers=added, bar=bar, rounds=turns, notes=notes)
    spent = {name: each.cpu_us for name, each in found.items()}
    yield row(PART, f"{what}: CPU", "µs", ours.cpu_us if ours else None, peers=spent, rounds=turns)
    long = {name: each.turn_ms for name, each in found.items() if name != "litellm"}
    yield row(PART, f"{what}: a turn of 20", "ms", ours.turn_ms if ours else None, peers=long, rounds=turns)


def measured(contender: Contender, upstream: Upstream, url: str, tool: str, own_ms: float, turns: int) -> Round:
    port = gateways.free_port()
    with gateways.running(contender.make(upstream, port, url), port) as gateway:
        few, many = contender.few, contender.many
        pairs = [
            (turn(gateway, upstream, contender, few, tool), turn(gateway, upstream, contender, many, tool))
            for _ in range(WARM + turns)
        ]
    low, high = zip(*pairs[WARM:], strict=True)
    low_ms, high_ms = (statistics.median(ms for ms, _ in each) for each in (low, high))
    low_us, high_us = (statistics.median(us for _, us in each) for each in (low, high))
    rounds = many - few
    added = (high_ms - low_ms) / rounds - own_ms - model_ms(upstream)
    return Round(added, (high_us - low_us) / rounds, high_ms)


def turn(gateway: Gateway, upstream: Upstream, contender: Contender, rounds: int, tool: str) -> tuple[float, float]:
    """Milliseconds of one turn, and the gateway's processor time. It must have asked the model once a round and once
    more: what does not run the tools is not measured."""
    more: Json = {"tools": [LITELLM_MCP]} if contender.name == "litellm" and rounds else {}
    request = body(f"bench-toolloop{rounds}-{tool}" if rounds else "bench-toolloop0", stream=True, **more)
    asked, before, began = upstream.stats()["requests"], gateway.cpu_ns(), time.perf_counter()
    status, data = gateways.answer(gateway.port, request, path=contender.path)
    ms, us = (time.perf_counter() - began) * 1e3, (gateway.cpu_ns() - before) / 1e3
    asked = upstream.stats()["requests"] - asked - 1
    if status != 200:
        raise ValueError(f"status {status}: {data[:200]!r}")
    if asked < rounds + 1:
        raise ValueError(f"the tools were not run: {asked} model calls in a turn of {rounds} rounds")
    return ms, us


def model_ms(upstream: Upstream) -> float:
    times = []
    connection = http.client.HTTPConnection("127.0.0.1", upstream.port, timeout=10)
    for _ in range(100):
        began = time.perf_counter()
        connection.request("POST", gateways.CHAT, json.dumps(body("bench-toolloop0", stream=True)))
        connection.getresponse().read()
        times.append(time.perf_counter() - began)
    connection.close()
    return statistics.median(times) * 1e3


def http_ms(url: str) -> float:
    """What the HTTP MCP server itself takes."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look", "arguments": {"text": "x"}}}
    port, times = int(url.rpartition(":")[2].partition("/")[0]), []
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    for _ in range(100):
        began = time.perf_counter()
        connection.request("POST", "/mcp", json.dumps(call), {"content-type": "application/json"})
        connection.getresponse().read()
        times.append(time.perf_counter() - began)
    connection.close()
    return statistics.median(times) * 1e3


@contextmanager
def http_server() -> Iterator[str]:
    _, http = mcp.echo_servers()
    process: subprocess.Popen[str]
    with mcp.running(*http) as process:
        yield f"http://127.0.0.1:{mcp.ask(process)}/mcp"
