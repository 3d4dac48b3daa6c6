"""The embedded model: llama.cpp in a child process, called like any OpenAI-compatible server.

Nothing runs until the first request. One server runs at a time, because two with as many threads as there are cores
slow each other down. Another model waits until the current one is not in use. A server that is unused for `idle_stop_s`
is stopped. When the child crashes, its requests fail and the next request starts it again; after more than three
crashes within a minute it stays down until that minute is over. The inner provider speaks the protocol.
"""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from aish.errors import ModelNotFound, ProviderError, ProviderTimeout, ProviderUnavailable
from aish.ports import Provider, TextRelay
from aish.providers.embedded.server import CHAT, PICKING, SIDE_CALL, EmbeddedSettings, LlamaServer, MakeInner
from aish.providers.model_store.cache_folder import check_is_gguf, is_file, path_of
from aish.types.chunks import Batch
from aish.types.events import Status
from aish.types.models import Capabilities, ModelProfile, is_model_file_name
from aish.types.requests import EmbeddingResult, Inputs, Sampling, StepRequest, Tuning

__all__ = ["EmbeddedProvider", "EmbeddedSettings", "MakeInner", "ModelFiles"]

_CRASHES_ALLOWED = 3
_CRASH_WINDOW_S = 60.0
_QUIET_S = 0.3  # a shorter start is not reported
_CALL_TIMEOUT_S = 180.0  # for calls without a deadline: a slow start and a slow answer
_CRASH_SEEN_WITHIN_S = 1.0
_TEMPERATURE = 0.1
_DEFAULT_SETTINGS = EmbeddedSettings()


class ModelFiles(Protocol):
    """The part of the model cache that is needed here."""

    def names(self) -> Sequence[str]: ...

    def find(self, name: str) -> Path | None: ...

    def can_pull(self, name: str) -> bool: ...

    async def verify(self, path: Path) -> None:
        """Raises ProviderRejected if the file is not the one that was pulled."""


