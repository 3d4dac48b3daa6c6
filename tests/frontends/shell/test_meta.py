"""The table of commands for aish itself, and what they say."""

import asyncio
import io
import re
from functools import partial
from types import SimpleNamespace

import pytest

from aish.config.schema.config import Config
from aish.frontends.shell.commands.mcp import tool_lines
from aish.frontends.shell.commands.norris import report_lines
from aish.frontends.shell.commands.registry import COMMANDS, help_lines, run_meta
from aish.frontends.shell.shell import Notices, Shell, in_prompt_words
from aish.frontends.terminal import Output
from aish.safety.commands import ShellContext
from aish.safety.policy.judgement import Judgement
from aish.types.chunks import UsageChunk
from aish.types.context import ContextPart, ContextView
from aish.types.decisions import Verdict
from aish.types.events import TextDelta
from aish.types.live_shell import RunResult
from aish.types.messages import user
from aish.types.requests import TurnRequest
from aish.types.runs import RunKind, RunRecord, RunState
from aish.types.tools import Effect, ToolSpec
from aish.types.usage import Usage
from support.engines import Bench
from support.python_tools import NoExtensions


async def told(line, **parts):
    """What the shell says to it."""
    shown = io.StringIO()
    parts.setdefault("runtime", SimpleNamespace(prompt_files=tuple, extensions=NoExtensions()))
    shell = SimpleNamespace(output=Output(shown, shown, color=False), cwd="/work", **parts)
    shell.switch_model = partial(Shell.switch_model, shell)
    await run_meta(shell, line)
    return shown.getvalue()


@pytest.mark.parametrize("columns", [40, 79, 80, 120])
def test_the_list_of_tools_fits_the_terminal(columns):
    spec = ToolSpec("runtime__add", "Add two numbers.\n\n" + "and say more " * 40, {}, Effect.READ, "runtime")
    lines = tool_lines(spec, columns)
    assert all(len(line) <= columns for line in lines) and len(lines) == (1 if columns >= 80 else 2)
    assert "Add two numbers. and say" in lines[-1] and lines[-1].endswith("…")


@pytest.mark.parametrize(("window", "shown"), [(None, "100 tokens\n"), (400, "·· 100 of 400 tokens\n")])
async def test_a_context_of_unknown_size_is_drawn_without_a_bar(window, shown):
    async def view_context(request):
        return ContextView("m", (ContextPart("question", 100),), window, None, 0, 0, "guess")

    context = SimpleNamespace(text=lambda: "")
    request = TurnRequest(input=(user(""),))
    text = await told("context", command_context=context, request=request, view_context=view_context)
    assert shown in text and ("█" in text.splitlines()[0]) is (window is not None)


@pytest.mark.parametrize("columns", [30, 40, 72, 80, 200])
def test_help_fits_the_terminal_and_breaks_no_word(columns):
    for name, command in COMMANDS.items():
        lines = help_lines(name, command, columns)
        unbroken = (f":{name}", *command.help.split())
        assert set(unbroken) <= {word for line in lines for word in line.split()}
        told = [line for line in lines if line.strip() != command.usage]  # a list of subcommands has no blanks
        assert max(map(len, told)) <= columns


async def test_help_names_all_that_a_command_takes():
    assert ":delegate     MODEL TEXT " in await told("help delegate")


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("`aish models` lists what there is", "`:models` lists what there is"),
        ("aish models list", ":models"),
        ("`aish runs list` shows them", "`:runs` shows them"),
        ("aish plan save NAME [RUN]", ":plan save NAME [RUN]"),
        ("try: aish plan list", "try: :plan list"),
        ("run `aish models pull smollm2`, or see `aish doctor`", "run `aish models pull smollm2`, or see `:doctor`"),
        ("go on with it by: aish runs resume run_1", "go on with it by: aish runs resume run_1"),
        ("aish plan delete NAME", "aish plan delete NAME"),
        ("start the server", "start the server"),
    ],
)
def test_hints_name_what_there_is_at_the_prompt(hint, expected):
    assert in_prompt_words(hint) == expected


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("plan save", ":plan save NAME [RUN] [PARAM=TEXT …]"),
        ("plan save x", 'try: :plan "what to do"'),
        ("plan run", ":plan list shows"),
        ("plan run nope", "`:plan list` shows"),
        ("norris resume nope", "`:runs` shows them"),
        ("model nope", "`:models` lists"),
    ],
)
async def test_errors_of_commands_at_the_prompt_have_such_hints(line, hint):
    assert f"\n  {hint}" in await told(line, engine=Bench().engine, runtime=SimpleNamespace())


