"""The private folder through which aish and one bash communicate, beside the terminal.

    rc         read by bash at its start: our functions, then the user's rc file
    line       the next line; for bash it begins with its nonce and ends with a NUL
    ctl        a pipe for commands: "go NONCE MODE", "side NUMBER", "state NUMBER"
    status     a pipe for bash's state whenever it waits again
    last       the last line of bash's history
    expanded   a line as history expansion has changed it
    jobs.pids  the process groups of its jobs at that time, and `end`
    exits      the nonce of the last line that is an alias of `exit`
    exports    its exported variables at that time, as `declare -px` lists them, and `# end`
    restore    the exports of the bash before this one, if it ended unexpectedly

Pipes are open for reading and writing, so that neither side waits for the other to open them.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from aish.errors import ProcessError
from aish.types.live_shell import HistorySettings

# A line of aish's `own` is in no history and leaves `$?` as it was.
Mode = Literal["user", "own"]
_STATUS_FIELDS = 14
_NEW_S = 60.0

_HOME = Path(__file__).parent
_EXPORTS_END = b"# end\n"
_EXPORTS_MAX_BYTES = 4 * 1024 * 1024  # Linux takes less than that
_OWN_EXPORT = re.compile(rb"(?m)^declare -\S+ __aish_.*\n")  # exported under `set -a`
# Gives a new bash exactly the exported variables of the one before it. Those that are readonly are there already.
_RESTORE = r'{ __aish_unset_exports; \builtin . "$__aish_dir/restore"; } 2>/dev/null'
# After a line. `rc.bash` says why it is like that.
_AFTER = (
    '{ __aish_end;\\builtin trap -p DEBUG >|"$__aish_dir/trap";\\builtin trap - DEBUG;__aish_fix&&:;} >/dev/null 2>&1'
)


class ShellStatus(msgspec.Struct, frozen=True):
    nonce: str
    code: int
    cwd: str
    jobs: int
    editing: str
    search_path: str
    is_kept: bool = True  # bash has the line in its history
    is_expanded: bool = False  # the line ran otherwise than typed: `!!`
    history: HistorySettings = HistorySettings()
    ps1: str = ""  # expanded; only if the channel was opened for it
    venv: str = ""
    editor: str = ""


def memory_folder() -> str | None:
    """Returns the folder with the cheapest files; None for the default."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@contextmanager
