"""Asking from the shell: what is offered after an answer, and what is not."""

import asyncio
import io
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from aish.config.schema.tools import ShellConfig
from aish.frontends.shell.ask_model import ask_model
from aish.frontends.shell.shell import Notices, Shell
from aish.frontends.terminal import Output
from aish.types.live_shell import CommandHint, RunResult
from aish.types.messages import text_of, user
from aish.types.models import ModelProfile
from aish.types.requests import TurnRequest
from support.eventually import eventually

HINT = CommandHint("du", "how much space files take", "du -ah . | sort -rh | head -20")


class Person:
    """A shell whose model is small and does not answer before it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.requests: list[TurnRequest] = []
        self.parameters = 1000
        self.said = io.StringIO()
        self.answering = asyncio.Event()
        self.answers = asyncio.Event()
        output = Output(self.said, self.said, color=False)
        config = SimpleNamespace(shell=ShellConfig(continue_after_commands="never", attach_max_chars=1000))
        runtime = SimpleNamespace(config=config, find_commands=self._find, mcp_servers={}, explain=self._explain)
        runtime.launch_context = SimpleNamespace(cwd=Path("/"), env={})
        runtime.skills, runtime.read_skill = tuple, None
        engine = SimpleNamespace(selector=SimpleNamespace(select=self._choose), turn=self._turn)
        request = TurnRequest(input=(user(""),))
        self.shell = Shell(
            engine, runtime, output, request, live=None, notices=Notices(output), approves_all=True,
            make_editor=lambda shell: SimpleNamespace(ask=self._ask),
        )  # fmt: skip

    async def _find(self, text: str) -> list[CommandHint]:
        return [HINT]

    async def _choose(self, request: TurnRequest) -> SimpleNamespace:
        return SimpleNamespace(route=SimpleNamespace(info=ModelProfile("p", "m", parameters=self.parameters)))

    async def _ask(self, question: str, typed: str) -> str | None:
        self.asked.append(question)
        return "q"

    def _explain(self, tool: str, arguments: object) -> SimpleNamespace:
        return SimpleNamespace(verdict=None, reason="it is a test", always=None)

    @asynccontextmanager
    async def _turn(self, request: TurnRequest, *, ask: object):
        self.requests.append(request)

        async def nothing():
            self.answering.set()
            await self.answers.wait()
            for none in ():
                yield none

        yield nothing()


async def test_a_small_models_question_for_a_command_is_offered_what_is_known():
    person = Person()
    person.answers.set()
    await ask_model(person.shell, "how do I find the biggest files here?")
    assert len(person.asked) == 1 and HINT.example in person.said.getvalue()


async def test_a_small_model_is_not_asked_for_a_command_that_is_known():
    person = Person()
    async with asyncio.timeout(10):
        await ask_model(person.shell, "how do I find the biggest files here?")
    assert not person.answering.is_set()
    assert len(person.asked) == 1 and HINT.example in person.said.getvalue()


async def test_an_answer_that_was_stopped_is_offered_nothing():
    person = Person()
    task = asyncio.create_task(ask_model(person.shell, "how do I see what is big here?"))
    await eventually(person.answering.is_set)
    person.shell.stop_answer()
    await task
    assert person.asked == [] and "stopped" in person.said.getvalue()


@pytest.mark.parametrize(
    ("parameters", "text", "goes_along"),
    [
        (1000, "what is the capital of France", False),
        (1000, "what does this say about France", True),
        (7_000_000_000, "what is the capital of France", True),
    ],
)
async def test_what_was_run_goes_along_but_not_with_any_question_to_a_small_model(parameters, text, goes_along):
    person = Person()
    person.parameters = parameters
    person.answers.set()
    attached = person.shell.command_context
    attached.add_run(RunResult("ls", 0, "/", 0.1, "README.md"))
    await ask_model(person.shell, text)
    [message] = person.requests[0].input
    assert ("[I ran] $ ls" in text_of(message.parts)) is goes_along
    assert bool(attached.text()) is not goes_along
