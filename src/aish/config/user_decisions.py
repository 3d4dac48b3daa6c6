"""Stores decisions of the user: which project files are trusted, and the rules added with the answer "always".

A project file is pinned by the hash of its content, so a changed file must be accepted again. aish never writes the
configuration file itself.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from aish.config.paths import data_dir, real
from aish.config.toml_file import Unreadable, read_bounded
from aish.errors import ConfigError

_REFUSED = "refused "  # stands before the hash of a refused file
_MAX_APPROVAL_BYTES = 1024 * 1024
_WAIT_S = 5.0  # a change takes milliseconds


def trust_file(env: Mapping[str, str]) -> Path:
    return data_dir(env) / "trust.json"


def content_hash(content: bytes) -> str:
    import hashlib  # loads OpenSSL, which only project files need

    return hashlib.sha256(content).hexdigest()


def project_content(path: Path) -> bytes:
    """Reads the file, to show it before it is accepted. Raises ConfigError."""
    try:
        return read_bounded(path)
    except Unreadable as exc:
        raise ConfigError(f"{path} {exc.message}") from exc
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror}", hint="name a project file that is there") from exc


def is_trusted(path: Path, content: bytes, *, env: Mapping[str, str]) -> bool:
    """Whether exactly this content at this path was accepted."""
    return read_pins(trust_file(env)).get(_name(path)) == content_hash(content)


def trust_project_file(path: Path, *, env: Mapping[str, str], expected: str | None = None) -> str:
    """Accepts the file as it is now and returns its hash. `expected` is the hash of what the user was shown."""
    found = content_hash(project_content(path))
    if expected is not None and found != expected:
        raise ConfigError(f"{path} has changed since it was shown", hint="read it again, then accept it")
    _write_pins(trust_file(env), {_name(path): found})
    return found


def refuse(path: Path, content: bytes, *, env: Mapping[str, str]) -> None:
    """Remembers that the user refused this content."""
    _write_pins(trust_file(env), {_name(path): _REFUSED + content_hash(content)})


def was_refused(path: Path, content: bytes, *, env: Mapping[str, str]) -> bool:
    return read_pins(trust_file(env)).get(_name(path)) == _REFUSED + content_hash(content)


def distrust(path: Path, *, env: Mapping[str, str]) -> bool:
    """Forgets the user's answer about the file. Returns False if there was none."""
    known = _name(path) in read_pins(trust_file(env))
    if known:
        _write_pins(trust_file(env), {_name(path): None})
    return known


def read_pins(file: Path) -> dict[str, str]:
    """Reads the pins; none if the file cannot be read or is damaged."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def _write_pins(file: Path, changes: Mapping[str, str | None]) -> None:
    def with_changes() -> bytes:
        pins = {name: pin for name, pin in {**read_pins(file), **changes}.items() if pin is not None}
        return msgspec.json.format(msgspec.json.encode(pins), indent=2) + b"\n"

    change_file(file, with_changes)


def _name(path: Path) -> str:
    return str(real(path)).encode("utf-8", "backslashreplace").decode()


def approvals_file(env: Mapping[str, str]) -> Path:
    return data_dir(env) / "approved.json"


def load_approvals(file: Path) -> list[dict[str, Any]]:
    """Reads the rules; none if there is no file. Raises ConfigError if the file is damaged."""
    try:
        content = file.read_bytes()[: _MAX_APPROVAL_BYTES + 1]
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise ConfigError(f"{file} cannot be read: {exc.strerror}") from exc
    try:
        return msgspec.json.decode(content, type=list[dict[str, Any]])
    except msgspec.DecodeError as exc:
        raise ConfigError(f"{file} is damaged: {exc}", hint="delete it to be asked again") from exc


def add_approval(file: Path, rule: Mapping[str, Any]) -> None:
    """Appends a rule. Only the user may read the file."""

    def with_rule() -> bytes:
        return msgspec.json.format(msgspec.json.encode([*load_approvals(file), dict(rule)])) + b"\n"

    change_file(file, with_rule)


def change_file(file: Path, make_content: Callable[[], bytes]) -> None:
    """Replaces the file by what `make_content` returns. It runs under a lock, so it may read the file first. Raises
    ConfigError."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _lock(file.parent):
            _replace(file, make_content())
    except OSError as exc:
        raise ConfigError(f"{file} cannot be written: {exc.strerror}", hint="make its directory writable") from exc


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
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
