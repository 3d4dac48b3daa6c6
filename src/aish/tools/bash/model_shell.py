"""Runs a model's line in a copy of the live bash: a process, session and terminal of its own, which end with the line.

A forked bash cannot leave the session of the user's terminal, because bash has no `setsid`. So the copy is a fresh bash
that reads the state of the live one (`snapshot.py`), inside the sandbox if there is one. Everything the line does
(`exit`, `exec`, `set -e`, `trap`, `cd`, exports, jobs, signals to its parent) it does to the copy. If the copy cannot
be made, nothing runs.

The copy and aish share a socket that the line does not inherit. The line runs only after aish has confirmed that the
copy is ready, so "nothing was run" is always true. The directory in which the copy ends is read from the kernel; a
message on the socket only says when to read it.
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
from typing import TYPE_CHECKING

import msgspec

from aish.errors import ProcessError
from aish.process.child import ProcessSpec
from aish.process.pty import Pty, WindowSize
from aish.tools.bash.capture import OutputCapture
from aish.tools.bash.channel import memory_folder
from aish.tools.bash.snapshot import Snapshot
from aish.tools.builtin.shell import NO_CORE_DUMPS
from aish.tools.proved_environment import proved_search_path
from aish.types.live_shell import RunEnd, RunResult

if TYPE_CHECKING:
    from aish.process.sandbox import Sandbox

# Programs must not ask questions or open a pager, because there is no user to answer. Prompts for secrets fail at once.
_QUIET = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "SSH_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "force",
    "DEBIAN_FRONTEND": "noninteractive",
    "NO_COLOR": "1",
}
_INTERRUPTED_S = 0.5  # for a line to end after SIGINT, before its session is killed
_REPORT_BYTES = 64 * 1024
_READY = b"ready"
_SHOWN_CHARS = 500
_PROC = Path("/proc")
# Reports the directory and waits until aish has read it. If `exit` was called in a function, the descriptor is still
# closed, and bash has saved it at the first free number from 10.
_REPORT_CWD = (
    r"{ __aish_at=250; \builtin test -S /dev/fd/250 || { __aish_at=10; \builtin test -S /dev/fd/10; } "
    r'&& { \builtin pwd >&$__aish_at; \builtin printf "\0" >&$__aish_at; \builtin read -r -u $__aish_at __aish_go; } '
    r"|| \builtin :; } 2>/dev/null"
)
# Arguments: the descriptors of the state file and of the socket. The socket moves to a high number that lines do not
# use, and is closed while the line runs. This is one line, so that line numbers in bash's errors count from the model's
# first line.
_BASH_MAIN = "; ".join((
    'eval "exec 250>&$2 $2>&-"',
    '. "/dev/fd/$1" 2>/dev/null',
    r'\builtin eval "\\builtin exec $1<&-"',
    r'\builtin test -n "${__aish_ready-}" || \builtin exit 125',
    r"\builtin set --",
    r"\builtin printf 'ready\0' >&250",
    r"\builtin read -r -u 250 __aish_go || \builtin exit 125",
    rf"\builtin trap '{_REPORT_CWD}' EXIT",
    "__aish_status",
    r'\builtin eval "$__aish_line" 250>&- </dev/null',
    rf"{{ __aish_status=$?; \builtin set +eux; }} 2>/dev/null; {_REPORT_CWD}",
    r'\builtin exit "$__aish_status"',
))  # fmt: skip
_SH_MAIN = 'eval "$1" </dev/null'
# Runs between aish and the copy, so that a line that kills its parent does not kill ours.
_PARENT = f'trap : HUP INT TERM; {NO_CORE_DUMPS}; "$@"; exit $?'
# Runs above that one, if the kernel identifies senders: it adopts processes that leave the session, reports that the
# copy has ended, and stays until they have been ended, too. Its argument is the descriptor of the socket.
_KEEPER = (
    r"""trap : HUP INT TERM; fd=$1; shift; "$@"; status=$?; printf 'end\0' >&$fd; """
    r"""while read -r go <&$fd && [ "$go" != bye ]; do :; done; exit $status"""
)
# What our child processes inherit by default; the copy gets the live bash's values instead.
_INHERITED = "HOME LANG LANGUAGE LOGNAME PATH SHELL TERM TMPDIR USER ${!LC_*}"


class ModelLineSpec(msgspec.Struct, frozen=True):
    """`snapshot` is None for a plain sh, which gets only the directory and the environment."""

    shell: str
    line: str
    cwd: str
    timeout_s: float
    size: WindowSize
    snapshot: Snapshot | None
    env: Mapping[str, str] = {}  # for every line of a model; an empty value hides the variable
    hides: Callable[[str], bool] = lambda name: False  # variables hidden from lines of a model
    sandbox: Sandbox | None = None
    workspace: Path = Path("/")
    search_path: str = ""
    is_proved: bool = False  # so only names of programs, and no options of the user's shell, may decide what it means


async def run_model_line(spec: ModelLineSpec, on_text: Callable[[str], None] | None = None) -> RunResult:
    """Raises ProcessError. Cancelling it ends the line and its processes."""
    started_s = time.monotonic()
    with ExitStack() as stack:
        report = _ReportSocket(stack)
        process = await _process(spec, stack, report)
        listener = _OutputListener(OutputCapture(on_text))
        async with Pty.start(process, size=spec.size, take=listener.take) as pty:
            listener.pty = pty
            report.keeper = pty.pid
            report.close_writer()
            end = await _wait_for_end(pty, listener, report, spec.timeout_s)
            code = pty.returncode
        listener.capture.finish()
        if spec.snapshot is not None and not report.is_ready:
            output = listener.capture.text("", 1).strip()[-_SHOWN_CHARS:]
            why = output or ("it took too long" if end is RunEnd.TIMED_OUT else "it did not start")
            raise ProcessError(f"no copy of the shell could be made, so nothing was run: {why}")
        status = 1 if code is None else code if code >= 0 else 128 - code
        cwd = _final_cwd(spec.cwd, report.cwd)
        return listener.capture.result(spec.line, status, cwd, time.monotonic() - started_s, end)


def _final_cwd(before: str, after: str) -> str:
    """Keeps the previous name of the directory if it is still the same one."""
    return before if not after or os.path.realpath(before) == after else after


async def _process(spec: ModelLineSpec, stack: ExitStack, report: _ReportSocket) -> ProcessSpec:
    folder = Path(spec.cwd)
    given = {**_QUIET, **spec.env}
    if spec.sandbox is not None and await spec.sandbox.probe():
        given |= spec.sandbox.environment
    fds: tuple[int, ...] = ()
    if spec.snapshot is None:
        argv: tuple[str, ...] = (spec.shell, "-c", _SH_MAIN, "sh", spec.line)
        # What is inherited in any case steers no program, but PATH.
        path = {"PATH": _search_path(spec)} if spec.is_proved else {}
        env = {**given, **path}
        inherit: tuple[str, ...] = () if spec.is_proved else ("*",)
    else:
        state = _state_file(spec, spec.snapshot, given, stack)
        fds, env, inherit = (state, report.writer), {}, ()
        argv = (spec.shell, "--norc", "--noprofile", "-c", _BASH_MAIN, "bash", str(state), str(report.writer))
    argv = (shutil.which("sh") or spec.shell, "-c", _PARENT, "sh", *argv)
    if spec.sandbox is not None:
        argv = await spec.sandbox.wrap(argv, folder)
    if _HAS_SENDERS and spec.snapshot is not None:
        argv = (spec.shell, "--norc", "--noprofile", "-c", _KEEPER, "bash", str(report.writer), *argv)
    return ProcessSpec(
        argv, mark=f"AISH_LINE={secrets.token_hex(16)}",
        name="bash", env=env, inherit=inherit, cwd=folder, close_wait_s=0.2, term_wait_s=1.0,
        spares_hangup=False, pass_fds=fds, confinement=spec.sandbox.confinement if spec.sandbox else None,
    )  # fmt: skip


def _state_file(spec: ModelLineSpec, snapshot: Snapshot, given: Mapping[str, str], stack: ExitStack) -> int:
    """Returns an unnamed file that the copy reads once."""
    text = "\n".join(_state(spec, snapshot, given)) + "\n"
    try:
        file = stack.enter_context(tempfile.TemporaryFile(dir=memory_folder()))  # noqa: SIM115
        file.write(os.fsencode(text))
        file.seek(0)
    except OSError as exc:
        raise ProcessError(f"the state of the shell cannot be handed to a copy: {exc.strerror}") from exc
    return file.fileno()


def _state(spec: ModelLineSpec, snapshot: Snapshot, given: Mapping[str, str]) -> Iterator[str]:
    late = "" if spec.is_proved else "; ".join(f"\\builtin {option}" for option in snapshot.late_options)
    line = f"{late}; {spec.line}" if late else spec.line
    yield f"builtin cd -- {shlex.quote(spec.cwd)}; builtin export PWD"
    yield f"builtin unset -v {_INHERITED}"
    yield from snapshot.script(lambda name: name in given or spec.hides(name), is_plain=spec.is_proved)
    if spec.is_proved:
        yield f"\\builtin export PATH={shlex.quote(_search_path(spec))}"
    yield from (f"\\builtin export {name}={shlex.quote(value)}" for name, value in given.items() if value)
    yield f"__aish_status() {{ \\builtin return {0 if late else snapshot.status}; }}"
    yield f"__aish_line={shlex.quote(line)} __aish_ready=1"
    yield "\\builtin shopt -s expand_aliases"


def _search_path(spec: ModelLineSpec) -> str:
    return proved_search_path(spec.search_path, spec.workspace)


async def _wait_for_end(pty: Pty, listener: _OutputListener, report: _ReportSocket, timeout_s: float) -> RunEnd:
    exit_task = asyncio.ensure_future(pty.wait())
    asked_task = asyncio.ensure_future(listener.asked.wait())
    ended_task = asyncio.ensure_future(report.ended.wait())
    try:
        await asyncio.wait({exit_task, asked_task, ended_task}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        end = RunEnd.DONE
        if not exit_task.done() and not ended_task.done():
            end = RunEnd.ASKED if asked_task.done() else RunEnd.TIMED_OUT
            report.is_late = True
            pty.interrupt()
            await asyncio.wait({exit_task, ended_task}, timeout=_INTERRUPTED_S, return_when=asyncio.FIRST_COMPLETED)
        if ended_task.done() and not exit_task.done():
            await pty.end_descendants()
            report.release()
            await asyncio.wait({exit_task}, timeout=_INTERRUPTED_S)
        return end
    finally:
        exit_task.cancel()
        asked_task.cancel()
        ended_task.cancel()


class _OutputListener:
    def __init__(self, capture: OutputCapture) -> None:
        self.capture = capture
        self.asked = asyncio.Event()
        self.pty: Pty | None = None

    def take(self, data: bytes) -> None:
        self.capture.add(data)
        # A program that wants a password switches off the echo and then asks. There is no user to answer.
        if self.pty is not None and not data.endswith(b"\n") and self.pty.is_reading_secret:
            self.asked.set()


class _ReportSocket:
    """Our end of the socket on which the copy reports that it is ready, and when to read its directory."""

    def __init__(self, stack: ExitStack) -> None:
        self._socket, self._copy_end = socket.socketpair()
        self._socket.setblocking(False)
        if _HAS_SENDERS:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._loop = asyncio.get_running_loop()
        self._data = b""
        self._received_bytes = 0
        self._copy = 0  # its process id, if the kernel identifies senders
        self.keeper = 0  # the process that reports that the copy has ended
        self.ended = asyncio.Event()
        self.is_ready = False  # and this was confirmed: the line is running
        self.is_late = False  # it must not start any more
        self.cwd = ""  # the last known directory
        self._loop.add_reader(self._socket, self._read)
        stack.callback(self._socket.close)
        stack.callback(self._loop.remove_reader, self._socket)
        stack.callback(self.close_writer)

    @property
    def writer(self) -> int:
        return self._copy_end.fileno()

    def close_writer(self) -> None:
        self._copy_end.close()

    def _read(self) -> None:
        try:
            data, ancillary, _, _ = self._socket.recvmsg(_REPORT_BYTES, _SENDER_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data, ancillary = b"", []
        self._received_bytes += len(data)
        if not data or self._received_bytes > _REPORT_BYTES:
            self._loop.remove_reader(self._socket)
            return
        *records, self._data = (self._data + data).split(b"\0")
        for record in records:
            self._handle_record(record, _find_sender(ancillary))

    def release(self) -> None:
        """Lets the keeper exit."""
        self._send(b"bye\n")

    def _send(self, data: bytes) -> None:
        with suppress(OSError):
            self._socket.send(data)

    def _handle_record(self, record: bytes, sender: int) -> None:
        if sender and sender == self.keeper:
            self.ended.set()
            return
        if not self.is_ready:
            if record != _READY or self.is_late:
                return
            self.is_ready, self._copy = True, sender
        else:
            self.cwd = self._read_cwd(record) or self.cwd
        self._send(b"\n")

    def _read_cwd(self, record: bytes) -> str:
        """Returns the copy's directory. Its own message counts only if the kernel cannot tell."""
        if _PROC.is_dir():
            return _process_cwd(self._copy) if self._copy else ""
        path = os.path.realpath(os.fsdecode(record.removesuffix(b"\n")))
        return path if record.startswith(b"/") and Path(path).is_dir() else ""


_HAS_SENDERS = sys.platform == "linux"
_SENDER = struct.Struct("3i")  # process, user, group; the process id is in our namespace, also for senders in a sandbox
_SENDER_BYTES = socket.CMSG_SPACE(_SENDER.size)


def _find_sender(ancillary: list[tuple[int, int, bytes]]) -> int:
    """Returns 0 if it is unknown."""
    if _HAS_SENDERS:
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(data) == _SENDER.size:
                return int(_SENDER.unpack(data)[0])
    return 0


def _process_cwd(pid: int) -> str:
    """Returns the real path if it leads to the very directory of the process; "" if a sandbox shows another one."""
    place = _PROC / str(pid) / "cwd"
    try:
        path = place.readlink()
        return str(path) if path.samefile(place) else ""
    except OSError:
        return ""
