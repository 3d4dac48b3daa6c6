"""An HTTP backend: where it is, how to speak to it, and plain JSON calls to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from aish.errors import ProviderProtocolError
from aish.providers.faults import error_text, refusal, translated
from aish.wire.http import HttpClient, Timeouts

# A listing of some thousand models, or embeddings of a batch.
MAX_ANSWER_BYTES = 32 * 1024 * 1024
_LOOKUP = Timeouts(connect_s=3, first_byte_s=5, idle_s=5, total_s=10)
_WRONG_URL = "is the provider's url right? It usually ends in /v1"


class Endpoint(msgspec.Struct, frozen=True):
    """Secrets never show in its repr."""

    url: str
    key: str = ""
    headers: Mapping[str, str] = {}
    connect_timeout_s: float = 10.0
    idle_timeout_s: float = 120.0
    max_call_s: float = 600.0
    context_size: int | None = None  # configured; wins over what the backend says
    models: tuple[str, ...] = ()  # configured; offered instead of what the backend lists

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"

    @property
    def root(self) -> str:
        """Without /v1: where `/props`, `/tokenize` and Ollama's own API are."""
        return self.url.rstrip("/").removesuffix("/v1")

    @property
    def api(self) -> str:
        """With /v1, which is taken for granted where the url names only a host."""
        url = self.url.rstrip("/")
        return url if "/" in url.partition("://")[2] else f"{url}/v1"

    def request_headers(self) -> list[tuple[str, str]]:
        headers = [("content-type", "application/json"), ("accept", "text/event-stream, application/json")]
        if self.key:
            headers.append(("authorization", f"Bearer {self.key}"))
        return [*headers, *self.headers.items()]

    def timeouts(self, deadline_s: float) -> Timeouts:
        """For one model call. The first byte may take as long as the whole: prompts are long and machines slow."""
        total_s = min(deadline_s, self.max_call_s)
        return Timeouts(
            connect_s=min(self.connect_timeout_s, total_s),
            first_byte_s=total_s,
            idle_s=min(self.idle_timeout_s, total_s),
            total_s=total_s,
        )


class JsonApi:
    """Calls that are answered at once with one JSON document. All failures are ProviderErrors."""

    def __init__(self, name: str, endpoint: Endpoint, http: HttpClient) -> None:
        self._name = name
        self._endpoint = endpoint
        self._http = http

    async def get(self, url: str) -> Any:
        return await self._call("GET", url, b"", _LOOKUP)

    async def post(self, url: str, body: Any, timeouts: Timeouts | None = None) -> Any:
        return await self._call("POST", url, msgspec.json.encode(body), timeouts or Timeouts())

    async def _call(self, method: str, url: str, body: bytes, timeouts: Timeouts) -> Any:
        headers = self._endpoint.request_headers()
        with translated(self._name):
            async with self._http.request(method, url, headers=headers, body=body, timeouts=timeouts) as response:
                if response.status != 200:
                    raise await refusal(self._name, "", response)
                data = await response.read(MAX_ANSWER_BYTES)
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError) as exc:
            shown = error_text(data)[:80]
            raise ProviderProtocolError(f"{self._name} did not answer with JSON: {shown}", hint=_WRONG_URL) from exc
