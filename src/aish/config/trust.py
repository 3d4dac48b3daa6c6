"""Which project files the user accepted, and which not: pinned by the hash of the content, so a changed file is a new
one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from aish.config.locked_file import change_file
from aish.config.paths import data_dir, real
from aish.config.toml_file import Unreadable, read_bounded
from aish.errors import ConfigError

_decoder = msgspec.json.Decoder(dict[str, str])
_REFUSED = "refused "  # before the hash: such a pin is no content's


def trust_file(env: Mapping[str, str], home: Path | None = None) -> Path:
    return data_dir(env, home) / "trust.json"


def content_hash(content: bytes) -> str:
    import hashlib  # loads OpenSSL: not for those who have no project file

    return hashlib.sha256(content).hexdigest()


def project_content(path: Path) -> bytes:
    """What is to be shown before it is accepted. Raises ConfigError."""
    try:
        return read_bounded(path)
    except Unreadable as exc:
        raise ConfigError(f"{path} {exc.message}") from exc
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror}", hint="name a project file that is there") from exc


def is_trusted(path: Path, content: bytes, *, env: Mapping[str, str], home: Path | None = None) -> bool:
    """Whether exactly this content at this place was accepted."""
    return read_pins(trust_file(env, home)).get(_name(path)) == content_hash(content)


def trust(path: Path, *, env: Mapping[str, str], home: Path | None = None, expected: str | None = None) -> str:
    """Accept the file as it is now; returns its hash. `expected` is the hash of what the user was shown."""
    found = content_hash(project_content(path))
    if expected is not None and found != expected:
        raise ConfigError(f"{path} has changed since it was shown", hint="look at it again")
    _write_pins(trust_file(env, home), {_name(path): found})
    return found


def refuse(path: Path, content: bytes, *, env: Mapping[str, str], home: Path | None = None) -> None:
    """Remember that this content was not accepted."""
    _write_pins(trust_file(env, home), {_name(path): _REFUSED + content_hash(content)})


def was_refused(path: Path, content: bytes, *, env: Mapping[str, str], home: Path | None = None) -> bool:
    return read_pins(trust_file(env, home)).get(_name(path)) == _REFUSED + content_hash(content)


def distrust(path: Path, *, env: Mapping[str, str], home: Path | None = None) -> bool:
    """Take back what was said of it. False if nothing was."""
    known = _name(path) in read_pins(trust_file(env, home))
    if known:
        _write_pins(trust_file(env, home), {_name(path): None})
    return known


def read_pins(file: Path) -> dict[str, str]:
    """A file that cannot be read or is no longer whole trusts nothing."""
    try:
        return _decoder.decode(file.read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def _write_pins(file: Path, changes: Mapping[str, str | None]) -> None:
    def changed() -> bytes:
        pins = {name: pin for name, pin in {**read_pins(file), **changes}.items() if pin is not None}
        return msgspec.json.format(msgspec.json.encode(pins), indent=2) + b"\n"

    change_file(file, changed)


def _name(path: Path) -> str:
    return str(real(path)).encode("utf-8", "backslashreplace").decode()
