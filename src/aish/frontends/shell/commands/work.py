"""Long work at the prompt: `:norris GOAL`, `:norris resume|list`; `:plan TEXT`, `:plan save|run|list`; `:runs`.

A goal may begin with such a word, too: `:norris list the open questions`.
"""

from __future__ import annotations

from collections.abc import Sequence

from aish.frontends.goal_request import checked_goal, first_state
from aish.frontends.plan_templates import list_templates
from aish.frontends.planning_request import planning_of
from aish.frontends.runs_view import run_line
from aish.frontends.shell.commands.arguments import words_of
from aish.frontends.shell.commands.norris import find_run, resume, work
from aish.frontends.shell.commands.plan import save, template_line, template_request
from aish.frontends.shell.goal_view import TerminalWatcher
from aish.frontends.shell.state import Shell
from aish.types.plans import Planning
from aish.types.runs import RunKind, RunRecord

_MOST = 10
_LOOKED_AT = 1000  # for those of one kind
_GO_ON = ":norris resume"


async def norris(shell: Shell, rest: str) -> None:
    word, _, more = rest.partition(" ")
    match word:
        case "":
            shell.output.note("work towards what? :norris GOAL, :norris resume [ID], :norris list")
        case "list" if not more.strip():
            _list(shell, [run for run in await shell.engine.runs.list(_LOOKED_AT) if run.kind is RunKind.NORRIS])
        case "resume" if len(more.split()) <= 1:
            record = await find_run(shell.engine, more.strip(), RunKind.NORRIS)
            await resume(shell.engine, record, _watcher(shell), shell.runtime.containment, None, go_on=_GO_ON)
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
        shell.runtime.containment,
        go_on=_GO_ON,
    )


async def runs(shell: Shell, rest: str) -> None:
    _list(shell, await shell.engine.runs.list(_MOST))


def _list(shell: Shell, found: Sequence[RunRecord]) -> None:
    for run in found[:_MOST]:
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
        case "save" if _plain_words(more) <= 2:
            shell.output.note(f"kept: {template_line(await save(shell.engine, words_of(more)))}")
        case "run" if _plain_words(more) <= 1:
            request = await template_request(shell.engine, shell.runtime, words_of(more))
            await _planned(shell, request.input[0].text, request.planner, request.tools)
        case _:
            await _planned(shell, rest, planning_of(shell.runtime.config.planner, True), ())


def _plain_words(text: str) -> int:
    """Those that are no PARAM=VALUE. More of them than a plan is named by, and it is a text: run the tests."""
    before, equals, _ = text.partition("=")
    return len(before.split()) - bool(equals)


async def _planned(shell: Shell, text: str, planning: Planning | None, tools: tuple[str, ...]) -> None:
    """One turn of this conversation, planned."""
    before = shell.request
    shell.change(planner=planning, tools=tools or before.tools)
    try:
        await shell.talk(text)
    finally:
        shell.change(planner=None, tools=before.tools)


def _watcher(shell: Shell) -> TerminalWatcher:
    return TerminalWatcher(shell.output, shell.view, shell)
