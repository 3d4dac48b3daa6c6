"""A server under more of everything: messages and tools in a request, rounds in a turn, streams at once.

Processor time of the server's process, over the upstream that costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from bench.gateway_parts import gateways, kinds
from bench.gateway_parts.gate import body
from bench.gateway_parts.gateways import Gateway, Json, Upstream, load
from bench.growth_parts import Subject

MORE = (
    '[serve]\ntools = ["bench__*"]\n[mcp]\nauto_approve = ["bench__*"]\n[limits]\nmax_steps = 200\n'
    "max_tool_calls = 400\nrepeat_limit = 400\n"
)
HOLD_S, RAMP_S = 12.0, 3.0


@contextmanager
def server(*, tools: bool = False, others: int = 0) -> Iterator[tuple[Gateway, Upstream]]:
    with gateways.upstream_running() as upstream:
        port = gateways.free_port()
        kind = kinds.aish(upstream, port, tools=tools, more=MORE if tools else "", others=others)
        with gateways.running(kind, port) as gateway:
            yield gateway, upstream


def requests_us(gateway: Gateway, request: Json, seconds: float = 1.0) -> float:
    """Each, one at a time; the least of some stretches."""
    load("json", gateway.port, request, 1, 0.3)
    found: list[float] = []
    for _ in range(3):
        before = gateway.cpu_ns()
        seen = load("json", gateway.port, request, 1, seconds)
        if seen["errors"] or not seen["requests"]:
            raise ValueError(f"{seen['errors']} of {seen['requests']} requests failed")
        found.append((gateway.cpu_ns() - before) / seen["requests"] / 1e3)
    return min(found)


def messages_sent(count: int) -> float:
    said = [{"role": ("user", "assistant")[n % 2], "content": f"message {n} " * 8} for n in range(count - 1)]
    asked = {"role": "user", "content": "and now?"}
    with server() as (gateway, _):
        return requests_us(gateway, {**body("bench-json"), "messages": [*said, asked]})


def tools_sent(count: int) -> float:
    """The client's own tools, relayed."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}}
    functions = [{"name": f"tool_{n}", "description": f"Does thing {n}.", "parameters": schema} for n in range(count)]
    with server() as (gateway, _):
        return requests_us(
            gateway, body("bench-json", tools=[{"type": "function", "function": each} for each in functions])
        )


def tools_served(count: int) -> float:
    """The server's own, of an MCP server: shown to the model with every request."""
    with server(tools=True, others=count) as (gateway, _):
        return requests_us(gateway, body("bench-json"))


def rounds_taken(count: int) -> float:
    """A turn of so many rounds. Each sends all that went before again, so bytes grow with the square."""
    with server(tools=True) as (gateway, _):
        request = body(f"bench-toolloop{count}-look", stream=True)
        load("stream", gateway.port, request, 1, 0.5)
        found: list[float] = []
        for _ in range(3):
            before = gateway.cpu_ns()
            seen = load("stream", gateway.port, request, 1, 1.5)
            if seen["errors"] or not seen["streams"]:
                raise ValueError(f"{seen['errors']} turns of {count} rounds failed")
            found.append((gateway.cpu_ns() - before) / seen["streams"] / 1e3)
        return min(found)


def streams_held(count: int) -> float:
    """A second of so many streams of two chunks a second, when all are open; the least of some stretches."""
    with server() as (gateway, _), ThreadPoolExecutor(1) as beside:
        load("json", gateway.port, body("bench-json"), 1, 0.3)
        slow = body("bench-slow2x1000", stream=True)
        held = beside.submit(load, "stream", gateway.port, slow, count, HOLD_S, RAMP_S)
        time.sleep(RAMP_S + 1)
        found = [_used(gateway, 3.0) for _ in range(3)]
        seen = held.result()
        if seen["errors"] or seen["live"] != count or not 0 <= seen["reached_s"] <= RAMP_S + 1:
            raise ValueError(f"{seen['live']} of {count} streams were open, {seen['errors']} broke")
        return min(found)


def _used(gateway: Gateway, seconds: float) -> float:
    """A second."""
    before, began = gateway.cpu_ns(), time.monotonic()
    time.sleep(seconds)
    return (gateway.cpu_ns() - before) / 1e3 / (time.monotonic() - began)


SUBJECTS = (
    Subject(
        "messages in a request", (10, 100, 1000), "a request", messages_sent, "frontends/http/openai/chat/request.py"
    ),
    Subject("tools in a request", (5, 50, 500), "a request", tools_sent, "frontends/http/openai/chat/request.py"),
    Subject(
        "tools of the server",
        (10, 100, 1000),
        "a request",
        tools_served,
        "frontends/http/turns/request_fields.py, engine/turn/builder.py",
    ),
    Subject(
        "rounds of a turn",
        (1, 10, 100),
        "a turn",
        rounds_taken,
        "every round sends all before it again: providers/openai/request.py Encoded, engine/prompt/normalise.py",
    ),
    Subject("streams at once", (20, 200, 2000), "a second of them", streams_held, "frontends/http, net/http"),
)
