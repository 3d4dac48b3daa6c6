"""Keeps what makes git run programs as it was, while a command runs unasked in a sandbox.

Git obeys the settings and hooks of a repository, and a prompt runs git at every line. A command must write in `.git`,
so a sandbox cannot close it. What a sandbox can close it does (`closed`); the rest is compared when the command has
ended, and put back. Additions that run nothing stay: branches, new remotes, a new repository.

These are the repositories of the workspace, of the folders around it, and those deeper in it as far as a bounded search
finds them, before the command and after it.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

import msgspec

from aish.errors import ToolError
from aish.tools.git_config import is_harmless_change

_MAX_BYTES = 4 * 1024 * 1024
_MAX_PATHS = 2000
_MAX_DEPTH = 4
_IN_FOLDER = ("commondir", "config", "config.worktree", "hooks")
_WITH_MANY = ("hooks", "modules", "worktrees")
_OF_WORKTREE = ("commondir", "config.worktree")
# Of the search for repositories deeper in the workspace: about 20 ms.
_MAX_SEARCHED = 2000
_MAX_ENTRIES = 20_000
_MAX_NESTED = 50
_MAX_NESTED_DEPTH = 6
_NOT_SEARCHED = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", "target", ".tox", ".mypy_cache"})
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_Signature = tuple[int, ...]


class _State(msgspec.Struct, frozen=True):
    """What is at a path: `kind` 0 if nothing is. `content` is the text of a file, or where a link leads."""

    kind: int = 0
    mode: int = 0
    content: bytes = b""
    is_complete: bool = True


_NOTHING = _State()


class ClosedPaths(msgspec.Struct, frozen=True):
    """`pinned` cannot be renamed or replaced, `read_only` cannot be changed either."""

    pinned: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()


class GitSettings:
    """`writable` are the folders in which commands can write. Contents are read when they have changed only."""

    def __init__(self, workspace: Path, writable: Sequence[Path]) -> None:
        roots = [path.resolve() for path in (workspace, *writable)]
        folder = workspace.resolve()
        self._roots = roots
        self._workspace = str(folder)
        self._around = [str(each) for each in (folder, *folder.parents) if self._is_writable(each)]
        self._nested: list[str] = []
        self._known: dict[str, tuple[_Signature, _State]] = {}

    @property
    def _folders(self) -> list[str]:
        return [*self._around, *self._nested]

    def _is_writable(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self._roots)

    def take(self) -> GitSnapshot:
        """Raises ToolError if it is too much to put back."""
        self._nested = find_nested(self._workspace)
        own = [folder for folder in self._folders if _is_repository(folder)]
        inside = chain.from_iterable(map(_in_folder, self._repositories(own)))
        paths = list(islice(chain(self._outer(own), inside), _MAX_PATHS + 1))
        states = {path: self._state(path) for path in paths}
        self._known = {path: known for path, known in self._known.items() if path in states}
        if len(paths) > _MAX_PATHS or not all(state.is_complete for state in states.values()):
            raise ToolError("the settings and hooks of git are too large to watch, so nothing was run unasked")
        return GitSnapshot(self, states, own)

    def find_changes(self, before: dict[str, _State], own: Sequence[str]) -> Iterator[tuple[str, _State]]:
        """Yields what has changed and how it was. Folders come first, and what leads to others: it must have been put
        back when the next one is asked for, so that nothing of another repository is taken for a change."""
        self._nested = list(dict.fromkeys((*self._nested, *find_nested(self._workspace))))
        yield from self._compare(before, (f"{folder}/.git" for folder in self._folders))
        for folder in self._folders:
            if folder not in own and _is_repository(folder):
                yield f"{folder}/HEAD", _NOTHING
        yield from self._compare(before, [f"{real}/commondir" for real in self._inner(own)])
        repositories = self._repositories(own)
        inside = list(islice(chain.from_iterable(map(_in_folder, repositories)), 2 * _MAX_PATHS + 1))
        if len(inside) > 2 * _MAX_PATHS:  # what cannot be looked through is moved away as a whole
            yield from ((f"{folder}/{name}", _NOTHING) for folder in repositories for name in _WITH_MANY)
        yield from self._compare(before, sorted({*before, *inside}, key=lambda path: (path.count("/"), path)))

    def _compare(self, before: dict[str, _State], paths: Iterable[str]) -> Iterator[tuple[str, _State]]:
        for path in paths:
            old, new = before.get(path, _NOTHING), self._state(path)
            if old != new and not _is_harmless(path, old, new) and not self._leads_to_a_watched_one(path, old, new):
                yield path, old

    def _leads_to_a_watched_one(self, path: str, old: _State, new: _State) -> bool:
        """Whether it is the new file of a worktree or a submodule. The repository that it leads to is compared, too."""
        folder, name = os.path.split(path)
        return name == ".git" and folder in self._nested and old == _NOTHING and new.kind == stat.S_IFREG

    def is_nested(self, path: str) -> bool:
        return any(path.startswith(f"{folder}/") for folder in self._nested)

    def _outer(self, own: Sequence[str]) -> Iterator[str]:
        """Yields what decides where a repository is."""
        yield from (f"{folder}/.git" for folder in self._folders)
        yield from (f"{real}/commondir" for real in self._inner(own))

    def _inner(self, own: Sequence[str]) -> list[str]:
        """The real folders of repositories, those of worktrees by themselves. `own`: folders that are one."""
        found = (*own, *filter(None, (_follow(f"{folder}/.git") for folder in self._folders)))
        return list(dict.fromkeys(folder for folder in found if self._is_writable(Path(folder))))

    def _repositories(self, own: Sequence[str]) -> list[str]:
        inner = self._inner(own)
        common = (folder for real in inner if (folder := _follow(f"{real}/commondir")) is not None)
        return list(dict.fromkeys((*inner, *(folder for folder in common if self._is_writable(Path(folder))))))

    def _state(self, path: str) -> _State:
        try:
            found = os.lstat(path)
        except OSError:
            return _NOTHING
        kind = stat.S_IFMT(found.st_mode)
        if kind == stat.S_IFLNK:
            with suppress(OSError):
                return _State(kind, 0, os.fsencode(os.readlink(path)))  # noqa: PTH115 -- as it is written
        if kind != stat.S_IFREG:
            return _State(kind)
        signature = (found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        known = self._known.get(path)
        if known is None or known[0] != signature:
            known = self._known[path] = signature, _read_file(path)
        return known[1]


class GitSnapshot:
    def __init__(self, settings: GitSettings, states: dict[str, _State], own: Sequence[str]) -> None:
        """`own`: folders that are a repository themselves."""
        self._settings = settings
        self._states = states
        self._own = own

    @property
    def closed(self) -> ClosedPaths:
        """What exists and can be closed without a loss: a repository that git still works in. Not those deeper in the
        workspace: they may be moved and removed as a whole."""
        pinned, read_only = [], []
        for path, state in self._states.items():
            name = os.path.basename(path)  # noqa: PTH119
            if "/worktrees/" in path or self._settings.is_nested(path):
                continue  # git removes and makes worktrees as a whole
            if name == ".git" and state.kind == stat.S_IFDIR:
                pinned.append(path)
            elif (name in (".git", *_IN_FOLDER) and state.kind == stat.S_IFREG) or (
                name == "hooks" and state.kind == stat.S_IFDIR
            ):
                read_only.append(path)
        return ClosedPaths(tuple(pinned), tuple(read_only))

    def restore(self) -> list[str]:
        """Puts back what could make git run a program. Returns the paths; "PATH (not possible: WHY)" if it could not
        be."""
        changes = self._settings.find_changes(self._states, self._own)
        done = dict.fromkeys(_put_back(path, old) for path, old in changes)  # a later one may depend on an earlier
        return list(filter(None, done))


def find_nested(workspace: str) -> list[str]:
    """The folders below with a `.git`, the highest first, within bounds. No link is followed."""
    found: list[str] = []
    waiting, searched, left = deque([(workspace, 0)]), 0, _MAX_ENTRIES
    while waiting and searched < _MAX_SEARCHED and len(found) < _MAX_NESTED and left > 0:
        folder, depth = waiting.popleft()
        searched += 1
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in islice(entries, left):
                left -= 1
                if entry.name == ".git" and folder != workspace:
                    found.append(folder)
                elif depth < _MAX_NESTED_DEPTH and entry.name not in _NOT_SEARCHED and _is_folder(entry):
                    waiting.append((entry.path, depth + 1))
    return found


def _is_folder(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        return entry.is_dir(follow_symlinks=False)
    return False


def _is_repository(folder: str) -> bool:
    has = [os.path.lexists(f"{folder}/{name}") for name in ("HEAD", "refs", "commondir")]
    return has[0] and (has[1] or has[2])


def _in_folder(folder: str) -> Iterator[str]:
    yield from (f"{folder}/{name}" for name in _IN_FOLDER)
    yield from (path for path in _walk(f"{folder}/hooks") if not path.endswith(".sample"))
    yield f"{folder}/worktrees"
    for path in _walk(f"{folder}/worktrees", depth=1):
        yield path
        yield from (f"{path}/{name}" for name in _OF_WORKTREE)
    yield f"{folder}/modules"
    for path in _walk(f"{folder}/modules", only_modules=True):
        yield path
        yield from (f"{path}/{name}" for name in _IN_FOLDER)
        yield from (hook for hook in _walk(f"{path}/hooks") if not hook.endswith(".sample"))


def _walk(folder: str, *, depth: int = _MAX_DEPTH, only_modules: bool = False) -> Iterator[str]:
    """Yields what is in a folder and deeper, links unfollowed. Names of modules may have parts: those are folders until
    one is a repository."""
    with suppress(OSError):
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            return
        with os.scandir(folder) as entries:
            found = sorted((entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries)
        for path, is_folder in found:
            if only_modules and not is_folder and not os.path.islink(path):  # noqa: PTH114
                continue
            yield path
            if is_folder and depth > 1 and not (only_modules and _is_repository(path)):
                yield from _walk(path, depth=depth - 1, only_modules=only_modules)
            elif is_folder and only_modules:
                yield f"{path}/modules"
                yield from _walk(f"{path}/modules", depth=depth - 1, only_modules=True) if depth > 1 else ()


def _follow(path: str) -> str | None:
    """Returns the real folder that a folder, a link, a `.git` file or a `commondir` leads to."""
    try:
        if stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
            text = os.fsdecode(_read_file(path, follows=True).content).strip().removeprefix("gitdir:").strip()
            path = os.path.join(os.path.dirname(path), text)  # noqa: PTH118, PTH120
        real = os.path.realpath(path, strict=True)
        return real if stat.S_ISDIR(os.stat(real).st_mode) else None  # noqa: PTH116
    except (OSError, ValueError):
        return None


def _read_file(path: str, *, follows: bool = False) -> _State:
    """A file that cannot be read is incomplete: it differs from all others, and cannot be put back."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follows else os.O_NOFOLLOW)
    with suppress(OSError), open(os.open(path, flags), "rb") as file:  # noqa: PTH123
        mode, content = os.fstat(file.fileno()).st_mode, file.read(_MAX_BYTES + 1)
        return _State(stat.S_IFREG, stat.S_IMODE(mode), content, len(content) <= _MAX_BYTES)
    return _State(stat.S_IFREG, is_complete=False)


