"""`:norris GOAL`, `:norris resume [ID]`, `:norris list`: work towards a goal, at the prompt."""

from __future__ import annotations

from aish.faces.norris_request import checked_goal, first_state
from aish.faces.runs_view import run_line
from aish.faces.shell.norris_command import find_run, resume, work
from aish.faces.shell.state import Shell
from aish.faces.shell.working import TerminalWatcher
from aish.types.runs import RunKind

_MOST = 10


async def norris(shell: Shell, rest: str) -> None:
    word, _, more = rest.partition(" ")
    match word:
        case "":
            shell.output.note("work towards what? :norris GOAL, :norris resume [ID], :norris list")
        case "list":
            for run in await shell.engine.runs.list(_MOST):
                shell.output.note(run_line(run))
        case "resume":
            record = await find_run(shell.engine, more.strip())
            await resume(shell.engine, record, _watcher(shell), None)
        case _:
            await _begin(shell, checked_goal(rest))


async def _begin(shell: Shell, goal: str) -> None:
    request = shell.request
    body = first_state(
        shell.runtime.config,
        model=shell.runtime.config.norris.executor or request.model,
        tools=request.tools,
        where="shell",
    )
    await work(
        shell.engine,
        shell.engine.runs.begun(RunKind.NORRIS, goal, body, session=request.session or None),
        _watcher(shell),
    )


def _watcher(shell: Shell) -> TerminalWatcher:
    return TerminalWatcher(shell.output, shell.view, shell)
