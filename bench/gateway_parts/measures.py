"""What is measured of one gateway, each as a few named numbers. Processor time is the figure that noise spares."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.gateway_parts.gate import TOOL, body
from bench.gateway_parts.gateways import ECHO, Gateway, Json, Upstream, load

Figures = dict[str, float]
HELD = 2000
TOOL_ROUNDS = 6  # below the eight steps a turn may take
NONE = {"p50": float("inf"), "p99": float("inf"), "max": float("inf")}  # nothing came
LITELLM_MCP = {"type": "mcp", "server_label": "litellm", "server_url": "litellm_proxy", "require_approval": "never"}


@dataclass
class Sizes:
    """Seconds of each measure."""

    json_s: float = 3.0
    burst_s: float = 3.0
    paced_s: float = 5.0
    first_s: float = 2.0
    hold_s: float = 8.0
    cancels: int = 20


QUICK = Sizes(json_s=1.0, burst_s=1.0, paced_s=2.0, first_s=1.0, hold_s=4.0, cancels=5)

WARM = Sizes(json_s=0.5, burst_s=0.5, paced_s=1.0, first_s=0.5, hold_s=4.0, cancels=5)


def spent(gateway: Gateway, run: Callable[[], Json]) -> tuple[Json, float]:
    """What the load saw, and the microseconds of processor the gateway took meanwhile."""
    before = gateway.cpu_ns()
    measured = run()
    return measured, (gateway.cpu_ns() - before) / 1e3


def each(us: float, count: int) -> float:
    return us / count if count else float("inf")


def whole(gateway: Gateway, sizes: Sizes) -> Figures:
    seen, us = spent(gateway, lambda: load("json", gateway.port, body("bench-json"), 16, sizes.json_s))
    alone = load("json", gateway.port, body("bench-json"), 1, sizes.json_s / 3)
    return {
        "json_rps": seen["rps"],
        "json_us": each(us, seen["requests"]),
        "json_p50_ms": seen.get("latency_ms", NONE)["p50"],
        "json_p99_ms": seen.get("latency_ms", NONE)["p99"],
        "json_alone_p50_ms": alone.get("latency_ms", NONE)["p50"],
        "errors": seen["errors"] + alone["errors"],
    }


def burst(gateway: Gateway, sizes: Sizes) -> Figures:
    fast = body("bench-fast", stream=True)
    seen, us = spent(gateway, lambda: load("stream", gateway.port, fast, 8, sizes.burst_s))
    figures = {"burst_chunks_s": seen["chunks_per_s"], "burst_us": each(us, seen["chunks"])}
    errors = seen["errors"]
    calls = body("bench-tool", stream=True, tools=[TOOL])
    seen, us = spent(gateway, lambda: load("stream", gateway.port, calls, 8, sizes.burst_s))
    return {**figures, "burst_tool_us": each(us, seen["tool_chunks"]), "errors": errors + seen["errors"]}


def paced(gateway: Gateway, sizes: Sizes) -> Figures:
    slow = body("bench-slow50", stream=True)
    seen, us = spent(gateway, lambda: load("stream", gateway.port, slow, 40, sizes.paced_s))
    return {
        "paced_us": each(us, seen["chunks"]),
        "age_p50_ms": seen.get("age_ms", NONE)["p50"],
        "age_p99_ms": seen.get("age_ms", NONE)["p99"],
        "errors": seen["errors"],
    }


def first(gateway: Gateway, sizes: Sizes) -> Figures:
    seen = load("stream", gateway.port, body("bench-first", stream=True), 2, sizes.first_s)
    return {
        "ttft_p50_ms": seen.get("ttft_ms", NONE)["p50"],
        "ttft_p99_ms": seen.get("ttft_ms", NONE)["p99"],
        "overtaken": seen["overtaken"],
        "errors": seen["errors"],
    }


ROUND: tuple[Callable[[Gateway, Sizes], Figures], ...] = (whole, burst, paced, first)


# Once each.


def cancel(gateway: Gateway, upstream: Upstream, sizes: Sizes) -> Figures:
    seen = load("cancel", gateway.port, body("bench-slow50", stream=True), sizes.cancels, upstream.port)
    times = seen.get("cancel_ms", NONE)
    figures = {"cancel_p50_ms": times["p50"], "cancel_max_ms": times["max"], "never_cancelled": seen["never"]}
    return {**figures, "cancel_failed": seen["failed"]}


def hold(gateway: Gateway, sizes: Sizes) -> Figures:
    """Many slow streams at once. Memory is looked at when all are open and near the end."""
    ramp_s = 4.0
    samples: list[float] = []
    over = threading.Event()

    def sample() -> None:
        while not over.wait(0.5):
            samples.append(gateway.pss_mb())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        slow = body("bench-slow2x1000", stream=True)
        seen, us = spent(gateway, lambda: load("stream", gateway.port, slow, HELD, sizes.hold_s, ramp_s))
    finally:
        over.set()
        thread.join()
    return {
        "held_live": seen["live"],
        "held_pss_mb": max(samples),
        "held_stalls": seen["stalls"],
        "held_age_p99_ms": seen.get("age_ms", NONE)["p99"],
        "held_age_max_ms": seen.get("age_ms", NONE)["max"],
        "held_cores": us / 1e6 / seen["seconds"],
        "held_errors": seen["errors"],
    }


def tool_round(gateway: Gateway, upstream: Upstream, sizes: Sizes, tool: str) -> Figures:
    """What one round more costs, less what the model and the MCP server take themselves.

    Ours: the slope between turns of one round and of six. LiteLLM stops after one, so there it is a turn of one round
    beside a plain one, which is also where it lists the tools again."""
    several = gateway.name != "litellm"
    more = {} if several else {"tools": [LITELLM_MCP]}
    few, many = (1, TOOL_ROUNDS) if several else (0, 1)
    low, low_us = _turn(gateway, upstream, sizes, few, tool, more if few else {})
    high, high_us = _turn(gateway, upstream, sizes, many, tool, more)
    plain = body("bench-toolloop0", stream=True)
    model = load("stream", upstream.port, plain, 1, sizes.first_s / 2)["latency_ms"]["p50"]
    rounds = many - few
    return {
        f"round_{tool}_ms": (high - low) / rounds - model - echo_ms(),
        f"round_{tool}_us": (high_us - low_us) / rounds,
    }


def _turn(
    gateway: Gateway, upstream: Upstream, sizes: Sizes, rounds: int, tool: str, more: Json
) -> tuple[float, float]:
    """Milliseconds of a turn at the median, one at a time, and its processor time."""
    request = body(f"bench-toolloop{rounds}-{tool}", stream=True, **more)
    load("stream", gateway.port, request, 1, 0.3)  # warm
    before = upstream.stats()["requests"]
    seen, us = spent(gateway, lambda: load("stream", gateway.port, request, 1, sizes.first_s))
    asked = upstream.stats()["requests"] - before
    if seen["errors"] or not seen["streams"]:
        raise ValueError(f"{seen['errors']} of {seen['requests']} turns failed, last status {seen['last_status']}")
    if asked < seen["streams"] * (rounds + 1) or seen["chunks"] < seen["streams"]:
        raise ValueError(f"the tools were not run: {asked} model calls in {seen['streams']} turns of {rounds} rounds")
    return seen["latency_ms"]["p50"], us / seen["streams"]


def echo_ms() -> float:
    """What the MCP server itself takes, asked over its pipe with nothing in between."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look", "arguments": {"text": "x"}}}
    line = json.dumps(call).encode() + b"\n"
    with subprocess.Popen([sys.executable, str(ECHO)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin and server.stdout
        times = []
        for _ in range(200):
            start = time.perf_counter()
            server.stdin.write(line)
            server.stdin.flush()
            server.stdout.readline()
            times.append(time.perf_counter() - start)
        server.stdin.close()
    return statistics.median(times) * 1e3
