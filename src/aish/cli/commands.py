"""Runs each command, and turns its error into a sentence and an exit code. A frontend is imported when it runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from aish.errors import AishError, ConfigError, ProviderError, RunNotFound, SessionNotFound, UsageError
from aish.frontends.terminal import visible

if TYPE_CHECKING:
    from aish.frontends.runtime import Runtime

Run = Callable[[argparse.Namespace], int]
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


def _runs(target: str, *, endpoints: bool = False) -> Run:
    """A command that is a `module:function` of the frontends. `endpoints`: it takes providers for this run."""
    module, _, function = target.partition(":")

    def run(arguments: argparse.Namespace) -> int:
        from aish import app

        command: Callable[[argparse.Namespace, Runtime], int] = getattr(
            import_module(f"aish.frontends.{module}"), function
        )
        return command(arguments, app.runtime(arguments.endpoint if endpoints else []))

    return run


def _config(arguments: argparse.Namespace) -> int:
    from aish import app
    from aish.frontends.admin import config

    return config.run(arguments.action, app.launch_context())


def _sessions(arguments: argparse.Namespace) -> int:
    if arguments.action != "resume":
        return _runs("admin.store:run_sessions")(arguments)
    from aish.cli import parse_command_line

    # Opens the shell in a session.
    session = "--continue" if arguments.id == "latest" else f"--session={arguments.id}"
    return _ask(parse_command_line([session, f"--model={arguments.model}"]))


def _mcp(arguments: argparse.Namespace) -> int:
    return _runs("mcp.stdio:run" if arguments.action == "serve" else "admin.mcp:run")(arguments)


def _serve(arguments: argparse.Namespace) -> int:
    from aish import app
    from aish.cli import serve_app
    from aish.frontends.http.server import serve
    from aish.frontends.mcp.http import mcp_mount

    runtime = app.serving_runtime(arguments.endpoint, arguments.workspace)
    return serve.run(arguments, runtime, mcp_mount, partial(serve_app, arguments.words))


def _init(arguments: argparse.Namespace) -> int:
    from aish.frontends.shell.commands import suggest

    return suggest.init(arguments.shell)


def _ask(arguments: argparse.Namespace) -> int:
    from aish.frontends.shell.prompt.terminal_echo import echo_off

    with echo_off() if not arguments.question else nullcontext():
        from aish import app
        from aish.frontends.shell import one_shot

        return one_shot.run(arguments, app.runtime(arguments.endpoint))


RUN: dict[str, Run] = {
    "ask": _ask,
    "config": _config,
    "cost": _runs("admin.store:run_cost"),
    "doctor": _runs("admin.diagnostics:run_doctor", endpoints=True),
    "eval": _runs("eval.command:run", endpoints=True),
    "extensions": _runs("admin.extensions:run_extensions"),
    "explain": _runs("shell.commands.suggest:run", endpoints=True),
    "init": _init,
    "keys": _runs("http.auth.keys_command:run"),
    "mcp": _mcp,
    "memory": _runs("admin.store:run_memory"),
    "models": _runs("admin.diagnostics:run_models", endpoints=True),
    "norris": _runs("shell.commands.norris:norris", endpoints=True),
    "plan": _runs("shell.commands.plan:run", endpoints=True),
    "runs": _runs("shell.commands.norris:runs", endpoints=True),
    "safety": _runs("admin.diagnostics:run_safety"),
    "serve": _serve,
    "sessions": _sessions,
    "suggest": _runs("shell.commands.suggest:run", endpoints=True),
    "tools": _runs("admin.extensions:run_tools"),
}


def run_guarded(work: Callable[[], int]) -> int:
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
        import traceback  # slow to import, and there should be no bug

        traceback.print_exc()
    return 1
