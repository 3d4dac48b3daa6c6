"""The live shell: keeps one bash alive, runs the user's lines in it and the model's lines in copies of it.

    async with LiveBash.open(LiveBashSpec(cwd=Path.cwd()), on_output=show, on_notice=say) as shell:
        result = await shell.run_user("make", terminal=0)
        result = await shell.run_model("git status", timeout_s=60)

A model's line cannot affect the user's shell: see `model_shell.py`.

Opening returns at once; the rc files run while the prompt is drawn, and the first line waits for them. Only a line that
says `exit` ends the live shell (`exited`). Whatever else ends bash, another one takes over in the same directory with
the same exported variables. Closing ends running lines and jobs, as a closed terminal would; jobs that were disowned
keep running.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aish.errors import ProcessError, SpawnFailed, UsageError
from aish.process.child import ProcessSpec
from aish.process.pty import Pty, WindowSize
from aish.tools.bash.channel import Channel, Mode
from aish.tools.bash.completion.program_names import has_file
from aish.tools.bash.completion.side_shell import SideShell
from aish.tools.bash.model_shell import ModelLineSpec, run_model_line
from aish.tools.bash.running_bash import BashProcess, find_disowned_groups
from aish.tools.bash.snapshot import Snapshot, take_snapshot
from aish.tools.bash.user_lines import run_at_terminal
from aish.types.live_shell import Completions, HistorySettings, RunEnd, RunResult, WordKind

if TYPE_CHECKING:
    from aish.process.sandbox import Sandbox

_HISTORY_LINES = 10_000
_MAX_TURNS = 64  # whose directories are remembered
# A bash that exits this often before it is ready will not become ready.
_TRIES = 3
_PAUSE_S = 1.0  # before another one, if that many have ended and none was used
_USUAL_SIZE = WindowSize(24, 80)
_RESTARTED = "a new one has its directory and exported variables; other variables, functions and jobs are gone"
# `exit` where a command begins, but not in a subshell.
_EXIT_LINE = re.compile(
    r"(?:^|[;&|{\n!]|\b(?:then|do|else|elif|time|builtin|command)\s)\s*(?:exit|logout)(?![\w./=+-])"
)
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\$?\([^()]*\)")
_LOST_WITH_SH = (
    "there is no bash here, so the shell is a plain sh: no command completion, no history expansion, and the model's "
    "lines see its directory, but nothing of what it has set"
)


class LiveBashSpec(msgspec.Struct, frozen=True):
    cwd: Path
    rc_file: str | None = None  # None: ~/.bashrc is not read
    shell: str | None = None  # None: bash, else sh
    env: Mapping[str, str] = {}
    model_env: Mapping[str, str] = {}  # for the model's lines; an empty value hides the variable
    hides: Callable[[str], bool] = lambda name: False  # further variables hidden from the model's lines
    size: WindowSize = _USUAL_SIZE
    ready_s: float = 20.0  # a slower rc file is given up, unless the user types into it
    close_wait_s: float = 0.5
    wants_ps1: bool = False  # expand the user's PS1 before each line
    private: Path | None = None  # the folder for the channel to bash; the sandbox must hide it
    workspace: Callable[[], Path] | None = None  # of the model now; None: `cwd`


class LiveBash:
    """Create it with `open`. Runs one line at a time; others wait."""

    def __init__(
        self, spec: LiveBashSpec, on_output: Callable[[bytes], None], on_notice: Callable[[str], None]
    ) -> None:
        self._spec = spec
        self._on_output = on_output
        self._on_notice = on_notice
        self._shell, self._is_plain_sh = _find_shell(spec.shell)
        self._size = spec.size
        self._line_lock = asyncio.Lock()
        self._model_lock = asyncio.Lock()
        self._model_cwds: dict[str, str] = {}  # by turn id
        self._snapshot_count = 0
        self._known_state: tuple[str, Snapshot] | None = None  # with the nonce of the line after which it was read
        self._bash_changed = asyncio.Event()  # set when a bash has started, or when none will start again
        self._bash: BashProcess | None = None
        self._pty: Pty | None = None
        self._failure: ProcessError | None = None
        self._was_used = False  # a line ran in this bash, or a copy of it was made
        self._may_exit = self._says_exit = False  # whether the line that runs may end the live shell, and means to
        self._cwd = str(spec.cwd)
        self._exports = b""  # of the last bash, as it lists them
        self._side = SideShell()
        self.history: deque[str] = deque(maxlen=_HISTORY_LINES)
        self.exited = asyncio.Event()
        self.exit_code: int | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        spec: LiveBashSpec,
        *,
        on_output: Callable[[bytes], None] = lambda data: None,
        on_notice: Callable[[str], None] = lambda text: None,
    ) -> AsyncIterator[LiveBash]:
        """`on_output` gets what jobs print while no line runs, `on_notice` messages for the user."""
        shell = cls(spec, on_output, on_notice)
        if shell._is_plain_sh:
            on_notice(_LOST_WITH_SH)
        task = asyncio.create_task(shell._keep_alive())
        try:
            yield shell
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            shell._side.close()

    # State

    @property
    def cwd(self) -> str:
        return self._cwd

    @property
    def pid(self) -> int | None:
        return self._pty.pid if self._pty else None

    @property
    def jobs(self) -> int:
        return self._bash.status.jobs if self._bash else 0

    @property
    def search_path(self) -> str:
        """PATH when the shell last waited; "" before that."""
        return self._bash.status.search_path if self._bash else ""

    @property
    def editing(self) -> str:
        """`emacs` or `vi`, as set in bash."""
        return self._bash.status.editing if self._bash else "emacs"

    @property
    def ps1(self) -> str:
        """Returns what the user's PS1 showed when the shell last waited."""
        return self._bash.status.ps1 if self._bash else ""

    @property
    def venv(self) -> str:
        """Returns the name of the active virtual environment; "" if there is none."""
        return self._bash.status.venv if self._bash else ""

    @property
    def editor(self) -> str:
        """Returns the command in the user's VISUAL or EDITOR when the shell last waited; "" if there is none."""
        return self._bash.status.editor if self._bash else ""

    @property
    def history_settings(self) -> HistorySettings:
        """As of the time when the shell last waited."""
        return self._bash.status.history if self._bash else HistorySettings()

    @property
    def is_waiting(self) -> bool:
        bash = self._bash
        return bash is not None and bash.waiting.is_set() and not bash.exited.is_set() and not self._line_lock.locked()

    def resize(self, size: WindowSize) -> None:
        self._size = size
        if self._pty is not None:
            self._pty.resize(size)

    async def ready(self) -> None:
        """Waits until the shell can take a line. Raises ProcessError if no shell stays alive."""
        await self._get_ready_bash()

    def resolve(self, word: str) -> WordKind | None:
        """Returns the meaning of a line's first word, as of the last refresh, and schedules another one."""
        self._schedule_refresh()
        return self._side.resolve(word, self._cwd)

    def names(self) -> frozenset[str]:
        """Returns every first word that it knows, as of the last refresh."""
        return self._side.names()

    def exists(self, path: str) -> bool:
        """Returns whether there is such a file, seen from the shell's directory."""
        return has_file(self._cwd, path)

    async def refresh(self, timeout_s: float = 2.0) -> None:
        """Reads the current aliases, functions and PATH."""
        await self.ready()
        if self._bash is not None and not self._is_plain_sh:
            await self._side.refresh(self._bash.channel, timeout_s)

    async def complete(self, line: str, cursor: int, *, timeout_s: float = 1.0) -> Completions:
        """Returns bash's completions; none while a line runs, or if it takes too long."""
        if not self.is_waiting or self._is_plain_sh or self._bash is None:
            return Completions(start=cursor)
        return await self._side.complete(self._bash.channel, line, cursor, self._cwd, timeout_s)

    def _schedule_refresh(self) -> None:
        if self.is_waiting and not self._is_plain_sh and self._bash is not None:
            self._side.refresh_soon(self._bash.channel)

    # Running lines

    async def run_user(
        self, line: str, terminal: int | None, *, may_exit: bool = True, is_own: bool = False
    ) -> RunResult:
        """Runs a line as if typed at the terminal, which it owns until the shell waits again. None: without a
        terminal. `may_exit`: an `exit` in it ends the live shell; otherwise another bash takes over. `is_own`: aish
        runs it for a command of its own; it is in no history and leaves `$?` as it was."""
        _check(line)
        if not is_own:
            self.history.append(line)
        async with self._line_lock:
            self._may_exit, self._says_exit = may_exit, is_exit_line(line)
            mode: Mode = "own" if is_own else "user"
            try:
                return await self._run(lambda bash, pty: run_at_terminal(bash, pty, line, terminal, mode))
            finally:
                self._may_exit = False

    async def run_model(
        self,
        line: str,
        timeout_s: float,
        *,
        turn: str = "",
        sandbox: Sandbox | None = None,
        is_proved: bool = False,
        on_text: Callable[[str], None] | None = None,
    ) -> RunResult:
        """Runs a line in a copy of the shell, without input or pager, with a time limit. `on_text` gets lines early.

        The next line of the same `turn` begins in the directory where this one ends. It runs inside the `sandbox`.
        A line that is proved harmless means only what the proof assumes: the copy has no functions, aliases and options
        of the user's. Raises ProcessError if no copy can be made.
        """
        _check(line)
        async with self._model_lock:
            spec_of_line = ModelLineSpec(
                self._shell, line, self.model_cwd(turn), timeout_s, self._size, await self._snapshot(),
                env=self._spec.model_env, hides=self._spec.hides, sandbox=sandbox, is_proved=is_proved,
                workspace=self._spec.workspace() if self._spec.workspace else self._spec.cwd,
                search_path=self.search_path,
            )  # fmt: skip
            result = await run_model_line(spec_of_line, on_text)
            if turn:
                self._model_cwds[turn] = result.cwd
            return result

    def model_cwd(self, turn: str) -> str:
        """Returns the directory of the model's next line. A turn begins in the user's directory and then keeps its
        own."""
        known = self._model_cwds.get(turn)
        if known is not None and Path(known).is_dir():
            return known
        if turn:
            self._model_cwds[turn] = self._cwd
            if len(self._model_cwds) > _MAX_TURNS:
                del self._model_cwds[next(iter(self._model_cwds))]
        return self._cwd

    async def _snapshot(self) -> Snapshot | None:
        """Waits until the shell waits. Returns None for a plain sh, which cannot list its state. Between two lines of
        the user the state stays the same, so it is read once."""
        async with self._line_lock:
            bash = await self._get_ready_bash()
            self._was_used = True
            if self._is_plain_sh:
                return None
            if self._known_state is None or self._known_state[0] != bash.status.nonce:
                self._snapshot_count += 1
                self._known_state = bash.status.nonce, await take_snapshot(bash.channel, self._snapshot_count)
            return self._known_state[1]

    async def _run(self, run: Callable[[BashProcess, Pty], Awaitable[RunResult]]) -> RunResult:
        while True:
            bash, pty = await self._get_bash()
            self._was_used = True
            self._side.mark_outdated()
            result = await run(bash, pty)
            if bash.was_ready:
                break
            await self._wait_for_next(bash)  # it exited before the line started
        self._cwd = result.cwd
        if result.end in (RunEnd.EXITED, RunEnd.LOST):
            await self._wait_for_next(bash)
        return result

    # Keeping it alive

    async def _keep_alive(self) -> None:
        with_rc, failed, unused = True, 0, 0
        try:
            while failed < _TRIES and not self.exited.is_set():
                bash = await self._run_bash(with_rc=with_rc)
                with_rc = with_rc and bash.was_ready
                failed = 0 if bash.was_ready else failed + 1
                unused = 0 if self._was_used else unused + 1
                if unused >= _TRIES:
                    await asyncio.sleep(_PAUSE_S)
            if not self.exited.is_set():
                hint = "try it in a terminal of its own"
                self._failure = ProcessError(f"{self._shell} does not stay alive", hint=hint)
        except ProcessError as exc:
            self._failure = exc
        finally:
            self._bash = self._pty = None
            self._bash_changed.set()

    async def _run_bash(self, *, with_rc: bool) -> BashProcess:
        self._was_used = False
        channel = Channel(
            is_plain_sh=self._is_plain_sh,
            rc_file=self._spec.rc_file if with_rc else None,
            exports=self._exports,
            wants_ps1=self._spec.wants_ps1,
            private=self._spec.private,
        )
        running: Pty | None = None

        def note_waiting() -> None:
            self._cwd = bash.status.cwd or self._cwd
            self._exports = channel.take_exports() or self._exports
            if running is not None:
                running.spare_groups(find_disowned_groups(running.pid, channel.read_jobs()))

        bash = BashProcess(channel, self._cwd, on_idle_output=self._on_output, on_waiting=note_waiting)
        try:
            async with Pty.start(self._process(channel), size=self._size, take=bash.feed) as pty:
                running = pty
                self._bash, self._pty = bash, pty
                self._bash_changed.set()
                giving_up = asyncio.get_running_loop().call_later(self._spec.ready_s, self._give_up, bash, pty)
                try:
                    code = await pty.wait()
                finally:
                    giving_up.cancel()
                self._report_exit(bash, code)
        finally:
            if not bash.exited.is_set():  # we are closing: waiting callers must not wait for ever
                bash.note_exit(-signal.SIGHUP)
            self._side.mark_outdated()
            channel.close()
        return bash

    def _process(self, channel: Channel) -> ProcessSpec:
        options = ("-i",) if self._is_plain_sh else ("--rcfile", str(channel.rc), "-i")
        env = dict(self._spec.env) | ({"ENV": str(channel.rc)} if self._is_plain_sh else {})
        cwd = Path(self._cwd) if Path(self._cwd).is_dir() else Path("/")
        return ProcessSpec(
            (self._shell, *options), name="bash", env=env, inherit=("*",), cwd=cwd,
            close_wait_s=self._spec.close_wait_s, term_wait_s=self._spec.close_wait_s,
        )  # fmt: skip

    def _give_up(self, bash: BashProcess, pty: Pty) -> None:
        if not bash.was_ready and not bash.was_typed_to:
            self._on_notice(f"your rc file did not finish within {self._spec.ready_s:g} s; going on without it")
            pty.kill()

    def _report_exit(self, bash: BashProcess, code: int) -> None:
        if not bash.was_ready:
            self._on_notice("the shell ended before it was ready; starting one without your rc file")
        elif code >= 0 and self._may_exit and (self._says_exit or bash.is_at_exit_alias):
            self.exit_code = code
            self.exited.set()
        else:
            how = f"was killed (signal {-code})" if code < 0 else f"ended (exit status {code})"
            self._on_notice(f"bash {how}; {_RESTARTED}")
        bash.note_exit(code)

    async def _get_bash(self) -> tuple[BashProcess, Pty]:
        """Returns a shell that may still be reading its rc file."""
        while self._bash is None or self._pty is None or self._bash.exited.is_set():
            if self._failure is not None:
                raise self._failure
            if self.exited.is_set() and self._bash is None:
                raise ProcessError("the shell has exited")
            self._bash_changed.clear()
            await self._bash_changed.wait()
        return self._bash, self._pty

    async def _get_ready_bash(self) -> BashProcess:
        while True:
            bash, _ = await self._get_bash()
            if await bash.wait_until_waiting():
                return bash

    async def _wait_for_next(self, before: BashProcess) -> None:
        """Waits until the shell is replaced, or none will be."""
        while self._bash is before:
            self._bash_changed.clear()
            await self._bash_changed.wait()


def is_exit_line(line: str) -> bool:
    """Whether a line says that the shell is to be left, as in `exit 3` or `make && exit`."""
    return bool(_EXIT_LINE.search(_QUOTED.sub("''", line)))


def _check(line: str) -> None:
    if "\0" in line:
        raise UsageError("a command line cannot hold NUL characters")


def _find_shell(wanted: str | None) -> tuple[str, bool]:
    """Returns the program, and whether it is only a POSIX sh."""
    if wanted is not None:
        return wanted, Path(wanted).name not in ("bash", "rbash")
    bash = shutil.which("bash")
    if bash is not None:
        return bash, False
    sh = shutil.which("sh")
    if sh is None:
        raise SpawnFailed("there is neither bash nor sh", hint="install bash")
    return sh, True
