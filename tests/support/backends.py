"""Model servers that speak exactly like the real ones, over a real socket, as far as aish asks of them.

    async with running(Vllm()) as server:
        provider = OpenAIProvider("vllm", Endpoint(url=server.url), http)

All of them answer alike: offered a tool, they call it with `CALL`; otherwise, or once there is a result, they say
`ANSWER`. What they were asked is in `server.requests`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from support.raw_server import Peer, RawServer, Request, raw_server

ANSWER = ("The ", "answer ", "is ", "42 ✓.")
CALL = {"a": 19, "b": 23}
THOUGHT = "Let me add."

Json = dict[str, Any]


def body_of(request: Request) -> Any:
    return json.loads(request.body)


def answer(status: int, body: bytes, *, kind: str = "application/json", **headers: str) -> bytes:
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def json_answer(value: Any, status: int = 200) -> bytes:
    return answer(status, json.dumps(value).encode())


def chunked(*pieces: bytes, kind: str = "text/event-stream") -> list[bytes]:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    return [head, *(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n"]


def sse(*events: Any) -> list[bytes]:
    """One `data:` line for each: JSON, or text as it is."""
    return [f"data: {e if isinstance(e, str) else json.dumps(e, ensure_ascii=False)}\n\n".encode() for e in events]


def delta(finish: str | None = None, **fields: Any) -> Json:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1763200000,
        "model": "m",
        "choices": [{"index": 0, "delta": fields, "finish_reason": finish}],
    }


def usage_chunk(prompt: int = 12, completion: int = 5) -> Json:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {**delta(), "choices": [], "usage": usage}


class FakeBackend:
    """Routes by method and path; the rest is each server's own."""

    model = "some-model"

    async def serve(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            await peer.send(*self.respond(request))

    def respond(self, request: Request) -> list[bytes]:
        path = request.path.partition("?")[0]
        name = request.method.lower() + path.translate(str.maketrans("/.-", "___"))
        handle = getattr(self, name, None)
        return handle(request) if handle else [self.no_such_path(request)]

    def no_such_path(self, request: Request) -> bytes:
        return json_answer({"detail": "Not Found"}, 404)


class OpenAIBackend(FakeBackend):
    """What the OpenAI-compatible ones have in common."""

    owner = "someone"

    def get_v1_models(self, request: Request) -> list[bytes]:
        return [json_answer({"object": "list", "data": [self.card()]})]

    def card(self) -> Json:
        return {"id": self.model, "object": "model", "created": 1763200000, "owned_by": self.owner}

    def post_v1_chat_completions(self, request: Request) -> list[bytes]:
        body = body_of(request)
        if body["model"] != self.model:
            return [self.no_such_model(body["model"])]
        calls = bool(body.get("tools")) and body["messages"][-1]["role"] == "user"
        events = [*(self.tool_call(body) if calls else self.text()), *self.tail(body)]
        return chunked(*sse(*events, "[DONE]"))

    def post_v1_embeddings(self, request: Request) -> list[bytes]:
        texts = body_of(request)["input"]
        rows = [{"object": "embedding", "index": n, "embedding": [len(text), 0.5]} for n, text in enumerate(texts)]
        return [json_answer({"object": "list", "data": rows[::-1], "model": self.model, "usage": {}})]

    def no_such_model(self, model: str) -> bytes:
        error = {"message": f"The model `{model}` does not exist.", "type": "NotFoundError", "code": 404}
        return json_answer({"error": error}, 404)

    def text(self) -> Iterator[Json]:
        yield delta(role="assistant", content="")
        for piece in ANSWER:
            yield delta(content=piece)
        yield delta("stop")

    def tool_call(self, body: Json) -> Iterator[Json]:
        name = body["tools"][0]["function"]["name"]
        first = {"index": 0, "id": "chatcmpl-tool-1", "type": "function", "function": {"name": name, "arguments": ""}}
        yield delta(role="assistant", content=None, tool_calls=[first])
        text = json.dumps(CALL)
        for piece in (text[:4], text[4:]):
            yield delta(tool_calls=[{"index": 0, "function": {"arguments": piece}}])
        yield delta("tool_calls")

    def tail(self, body: Json) -> Iterator[Json]:
        if body.get("stream_options", {}).get("include_usage"):
            yield usage_chunk()


class LlamaCpp(OpenAIBackend):
    """One model, any name; what it runs with is in /props."""

    owner = "llamacpp"
    slot_context = 4096

    def get_props(self, request: Request) -> list[bytes]:
        props = {
            "default_generation_settings": {"id": 0, "n_ctx": self.slot_context, "is_processing": False},
            "total_slots": 2,
            "modalities": {"vision": True, "audio": False},
            "chat_template": "{% for message in messages %}{% if tools %}...",
            "chat_template_caps": {"supports_tools": True, "supports_parallel_tool_calls": False},
            "build_info": "b7000",
        }
        return [json_answer(props)]

    def card(self) -> Json:
        return {**super().card(), "meta": {"vocab_type": 2, "n_vocab": 49152, "n_ctx_train": 8192, "n_embd": 576}}

    def post_v1_chat_completions(self, request: Request) -> list[bytes]:
        self.model = body_of(request)["model"]
        return super().post_v1_chat_completions(request)

    def post_tokenize(self, request: Request) -> list[bytes]:
        return [json_answer({"tokens": [7] * len(body_of(request)["content"].split())})]

    def no_such_path(self, request: Request) -> bytes:
        error = {"code": 404, "message": "File Not Found", "type": "not_found_error"}
        return json_answer({"error": error}, 404)


class Vllm(OpenAIBackend):
    owner = "vllm"

    def card(self) -> Json:
        return {**super().card(), "root": self.model, "parent": None, "max_model_len": 32768, "permission": []}

    def post_tokenize(self, request: Request) -> list[bytes]:
        body = body_of(request)
        if body["model"] != self.model:
            return [self.no_such_model(body["model"])]
        count = len(body["prompt"].split()) + bool(body.get("add_special_tokens", True))
        return [json_answer({"count": count, "max_model_len": 32768, "tokens": [7] * count})]


class LMDeploy(OpenAIBackend):
    """Bare errors, a new id with every fragment of a call, usage with the finish, and /v1/encode to count."""

    owner = "lmdeploy"

    def no_such_model(self, model: str) -> bytes:
        message = f"The model '{model}' does not exist."
        error = {"message": message, "type": "invalid_request_error", "code": 404, "param": None, "object": "error"}
        return json_answer(error, 404)

    def text(self) -> Iterator[Json]:
        for event in super().text():
            event["choices"][0]["delta"].setdefault("tool_calls", [])
            yield {**event, "usage": None}

    def tool_call(self, body: Json) -> Iterator[Json]:
        for number, event in enumerate(super().tool_call(body)):
            for call in event["choices"][0]["delta"].get("tool_calls", ()):
                call["id"] = f"chatcmpl-tool-{number}"
            yield event

    def post_v1_encode(self, request: Request) -> list[bytes]:
        body = body_of(request)
        count = len(body["input"].split()) + bool(body.get("add_bos", True))
        return [json_answer({"input_ids": [7] * count, "length": count})]


class Mnn(OpenAIBackend):
    """An empty finish reason until the last, no usage, no tools, and nothing but chat."""

    owner = "mnn"

    def post_v1_chat_completions(self, request: Request) -> list[bytes]:
        events = [delta("", content=piece) for piece in ANSWER]
        return chunked(*sse(*events, delta("stop", content=""), "[DONE]"))

    def post_v1_embeddings(self, request: Request) -> list[bytes]:
        return [self.no_such_path(request)]

    def no_such_path(self, request: Request) -> bytes:
        return answer(404, b"", kind="text/plain")


class LMStudio(OpenAIBackend):
    """Names only where OpenAI lists them, the rest in an API of its own; and 200 for what it does not know."""

    owner = "organization_owner"

    def get_api_v0_models(self, request: Request) -> list[bytes]:
        loaded = {"id": self.model, "object": "model", "type": "vlm", "publisher": "x", "arch": "gemma3"}
        loaded |= {"state": "loaded", "max_context_length": 131072, "loaded_context_length": 8192}
        waiting = {"id": "waiting", "object": "model", "type": "llm", "state": "not-loaded", "max_context_length": 4096}
        return [json_answer({"object": "list", "data": [loaded, waiting]})]

    def get_v1_models(self, request: Request) -> list[bytes]:
        cards = [self.card(), {**self.card(), "id": "waiting"}]
        return [json_answer({"object": "list", "data": cards})]

    def no_such_path(self, request: Request) -> bytes:
        return json_answer({"error": f"Unexpected endpoint or method. ({request.method} {request.path})"})


class Ollama(FakeBackend):
    model = "qwen3:8b"

    def __init__(self, *, parameters: str = "", default_window: int = 4096) -> None:
        self.parameters = parameters
        self.default_window = default_window
        self.loaded: int | None = None

    def get_api_tags(self, request: Request) -> list[bytes]:
        details = {"parent_model": "", "format": "gguf", "family": "qwen3", "parameter_size": "8.2B"}
        return [json_answer({"models": [{"name": self.model, "model": self.model, "size": 1, "details": details}]})]

    def get_api_ps(self, request: Request) -> list[bytes]:
        entry = {"name": self.model, "model": self.model, "size_vram": 1, "context_length": self.loaded}
        return [json_answer({"models": [entry] if self.loaded else []})]

    def post_api_show(self, request: Request) -> list[bytes]:
        if missing := self.missing(request):
            return missing
        info = {"general.architecture": "qwen3", "qwen3.block_count": 36, "qwen3.context_length": 40960}
        capabilities = ["completion", "tools", "thinking"]
        shown = {"parameters": self.parameters, "model_info": info, "capabilities": capabilities, "template": "…"}
        return [json_answer(shown)]

    def post_api_generate(self, request: Request) -> list[bytes]:
        self.loaded = self.default_window
        return [json_answer({"model": self.model, "response": "", "done": True, "done_reason": "load"})]

    def post_api_chat(self, request: Request) -> list[bytes]:
        if missing := self.missing(request):
            return missing
        body = body_of(request)
        calls = bool(body.get("tools")) and body["messages"][-1]["role"] == "user"
        lines = [*(self.tool_call(body) if calls else self.text()), self.done()]
        return chunked(*(self.line(line) for line in lines), kind="application/x-ndjson")

    def post_api_embed(self, request: Request) -> list[bytes]:
        vectors = [[len(text), 0.5] for text in body_of(request)["input"]]
        return [json_answer({"model": self.model, "embeddings": vectors, "prompt_eval_count": 2 * len(vectors)})]

    def missing(self, request: Request) -> list[bytes]:
        model = body_of(request)["model"]
        error = {"error": f"model '{model}' not found"}
        return [] if model == self.model else [json_answer(error, 404)]

    def line(self, value: Json) -> bytes:
        line = {"model": self.model, "created_at": "2026-11-15T10:00:00Z", "done": False, **value}
        return json.dumps(line, ensure_ascii=False).encode() + b"\n"

    def text(self) -> Iterator[Json]:
        for piece in ANSWER:
            yield {"message": {"role": "assistant", "content": piece}}

    def tool_call(self, body: Json) -> Iterator[Json]:
        name = body["tools"][0]["function"]["name"]
        yield {"message": {"role": "assistant", "content": "", "thinking": THOUGHT}}
        function = {"index": 0, "name": name, "arguments": CALL}
        yield {"message": {"role": "assistant", "content": "", "tool_calls": [{"id": "call_x1", "function": function}]}}

    def done(self) -> Json:
        counts = {"total_duration": 9, "load_duration": 1, "prompt_eval_count": 12, "eval_count": 5}
        return {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop", **counts}


@asynccontextmanager
async def running(fake: FakeBackend) -> AsyncIterator[RawServer]:
    async with raw_server(fake.serve) as server:
        yield server
