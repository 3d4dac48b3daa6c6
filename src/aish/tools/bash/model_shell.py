"""Runs a model's line in a copy of the live bash: a process, session and terminal of its own, which end with the line.

A forked bash cannot leave the session of the person's terminal, since bash has no `setsid`. So the copy is a fresh
bash that reads the state of the live one (`snapshot.py`), inside the sandbox where there is one. Whatever the line does
(`exit`, `exec`, `set -e`, `trap`, `cd`, exports, jobs, signals to its parent) it does to the copy. If the copy cannot
be made, nothing runs.

The copy and aish share a socket, which the line does not inherit. The line is run only after aish has answered that
the copy is ready, so "nothing was run" is never a guess. Where the copy ends is read from the kernel, not from what is
said on the socket: a message only says when to look.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import shutil
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from aish.errors import ProcessError
from aish.process.child import ProcessSpec
from aish.process.pty import Pty, WindowSize
from aish.tools.bash.capture import OutputCapture
from aish.tools.bash.channel import QUIET, memory_folder
from aish.tools.bash.outcome import title_of
from aish.tools.bash.snapshot import Snapshot
from aish.tools.builtin.shell import Wrap
from aish.types.live_shell import RunEnd, RunResult

_INTERRUPTED_S = 0.5  # for a line to end after SIGINT, before its session is ended
_REPORT_BYTES = 64 * 1024
_READY = b"ready"
_SHOWN_CHARS = 500
_PROC = Path("/proc")
# Says a directory, and waits until aish has looked. When `exit` was called in a function, the descriptor is still
# closed, and bash keeps it at the first number from 10.
_SAY_PLACE = (
    r"{ __aish_at=250; \builtin test -S /dev/fd/250 || { __aish_at=10; \builtin test -S /dev/fd/10; } "
    r'&& { \builtin pwd >&$__aish_at; \builtin printf "\0" >&$__aish_at; \builtin read -r -u $__aish_at __aish_go; } '
    r"|| \builtin :; } 2>/dev/null"
)
# Arguments: the descriptors of the state and of the socket, which goes to a high number, out of the way of those that
# lines use, and is closed while the line runs.
# One line, so that what bash says of errors counts from the first line of the model's.
_BASH_MAIN = "; ".join((
    'eval "exec 250>&$2 $2>&-"',
    '. "/dev/fd/$1" 2>/dev/null',
    r'\builtin eval "\\builtin exec $1<&-"',
    r'\builtin test -n "${__aish_ready-}" || \builtin exit 125',
    r"\builtin set --",
    r"\builtin printf 'ready\0' >&250",
    r"\builtin read -r -u 250 __aish_go || \builtin exit 125",
    rf"\builtin trap '{_SAY_PLACE}' EXIT",
    "__aish_status",
    r'\builtin eval "$__aish_line" 250>&- </dev/null',
    rf"{{ __aish_status=$?; \builtin set +eux; }} 2>/dev/null; {_SAY_PLACE}",
    r'\builtin exit "$__aish_status"',
))  # fmt: skip
_SH_MAIN = 'eval "$1" </dev/null'
# Between aish and the copy, so that a line which ends its parent ends nothing of ours.
_PARENT = 'trap : HUP INT TERM; "$@"; exit $?'
# Above that one, where the kernel tells who sends: it adopts what leaves the session, says that the copy has ended, and
# stays until all of this is ended as well. Its argument is the descriptor of the socket.
_KEEPER = (
    r"""trap : HUP INT TERM; fd=$1; shift; "$@"; status=$?; printf 'end\0' >&$fd; """
    r"""while read -r go <&$fd && [ "$go" != bye ]; do :; done; exit $status"""
)
# What a process of ours inherits by default; the copy has of these what the live bash has.
_INHERITED = "HOME LANG LANGUAGE LOGNAME PATH SHELL TERM TMPDIR USER ${!LC_*}"


class ForkSpec(msgspec.Struct, frozen=True):
    """`snapshot` None: a plain sh, which gets the directory and the environment only."""

    shell: str
    line: str
    cwd: str
    timeout_s: float
    size: WindowSize
    snapshot: Snapshot | None
    env: Mapping[str, str] = {}  # for every line of a model; an empty value hides what is set
    hides: Callable[[str], bool] = lambda name: False  # variables that lines of a model do not see
    wrap: Wrap | None = None


async def run_fork(spec: ForkSpec, on_text: Callable[[str], None] | None = None) -> RunResult:
    """Raises ProcessError. Cancelling it ends the line and all it started."""
    started_s = time.monotonic()
    with ExitStack() as stack:
        report = _Report(stack)
        process = await _process(spec, stack, report)
        listener = _Listener(OutputCapture(on_text))
        async with Pty.start(process, size=spec.size, take=listener.take) as pty:
            listener.pty = pty
            report.keeper = pty.pid
            report.close_writer()
            end = await _until_end(pty, listener, report, spec.timeout_s)
            code = pty.returncode
        listener.capture.finish()
        if spec.snapshot is not None and not report.is_ready:
            told = listener.capture.text("", 1).strip()[-_SHOWN_CHARS:]
            why = told or ("it took too long" if end is RunEnd.TIMED_OUT else "it did not start")
            raise ProcessError(f"no copy of the shell could be made, so nothing was run: {why}")
        return _result(
            spec, listener.capture, end, code, _place_after(spec.cwd, report.cwd), time.monotonic() - started_s
        )


def _place_after(begun: str, seen: str) -> str:
    """The name that the directory had before, where it is still the same."""
    return begun if not seen or os.path.realpath(begun) == seen else seen


async def _process(spec: ForkSpec, stack: ExitStack, report: _Report) -> ProcessSpec:
    folder = Path(spec.cwd)
    fds: tuple[int, ...] = ()
    if spec.snapshot is None:
        argv: tuple[str, ...] = (spec.shell, "-c", _SH_MAIN, "sh", spec.line)
        env = {**QUIET, **spec.env}
        inherit: tuple[str, ...] = ("*",)
    else:
        state = _state_file(spec, spec.snapshot, stack)
        fds, env, inherit = (state, report.writer), {}, ()
        argv = (spec.shell, "--norc", "--noprofile", "-c", _BASH_MAIN, "bash", str(state), str(report.writer))
    argv = (shutil.which("sh") or spec.shell, "-c", _PARENT, "sh", *argv)
    if spec.wrap is not None:
        argv = await spec.wrap(argv, folder)
    if _HAS_SENDERS and spec.snapshot is not None:
        argv = (spec.shell, "--norc", "--noprofile", "-c", _KEEPER, "bash", str(report.writer), *argv)
    return ProcessSpec(
        argv, mark=f"AISH_LINE={secrets.token_hex(16)}",
        name="bash", env=env, inherit=inherit, cwd=folder, close_wait_s=0.2, term_wait_s=1.0,
        spares_hangup=False, pass_fds=fds,
    )  # fmt: skip


def _state_file(spec: ForkSpec, snapshot: Snapshot, stack: ExitStack) -> int:
    """A file without a name, which the copy reads once."""
    text = "\n".join(_state(spec, snapshot)) + "\n"
    try:
        file = stack.enter_context(tempfile.TemporaryFile(dir=memory_folder()))  # noqa: SIM115
        file.write(os.fsencode(text))
        file.seek(0)
    except OSError as exc:
        raise ProcessError(f"the state of the shell cannot be handed to a copy: {exc.strerror}") from exc
    return file.fileno()


def _state(spec: ForkSpec, snapshot: Snapshot) -> Iterator[str]:
    given = {**QUIET, **spec.env}
    late = "; ".join(f"\\builtin {option}" for option in snapshot.late_options)
    line = f"{late}; {spec.line}" if late else spec.line
    yield f"builtin cd -- {shlex.quote(spec.cwd)}; builtin export PWD"
    yield f"builtin unset -v {_INHERITED}"
    yield from snapshot.script(lambda name: name in given or spec.hides(name))
    yield from (f"\\builtin export {name}={shlex.quote(value)}" for name, value in given.items() if value)
    yield f"__aish_status() {{ \\builtin return {0 if late else snapshot.status}; }}"
    yield f"__aish_line={shlex.quote(line)} __aish_ready=1"
    yield "\\builtin shopt -s expand_aliases"


def _result(
    spec: ForkSpec, capture: OutputCapture, end: RunEnd, code: int | None, cwd: str, duration_s: float
) -> RunResult:
    status = 1 if code is None else code if code >= 0 else 128 - code
    return RunResult(
        line=spec.line,
        status=status,
        cwd=cwd,
        duration_s=duration_s,
        output=capture.text(title_of(spec.line), status),
        end=end,
        total_bytes=capture.total_bytes,
        left_out_bytes=capture.left_out_bytes,
        full_screen=capture.screen.used_full_screen,
        binary=capture.binary,
    )


async def _until_end(pty: Pty, listener: _Listener, report: _Report, timeout_s: float) -> RunEnd:
    ending = asyncio.ensure_future(pty.wait())
    asking = asyncio.ensure_future(listener.asked.wait())
    over = asyncio.ensure_future(report.ended.wait())
    try:
        await asyncio.wait({ending, asking, over}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        end = RunEnd.DONE
        if not ending.done() and not over.done():
            end = RunEnd.ASKED if asking.done() else RunEnd.TIMED_OUT
            report.is_late = True
            pty.interrupt()
            await asyncio.wait({ending, over}, timeout=_INTERRUPTED_S, return_when=asyncio.FIRST_COMPLETED)
        if over.done() and not ending.done():
            await pty.end_descendants()
            report.release()
            await asyncio.wait({ending}, timeout=_INTERRUPTED_S)
        return end
    finally:
        ending.cancel()
        asking.cancel()
        over.cancel()


class _Listener:
    def __init__(self, capture: OutputCapture) -> None:
        self.capture = capture
        self.asked = asyncio.Event()
        self.pty: Pty | None = None

    def take(self, data: bytes) -> None:
        self.capture.add(data)
        # A program that wants a password switches the echo off and then asks: nobody would ever answer.
        if self.pty is not None and not data.endswith(b"\n") and self.pty.asks_for_secret:
            self.asked.set()


class _Report:
    """Our end of the socket on which the copy says that it is one, and when to look where it is."""

    def __init__(self, stack: ExitStack) -> None:
        self._socket, self._theirs = socket.socketpair()
        self._socket.setblocking(False)
        if _HAS_SENDERS:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._loop = asyncio.get_running_loop()
        self._data = b""
        self._heard_bytes = 0
        self._copy = 0  # its process, where the kernel tells who sent what
        self.keeper = 0  # the process that says when the copy has ended
        self.ended = asyncio.Event()
        self.is_ready = False  # and was told so: from here on the line runs
        self.is_late = False  # it is not to begin any more
        self.cwd = ""  # the last place seen, if there was one
        self._loop.add_reader(self._socket, self._read)
        stack.callback(self._socket.close)
        stack.callback(self._loop.remove_reader, self._socket)
        stack.callback(self.close_writer)

    @property
    def writer(self) -> int:
        return self._theirs.fileno()

    def close_writer(self) -> None:
        self._theirs.close()

    def _read(self) -> None:
        try:
            data, others, _, _ = self._socket.recvmsg(_REPORT_BYTES, _SENDER_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data, others = b"", []
        self._heard_bytes += len(data)
        if not data or self._heard_bytes > _REPORT_BYTES:
            self._loop.remove_reader(self._socket)
            return
        *records, self._data = (self._data + data).split(b"\0")
        for record in records:
            self._hear(record, _sender_in(others))

    def release(self) -> None:
        """The keeper may go."""
        self._answer(b"bye\n")

    def _answer(self, data: bytes) -> None:
        with suppress(OSError):
            self._socket.send(data)

    def _hear(self, record: bytes, sender: int) -> None:
        if sender and sender == self.keeper:
            self.ended.set()
            return
        if not self.is_ready:
            if record != _READY or self.is_late:
                return
            self.is_ready, self._copy = True, sender
        else:
            self.cwd = self._place(record) or self.cwd
        self._answer(b"\n")

    def _place(self, said: bytes) -> str:
        """Where the copy is: what it says itself counts only where the kernel does not tell."""
        if _PROC.is_dir():
            return _cwd_of(self._copy) if self._copy else ""
        path = os.path.realpath(os.fsdecode(said.removesuffix(b"\n")))
        return path if said.startswith(b"/") and Path(path).is_dir() else ""


_HAS_SENDERS = sys.platform == "linux"
_SENDER = struct.Struct("3i")  # process, user, group; the process as we number it, also from inside a sandbox
_SENDER_BYTES = socket.CMSG_SPACE(_SENDER.size)


def _sender_in(others: list[tuple[int, int, bytes]]) -> int:
    """0 where it is not known."""
    if _HAS_SENDERS:
        for level, kind, data in others:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(data) == _SENDER.size:
                return int(_SENDER.unpack(data)[0])
    return 0


def _cwd_of(pid: int) -> str:
    """The real path, if it leads us to the very directory that the process is in: "" where a sandbox shows another."""
    place = _PROC / str(pid) / "cwd"
    try:
        path = place.readlink()
        return str(path) if path.samefile(place) else ""
    except OSError:
        return ""
