"""A running llama.cpp: one child process that serves one model, owned by a task of its own.

`LlamaServer(...)` starts the task. `ready` is set once the model is loaded, or to the error. It runs until `stop`, or
until the child exits. `ended` is set when nothing of it is left. Requests use it without owning it, so a cancelled
request does not stop the server for the others.

aish comes with an adapter for one model. It picks a tool, or says that none fits, in the words of
`tool_calling.prompts`; `train/` makes it. It acts only in requests that ask for it, in a slot of their own: llama.cpp
must not reuse what it computed with the adapter for other requests.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from aish.errors import AishError, ProcessError, ProviderError, ProviderRejected, ProviderUnavailable
from aish.ports import Provider
from aish.process.child import ChildProcess, ProcessSpec
from aish.types.requests import Tuning

_FILE = Path(__file__).parent / "adapters" / "smollm2-tools.gguf"
# The F16 file that `aish models pull smollm2` makes. Its head identifies it, and is read in a millisecond.
_BASE_BYTES = 270_885_952
_HEAD_BYTES = 1024 * 1024
_HEAD_SHA256 = "87a9fd8d1abf115189addb55c590c71a69dbd93725d8d6b48138e80494cc02e9"

CHAT = Tuning(scale=0.0, slot=0)
# A call outside of the conversation would take its slot. The tools in the other slot are shorter to read again.
SIDE_CALL = Tuning(scale=0.0, slot=1)
# After `{"` the model writes `name` or `answer`. The bias on `answer` was chosen on held-out data: train/CARD.md.
PICKING = Tuning(scale=1.0, slot=1, bias={"11247": -2.0})


def find_adapter(model: Path) -> Path | None:
    """The adapter for this model file, if it was made for it."""
    if not _FILE.is_file() or model.stat().st_size != _BASE_BYTES:
        return None
    with model.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return _FILE if hashlib.sha256(head).hexdigest() == _HEAD_SHA256 else None


MakeInner = Callable[[str, str], Provider]  # from a base URL, up to and including /v1, and a key

_ANSWER_MAX_BYTES = 64 * 1024
# For the loader to find Python and accelerators. llama.cpp itself takes no settings from the environment here.
_INHERIT = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "CUDA_*", "HIP_*", "ROCR_*", "GGML_*", "OMP_*")


class EmbeddedSettings(msgspec.Struct, frozen=True):
    """`context_size` is divided among the `parallel` requests that are served at once; others queue."""

    threads: int = 0  # 0: one for each core that we may use
    context_size: int = 8192  # 0: the window used in training, for each request, up to 16 K
    parallel: int = 1
    idle_stop_s: float = 600.0  # 0: never
    start_timeout_s: float = 120.0


class LlamaServer:
    def __init__(
        self,
        name: str,
        path: Path,
        settings: EmbeddedSettings,
        make_inner: MakeInner,
        *,
        on_crash: Callable[[], None],
    ) -> None:
        self.name = name
        self.path = path
        self.adapter = find_adapter(path) if settings.parallel == 1 else None
        self.users = 0
        self.ended = asyncio.Event()
        self.load_s = 0.0
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[Provider] = loop.create_future()
        self.ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())  # it may have no waiter
        self._settings = settings
        self._make_inner = make_inner
        self._on_crash = on_crash
        self._key = secrets.token_urlsafe(32)
        self._stop = asyncio.Event()
        self._child: ChildProcess | None = None
        self._task = loop.create_task(self._run(), name=f"embedded {name}")

    @property
    def is_usable(self) -> bool:
        return not self._stop.is_set() and not self.ended.is_set() and not self._has_exited()

    def _has_exited(self) -> bool:
        return self._child is not None and self._child.returncode is not None

    async def stop(self) -> None:
        self._stop.set()
        await self.ended.wait()

    def stop_soon(self) -> None:
        self._stop.set()

    async def find_crash(self, *, within_s: float) -> ProviderUnavailable | None:
        """The error to report if the child has exited, or does so in a moment: the lost connection may be seen first.

        None while it runs, after a requested stop, and if it was never ready: then `ready` has the error.
        """
        loaded = self.ready.done() and not self.ready.cancelled() and self.ready.exception() is None
        if self._child is None or self._stop.is_set() or not loaded:
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._child.wait()
        return self._crash_error(self._child) if self._has_exited() else None

    def _crash_error(self, child: ChildProcess) -> ProviderUnavailable:
        message = f"the embedded model stopped: {child.exit_error().message}"
        return ProviderUnavailable(message, hint=child.stderr_tail())

    async def _run(self) -> None:
        try:
            async with ChildProcess.start(self._spec()) as child:
                self._child = child
                inner = await self._load(child)
                try:
                    self.ready.set_result(inner)
                    await self._until_stop_or_exit(child)
                finally:
                    await inner.aclose()
        except AishError as exc:
            self._fail(exc)
        finally:
            if not self.ready.done():
                self.ready.cancel()
            self.ended.set()

    def _fail(self, exc: AishError) -> None:
        if not self.ready.done():
            is_ours = isinstance(exc, ProviderError)
            self.ready.set_exception(exc if is_ours else ProviderUnavailable(exc.message, hint=exc.hint))

    def _spec(self) -> ProcessSpec:
        return ProcessSpec(
            argv=(sys.executable, "-P", "-m", "aish.providers.embedded.child"),
            name="llama.cpp",
            inherit=_INHERIT,
            redact=lambda line: line.replace(self._key, "***"),
        )

    async def _load(self, child: ChildProcess) -> Provider:
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._settings.start_timeout_s):
                await child.write(self._child_settings())
                answer = await _read_answer(child)
        except TimeoutError:
            message = f"{self.name} did not load within {self._settings.start_timeout_s:g} s"
            raise ProviderUnavailable(message, hint=child.stderr_tail()) from None
        except ProcessError:
            answer = None
        if answer is None:
            await child.wait()
            self._on_crash()
            raise self._crash_error(child)
        if "address" not in answer:
            await child.wait()
            raise _load_error(self.path, answer, child.stderr_tail())
        self.load_s = time.monotonic() - started
        return self._make_inner(answer["address"] + "/v1", self._key)

    def _child_settings(self) -> bytes:
        settings = {
            "model": str(self.path),
            "alias": self.name,
            "context_size": self._settings.context_size,
            "parallel": self._settings.parallel,
            "threads": self._settings.threads or _available_cores(),
            "key": self._key,
            "adapter": str(self.adapter or ""),
        }
        return json.dumps(settings).encode() + b"\n"

    async def _until_stop_or_exit(self, child: ChildProcess) -> None:
        waits = {asyncio.ensure_future(self._stop.wait()), asyncio.ensure_future(child.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if not self._stop.is_set():
            self._on_crash()


async def _read_answer(child: ChildProcess) -> dict[str, str] | None:
    """The child's one line, or None if it exited without one."""
    line = b""
    async for piece in child.stdout:
        line += piece
        if b"\n" in line or len(line) > _ANSWER_MAX_BYTES:
            return msgspec.json.decode(line.partition(b"\n")[0], type=dict[str, str])
    return None


def _load_error(path: Path, answer: dict[str, str], stderr: str) -> ProviderRejected:
    """llama.cpp explains errors on stderr only. The first line that is an error has the reason; the others repeat
    it."""
    reason = next((line.partition(" E ")[2] for line in stderr.splitlines() if " E " in line), "")
    return ProviderRejected(f"cannot load {path}: {reason or answer.get('error', 'unknown reason')}", hint=stderr)


def _available_cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