class EmbeddedProvider:
    def __init__(
        self,
        models: ModelFiles,
        make_inner: MakeInner,
        settings: EmbeddedSettings = _DEFAULT_SETTINGS,
        *,
        name: str = "embedded",
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._models = models
        self._make_inner = make_inner
        self._settings = settings
        self._name = name
        self._monotonic_s = monotonic_s
        # First come, first served, so that no request starves while models take turns.
        self._choice_lock = asyncio.Lock()
        self._engine: LlamaServer | None = None
        self._unused = asyncio.Event()
        self._idle: asyncio.TimerHandle | None = None
        self._crashes: deque[float] = deque(maxlen=_CRASHES_ALLOWED + 1)
        self._closed = False

    @property
    def name(self) -> str:
        return self._name

    async def list_models(self) -> Sequence[ModelProfile]:
        can = Capabilities(embeddings=True)
        return [ModelProfile(provider=self._name, id=name, capabilities=can) for name in self._models.names()]

    async def describe(self, model: str) -> ModelProfile:
        async with self._inner_for(model) as inner:
            info = await inner.describe(model)
            has_adapter = self._engine is not None and self._engine.adapter is not None
        capabilities = msgspec.structs.replace(info.capabilities, embeddings=True, tool_adapter=has_adapter)
        return msgspec.structs.replace(info, provider=self._name, id=model, capabilities=capabilities)

    def prepare(self, request: StepRequest) -> StepRequest:
        return request

    async def count_tokens(self, model: str, text: str) -> int | None:
        """Returns None also while another model is loaded: a count is no reason to unload it."""
        if self._engine is not None and self._engine.is_usable and self._engine.name != model:
            return None
        try:
            async with self._inner_for(model) as inner:
                return await inner.count_tokens(model, text)
        except ProviderError:
            return None

    async def count_prompt(self, request: StepRequest) -> int | None:
        if self._engine is not None and self._engine.is_usable and self._engine.name != request.model:
            return None
        try:
            async with self._inner_for(request.model) as inner:
                return await inner.count_prompt(request)
        except ProviderError:
            return None

    async def embed(self, model: str, inputs: Inputs) -> EmbeddingResult:
        async with self._inner_for(model) as inner:
            return await inner.embed(model, inputs)

    def stream(
        self, request: StepRequest, relay: TextRelay | None = None
    ) -> AbstractAsyncContextManager[AsyncGenerator[Batch, None]]:
        return aclosing(self._batches(request, relay))

    async def aclose(self) -> None:
        self._closed = True
        self._cancel_idle_stop()
        if self._engine is not None:
            await self._engine.stop()

    async def _batches(self, request: StepRequest, relay: TextRelay | None) -> AsyncGenerator[Batch, None]:
        deadline_s = time.monotonic() + request.deadline_s
        engine = await self._acquire(request.model, request.deadline_s)
        async with self._using(engine):
            await asyncio.wait({engine.ready}, timeout=min(_QUIET_S, request.deadline_s))
            if not engine.ready.done():
                yield [Status(f"loading {engine.name} …")]
                await self._until_ready(engine, deadline_s - time.monotonic())
                yield [Status(f"loaded in {engine.load_s:.1f} s")]
            inner = await self._until_ready(engine, deadline_s - time.monotonic())
            left = msgspec.structs.replace(
                request,
                sampling=_with_default_temperature(request.sampling),
                deadline_s=max(0.0, deadline_s - time.monotonic()),
                tuning=_tuning(request) if engine.adapter else None,
            )
            async with inner.stream(left, relay) as batches:
                async for batch in batches:
                    yield batch

    @asynccontextmanager
    async def _inner_for(self, model: str) -> AsyncIterator[Provider]:
        engine = await self._acquire(model, _CALL_TIMEOUT_S)
        async with self._using(engine):
            yield await self._until_ready(engine, _CALL_TIMEOUT_S)

    @asynccontextmanager
    async def _using(self, engine: LlamaServer) -> AsyncIterator[None]:
        """Releases the server at the end. The inner provider sees a crash as a lost connection; this reports the
        crash."""
        try:
            yield
        except ProviderError as exc:
            crash = await engine.find_crash(within_s=_CRASH_SEEN_WITHIN_S) if exc.retry else None
            if crash is None:
                raise
            raise crash from exc
        finally:
            self._release(engine)

    async def _until_ready(self, engine: LlamaServer, timeout_s: float) -> Provider:
        done, _ = await asyncio.wait({engine.ready}, timeout=max(0.0, timeout_s))
        if not done:
            raise ProviderTimeout(f"{engine.name} was not loaded in time", is_deadline=True)
        if engine.ready.cancelled():
            raise ProviderUnavailable("the embedded model was stopped")
        return engine.ready.result()

    async def _acquire(self, model: str, timeout_s: float) -> LlamaServer:
        try:
            async with asyncio.timeout(timeout_s), self._choice_lock:
                engine = await self._choose(model)
                engine.users += 1
        except TimeoutError as exc:
            message = f"{model} had to wait too long for another model to finish"
            raise ProviderTimeout(message, is_deadline=True) from exc
        self._cancel_idle_stop()
        return engine

    async def _choose(self, model: str) -> LlamaServer:
        """Returns the running server if it serves `model`, else a new one, after the old one is unused and stopped."""
        path = self._find_file(model)
        current = self._engine
        if current is not None and current.is_usable and current.path == path:
            return current
        if current is not None:
            await self._retire(current)
        self._check_may_start()
        await self._models.verify(path)
        self._engine = LlamaServer(model, path, self._settings, self._make_inner, on_crash=self._note_crash)
        return self._engine

    async def _retire(self, engine: LlamaServer) -> None:
        while engine.is_usable and engine.users:
            self._unused.clear()
            await self._unused.wait()
        await engine.stop()

    def _note_crash(self) -> None:
        self._crashes.append(self._monotonic_s())

    def _release(self, engine: LlamaServer) -> None:
        engine.users -= 1
        if engine.users == 0:
            self._unused.set()
            if engine is self._engine and self._settings.idle_stop_s > 0:
                self._idle = asyncio.get_running_loop().call_later(self._settings.idle_stop_s, engine.stop_soon)

    def _cancel_idle_stop(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _check_may_start(self) -> None:
        if self._closed:
            raise ProviderUnavailable("the embedded model is shut down")
        if importlib.util.find_spec("xllamacpp") is None:
            hint = "pip install 'aish-runtime[local]'"
            raise ProviderUnavailable("the embedded model needs xllamacpp, which is not installed", hint=hint)
        if (wait_s := self._blocked_for_s()) > 0:
            message = (
                f"the embedded model crashed {len(self._crashes)} times within a minute; tried again in {wait_s:.0f} s"
            )
            raise ProviderUnavailable(message, hint="try a smaller model or a smaller context_size")

    def _blocked_for_s(self) -> float:
        if len(self._crashes) <= _CRASHES_ALLOWED or self._crashes[-1] - self._crashes[0] > _CRASH_WINDOW_S:
            return 0.0
        return self._crashes[-1] + _CRASH_WINDOW_S - self._monotonic_s()

    def _find_file(self, model: str) -> Path:
        path = path_of(model) if is_model_file_name(model) else None
        if path is None or not is_file(path):
            found = self._models.find(model)
            if found is None:
                raise self._not_found(model, path)
            path = found
        check_is_gguf(path)
        return path

    def _not_found(self, model: str, path: Path | None) -> ModelNotFound:
        if path is not None:
            return ModelNotFound(f"there is no model file {path}", hint="aish models list")
        hint = f"aish models pull {model if self._models.can_pull(model) else 'smollm2'}"
        return ModelNotFound(f"the model {model} is not in the cache", hint=hint)


def _with_default_temperature(sampling: Sampling) -> Sampling:
    """llama.cpp's own default is made for large models. At that temperature a small one loses the thread."""
    return sampling if sampling.temperature is not None else msgspec.structs.replace(sampling, temperature=_TEMPERATURE)


def _tuning(request: StepRequest) -> Tuning:
    if request.picks_tool:
        return PICKING
    return SIDE_CALL if request.is_side_call else CHAT
