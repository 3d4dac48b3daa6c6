"""`python -m aish` and the `aish` command."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from aish import __version__

# New objects before the collector looks for cycles, instead of 700: what is imported stays, and was looked through
# again and again, a thirtieth of a start.
_COLLECT_AFTER = 20_000


def main() -> None:
    gc.set_threshold(_COLLECT_AFTER)
    left: list[int] = []
    atexit.register(_end, left)  # the first to be registered is the last to run
    try:
        _open_streams()
        code = _run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except OSError as exc:
        code = 141 if isinstance(exc, BrokenPipeError) else _cannot_write(exc)
    left.append(code)
    _leave(code)


def _run(words: list[str]) -> int:
    if words in (["--version"], ["-V"]):  # told before anything is loaded
        sys.stdout.write(f"aish {__version__}\n")
        return 0
    from aish.cli import run

    return run(words)


def _open_streams() -> None:
    """A stream that was closed before we began leads nowhere, rather than into errors."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def _cannot_write(exc: OSError) -> int:
    import contextlib

    with contextlib.suppress(OSError):
        sys.stderr.write(f"aish: cannot read or write: {exc.strerror or exc}\n")
    return 1


def _leave(code: int) -> None:
    """Python flushes once more at exit; where that fails, what was to be said has been said."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    sys.exit(code)


def _end(left: list[int]) -> None:
    """When threads have ended and all that wanted to do something at exit has done it. Python would go on to take every
    module and object apart, which the system does at once: a tenth of a short run."""
    if not left:
        return  # something failed that nobody caught: Python says so, in its own way
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105  (contextlib is not loaded to tell a version)
            stream.flush()
        except (OSError, ValueError):
            pass  # closed, or nobody reads any more
    os._exit(left[0])


if __name__ == "__main__":
    main()
