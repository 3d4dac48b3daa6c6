"""Turns the error of a command into a sentence on stderr and an exit code. The only place that does so."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from aish.errors import AishError, ConfigError, ProviderError, RunNotFound, SessionNotFound, UsageError
from aish.frontends.terminal import visible

_CODES: tuple[tuple[type[AishError], int], ...] = (
    (UsageError, 2),
    (ConfigError, 2),
    (SessionNotFound, 2),
    (RunNotFound, 2),
    (ProviderError, 4),
    (AishError, 1),
)
INTERRUPTED = 130
# 128 + SIGPIPE: what a shell reports for a program whose reader went away.
BROKEN_PIPE = 141


def guarded(work: Callable[[], int]) -> int:
    """Runs a command. An exception becomes a sentence and an exit code, never a traceback."""
    try:
        code = work()
        sys.stdout.flush()
        return code
    except AishError as exc:
        return _report(exc)
    except BrokenPipeError:
        # Python flushes stdout again at exit, which must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError:
        raise  # of stdout or stderr; `__main__` reports it
    except Exception as exc:
        return _report_bug(exc)


def _report(error: AishError) -> int:
    print(f"aish: {visible(error.message)}", file=sys.stderr)
    if error.hint:
        print(f"  {visible(error.hint)}", file=sys.stderr)
    return next(code for kind, code in _CODES if isinstance(error, kind))


def _report_bug(exc: Exception) -> int:
    print(f"aish: internal error: {type(exc).__name__}: {visible(str(exc))}", file=sys.stderr)
    print("  this is a bug in aish; run again with python -X dev -m aish to see where", file=sys.stderr)
    if sys.flags.dev_mode:
        traceback.print_exc()
    return 1
