"""Confines a child with Landlock and seccomp: what it may read, write and connect to. Linux 5.13 and newer, without any
privilege.

    ProcessSpec(argv, confinement=Confinement(writable=(workspace,), hidden=(keys,)))

What it prepares runs in the child between fork and exec, and can never be taken back, also not by root. The rules are
made before the fork, because few calls are safe between fork and exec. If a step fails, the child does not start.

Landlock allows what is below a path, and cannot except a part of it. So everything is readable but the folders that
contain something hidden, and of these each entry by itself. Files that are made later in such a folder are not
readable, and the names in hidden folders can be listed.
"""

from __future__ import annotations

import ctypes
import functools
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from aish.process.seccomp import BeforeExec, has_filters, load_library, make_install, socket_lines

# Numbers of system calls, the same on all machines that have them.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_ALL_OF_FIRST = (1 << 13) - 1
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_TCP = 0b11  # bind and connect
_SCOPES = 0b11  # abstract sockets and signals
_LEAST_ABI = 3  # the first that can forbid to empty a file
_O_PATH = getattr(os, "O_PATH", 0)
# Of /dev, only these: through others root could read disks, and anybody the keys typed at other terminals.
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "shm")
_MAX_RULES = 20_000  # some 60 ms

_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP = 38, 24
_MAX_CAPABILITY = 63
# Capabilities that root keeps: it may write to a workspace that belongs to another user.
_KEPT_CAPABILITIES = frozenset({0, 1, 3})  # CHOWN, DAC_OVERRIDE, FOWNER


class Confinement(msgspec.Struct, frozen=True):
    """`writable` are the folders in which everything is allowed. `hidden` are files and folders that cannot be read or
    written. `fixed` cannot be written in writable folders: paths without links on the way, which may be links. Sockets
    of services cannot be reached. Without `network` no other socket can be made either."""

    writable: tuple[Path, ...]
    hidden: tuple[Path, ...] = ()
    fixed: tuple[str, ...] = ()
    network: bool = False

    @contextmanager
    def prepare(self, before: BeforeExec | None = None) -> Iterator[BeforeExec]:
        """Yields what the child runs before exec, after `before`. Raises OSError."""
        ruleset = _create_ruleset(network=self.network)
        try:
            for path, access in _allow(self):
                _add_rule(ruleset, path, access)
            yield _make_before_exec(ruleset, make_install(socket_lines(network=self.network)), before)
        finally:
            os.close(ruleset)


@functools.cache
def find_abi() -> int:
    """The version of Landlock that the kernel has, 0 if it has none or too old a one."""
    if not has_filters():
        return 0
    with suppress(OSError, AttributeError):
        abi = _syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)
        return abi if abi >= _LEAST_ABI else 0
    return 0


def _all_rights() -> int:
    abi = find_abi()
    return _ALL_OF_FIRST | _REFER | _TRUNCATE | (_IOCTL_DEV if abi >= 5 else 0)


def _create_ruleset(*, network: bool) -> int:
    abi = find_abi()
    fields = [_all_rights()]
    if abi >= 4:
        fields.append(0 if network else _TCP)
    if abi >= 6:
        fields.append(_SCOPES)
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    return _syscall(_CREATE_RULESET, attributes, len(attributes), 0)


def _add_rule(ruleset: int, path: str, access: int) -> None:
    """Ignores a path that is gone, or may not be opened: it is not allowed then."""
    with suppress(FileNotFoundError, PermissionError, NotADirectoryError):
        fd = os.open(path, _O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                access &= _ON_FILES
            _syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", access & _all_rights(), fd), 0)
        finally:
            os.close(fd)


def _allow(rules: Confinement) -> Iterator[tuple[str, int]]:
    """Yields paths and what is allowed below them."""
    hidden = {"/dev", *(os.path.realpath(path) for path in rules.hidden)}
    yield "/", _READ_DIR
    yield from ((path, _READ) for path in _without("/", hidden))
    everything = _ALL_OF_FIRST | _REFER | _TRUNCATE
    closed = hidden.union(rules.fixed)
    for folder in rules.writable:
        yield from ((path, everything) for path in _without(os.path.realpath(folder), closed))
    yield from ((f"/dev/{name}", everything | _IOCTL_DEV) for name in _DEVICES)


def _without(folder: str, hidden: set[str]) -> Iterator[str]:
    """Yields the folder, or the entries of it that contain nothing hidden. Raises OSError if these are too many."""
    count = 0
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        if path in hidden:
            continue
        below = path.rstrip("/") + "/"
        if not any(each.startswith(below) for each in hidden):
            count += 1
            if count > _MAX_RULES:
                raise OSError(f"more than {_MAX_RULES} files beside hidden ones")
            yield path
            continue
        with suppress(OSError), os.scandir(path) as entries:
            # What a link leads to is allowed by its own path.
            waiting += [entry.path for entry in entries if not entry.is_symlink()]


# What runs in the child.


def _make_before_exec(ruleset: int, install_filter: BeforeExec, before: BeforeExec | None) -> BeforeExec:
    """All look-ups happen here, before the fork."""
    prctl, syscall = load_library().prctl, load_library().syscall
    dropped = () if os.geteuid() else tuple(n for n in range(_MAX_CAPABILITY + 1) if n not in _KEPT_CAPABILITIES)

    def before_exec() -> None:
        if before is not None:
            before()
        for capability in dropped:
            prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails for those that the kernel does not know
        if prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or syscall(_RESTRICT_SELF, ruleset, 0):
            raise OSError("Landlock refused")
        install_filter()

    return before_exec


def _syscall(number: int, *arguments: Any) -> int:
    result: int = load_library().syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
