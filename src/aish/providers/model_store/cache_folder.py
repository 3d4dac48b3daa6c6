"""File operations of the model cache: locks, checks of the format, and readable errors."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

from aish.errors import ProviderError, ProviderRejected

GGUF_MAGIC = b"GGUF"
_LOCK_WAIT_S = 3600.0  # for the largest model over a slow connection
_LOCK_POLL_S = 0.1
_STOP_WAIT_S = 5.0

T = TypeVar("T")


@asynccontextmanager
async def lock_file(path: Path, on_wait: Callable[[], None]) -> AsyncIterator[None]:
    """One holder at a time among all processes. The kernel releases the lock when the holder dies. The file stays."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)  # not inherited by children
    try:
        if not _try_lock(descriptor):
            on_wait()
            await _wait_for_lock(descriptor, path)
        yield
    finally:
        os.close(descriptor)


async def _wait_for_lock(descriptor: int, path: Path) -> None:
    for _ in range(int(_LOCK_WAIT_S / _LOCK_POLL_S)):
        if _try_lock(descriptor):
            return
        await asyncio.sleep(_LOCK_POLL_S)
    raise ProviderError("another aish has been pulling this model for an hour", hint=f"see who holds {path}")


def _try_lock(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows: two pulls at once do the work twice, and the last rename wins
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def plain_errors(folder: Path) -> Iterator[None]:
    """Turns OSErrors of `folder` into one sentence that tells the user what to do."""
    try:
        yield
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ProviderError(f"there is no room left for models in {folder}", hint="aish models rm NAME") from exc
        if exc.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise ProviderError(f"models cannot be stored: {folder} may not be written to") from exc
        raise ProviderError(f"models cannot be stored in {folder}: {exc.strerror or exc}") from exc


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Runs `work` in a thread. When we are cancelled its event is set, and it gets a moment to stop."""
    stop = threading.Event()
    running = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait({running}, timeout=_STOP_WAIT_S)
        raise


def path_of(name: str) -> Path:
    """Expands `~` where there is such a home."""
    try:
        return Path(name).expanduser().absolute()
    except RuntimeError:
        return Path(name).absolute()


def is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # the name is too long
        return False


def check_is_gguf(path: Path) -> None:
    try:
        with path.open("rb") as file:
            is_gguf = file.read(len(GGUF_MAGIC)) == GGUF_MAGIC
    except OSError as exc:
        raise ProviderRejected(f"cannot read {path}: {exc.strerror}") from exc
    if not is_gguf:
        raise ProviderRejected(f"{path} is not a GGUF file", hint="llama.cpp reads no other kind")
