"""Why a backend had to read a prompt again stands in the trace."""

from __future__ import annotations

import pytest

from aish.engine.prompt.prefix_breaks import SentPrompts
from aish.types.chunks import UsageChunk
from aish.types.context import ContextRules
from aish.types.events import TextDelta, UsageReported
from aish.types.messages import AssistantMessage, Message, SystemMessage, user
from aish.types.requests import StepRequest
from aish.types.tools import Effect, ToolSpec
from aish.types.usage import Usage
from support.engines import Bench, bodies

TOOL = ToolSpec("t__x", "", {}, Effect.READ, "t")
FIRST = (SystemMessage("be kind"), user("one"), AssistantMessage("two"), user("three"))


def second(*messages: Message, model: str = "m", tools: tuple[ToolSpec, ...] = (TOOL,)) -> StepRequest:
    return StepRequest(model, messages, tools)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (second(*FIRST), ""),
        (second(*FIRST, AssistantMessage("four"), user("five")), ""),
        (second(SystemMessage("be kind"), user("one"), *FIRST[2:]), ""),  # equal, though not the same objects
        (second(SystemMessage("be brief"), *FIRST[1:]), "the system message changed"),
        (second(*FIRST, model="other"), "another model: other after m"),
        (second(*FIRST, tools=()), "the tools changed"),
        (second(FIRST[0], *FIRST[3:], user("five")), "message 2 of 4 left the window"),
        (second(FIRST[0], user("uno"), *FIRST[2:]), "message 2 of 4 changed"),
        (second(*FIRST[:2]), "message 3 of 4 changed"),
    ],
)
def test_the_reason_names_what_changed(request_: StepRequest, reason: str) -> None:
    sent = SentPrompts()
    assert sent.find_break("s", second(*FIRST)) == ""
    assert sent.find_break("other session", second()) == ""
    assert sent.find_break("s", request_) == reason


def test_only_recent_sessions_are_remembered() -> None:
    sent = SentPrompts()
    sent.find_break("s", second(*FIRST))
    for number in range(100):
        sent.find_break(f"s{number}", second())
    assert sent.find_break("s", second(SystemMessage("other"))) == ""


def test_a_prompt_of_many_megabytes_is_not_remembered() -> None:
    sent, pages = SentPrompts(), tuple(user(f"{number}" + "x" * 1024 * 1024) for number in range(6))
    sent.find_break("s", second(*pages[:3]))
    assert sent.find_break("s", second(pages[1])) == "message 1 of 3 left the window"
    for count in range(1, 6):
        sent.find_break("s", second(*pages[:count]))
    assert sent.find_break("s", second(pages[1])) == ""


async def test_the_reason_is_recorded_with_the_usage() -> None:
    steps = [[TextDelta("word " * 20)]] * 12
    bench = Bench(*steps, settings={"rules": ContextRules(token_budget=200)})
    session, reasons = "", []
    for number in range(12):
        events = await bench.run(f"q{number} " + "word " * 20, session=session)
        session = events[0].session
        reasons += [usage.prefix_lost for usage in bodies(events, UsageReported)]
    lost = [reason for reason in reasons if reason]
    assert lost and all("left the window" in reason for reason in lost) and len(lost) <= 6


async def test_the_newest_prompts_of_a_session_are_listed_with_what_was_cached():
    usages = [Usage(100 + number, 1, cached_tokens=90 * (number > 0)) for number in range(12)]
    steps = [[TextDelta("fine"), UsageChunk(usage)] for usage in usages]
    bench = Bench(*steps)
    session = ""
    for _ in range(12):
        session = (await bench.run("hi", session=session))[0].session
    recent = await bench.engine.recent_prompts(session)
    assert [prompt.usage.prompt_tokens for prompt in recent] == list(range(102, 112))
    assert {prompt.usage.cached_tokens for prompt in recent} == {90}
