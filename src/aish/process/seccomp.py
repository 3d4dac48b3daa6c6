"""Filters the system calls of a child: no file gets the setuid or setgid bit, and in a sandbox of Landlock no socket is
made.

    ProcessSpec(argv, confinement=ModeFilter())

A file with the setuid bit that root makes in a sandbox would give its rights to every user outside. The filter holds
for all that the child starts, and can never be taken back. Calls that a filter cannot look into are said to be missing;
programs have other ways.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

BeforeExec = Callable[[], None]
_Line = tuple[int, int, int, int]

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_FILTER = 38, 22, 2
_X32_CALLS = 0x40000000
_AF_INET, _AF_INET6, _AF_NETLINK = 2, 10, 16
_EPERM, _EACCES, _ENOSYS = 1, 13, 38
_SETUID_BITS = 0o6000
_MAKES_FILE = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE: otherwise the mode of `open` means nothing
_IO_URING_SETUP, _OPENAT2, _FCHMODAT2 = 425, 437, 452  # on all machines; the first two cannot be looked into


class _Machine(msgspec.Struct, frozen=True):
    """The system call numbers of one processor architecture. `number` is that of the architecture in filters, `keys`
    are the calls for keys that the kernel stores. `modes` are calls, each with the argument that holds a file mode.
    `opens` also name the argument that holds flags."""

    number: int
    socket: int
    keys: tuple[int, ...]
    modes: tuple[tuple[int, int], ...]
    opens: tuple[tuple[int, int, int], ...]


def _make_new_machine(number: int) -> _Machine:
    """For processors whose kernel has only the newer calls, under common numbers."""
    modes = ((52, 1), (53, 2), (_FCHMODAT2, 2), (33, 2))
    return _Machine(number, 198, (217, 218, 219), modes, ((56, 2, 3),))


# chmod, fchmod, fchmodat, fchmodat2, mknod, mknodat, creat; open, openat.
_X86_MODES = ((90, 1), (91, 1), (268, 2), (_FCHMODAT2, 2), (133, 1), (259, 2), (85, 1))
_MACHINES = {
    "x86_64": _Machine(0xC000003E, 41, (248, 249, 250), _X86_MODES, ((2, 1, 2), (257, 2, 3))),
    "aarch64": _make_new_machine(0xC00000B7),
    "riscv64": _make_new_machine(0xC00000F3),
}
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _ANSWER = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_CALL_OFFSET, _MACHINE_OFFSET = 0, 4


def has_filters() -> bool:
    """Whether this machine is known here."""
    return sys.platform == "linux" and platform.machine() in _MACHINES


class ModeFilter(msgspec.Struct, frozen=True):
    """Forbids the setuid and setgid bits, and nothing else."""

    @contextmanager
    def prepare(self, before: BeforeExec | None = None) -> Iterator[BeforeExec]:
        """Yields what the child runs before exec, after `before`. Raises OSError."""
        install = make_install(_mode_lines(_MACHINES[platform.machine()]))

        def before_exec() -> None:
            if before is not None:
                before()
            install()

        yield before_exec


def make_install(lines: Iterable[_Line]) -> BeforeExec:
    """Returns what installs a filter. All look-ups happen here, because few calls are safe between fork and exec."""
    prctl, program = load_library().prctl, _Program.of([*_first_lines(_MACHINES[platform.machine()]), *lines])
    address = ctypes.addressof(program)

    def install(_kept: _Program = program) -> None:
        if prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, address, 0, 0):
            raise OSError("seccomp refused")

    return install


def socket_lines(*, network: bool) -> Iterator[_Line]:
    """Forbids to make sockets, but for those that ask the kernel for its addresses, and to use keys that the kernel
    stores; besides what `ModeFilter` forbids. Pairs of sockets between processes stay allowed."""
    machine = _MACHINES[platform.machine()]
    families = (_AF_NETLINK, *((_AF_INET, _AF_INET6) if network else ()))
    yield from (line for call in machine.keys for line in ((_EQUAL, 0, 1, call), (_ANSWER, 0, 0, _ERROR | _ENOSYS)))
    yield _EQUAL, 0, len(families) + 3, machine.socket
    yield _LOAD, 0, 0, _offset(0)
    yield from ((_EQUAL, len(families) - index, 0, family) for index, family in enumerate(families))
    yield from ((_ANSWER, 0, 0, _ERROR | _EACCES), (_ANSWER, 0, 0, _ALLOW))
    yield from _mode_lines(machine)


def _first_lines(machine: _Machine) -> Iterator[_Line]:
    """Loads the number of the call, if it is one of this machine."""
    missing = (_ANSWER, 0, 0, _ERROR | _ENOSYS)
    yield from ((_LOAD, 0, 0, _MACHINE_OFFSET), (_EQUAL, 1, 0, machine.number), missing)
    yield from ((_LOAD, 0, 0, _CALL_OFFSET), (_AT_LEAST, 0, 1, _X32_CALLS), missing)
    for call in (_IO_URING_SETUP, _OPENAT2):
        yield from ((_EQUAL, 0, 1, call), missing)


def _mode_lines(machine: _Machine) -> Iterator[_Line]:
    check = ((_ANY_BIT, 0, 1, _SETUID_BITS), (_ANSWER, 0, 0, _ERROR | _EPERM), (_ANSWER, 0, 0, _ALLOW))
    for call, mode in machine.modes:
        yield from ((_EQUAL, 0, 4, call), (_LOAD, 0, 0, _offset(mode)), *check)
    for call, flags, mode in machine.opens:
        yield from ((_EQUAL, 0, 6, call), (_LOAD, 0, 0, _offset(flags)), (_ANY_BIT, 0, 3, _MAKES_FILE))
        yield from ((_LOAD, 0, 0, _offset(mode)), *check)
    yield _ANSWER, 0, 0, _ALLOW


def _offset(argument: int) -> int:
    """Where the lower half of an argument is: modes, flags and families are no longer than that."""
    return 16 + 8 * argument


class _Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    @classmethod
    def of(cls, lines: list[_Line]) -> _Program:
        code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in lines))
        program = cls(len(lines), ctypes.addressof(code))
        program.kept = code  # as long as the program exists
        return program


@functools.cache
def load_library() -> Any:
    """PyDLL keeps the interpreter lock, which a forked child has inherited as locked."""
    library = ctypes.PyDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    library.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    return library
