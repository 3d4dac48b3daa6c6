"""The private folder through which aish and one bash talk beside the terminal.

    rc         what bash reads when it starts: our functions, then the person's rc file
    line       the next line, whole; for bash after its nonce, which it must begin with, and with a NUL behind it
    ctl        a pipe: "go NONCE MODE", "side NUMBER", "state NUMBER"
    status     a pipe: what bash has to say when it waits again
    jobs.pids  the groups of the jobs it then knows, and `end`

Pipes are held open for reading and writing, so that neither side ever waits for the other to open them.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from aish.errors import ProcessError

Mode = Literal["user", "model"]

_HOME = Path(__file__).parent
# Programs must neither ask anything nor open a pager: there is nobody to answer. Prompts for secrets fail at once.
QUIET = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "SSH_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "force",
    "DEBIAN_FRONTEND": "noninteractive",
    "NO_COLOR": "1",
}


class Status(msgspec.Struct, frozen=True):
    nonce: str
    code: int
    cwd: str
    jobs: int
    editing: str


def memory_folder() -> str | None:
    """Where files cost least; None: the usual place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@contextmanager
def _writing(failure: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        hint = f"is there room in {memory_folder() or tempfile.gettempdir()}?"
        raise ProcessError(f"{failure}: {exc.strerror}", hint=hint) from exc


def new_nonce() -> str:
    return secrets.token_hex(8)


class Channel:
    def __init__(self, *, posix: bool, rc_file: str | None, quiet: Mapping[str, str]) -> None:
        self.first_nonce = new_nonce()
        self._posix = posix
        with ExitStack() as stack, _writing("what a shell is talked to through cannot be made"):
            self.folder = Path(tempfile.mkdtemp(prefix="aish-", dir=memory_folder()))  # mode 0700
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            for name in ("ctl", "status"):
                os.mkfifo(self.folder / name, 0o600)
            self._ctl = self._opened(stack, "ctl", os.O_NONBLOCK)
            self._status = self._opened(stack, "status", os.O_NONBLOCK)
            self._line = self._opened(stack, "line", os.O_CREAT)
            (self.folder / "rc").write_text(self._rc(rc_file, QUIET | dict(quiet)))
            self._held = stack.pop_all()

    def close(self) -> None:
        self._held.close()

    def _opened(self, stack: ExitStack, name: str, flags: int) -> int:
        fd = os.open(self.folder / name, os.O_RDWR | flags, 0o600)
        stack.callback(os.close, fd)
        return fd

    @property
    def rc(self) -> Path:
        return self.folder / "rc"

    def _rc(self, rc_file: str | None, quiet: Mapping[str, str]) -> str:
        words = " ".join(f"{name}={shlex.quote(value)}" for name, value in quiet.items())
        names = {"dir": str(self.folder), "home": str(_HOME), "nonce": self.first_nonce, "quiet": words}
        settings = "\n".join(f"__aish_{name}={shlex.quote(value)}" for name, value in names.items())
        ours = shlex.quote(str(_HOME / ("rc.sh" if self._posix else "rc.bash")))
        theirs = f"[ -r {shlex.quote(rc_file)} ] && . {shlex.quote(rc_file)}" if rc_file else ":"
        return f"{settings}\n. {ours}\n{theirs}\n__aish_settle\n"

    def offer(self, line: str, mode: Mode) -> tuple[str, bytes]:
        """Put down the next line and say go. Returns its nonce and what to type."""
        nonce = new_nonce()
        with _writing("the line cannot be handed to the shell"):
            os.ftruncate(self._line, 0)
            os.pwrite(self._line, os.fsencode(line if self._posix else f"{nonce}:{line}\0"), 0)
        if self._posix:
            return nonce, f' __aish_go {nonce} {mode};eval "$__aish_eval";__aish_end\n'.encode()
        self.say_go(nonce, mode)
        return nonce, f' __aish_go {nonce} {mode}&&:;\\builtin eval "$__aish_eval";__aish_fix&&:\n'.encode()

    def say_go(self, nonce: str, mode: Mode) -> None:
        """Also again, when bash was interrupted while it waited; it knows what it has heard before."""
        with suppress(BlockingIOError):  # full of what nobody has read yet: that will do
            os.write(self._ctl, f"go {nonce} {mode}\n".encode())

    def say_side(self, number: int) -> None:
        os.write(self._ctl, f"side {number}\n".encode())

    def say_state(self, number: int) -> None:
        os.write(self._ctl, f"state {number}\n".encode())

    def read_status(self) -> Status | None:
        """The last thing bash said; None when it has said nothing new."""
        said = b""
        while piece := self._read():
            said += piece
        fields = said.split(b"\0")[:-1][-5:]
        if len(fields) < 5:
            return None
        nonce, code, cwd, jobs, editing = (os.fsdecode(field) for field in fields)
        return Status(nonce, int(code or 0), cwd, int(jobs or 0), editing)

    def read_jobs(self) -> frozenset[int] | None:
        """Their groups, as of when bash last came to wait; None where it has not said, or not all."""
        with suppress(OSError, ValueError):
            *groups, end = (self.folder / "jobs.pids").read_bytes().split()
            return frozenset(map(int, groups)) if end == b"end" else None
        return None

    def _read(self) -> bytes:
        try:
            return os.read(self._status, 65536)
        except BlockingIOError:
            return b""
