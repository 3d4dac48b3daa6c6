"""Makes children die with aish, however it ends. POSIX; does nothing elsewhere.

Two independent ways, because each has a gap:

- `die_with_parent`: on Linux the kernel sends SIGKILL to the child when its parent ends. The signal fires when the
*thread* that forked exits, so children are started from the thread of the event loop only. It does not reach
grandchildren. - `watch` and `unwatch`: one small `sh` per aish, in its own session, reads targets from a pipe whose
writing end only aish has. When aish ends, the pipe ends, and the guard kills every target that is still listed. A
target is a process group (123), a whole session (S123), a session without the processes that ignore SIGHUP, which were
started to outlive the terminal (s123), or, on Linux, every process with a variable in its environment (MNAME=VALUE).
Without /proc a session is the group of its leader.

Without prctl (macOS) the guard does everything; without `sh` there is only the kernel's signal.
"""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_POSIX = os.name == "posix"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

# Ends when its input ends. Ignores the signals that a terminal or a supervisor sends to all processes.
_SCRIPT = """
trap '' HUP INT QUIT TERM
groups=' '
while read -r op group; do
  case $op in
    +) groups="$groups$group " ;;
    -) rest=' '
       for each in $groups; do [ "$each" = "$group" ] || rest="$rest$each "; done
       groups=$rest ;;
  esac
done
end_session() {
  for stat in /proc/[0-9]*/stat; do
    pid=${stat%/stat} pid=${pid#/proc/}
    read -r line <"$stat" || continue
    set -f; set -- ${line##*) }; set +f
    [ "$4" = "$session" ] || continue
    [ "$spares" ] && while read -r key value; do
      case $key$value in SigIgn:*[13579bdf]) continue 2 ;; esac
    done <"/proc/$pid/status"
    kill -9 "$pid"
  done
} 2>/dev/null
end_marked() {
  for file in /proc/[0-9]*/environ; do
    grep -qsF "$1" "$file" && pid=${file%/environ} && kill -9 "${pid#/proc/}"
  done
} 2>/dev/null
for each in $groups; do
  case $each in
    s*) session=${each#s} spares=1; end_session; kill -9 "-$session" ;;
    M*) end_marked "${each#M}"; end_marked "${each#M}" ;;
    S*) session=${each#S} spares=; end_session; kill -9 "-$session" ;;
    *) kill -9 "-$each" ;;
  esac
done 2>/dev/null
"""


def before_exec(*, on_terminal: bool, adopts: bool = False) -> Callable[[], None] | None:
    """The function to run in the child between fork and exec. On a terminal it makes fd 0 the controlling terminal.

    With `adopts`, the child becomes the parent of its descendants' orphans, if the kernel supports it.
    """
    die = die_with_parent(adopts=adopts)
    if not on_terminal:
        return die
    import fcntl
    import termios

    ioctl, request = fcntl.ioctl, termios.TIOCSCTTY

    def take_terminal() -> None:
        if die is not None:
            die()
        ioctl(0, request, 0)

    return take_terminal


def die_with_parent(*, adopts: bool = False) -> Callable[[], None] | None:
    """The function to run in the child between fork and exec, or None if the kernel does not support it.

    All lookups happen here, before the fork: afterwards few calls are safe in a process that had threads.
    """
    prctl = _find_prctl()
    if prctl is None:
        return None
    parent, getppid, exit_now, death = os.getpid(), os.getppid, os._exit, int(signal.SIGKILL)

    def before_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, death, 0, 0, 0)
        if adopts:
            prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if getppid() != parent:  # it ended between fork and prctl, so no signal will come
            exit_now(1)

    return before_exec


@functools.cache
def _find_prctl() -> Callable[..., int] | None:
    if sys.platform != "linux":
        return None
    import ctypes  # takes a few milliseconds, which only a start with children pays

    try:
        function = ctypes.PyDLL(None).prctl  # PyDLL keeps the interpreter lock, which the child has inherited as locked
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    function.restype = ctypes.c_int
    prctl: Callable[..., int] = function
    return prctl


def session_target(leader: int, *, spares_hangup: bool = True) -> str:
    """The target for `watch` that stands for a whole session."""
    return f"s{leader}" if spares_hangup else f"S{leader}"


def mark_target(mark: str) -> str:
    """The target for `watch` that stands for every process with the mark in its environment."""
    return f"M{mark}"


def watch(target: int | str) -> None:
    """From now on the target is killed when this process ends."""
    if _POSIX:
        _guard().add(target)


def unwatch(target: int | str) -> None:
    if _POSIX:
        _guard().discard(target)


class _Guard:
    """Owns the pipe to the guard process. If the guard was killed, a new one gets all targets again."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.pid = 0
        self._targets: set[int | str] = set()
        self._pipe: int | None = None

    def add(self, target: int | str) -> None:
        self._targets.add(target)
        self._send(f"+ {target}\n")

    def discard(self, target: int | str) -> None:
        self._targets.discard(target)
        self._send(f"- {target}\n")

    def _send(self, line: str) -> None:
        if self._pipe is not None:
            try:
                os.write(self._pipe, line.encode())
                return
            except OSError:  # the guard was killed, or stopped for so long that the pipe is full
                os.close(self._pipe)
                self._pipe = None
        if self._targets:
            self._start()

    def _start(self) -> None:
        shell = shutil.which("sh", path=os.defpath) or shutil.which("sh")
        if shell is None:
            return
        guard_end, our_end = os.pipe()  # no other child inherits them
        try:
            self.pid = _spawn_unowned(shell, guard_end)
            os.set_blocking(our_end, False)
            os.write(our_end, "".join(f"+ {target}\n" for target in self._targets).encode())
            self._pipe = our_end
        except OSError:
            os.close(our_end)
        finally:
            os.close(guard_end)


def _spawn_unowned(shell: str, stdin: int) -> int:
    guard = subprocess.Popen(
        [shell, "-c", _SCRIPT, "aish-guard"],
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.defpath},
        cwd="/",
        start_new_session=True,
    )
    guard.returncode = 0  # it outlives us by design; this suppresses the warning of Popen
    return guard.pid


_current: _Guard | None = None


def _guard() -> _Guard:
    global _current
    if _current is None or _current.owner != os.getpid():  # after a fork a process needs its own guard
        _current = _Guard()
    return _current


@contextmanager
def terminate_with_parent() -> Iterator[None]:
    """Inside, the end of the supervisor that started this worker sends SIGTERM to it: otherwise it would keep the port.
    Then it shuts down in order. Does nothing in a process that is no worker."""
    from multiprocessing import parent_process

    parent, loop = parent_process(), asyncio.get_running_loop()
    if parent is None:
        yield
        return
    sentinel = parent.sentinel

    def end() -> None:
        loop.remove_reader(sentinel)
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(sentinel, end)
    try:
        yield
    finally:
        loop.remove_reader(sentinel)
