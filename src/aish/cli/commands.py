"""What each command does with its words: a face is imported only when its command runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

Run = Callable[[argparse.Namespace], int]


def _config(arguments: argparse.Namespace) -> int:
    from aish import wiring
    from aish.faces.admin import config

    return config.run(arguments.action, wiring.surroundings())


def _models(arguments: argparse.Namespace) -> int:
    from aish import wiring
    from aish.faces.admin import models

    return models.run(arguments, wiring.runtime(arguments.endpoint))


def _sessions(arguments: argparse.Namespace) -> int:
    if arguments.action == "resume":
        return _resume(arguments.id, arguments.model)
    from aish import wiring
    from aish.faces.admin import sessions

    return sessions.run(arguments, wiring.runtime([]))


def _resume(session: str, model: str) -> int:
    """The shell, in that session."""
    from aish.cli import parse

    return _ask(parse(["--continue" if session == "latest" else f"--session={session}", f"--model={model}"]))


def _cost(arguments: argparse.Namespace) -> int:
    from aish import wiring
    from aish.faces.admin import cost

    return cost.run(arguments, wiring.runtime([]))


def _memory(arguments: argparse.Namespace) -> int:
    from aish import wiring
    from aish.faces.admin import memory

    return memory.run(arguments, wiring.runtime([]))


def _safety(arguments: argparse.Namespace) -> int:
    from aish import wiring
    from aish.faces.admin import safety

    return safety.run(arguments, wiring.runtime([]))


def _doctor(arguments: argparse.Namespace) -> int:
    from aish import wiring
    from aish.faces.admin import doctor

    return doctor.run(wiring.runtime(arguments.endpoint))


def _mcp(arguments: argparse.Namespace) -> int:
    from aish import wiring

    if arguments.action == "serve":
        from aish.faces.mcp import serve

        return serve.run(arguments, wiring.runtime([]))
    from aish.faces.admin import mcp

    return mcp.run(arguments, wiring.runtime([]))


def _serve(arguments: argparse.Namespace) -> int:
    from aish import wiring
    from aish.cli import serve_app
    from aish.faces.http import serve
    from aish.faces.mcp.http import mcp_mount

    runtime = wiring.serving_runtime(arguments.endpoint, arguments.workspace)
    return serve.run(arguments, runtime, mcp_mount, partial(serve_app, arguments.words))


def _keys(arguments: argparse.Namespace) -> int:
    from aish import wiring
    from aish.faces.http import keys_command

    return keys_command.run(arguments, wiring.runtime([]))


def _eval(arguments: argparse.Namespace) -> int:
    from aish import wiring
    from aish.faces.eval import command

    return command.run(arguments, wiring.runtime(arguments.endpoint))


def _suggest(arguments: argparse.Namespace) -> int:
    from aish import wiring
    from aish.faces.shell import suggest

    return suggest.run(arguments, wiring.runtime(arguments.endpoint))


def _init(arguments: argparse.Namespace) -> int:
    from aish.faces.shell import suggest

    return suggest.init(arguments.shell)


def _norris(arguments: argparse.Namespace) -> int:
    from aish import wiring
    from aish.faces.shell import norris_command

    return norris_command.norris(arguments, wiring.runtime(arguments.endpoint))


def _runs(arguments: argparse.Namespace) -> int:
    from aish import wiring
    from aish.faces.shell import norris_command

    return norris_command.runs(arguments, wiring.runtime(arguments.endpoint))


def _plan(arguments: argparse.Namespace) -> int:
    from aish import wiring
    from aish.faces.shell import plan_command

    return plan_command.run(arguments, wiring.runtime(arguments.endpoint))


def _ask(arguments: argparse.Namespace) -> int:
    from aish.faces.shell.echo import unechoed

    with unechoed() if not arguments.question else nullcontext():
        from aish import wiring
        from aish.faces.shell import ask

        return ask.run(arguments, wiring.runtime(arguments.endpoint))


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
