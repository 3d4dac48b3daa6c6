"""Runs each command. A frontend is imported only when its command runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

Run = Callable[[argparse.Namespace], int]


def _config(arguments: argparse.Namespace) -> int:
    from aish import app
    from aish.frontends.admin import config

    return config.run(arguments.action, app.process_environment())


def _models(arguments: argparse.Namespace) -> int:
    from aish import app
    from aish.frontends.admin import models

    return models.run(arguments, app.runtime(arguments.endpoint))


def _sessions(arguments: argparse.Namespace) -> int:
    if arguments.action == "resume":
        return _resume(arguments.id, arguments.model)
    from aish import app
    from aish.frontends.admin import sessions

    return sessions.run(arguments, app.runtime([]))


def _resume(session: str, model: str) -> int:
    """Opens the shell in a session."""
    from aish.cli import parse

    return _ask(parse(["--continue" if session == "latest" else f"--session={session}", f"--model={model}"]))


def _cost(arguments: argparse.Namespace) -> int:
    from aish import app
    from aish.frontends.admin import cost

    return cost.run(arguments, app.runtime([]))


def _memory(arguments: argparse.Namespace) -> int:
    from aish import app
    from aish.frontends.admin import memory

    return memory.run(arguments, app.runtime([]))


def _safety(arguments: argparse.Namespace) -> int:
    from aish import app
    from aish.frontends.admin import safety

    return safety.run(arguments, app.runtime([]))


def _doctor(arguments: argparse.Namespace) -> int:
    from aish import app
    from aish.frontends.admin import doctor

    return doctor.run(app.runtime(arguments.endpoint))


def _mcp(arguments: argparse.Namespace) -> int:
    from aish import app

    if arguments.action == "serve":
        from aish.frontends.mcp import stdio

        return stdio.run(arguments, app.runtime([]))
    from aish.frontends.admin import mcp

    return mcp.run(arguments, app.runtime([]))


def _serve(arguments: argparse.Namespace) -> int:
    from aish import app
    from aish.cli import serve_app
    from aish.frontends.http.server import serve
    from aish.frontends.mcp.http import mcp_mount

    runtime = app.serving_runtime(arguments.endpoint, arguments.workspace)
    return serve.run(arguments, runtime, mcp_mount, partial(serve_app, arguments.words))


def _keys(arguments: argparse.Namespace) -> int:
    from aish import app
    from aish.frontends.http.auth import keys_command

    return keys_command.run(arguments, app.runtime([]))


def _eval(arguments: argparse.Namespace) -> int:
    from aish import app
    from aish.frontends.eval import command

    return command.run(arguments, app.runtime(arguments.endpoint))


def _suggest(arguments: argparse.Namespace) -> int:
    from aish import app
    from aish.frontends.shell.commands import suggest

    return suggest.run(arguments, app.runtime(arguments.endpoint))


def _init(arguments: argparse.Namespace) -> int:
    from aish.frontends.shell.commands import suggest

    return suggest.init(arguments.shell)


def _norris(arguments: argparse.Namespace) -> int:
    from aish import app
    from aish.frontends.shell.commands import norris

    return norris.norris(arguments, app.runtime(arguments.endpoint))


def _runs(arguments: argparse.Namespace) -> int:
    from aish import app
    from aish.frontends.shell.commands import norris

    return norris.runs(arguments, app.runtime(arguments.endpoint))


def _plan(arguments: argparse.Namespace) -> int:
    from aish import app
    from aish.frontends.shell.commands import plan

    return plan.run(arguments, app.runtime(arguments.endpoint))


def _ask(arguments: argparse.Namespace) -> int:
    from aish.frontends.shell.prompt.terminal_echo import echo_off

    with echo_off() if not arguments.question else nullcontext():
        from aish import app
        from aish.frontends.shell import one_shot

        return one_shot.run(arguments, app.runtime(arguments.endpoint))


RUN: dict[str, Run] = {
    "ask": _ask,
    "config": _config,
    "cost": _cost,
    "doctor": _doctor,
    "eval": _eval,
    "explain": _suggest,
    "init": _init,
    "keys": _keys,
    "mcp": _mcp,
    "memory": _memory,
    "models": _models,
    "norris": _norris,
    "plan": _plan,
    "runs": _runs,
    "safety": _safety,
    "serve": _serve,
    "sessions": _sessions,
    "suggest": _suggest,
}
