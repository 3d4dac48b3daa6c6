from __future__ import annotations

import json
from pathlib import Path

import pytest

from aish.errors import ConfigError, ModelNotFound, ProviderBusy, ProviderError, ProviderTimeout, ProviderUnavailable
from aish.providers.scripted import MAX_REQUESTS, Item, ScriptedProvider, fake_tool, from_steps, load_script
from aish.types.chunks import CallFragment, Chunk, StepEnd, StepFinished, UsageChunk
from aish.types.events import ReasoningDelta, Status, TextDelta
from aish.types.messages import AssistantMessage, user
from aish.types.requests import StepRequest
from aish.types.usage import Usage
from support.engines import Bench, Tools, bodies, said

STOPPED = StepFinished(StepEnd.STOP)


async def play(*steps: list[Item], said_before: int = 0, deadline_s: float = 5) -> list[Chunk]:
    provider = ScriptedProvider("s", {"m": from_steps(steps)})
    messages = (user("hi"), *[AssistantMessage("before")] * said_before)
    async with provider.stream(StepRequest("m", messages, deadline_s=deadline_s)) as chunks:
        return [chunk async for batch in chunks for chunk in batch]


async def test_a_step_is_chosen_by_the_conversation_and_the_last_one_is_played_on():
    steps = [[TextDelta("one")], [TextDelta("two")]]
    assert [(await play(*steps, said_before=n))[0].text for n in range(4)] == ["one", "two", "two", "two"]


async def test_a_finish_that_the_script_leaves_out_is_added_and_one_in_the_middle_comes_last():
    assert await play([TextDelta("a")]) == [TextDelta("a"), STOPPED]
    assert await play([]) == [STOPPED]
    length, usage = StepFinished(StepEnd.LENGTH), UsageChunk(Usage(1, 2))
    assert await play([length, TextDelta("a"), usage]) == [TextDelta("a"), usage, length]


async def test_an_error_is_raised_where_it_stands_and_again_the_next_time():
    provider = ScriptedProvider("s", {"m": from_steps([[TextDelta("a"), ProviderUnavailable("down")]])})
    for _ in range(2):
        async with provider.stream(StepRequest("m", (user("hi"),))) as chunks:
            assert await anext(chunks) == [TextDelta("a")]
            with pytest.raises(ProviderUnavailable) as caught:
                await anext(chunks)
    frames = caught.traceback
    assert len({(frame.path, frame.lineno) for frame in frames}) == len(frames)


async def test_pauses_that_pass_the_deadline_end_in_a_timeout():
    with pytest.raises(ProviderTimeout):
        await play([0.02, TextDelta("a"), 30.0, TextDelta("b")], deadline_s=0.05)


async def test_it_serves_for_days_and_keeps_only_the_last_requests():
    provider = ScriptedProvider("s", {"m": from_steps([[]])})
    for n in range(MAX_REQUESTS + 10):
        async with provider.stream(StepRequest("m", (user(str(n)),))) as chunks:
            assert [chunk async for batch in chunks for chunk in batch] == [STOPPED]
    assert len(provider.requests) == MAX_REQUESTS
    assert provider.requests[-1].messages == (user(str(MAX_REQUESTS + 9)),)


async def test_an_unknown_script_names_those_there_are():
    with pytest.raises(ModelNotFound) as caught:
        await ScriptedProvider("s", {"a": fake_tool, "b": fake_tool}).describe("c")
    assert caught.value.hint == "it has a, b"


async def test_it_has_no_embeddings_and_says_so():
    with pytest.raises(ProviderError, match="s has no embeddings"):
        await ScriptedProvider("s", {}).embed("m", ["x"])


async def test_a_file_holds_every_kind_of_item(tmp_path: Path):
    items = [
        {"text": "a"},
        {"reasoning": "hm"},
        {"status": "note"},
        {"call": {"index": 1, "id": "c", "name": "t", "arguments": "{}"}},
        {"call": {"name": "t"}},
        {"usage": {"prompt_tokens": 1, "completion_tokens": 2}},
        {"wait_s": 0},
        {"finish": "length"},
    ]
    file = tmp_path / "demo.json"
    file.write_text(json.dumps([items, [{"error": {"status": 429, "message": "slow down"}}]]))
    script = load_script(file)
    assert script(StepRequest("m", (user("hi"),))) == [
        TextDelta("a"),
        ReasoningDelta("hm"),
        Status("note"),
        CallFragment(1, "c", "t", "{}"),
        CallFragment(None, "", "t", ""),
        UsageChunk(Usage(1, 2)),
        0.0,
        StepFinished(StepEnd.LENGTH),
    ]
    (error,) = script(StepRequest("m", (AssistantMessage("x"),)))
    assert isinstance(error, ProviderBusy)
    assert error.message == "scripted answered 429: slow down"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is not a JSON list of steps"),
        ("{}", "has no steps"),
        ("[]", "has no steps"),
        ("[1]", "is not a JSON list of steps"),
        ('[["x"]]', "unknown item 'x'"),
        ('[[{"txt": "a"}]]', "unknown item {'txt': 'a'}"),
        ('[[{"finish": "sunset"}]]', "is not a JSON list of steps"),
        ('[[{"call": {"index": "one"}}]]', "is not a JSON list of steps"),
        ('[[{"error": {"status": "x"}}]]', "is not a JSON list of steps"),
    ],
)
async def test_a_file_that_is_no_script_is_refused_with_a_reason(tmp_path: Path, text: str, sentence: str):
    file = tmp_path / "demo.json"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_script(file)
    assert str(file) in caught.value.message
    assert sentence in caught.value.message


async def test_a_file_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="cannot read the script"):
        load_script(tmp_path / "none.json")


async def test_the_built_in_model_calls_a_tool_and_answers_with_its_result():
    async def add(arguments, context):
        return said(str(arguments["a"] + arguments["b"]))

    tools = Tools().add("runtime__add", add)
    bench = Bench(provider=ScriptedProvider("scripted", {"fake-tool": fake_tool}), tools=tools)
    events = await bench.run("what is 19 + 23?", model="scripted:fake-tool")
    assert tools.calls == [("runtime__add", {"a": 19, "b": 23})]
    assert "".join(body.text for body in bodies(events, TextDelta)) == "The result of runtime__add is 42."


async def test_the_built_in_model_takes_what_tool_there_is_or_says_that_there_is_none():
    for name, arguments in (("runtime__echo", {"text": "hi"}), ("other__tool", {})):
        tools = Tools().add(name)
        bench = Bench(provider=ScriptedProvider("scripted", {"fake-tool": fake_tool}), tools=tools)
        await bench.run("hi", model="scripted:fake-tool")
        assert tools.calls == [(name, arguments)]
    bench = Bench(provider=ScriptedProvider("scripted", {"fake-tool": fake_tool}))
    events = await bench.run("hi", model="scripted:fake-tool")
    assert bodies(events, TextDelta)[0].text == "There is no tool I could call."
