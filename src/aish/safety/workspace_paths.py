"""Normalises names of files in a workspace, as models and editors write them, to relative paths.

Pure: the disk is not accessed. `tools/workspace` opens the files and protects against symlinks and races; this module
only refuses names that are always wrong.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

MAX_PATH_CHARS = 4096

_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class BadPath(ValueError):
    """The name cannot be a file in the workspace; the message says why."""


def relative_path(name: str, root: PurePosixPath) -> PurePosixPath:
    """Returns `name` (absolute, relative, or a `file:` URI) as a path below `root`; the root itself is `.`."""
    path = PurePosixPath(_path_of_uri(name) if name[:5].lower() == "file:" else name)
    _check_text(str(path) if name else "")
    parts = _below(path, root) if path.is_absolute() else path.parts
    if ".." in parts:
        # `a/../b` is not simplified to `b`: if `a` is a symlink, the two differ.
        raise BadPath(f"'{name}' holds '..'; name the file by its path below the workspace")
    return PurePosixPath(*parts)


def _below(path: PurePosixPath, root: PurePosixPath) -> tuple[str, ...]:
    if path.parts[: len(root.parts)] != root.parts:
        raise BadPath(f"'{path}' is outside the workspace {root}")
    return path.parts[len(root.parts) :]


def _path_of_uri(uri: str) -> str:
    """Strict: no other host, no query, no fragment, no escaped separators, valid UTF-8."""
    rest = uri[5:]
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        if host.lower() not in ("", "localhost"):
            raise BadPath(f"'{uri}' names another host")
        rest = slash + rest
    if not rest.startswith("/") or "?" in rest or "#" in rest:
        raise BadPath(f"'{uri}' is not a plain file: URI")
    if _BAD_ESCAPE.search(rest) or re.search(r"%(?:2[fF]|00|5[cC])", rest):
        raise BadPath(f"'{uri}' hides a separator or a broken escape")
    try:
        return _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), rest.encode()).decode("utf-8")
    except (UnicodeDecodeError, UnicodeEncodeError) as exc:
        raise BadPath(f"'{uri}' is not UTF-8") from exc


def _check_text(text: str) -> None:
    if not text:
        raise BadPath("the path is empty")
    if len(text) > MAX_PATH_CHARS:
        raise BadPath(f"the path is longer than {MAX_PATH_CHARS} characters")
    if "\0" in text or any(0xD800 <= ord(char) <= 0xDFFF for char in text):
        raise BadPath("the path holds characters that no file name can")
