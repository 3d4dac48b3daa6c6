"""Programs that are timed: started in a private home, watched to a deadline, and ended with all they started.

Two ways to look at one: to its end over pipes (`ended`), or on a terminal until something is drawn (`drawn`). Both give
wall time, processor time and memory. Knows nothing of which programs there are. Linux only, for what is read in /proc.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.gateway_parts.gateways import built
from bench.gateway_parts.processes import cpu_ns, pss_mb, tree

LAUNCH = Path(__file__).with_name("launch.c")
DEADLINE_S = 60.0
SHOWN_CHARS = 400
SEEN_BYTES = 1 << 20  # of what a program draws; the mark comes long before
ROWS, COLUMNS = 40, 120

# What terminals are asked, and what one answers: programs wait for it.
REPLIES = (
    (b"\x1b[6n", b"\x1b[1;1R"),
    (b"\x1b[c", b"\x1b[?62;22c"),
    (b"\x1b[0c", b"\x1b[?62;22c"),
    (b"\x1b[?u", b"\x1b[?0u"),
    (b"\x1b]10;?", b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\"),
    (b"\x1b]11;?", b"\x1b]11;rgb:0000/0000/0000\x1b\\"),
    (b"\x1b[>0q", b"\x1bP>|bench\x1b\\"),
)
CONTROLS = re.compile(rb"\x1b\[[0-9;?>=<]*[ -/]*[@-~]|\x1b[\]P][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[=>78()][B0]?")


class Failed(Exception):
    """It did not do what was to be timed; with its last words."""


@dataclass(frozen=True)
class Timing:
    wall_ms: float
    cpu_ms: float
    memory_mb: float
    marked_ms: float | None = None


def environment(home: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Nothing of ours but the path: where files may not be compiled, every start would compile again."""
    base = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color"}
    return {**base, **more}


def ended(
    words: Sequence[str], home: Path, env: Mapping[str, str], *, mark: bytes = b"", deadline_s: float = DEADLINE_S
) -> Timing:
    """Run to its end: when it said `mark`, how long it took, what it used. Memory is its largest process's."""
    report, write_report = os.pipe()
    process = subprocess.Popen(
        (str(built(LAUNCH)), str(write_report), *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(home, env),
        cwd=home,
        start_new_session=True,
        pass_fds=(write_report,),
    )
    os.close(write_report)
    late = threading.Timer(deadline_s, _kill_group, (process.pid,))
    late.start()
    try:
        said, marked_ns = _said(process, mark)
        told = os.read(report, 1024).split()
        process.wait()
    finally:
        late.cancel()
        _kill_group(process.pid)
        os.close(report)
        process.communicate()
    if mark and not marked_ns:
        raise Failed(f"it did not say {mark.decode()!r}: {shown(said)}")
    return _timing([int(word) for word in told], marked_ns, said, deadline_s)


def _said(process: subprocess.Popen[bytes], mark: bytes) -> tuple[bytes, int | None]:
    """All it said, at most so much, and when the mark was in it."""
    assert process.stdout
    said, marked_ns = b"", None
    while data := os.read(process.stdout.fileno(), 65536):
        said = (said + data)[-SEEN_BYTES:]
        if marked_ns is None and mark and mark in said:
            marked_ns = time.monotonic_ns()
    return said, marked_ns


def _timing(told: list[int], marked_ns: int | None, said: bytes, deadline_s: float) -> Timing:
    if not told:
        raise Failed(f"not through after {deadline_s:g} s: {shown(said)}")
    began_ns, ended_ns, cpu_us, peak_kb, status = told
    if code := os.waitstatus_to_exitcode(status):
        raise Failed(f"exit code {code}: {shown(said)}")
    marked_ms = (marked_ns - began_ns) / 1e6 if marked_ns else None
    return Timing((ended_ns - began_ns) / 1e6, cpu_us / 1e3, peak_kb / 1024, marked_ms)


def drawn(
    words: Sequence[str], mark: str, home: Path, env: Mapping[str, str], *, deadline_s: float = DEADLINE_S
) -> Timing:
    """From its start until `mark` stands on its terminal; processor time and memory of all its processes by then."""
    began_s = time.perf_counter()
    pid, master = pty.fork()
    if pid == 0:
        try:
            os.chdir(home)
            os.execvpe(words[0], list(words), environment(home, env))
        finally:
            os._exit(127)
    try:
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        _until(master, mark.encode(), began_s + deadline_s)
        took_s = time.perf_counter() - began_s
        pids = tree(pid)
        return Timing(took_s * 1e3, cpu_ns(pids) / 1e6, pss_mb(pids))
    finally:
        for one in tree(pid):  # some lead groups of their own
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        os.close(master)
        os.waitpid(pid, 0)


def _until(master: int, mark: bytes, deadline_s: float) -> None:
    seen = b""
    while mark not in CONTROLS.sub(b"", seen):
        left_s = deadline_s - time.perf_counter()
        if left_s <= 0 or len(seen) > SEEN_BYTES or not select.select([master], [], [], left_s)[0]:
            raise Failed(f"nothing like {mark.decode()!r} was drawn: {shown(seen)}")
        try:
            data = os.read(master, 65536)
        except OSError as exc:  # EIO: it has gone
            raise Failed(f"it ended instead: {shown(seen)}") from exc
        for question, reply in REPLIES:
            for _ in range(data.count(question)):
                os.write(master, reply)
        seen += data


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def shown(said: bytes) -> str:
    text = CONTROLS.sub(b"", said).decode(errors="replace")
    return " ".join(text.split())[-SHOWN_CHARS:]
