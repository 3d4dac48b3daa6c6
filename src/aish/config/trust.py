"""Remembers which project files the user accepted or refused. Files are pinned by the hash of their content, so a
changed file must be accepted again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from aish.config.locked_file import change_file
from aish.config.paths import data_dir, real
from aish.config.toml_file import Unreadable, read_bounded
from aish.errors import ConfigError

_decoder = msgspec.json.Decoder(dict[str, str])
_REFUSED = "refused "  # stands before the hash of a refused file


def trust_file(env: Mapping[str, str], home: Path | None = None) -> Path:
    return data_dir(env, home) / "trust.json"


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


def is_trusted(path: Path, content: bytes, *, env: Mapping[str, str], home: Path | None = None) -> bool:
    """Whether exactly this content at this path was accepted."""
    return read_pins(trust_file(env, home)).get(_name(path)) == content_hash(content)


def trust(path: Path, *, env: Mapping[str, str], home: Path | None = None, expected: str | None = None) -> str:
    """Accepts the file as it is now and returns its hash. `expected` is the hash of what the user was shown."""
    found = content_hash(project_content(path))
    if expected is not None and found != expected:
        raise ConfigError(f"{path} has changed since it was shown", hint="read it again, then accept it")
    _write_pins(trust_file(env, home), {_name(path): found})
    return found


def refuse(path: Path, content: bytes, *, env: Mapping[str, str], home: Path | None = None) -> None:
    """Remembers that the user refused this content."""
    _write_pins(trust_file(env, home), {_name(path): _REFUSED + content_hash(content)})


def was_refused(path: Path, content: bytes, *, env: Mapping[str, str], home: Path | None = None) -> bool:
    return read_pins(trust_file(env, home)).get(_name(path)) == _REFUSED + content_hash(content)


def distrust(path: Path, *, env: Mapping[str, str], home: Path | None = None) -> bool:
    """Forgets the user's answer about the file. Returns False if there was none."""
    known = _name(path) in read_pins(trust_file(env, home))
    if known:
        _write_pins(trust_file(env, home), {_name(path): None})
    return known


def read_pins(file: Path) -> dict[str, str]:
    """Reads the pins; none if the file cannot be read or is damaged."""
    try:
        return _decoder.decode(file.read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def _write_pins(file: Path, changes: Mapping[str, str | None]) -> None:
    def with_changes() -> bytes:
        pins = {name: pin for name, pin in {**read_pins(file), **changes}.items() if pin is not None}
        return msgspec.json.format(msgspec.json.encode(pins), indent=2) + b"\n"

    change_file(file, with_changes)


def _name(path: Path) -> str:
    return str(real(path)).encode("utf-8", "backslashreplace").decode()
