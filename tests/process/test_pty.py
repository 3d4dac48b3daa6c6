"""A child on a terminal of its own, with real ones."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aish.errors import ProcessError, SpawnFailed
from aish.process.child import ProcessSpec
from aish.process.pty import Pty, WindowSize
from aish.process.terminal import RawTerminal
from support.eventually import eventually
from support.person import person
from support.processes import is_running


class Screen:
    def __init__(self) -> None:
        self.seen = b""

    def take(self, data: bytes) -> None:
        self.seen += data

    async def shows(self, text: bytes) -> None:
        await eventually(lambda: text in self.seen)


@asynccontextmanager
async def on_pty(*argv: str, take: object = None, **options: object) -> AsyncIterator[tuple[Pty, Screen]]:
    screen = Screen()
    spec = ProcessSpec(argv, inherit=("*",), **{"close_wait_s": 0.2, "term_wait_s": 0.2, **options})  # type: ignore[arg-type]
    async with Pty.start(spec, size=WindowSize(30, 100), take=take or screen.take) as pty:  # type: ignore[arg-type]
        yield pty, screen


async def test_a_child_has_a_terminal_of_its_own_and_is_its_session_leader() -> None:
    code = "import os; print(os.isatty(0), os.getsid(0) == os.getpid(), os.tcgetpgrp(0) == os.getpid(), os.ttyname(0))"
    async with on_pty(sys.executable, "-c", code) as (pty, screen):
        assert await pty.wait() == 0
        assert screen.seen.startswith(b"True True True /dev/")


async def test_it_knows_its_size_and_hears_when_it_changes() -> None:
    code = """if True:
        import os, signal
        def tell(*_): print(os.get_terminal_size(0))
        signal.signal(signal.SIGWINCH, tell)
        tell()
        while True: signal.pause()
    """
    async with on_pty(sys.executable, "-c", code) as (pty, screen):
        await screen.shows(b"columns=100, lines=30")
        pty.resize(WindowSize(11, 22))
        await screen.shows(b"columns=22, lines=11")


async def test_what_is_typed_reaches_it_and_control_c_is_a_signal() -> None:
    script = "trap 'echo got-int; exit 7' INT; read x; echo \"<$x>\"; while :; do read y; done"
    async with on_pty("bash", "-c", script) as (pty, screen):
        pty.write(b"hello\n")
        await screen.shows(b"<hello>")
        pty.write(b"\x03")
        await screen.shows(b"got-int")
        assert await pty.wait() == 7


async def test_more_input_than_it_will_ever_read_is_refused() -> None:
    async with on_pty("sh", "-c", "stty raw; echo raw; sleep 60") as (pty, screen):
        await screen.shows(b"raw")
        with pytest.raises(ProcessError, match="does not read"):
            for _ in range(40):
                pty.write(b"x" * 60_000)
        assert pty.is_full


async def test_whoever_cannot_keep_up_makes_it_wait() -> None:
    async with on_pty("sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the-end") as (pty, screen):
        await screen.shows(b"x")
        pty.pause()
        size = len(screen.seen)
        await asyncio.wait({asyncio.ensure_future(pty.wait())}, timeout=0.2)
        assert pty.returncode is None and len(screen.seen) == size
        pty.resume()
        await pty.wait()
        assert screen.seen.count(b"x") == 3_000_000 and screen.seen.endswith(b"the-end\r\n")


async def test_what_was_typed_and_not_read_can_be_taken_back_even_half_a_line() -> None:
    async with on_pty("sh", "-c", "echo ready; sleep 60") as (pty, screen):
        await screen.shows(b"ready")
        pty.write(b"whole\nhal")
        await screen.shows(b"whole\r\nhal")  # the terminal's echo
        assert pty.take_unread_input() == b"whole\nhal"
        assert pty.take_unread_input() == b""


async def test_a_terminal_left_raw_is_mended_and_taste_is_left_alone() -> None:
    async with on_pty("bash", "-c", "stty raw -echo -ixon; echo set; read x; stty -a; sleep 60") as (pty, screen):
        await screen.shows(b"set")
        pty.restore_line_modes()
        pty.write(b"\n")
        await screen.shows(b"echoke")
        words = screen.seen.split()
        assert b"icanon" in words and b"echo" in words and b"isig" in words and b"-ixon" in words


async def test_leaving_ends_every_group_of_the_session_but_what_ignores_hangup() -> None:
    script = "set -m; sleep 600 & echo $!; nohup sleep 601 >/dev/null 2>&1 & echo $!; echo end; wait"
    async with on_pty("bash", "-c", script) as (_, screen):
        await screen.shows(b"end")
        job, kept = (int(line) for line in screen.seen.split()[:2])
        await eventually(lambda: is_running(kept))
    await eventually(lambda: not is_running(job))
    assert is_running(kept)
    os.kill(kept, signal.SIGKILL)


async def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(SpawnFailed):
        async with on_pty("/nonexistent/shell"):
            pass


async def test_nothing_stays_open_afterwards() -> None:
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    async with on_pty("true") as (pty, _):
        await pty.wait()
    after = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    assert len(after - before) <= 1  # the guard's pipe, when this is the first child


async def test_a_raw_terminal_is_given_back_as_it_was() -> None:
    with person() as someone:
        before = someone.modes()
        with pytest.raises(RuntimeError), RawTerminal(someone.terminal):
            assert someone.modes() != before
            raise RuntimeError
        assert someone.modes() == before
        assert os.get_blocking(someone.terminal)


async def test_a_terminal_that_is_slow_holds_up_nobody_and_loses_nothing() -> None:
    with person() as someone:
        someone.look_away()
        with RawTerminal(someone.terminal) as terminal:
            for _ in range(100):
                terminal.write(b"y" * 10_000)
            assert terminal.is_behind
            caught_up = asyncio.Event()
            terminal.when_caught_up(caught_up.set)
            someone.look()
            async with asyncio.timeout(10):
                await caught_up.wait()
            await terminal.drain(10)
            await eventually(lambda: someone.seen_bytes == 1_000_000)


async def test_when_the_person_hangs_up_the_terminal_says_so() -> None:
    master, slave = os.openpty()
    with RawTerminal(slave) as terminal:
        terminal.read_into(lambda data: None, full=lambda: False)
        os.close(master)
        await eventually(lambda: terminal.hung_up)
        terminal.write(b"to nobody")
    os.close(slave)
