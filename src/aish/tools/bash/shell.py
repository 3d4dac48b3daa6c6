"""The live shell: keeps one bash alive, runs the person's lines in it and the model's in copies of it.

    async with LiveBash.open(LiveBashSpec(cwd=Path.cwd()), on_output=show, on_notice=say) as shell:
        result = await shell.run_user("make", terminal=0)
        result = await shell.run_model("git status", timeout_s=60)

Nothing that a model's line does reaches the shell of the person: see `model_shell.py`.

Opening returns at once; the rc files run while the prompt is drawn, and the first line waits for them. A bash that is
killed is followed by another one in the same directory; one that exits ends the live shell (`exited`). What it was
doing when we leave is ended with it, as by a terminal that closes; jobs it was told to `disown` are left alone.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from aish.errors import ProcessError, SpawnFailed, UsageError
from aish.process.child import ProcessSpec
from aish.process.pty import Pty, WindowSize
from aish.tools.bash.channel import Channel
from aish.tools.bash.completion.side_shell import SideShell
from aish.tools.bash.disowned_jobs import disowned_groups
from aish.tools.bash.foreground import run_at_terminal
from aish.tools.bash.model_shell import ForkSpec, run_fork
from aish.tools.bash.process import Life
from aish.tools.bash.snapshot import Snapshot, take_snapshot
from aish.tools.bash.unattended import run_unattended
from aish.tools.builtin.shell import Wrap
from aish.types.live_shell import Completions, RunEnd, RunResult, WordKind

_HISTORY_LINES = 10_000
_MAX_TURNS = 64  # whose directories are remembered
# A bash that dies this often before it is ready will not become ready the next time.
_TRIES = 3
_USUAL_SIZE = WindowSize(24, 80)
_LOST_WITH_SH = (
    "there is no bash here, so the shell is a plain sh: no command completion, no history expansion, and the model's "
    "lines see its directory, but nothing of what it has set"
)


class LiveBashSpec(msgspec.Struct, frozen=True):
    cwd: Path
    rc_file: str | None = None  # None: ~/.bashrc is not read
    shell: str | None = None  # None: bash, else sh
    env: Mapping[str, str] = {}
    model_env: Mapping[str, str] = {}  # for the model's lines; an empty value hides what is set
    hides: Callable[[str], bool] = lambda name: False  # further variables that the model's lines do not see
    size: WindowSize = _USUAL_SIZE
    ready_s: float = 20.0  # an rc file that takes longer is given up, unless somebody talks to it
    close_wait_s: float = 0.5


class LiveBash:
    """Made by `open`. One line at a time; whoever comes second waits."""

    def __init__(
        self, spec: LiveBashSpec, on_output: Callable[[bytes], None], on_notice: Callable[[str], None]
    ) -> None:
        self._spec = spec
        self._on_output = on_output
        self._on_notice = on_notice
        self._shell, self._posix = _find_shell(spec.shell)
        self._size = spec.size
        self._turn = asyncio.Lock()
        self._model_turn = asyncio.Lock()
        self._model_cwds: dict[str, str] = {}  # by the id of a turn
        self._snapshots = 0
        self._news = asyncio.Event()  # a life began, or none will any more
        self._life: Life | None = None
        self._pty: Pty | None = None
        self._failure: ProcessError | None = None
        self._cwd = str(spec.cwd)
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
        """`on_output` hears what jobs print while no line runs, `on_notice` what a person should know."""
        shell = cls(spec, on_output, on_notice)
        if shell._posix:
            on_notice(_LOST_WITH_SH)
        keeper = asyncio.create_task(shell._keep_alive())
        try:
            yield shell
        finally:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper
            shell._side.close()

    # What is known of it

    @property
    def cwd(self) -> str:
        return self._cwd

    @property
    def pid(self) -> int | None:
        return self._pty.pid if self._pty else None

    @property
    def jobs(self) -> int:
        return self._life.status.jobs if self._life else 0

    @property
    def editing(self) -> str:
        """`emacs` or `vi`, as the person set it in bash."""
        return self._life.status.editing if self._life else "emacs"

    @property
    def is_waiting(self) -> bool:
        life = self._life
        return life is not None and life.waiting.is_set() and not life.gone.is_set() and not self._turn.locked()

    def resize(self, size: WindowSize) -> None:
        self._size = size
        if self._pty is not None:
            self._pty.resize(size)

    async def ready(self) -> None:
        """Until it waits for a line. Raises ProcessError when no shell can be kept alive."""
        await self._ready_life()

    def resolve(self, word: str) -> WordKind | None:
        """What the first word of a line is, as of the last look; `refresh` takes another one."""
        self._look_again()
        return self._side.resolve(word, self._cwd)

    async def refresh(self, timeout_s: float = 2.0) -> None:
        """Learn the aliases, functions and PATH of now."""
        await self.ready()
        if self._life is not None and not self._posix:
            await self._side.refresh(self._life.channel, timeout_s)

    async def complete(self, line: str, cursor: int, *, timeout_s: float = 1.0) -> Completions:
        """What bash would offer there. Nothing while a line runs, or when it takes too long."""
        if not self.is_waiting or self._posix or self._life is None:
            return Completions(start=cursor)
        return await self._side.complete(self._life.channel, line, cursor, self._cwd, timeout_s)

    def _look_again(self) -> None:
        if self.is_waiting and not self._posix and self._life is not None:
            self._side.refresh_soon(self._life.channel)

    # Running lines

    async def run_user(self, line: str, terminal: int | None) -> RunResult:
        """As if typed at the terminal, which it gets whole until the shell waits again. None: nobody types."""
        _check(line)
        self.history.append(line)
        async with self._turn:
            return await self._run(lambda life, pty: run_at_terminal(life, pty, line, terminal))

    async def run_proposal(self, line: str, timeout_s: float) -> RunResult:
        """What a model wrote and the person chose to run: in their shell, without input or pager, at most so long."""
        _check(line)
        async with self._turn:
            return await self._run(lambda life, pty: run_unattended(life, pty, line, timeout_s, None, self._on_output))

    async def run_model(
        self,
        line: str,
        timeout_s: float,
        *,
        turn: str = "",
        wrap: Wrap | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> RunResult:
        """In a copy of the shell, without input or pager, at most so long. `on_text` hears lines early.

        Where it ends is where the next line of the same `turn` begins. `wrap` puts it into the sandbox. Raises
        ProcessError where no copy can be made.
        """
        _check(line)
        async with self._model_turn:
            fork = ForkSpec(
                self._shell, line, self.model_cwd(turn), timeout_s, self._size, await self._snapshot(),
                env=self._spec.model_env, hides=self._spec.hides, wrap=wrap,
            )  # fmt: skip
            result = await run_fork(fork, on_text)
            if turn:
                self._model_cwds[turn] = result.cwd
            return result

    def model_cwd(self, turn: str) -> str:
        """Where the next line of the model begins: a turn begins in the person's directory, and keeps its own."""
        known = self._model_cwds.get(turn)
        if known is not None and Path(known).is_dir():
            return known
        if turn:
            self._model_cwds[turn] = self._cwd
            if len(self._model_cwds) > _MAX_TURNS:
                del self._model_cwds[next(iter(self._model_cwds))]
        return self._cwd

    async def _snapshot(self) -> Snapshot | None:
        """Waits until the shell does. None for a plain sh, which cannot tell what it has set."""
        async with self._turn:
            life = await self._ready_life()
            if self._posix:
                return None
            self._snapshots += 1
            return await take_snapshot(life.channel, self._snapshots)

    async def _run(self, run: Callable[[Life, Pty], Awaitable[RunResult]]) -> RunResult:
        while True:
            life, pty = await self._begun_life()
            self._side.outdated()
            result = await run(life, pty)
            if life.was_ready:
                break
            await self._next_life(life)  # it never came to the line
        self._cwd = result.cwd
        if result.end in (RunEnd.EXITED, RunEnd.LOST):
            await self._next_life(life)
        return result

    # Keeping it alive

    async def _keep_alive(self) -> None:
        with_rc, failed = True, 0
        try:
            while failed < _TRIES and not self.exited.is_set():
                life = await self._live(with_rc=with_rc)
                with_rc, failed = (with_rc, 0) if life.was_ready else (False, failed + 1)
            if not self.exited.is_set():
                hint = "try it in a terminal of its own"
                self._failure = ProcessError(f"{self._shell} does not stay alive", hint=hint)
        except ProcessError as exc:
            self._failure = exc
        finally:
            self._life = self._pty = None
            self._news.set()

    async def _live(self, *, with_rc: bool) -> Life:
        channel = Channel(
            posix=self._posix, rc_file=self._spec.rc_file if with_rc else None, quiet=self._spec.model_env
        )
        life = Life(channel, self._on_output, self._cwd)
        try:
            async with Pty.start(self._process(channel), size=self._size, take=life.take) as pty:

                def waits(pty: Pty = pty) -> None:
                    self._cwd = life.status.cwd or self._cwd
                    pty.spare(disowned_groups(pty.pid, channel.read_jobs()))

                life.on_waiting = waits
                self._life, self._pty = life, pty
                self._news.set()
                giving_up = asyncio.get_running_loop().call_later(self._spec.ready_s, self._give_up, life, pty)
                try:
                    code = await pty.wait()
                finally:
                    giving_up.cancel()
                self._tell(life, code)
        finally:
            if not life.gone.is_set():  # we are leaving: whoever waits for it must not wait for ever
                life.ended(-signal.SIGHUP)
            self._side.outdated()
            channel.close()
        return life

    def _process(self, channel: Channel) -> ProcessSpec:
        options = ("-i",) if self._posix else ("--rcfile", str(channel.rc), "-i")
        env = dict(self._spec.env) | ({"ENV": str(channel.rc)} if self._posix else {})
        cwd = Path(self._cwd) if Path(self._cwd).is_dir() else Path("/")
        return ProcessSpec(
            (self._shell, *options), name="bash", env=env, inherit=("*",), cwd=cwd,
            close_wait_s=self._spec.close_wait_s, term_wait_s=self._spec.close_wait_s,
        )  # fmt: skip

    def _give_up(self, life: Life, pty: Pty) -> None:
        if not life.was_ready and not life.talked_to:
            self._on_notice(f"your rc file did not come to an end within {self._spec.ready_s:g} s; going on without it")
            pty.kill()

    def _tell(self, life: Life, code: int) -> None:
        if not life.was_ready:
            self._on_notice("the shell ended before it was ready; starting one without your rc file")
        elif code < 0:
            self._on_notice(f"bash was killed (signal {-code}); here is a new one: variables, functions, jobs are gone")
        else:
            self.exit_code = code
            self.exited.set()
        life.ended(code)

    async def _begun_life(self) -> tuple[Life, Pty]:
        """One that may still be reading its rc file."""
        while self._life is None or self._pty is None or self._life.gone.is_set():
            if self._failure is not None:
                raise self._failure
            if self.exited.is_set() and self._life is None:
                raise ProcessError("the shell has exited")
            self._news.clear()
            await self._news.wait()
        return self._life, self._pty

    async def _ready_life(self) -> Life:
        while True:
            life, _ = await self._begun_life()
            if await life.until_waiting():
                return life

    async def _next_life(self, before: Life) -> None:
        """After one that went: until it is known whether another follows."""
        while self._life is before:
            self._news.clear()
            await self._news.wait()


def _check(line: str) -> None:
    if "\0" in line:
        raise UsageError("a command line cannot hold NUL characters")


def _find_shell(wanted: str | None) -> tuple[str, bool]:
    """The program, and whether it is only a POSIX sh."""
    if wanted is not None:
        return wanted, Path(wanted).name not in ("bash", "rbash")
    bash = shutil.which("bash")
    if bash is not None:
        return bash, False
    sh = shutil.which("sh")
    if sh is None:
        raise SpawnFailed("there is neither bash nor sh", hint="install bash")
    return sh, True
