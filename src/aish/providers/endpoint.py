"""An HTTP backend: its address, and calls to it.

Replies are one JSON document or a stream. All failures become ProviderErrors, and no key is part of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Literal

import msgspec

from aish.errors import ProviderError, ProviderProtocolError, UsageError, WireError
from aish.net.http.client import HttpClient, Response, Timeouts
from aish.providers.http_errors import error_text_of, refusal, translate_wire_error
from aish.providers.loose_json import NotJson, decode_json, encode_json

# A listing of some thousand models, or embeddings of a batch.
MAX_ANSWER_BYTES = 32 * 1024 * 1024
LOOKUP = Timeouts(connect_s=3, first_byte_s=5, idle_s=5, total_s=10)
WRONG_URL = "is the provider's url right? It usually ends in /v1"
# Shorter keys are placeholders such as "none". Hiding those would garble any text that contains them.
_MIN_SECRET_CHARS = 6


CountText = Callable[[str], int | None]
HeaderPairs = tuple[tuple[str, str], ...]


class Endpoint(msgspec.Struct, frozen=True):
    """The settings of a backend. Secrets do not show in its repr."""

    url: str
    key: str = ""
    headers: Mapping[str, str] = {}
    connect_timeout_s: float = 10.0
    idle_timeout_s: float = 120.0
    max_call_s: float = 600.0
    context_size: int | None = None  # configured; wins over what the backend says
    models: tuple[str, ...] = ()  # configured; offered instead of what the backend lists
    cache_hints: Literal["auto", "always", "never"] = "auto"  # see `openai.cache_hints`
    count_text: CountText | None = None  # with a tokenizer file, where the backend cannot count

    def __repr__(self) -> str:
        return f"Endpoint({self.url.partition('?')[0]!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("url", self.url.partition("?")[0])]

    @property
    def root(self) -> str:
        """Without /v1: the base of `/props`, `/tokenize` and Ollama's own API."""
        return self.url.rstrip("/").removesuffix("/v1")

    @property
    def api(self) -> str:
        """With /v1, which is added where the url names only a host."""
        url = self.url.rstrip("/")
        return url if "/" in url.partition("://")[2] else f"{url}/v1"

    def request_headers(self) -> list[tuple[str, str]]:
        """Configured headers replace ours."""
        ours = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
        if self.key:
            ours["authorization"] = f"Bearer {self.key}"
        configured = {name.lower() for name in self.headers}
        return [*((n, v) for n, v in ours.items() if n not in configured), *self.headers.items()]

    def timeouts(self, deadline_s: float) -> Timeouts:
        """For one model call. How long silence may last depends on how far the reply has come, so its reader sets that
        limit."""
        total_s = self.max_call_s
        if deadline_s < total_s:
            total_s = max(0.0, deadline_s)
        return Timeouts(connect_s=self.connect_timeout_s, first_byte_s=total_s, idle_s=total_s, total_s=total_s)

    def hide_secrets(self, text: str) -> str:
        for secret in (self.key, *self.headers.values()):
            if len(secret) >= _MIN_SECRET_CHARS:
                text = text.replace(secret, "[hidden]")
        return text


class Backend:
    """Calls one endpoint. `model` in a call is for the error message if the backend does not have it."""

    def __init__(self, name: str, endpoint: Endpoint, http: HttpClient) -> None:
        self.name = name
        self.endpoint = endpoint
        self._http = http
        self._headers = tuple(endpoint.request_headers())

    async def get(self, url: str) -> Any:
        return await self._call("GET", url, b"", "", LOOKUP)

    async def post(self, url: str, body: Any, *, model: str = "", timeouts: Timeouts | None = None) -> Any:
        timeouts = timeouts or self.endpoint.timeouts(self.endpoint.max_call_s)
        return await self._call("POST", url, encode_json(body), model, timeouts)

    def stream(
        self, url: str, body: Any, *, model: str, deadline_s: float, traceparent: str = "", more: HeaderPairs = ()
    ) -> AbstractAsyncContextManager[Response]:
        """A reply with status 200. Failures while it is read are translated, too. `more` are further headers."""
        headers = (*self._headers, ("traceparent", traceparent)) if traceparent else self._headers
        if more:
            headers = (*headers, *more)
        timeouts, has_deadline = self.endpoint.timeouts(deadline_s), deadline_s <= self.endpoint.max_call_s
        return self._open(model, "POST", url, headers, encode_json(body), timeouts, has_deadline=has_deadline)

    def _open(
        self,
        model: str,
        method: str,
        url: str,
        headers: HeaderPairs,
        body: bytes,
        timeouts: Timeouts,
        *,
        has_deadline: bool = False,
    ) -> AbstractAsyncContextManager[Response]:
        try:
            request = self._http.request(method, url, headers=headers, body=body, timeouts=timeouts)
        except (WireError, UsageError) as exc:
            raise self.translate_error(exc) from exc
        return _CheckedResponse(self, model, request, has_deadline)

    async def _call(self, method: str, url: str, body: bytes, model: str, timeouts: Timeouts) -> Any:
        async with self._open(model, method, url, self._headers, body, timeouts) as response:
            data = await response.read(MAX_ANSWER_BYTES)
            try:
                return decode_json(data)
            except NotJson as exc:
                shown = error_text_of(data)[:80]
                raise ProviderProtocolError(f"{self.name} did not answer with JSON: {shown}", hint=WRONG_URL) from exc

    async def refusal(self, model: str, response: Response) -> ProviderError:
        """The error for a reply that cannot be used."""
        if response.status != 200:
            return await refusal(self.name, model, response)
        encoding = response.headers["content-encoding"][:20]
        return ProviderProtocolError(
            f"{self.name} compressed its answer ({encoding}) although it was asked not to",
            hint="turn off compression in the proxy or gateway before it",
        )

    def translate_error(self, error: WireError | UsageError, *, has_deadline: bool = False) -> ProviderError:
        return self.without_secrets(translate_wire_error(self.name, error, has_deadline=has_deadline))

    def without_secrets(self, error: ProviderError) -> ProviderError:
        """Some backends repeat the key that they refuse."""
        error.message = self.endpoint.hide_secrets(error.message)
        error.hint = self.endpoint.hide_secrets(error.hint)
        error.args = (error.message,)
        return error


class _CheckedResponse(msgspec.Struct, eq=False):
    """A reply whose status and encoding have been checked; failures are translated. It is a class because a generator
    would cost more for every request."""

    backend: Backend
    model: str
    request: AbstractAsyncContextManager[Response]
    has_deadline: bool  # the caller limits the time for the whole call

    async def __aenter__(self) -> Response:
        try:
            response = await self.request.__aenter__()
        except (WireError, UsageError) as exc:
            raise self.backend.translate_error(exc, has_deadline=self.has_deadline) from exc
        encoding = response.headers.find("content-encoding")
        if response.status == 200 and (encoding is None or encoding.strip().lower() in ("", "identity")):
            return response
        try:
            raise await self.backend.refusal(self.model, response)
        except BaseException as exc:
            await self.__aexit__(type(exc), exc, exc.__traceback__)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.request.__aexit__(kind, exc, trace)
        if exc is None:
            return
        if isinstance(exc, WireError | UsageError):
            raise self.backend.translate_error(exc, has_deadline=self.has_deadline) from exc
        if isinstance(exc, ProviderError):
            self.backend.without_secrets(exc)
