"""Long work at the prompt: `:norris GOAL`, `:norris resume|list`; `:plan TEXT`, `:plan save|run|list`; `:runs`.

A goal may itself begin with one of these words: `:norris list the open questions`.
"""

from __future__ import annotations

from collections.abc import Sequence

from aish.frontends.plan_templates import list_templates
from aish.frontends.run_requests import check_goal, make_goal_state, make_planning
from aish.frontends.runs_view import run_line
from aish.frontends.shell.ask_model import ask_model
from aish.frontends.shell.commands.arguments import split_words
from aish.frontends.shell.commands.norris import find_run, resume, work
from aish.frontends.shell.commands.plan import save, template_line, template_request
from aish.frontends.shell.goal_view import TerminalWatcher
from aish.frontends.shell.shell import Shell
from aish.types.plans import Planning
from aish.types.runs import RunKind, RunRecord

_MAX_LISTED = 10
_MAX_SEARCHED = 1000  # runs of any kind, to find those of one kind
_RESUME_COMMAND = ":norris resume"


async def norris(shell: Shell, rest: str) -> None:
    word, _, more = rest.partition(" ")
    match word:
        case "":
            shell.output.note("work towards what? :norris GOAL, :norris resume [ID], :norris list")
        case "list" if not more.strip():
            _list(shell, [run for run in await shell.engine.runs.list(_MAX_SEARCHED) if run.kind is RunKind.NORRIS])
        case "resume" if len(more.split()) <= 1:
            record = await find_run(shell.engine, more.strip(), RunKind.NORRIS)
            await resume(
                shell.engine, record, _watcher(shell), shell.runtime.containment, None, resume_command=_RESUME_COMMAND
            )
        case _:
            await _start(shell, check_goal(rest))


async def _start(shell: Shell, goal: str) -> None:
    request = shell.request
    body = make_goal_state(
        shell.runtime.config,
        model=shell.runtime.config.norris.executor or request.model,
        tools=request.tools,
        where="shell",
    )
    await work(
        shell.engine,
        shell.engine.runs.start(RunKind.NORRIS, goal, body, session=request.session or None),
        _watcher(shell),
        shell.runtime.containment,
        resume_command=_RESUME_COMMAND,
    )


async def runs(shell: Shell, rest: str) -> None:
    _list(shell, await shell.engine.runs.list(_MAX_LISTED))


def _list(shell: Shell, found: Sequence[RunRecord]) -> None:
    for run in found[:_MAX_LISTED]:
        shell.output.note(run_line(run))
    if not found:
        shell.output.note("no runs yet")


async def plan(shell: Shell, rest: str) -> None:
    word, _, more = rest.partition(" ")
    match word:
        case "":
            shell.output.note("plan what? :plan TEXT, :plan save NAME, :plan run NAME [PARAM=VALUE …], :plan list")
        case "list" if not more.strip():
            templates = await list_templates(shell.engine.store)
            for template in templates:
                shell.output.note(template_line(template))
            if not templates:
                shell.output.note("no plans are kept; :plan save NAME keeps the latest")
        case "save" if _count_names(more) <= 2:
            shell.output.note(f"kept: {template_line(await save(shell.engine, split_words(more)))}")
        case "run" if _count_names(more) <= 1:
            request = await template_request(shell.engine, shell.runtime, split_words(more))
            await _ask_planned(shell, request.input[0].text, request.planner, request.tools)
        case _:
            await _ask_planned(shell, rest, make_planning(shell.runtime.config.planner, True), ())


def _count_names(text: str) -> int:
    """Counts the words before the first PARAM=VALUE. With more of them than `save` or `run` takes, the line is a text
    to plan, such as "run the tests"."""
    before, equals, _ = text.partition("=")
    return len(before.split()) - bool(equals)


async def _ask_planned(shell: Shell, text: str, planning: Planning | None, tools: tuple[str, ...]) -> None:
    """Asks the model in this conversation, with a plan."""
    before = shell.request
    shell.change_request(planner=planning, tools=tools or before.tools)
    try:
        await ask_model(shell, text)
    finally:
        shell.change_request(planner=None, tools=before.tools)


def _watcher(shell: Shell) -> TerminalWatcher:
    return TerminalWatcher(shell.output, shell.make_printer, shell)
