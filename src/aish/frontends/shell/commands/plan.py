"""Plans, on the command line and at the prompt; and goals at the prompt.

`aish plan TEXT|save|run|list|delete` and `:plan` plan first and then work; a plan can be saved, with parameters, and
run again. `:norris GOAL|resume|list` works towards a goal; a goal may itself begin with one of these words. `:runs`
lists both.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import msgspec

from aish.engine.engine import Engine
from aish.errors import UsageError
from aish.frontends.long_runs import check_goal, make_goal_state, make_planning, run_line
from aish.frontends.runtime import Runtime
from aish.frontends.shell.approvals.consent import make_consent
from aish.frontends.shell.ask_model import ask_model
from aish.frontends.shell.commands.arguments import split_words
from aish.frontends.shell.commands.norris import TerminalWatcher, find_run, resume_run, work
from aish.frontends.shell.prompt.line_reader import StdinReader
from aish.frontends.shell.render.event_printer import JsonEventPrinter, printer_for
from aish.frontends.shell.render.styles import display_for, make_output
from aish.frontends.shell.setup import ensure_model, wait_for_tools
from aish.frontends.shell.shell import Shell
from aish.frontends.signals import run_until_done
from aish.frontends.templates import (
    KIND,
    PlanTemplate,
    find_template,
    list_templates,
    parse_parameters,
    save_template,
)
from aish.frontends.terminal import visible
from aish.planner.run import PlanBody
from aish.types.messages import user
from aish.types.requests import TurnRequest
from aish.types.runs import Planning, RunKind, RunRecord

_MAX_LISTED = 10
_MAX_SEARCHED = 1000  # runs of any kind, to find those of one kind
_RESUME_COMMAND = ":norris resume"


def plan_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Plan first, then work. A plan that was good can be kept, with parameters, and run again.",
        epilog="aish plan TEXT asks; aish plan save NAME [RUN] [PARAM=TEXT …] keeps the plan of a run, with TEXT made "
        "a parameter; aish plan run NAME [PARAM=VALUE …] runs it again; aish plan list; aish plan delete NAME",
    )
    parser.add_argument("words_", nargs="*", metavar="TEXT", help="what to do, or save|run|list|delete")
    parser.add_argument("--model", "-m", default="", help="the model that answers")
    parser.add_argument("--yes", "-y", action="store_true", help="say yes to everything the gate would ask about")
    parser.add_argument("--json", action="store_true", help="print every event as one line of JSON")
    parser.add_argument("--endpoint", action="append", default=[], metavar="NAME=URL", help="a provider for this run")
    return parser


def run(arguments: argparse.Namespace, runtime: Runtime) -> int:
    if not arguments.words_:
        raise UsageError("plan what?", hint='try: aish plan "what to do", or aish plan list')
    return run_until_done(_run_action(arguments, runtime))


async def _run_action(arguments: argparse.Namespace, runtime: Runtime) -> int:
    action, *rest = arguments.words_
    manages = action in ("save", "delete") or arguments.words_ == ["list"]
    async with runtime.engine(mcp=() if manages else None) as engine:
        match action:
            case "list" if not rest:
                templates = await list_templates(engine.store)
                for template in templates:
                    print(template_line(template))
                if not templates:
                    print("no plans are kept", file=sys.stderr)
                return 0
            case "save":
                print(f"kept: {template_line(await save(engine, rest))}", file=sys.stderr)
                return 0
            case "delete":
                print(f"deleted: {await _delete_template(engine, rest)}", file=sys.stderr)
                return 0
            case "run":
                request = await template_request(engine, runtime, rest)
            case _:
                planning = make_planning(runtime.config.planner, True)
                request = TurnRequest((user(" ".join(arguments.words_)),), planner=planning)
        request = msgspec.structs.replace(request, model=arguments.model)
        return await answer_planned(runtime, engine, request, as_json=arguments.json, yes=arguments.yes)


async def template_request(engine: Engine, runtime: Runtime, words: list[str]) -> TurnRequest:
    """The request that runs a saved plan: its NAME, then PARAM=VALUE words."""
    if not words:
        raise UsageError("run which plan?", hint="aish plan list shows those that are kept")
    template = await find_template(engine.store, words[0])
    question, plan = template.fill(parse_parameters(words[1:]))
    planning = make_planning(runtime.config.planner, True)
    assert planning is not None
    steps = max(planning.max_steps, len(plan.steps))
    planning = msgspec.structs.replace(planning, plan=plan, max_steps=steps)
    return TurnRequest((user(question),), tools=template.tools, planner=planning)


async def save(engine: Engine, words: list[str]) -> PlanTemplate:
    """Saves the plan of a run. The words are NAME, then the run (by default the latest with a plan) and PARAM=TEXT."""
    if not words:
        raise UsageError("save it as what?", hint="aish plan save NAME [RUN] [PARAM=TEXT …]")
    name, *rest = words
    runs = [word for word in rest if "=" not in word]
    run = await find_run(engine, runs[0]) if runs else await _latest_plan(engine)
    return await save_template(engine.store, name, run, parse_parameters([word for word in rest if "=" in word]))


def template_line(template: PlanTemplate) -> str:
    parameters = " ".join(f"{name}=…" for name in template.parameters)
    tools = ", ".join(dict.fromkeys(step.tool for step in template.plan.steps))
    return visible(f"{template.name:<20} {parameters:<24} {tools}").rstrip()


async def _latest_plan(engine: Engine) -> RunRecord:
    for run in await engine.runs.list(1000):
        if run.kind is RunKind.PLAN and msgspec.json.decode(run.body, type=PlanBody).plan is not None:
            return run
    raise UsageError("no plan has been run yet", hint='try: aish plan "what to do"')


async def _delete_template(engine: Engine, words: list[str]) -> str:
    if len(words) != 1:
        raise UsageError("delete which plan?", hint="aish plan delete NAME")
    template = await find_template(engine.store, words[0])
    await engine.store.delete(KIND, template.name)
    return template.name


async def answer_planned(
    runtime: Runtime, engine: Engine, request: TurnRequest, *, as_json: bool = False, yes: bool = False
) -> int:
    """Runs one planned turn and prints it as it arrives. Returns the exit code."""
    env = runtime.launch_context.env
    output, reader = make_output(env), StdinReader()
    config = runtime.config
    request = msgspec.structs.replace(request, tools=request.tools or config.tools.offer, limits=config.limits.limits())
    await ensure_model(engine, runtime, request.model, output, reader if sys.stdin.isatty() else None)
    await wait_for_tools(runtime, output)
    printer = JsonEventPrinter(output) if as_json else printer_for(output, display_for(output.out, env))
    async with (
        printer.waiting("planning"),
        engine.turn(request, ask=make_consent(output, reader, env, yes=yes)) as batches,
    ):
        async for events in batches:
            printer.show_all(events)
    return printer.exit_code


async def norris(shell: Shell, rest: str) -> None:
    word, _, more = rest.partition(" ")
    match word:
        case "":
            shell.output.note("work towards what? :norris GOAL, :norris resume [ID], :norris list")
        case "list" if not more.strip():
            _list(
                shell,
                [record for record in await shell.engine.runs.list(_MAX_SEARCHED) if record.kind is RunKind.NORRIS],
            )
        case "resume" if len(more.split()) <= 1:
            record = await find_run(shell.engine, more.strip(), RunKind.NORRIS)
            with shell.watch():
                await resume_run(
                    shell.engine,
                    record,
                    _watcher(shell),
                    shell.runtime.containment,
                    None,
                    resume_command=_RESUME_COMMAND,
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
    with shell.watch():
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
    for record in found[:_MAX_LISTED]:
        shell.output.note(run_line(record))
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
    if planning is not None:
        planning = msgspec.structs.replace(planning, confirm=True)
    shell.change_request(planner=planning, tools=tools or before.tools)
    try:
        await ask_model(shell, text)
    finally:
        shell.change_request(planner=None, tools=before.tools)


def _watcher(shell: Shell) -> TerminalWatcher:
    return TerminalWatcher(shell.output, shell.make_printer, shell, shell.editor_env)
