"""Hashes the folder of an extension, so that a change in any of its files is noticed."""

from __future__ import annotations

import stat
from functools import lru_cache
from pathlib import Path

from aish.errors import UsageError

_MAX_FILES = 500
_MAX_BYTES = 8 * 1024 * 1024
_SKIPPED = frozenset({"__pycache__", ".git"})  # what is in them is no part of an extension


def hash_folder(folder: Path) -> str:
    """The hash of all files of an extension, by name and content. Raises UsageError for too many or too large ones, and
    for links and other entries whose content could change unseen."""
    try:
        return _hash_files(folder, _stamp_files(folder))
    except OSError as exc:  # it is being changed
        raise UsageError(f"{folder} cannot be read: {exc.strerror}") from exc


def is_hashed(relative: str) -> bool:
    """Whether a path of an extension is one whose changes are noticed."""
    return not _SKIPPED.intersection(Path(relative).parts)


def _stamp_files(folder: Path) -> tuple[tuple[str, int, int, int], ...]:
    """Each file with what changes when it is written."""
    stamps: list[tuple[str, int, int, int]] = []
    size = 0
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if _SKIPPED.intersection(relative.parts):
            continue
        found = path.lstat()
        if stat.S_ISDIR(found.st_mode):
            continue
        if not stat.S_ISREG(found.st_mode):
            what = "a link" if stat.S_ISLNK(found.st_mode) else "no plain file"
            raise UsageError(f"{path} is {what}, which an extension may not have")
        size += found.st_size
        # The time of the last change of the inode cannot be set, unlike that of the content.
        stamps.append((relative.as_posix(), found.st_size, found.st_ino, found.st_ctime_ns))
        if len(stamps) > _MAX_FILES or size > _MAX_BYTES:
            raise UsageError(
                f"{folder} has more than {_MAX_FILES} files or {_MAX_BYTES // 1024 // 1024} MB",
                hint="put the extension into a folder of its own",
            )
    return tuple(stamps)


@lru_cache(maxsize=64)
def _hash_files(folder: Path, stamps: tuple[tuple[str, int, int, int], ...]) -> str:
    """Reads the files anew only if one of them has changed."""
    from hashlib import sha256

    digest = sha256()
    for name, size, _, _ in stamps:
        digest.update(f"{name}\0{size}\0".encode())
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()


def find_package_folder(module: str) -> Path | None:
    """The folder of the package that a module is in. Nothing of it is imported."""
    from importlib.util import find_spec

    try:
        spec = find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).parent if spec is not None and spec.origin else None
