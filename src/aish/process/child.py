"""Owns a child process. No other module of aish starts one that lasts.

    async with ChildProcess.start(ProcessSpec(argv=("server", "--stdio"), name="files")) as child:
        await child.write(b"...")
        async for piece in child.stdout: ...

A child has its own session and process group, a minimal environment, and its stderr is always drained. Leaving the
context closes its stdin, waits, sends SIGTERM to the group, waits, and sends SIGKILL to the group; also if the leader
has ended and left other processes behind, and also if we are cancelled. Every wait is bounded. If aish itself is
killed, `orphan_guard` kills the group. Children are started from the thread of the event loop only (`orphan_guard` says
why).

A child on a terminal may be a shell that puts each job into a group of its own. There the whole session is ended, with
SIGHUP first. Processes that ignore SIGHUP (`nohup`) are spared if the spec says `spares_hangup`, and so are the groups
given to `spare_groups`.

Known limit: a group is identified by its number. The number is reused only after all processes of the group have ended.
"""

from __future__ import annotations

import asyncio
import errno
import fnmatch
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from aish.errors import ProcessError, ProcessExited, SpawnFailed, TooLarge, WireTimeout
from aish.process import orphan_guard, process_groups
from aish.process.pipes import STDIN, ByteStream, ChildPipes, StderrRing
from aish.process.spawn import spawn_child

if TYPE_CHECKING:
    from aish.process.landlock import Confinement
    from aish.process.seccomp import ModeFilter

