"""The library asks models from a program, through the same engine and the same gate."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import pytest

import aish
from aish import AgentDefinition, Aish, Choice, Image, Question, Reply, ReplyError, tool
from aish.errors import AishError, ProviderError, UsageError
from aish.testing import Scripted, call
from aish.types.chunks import UsageChunk
from aish.types.events import Status, TextDelta, ToolResult, TurnEnd, TurnFinished
from aish.types.messages import ImagePart
from aish.types.requests import EmbeddingResult, Inputs
from aish.types.runs import RunState
from aish.types.usage import Usage

PUBLIC = {
    "AgentDefinition", "Aish", "AishError", "Ask", "Change", "Choice", "Context", "Deny", "Event", "HookEvent",
    "Image", "Note", "Prompt", "Question", "ReasoningDelta", "Reply", "ReplyError", "Status", "TextDelta",
    "ToolCallReady", "ToolResult", "TurnFinished", "__version__", "command", "hook", "run", "settings", "tool",
}  # fmt: skip


@dataclass
class Ticket:
    id: int
    title: str


@tool(effect="read")
async def ticket(id: int, *, ctx: aish.Context) -> Ticket:
    "One ticket by its number."
    ctx.status(f"looking for {id}")
    return Ticket(id, "stale")


@tool
def close(id: int) -> str:
    "Closes a ticket."
    return f"closed {id}"


def write_tool(home: Path, function: str) -> None:
    """A file of the user with a tool that reads."""
    folder = home / ".config" / "aish" / "tools"
    folder.mkdir(parents=True)
    (folder / "own.py").write_text(f"from aish import tool\n\n\n@tool(effect='read')\n{function}")


def test_the_public_names_are_these_and_no_others():
    assert set(dir(aish)) == set(aish.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(aish, name) is not None
    stub = (Path(aish.__file__).parent / "__init__.pyi").read_text()
    assert all(f" as {name}" in stub or f"{name}:" in stub for name in PUBLIC)
    with pytest.raises(AttributeError):
        aish.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_importing_it_loads_only_the_standard_library():
    code = "import sys; before = set(sys.modules); import aish; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['aish']"


async def test_an_answer_has_its_text_its_session_and_the_calls_it_took():
    model = Scripted(call("app__ticket", id=3), "It is stale.")
    async with Aish(model) as opened:
        reply = await opened.ask("what of 3?", tools=[ticket])
    assert (str(reply), reply.end, reply.model) == ("It is stale.", TurnEnd.ANSWERED, "scripted-test:model")
    (used,) = reply.tools
    assert (used.name, used.status, used.text) == ("app__ticket", "ok", '{"id":3,"title":"stale"}')
    assert [spec.name for spec in model.requests[0].tools] == ["app__ticket"]


async def test_a_session_goes_on_and_is_stored():
    model = Scripted("One.", "Two.")
    async with Aish(model) as opened:
        first = await opened.ask("first")
        second = await opened.ask("second", session=first.session)
        assert second.session == first.session
        assert [message.text for message in model.requests[1].messages][-3:] == ["first", "One.", "second"]
        assert [session.id for session in await opened.sessions()] == [first.session]


async def test_calls_that_are_asked_about_need_a_function_that_approves():
    asked: list[Question] = []

    async def approve(question: Question) -> bool:
        asked.append(question)
        return question.arguments == {"id": 1}

    for decide, status in ((None, "not_allowed"), (approve, "ok")):
        async with Aish(Scripted(call("app__close", id=1), "Done."), tools=[close]) as opened:
            reply = await opened.ask("close 1", approve=decide)
        assert [used.status for used in reply.tools] == [status]
    assert [question.tool for question in asked] == ["app__close"]


@pytest.mark.parametrize(
    ("decided", "text"),
    [(Choice.YES, "closed 1"), ({"id": 2}, "closed 2"), (Choice.NO, "refused"), (False, "refused"), ("yes", "refused")],
)
async def test_a_function_may_decide_at_once_and_change_the_arguments(decided: object, text: str):
    async with Aish(Scripted(call("app__close", id=1), "Done.")) as opened:
        reply = await opened.ask("close 1", tools=[close], approve=lambda question: decided)  # type: ignore[arg-type, return-value]
    assert text in reply.tools[0].text


async def test_what_a_tool_asks_for_is_answered_by_that_function():
    @tool(effect="read")
    async def choose(ctx: aish.Context) -> str:
        "Asks."
        return f"{await ctx.ask('Which one?', ['red', 'blue'])}"

    for answer, expected in (("blue", "blue"), ("green", "None"), (True, "None")):
        async with Aish(Scripted(call("app__choose"), "Done.")) as opened:
            reply = await opened.ask("go", tools=[choose], approve=lambda question, answer=answer: answer)  # type: ignore[misc]
        assert reply.tools[0].text == expected


async def test_the_time_of_a_tool_stands_still_while_the_user_is_asked():
    @tool(effect="read", timeout_s=0.2)
    async def choose(ctx: aish.Context) -> str:
        "Asks."
        return f"{await ctx.ask('Which one?')}"

    async def approve(question: Question) -> str:
        await asyncio.wait({asyncio.ensure_future(asyncio.Event().wait())}, timeout=0.6)
        return "late"

    async with Aish(Scripted(call("app__choose"), "Done.")) as opened:
        reply = await opened.ask("go", tools=[choose], approve=approve)
    assert reply.tools[0].text == "late"


async def test_an_error_in_that_function_refuses_the_call():
    def approve(question: Question) -> bool:
        raise ValueError("broken")

    async with Aish(Scripted(call("app__close", id=1), "Done.")) as opened:
        reply = await opened.ask("close 1", tools=[close], approve=approve)
    assert reply.tools[0].status == "refused"


async def test_an_answer_is_read_into_a_type_and_mended_once():
    model = Scripted('```json\n{"id": 3, "title": "x"}\n```')
    async with Aish(model) as opened:
        reply = await opened.ask("3?", result=Ticket)
        assert reply.value == Ticket(3, "x")
        assert (await opened.ask("3?", result=Ticket)).value.title == "x"
    assert model.requests[0].sampling.json_schema is not None
    async with Aish(Scripted('{"id": "three"}', 'So: [{"id": 3, "title": "x"}]')) as opened:
        listed = await opened.ask("all?", result=list[Ticket])
    assert listed.value == [Ticket(3, "x")]
    async with Aish(Scripted("no idea")) as opened:
        with pytest.raises(ReplyError, match="the answer is no Ticket") as caught:
            await opened.ask("3?", result=Ticket)
    assert caught.value.reply.text == "no idea"


async def test_events_come_as_they_happen_and_closing_stops_the_turn():
    ended = asyncio.Event()

    @tool(effect="read")
    async def wait(ctx: aish.Context) -> None:
        "Waits."
        ctx.status("it waits")
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with Aish(Scripted(call("app__ticket", id=3), "It is stale.")) as opened:
        kinds = [type(event.body) async for event in opened.stream("what of 3?", tools=[ticket])]
    assert {Status, ToolResult, TextDelta} <= set(kinds) and kinds[-1] is TurnFinished
    async with Aish(Scripted(call("app__wait"), "Done.")) as opened, asyncio.timeout(30):
        async with aclosing(opened.stream("wait", tools=[wait])) as events:
            async for event in events:
                if event.body == Status("it waits"):
                    break
            assert not ended.is_set()
        assert ended.is_set()
        newest, _ = await opened.sessions()
        assert newest.id == event.session
        (turn,) = await opened._engine.store.list_turns(newest.id)
        assert turn.end is TurnEnd.CANCELLED


async def test_cancelling_stops_a_tool_of_the_program():
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def wait() -> None:
        "Waits."
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with Aish(Scripted(call("app__wait"), "Done.")) as opened, asyncio.timeout(30):
        asking = asyncio.ensure_future(opened.ask("wait", tools=[wait]))
        await begun.wait()
        asking.cancel()
        await ended.wait()
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_questions_at_once_have_their_own_tools():
    @tool(effect="read")
    def one() -> str:
        "One."
        return "1"

    @tool(effect="read", name="one")
    def other() -> str:
        "Two."
        return "2"

    async with Aish(Scripted(call("app__one"), "Done.")) as opened:
        replies = await asyncio.gather(*(opened.ask("go", tools=[one if at % 2 else other]) for at in range(8)))
    assert [reply.tools[0].text for reply in replies] == ["2", "1"] * 4


async def test_tools_of_the_users_files_are_there_at_the_first_question(private_home: Path):
    write_tool(private_home, "def wd() -> str:\n    'A day.'\n    return 'Thursday'\n")
    async with Aish(Scripted(call("my__wd"), "Done.")) as opened:
        reply = await opened.ask("which day?", tools=[ticket, "my__*"])
    assert [(used.status, used.text) for used in reply.tools] == [("ok", "Thursday")]


async def test_what_is_wrong_with_a_file_is_told_at_the_first_question(private_home: Path):
    write_tool(private_home, "def broken(\n")
    async with Aish(Scripted("Done.")) as opened:
        events = [event.body async for event in opened.stream("go", tools=[ticket, "my__*"])]
    assert [body for body in events if isinstance(body, Status) and "SyntaxError" in body.text]


async def test_agents_of_the_program_get_tasks_from_the_model():
    helper = Scripted("It is stale.", name="helper")
    reader = AgentDefinition("reader", "Reads tickets.", "You read.", model=helper.model)
    model = Scripted(call("agents__run", agent="reader", task="look at 1"), "Done.")
    async with Aish(model, providers=[helper], agents=[reader], tools=[ticket]) as opened:
        reply = await opened.ask("what about ticket 1?")
        alone = await opened.ask("and 2?", model="agent:reader")
    assert [(used.name, used.text) for used in reply.tools] == [("agents__run", "It is stale.")]
    assert alone.text == "It is stale."
    assert [[tool.name for tool in request.tools] for request in helper.requests] == [["app__ticket"]] * 2


async def test_a_tool_that_fails_is_a_result_and_a_plain_function_is_an_error():
    @tool(effect="read")
    def broken() -> None:
        "Fails."
        raise ValueError("oops")

    @tool(effect="read")
    def leaving() -> None:
        "Ends."
        sys.exit("bye")

    async with Aish(Scripted(call("app__broken"), "Done.")) as opened:
        reply = await opened.ask("go", tools=[broken])
        assert (reply.tools[0].status, reply.tools[0].text) == ("tool_error", "ValueError: oops")
        with pytest.raises(UsageError, match="a list"):
            await opened.ask("go", tools="ide__*")
    async with Aish(Scripted(call("app__leaving"), "Done.")) as opened:
        reply = await opened.ask("go", tools=[leaving])
        assert (reply.tools[0].status, reply.tools[0].text) == ("tool_error", "SystemExit: bye")
        with pytest.raises(UsageError, match="is no tool"):
            await opened.ask("go", tools=[len])


async def test_tools_of_aish_can_be_named_and_called():
    async with Aish(Scripted(call("runtime__add", a=1, b=2), "3."), tools=["runtime__*"]) as opened:
        assert (await opened.ask("1 + 2?")).tools[0].text == "3"
        assert await opened.call("runtime__add", a=2, b=2) == "4"
        with pytest.raises(AishError, match="no tool named"):
            await opened.call("no__such")


async def test_a_tool_may_take_an_argument_that_has_the_name_of_an_option(private_home: Path):
    write_tool(private_home, "def vote(approve: bool, by: str) -> str:\n    'Votes.'\n    return f'{by}: {approve}'\n")
    async with Aish(Scripted()) as opened:
        assert await opened.call("my__vote", {"approve": False}, by="ann") == "ann: False"
        assert await opened.call("my__vote", {"approve": True, "by": "bob"}, by="ann") == "ann: True"


async def test_the_workspace_and_settings_are_those_that_are_given(tmp_path: Path):
    (tmp_path / "note.txt").write_text("hello")
    config = {"limits": {"max_steps": 1}, "ide": {"enabled": "always"}}
    async with Aish(
        Scripted(call("ide__read_file", path="note.txt"), "Done."), config=config, workspace=tmp_path
    ) as opened:
        reply = await opened.ask("read", tools=["ide__read_file"])
    assert "hello" in reply.tools[0].text
    assert reply.end is TurnEnd.MAX_STEPS
    with pytest.raises(AishError):
        async with Aish(config={"limits": {"max_stepz": 1}}):
            pass


async def test_images_go_along_with_a_question():
    model = Scripted("A cat.")
    async with Aish(model) as opened:
        await opened.ask(["what is it?", Image(b"png")])
    (part,) = [part for part in model.requests[0].messages[-1].parts if isinstance(part, ImagePart)]
    assert (part.media_type, part.data) == ("image/png", "cG5n")


async def test_a_failed_turn_is_an_error_with_what_there_is():
    model = Scripted(call("app__ticket", id=3), ["It is", ProviderError("the backend is gone", hint="start it")])
    async with Aish(model, tools=[ticket]) as opened:
        with pytest.raises(ReplyError, match="the backend is gone") as caught:
            await opened.ask("what of 3?")
        reply = caught.value.reply
        assert (reply.text, reply.end, [used.name for used in reply.tools]) == (
            "It is", TurnEnd.FAILED, ["app__ticket"],
        )  # fmt: skip
        assert [session.id for session in await opened.sessions()] == [reply.session]


async def test_a_model_of_no_provider_is_an_error():
    async with Aish("nothing:here") as opened:
        with pytest.raises(AishError):
            await opened.ask("hello?")


async def test_a_turn_that_a_limit_ended_is_a_reply_that_says_so():
    async with Aish(Scripted(call("app__ticket", id=3), "It is stale."), tools=[ticket]) as opened:
        reply = await opened.ask("what of 3?", max_steps=1)
    assert reply.end is TurnEnd.MAX_STEPS and reply.tools


async def test_an_answer_that_was_mended_has_the_usage_of_both_turns():
    first, second = (UsageChunk(Usage(prompt_tokens=tokens, completion_tokens=1)) for tokens in (10, 20))
    fits = '{"id": 3, "title": "x"}'
    async with Aish(Scripted(["no idea", first], [fits, second])) as opened:
        assert (await opened.ask("3?", result=Ticket)).usage.prompt_tokens == 30
    async with Aish(Scripted(["no idea", first], [second, ProviderError("gone")])) as opened:
        with pytest.raises(ReplyError, match="gone") as caught:
            await opened.ask("3?", result=Ticket)
    assert caught.value.reply.usage.prompt_tokens == 30


async def test_work_towards_a_goal_is_a_run_that_is_kept():
    async with Aish(Scripted("GOAL: complete")) as opened:
        report = await opened.work("do nothing", max_steps=2, tools=["runtime__*"])
    assert report.state is RunState.FINISHED and report.run.startswith("run_")


async def test_work_that_halts_is_decided_by_the_function():
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return False

    model = Scripted(call("shell__run", command="rm -rf /tmp/nothing-here"), "GOAL: complete")
    async with Aish(model) as opened:
        report = await opened.work("clean up", max_steps=3, approve=approve)
    assert [question.tool for question in asked] == ["shell__run"]
    assert report.state in (RunState.FINISHED, RunState.STOPPED)


async def test_a_question_can_be_planned_first():
    plan = '{"steps": [{"id": "s1", "tool": "runtime__add", "args": {"a": 1, "b": 2}}]}'
    async with Aish(Scripted(plan, "It is 3."), tools=["runtime__*"]) as opened:
        reply = await opened.ask("1 + 2?", plan=True)
    assert [(used.name, used.text) for used in reply.tools] == [("runtime__add", "3")]


class Vectors(Scripted):
    async def embed(self, model: str, inputs: Inputs) -> EmbeddingResult:
        return EmbeddingResult([[float(len(text))] for text in inputs])


async def test_texts_are_embedded_by_a_provider_of_the_program():
    async with Aish("vectors:model", providers=[Vectors(name="vectors")]) as opened:
        assert await opened.embed(["one", "three"]) == [[3.0], [5.0]]
        assert "vectors:model" in await opened.models()


async def test_cases_are_evaluated():
    async with Aish(Scripted("no call")) as opened:
        report = await opened.evaluate(limit=1)
    assert report.complete and report.results
    assert {result.model for result in report.results} == {"scripted-test:model"}


def test_one_call_needs_no_event_loop():
    reply: Reply[None] = aish.run("hi", model=Scripted("Hello."))
    assert reply.text == "Hello."


async def test_it_must_be_entered_first():
    with pytest.raises(UsageError, match="is not open"):
        await Aish().ask("hi")