def _translate_errors(failure: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        hint = f"is there room in {memory_folder() or tempfile.gettempdir()}?"
        raise ProcessError(f"{failure}: {exc.strerror}", hint=hint) from exc


def _remove_leftovers(private: Path) -> None:
    """Removes the folders of bashes whose aish was killed: they hold variables. Nothing reads from their pipes."""
    for folder in private.glob("aish-*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime < _NEW_S:  # it may not have its pipes yet
                continue
            try:
                os.close(os.open(folder / "ctl", os.O_WRONLY | os.O_NONBLOCK))
            except OSError as exc:
                if exc.errno in (errno.ENXIO, errno.ENOENT):
                    shutil.rmtree(folder, ignore_errors=True)


def new_nonce() -> str:
    return secrets.token_hex(8)


class Channel:
    def __init__(
        self,
        *,
        is_plain_sh: bool,
        rc_file: str | None,
        exports: bytes = b"",
        wants_ps1: bool = False,
        private: Path | None = None,
    ) -> None:
        """`private` is a folder that the sandbox hides: what can write to the channel can give bash orders."""
        self.first_nonce = new_nonce()
        self._is_plain_sh = is_plain_sh
        self._wants_ps1 = wants_ps1
        with ExitStack() as stack, _translate_errors("what a shell is talked to through cannot be made"):
            if private is not None:
                private.mkdir(mode=0o700, parents=True, exist_ok=True)
                _remove_leftovers(private)
            self.folder = Path(tempfile.mkdtemp(prefix="aish-", dir=private or memory_folder()))  # mode 0700
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            for name in ("ctl", "status"):
                os.mkfifo(self.folder / name, 0o600)
            self._ctl = self._open_file(stack, "ctl", os.O_NONBLOCK)
            self._status = self._open_file(stack, "status", os.O_NONBLOCK)
            self._line = self._open_file(stack, "line", os.O_CREAT)
            if exports:
                (self.folder / "restore").write_bytes(exports)
            (self.folder / "rc").write_text(self._rc(rc_file, has_exports=bool(exports)))
            self._resources = stack.pop_all()

    def close(self) -> None:
        self._resources.close()

    def _open_file(self, stack: ExitStack, name: str, flags: int) -> int:
        fd = os.open(self.folder / name, os.O_RDWR | flags, 0o600)
        stack.callback(os.close, fd)
        return fd

    @property
    def rc(self) -> Path:
        return self.folder / "rc"

    def _rc(self, rc_file: str | None, *, has_exports: bool) -> str:
        names = {"dir": str(self.folder), "home": str(_HOME), "nonce": self.first_nonce}
        names["wants_ps1"] = "yes" if self._wants_ps1 else ""
        settings = "\n".join(f"__aish_{name}={shlex.quote(value)}" for name, value in names.items())
        our_rc = shlex.quote(str(_HOME / ("rc.sh" if self._is_plain_sh else "rc.bash")))
        user_rc = f"[ -r {shlex.quote(rc_file)} ] && . {shlex.quote(rc_file)}" if rc_file else ":"
        after = "" if self._is_plain_sh else f"__aish_rc=0\n{_AFTER}\n"
        restore = _RESTORE if has_exports else ":"
        return f"{settings}\n. {our_rc}\n{user_rc}\n{restore}\n__aish_settle\n{after}"

    def write_line(self, line: str, mode: Mode) -> tuple[str, bytes]:
        """Writes the next line and starts it. Returns its nonce and the bytes to type."""
        nonce = new_nonce()
        with _translate_errors("the line cannot be handed to the shell"):
            os.ftruncate(self._line, 0)
            os.pwrite(self._line, os.fsencode(line if self._is_plain_sh else f"{nonce}:{line}\0"), 0)
        if self._is_plain_sh:
            return nonce, f' __aish_go {nonce} {mode};eval "$__aish_eval";__aish_end\n'.encode()
        self.send_go(nonce, mode)
        return nonce, f' {{ __aish_go {nonce} {mode}&&:;}} >/dev/null;\\builtin eval "$__aish_eval";{_AFTER}\n'.encode()

    def send_go(self, nonce: str, mode: Mode) -> None:
        """Also repeats the message if bash was interrupted while it waited; bash ignores what it has already
        received."""
        with suppress(BlockingIOError):  # full of unread messages, which is enough
            os.write(self._ctl, f"go {nonce} {mode}\n".encode())

    def send_side(self, number: int) -> None:
        os.write(self._ctl, f"side {number}\n".encode())

    def send_state(self, number: int) -> None:
        os.write(self._ctl, f"state {number}\n".encode())

    def read_status(self) -> ShellStatus | None:
        """Returns the last message of bash; None if there is no new one."""
        received = b""
        while piece := self._read():
            received += piece
        fields = [os.fsdecode(field) for field in received.split(b"\0")[:-1][-_STATUS_FIELDS:]]
        if len(fields) < _STATUS_FIELDS:
            return None
        nonce, code, cwd, jobs, editing, search_path, kept, changed, file, control, size, ps1, venv, editor = fields
        history = HistorySettings(file, control, int(size) if size.isdecimal() else None)
        return ShellStatus(
            nonce,
            int(code or 0),
            cwd,
            int(jobs or 0),
            editing,
            search_path,
            bool(kept),
            bool(changed),
            history,
            ps1,
            venv,
            editor,
        )

    def read_expanded_line(self) -> str | None:
        """Returns the last line that history expansion has changed."""
        with suppress(OSError):
            return os.fsdecode((self.folder / "expanded").read_bytes())
        return None

    def read_jobs(self) -> frozenset[int] | None:
        """Returns the process groups of the jobs when bash last waited; None if they are unknown or incomplete."""
        with suppress(OSError, ValueError):
            *groups, end = (self.folder / "jobs.pids").read_bytes().split()
            return frozenset(map(int, groups)) if end == b"end" else None
        return None

    def is_exit_alias(self, nonce: str) -> bool:
        """Whether the line of that nonce is an alias of `exit`."""
        with suppress(OSError):
            return (self.folder / "exits").read_text() == nonce
        return False

    def take_exports(self) -> bytes:
        """Returns the exported variables when bash last waited; b"" if they are unknown, incomplete or far too many.
        They may hold secrets, so no file keeps them."""
        file = self.folder / "exports"
        with suppress(OSError):
            with file.open("rb") as opened:
                listed = opened.read(_EXPORTS_MAX_BYTES)
            file.unlink()
            (self.folder / "restore").unlink(missing_ok=True)
            return _OWN_EXPORT.sub(b"", listed) if listed.endswith(_EXPORTS_END) else b""
        return b""

    def _read(self) -> bytes:
        try:
            return os.read(self._status, 65536)
        except BlockingIOError:
            return b""
