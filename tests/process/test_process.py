"""The owner of child processes, against real ones."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.errors import ProcessError, ProcessExited, SpawnFailed, TooLarge, WireTimeout
from aish.net.event_loop import READ_BYTES
from aish.process import orphan_guard
from aish.process.child import ChildProcess, ProcessSpec, run
from aish.process.pipes import StderrRing
from support.eventually import eventually
from support.processes import is_running

CHILDREN = Path(__file__).parent.parent / "support" / "children"


def python(code: str, **options: object) -> ProcessSpec:
    return ProcessSpec(argv=(sys.executable, "-c", code), **{"name": "child", **options})  # type: ignore[arg-type]


def child_file(name: str, *arguments: str, **options: object) -> ProcessSpec:
    argv = (sys.executable, str(CHILDREN / f"{name}.py"), *arguments)
    return ProcessSpec(argv=argv, **{"name": name, **options})  # type: ignore[arg-type]


async def read_pids(child: ChildProcess) -> tuple[int, int]:
    first, second = (await anext(child.stdout)).split()
    return int(first), int(second)


# Talking to it


async def test_a_child_that_writes_to_its_own_input_is_heard_all_the_same() -> None:
    code = "import os, sys; os.write(0, b'x' * 4096); print(sys.stdin.readline().strip().upper(), flush=True)"
    async with ChildProcess.start(python(code)) as child:
        await child.write(b"hello\n")
        assert (await anext(child.stdout)).strip() == b"HELLO"


async def test_what_is_written_to_stdin_comes_back_from_stdout() -> None:
    async with ChildProcess.start(child_file("echo")) as child:
        await child.write(b"hello")
        assert await anext(child.stdout) == b"hello"
        child.close_stdin()
        assert [piece async for piece in child.stdout] == []
        assert await child.wait() == 0


async def test_a_child_that_does_not_read_makes_the_writer_time_out() -> None:
    async with ChildProcess.start(python("import time; time.sleep(30)", close_wait_s=0.1)) as child:
        with pytest.raises(WireTimeout) as caught:
            await child.write(b"x" * 1_000_000, timeout_s=0.2)
        assert caught.value.phase == "write"


async def test_writing_to_a_child_that_went_raises_with_its_code_and_stderr() -> None:
    code = "import sys; sys.stderr.write('no licence'); sys.exit(3)"
    async with ChildProcess.start(python(code)) as child:
        await child.wait()
        with pytest.raises(ProcessExited) as caught:
            await child.write(b"x")
    assert caught.value.code == 3
    assert caught.value.stderr_tail == "no licence"


async def test_writing_after_closing_stdin_is_an_error() -> None:
    async with ChildProcess.start(child_file("echo")) as child:
        child.close_stdin()
        with pytest.raises(ProcessError):
            await child.write(b"x")


async def test_a_slow_reader_holds_the_child_back_and_loses_nothing() -> None:
    code = "import sys\nfor _ in range(400): sys.stdout.write('x' * 10_000)\nsys.stderr.write('done')"
    async with ChildProcess.start(python(code, stdout_max_bytes=50_000)) as child:
        await eventually(lambda: child.stdout.paused)
        assert "done" not in child.stderr_tail()
        assert sum([len(piece) async for piece in child.stdout]) == 4_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="pipes of other sizes are Linux's")
async def test_stdout_is_read_in_pieces_that_memory_at_hand_can_hold() -> None:
    code = "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20); os.write(1, bytes(1 << 19))"
    async with ChildProcess.start(python(code)) as child:
        pieces = [piece async for piece in child.stdout]
    assert sum(map(len, pieces)) == 1 << 19
    assert max(map(len, pieces)) <= READ_BYTES


async def test_stderr_is_drained_into_a_bounded_ring() -> None:
    code = "import sys\nfor n in range(50_000): print(f'line {n} ' + 'y' * 600, file=sys.stderr)"
    async with ChildProcess.start(python(code, stderr_lines=4, stderr_line_bytes=20, stdout="devnull")) as child:
        await child.wait()
        lines = child.stderr_tail().splitlines()
    assert lines[0] == "[49996 lines before]"
    assert [line.split()[1] for line in lines[1:]] == ["49996", "49997", "49998", "49999"]
    assert all(len(line.encode()) <= 23 for line in lines[1:])


async def test_stderr_is_redacted_before_it_is_kept() -> None:
    code = "import sys; print('token=hunter2 is bad', file=sys.stderr)"
    async with ChildProcess.start(python(code, redact=lambda line: line.replace("hunter2", "***"))) as child:
        await child.wait()
        assert child.stderr_tail() == "token=*** is bad"


@given(data=st.binary(max_size=400), cut=st.integers(0, 400))
def test_the_ring_shows_the_same_wherever_the_pipe_cuts_the_bytes(data: bytes, cut: int) -> None:
    whole, split = (StderrRing(lines=3, line_bytes=10) for _ in range(2))
    whole.feed(data)
    split.feed(data[:cut])
    split.feed(data[cut:])
    assert whole.tail() == split.tail()
    assert len(whole.tail().encode()) <= 4 * 40


# Its environment, and what is shown of it


async def test_the_environment_is_minimal_plus_what_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET", "s3cret")
    monkeypatch.setenv("PIP_INDEX_URL", "https://x")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    spec = python("import os; print(sorted(os.environ))", env={"MINE": "1"}, inherit=("PIP_*",))
    names = (await run(spec, timeout_s=10, max_output_bytes=10_000)).stdout.decode()
    assert "AWS_SECRET" not in names
    assert all(f"'{name}'" in names for name in ("HOME", "PATH", "LC_ALL", "MINE", "PIP_INDEX_URL"))


async def test_neither_spec_nor_child_show_values_or_arguments() -> None:
    spec = ProcessSpec(argv=(sys.executable, "-c", "pass", "--token=abc123"), env={"KEY": "def456"}, name="s")
    async with ChildProcess.start(spec) as child:
        shown = repr(spec) + repr(child)
    assert "KEY" in shown
    assert "abc123" not in shown and "def456" not in shown


async def test_children_inherit_no_file_of_ours_but_their_three_pipes() -> None:
    async with ChildProcess.start(python("import os; print(os.listdir('/proc/self/fd'))")) as child:
        await child.wait()
        listed = eval(await anext(child.stdout))
    assert {int(name) for name in listed} <= {0, 1, 2, 3}  # 3 is the listing itself


# Failing to start


async def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(SpawnFailed, match="no-such-program was not found") as caught:
        async with ChildProcess.start(ProcessSpec(argv=("no-such-program",))):
            pass
    assert "install" in caught.value.hint


async def test_a_file_that_may_not_be_executed_is_named(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(SpawnFailed, match="may not be executed"):
        async with ChildProcess.start(ProcessSpec(argv=(str(script),))):
            pass


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpawnFailed, match="there is no directory"):
        async with ChildProcess.start(child_file("echo", cwd=tmp_path / "gone")):
            pass


async def test_a_file_that_is_no_program_is_named(tmp_path: Path) -> None:
    junk = tmp_path / "junk"
    junk.write_bytes(b"\x00\x01junk")
    junk.chmod(0o755)
    with pytest.raises(SpawnFailed, match="not a program"):
        async with ChildProcess.start(ProcessSpec(argv=(str(junk),))):
            pass


# Ending


async def test_leaving_ends_a_child_that_obeys_by_closing_its_stdin() -> None:
    async with ChildProcess.start(child_file("echo")) as child:
        pass
    assert child.returncode == 0


async def test_leaving_ends_a_stubborn_child_and_its_grandchild_by_sigkill() -> None:
    spec = child_file("family", "stubborn", close_wait_s=0.1, term_wait_s=0.1)
    async with ChildProcess.start(spec) as child:
        leader, grandchild = await read_pids(child)
    assert child.returncode == -signal.SIGKILL
    assert not is_running(leader)
    await eventually(lambda: not is_running(grandchild))


async def test_the_group_is_killed_even_when_its_leader_has_gone() -> None:
    async with ChildProcess.start(child_file("family", "leave", term_wait_s=0.1)) as child:
        _, grandchild = await read_pids(child)
        assert await child.wait() == 0
        assert is_running(grandchild)
    await eventually(lambda: not is_running(grandchild))


async def test_a_grandchild_in_another_session_that_holds_our_pipes_does_not_hang_us() -> None:
    async with asyncio.timeout(5):
        async with ChildProcess.start(child_file("family", "leave", "session")) as child:
            _, grandchild = await read_pids(child)
            assert [piece async for piece in child.stdout] == []
            assert await child.wait() == 0
    os.kill(grandchild, signal.SIGKILL)


async def test_cancelling_the_owner_still_ends_the_child() -> None:
    pids: list[int] = []

    async def own() -> None:
        async with ChildProcess.start(child_file("family", "stubborn", close_wait_s=0.1, term_wait_s=0.1)) as child:
            pids.extend(await read_pids(child))
            await child.wait()

    task = asyncio.create_task(own())
    await eventually(lambda: len(pids) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: not any(map(is_running, pids)))


async def test_cancelling_twice_hurries_the_ladder() -> None:
    pids: list[int] = []

    async def own() -> None:
        async with ChildProcess.start(child_file("family", "stubborn", close_wait_s=60, term_wait_s=60)) as child:
            pids.extend(await read_pids(child))

    task = asyncio.create_task(own())
    await eventually(lambda: len(pids) == 2)
    await asyncio.wait({task}, timeout=0.1)
    task.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await task
    await eventually(lambda: not any(map(is_running, pids)))


@pytest.mark.parametrize("steps", range(8))
async def test_cancelling_at_any_step_of_starting_leaves_nobody_behind(tmp_path: Path, steps: int) -> None:
    """The child writes its pid and waits; however early the cancel comes, it must be gone soon after."""
    mark = tmp_path / "pid"
    code = f"import os, pathlib, time; pathlib.Path({str(mark)!r}).write_text(str(os.getpid())); time.sleep(60)"

    async def own() -> None:
        async with ChildProcess.start(python(code, close_wait_s=0.05, term_wait_s=0.05)) as child:
            await child.wait()

    task = asyncio.create_task(own())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    children = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
    await eventually(lambda: not any(_runs(pid, "time.sleep(60)") for pid in Path(children).read_text().split()))


def _runs(pid: str, part: str) -> bool:
    try:
        return part in Path(f"/proc/{pid}/cmdline").read_text() and is_running(int(pid))
    except (FileNotFoundError, ProcessLookupError):
        return False


# When aish is killed


@pytest.mark.parametrize("without", ["", "noprctl"])
async def test_nothing_survives_kill_9_of_the_owner(without: str) -> None:
    async with ChildProcess.start(child_file("owner", without)) as owner:
        leader, grandchild = await read_pids(owner)
        assert is_running(leader) and is_running(grandchild)
        os.kill(owner.pid, signal.SIGKILL)
        await eventually(lambda: not is_running(leader) and not is_running(grandchild))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal is Linux only")
async def test_without_a_guard_the_kernel_still_kills_the_child_itself() -> None:
    async with ChildProcess.start(child_file("owner", "noguard")) as owner:
        leader, grandchild = await read_pids(owner)
        os.kill(owner.pid, signal.SIGKILL)
        await eventually(lambda: not is_running(leader))
        os.kill(grandchild, signal.SIGKILL)


async def test_a_guard_that_was_killed_is_replaced_and_told_again() -> None:
    guard = orphan_guard._Guard()
    async with ChildProcess.start(child_file("family", "stubborn", close_wait_s=0.1, term_wait_s=0.1)) as child:
        await read_pids(child)
        guard.add(child.pid)
        first = guard.pid
        os.kill(first, signal.SIGTERM)  # ignored
        os.kill(first, signal.SIGKILL)
        await asyncio.to_thread(os.waitpid, first, 0)
        guard.discard(1)  # any line finds the pipe broken
        assert guard.pid != first and guard._pipe is not None
        os.close(guard._pipe)  # as when aish goes
        assert await child.wait() == -signal.SIGKILL
        await asyncio.to_thread(os.waitpid, guard.pid, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="the environment of others is not told")
async def test_the_guard_ends_what_has_a_mark_also_in_another_session() -> None:
    guard = orphan_guard._Guard()
    spec = ProcessSpec(("sh", "-c", "setsid sleep 599 & echo $!; wait"), env={"AISH_TEST_MARK": str(os.getpid())})
    async with ChildProcess.start(spec) as child:
        pid = int(await anext(aiter(child.stdout)))
        guard.add(orphan_guard.mark_target(f"AISH_TEST_MARK={os.getpid()}"))
        assert guard._pipe is not None
        os.close(guard._pipe)  # as when aish goes
        await asyncio.to_thread(os.waitpid, guard.pid, 0)
        assert not is_running(pid)


async def test_a_group_that_was_forgotten_is_left_alone() -> None:
    guard = orphan_guard._Guard()
    async with ChildProcess.start(child_file("echo")) as child:
        guard.add(child.pid)
        guard.discard(child.pid)
        assert guard._pipe is not None
        os.close(guard._pipe)
        await asyncio.to_thread(os.waitpid, guard.pid, 0)
        await child.write(b"still here")
        assert await anext(child.stdout) == b"still here"


# One-shot commands


async def test_run_returns_code_output_and_stderr() -> None:
    code = "import sys; print(sys.stdin.read().upper()); print('warn', file=sys.stderr); sys.exit(2)"
    done = await run(python(code), timeout_s=10, max_output_bytes=1000, stdin=b"abc")
    assert (done.returncode, done.stdout, done.stderr_tail) == (2, b"ABC\n", "warn")


async def test_run_feeds_and_reads_at_the_same_time() -> None:
    data = os.urandom(3_000_000)
    done = await run(child_file("echo"), timeout_s=10, max_output_bytes=4_000_000, stdin=data)
    assert done.stdout == data


async def test_run_ends_a_command_that_takes_too_long() -> None:
    with pytest.raises(WireTimeout, match="did not finish within"):
        await run(
            child_file("family", "stubborn", close_wait_s=0.1, term_wait_s=0.1), timeout_s=0.3, max_output_bytes=99
        )


async def test_run_ends_a_command_that_says_too_much() -> None:
    with pytest.raises(TooLarge, match="more than 1000 bytes"):
        await run(python("while True: print('y' * 100)", close_wait_s=0.1), timeout_s=10, max_output_bytes=1000)


async def test_the_module_imports_where_posix_modules_are_missing() -> None:
    missing = ("fcntl", "grp", "pwd", "pty", "resource", "termios")
    code = f"import sys, asyncio\nfor name in {missing!r}: sys.modules[name] = None\nimport aish.process.child"
    done = await run(python(code), timeout_s=10, max_output_bytes=0)
    assert (done.returncode, done.stderr_tail) == (0, "")
