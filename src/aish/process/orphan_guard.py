"""What makes children die with aish, whatever kills it, and the signals for their groups. POSIX; elsewhere it is idle.

Two independent means, because each has a gap:

- `die_with_parent`: on Linux the kernel sends SIGKILL to the child itself when its parent goes. The signal fires when
  the *thread* that forked exits, so children are started from the event loop's thread only. It does not reach
  grandchildren.
- `watch` and `forget`: one small `sh` per aish, in a session of its own, that reads process groups from a pipe of which
  only aish holds the writing end. When aish goes, by whatever means, the pipe ends and the guard kills every group
  still listed. A session (written s123) is every group in it, less those who ignore SIGHUP: they were started with
  `nohup` or the like in order to outlive the terminal. Written S123 it is every group in it. Without /proc it is the
  group of its leader. Written MNAME=VALUE it is every process with that in its environment, on Linux.

Where there is no prctl (macOS) the guard does it all; where there is no `sh` the kernel's signal is all there is.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_POSIX = os.name == "posix"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")

# Ends by itself when its input does. What a terminal or a supervisor sends to everybody is ignored.
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
    """What to run in the child between fork and exec; on a terminal it makes fd 0 the controlling one.

    One that `adopts` becomes the parent of what its descendants leave behind, where the kernel can do it.
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
    """What to run in the child between fork and exec, or None where the kernel cannot do it.

    Everything is looked up here, before the fork: after it, in a process that had threads, little is safe to call.
    """
    prctl = _find_prctl()
    if prctl is None:
        return None
    parent, getppid, exit_now, death = os.getpid(), os.getppid, os._exit, int(signal.SIGKILL)

    def before_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, death, 0, 0, 0)
        if adopts:
            prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if getppid() != parent:  # it went between fork and prctl: no signal will come any more
            exit_now(1)

    return before_exec


@functools.cache
def _find_prctl() -> Callable[..., int] | None:
    if sys.platform != "linux":
        return None
    import ctypes  # a few milliseconds that a start without children should not pay

    try:
        function = ctypes.PyDLL(None).prctl  # PyDLL: keeps the interpreter's lock, which the fork has copied as held
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    function.restype = ctypes.c_int
    prctl: Callable[..., int] = function
    return prctl


def session(leader: int, *, spares_hangup: bool = True) -> str:
    """How a whole session is named to `watch` and `forget`."""
    return f"s{leader}" if spares_hangup else f"S{leader}"


def marked(mark: str) -> str:
    """How all that has this in its environment is named to `watch` and `forget`."""
    return f"M{mark}"


def watch(group: int | str) -> None:
    """From now on `group` dies with this process."""
    if _POSIX:
        _guard().add(group)


def forget(group: int | str) -> None:
    if _POSIX:
        _guard().discard(group)


class _Guard:
    """Holds the pipe. A guard that was killed is replaced, and told again of every group."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.pid = 0
        self._groups: set[int | str] = set()
        self._pipe: int | None = None

    def add(self, group: int | str) -> None:
        self._groups.add(group)
        self._say(f"+ {group}\n")

    def discard(self, group: int | str) -> None:
        self._groups.discard(group)
        self._say(f"- {group}\n")

    def _say(self, line: str) -> None:
        if self._pipe is not None:
            try:
                os.write(self._pipe, line.encode())
                return
            except OSError:  # gone, or stopped for so long that the pipe is full
                os.close(self._pipe)
                self._pipe = None
        if self._groups:
            self._start()

    def _start(self) -> None:
        shell = shutil.which("sh", path=os.defpath) or shutil.which("sh")
        if shell is None:
            return
        theirs, ours = os.pipe()  # neither is inherited by any other child
        try:
            self.pid = _spawn_unowned(shell, theirs)
            os.set_blocking(ours, False)
            os.write(ours, "".join(f"+ {group}\n" for group in self._groups).encode())
            self._pipe = ours
        except OSError:
            os.close(ours)
        finally:
            os.close(theirs)


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
    guard.returncode = 0  # it outlives us by design: no warning that nobody waited for it
    return guard.pid


_current: _Guard | None = None


def _guard() -> _Guard:
    global _current
    if _current is None or _current.owner != os.getpid():  # after a fork the parent's guard is not ours
        _current = _Guard()
    return _current


def signal_group(group: int, number: int) -> bool:
    """Whether there was anybody to signal; `number` 0 only asks."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # PermissionError: only the dead are left (macOS), or another user's
        return False
    return True


def signal_session(
    leader: int, number: int, spared: frozenset[int] = frozenset(), *, spares_hangup: bool = True
) -> bool:
    """The same for all processes of a session, less the groups that are spared and, if so wished, those that ignore
    SIGHUP."""
    members = [pid for pid in _session_members(leader, spared) if not (spares_hangup and _ignores_hangup(pid))]
    if not members:
        return not _PROC.is_dir() and signal_group(leader, number)
    for pid in members:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return True


def _session_members(leader: int, spared: frozenset[int]) -> list[int]:
    """Without the dead, who may be waiting for somebody to reap them."""
    found = []
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError, ValueError):
            state, _, group, session_id, *_ = (folder / "stat").read_bytes().rpartition(b") ")[2].split()
            if int(session_id) == leader and state not in b"ZX" and int(group) not in spared:
                found.append(int(folder.name))
    return found


def _ignores_hangup(pid: int) -> bool:
    with suppress(OSError):
        for line in (_PROC / str(pid) / "status").read_bytes().splitlines():
            if line.startswith(b"SigIgn:"):
                return bool(int(line.split()[1], 16) & 1 << (signal.SIGHUP - 1))
    return False


def reap_group(group: int) -> None:
    """Where aish is process 1 of a container, what its children left behind becomes its own to reap."""
    with suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG) != (0, 0):
            pass
