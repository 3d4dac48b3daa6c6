"""Compares model files with the hashes that are known for them.

Hashing a large model takes seconds. So the state of a file that was found right is recorded: size, inode, and the times
of its last change, to the nanosecond. While all of them are the same, the file counts as unchanged and is not read
again. This finds damage, and programs that write to the file. It does not stop someone who may write the record, too,
or who sets the clock back; `aish doctor` reads the whole file every time.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from pathlib import Path

import msgspec

from aish.errors import ProviderRejected, UsageError
from aish.providers.model_store.cache_folder import in_thread

_HASH_BYTES = 4 * 1024 * 1024
_SHA256 = re.compile(r"[0-9a-f]{64}")


class CheckedFile(msgspec.Struct, frozen=True):
    """The state in which a file had the hash `sha256`."""

    sha256: str
    size: int
    inode: int
    modified_ns: int
    changed_ns: int


def state_of(path: Path, digest: str) -> CheckedFile:
    found = path.stat()
    return CheckedFile(digest, found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)


async def verify(path: Path, expected: str, known: CheckedFile | None) -> CheckedFile:
    """Returns the state in which the file has that hash: `known` if it still is in that state. Raises
    ProviderRejected."""
    try:
        state = state_of(path, expected)
        if state == known:
            return state
        found = await in_thread(lambda stop: sha256(path, stop))
    except OSError as exc:
        raise ProviderRejected(f"cannot read {path}: {exc.strerror or exc}") from exc
    if found != expected:
        name = path.stem
        raise ProviderRejected(
            f"{path} was altered: its SHA-256 is {found} instead of {expected}",
            hint=f"fetch it anew: aish models rm {name} && aish models pull {name} (or its URL)",
        )
    return state


def sha256(path: Path, stop: threading.Event) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while (piece := file.read(_HASH_BYTES)) and not stop.is_set():
            digest.update(piece)
        os.fsync(file.fileno())  # the hashed bytes are on the disk before the file gets its name
    return digest.hexdigest()


def check_hash(origin: str, found: str, expected: str, *, hint: str = "") -> None:
    if expected and found != expected:
        raise ProviderRejected(
            f"{origin} is not the file that was expected: its SHA-256 is {found} instead of {expected}",
            hint=hint or "if the change is wanted, delete the .json file of that name in the cache and pull again",
        )


def read_sha256(text: str) -> str:
    """Reads a hash that a user gave. Raises UsageError."""
    digest = text.strip().lower().removeprefix("sha256:")
    if digest and not _SHA256.fullmatch(digest):
        raise UsageError(
            "that is not a SHA-256", hint="64 characters from 0-9 and a-f, as `sha256sum FILE` prints them"
        )
    return digest


def replace_file(path: Path, content: bytes) -> None:
    """Writes a small file as a whole: another process reads the old content or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(content)
    beside.replace(path)
