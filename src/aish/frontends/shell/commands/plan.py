"""`aish plan TEXT` and `aish plan save|run|list|delete`: plans first, then works; saves plans and runs them again."""

from __future__ import annotations

import argparse
import sys

import msgspec

from aish.engine.engine import Engine
from aish.errors import UsageError
from aish.frontends.plan_templates import (
    KIND,
    PlanTemplate,
    find_template,
    list_templates,
    parse_parameters,
    save_template,
)
from aish.frontends.run_requests import make_planning
from aish.frontends.runtime import Runtime
from aish.frontends.shell.approvals.consent import make_consent
from aish.frontends.shell.commands.norris import find_run
from aish.frontends.shell.prompt.line_reader import StdinReader
from aish.frontends.shell.render.event_printer import JsonEventPrinter, printer_for
from aish.frontends.shell.render.styles import display_for, make_output
from aish.frontends.shell.turn_setup import ensure_model, wait_for_tools
from aish.frontends.signals import run_until_done
from aish.frontends.terminal import visible
from aish.planner.run import PlanBody
from aish.types.messages import user
from aish.types.requests import TurnRequest
from aish.types.runs import RunKind, RunRecord


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
    return run_until_done(_run(arguments, runtime))


async def _run(arguments: argparse.Namespace, runtime: Runtime) -> int:
    action, *rest = arguments.words_
    manages = action in ("save", "delete") or arguments.words_ == ["list"]
    async with runtime.engine(mcp=() if manages else None) as engine:
        match action:
            case "list" if not rest:
                return await _list(engine)
            case "save":
                return await _save(engine, rest)
            case "delete":
                return await _delete(engine, rest)
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


async def _list(engine: Engine) -> int:
    templates = await list_templates(engine.store)
    for template in templates:
        print(template_line(template))
    if not templates:
        print("no plans are kept", file=sys.stderr)
    return 0


async def _save(engine: Engine, words: list[str]) -> int:
    template = await save(engine, words)
    print(f"kept: {template_line(template)}", file=sys.stderr)
    return 0


async def _delete(engine: Engine, words: list[str]) -> int:
    if len(words) != 1:
        raise UsageError("delete which plan?", hint="aish plan delete NAME")
    template = await find_template(engine.store, words[0])
    await engine.store.delete(KIND, template.name)
    print(f"deleted: {template.name}", file=sys.stderr)
    return 0


async def answer_planned(
    runtime: Runtime, engine: Engine, request: TurnRequest, *, as_json: bool = False, yes: bool = False
) -> int:
    """Runs one planned turn and prints it as it arrives. Returns the exit code."""
    env = runtime.process_environment.env
    output, reader = make_output(env), StdinReader()
    config = runtime.config
    request = msgspec.structs.replace(request, tools=request.tools or config.tools.offer, limits=config.limits.limits())
    await ensure_model(engine, runtime, request.model, output, reader if sys.stdin.isatty() else None)
    await wait_for_tools(runtime, output)
    printer = JsonEventPrinter(output) if as_json else printer_for(output, display_for(output.out, env))
    async with (
        printer.waiting("planning"),
        engine.turn(request, ask=make_consent(output, reader, yes=yes)) as batches,
    ):
        async for events in batches:
            printer.show_all(events)
    return printer.exit_code
