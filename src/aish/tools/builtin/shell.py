"""`shell__run`: runs a command line in a shell of its own, without stdin, with a time limit and bounded output.

The process group is stopped when the line is done, times out or is cancelled.
"""

from __future__ import annotations

import asyncio
import os
import re
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from aish.errors import ProcessError, ToolError
from aish.ports import CallContext
from aish.tools.proved_environment import proved_environment, steers_bash
from aish.types.live_shell import RunEnd, RunResult
from aish.types.messages import TextPart, text_of
from aish.types.tools import Arguments, Effect, ResultStatus, ToolOutput, ToolSpec

if TYPE_CHECKING:
    from aish.process.sandbox import Sandbox
    from aish.tools.git_settings_guard import GitSettings

# A core dump holds the memory of a program, with its secrets, and may be large.
NO_CORE_DUMPS = "ulimit -c 0"

DEFAULT_TIMEOUT_S = 120.0
MAX_TIMEOUT_S = 1800.0
# The beginning and the end of long output are kept. A model reads about a quarter of this at most.
HEAD_BYTES = 64 * 1024
TAIL_BYTES = 64 * 1024


def _git_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns environment variables that override all of git's configuration files."""
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


# Programs must not ask questions or open a pager, because there is no user to answer.
QUIET_ENVIRONMENT = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "NO_COLOR": "1",
    # A repository may name programs that git runs; reading a repository must not run them, not even a nested one.
    **_git_settings(
        {"core.fsmonitor": "false", "safe.bareRepository": "explicit", "log.showSignature": "false"},
    ),
    # Neither may a .npmrc send npm to a host, or have it write logs and caches in other folders.
    "npm_config_update_notifier": "false",
    "npm_config_logs_max": "0",
    "npm_config_cache": "~/.npm",
    "npm_config_timing": "false",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
}

_SPEC = ToolSpec(
    name="run",
    description="Run a bash command line in the working directory. There is no stdin and no terminal.",
    schema={
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1, "description": "the command line"},
            "timeout_s": {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_TIMEOUT_S},
            "outside_sandbox": {
                "type": "boolean",
                "description": "only after the sandbox has denied something: the user is asked to run it outside",
            },
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    effect=Effect.EXEC,
    source="shell",
    # The call's own limit applies; this one is the outer bound.
    timeout_s=MAX_TIMEOUT_S + 30,
)

_SPECS = (_SPEC,)

# What programs say when a system call was denied, or a host was not found.
_DENIED = re.compile(
    r"permission denied|read-only file system|operation not permitted|network is unreachable|could not resolve|"
    r"resource busy|name resolution|name or service not known|EACCES|EPERM|EROFS|ENETUNREACH|EAI_AGAIN",
    re.IGNORECASE,
)
_SEARCHED_CHARS = 8000
_SHOWN_PATHS = 10
_OUTSIDE_HINT = (
    "[aish] The sandbox may have denied this: it allows writes in the workspace and temporary folders only, and no "
    "network. If the command needs more, call the tool again with outside_sandbox=true, and the user is asked."
)
_RESTORED = "a command that ran unasked changed what makes git run programs; this was put back: {}"
_RESTORED_HINT = "If it is wanted, call the tool again with outside_sandbox=true, and the user is asked."
_NO_SANDBOX = "commands of this key run only inside the sandbox, and bubblewrap is missing or may not be used here"


class CommandShell(Protocol):
    """The user's shell. Commands of a model run in copies of it."""

    def model_cwd(self, turn: str) -> str: ...

    async def run_model(
        self,
        line: str,
        timeout_s: float,
        *,
        turn: str,
        sandbox: Sandbox | None,
        is_proved: bool,
        on_text: Callable[[str], None],
    ) -> RunResult: ...


@lru_cache(maxsize=4)
def _find_shell(search_path: str) -> str:
    import shutil  # most turns run no command

    return shutil.which("bash", path=search_path) or shutil.which("sh", path=search_path) or "sh"


