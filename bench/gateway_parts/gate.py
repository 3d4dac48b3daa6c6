"""Is it a relay at all? A gateway that fails here gets no figures: what is fast and wrong is not fast."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator

from bench.gateway_parts.gateways import Gateway, Json, answer, load

CHUNKS = 200
TOOL = {"type": "function", "function": {"name": "bench_tool", "parameters": {"type": "object"}}}


def body(model: str, *, stream: bool = False, **more: object) -> Json:
    return {"model": model, "stream": stream, "messages": [{"role": "user", "content": "hello"}], **more}


def faults(gateway: Gateway) -> Iterator[str]:
    """What is wrong with it, in words; nothing when it may be measured."""
    checks = (whole_answer, burst, tool_call, in_time)
    for check in checks:
        try:
            yield from (f"{check.__name__}: {fault}" for fault in check(gateway.port))
        except (OSError, http.client.HTTPException, KeyError, IndexError, ValueError) as exc:
            yield f"{check.__name__}: {type(exc).__name__} {exc}"


def whole_answer(port: int) -> Iterator[str]:
    status, data = answer(port, body("bench-json"))
    if status != 200 or json.loads(data)["choices"][0]["message"]["content"].strip() != ("bench a " * 99).strip():
        yield f"status {status}, {data[:200]!r}"


def burst(port: int) -> Iterator[str]:
    chunks, done = streamed(port, body("bench-fast", stream=True))
    pieces = [chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"]]
    said = [piece for piece in pieces if piece]
    if len(said) != CHUNKS:
        yield f"{len(said)} content chunks instead of {CHUNKS}"
    if re.findall(r"tok(\d+) ", "".join(said)) != [f"{n:03}" for n in range(CHUNKS)]:
        yield "the text is not what the upstream said"
    if not done:
        yield "no [DONE]"
    if [chunk["choices"][0].get("finish_reason") for chunk in chunks if chunk["choices"]][-1] != "stop":
        yield "no finish_reason at the end"


def tool_call(port: int) -> Iterator[str]:
    chunks, done = streamed(port, body("bench-tool", stream=True, tools=[TOOL]))
    calls = [call for c in chunks if c["choices"] for call in c["choices"][0]["delta"].get("tool_calls") or ()]
    arguments = "".join(call["function"].get("arguments") or "" for call in calls)
    if len(json.loads(arguments)["text"]) != 12 * (CHUNKS - 2) or calls[0]["function"]["name"] != "bench_tool":
        yield f"a call that is not the upstream's: {arguments[:100]}"
    if not done:
        yield "no [DONE]"


def in_time(port: int) -> Iterator[str]:
    """The first chunk is there before the second leaves the upstream: nothing is buffered. That it is so every time is
    a bar for ours, not a condition for a peer: a slow one may be overtaken now and then."""
    measured = load("stream", port, body("bench-first", stream=True), 1, 1.0)
    if measured["errors"] or not measured["checked"]:
        yield f"{measured['errors']} errors, {measured['checked']} streams"
    elif measured["overtaken"] * 2 > measured["checked"]:
        yield f"in {measured['overtaken']} of {measured['checked']} streams the first chunk came after the second left"


def streamed(port: int, request: Json) -> tuple[list[Json], bool]:
    status, data = answer(port, request)
    if status != 200:
        raise ValueError(f"status {status}: {data[:200]!r}")
    lines = [line[5:].strip() for line in data.decode().splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line != "[DONE]"], "[DONE]" in lines
