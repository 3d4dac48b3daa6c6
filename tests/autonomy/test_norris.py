"""Work towards a goal: what runs by itself, what halts, and what ends it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

import msgspec
import pytest

from aish.autonomy.goal_worker import GoalWorker
from aish.autonomy.state import GoalState
from aish.engine.model.ledger import Caps, Prices
from aish.errors import RunBusy
from aish.ports import CallContext
from aish.providers.scripted import Item, ScriptedProvider, from_steps
from aish.runs import ownership
from aish.types.chunks import UsageChunk
from aish.types.events import TextDelta, ToolResult, TurnEnd
from aish.types.messages import SystemMessage, user
from aish.types.records import SessionRecord, TurnRecord
from aish.types.requests import StepRequest
from aish.types.runs import Halt, HaltAnswer, HaltChoice, HaltKind, RunKind, RunRecord, RunState, StepRecord, StepState
from aish.types.tools import Arguments, Effect, ToolOutput
from aish.types.usage import Price, Usage
from support.containment import FakeSandbox
from support.engines import Bench, Tools, call, said

COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
PROCEED, SKIP = HaltAnswer(HaltChoice.PROCEED), HaltAnswer(HaltChoice.SKIP)
ABORT, LEAVE = HaltAnswer(HaltChoice.ABORT), HaltAnswer(HaltChoice.STAY_HALTED)


def text(words: str) -> list[Item]:
    return [TextDelta(words)]


def tools() -> Tools:
    return (
        Tools()
        .add("shell__run", effect=Effect.EXEC, schema=COMMAND)
        .add("files__write", effect=Effect.WRITE)
        .add("files__read")
    )


class Person:
    """Watches, and answers halts from a list; past its end nobody is there."""

    def __init__(self, *answers: HaltAnswer) -> None:
        self.answers = list(answers)
        self.halts: list[Halt] = []
        self.notes: list[str] = []
        self.steps: list[int] = []
        self.commands: list[str] = []

    def notify_user(self, text: str) -> None:
        self.notes.append(text)

    def step(self, number: int, max_steps: int, cost: float) -> AbstractAsyncContextManager[Callable[[Any], None]]:
        self.steps.append(number)
        return nullcontext(lambda events: None)

    def show_command(self, command: str, result: ToolResult) -> None:
        self.commands.append(command)

    async def decide(self, halt: Halt) -> HaltAnswer:
        self.halts.append(halt)
        return self.answers.pop(0) if self.answers else LEAVE


async def work(
    bench: Bench, person: Person, goal: str = "tidy up", sandbox: FakeSandbox | None = None, **body: Any
) -> RunRecord:
    given = msgspec.json.encode(GoalState(**{"model": "scripted:model", **body}))
    async with asyncio.timeout(20), bench.engine.runs.start(RunKind.NORRIS, goal, given) as run:
        await GoalWorker(bench.engine, run, person, sandbox or FakeSandbox()).work()
    return await bench.engine.runs.find(run.record.id)


async def resume(bench: Bench, run: RunRecord, person: Person, answer: HaltAnswer | None = None) -> RunRecord:
    async with asyncio.timeout(20), bench.engine.runs.take_over(run.id) as owned:
        await GoalWorker(bench.engine, owned, person, FakeSandbox()).work(answer)
    return await bench.engine.runs.find(run.id)


async def test_commands_that_the_sandbox_holds_run_and_the_goal_ends_it() -> None:
    bench = Bench(text("CMD: make all"), text("CMD: make test\nGOAL: complete"), tools=tools())
    person = Person()
    run = await work(bench, person)
    assert (run.state, run.reason) == (RunState.FINISHED, "the goal is reached")
    assert person.commands == ["make all", "make test"]  # the sentinel ends it after all else is done
    assert person.halts == []
    assert run.owner == ""
    steps = await bench.engine.runs.steps(run.id)
    assert [(step.tool, step.state) for step in steps] == [("shell__run", StepState.DONE)] * 2


async def test_each_step_continues_the_prompt_of_the_one_before() -> None:
    reading = [TextDelta("CMD: make all"), call("files__read")]
    bench = Bench(reading, text("read"), text("CMD: make test"), text("GOAL: complete"), tools=tools())
    await work(bench, Person())
    sent = bench.scripted.requests
    assert len(sent) == 4
    for before, after in itertools.pairwise(sent):
        assert after.tools == before.tools and after.messages[: len(before.messages)] == before.messages


@pytest.mark.parametrize(
    "words",
    [
        "I say GOAL: complete now.",
        "```\nGOAL: complete\n```",
        "GOAL: completely done",
        "> GOAL: complete",
        "goal complete",
    ],
)
async def test_the_sentinel_in_prose_or_in_a_fence_is_text(words: str) -> None:
    bench = Bench(text(words), text("GOAL: complete"), tools=tools())
    person = Person()
    run = await work(bench, person)
    assert run.state is RunState.FINISHED
    assert person.steps == [1, 2]


REACHING = [
    "echo x > /tmp/f", "python3 -c \"open('/tmp/f','w')\"", "pip install --dry-run x", "git push origin main",
]  # fmt: skip


@pytest.mark.parametrize("command", REACHING)
async def test_without_a_sandbox_whatever_may_reach_out_halts(command: str) -> None:
    for step in (text(f"CMD: {command}"), [call("shell__run", json.dumps({"command": command}))]):
        bench, person = Bench(step, tools=tools()), Person()
        assert (await work(bench, person, sandbox=FakeSandbox(active=False))).state is RunState.HALTED
        assert len(person.halts) == 1 and bench.tools.calls == []


@pytest.mark.parametrize("is_contained", [True, False])
async def test_a_command_knows_whether_a_person_has_let_it_run(*, is_contained: bool) -> None:
    seen = []

    async def body(arguments: Arguments, context: Any) -> ToolOutput:
        seen.append(context.is_unasked)
        return said("done")

    own = Tools().add("shell__run", body, effect=Effect.EXEC, schema=COMMAND)
    bench = Bench(text("CMD: make test"), text("GOAL: complete"), tools=own)
    await work(bench, Person(PROCEED), sandbox=FakeSandbox(active=is_contained))
    assert seen == [is_contained]


async def test_what_wants_to_run_outside_of_the_sandbox_halts() -> None:
    step = [call("shell__run", '{"command": "make test", "outside_sandbox": true}')]
    bench, person = Bench(step, tools=tools()), Person()
    assert (await work(bench, person)).state is RunState.HALTED
    assert "outside of the sandbox" in person.halts[0].reason and bench.tools.calls == []


async def test_sending_something_to_another_machine_halts_even_in_a_sandbox() -> None:
    person = Person()
    assert (await work(Bench(text("CMD: git push origin main"), tools=tools()), person)).state is RunState.HALTED


async def test_edits_that_can_be_undone_run_unasked_and_those_of_keys_and_other_tools_halt() -> None:
    edits = tools().add("ide__edit", effect=Effect.WRITE, undoable=True, paths=("path",))
    bench = Bench([call("ide__edit", '{"path": "a.py"}')], text("GOAL: complete"), tools=edits)
    person = Person()
    assert (await work(bench, person)).state is RunState.FINISHED
    assert person.halts == [] and len(edits.calls) == 1
    for step in ([call("ide__edit", '{"path": ".git/hooks/x"}')], [call("files__write", "{}")]):
        person = Person()
        assert (await work(Bench(step, tools=edits), person)).state is RunState.HALTED
        assert len(person.halts) == 1 and len(edits.calls) == 1


async def test_a_goal_in_ask_mode_halts_at_every_edit() -> None:
    edits = tools().add("ide__edit", effect=Effect.WRITE, undoable=True, paths=("path",))
    bench = Bench([call("ide__edit", '{"path": "a.py"}')], tools=edits)
    assert (await work(bench, Person(), mode="ask")).state is RunState.HALTED
    assert edits.calls == []


async def test_a_new_file_of_the_workspace_is_written_unasked_and_one_outside_it_halts() -> None:
    inside = ["make > build.log 2>&1", "cd docs && echo done > state.txt", "make | tee notes.txt"]
    bench = Bench(*(text(f"CMD: {command}") for command in inside), text("GOAL: complete"), tools=tools())
    person = Person()
    assert (await work(bench, person)).state is RunState.FINISHED
    assert (person.commands, person.halts) == (inside, [])
    for outside in ("echo done > ../state.txt", "echo done > ~/state.txt", "make > /srv/build.log"):
        bench = Bench(text(f"CMD: {outside}"), tools=tools())
        assert (await work(bench, Person())).state is RunState.HALTED


async def test_a_halt_says_of_a_file_in_the_workspace_that_it_is_removed_and_no_more() -> None:
    person = Person()
    await work(Bench(text("CMD: rm notes.txt"), tools=tools()), person)
    assert [halt.reason for halt in person.halts] == ["removes notes.txt"]


async def test_a_file_that_is_there_is_not_overwritten_unasked() -> None:
    for command in ("make > build.log", "cd docs && echo done > state.txt", "make | tee notes.txt", "mv a notes.txt"):
        sandbox = FakeSandbox("/work/build.log", "/work/docs/state.txt", "/work/notes.txt")
        bench, person = Bench(text(f"CMD: {command}"), tools=tools()), Person()
        assert (await work(bench, person, sandbox=sandbox)).state is RunState.HALTED
        assert bench.tools.calls == [] and "overwrite" in person.halts[0].reason


@pytest.mark.parametrize("rule", ["nothing", "exec", "named"])
async def test_without_a_sandbox_what_is_not_proved_harmless_halts_whatever_the_rules_say(rule: str) -> None:
    from aish.safety.policy.rules import Rule
    from aish.types.decisions import Verdict
    from support.engines import policy_gate

    named = Rule(verdict=Verdict.ALLOW, commands=("make",), tools=("shell__run",))
    gates = {"nothing": policy_gate(), "exec": policy_gate(exec="allow"), "named": policy_gate(named)}
    bench = Bench(text("CMD: ls\nCMD: make"), text("GOAL: complete"), tools=tools(), gate=gates[rule])
    person = Person(PROCEED)
    assert (await work(bench, person, sandbox=FakeSandbox(active=False))).state is RunState.FINISHED
    assert ["no sandbox" in halt.reason for halt in person.halts] == [True]
    assert person.commands == ["ls", "make"]


@pytest.mark.parametrize("command", ["rm -rf build", "git push --force", "dd if=/dev/zero of=/dev/sda"])
async def test_a_destructive_command_halts_and_runs_only_if_a_person_says_so(command: str) -> None:
    bench = Bench(text(f"CMD: {command}"), text("GOAL: complete"), tools=tools())
    person = Person(PROCEED)
    assert (await work(bench, person)).state is RunState.FINISHED
    assert [halt.kind for halt in person.halts] == [HaltKind.EFFECT]
    assert bench.tools.calls == [("shell__run", {"command": command})]
    bench = Bench(text(f"CMD: {command}"), text("GOAL: complete"), tools=tools())
    run = await work(bench, Person(SKIP))
    assert run.state is RunState.FINISHED
    assert bench.tools.calls == []


async def test_auto_approval_does_not_cover_a_destructive_command() -> None:
    from aish.safety.policy.rules import Rule
    from aish.types.decisions import Verdict
    from support.engines import policy_gate

    everything = Rule(verdict=Verdict.ALLOW, tools=("*",))
    bench = Bench(text("CMD: rm -rf src"), tools=tools(), gate=policy_gate(everything))
    run = await work(bench, Person())
    assert run.state is RunState.HALTED
    assert bench.tools.calls == []


async def test_a_tool_that_changes_things_halts() -> None:
    bench = Bench([call("files__write", '{"path":"a"}')], text("GOAL: complete"), tools=tools())
    person = Person(PROCEED)
    assert (await work(bench, person)).state is RunState.FINISHED
    assert [halt.question.tool for halt in person.halts if halt.question] == ["files__write"]


async def test_an_edited_command_runs_as_the_person_wrote_it() -> None:
    bench = Bench(text("CMD: rm -rf /work"), text("GOAL: complete"), tools=tools())
    person = Person(HaltAnswer(HaltChoice.EDIT, arguments={"command": "rm -rf build"}))
    await work(bench, person)
    assert bench.tools.calls == [("shell__run", {"command": "rm -rf build"})]


async def test_a_goal_is_not_reached_by_a_step_of_which_something_was_skipped() -> None:
    bench = Bench(text("CMD: rm -r a\nCMD: make\nGOAL: complete"), text("GOAL: complete"), tools=tools())
    person = Person(SKIP)
    assert (await work(bench, person)).state is RunState.FINISHED
    assert person.steps == [1, 2] and bench.tools.calls == [("shell__run", {"command": "make"})]
    assert "Not all of that was done" in bench.scripted.requests[-1].messages[-1].text


async def test_a_goal_is_not_reached_by_a_step_of_which_something_failed() -> None:
    async def fail(arguments: Arguments, context: CallContext) -> ToolOutput:
        return said("2 tests failed", is_error=True)

    failing = Tools().add("shell__run", fail, effect=Effect.EXEC, schema=COMMAND)
    bench = Bench(text("CMD: make test\nGOAL: complete"), text("It cannot be mended.\nGOAL: complete"), tools=failing)
    person = Person()
    assert (await work(bench, person)).state is RunState.FINISHED
    assert person.steps == [1, 2]
    run = await work(bench, Person(), max_steps=1)
    assert (run.state, run.reason) == (RunState.STOPPED, "the limit of 1 steps is reached")


async def test_a_goal_is_not_reached_where_the_last_command_was_skipped_on_resuming() -> None:
    bench = Bench(text("CMD: rm -r a\nGOAL: complete"), text("GOAL: complete"), tools=tools())
    run = await work(bench, Person())
    person = Person()
    assert (await resume(bench, run, person, SKIP)).state is RunState.FINISHED
    assert person.steps == [2]


async def test_abort_ends_it_at_once_and_nothing_after_it_runs() -> None:
    bench = Bench(text("CMD: rm -rf a\nCMD: make"), tools=tools())
    run = await work(bench, Person(ABORT))
    assert run.state is RunState.ABANDONED
    assert bench.tools.calls == []


async def test_three_skips_in_a_row_escalate() -> None:
    bench = Bench(text("CMD: rm -r a\nCMD: rm -r b\nCMD: rm -r c"), text("GOAL: complete"), tools=tools())
    person = Person(SKIP, SKIP, SKIP, HaltAnswer(HaltChoice.PROCEED, note="keep the folders"))
    assert (await work(bench, person)).state is RunState.FINISHED
    assert [halt.kind for halt in person.halts] == [HaltKind.EFFECT] * 3 + [HaltKind.SKIPS]
    assert "keep the folders" in bench.scripted.requests[-1].messages[-1].text


async def test_a_halt_with_nobody_there_is_kept_and_resumed_with_an_answer() -> None:
    bench = Bench(text("CMD: rm -r a\nCMD: make"), text("GOAL: complete"), tools=tools())
    run = await work(bench, Person())
    assert run.state is RunState.HALTED
    assert "removes a" in run.reason
    run = await resume(bench, run, Person(), PROCEED)
    assert run.state is RunState.FINISHED
    assert bench.tools.calls == [("shell__run", {"command": "rm -r a"}), ("shell__run", {"command": "make"})]
    assert "$ rm -r a\n[ok]\ndone" in bench.scripted.requests[-1].messages[-1].text


async def test_a_tool_call_that_halted_is_made_on_resuming_with_a_yes() -> None:
    bench = Bench([call("files__write", '{"path":"a"}')], text("GOAL: complete"), tools=tools())
    run = await work(bench, Person())
    assert run.state is RunState.HALTED
    edit_rule = HaltAnswer(HaltChoice.EDIT, arguments={"path": "b"})
    run = await resume(bench, run, Person(), edit_rule)
    assert run.state is RunState.FINISHED
    assert bench.tools.calls == [("files__write", {"path": "b"})]


async def test_a_yes_to_one_halt_covers_only_that_call_and_only_once() -> None:
    bench = Bench(text("CMD: rm -r a\nCMD: rm -r b"), text("CMD: rm -r a"), tools=tools())
    run = await work(bench, Person())
    run = await resume(bench, run, Person(), PROCEED)
    assert run.state is RunState.HALTED  # at b
    assert bench.tools.calls == [("shell__run", {"command": "rm -r a"})]
    run = await resume(bench, run, Person(), SKIP)
    assert run.state is RunState.HALTED  # at a, once more
    assert len(bench.tools.calls) == 1


@pytest.mark.parametrize(
    ("body", "reason"),
    [({"max_steps": 3}, "3 steps"), ({"max_s": 0.0}, "0 s"), ({"max_cost": 0.02}, r"\$0.02")],
)
async def test_each_limit_stops_it_and_says_which(body: dict[str, Any], reason: str) -> None:
    spent = UsageChunk(Usage(10, 10, cost=0.015))
    bench = Bench([*text("CMD: make"), spent], tools=tools())
    run = await work(bench, Person(), **body)
    assert run.state is RunState.STOPPED
    assert reason.replace("\\", "") in run.reason


async def test_a_cap_that_no_call_fits_under_stops_it() -> None:
    settings = {"caps": Caps(day=0.001), "prices": Prices({"scripted:model": Price(1_000.0, 10_000.0)})}
    run = await work(Bench(text("CMD: make"), tools=tools(), settings=settings), Person())
    assert run.state is RunState.STOPPED
    assert "cost" in run.reason or "$" in run.reason


async def test_a_model_that_does_nothing_is_stopped() -> None:
    bench = Bench(text("I am thinking about it."), tools=tools())
    run = await work(bench, Person())
    assert run.state is RunState.STOPPED
    assert "did nothing" in run.reason


async def test_the_goal_and_the_tasks_are_in_every_request() -> None:
    planner = ScriptedProvider("strong", {"big": from_steps([text("1. look\n2. tidy")])})
    bench = Bench(text("CMD: ls x"), text("GOAL: complete"), tools=tools(), others=[planner])
    person = Person()
    await work(bench, person, goal="tidy the attic", preplanner="strong:big")
    for request in bench.scripted.requests:
        system = request.messages[0]
        assert isinstance(system, SystemMessage)
        assert "tidy the attic" in system.text
        assert "2. tidy" in system.text
    assert len(planner.requests) == 1


async def test_a_preplanner_that_fails_is_said_and_done_without() -> None:
    bench = Bench(text("GOAL: complete"), tools=tools())
    person = Person()
    assert (await work(bench, person, preplanner="nobody:none")).state is RunState.FINISHED
    assert any("no task list" in note for note in person.notes)


def opinion(*, halt: bool) -> ScriptedProvider:
    answer = msgspec.json.encode({"halt": halt, "why": "it has nothing to do with it"}).decode()
    return ScriptedProvider("second", {"judge": from_steps([text(answer)])})


async def test_a_second_opinion_adds_a_halt_and_removes_none() -> None:
    bench = Bench(text("CMD: make"), text("GOAL: complete"), tools=tools(), others=[opinion(halt=True)])
    person = Person(PROCEED)
    await work(bench, person, second_opinion="second:judge")
    assert [halt.reason for halt in person.halts] == ["a second opinion: it has nothing to do with it"]
    bench = Bench(text("CMD: rm -r x"), text("GOAL: complete"), tools=tools(), others=[opinion(halt=False)])
    person = Person(SKIP)
    await work(bench, person, second_opinion="second:judge")
    assert len(person.halts) == 1


async def test_a_second_opinion_that_cannot_be_had_halts() -> None:
    bench = Bench(text("CMD: make"), text("GOAL: complete"), tools=tools())
    person = Person(SKIP)
    await work(bench, person, second_opinion="nobody:none")
    assert "not available" in person.halts[0].reason
    assert bench.tools.calls == []


async def test_a_second_opinion_is_had_on_the_whole_of_a_call_or_it_halts() -> None:
    judge, person = opinion(halt=False), Person()
    bench = Bench(text(f"CMD: echo {'x' * 9000}; make install"), tools=tools(), others=[judge])
    assert (await work(bench, person, second_opinion="second:judge")).state is RunState.HALTED
    assert "too many to be looked at" in person.halts[0].reason and not bench.tools.calls
    bench = Bench(text("CMD: make"), text("GOAL: complete"), tools=tools(), others=[judge])
    await work(bench, person, goal="tidy up " * 2000, second_opinion="second:judge")
    (asked,) = judge.requests
    assert asked.messages[-1].text.endswith('It wants: shell__run {"command":"make"}')


@pytest.mark.parametrize("said", ["", "no", '{"so": ' + "[" * 100_000])
async def test_a_second_opinion_that_cannot_be_read_halts(said: str) -> None:
    judge = ScriptedProvider("second", {"judge": from_steps([text(said)])})
    bench = Bench(text("CMD: make"), text("GOAL: complete"), tools=tools(), others=[judge])
    person = Person(SKIP)
    await work(bench, person, second_opinion="second:judge")
    assert "not available" in person.halts[0].reason
    assert bench.tools.calls == []


async def test_a_second_opinion_is_not_asked_about_reads() -> None:
    judge = opinion(halt=True)
    bench = Bench([call("files__read")], text("GOAL: complete"), tools=tools(), others=[judge])
    assert (await work(bench, Person(), second_opinion="second:judge")).state is RunState.FINISHED
    assert judge.requests == []


async def test_a_pause_halts_before_the_next_action() -> None:
    held = tools()
    bench = Bench(
        [call("files__read", '{"n":1}')], [call("files__read", '{"n":2}')], text("GOAL: complete"), tools=held
    )
    person = Person(PROCEED)
    norris: list[GoalWorker] = []

    async def pausing(arguments: Any, context: Any) -> Any:
        norris[0].pause()
        return said("read")

    held._bodies["files__read"] = pausing
    body = msgspec.json.encode(GoalState(model="scripted:model"))
    async with asyncio.timeout(20), bench.engine.runs.start(RunKind.NORRIS, "g", body) as run:
        norris.append(GoalWorker(bench.engine, run, person, FakeSandbox()))
        await norris[0].work()
    assert person.halts[0].kind is HaltKind.PAUSE


async def test_a_backend_that_fails_halts_and_going_on_tries_again() -> None:
    from aish.errors import ProviderUnavailable

    failing = [True]

    def script(request: StepRequest) -> Sequence[Item]:
        if failing:
            failing.clear()
            return [ProviderUnavailable("gone")]
        return text("GOAL: complete")

    bench = Bench(tools=tools(), provider=ScriptedProvider("scripted", {"model": script}))
    person = Person(PROCEED)
    assert (await work(bench, person)).state is RunState.FINISHED
    assert [halt.kind for halt in person.halts] == [HaltKind.MODEL_FAILED]


async def test_what_a_command_printed_is_told_to_the_model() -> None:
    bench = Bench(text("CMD: make"), text("GOAL: complete"), tools=tools())
    await work(bench, Person())
    last = bench.scripted.requests[-1].messages[-1]
    assert "$ make\n[ok]\ndone" in last.text


async def test_effects_of_tools_and_commands_are_in_one_journal_without_secrets() -> None:
    from aish.safety.redaction.redactor import Redactor

    bench = Bench(
        [call("files__write", '{"path":"a","text":"hunter2secret"}')],
        text("CMD: make\nGOAL: complete"),
        tools=tools(),
        redactor=Redactor(["hunter2secret"]),
    )
    run = await work(bench, Person(PROCEED))
    steps = await bench.engine.runs.steps(run.id)
    assert [step.tool for step in steps] == ["files__write", "shell__run"]
    assert b"hunter2" not in steps[0].arguments


async def test_a_second_opinion_is_had_on_a_command_that_a_rule_allows() -> None:
    from aish.safety.policy.rules import Rule
    from aish.types.decisions import Verdict
    from support.engines import policy_gate

    everything = policy_gate(Rule(verdict=Verdict.ALLOW, tools=("*",)))
    bench = Bench(text("CMD: make"), tools=tools(), others=[opinion(halt=True)], gate=everything)
    run = await work(bench, Person(), second_opinion="second:judge")
    assert run.state is RunState.HALTED
    assert bench.tools.calls == []


async def test_a_command_is_cut_off_and_the_next_not_begun_when_the_time_is_over() -> None:
    held = tools()

    async def endless(arguments: Any, context: Any) -> Any:
        await asyncio.Event().wait()

    held._bodies["shell__run"] = endless
    bench = Bench(text("CMD: make\nCMD: make more"), tools=held)
    run = await work(bench, Person(), max_s=0.3)
    assert (run.state, run.reason) == (RunState.STOPPED, "the limit of 0.3 s is reached")
    assert len(await bench.engine.runs.steps(run.id)) == 1


async def test_a_run_is_kept_without_the_secrets_of_its_goal_and_its_halt_and_the_model_is_told_them() -> None:
    from aish.safety.redaction.redactor import Redactor

    bench = Bench(text("CMD: rm -r hunter2secret"), tools=tools(), redactor=Redactor(["hunter2secret"]))
    run = await work(bench, Person(), goal="log in with hunter2secret")
    assert run.goal == "log in with [redacted]"
    assert run.state is RunState.HALTED
    assert "hunter2" not in run.reason
    assert b"hunter2" not in run.body
    assert "log in with hunter2secret" in bench.scripted.requests[0].messages[0].text


@pytest.mark.parametrize("answer", [None, PROCEED])
async def test_a_call_whose_secret_was_not_kept_is_not_made_in_another_form(answer: HaltAnswer | None) -> None:
    from aish.safety.redaction.redactor import Redactor

    script = text("CMD: rm -r x\nCMD: login hunter2secret")
    if answer is not None:
        script = text("CMD: rm -r hunter2secret")
    bench = Bench(script, text("GOAL: complete"), tools=tools(), redactor=Redactor(["hunter2secret"]))
    run = await work(bench, Person())
    assert run.state is RunState.HALTED
    person = Person()
    run = await resume(bench, run, person, answer or SKIP)
    assert run.state is RunState.FINISHED
    assert bench.tools.calls == []
    assert any("held a secret" in note for note in person.notes)
    assert "[not run]" in bench.scripted.requests[-1].messages[-1].text


async def test_commands_of_an_answer_that_was_lost_are_said_to_be_lost() -> None:
    class Killed(Person):
        @asynccontextmanager
        async def step(self, number: int, max_steps: int, cost: float) -> AsyncIterator[Callable[[Any], None]]:
            yield lambda events: None
            raise RuntimeError("killed once the turn is kept, before its commands are")

    bench = Bench(text("CMD: make"), text("GOAL: complete"), tools=tools())
    with pytest.raises(RuntimeError, match="killed"):
        await work(bench, Killed())
    [run] = await bench.engine.runs.list()
    assert (await resume(bench, run, Person())).state is RunState.FINISHED
    assert bench.tools.calls == []
    assert "No CMD: line of that answer was run" in bench.scripted.requests[-1].messages[-1].text


@pytest.mark.parametrize("script", [text("CMD: make"), [call("files__read")]])
async def test_a_store_that_fails_after_an_effect_ends_the_work_in_its_own_words(script: list[Item]) -> None:
    from aish.errors import StoreError
    from aish.storage.memory import MemoryStore

    class Full(MemoryStore):
        async def put_step(self, step: StepRecord, *, fence: int) -> bool:
            if step.state is StepState.DONE:
                raise StoreError("the disk is full")
            return await super().put_step(step, fence=fence)

    bench = Bench(script, text("GOAL: complete"), tools=tools(), store=Full())
    with pytest.raises(StoreError, match="the disk is full"):
        await work(bench, Person(PROCEED))
    assert len(bench.tools.calls) == 1


@pytest.mark.parametrize("command", ["rm notes.txt", "if true; then (", "rm -rf build && make"])
async def test_removing_anything_and_lines_that_cannot_be_read_halt_even_where_a_rule_names_them(command: str) -> None:
    from aish.safety.policy.rules import Rule
    from aish.types.decisions import Verdict
    from support.engines import policy_gate

    allowed = Rule(verdict=Verdict.ALLOW, commands=("rm", "make"), tools=("shell__run",))
    bench = Bench(text(f"CMD: {command}"), tools=tools(), gate=policy_gate(allowed, exec="allow"))
    run = await work(bench, Person())
    assert run.state is RunState.HALTED
    assert bench.tools.calls == []


async def test_a_command_that_a_rule_allows_and_that_destroys_nothing_runs() -> None:
    from support.engines import policy_gate

    bench = Bench(text("CMD: make"), text("CMD: ls\nGOAL: complete"), tools=tools(), gate=policy_gate(exec="allow"))
    person = Person()
    assert (await work(bench, person)).state is RunState.FINISHED
    assert person.commands == ["make", "ls"]


async def test_a_run_whose_owner_is_frozen_past_its_lease_goes_on_and_its_open_turn_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The owner lives, so nothing but its lease says that it has lost the run."""
    monkeypatch.setattr(ownership, "_WATCH_S", 0.1)
    bench = Bench(text("GOAL: complete"), tools=tools())
    frozen = "host/alive/1"
    store = bench.store
    await store.create_session(SessionRecord("sess_1", 1, 1))
    await store.start_turn(TurnRecord("turn_1", "sess_1", 0, "m", 1, (user("step one"),), owner=frozen))
    body = msgspec.json.encode(GoalState(model="scripted:model", step=1))
    left = RunRecord("run_1", RunKind.NORRIS, "sess_1", "g", RunState.RUNNING, body, owner=frozen)
    await store.create_run(left, lease_s=0)
    run = await resume(bench, left, Person())
    assert run.state is RunState.FINISHED
    closed = await store.find_turn("turn_1")
    assert closed is not None
    assert closed.end is TurnEnd.INTERRUPTED


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
async def test_a_run_that_is_renewed_is_not_taken_by_a_process_whose_clock_is_wrong(ahead_s: float) -> None:
    bench = Bench(text("GOAL: complete"), tools=tools())
    live = RunRecord("run_1", RunKind.NORRIS, "sess_1", "g", RunState.RUNNING, b"{}", owner="host/alive/1")
    made = await bench.store.create_run(live, lease_s=-ahead_s)  # to this process the lease seems long over, or endless

    async def renew() -> None:
        await asyncio.sleep(0.1)
        assert await bench.store.renew_run("run_1", made.fence, lease_s=30 - ahead_s)

    renewing = asyncio.create_task(renew())
    with pytest.raises(RunBusy):
        await resume(bench, live, Person())
    await renewing
    assert (await bench.engine.runs.find("run_1")).fence == made.fence


async def test_a_run_whose_owner_holds_its_lease_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "_WATCH_S", 0.1)
    bench = Bench(text("GOAL: complete"), tools=tools())
    held = RunRecord("run_1", RunKind.NORRIS, "sess_1", "g", RunState.RUNNING, b"{}", owner="host/alive/1")
    await bench.store.create_run(held, lease_s=60)
    with pytest.raises(RunBusy):
        await resume(bench, held, Person())