class ShellTools:
    """`env` is the whole environment of commands, because a model reads their output.

    If the user's live shell exists (`live`), each command runs in a copy of it, with its variables and functions, and a
    `cd` holds for the next command of the same turn. Otherwise `cwd` gives the directory.
    """

    def __init__(
        self,
        *,
        cwd: Callable[[], Path],
        workspace: Path,
        sandbox: Sandbox,
        env: Mapping[str, str],
        live: Callable[[], CommandShell | None] = lambda: None,
    ) -> None:
        self._env = {**{name: value for name, value in env.items() if not steers_bash(name)}, **QUIET_ENVIRONMENT}
        self._cwd = cwd
        self._workspace = workspace
        self._sandbox = sandbox
        self._live = live
        self._git: GitSettings | None = None

    def specs(self) -> Sequence[ToolSpec]:
        return _SPECS

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        if name != _SPEC.name:
            raise ToolError(f"there is no tool {name}", status=ResultStatus.UNKNOWN_TOOL)
        command, timeout_s = str(arguments["command"]), float(arguments.get("timeout_s", DEFAULT_TIMEOUT_S))
        if "\0" in command:
            raise ToolError("a command line cannot hold NUL characters", status=ResultStatus.BAD_ARGUMENTS)
        sandbox = None if arguments.get("outside_sandbox") and not context.owner else self._sandbox
        if sandbox is not None and context.is_unasked and await sandbox.probe():
            output = await self._run_watched(command, timeout_s, context, sandbox)
        else:
            output = await self._run_anywhere(command, timeout_s, context, sandbox)
        is_inside = sandbox is not None and sandbox.is_active and not context.owner
        return _with_hint(output) if output.is_error and is_inside else output

    async def aclose(self) -> None:
        """Every call ends its own processes."""

    async def _run_watched(self, command: str, timeout_s: float, context: CallContext, sandbox: Sandbox) -> ToolOutput:
        """What makes git run programs outside of the sandbox stays as it was. This also holds if it is cancelled."""
        from aish.tools.git_settings_guard import GitSettings  # most turns run no command

        if self._git is None:
            self._git = GitSettings(self._workspace, sandbox.writable)
        before = self._git.take()
        notice = ""
        try:
            inside = sandbox.close(before.closed.pinned, before.closed.read_only)
            output = await self._run_anywhere(command, timeout_s, context, inside)
        finally:
            if restored := before.restore():
                notice = _RESTORED.format(", ".join(restored[:_SHOWN_PATHS]))
                context.status(notice)
        return _with_line(output, f"[aish] {notice}. {_RESTORED_HINT}") if notice else output

    async def _run_anywhere(
        self, command: str, timeout_s: float, context: CallContext, sandbox: Sandbox | None
    ) -> ToolOutput:
        if context.owner:
            return await self._run_for_tenant(command, timeout_s, context, sandbox or self._sandbox)
        if (live := self._live()) is not None:
            return await self._run_live(live, command, timeout_s, context, sandbox)
        return await self._run(command, timeout_s, context, sandbox)

    async def _run_for_tenant(
        self, command: str, timeout_s: float, context: CallContext, sandbox: Sandbox
    ) -> ToolOutput:
        """Runs only inside the sandbox, so that it cannot reach data of others."""
        if not (await sandbox.probe() and sandbox.separates_tenants):
            raise ToolError(_NO_SANDBOX, status=ResultStatus.NOT_ALLOWED)
        return await self._run(command, timeout_s, context, sandbox)

    async def _run_live(
        self, live: CommandShell, command: str, timeout_s: float, context: CallContext, sandbox: Sandbox | None
    ) -> ToolOutput:
        before = live.model_cwd(context.turn)
        try:
            result = await live.run_model(
                command,
                timeout_s,
                turn=context.turn,
                sandbox=sandbox,
                is_proved=context.is_proved,
                on_text=context.output,
            )
        except ProcessError as exc:
            raise ToolError(exc.message) from exc
        return _format_live_result(result, timeout_s, before)

    async def _run(self, command: str, timeout_s: float, context: CallContext, sandbox: Sandbox | None) -> ToolOutput:
        from aish.process.child import ChildProcess, ProcessSpec  # most turns run no command

        # stderr joins stdout inside the shell, so that the two keep their order.
        proved = {**proved_environment(self._env, self._workspace), **QUIET_ENVIRONMENT}
        argv: tuple[str, ...] = (_find_shell(proved["PATH"]), "-c", f"exec 2>&1; {NO_CORE_DUMPS}\n{command}")
        cwd = self._cwd()
        if sandbox is not None:
            argv = await sandbox.wrap(argv, cwd)
        own = sandbox.environment if sandbox else {}
        spec = ProcessSpec(
            argv,
            confinement=sandbox.confinement if sandbox else None,
            name="shell__run",
            mark=f"AISH_LINE={os.urandom(16).hex()}",  # also finds what leaves its session
            env={**(proved if context.is_proved else self._env), **own},
            cwd=cwd,
            close_wait_s=0.2,
            term_wait_s=1.0,
        )
        capture = BoundedOutput()
        decoder = getincrementaldecoder("utf-8")("replace")
        code: int | None = None
        try:
            async with ChildProcess.start(spec) as child:
                child.close_stdin()
                try:
                    async with asyncio.timeout(timeout_s):
                        async for piece in child.stdout:
                            capture.add(piece)
                            context.output(decoder.decode(piece))
                        code = await child.wait()
                except TimeoutError:
                    pass
        except ProcessError as exc:
            raise ToolError(exc.message) from exc
        return _format_result(capture, code, timeout_s)


