"""Changes a small private file: one process at a time, and the file is replaced as a whole."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from aish.errors import ConfigError

_WAIT_S = 5.0  # a change takes milliseconds


def change_file(file: Path, make_content: Callable[[], bytes]) -> None:
    """Replaces the file by what `make_content` returns. It runs under a lock, so it may read the file first. Raises
    ConfigError."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(file.parent):
            _replace(file, make_content())
    except OSError as exc:
        raise ConfigError(f"{file} cannot be written: {exc.strerror}", hint="make its directory writable") from exc


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Locks the folder, not the file: each change replaces the file by a new one."""
    import fcntl  # most runs change nothing

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        due_s = time.monotonic() + _WAIT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= due_s:
                    raise
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


def _replace(file: Path, content: bytes) -> None:
    import tempfile

    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=file.name)  # made with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as temporary:
            temporary.write(content)
            temporary.flush()
            os.fsync(temporary.fileno())
        Path(name).replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
