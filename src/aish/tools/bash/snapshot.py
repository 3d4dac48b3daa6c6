"""The state of the live bash as text from which another bash can be made: variables, functions, aliases, options.

The waiting bash forks; the fork writes its state into a pipe and exits (`snapshot.bash`). Its size and time are
limited; beyond either limit it is killed.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Iterator

import msgspec

from aish.errors import ProcessError
from aish.process.process_groups import signal_group
from aish.tools.bash.channel import Channel
from aish.tools.proved_environment import steers_programs

_SIGKILL = 9
_READ_BYTES = 64 * 1024
_MAX_BYTES = 32 * 1024 * 1024  # a shell with all completions loaded has less than one
_TIMEOUT_S = 10.0
# Variables that each bash sets itself, or that matter only at a prompt.
_OWN_VARIABLES = frozenset({
    "BASHOPTS", "BASHPID", "BASH_ALIASES", "BASH_ARGC", "BASH_ARGV", "BASH_ARGV0", "BASH_CMDS", "BASH_COMMAND",
    "BASH_EXECUTION_STRING", "BASH_LINENO", "BASH_LOADABLES_PATH", "BASH_REMATCH", "BASH_SOURCE", "BASH_SUBSHELL",
    "BASH_VERSINFO", "BASH_VERSION", "COMP_WORDBREAKS", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "FUNCNAME",
    "GROUPS", "HISTCMD", "LINENO", "PIPESTATUS", "PPID", "PROMPT_COMMAND", "PWD", "RANDOM", "SECONDS", "SHELLOPTS",
    "SRANDOM", "UID", "_",
})  # fmt: skip
# Options of `set` that mean the same without a terminal. The late ones would change how our own text is read or run, so
# they are set together with the line.
_EARLY_OPTIONS = frozenset({"braceexpand", "hashall", "noclobber", "physical", "pipefail"})
_LATE_OPTIONS = frozenset({
    "allexport", "errexit", "errtrace", "functrace", "keyword", "noglob", "nounset", "posix", "xtrace",
})  # fmt: skip

# How `declare -p` shows variables without attributes; a number or a reference would be evaluated when it is set.
_PLAIN_TEXT = ("declare -- ", "declare -x ")


class Snapshot(msgspec.Struct, frozen=True):
    """Each text defines one name. `late_options` take effect with the model's line."""

    variables: dict[str, str]
    functions: dict[str, str]
    function_flags: tuple[str, ...] = ()
    switches: str = ""
    options: tuple[str, ...] = ()
    late_options: tuple[str, ...] = ()
    aliases: str = ""
    umask: str = ""
    status: int = 0

    def script(self, hides: Callable[[str], bool], *, is_plain: bool = False) -> Iterator[str]:
        """Yields what a fresh bash reads to become a copy, without the variables that `hides` names. A plain copy has
        only the umask and variables that are text and steer no program."""
        if is_plain:
            yield self.umask
            texts = ((name, text) for name, text in self.variables.items() if text.startswith(_PLAIN_TEXT))
            yield from (_eval_command(text) for name, text in texts if not steers_programs(name) and not hides(name))
            return
        yield from self.switches.splitlines()
        yield self.umask
        yield from map(_eval_command, self.functions.values())
        yield from self.function_flags
        yield from (_eval_command(text) for name, text in self.variables.items() if not hides(name))
        yield from self.options
        yield _eval_command(self.aliases)


def _eval_command(text: str) -> str:
    """Evaluates text as a string of its own, so that a syntax error affects nothing else."""
    return f"builtin eval {shlex.quote(text)}"


async def take_snapshot(channel: Channel, number: int) -> Snapshot:
    """Call only while the live bash waits. Raises ProcessError."""
    reading = _StateReader(channel, number)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return parse_snapshot(await reading.done)
    except TimeoutError as exc:
        raise ProcessError(f"the shell did not tell its state within {_TIMEOUT_S:g} s, so nothing was run") from exc
    finally:
        reading.close()


class _StateReader:
    """One request and its pipe."""

    def __init__(self, channel: Channel, number: int) -> None:
        self._path = channel.folder / f"state.{number}"
        self._names = channel.folder / f"names.{number}"
        self._loop = asyncio.get_running_loop()
        self._data = bytearray()
        self.done: asyncio.Future[bytes] = self._loop.create_future()
        os.mkfifo(self._path, 0o600)
        self._fd = os.open(self._path, os.O_RDWR | os.O_NONBLOCK)
        self._loop.add_reader(self._fd, self._read)
        channel.send_state(number)

    def _read(self) -> None:
        try:
            self._data += os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return
        if self.done.done():
            return
        if self._data.endswith(b"\0end\0"):
            self.done.set_result(bytes(self._data))
        elif len(self._data) > _MAX_BYTES:
            text = f"the state of the shell is larger than {_MAX_BYTES >> 20} MiB, so nothing was run"
            self.done.set_exception(ProcessError(text, hint="unset the variables that hold so much"))

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._path.unlink(missing_ok=True)
        self._names.unlink(missing_ok=True)
        if not self._data.endswith(b"\0end\0") and (group := _find_group(self._data)):
            signal_group(group, _SIGKILL)


def _find_group(data: bytearray) -> int:
    first, end, _ = bytes(data[:64]).partition(b"\0")
    return int(first.removeprefix(b"pid ")) if end else 0


def parse_snapshot(data: bytes) -> Snapshot:
    named: dict[str, dict[str, str]] = {"v": {}, "f": {}}
    texts: dict[str, str] = {}
    for record in os.fsdecode(data).split("\0"):
        head, _, text = record.partition("\n")
        kind, _, name = head.partition(" ")
        if kind in named:
            named[kind][name] = text
        else:
            texts[kind] = text or name
    options = _options(texts.get("s", ""))
    return Snapshot(
        variables={name: text for name, text in named["v"].items() if name not in _OWN_VARIABLES},
        functions=named["f"],
        function_flags=tuple(filter(None, map(_flag_command, texts.get("x", "").splitlines()))),
        switches="\n".join(line for line in texts.get("o", "").splitlines() if not line.endswith(" extdebug")),
        options=tuple(f"builtin set {how} {name}" for name, how in options.items() if name in _EARLY_OPTIONS),
        late_options=tuple(
            f"set {how} {name}" for name, how in options.items() if name in _LATE_OPTIONS and how == "-o"
        ),
        aliases=texts.get("a", ""),
        umask=texts.get("u", ""),
        status=int(texts.get("r") or 0),
    )


def _options(text: str) -> dict[str, str]:
    """Parses the output of `set +o`; later lines win."""
    lines = [line.split() for line in text.splitlines()]
    return {words[2]: words[1] for words in lines if len(words) == 3}


def _flag_command(line: str) -> str:
    """Returns the command for `declare -fx name`; "" for `declare -f name`."""
    words = line.split()
    is_plain = len(words) != 3 or words[1] == "-f" or words[2].startswith("__aish_")
    return "" if is_plain else f"builtin declare {words[1]} {shlex.quote(words[2])}"