def _with_hint(output: ToolOutput) -> ToolOutput:
    """Tells the model how to have the user asked, if the output reads as if the sandbox had denied something."""
    text = text_of(output.parts)
    if not _DENIED.search(text[-_SEARCHED_CHARS:]):
        return output
    return _with_line(output, _OUTSIDE_HINT)


def _with_line(output: ToolOutput, line: str) -> ToolOutput:
    return msgspec.structs.replace(output, parts=(TextPart(f"{text_of(output.parts)}\n{line}"),))


def _format_live_result(result: RunResult, timeout_s: float, before: str) -> ToolOutput:
    notes = {
        RunEnd.TIMED_OUT: f"stopped after {timeout_s:g} s",
        RunEnd.ASKED: "stopped: it asked for a password, and there is no user to give one",
    }
    note = notes.get(result.end) or (f"exit code {result.status}" if result.status else "")
    moved = f"your working directory is now {result.cwd}" if result.cwd != before else ""
    text = result.output or ("" if note or moved else "[aish] no output, exit code 0")
    for line in filter(None, (note, moved)):
        separator = "\n" if text and not text.endswith("\n") else ""
        text += f"{separator}[aish] {line}"
    return ToolOutput((TextPart(text),), is_error=bool(note))


class BoundedOutput:
    """Keeps the beginning and the end of a stream, in bounded memory."""

    def __init__(self, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES) -> None:
        self._head = bytearray()
        self._head_bytes = head_bytes
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._tail_bytes = tail_bytes
        self._total = 0

    def add(self, piece: bytes) -> None:
        self._total += len(piece)
        room = self._head_bytes - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if piece:
            self._tail.append(piece)
            self._tail_size += len(piece)
            while self._tail_size - len(self._tail[0]) >= self._tail_bytes:
                self._tail_size -= len(self._tail.popleft())

    def text(self) -> str:
        tail = b"".join(self._tail)[-self._tail_bytes :]
        left_out = self._total - len(self._head) - len(tail)
        if b"\0" in self._head[:4096]:
            return f"[aish] {self._total} bytes of binary output"
        middle = f"\n[aish] … {left_out} bytes left out …\n" if left_out else ""
        return self._head.decode("utf-8", "replace") + middle + tail.decode("utf-8", "replace")


def _format_result(capture: BoundedOutput, code: int | None, timeout_s: float) -> ToolOutput:
    text = capture.text()
    if code is None:
        note = f"[aish] stopped after {timeout_s:g} s"
    elif code == 0:
        return ToolOutput((TextPart(text or "[aish] no output, exit code 0"),))
    else:
        note = f"[aish] exit code {code}"
    separator = "" if not text or text.endswith("\n") else "\n"
    return ToolOutput((TextPart(f"{text}{separator}{note}"),), is_error=True)