POSIX = sys.platform != "win32"
_INHERITED = ("HOME", "LANG", "LC_*", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
_INHERITED_ON_WINDOWS = (
    *("APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROGRAMDATA", "PROGRAMFILES*"),
    *("SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "WINDIR"),
)
_KILL_WAIT_S = 2.0  # the kernel ends a killed process at once, unless it hangs in a driver: then it is abandoned
_POLL_S = 0.01
_END_SIGNALS = (signal.SIGHUP, signal.SIGCONT, signal.SIGTERM) if POSIX else ()
_NO_TIMEOUT_S = 86_400.0


class ProcessSpec(msgspec.Struct, frozen=True):
    """Specifies a child process. Its repr shows neither arguments nor values of variables: both may contain secrets."""

    argv: tuple[str, ...]
    name: str = ""
    env: Mapping[str, str] = {}
    inherit: tuple[str, ...] = ()  # patterns of further variables to inherit from our own environment
    cwd: Path | None = None
    stdout: Literal["pipe", "devnull", "inherit"] = "pipe"
    stdout_max_bytes: int = 256 * 1024  # buffered ahead of the consumer; beyond that the child waits
    stderr_lines: int = 64
    stderr_line_bytes: int = 500
    redact: Callable[[str], str] | None = None
    close_wait_s: float = 2.0
    term_wait_s: float = 2.0
    # A terminal for stdin, stdout and stderr, which becomes the controlling terminal of its session (see `pty`).
    terminal: int | None = None
    spares_hangup: bool = True  # on a terminal: processes that ignore SIGHUP (`nohup`) outlive its session
    # A unique NAME=VALUE for the environment. With it all descendants are ended with the child, also those that left
    # its session (`process_groups`). Linux, on a terminal.
    mark: str = ""
    pass_fds: tuple[int, ...] = ()  # descriptors the child inherits, under the same numbers; POSIX
    confinement: Confinement | ModeFilter | None = None  # what it may read, write and call

    @property
    def title(self) -> str:
        return self.name or PurePath(self.argv[0]).name

    def __repr__(self) -> str:
        names = ",".join(sorted(self.env))
        return f"ProcessSpec({self.title!r}, argv=({self.argv[0]!r}, +{len(self.argv) - 1}), env=[{names}])"


def child_environment(ours: Mapping[str, str], spec: ProcessSpec) -> dict[str, str]:
    """The inherited variables that programs need, and those of the spec."""
    patterns = (*(_INHERITED if POSIX else _INHERITED_ON_WINDOWS), *spec.inherit)
    mark, _, value_of_mark = spec.mark.partition("=")
    given = dict(spec.env) | ({mark: value_of_mark} if mark else {})
    return {name: value for name, value in ours.items() if _matches(name, patterns)} | given


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def spawn_failed(spec: ProcessSpec, exc: Exception) -> SpawnFailed:
    program, message = spec.argv[0], f"cannot start {spec.title}"
    if spec.cwd is not None and not spec.cwd.is_dir():
        return SpawnFailed(f"{message}: there is no directory {spec.cwd}", hint="create it, or configure another cwd")
    if isinstance(exc, FileNotFoundError):
        hint = "install it, or configure its full path"
        return SpawnFailed(f"{message}: {program} was not found", hint=hint)
    if isinstance(exc, PermissionError):
        return SpawnFailed(f"{message}: {program} may not be executed", hint=f"check it with: ls -l {program}")
    if isinstance(exc, OSError) and exc.errno == errno.ENOEXEC:
        hint = "is it for another kind of machine, or a script without a #! line?"
        return SpawnFailed(f"{message}: {program} is not a program this machine can run", hint=hint)
    reason = exc.strerror if isinstance(exc, OSError) else str(exc)
    return SpawnFailed(f"{message}: {reason or type(exc).__name__}")


class ChildProcess:
    """A running child. Create it with `start`."""

    def __init__(self, spec: ProcessSpec, transport: asyncio.SubprocessTransport, pipes: ChildPipes) -> None:
        self.spec = spec
        self.pid = transport.get_pid()
        self._transport = transport
        self._pipes = pipes
        self._stdin = transport.get_pipe_transport(STDIN)
        self._released = False
        self._spared_groups: frozenset[int] = frozenset()
        self._guarded = [str(self.pid)]
        if spec.terminal is not None:
            self._guarded = [orphan_guard.session_target(self.pid, spares_hangup=spec.spares_hangup)]
        if spec.mark:
            self._guarded.append(orphan_guard.mark_target(spec.mark))
        for target in self._guarded:
            orphan_guard.watch(target)

    @classmethod
    @asynccontextmanager
    async def start(cls, spec: ProcessSpec) -> AsyncIterator[ChildProcess]:
        """Raises SpawnFailed."""
        child = await _spawn(spec)
        try:
            yield child
        finally:
            await child._end()

    def __repr__(self) -> str:
        return f"<ChildProcess {self.spec.title!r} pid={self.pid} returncode={self.returncode}>"

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        return self._transport.get_returncode() if self._pipes.exited.is_set() else None

    @property
    def stdout(self) -> ByteStream:
        """The output for one consumer. It ends when the child closes it, or soon after the child's exit."""
        return self._pipes.stdout

    def stderr_tail(self) -> str:
        return self._pipes.ring.tail()

    async def wait(self) -> int:
        """Waits until it has exited and its stderr is read. Returns the exit code."""
        await self._pipes.exited.wait()
        if self._pipes.stdout.ended:
            await self._pipes.drained.wait()
        else:  # the consumer of stdout may be slow, so it is not waited for
            await _wait_for(ChildPipes.LINGER_S, self._pipes.drained.wait())
        code = self.returncode
        assert code is not None
        return code

    async def write(self, data: bytes, *, timeout_s: float = 30.0) -> None:
        """Writes to stdin. Concurrent writes do not mix. After WireTimeout the rest is still queued: end the child."""
        self._check_writable()
        assert isinstance(self._stdin, asyncio.WriteTransport)
        if self._pipes.writable.is_set():
            self._stdin.write(data)
            if self._pipes.writable.is_set():
                return  # the usual case, which needs no timer
            data = b""
        try:
            async with asyncio.timeout(timeout_s):
                await self._pipes.writable.wait()
                self._check_writable()
                if data:
                    self._stdin.write(data)
                    await self._pipes.writable.wait()
        except TimeoutError as exc:
            raise WireTimeout(f"{self.spec.title} did not read its input for {timeout_s:g} s", phase="write") from exc
        self._check_writable()

    def _check_writable(self) -> None:
        if self.returncode is not None:
            raise self.exit_error()
        if self._stdin is None or self._stdin.is_closing() or self._pipes.stdin_lost:
            raise ProcessError(f"{self.spec.title} has closed its input")

    def exit_error(self) -> ProcessExited:
        """The error to raise if it has exited while it was needed."""
        code = self.returncode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"exited with code {code}"
        return ProcessExited(f"{self.spec.title} {how}", code=code, stderr_tail=self.stderr_tail())

    def close_stdin(self) -> None:
        if self._stdin is not None:
            self._stdin.close()

    def _hang_up(self) -> None:
        """Does what a closing terminal does. SIGCONT lets stopped jobs receive the SIGHUP."""
        if self.spec.terminal is not None and self._signal(signal.SIGHUP):
            self._signal(signal.SIGCONT)

    def spare_groups(self, groups: frozenset[int]) -> None:
        """Sets the groups of the session that are not ended with it."""
        self._spared_groups = groups

    def kill(self) -> None:
        """Sends SIGKILL to the whole group."""
        self._signal(signal.SIGKILL if POSIX else 9)

    def _signal_descendants(self, number: int) -> None:
        """Signals descendants before the child, which adopts their orphans. Once the child has exited, only the mark
        finds them."""
        is_running = not self._pipes.exited.is_set()
        if number == signal.SIGKILL:
            process_groups.kill_descendants(self.pid if is_running else None, self.spec.mark)
        elif number and is_running:
            process_groups.signal_descendants(self.pid, number)

    async def end_descendants(self) -> None:
        """Ends all descendants; the child itself keeps running. The spec must have a mark."""
        for number in _END_SIGNALS:
            if not process_groups.signal_descendants(self.pid, number):
                return
        for _ in range(int(self.spec.term_wait_s / _POLL_S)):
            if not process_groups.signal_descendants(self.pid, 0):
                return
            await asyncio.sleep(_POLL_S)
        process_groups.kill_descendants(self.pid, self.spec.mark)

    async def _end(self) -> None:
        """Ends the group in a separate task: a cancellation can hurry that, but not skip it."""
        ending = asyncio.ensure_future(self._end_group())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            ending.cancel()
            await asyncio.wait({ending}, timeout=2 * _KILL_WAIT_S)
            raise

    async def _end_group(self) -> None:
        try:
            self.close_stdin()
            self._hang_up()
            await _wait_for(self.spec.close_wait_s, self._pipes.exited.wait())
            if self._signal(signal.SIGTERM):
                await _wait_for(self.spec.term_wait_s, self._wait_for_group())
        finally:
            self.kill()
            await self._reap()

    async def _wait_for_group(self) -> None:
        await self._pipes.exited.wait()
        while self._signal(0):
            if POSIX:
                process_groups.reap_group(self.pid)
            await asyncio.sleep(_POLL_S)

    async def _reap(self) -> None:
        try:
            await _wait_for(_KILL_WAIT_S, self._pipes.exited.wait())
            await _wait_for(ChildPipes.LINGER_S, self._pipes.drained.wait())
        finally:  # also when the loop is being torn down
            self._release()
        await _wait_for(_KILL_WAIT_S, self._pipes.closed.wait())

    def _release(self) -> None:
        self._released = True  # from here on the number of the group may be reused
        self._transport.close()
        for target in self._guarded:
            orphan_guard.unwatch(target)

    def _signal(self, number: int) -> bool:
        """Whether a process received the signal."""
        if self._released:
            return False
        if POSIX:
            if self.spec.mark:
                self._signal_descendants(number)
            if self.spec.terminal is not None:
                return process_groups.signal_session(
                    self.pid, number, self._spared_groups, spares_hangup=self.spec.spares_hangup
                )
            return process_groups.signal_group(self.pid, number)
        if self.returncode is not None:
            return False
        with suppress(ProcessLookupError):
            if number == signal.SIGTERM:
                self._transport.terminate()
            elif number:
                self._transport.kill()
        return True


async def _wait_for(timeout_s: float, waiting: Awaitable[object]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await waiting


async def _spawn(spec: ProcessSpec) -> ChildProcess:
    ring = StderrRing(lines=spec.stderr_lines, line_bytes=spec.stderr_line_bytes, redact=spec.redact)
    pipes = ChildPipes(ring, ByteStream(spec.stdout_max_bytes))
    starting = asyncio.ensure_future(_exec(spec, pipes))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # It may be running already, and it has no owner.
        ending = asyncio.ensure_future(_abandon(starting))
        await asyncio.wait({ending}, timeout=2 * _KILL_WAIT_S)
        raise


async def _abandon(starting: asyncio.Future[ChildProcess]) -> None:
    with suppress(SpawnFailed):
        child = await starting
        child.kill()
        await child._reap()


async def _exec(spec: ProcessSpec, pipes: ChildPipes) -> ChildProcess:
    streams = {"pipe": subprocess.PIPE, "devnull": subprocess.DEVNULL, "inherit": None}
    on_terminal = spec.terminal is not None
    options = {
        "stdout": spec.terminal if on_terminal else streams[spec.stdout],
        "stderr": spec.terminal if on_terminal else subprocess.PIPE,
        "env": child_environment(os.environ, spec),
        "cwd": spec.cwd,
    }
    try:
        transport = await _start(spec, pipes, options)
    except (OSError, ValueError, subprocess.SubprocessError) as exc:
        raise spawn_failed(spec, exc) from exc
    return ChildProcess(spec, transport, pipes)


async def _start(spec: ProcessSpec, pipes: ChildPipes, options: dict[str, Any]) -> asyncio.SubprocessTransport:
    if POSIX:
        guard = orphan_guard.before_exec(on_terminal=spec.terminal is not None, adopts=bool(spec.mark))
        with spec.confinement.prepare(guard) if spec.confinement else nullcontext(guard) as before_exec:
            return spawn_child(pipes, spec.argv, stdin=spec.terminal, start_new_session=True, preexec_fn=before_exec,
                               pass_fds=spec.pass_fds, **options)  # fmt: skip
    group = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.subprocess_exec(
        lambda: pipes, *spec.argv, stdin=subprocess.PIPE, creationflags=group, **options
    )
    return transport


class FinishedCommand(msgspec.Struct, frozen=True):
    returncode: int
    stdout: bytes
    stderr_tail: str


async def run(spec: ProcessSpec, *, timeout_s: float, max_output_bytes: int, stdin: bytes = b"") -> FinishedCommand:
    """Runs a command to its end. Raises SpawnFailed, WireTimeout and TooLarge; an exit code is not an error."""
    try:
        async with asyncio.timeout(timeout_s), ChildProcess.start(spec) as child:
            feeding = asyncio.ensure_future(_feed(child, stdin))
            try:
                stdout = await _collect(child, max_output_bytes)
                code = await child.wait()
            finally:
                feeding.cancel()
                await asyncio.wait({feeding})
    except TimeoutError as exc:
        raise WireTimeout(f"{spec.title} did not finish within {timeout_s:g} s", phase="run") from exc
    return FinishedCommand(code, stdout, child.stderr_tail())


async def _feed(child: ChildProcess, data: bytes) -> None:
    with suppress(ProcessError, WireTimeout):  # a command need not read all of its input
        if data:
            await child.write(data, timeout_s=_NO_TIMEOUT_S)  # bounded by the caller's timeout
    child.close_stdin()


async def _collect(child: ChildProcess, max_bytes: int) -> bytes:
    pieces, size = [], 0
    async for piece in child.stdout:
        size += len(piece)
        if size > max_bytes:
            raise TooLarge(f"{child.spec.title} wrote more than {max_bytes} bytes")
        pieces.append(piece)
    return b"".join(pieces)
