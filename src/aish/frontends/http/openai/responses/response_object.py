"""The response object: every field the SDKs' types ask for.

What does not change while a response is made is encoded once (`make_head`); the rest is put behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from aish.frontends.http.openai.responses.request import ResponseBody
from aish.frontends.http.server.http_errors import Problem
from aish.types.usage import Usage

_encode = msgspec.json.encode
# Codex asks again after any code but these; it must not after a refusal.
_CREDENTIALS = frozenset({"authorization", "headers"})
_CODES = {429: "rate_limit_exceeded"}


def make_head(id: str, created_at: int, asked: ResponseBody, *, light: bool = False) -> bytes:
    """The object without its end. `light` leaves out what may be long: for signs of life."""
    text = {"format": {"type": "text"}, **(asked.text or {})}
    conversation = asked.conversation_id
    return _encode({
        "id": id,
        "object": "response",
        "created_at": created_at,
        "background": bool(asked.background),
        "conversation": {"id": conversation} if conversation else None,
        "instructions": None if light else asked.instructions,
        "max_output_tokens": asked.max_output_tokens,
        "max_tool_calls": asked.max_tool_calls,
        "metadata": asked.metadata or {},
        "model": asked.model,
        "parallel_tool_calls": asked.parallel_tool_calls is not False,
        "previous_response_id": asked.previous_response_id,
        "prompt_cache_key": asked.prompt_cache_key,
        "reasoning": {"effort": None, "summary": None, **(asked.reasoning or {})},
        "safety_identifier": asked.safety_identifier,
        "service_tier": "default",
        "store": asked.is_kept,
        "temperature": 1.0 if asked.temperature is None else asked.temperature,
        "text": {"format": {"type": "text"}} if light else text,
        "tool_choice": "auto" if light or asked.tool_choice is None else asked.tool_choice,
        "tools": [] if light else [_shown(tool) for tool in asked.tools or ()],
        "top_logprobs": asked.top_logprobs or 0,
        "top_p": 1.0 if asked.top_p is None else asked.top_p,
        "truncation": asked.truncation or "disabled",
        "user": asked.user,
    })[:-1]  # fmt: skip


def _shown(tool: dict[str, Any]) -> dict[str, Any]:
    """Without the credentials of a server that the client brings: they are kept nowhere."""
    if tool.get("type") != "mcp" or not tool.keys() & _CREDENTIALS:
        return tool
    return {name: value for name, value in tool.items() if name not in _CREDENTIALS}


def with_state(
    head: bytes,
    status: str,
    output: Iterable[bytes] = (),
    *,
    usage: Usage | None = None,
    error: dict[str, Any] | None = None,
    incomplete: dict[str, Any] | None = None,
    completed_at: int | None = None,
) -> bytes:
    tail = {
        "status": status,
        "completed_at": completed_at,
        "error": error,
        "incomplete_details": incomplete,
        "usage": usage_object(usage) if usage is not None else None,
    }
    return head + b"," + _encode(tail)[1:-1] + b',"output":[' + b",".join(output) + b"]}"


def usage_object(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


def error_object(problem: Problem) -> dict[str, Any]:
    code = _CODES.get(problem.status) or ("server_error" if problem.status >= 500 else "invalid_prompt")
    return {"code": code, "message": problem.message, "type": problem.type, "param": problem.param}
