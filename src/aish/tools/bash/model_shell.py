"""Runs a model's line in a copy of the live bash: a process, session and terminal of its own, which end with the line.

A forked bash cannot leave the session of the person's terminal, since bash has no `setsid`. So the copy is a fresh
bash that reads the state of the live one (`snapshot.py`), inside the sandbox where there is one. Whatever the line does
(`exit`, `exec`, `set -e`, `trap`, `cd`, exports, jobs, signals to its parent) it does to the copy. If the copy cannot
be made, nothing runs.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
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
# Arguments: the descriptors of the state and of the report. The report is `ready` and, at the end, the directory; it
# goes to a high descriptor, out of the way of those that lines use.
# One line, so that what bash says of errors counts from the first line of the model's.
_BASH_MAIN = "; ".join((
    'eval "exec 250>&$2 $2>&-"',
    '. "/dev/fd/$1" 2>/dev/null',
    r'\builtin eval "\\builtin exec $1<&-"',
    r'\builtin test -n "${__aish_ready-}" || \builtin exit 125',
    r"\builtin set --",
    r"""\builtin trap '{ \builtin pwd >&250; \builtin printf "\0" >&250; } 2>/dev/null' EXIT""",
    r"\builtin printf 'ready\0' >&250",
    "__aish_status",
    r'\builtin eval "$__aish_line" </dev/null',
    r"{ __aish_status=$?; \builtin set +eux; \builtin pwd >&250; \builtin printf '\0' >&250; } 2>/dev/null",
    r'\builtin exit "$__aish_status"',
))  # fmt: skip
_SH_MAIN = 'eval "$1" </dev/null'
# Between aish and the copy, so that a line which ends its parent ends nothing of ours.
_PARENT = 'trap : HUP INT TERM; "$@"; exit $?'
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
            report.close_writer()
            end = await _until_end(pty, listener, spec.timeout_s)
            code = pty.returncode
        listener.capture.finish()
        if spec.snapshot is not None and not report.is_ready:
            told = listener.capture.text("", 1).strip()[-_SHOWN_CHARS:]
            why = told or ("it took too long" if end is RunEnd.TIMED_OUT else "it did not start")
            raise ProcessError(f"no copy of the shell could be made, so nothing was run: {why}")
        return _result(spec, listener.capture, end, code, report.cwd or spec.cwd, time.monotonic() - started_s)


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
    return ProcessSpec(
        await spec.wrap(argv, folder) if spec.wrap is not None else argv,
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


async def _until_end(pty: Pty, listener: _Listener, timeout_s: float) -> RunEnd:
    ending = asyncio.ensure_future(pty.wait())
    asking = asyncio.ensure_future(listener.asked.wait())
    try:
        await asyncio.wait({ending, asking}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            return RunEnd.DONE
        end = RunEnd.ASKED if asking.done() else RunEnd.TIMED_OUT
        pty.interrupt()
        await asyncio.wait({ending}, timeout=_INTERRUPTED_S)
        return end
    finally:
        ending.cancel()
        asking.cancel()


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
    """The pipe through which the copy says that it is one, and where it ended."""

    def __init__(self, stack: ExitStack) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._said: bytes | None = None
        self._is_open = True
        stack.callback(os.close, self._reader)
        stack.callback(self.close_writer)

    def close_writer(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self.writer)

    @property
    def is_ready(self) -> bool:
        return self._records()[:1] == [_READY]

    @property
    def cwd(self) -> str:
        """The last directory it told, if there is one."""
        said = [os.fsdecode(record.removesuffix(b"\n")) for record in self._records()[1:]]
        return said[-1] if said and Path(said[-1]).is_absolute() and Path(said[-1]).is_dir() else ""

    def _records(self) -> list[bytes]:
        if self._said is None:
            self._said = b""
            with suppress(BlockingIOError):
                self._said = os.read(self._reader, _REPORT_BYTES)
        return self._said.split(b"\0")[:-1]
