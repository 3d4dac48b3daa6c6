"""Counts tokens by asking the backend, and remembers what it cannot answer.

llama.cpp and vLLM count at `/tokenize`, LMDeploy at `/v1/encode`. A whole prompt is rendered by llama.cpp at
`/apply-template`; vLLM counts it as it is. Next comes a tokenizer file of the user. Never raises; an address that does
not answer in time is left alone for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aish.errors import ProviderBusy, ProviderError, ProviderTimeout, ProviderUnavailable
from aish.net.http.client import Timeouts
from aish.providers.endpoint import Backend
from aish.providers.openai import reported_models
from aish.providers.openai.request import encode_message, encode_tools
from aish.types.requests import StepRequest

# Less than the engine waits for all counting together, so that the slow address is known here.
_TIMEOUTS = Timeouts(connect_s=1, first_byte_s=1.5, idle_s=1.5, total_s=1.5)
# A backend that hangs while it loads a model counts well a minute later.
_REST_S = 60.0
_NEVER = float("inf")


class BackendTokenCounter:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._own = backend.endpoint.count_text
        root, api = backend.endpoint.root, backend.endpoint.api
        self._tokenize = f"{root}/tokenize"
        self._counters = (self._tokenize, f"{api}/encode")
        self._template = f"{root}/apply-template"
        self._resting: dict[str, float] = {}  # until when each address is left alone

    async def text(self, model: str, text: str) -> int | None:
        for url in self._counters:
            answer = await self._ask(url, _plain(model, text), model, reported_models.token_count)
            if (count := reported_models.token_count(answer)) is not None:
                return count
        return await asyncio.to_thread(self._own, text) if self._own else None

    async def prompt(self, request: StepRequest) -> int | None:
        body: dict[str, Any] = {"model": request.model, "messages": [encode_message(m) for m in request.messages]}
        if request.tools:
            body["tools"] = encode_tools(request.tools)
        answer = await self._ask(self._template, body, request.model, _read_prompt)
        if (prompt := _read_prompt(answer)) is not None:
            body = {"model": request.model, "content": prompt, "add_special": True, "parse_special": True}
        answer = await self._ask(self._tokenize, body, request.model, reported_models.token_count)
        return reported_models.token_count(answer) or None

    async def _ask(self, url: str, body: Any, model: str, read: Callable[[Any], object]) -> Any:
        """Returns None where the backend has no readable answer."""
        now_s = asyncio.get_running_loop().time()
        if self._resting.get(url, 0.0) > now_s:
            return None
        try:
            answer = await self._backend.post(url, body, model=model, timeouts=_TIMEOUTS)
        except ProviderBusy:
            return None  # it may answer next time
        except (ProviderUnavailable, ProviderTimeout):
            self._resting[url] = now_s + _REST_S
            return None
        except asyncio.CancelledError:
            self._resting[url] = now_s + _REST_S  # the counting took too long
            raise
        except ProviderError:
            answer = None
        if read(answer) is None:
            self._resting[url] = _NEVER
            return None
        return answer


def _plain(model: str, text: str) -> dict[str, Any]:
    """Each backend has its own field for the text, and its own switch against adding special tokens."""
    return {
        "model": model,
        "content": text,
        "prompt": text,
        "input": text,
        "add_special": False,
        "add_special_tokens": False,
        "add_bos": False,
    }


def _read_prompt(answer: Any) -> str | None:
    prompt = answer.get("prompt") if isinstance(answer, dict) else None
    return prompt if isinstance(prompt, str) else None