async def test_runs_are_goals_and_plans_and_norris_lists_and_resumes_goals():
    bench = Bench()
    for number, kind in enumerate((RunKind.NORRIS, RunKind.PLAN)):
        record = RunRecord(f"run_{number}", kind, "sess_1", f"to {kind}", RunState.FINISHED)
        await bench.store.create_run(record, lease_s=0)
    both, goals = await told("runs", engine=bench.engine), await told("norris list", engine=bench.engine)
    assert "to norris" in both and "to plan" in both
    assert "to norris" in goals and "to plan" not in goals
    open_plan = RunRecord("run_2", RunKind.PLAN, "sess_1", "to plan", RunState.HALTED)
    await bench.store.create_run(open_plan, lease_s=0)
    assert "there is no run to go on with" in await told("norris resume", engine=bench.engine)


def test_work_is_gone_on_with_by_the_word_of_where_it_was_begun():
    run = RunRecord("run_1", RunKind.NORRIS, "sess_1", "g", RunState.HALTED)
    assert report_lines(run, [])[-1] == "  go on with: aish runs resume run_1"
    assert report_lines(run, [], resume_command=":norris resume")[-1] == "  go on with: :norris resume run_1"


@pytest.mark.parametrize(
    ("command", "level"),
    [
        ("rm -rf build", "destructive"),
        ("ls", "safe"),
        ("rm -rf /", "destructive (asked about even when everything is approved)"),
    ],
)
async def test_a_check_says_what_the_command_is_before_what_the_rules_make_of_it(command, level):
    runtime = SimpleNamespace(
        shell_context=ShellContext(cwd="/elsewhere", home="/home/u"),
        explain=lambda tool, arguments: Judgement(Verdict.ASK, "rule", "because"),
    )
    assert await told(f"safety check {command}", runtime=runtime) == f"{level}\nask: because\n"


@pytest.mark.parametrize(
    ("line", "status"),
    [("doctor", "[7]"), ("trust", "[7]"), ("diff", "[7]"), ("model", "[7]"), ("exec false", "[3]")],
)
async def test_the_prompt_keeps_how_the_last_command_of_the_person_ended(line, status):
    class Live:
        cwd = "/work"
        exited = asyncio.Event()

        async def run_user(self, line, terminal, *, may_exit=True, is_own=False):
            return RunResult(line, 3, "/work", 0.0, "")

    class NamelessShell(Shell):
        async def look_up_model(self):
            pass

    output = Output(io.StringIO(), io.StringIO(), color=False)
    runtime = SimpleNamespace(
        config=Config(),
        launch_context=SimpleNamespace(env={}),
        workspaces=SimpleNamespace(loaded=SimpleNamespace(files=())),
        instruction_files=tuple,
        skills=tuple,
        agents=SimpleNamespace(files=()),
        prompt_files=tuple,
        extensions=NoExtensions(),
    )
    request = TurnRequest(input=(user(""),))
    shell = NamelessShell(
        None, runtime, output, request, live=Live(), notices=Notices(output), approves_all=False,
        make_editor=lambda shell: None,
    )  # fmt: skip
    shell.status = "[7]"
    await run_meta(shell, line)
    assert shell.status == status


def compactable(bench: Bench, session: str = "") -> SimpleNamespace:
    return SimpleNamespace(
        engine=bench.engine,
        request=bench.request(session=session),
        view_context=bench.engine.view_context,
        command_context=SimpleNamespace(text=lambda: ""),
    )


async def test_compacting_says_how_much_less_goes_along_and_the_context_how_much_was_cached():
    steps = [[TextDelta("word " * 200), UsageChunk(Usage(1000, 1, cached_tokens=900))] for _ in range(3)]
    bench = Bench(*steps, [TextDelta("notes")], [TextDelta("notes")])
    session = ""
    for _ in range(3):
        session = (await bench.run("hi", session=session))[0].session
    assert "1000 tokens,  90 % cached" in await told("context", **vars(compactable(bench, session)))
    said = await told("compact the names", **vars(compactable(bench, session)))
    before, after = (int(number) for number in re.findall(r"\d+", said)[2:0:-1])
    assert said.startswith("2 earlier turns became notes") and after < before
    assert "nothing to compact" in await told("compact", **vars(compactable(Bench())))
