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
import platform
import stat
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

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

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _SECCOMP_FILTER = 38, 22, 24, 2
_MAX_CAPABILITY = 63
# Capabilities that root keeps: it may write to a workspace that belongs to another user.
_KEPT_CAPABILITIES = frozenset({0, 1, 3})  # CHOWN, DAC_OVERRIDE, FOWNER
# By machine: its number for filters, `socket`, and the calls for keys that the kernel stores.
_MACHINES = {
    "x86_64": (0xC000003E, 41, (248, 249, 250)),
    "aarch64": (0xC00000B7, 198, (217, 218, 219)),
    "riscv64": (0xC00000F3, 198, (217, 218, 219)),
}
_IO_URING_SETUP = 425  # its requests pass filters by
_X32_CALLS = 0x40000000
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_EACCES, _ENOSYS = 13, 38

BeforeExec = Callable[[], None]


class Confinement(msgspec.Struct, frozen=True):
    """`writable` are the folders in which everything is allowed. `hidden` are files and folders that cannot be read or
    written. Sockets of services cannot be reached. Without `network` no other socket can be made either."""

    writable: tuple[Path, ...]
    hidden: tuple[Path, ...] = ()
    network: bool = False

    @contextmanager
    def prepare(self, before: BeforeExec | None = None) -> Iterator[BeforeExec]:
        """Yields what the child runs before exec, after `before`. Raises OSError."""
        ruleset = _create_ruleset(network=self.network)
        try:
            for path, access in _allow(self):
                _add_rule(ruleset, path, access)
            yield _make_before_exec(ruleset, _filter_program(network=self.network), before)
        finally:
            os.close(ruleset)


@functools.cache
def find_abi() -> int:
    """The version of Landlock that the kernel has, 0 if it has none or too old a one."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
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
    for folder in rules.writable:
        yield from ((path, everything) for path in _without(os.path.realpath(folder), hidden))
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


def _make_before_exec(ruleset: int, program: Any, before: BeforeExec | None) -> BeforeExec:
    """All look-ups happen here, before the fork."""
    prctl, syscall, address_of = _library().prctl, _library().syscall, ctypes.addressof
    dropped = () if os.geteuid() else tuple(n for n in range(_MAX_CAPABILITY + 1) if n not in _KEPT_CAPABILITIES)

    def before_exec() -> None:
        if before is not None:
            before()
        for capability in dropped:
            prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails for those that the kernel does not know
        if prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or syscall(_RESTRICT_SELF, ruleset, 0):
            raise OSError("Landlock refused")
        if prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, address_of(program), 0, 0):
            raise OSError("seccomp refused")

    return before_exec


class _Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_void_p)]


def _filter_program(*, network: bool) -> Any:
    """A filter that forbids to make sockets, but for those that ask the kernel for its addresses, and to use keys that
    the kernel stores. Sockets between processes that a program makes as a pair stay allowed."""
    machine, socket_call, key_calls = _MACHINES[platform.machine()]
    families = (_AF_NETLINK, *((_AF_INET, _AF_INET6) if network else ()))
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    allow, deny, missing = 0x7FFF0000, 0x00050000 | _EACCES, 0x00050000 | _ENOSYS
    lines = [
        (load, 0, 0, 4), (equal, 1, 0, machine), (answer, 0, 0, missing),
        (load, 0, 0, 0), (at_least, 0, 1, _X32_CALLS), (answer, 0, 0, missing),
        *(line for call in (_IO_URING_SETUP, *key_calls) for line in ((equal, 0, 1, call), (answer, 0, 0, missing))),
        (equal, 1, 0, socket_call), (answer, 0, 0, allow),
        (load, 0, 0, 16), *((equal, len(families) - index, 0, family) for index, family in enumerate(families)),
        (answer, 0, 0, deny), (answer, 0, 0, allow),
    ]  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in lines))
    program = _Program(len(lines), ctypes.addressof(code))
    program.kept = code  # as long as the program exists
    return program


def _syscall(number: int, *arguments: Any) -> int:
    result: int = _library().syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


@functools.cache
def _library() -> Any:
    """PyDLL keeps the interpreter lock, which a forked child has inherited as locked."""
    library = ctypes.PyDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    library.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    return library
