"""Opens files below one root and never outside it, whatever symlinks, races or hard links exist.

On Linux the kernel keeps every look-up below the root (`openat2` with RESOLVE_BENEATH). Elsewhere each component is
opened without following links, so links inside the workspace are refused there. A write creates a new file and renames
it into place: it never writes through a link, and readers see the old or the new content. A file with a second name (a
hard link) may be one from outside: it is never replaced, and read only where package managers create such links.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator, Set
from pathlib import Path, PurePosixPath
from typing import Literal, Protocol

from aish.errors import ToolError
from aish.safety.workspace_paths import BadPath, relative_path
from aish.types.tools import ResultStatus

# The same on every architecture of Linux since 5.6.
_SYS_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_BENEATH = 0x08
# Larger files are not read in one piece.
MAX_FILE_BYTES = 16 * 1024 * 1024
_LINKED = "is a hard link: the same file has another name, perhaps outside the workspace"
_LINK_HINT = "to have such files read, though not changed, the user can set ide.hard_links = true in the configuration"
_MAX_ABOVE = 64  # folders of an absolute name that are checked
_READ = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)  # never wait for the other end of a pipe
_FOLDER = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)

# Names do not change their meaning, and a tool uses a file's name several times in a call.
_relative_path = functools.lru_cache(maxsize=4096)(relative_path)

Kind = Literal["file", "folder", "other"]


class IsSecret(Protocol):
    """Whether a file holds a secret, by its absolute path; with `glob`, whether the pattern means such files."""

    def __call__(self, path: str, *, glob: bool = False) -> bool: ...


def is_never_secret(path: str, *, glob: bool = False) -> bool:
    return False


class TooLong(ToolError):
    """The file is longer than allowed."""


class HardLinked(ToolError):
    """The file has a second name and is therefore not read."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class Workspace:
    """Keeps the root open, so that renaming it has no effect.

    `packages` are names of folders that package managers fill with links to a cache. With `hard_links` every file is
    read, whatever names it has. `hides` are files and folders inside the root that are never opened. `is_secret` is
    for tools that find files by themselves: those files are opened if they are named.
    """

    def __init__(
        self,
        root: Path,
        *,
        use_openat2: bool = True,
        packages: Set[str] = frozenset(),
        hard_links: bool = False,
        hides: Iterable[Path] = (),
        is_secret: IsSecret = is_never_secret,
    ) -> None:
        self.root = root.resolve()
        self._is_secret = is_secret
        self._hides = tuple(hidden for path in hides if _overlap(hidden := path.resolve(), self.root))
        # A root that is given as a link may be named by the link or by its target.
        self._names = dict.fromkeys((PurePosixPath(self.root), PurePosixPath(root.absolute())))
        self._fd = os.open(self.root, _FOLDER)
        self._kernel_keeps = use_openat2 and _has_openat2(self._fd)
        self._packages = packages
        self._reads_links = hard_links

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read(self, name: str, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        """Raises ToolError for anything but a regular file below the root, of that size at most."""
        with self.reading(name) as fd:
            size = os.fstat(fd).st_size
            if size > max_bytes:
                text = f"{name} has {size} bytes, more than the {max_bytes} that can be read at once"
                raise TooLong(text, status=ResultStatus.NOT_ALLOWED)
            return _read_all(fd, max_bytes, name)

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[int]:
        """Opens a regular file below the root for reading in parts; ToolError for anything else."""
        path = self._relative(name)
        with self._open_checked(path, _READ, name) as fd:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise _not_allowed(f"{name} is not a regular file")
            if self.withholds(str(path), status):
                raise HardLinked(f"{name} {_LINKED}; {_LINK_HINT}", status=ResultStatus.NOT_ALLOWED)
            try:
                yield fd
            except OSError as exc:
                raise _tool_error(exc, name) from exc

    def withholds(self, path: str, status: os.stat_result) -> bool:
        """Whether a file is not read because it has a second name, which may be outside.

        Installed packages often have such files. There, files that all users may read are allowed, so a private key
        does not become readable by being linked there.
        """
        if status.st_nlink <= 1 or self._reads_links:
            return False
        return not status.st_mode & stat.S_IROTH or self._packages.isdisjoint(self.resolve(path).parts)

    def holds_secret(self, path: str) -> bool:
        """Whether a file, which no link leads to, holds a secret by its name or place. The disk is not accessed."""
        return self._is_secret(f"{self.root}/{path}")

    def asks_for_secrets(self, folder: str, glob: str) -> bool:
        """Whether a search of this folder or file, or with this glob, asks for secrets by name. The gate has judged
        such names in the same way (`tool_judge`)."""
        place = f"{self.root}/{folder}" if folder else str(self.root)
        return (bool(folder) and self._is_secret(place)) or (
            bool(glob) and self._is_secret(f"{place}/{glob}", glob=True)
        )

    def write(self, name: str, content: bytes) -> None:
        """Writes the whole file or nothing. Keeps the mode of a replaced file; creates no folders."""
        path = self._relative(name)
        if path.name in ("", "."):
            raise _not_allowed(f"{name} is a folder")
        with self._open_checked(path.parent, _FOLDER, name, child=path.name) as folder:
            mode = _replaceable_mode(folder, path.name, name)
            _replace(folder, path.name, content, mode, name)

    def exists(self, name: str) -> bool:
        """Whether the name exists, including a broken link. Raises ToolError for a name outside."""
        path = self._relative(name)
        try:
            with self._open_checked(path.parent, _FOLDER, name, child=path.name) as folder:
                os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except ToolError as exc:
            if isinstance(exc.__cause__, FileNotFoundError):
                return False
            raise
        return True

    def check_readable(self, name: str) -> None:
        """Raises ToolError for anything but a regular file below the root."""
        with self.reading(name):
            pass

    @contextlib.contextmanager
    def folder_of(self, name: str) -> Iterator[tuple[int, str]]:
        """Yields the open folder of a file, which may not exist yet, and the file's name in it."""
        path = self._relative(name)
        if path.name in ("", "."):
            raise _not_allowed(f"{name} is a folder")
        with self._open_checked(path.parent, _FOLDER, name, child=path.name) as folder:
            try:
                yield folder, path.name
            except OSError as exc:
                raise _tool_error(exc, name) from exc

    def entries(self, name: str = ".") -> list[tuple[str, Kind]]:
        """Returns the entries of a folder, sorted by name. A link is "other", wherever it leads."""
        with self._open_checked(self._relative(name), _FOLDER, name) as fd, os.scandir(fd) as found:
            return sorted((entry.name, _kind(entry)) for entry in found)

    def resolve(self, name: str) -> PurePosixPath:
        """Returns the target of links, relative to the root; the name itself if that is outside, where it cannot be
        opened."""
        path = self._relative(name)
        try:
            real = PurePosixPath(os.path.realpath(self.root / path))
        except OSError:  # it is being changed right now
            return path
        return real.relative_to(PurePosixPath(self.root)) if real.is_relative_to(PurePosixPath(self.root)) else path

    def relative(self, name: str) -> str:
        """Returns the file's normalised name for a path or a `file:` URI; ToolError for one outside."""
        return str(self._relative(name))

    def _relative(self, name: str) -> PurePosixPath:
        first_error: BadPath | None = None
        for root in self._names:
            try:
                return _relative_path(name, root)
            except BadPath as exc:
                first_error = first_error or exc
        if (found := self._find_through_links(name)) is not None:
            return found
        raise _not_allowed(str(first_error)) from first_error

    def _find_through_links(self, name: str) -> PurePosixPath | None:
        """Resolves an absolute name whose folder leads inside, such as the shell's name of the working directory.

        Only the name is resolved; the file is then opened below the root like any other.
        """
        try:
            path = PurePosixPath("/") / _relative_path(name, PurePosixPath("/"))
        except BadPath:
            return None
        root = PurePosixPath(self.root)
        for above in list(reversed(path.parents))[:_MAX_ABOVE]:
            real = PurePosixPath(os.path.realpath(above))
            if real.is_relative_to(root):
                return real.relative_to(root) / path.relative_to(above)
        return None

    @contextlib.contextmanager
    def _open_checked(self, path: PurePosixPath, flags: int, name: str, *, child: str = "") -> Iterator[int]:
        """`child` is the name of the file in the opened folder."""
        try:
            fd = self._open_beneath(path, flags) if self._kernel_keeps else self._open_stepwise(path, flags)
        except OSError as exc:
            raise _tool_error(exc, name) from exc
        try:
            if self._hides and self._is_hidden(self._real_path_of(fd, path) / child):
                raise _not_allowed(f"{name} belongs to aish itself and is not opened")
            yield fd
        finally:
            os.close(fd)

    def _real_path_of(self, fd: int, path: PurePosixPath) -> Path:
        """Returns the real path of an open file. Without links on the way it is the name."""
        if not self._kernel_keeps:
            return self.root / path
        try:
            return Path(f"/proc/self/fd/{fd}").readlink()
        except OSError:  # a machine without /proc
            return (self.root / path).resolve()

    def _is_hidden(self, place: Path) -> bool:
        return any(place.is_relative_to(hidden) for hidden in self._hides)

    def _open_beneath(self, path: PurePosixPath, flags: int) -> int:
        how = _OpenHow(flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
        return _openat2(self._fd, str(path), how)

    def _open_stepwise(self, path: PurePosixPath, flags: int) -> int:
        folder = os.dup(self._fd)
        try:
            for part in path.parts[:-1]:
                below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = below
            return os.open(path.name or ".", flags | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _openat2(folder: int, path: str, how: _OpenHow) -> int:
    while True:
        name = ctypes.c_char_p(os.fsencode(path))
        fd: int = _libc().syscall(_SYS_OPENAT2, folder, name, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how)))
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        # EAGAIN: something was renamed during the look-up, and the kernel could not be sure.
        if number not in (errno.EINTR, errno.EAGAIN):
            raise OSError(number, os.strerror(number), path)


def _has_openat2(folder: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        os.close(_openat2(folder, ".", _OpenHow(_FOLDER, 0, _RESOLVE_BENEATH)))
    except OSError:
        return False
    return True


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _read_all(fd: int, max_bytes: int, name: str) -> bytes:
    pieces: list[bytes] = []
    left = max_bytes + 1
    while left > 0 and (piece := os.read(fd, min(left, 1024 * 1024))):
        pieces.append(piece)
        left -= len(piece)
    if left <= 0:
        raise _not_allowed(f"{name} grew past {max_bytes} bytes while it was read")
    return b"".join(pieces)


def _replaceable_mode(folder: int, file: str, name: str) -> int:
    """Returns the mode of the existing file, or the default. Only a regular file with one name may be replaced."""
    try:
        status = os.stat(file, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0o644
    if not stat.S_ISREG(status.st_mode):
        raise _not_allowed(f"{name} is not a regular file")
    if status.st_nlink > 1:
        raise _not_allowed(f"{name} {_LINKED}")
    return stat.S_IMODE(status.st_mode)


def _replace(folder: int, file: str, content: bytes, mode: int, name: str) -> None:
    staged = f".{file[:100]}.{secrets.token_hex(6)}.aish"
    try:
        fd = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        try:
            with open(fd, "wb") as stream:  # noqa: PTH123  # a descriptor has no path
                stream.write(content)
                stream.flush()
                os.fchmod(fd, mode)
                os.fsync(fd)
            os.rename(staged, file, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(staged, dir_fd=folder)
            raise
    except OSError as exc:
        raise _tool_error(exc, name) from exc


def _tool_error(exc: OSError, name: str) -> ToolError:
    if exc.errno in (errno.EXDEV, errno.ELOOP):
        return _not_allowed(f"{name} leads outside the workspace or through a link that cannot be followed")
    reasons = {errno.ENOENT: "does not exist", errno.EACCES: "may not be opened", errno.ENOTDIR: "is not in a folder"}
    return ToolError(f"{name} {reasons.get(exc.errno or 0, f'cannot be used: {exc.strerror}')}")


def _not_allowed(text: str) -> ToolError:
    return ToolError(text, status=ResultStatus.NOT_ALLOWED)
