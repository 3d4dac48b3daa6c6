"""`python -m aish` and the `aish` command."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from aish import __version__

# New objects before the garbage collector runs, instead of 700: it would check imported modules again and again, which
# takes a thirtieth of a start.
_COLLECT_AFTER = 20_000


def main() -> None:
    gc.set_threshold(_COLLECT_AFTER)
    exit_codes: list[int] = []
    atexit.register(_exit_at_once, exit_codes)  # the first to be registered is the last to run
    try:
        _open_streams()
        code = _run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except OSError as exc:
        code = 141 if isinstance(exc, BrokenPipeError) else _report_stream_error(exc)
    exit_codes.append(code)
    _flush_and_exit(code)


def _run(words: list[str]) -> int:
    if words in (["--version"], ["-V"]):  # answered before anything is loaded
        sys.stdout.write(f"aish {__version__}\n")
        return 0
    from aish.cli import run

    return run(words)


def _open_streams() -> None:
    """Opens the null device for standard streams that were closed at the start."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def _report_stream_error(exc: OSError) -> int:
    import contextlib

    with contextlib.suppress(OSError):
        sys.stderr.write(f"aish: cannot read or write: {exc.strerror or exc}\n")
    return 1


def _flush_and_exit(code: int) -> None:
    """Exits. A stream that cannot be flushed is redirected to the null device: Python flushes once more at exit."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    sys.exit(code)


def _exit_at_once(exit_codes: list[int]) -> None:
    """Ends the process after threads have ended and all other exit handlers have run. Python would go on to free every
    module and object, which takes a tenth of a short run."""
    if not exit_codes:
        return  # an uncaught exception: Python reports it
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105  (contextlib is not loaded to tell a version)
            stream.flush()
        except (OSError, ValueError):
            pass  # closed, or the reader has gone
    os._exit(exit_codes[0])


if __name__ == "__main__":
    main()
