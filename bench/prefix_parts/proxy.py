"""A proxy before llama.cpp that records the requests, and answers them with a script.

The real server reads each prompt and makes one token, so its own `timings` say what it had to evaluate. The answer
that the client gets is scripted, since a small model's own would lead nowhere.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
_CALL_S = 300.0


@dataclass(frozen=True)
class Sent:
    """A request, and what llama.cpp says of its prompt."""

    body: Json
    cached: int
    evaluated: int
    took_ms: float

    @property
    def is_side_call(self) -> bool:
        """Outside of the conversation: a delegate, a summary."""
        return not self.body.get("tools")


@dataclass
class Proxy:
    """`replies` are the answers to the next requests with tools: a text, or a call as its name and arguments. A request
    without tools is answered by `side_answer`."""

    upstream: str
    url: str = ""
    replies: deque[str | tuple[str, Json]] = field(default_factory=deque)
    side_answer: Callable[[Json], str] = lambda body: "Noted."
    sent: list[Sent] = field(default_factory=list)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                first, *lines = head.rstrip("\r\n").split("\r\n")
                method, path, _ = first.split(" ", 2)
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                kind, data = await self._answer(method, path, body)
                writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n\r\n".encode())
                writer.write(data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, method: str, path: str, body: bytes) -> tuple[str, bytes]:
        if not path.endswith("/chat/completions"):
            answer = await asyncio.to_thread(fetch, self.upstream + path, body or None)
            return "application/json", json.dumps(as_large_model(answer)).encode()
        request = json.loads(body)
        real = {**request, "stream": False, "max_tokens": 1, "temperature": 0.0}
        real.pop("response_format", None)
        answer = await asyncio.to_thread(fetch, self.upstream + path, json.dumps(real).encode())
        timings = answer["timings"]
        self.sent.append(Sent(request, timings["cache_n"], timings["prompt_n"], timings["prompt_ms"]))
        reply = self.replies.popleft() if request.get("tools") else self.side_answer(request)
        return as_reply(request, reply, len(self.sent), answer)

    def count(self, messages: list[Json], tools: list[Json], *, begins_answer: bool) -> int:
        """The tokens of a prompt with these messages."""
        given = {"messages": messages, "tools": tools, "add_generation_prompt": begins_answer}
        prompt = fetch(f"{self.upstream}/apply-template", json.dumps(given).encode())["prompt"]
        asked = {"content": prompt, "add_special": True, "parse_special": True}
        return len(fetch(f"{self.upstream}/tokenize", json.dumps(asked).encode())["tokens"])


@asynccontextmanager
async def recording(upstream: str) -> AsyncIterator[Proxy]:
    proxy = Proxy(upstream)
    server = await asyncio.start_server(proxy._serve, "127.0.0.1", 0, limit=1 << 20)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()


def fetch(url: str, body: bytes | None = None) -> Any:
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=_CALL_S) as response:
        return json.load(response)


def as_large_model(answer: Any) -> Any:
    """A listing without the number of parameters: aish tells the smallest models less, and offers them fewer tools."""
    for entry in answer.get("data", ()) if isinstance(answer, dict) else ():
        if isinstance(entry, dict) and isinstance(entry.get("meta"), dict):
            entry["meta"].pop("n_params", None)
    return answer


def as_reply(request: Json, reply: str | tuple[str, Json], number: int, real: Json) -> tuple[str, bytes]:
    """The scripted reply, streamed or whole, with the real usage and timings."""
    message: Json = {"role": "assistant", "content": reply if isinstance(reply, str) else ""}
    if not isinstance(reply, str):
        function = {"name": reply[0], "arguments": json.dumps(reply[1])}
        message["tool_calls"] = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
    end = "stop" if isinstance(reply, str) else "tool_calls"
    more = {"id": "chatcmpl-1", "model": request["model"], "usage": real["usage"], "timings": real["timings"]}
    if not request.get("stream"):
        whole = {**more, "choices": [{"index": 0, "message": message, "finish_reason": end}]}
        return "application/json", json.dumps(whole).encode()
    first = {**more, "usage": None, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
    last = {**more, "choices": [{"index": 0, "delta": {}, "finish_reason": end}]}
    lines = "".join(f"data: {json.dumps(each)}\n\n" for each in (first, last))
    return "text/event-stream", f"{lines}data: [DONE]\n\n".encode()