def _is_harmless(path: str, old: _State, new: _State) -> bool:
    name, kinds = os.path.basename(path), (old.kind, new.kind)  # noqa: PTH119
    if kinds in ((0, stat.S_IFDIR), (stat.S_IFDIR, 0)):
        return True  # what is in a new one is looked at by itself
    if name in ("config", "config.worktree") and old.kind in (0, stat.S_IFREG) and new.kind == stat.S_IFREG:
        return new.is_complete and is_harmless_change(old.content, new.content, is_module="/modules/" in path)
    # What `git worktree add` writes.
    is_common = old == _NOTHING and "/worktrees/" in path and new.content == b"../..\n"
    return is_common and name == "commondir" and new.kind == stat.S_IFREG


def _put_back(path: str, old: _State) -> str:
    """Returns what is to be said about it; "" if the whole folder is gone."""
    folder, name = os.path.split(path)
    try:
        fd = _open_folder(folder)
        try:
            _write_state(fd, name, old)
        finally:
            os.close(fd)
    except FileNotFoundError:
        return ""
    except OSError as exc:
        return f"{path} (not possible: {exc.strerror})"
    return path


def _open_folder(path: str) -> int:
    """Opens it without following links. Raises OSError."""
    flags = _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open("/", flags)
    for part in Path(path).parts[1:]:
        try:
            below = os.open(part, flags, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    return fd


def _write_state(folder: int, name: str, old: _State) -> None:
    spare = f"{name}.aish-{secrets.token_hex(4)}"
    if old.kind == stat.S_IFREG:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(spare, flags, 0o600, dir_fd=folder), "wb") as file:  # noqa: PTH123
            owner = os.fstat(folder)
            with suppress(OSError):
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            os.fchmod(file.fileno(), old.mode)
            file.write(old.content)
        _clear(folder, name)
        os.rename(spare, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    _clear(folder, name)
    if old.kind == stat.S_IFLNK:
        os.symlink(old.content, os.fsencode(name), dir_fd=folder)
    elif old.kind == stat.S_IFDIR:
        os.mkdir(name, dir_fd=folder)


def _clear(folder: int, name: str) -> None:
    """Removes a file or link. A folder is renamed: it may hold what is still needed."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            spare = f"{name}.aside-{secrets.token_hex(4)}"
            os.rename(name, spare, src_dir_fd=folder, dst_dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
