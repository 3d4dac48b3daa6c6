"""One case, asked once: through the engine like any other question, then graded.

A case with tools of its own ends at the model's first calls, which nobody runs. A case with real tools runs to its end
in a scratch folder of its own; there only commands that are proved to read are run, and only scratch tools may write.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec

from aish.engine.engine import Engine, flatten
from aish.engine.turn.transcript import Transcript
from aish.errors import AishError
from aish.frontends.eval.cases import Case, Expectation
from aish.frontends.eval.matching import Grade, Made, grade_calls
from aish.frontends.eval.results import GotCall, Result, Setting
from aish.frontends.eval.scratch import Left, ScratchFiles, ScratchRecords, faults, lay_out
from aish.ports import Toolset
from aish.tool_calls.detect.envelope import WrittenCall
from aish.tool_calls.detect.resolution import resolve_call
from aish.tool_calls.schema.validator import schema_errors
from aish.types.decisions import Answer, Choice, Question
from aish.types.events import Event, Failed, StepStarted, TextDelta, ToolCallReady, ToolResult, TurnEnd, TurnFinished
from aish.types.limits import Limits
from aish.types.messages import Message, text_of, user
from aish.types.requests import Sampling, TurnRequest
from aish.types.tools import ResultStatus, ToolSpec
from aish.types.usage import Usage

EngineIn = Callable[[Path, Engine, Mapping[str, Toolset]], Engine]

# A call or a short answer fits well; a small model that runs on is stopped.
MAX_TOKENS = 512
MAX_RETRIES = 2
_MAX_KEPT_CHARS = 4000
_MAX_KEPT_CALLS = 16
_MENDABLE = (ResultStatus.BAD_ARGUMENTS, ResultStatus.SCHEMA, ResultStatus.UNKNOWN_TOOL, ResultStatus.NOT_ALLOWED)
_BROKEN_ENDS = (TurnEnd.FAILED, TurnEnd.WALL_TIME, TurnEnd.CANCELLED, TurnEnd.COST)


class How(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about the asking that is not the case."""

    setting: Setting
    seed: int
    repeat: int
    temperature: float | None
    timeout_s: float


class Heard:
    """What a turn's events came to."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self._step: dict[str, tuple[str, str]] = {}  # calls of the latest step, by id
        self._sent_back: set[str] = set()
        self.text: list[str] = []
        self.rounds = self.repairs = self.retries = 0
        self.usage = Usage()
        self._is_cut = False
        self.error = ""

    def hear(self, event: Event) -> None:
        match event.body:
            case TextDelta(text):
                self.text.append(text)
            case StepStarted():
                self.rounds += 1
                self.text, self._step = [], {}  # the answer is what the last step says
            case ToolCallReady(name, arguments, repairs):
                self.calls.append((name, arguments))
                self._step[event.call] = (name, arguments)
                self.repairs += len(repairs or ())
            case ToolResult(status=status, repairs=repairs):
                if status in _MENDABLE:
                    self._sent_back.add(event.call)
                    self.retries += 1
                self.repairs += len(repairs or ())
            case Failed(kind=kind, message=message):
                self.error = f"{kind}: {message}"
            case TurnFinished(reason, usage, detail):
                self.usage += usage
                self._is_cut = reason is TurnEnd.LENGTH
                if reason in _BROKEN_ENDS:
                    self.error = self.error or detail or str(reason)
            case _:
                pass

    @property
    def answer(self) -> str:
        return "".join(self.text)

    @property
    def final_calls(self) -> list[tuple[str, str]]:
        """What it comes to in the end: the calls of the last step that were not sent back, or all if all were."""
        kept = [call for id, call in self._step.items() if id not in self._sent_back]
        return kept or list(self._step.values())

    def mend(self, tools: Mapping[str, ToolSpec]) -> None:
        """What dispatch would do to these calls if the tools were ours: native calls reach an asker as they are."""
        for id, (name, text) in self._step.items():
            ready = resolve_call(WrittenCall(name, text), tools, whole=not self._is_cut)
            self._step[id] = (ready.name, ready.arguments)
            self.repairs += len(ready.repairs)


async def attempt(case: Case, how: How, engine: Engine, engine_in: EngineIn) -> Result:
    """Never raises for what the backend does: that is a result, too."""
    heard, started = Heard(), time.monotonic()
    grade = Grade(exact=False, right_tool=False)
    try:
        async with asyncio.timeout(how.timeout_s):
            if case.expect.final is None:
                await _ask(engine, _request(case, how, case.messages), heard)
                if how.setting.repair:
                    heard.mend({tool.name: tool for tool in case.tools})
                grade = _grade(case.expect, heard)
            else:
                grade = await _in_scratch(case, how, engine, engine_in, heard)
    except TimeoutError:
        heard.error = f"no answer within {how.timeout_s:g} s"
    except AishError as exc:
        heard.error = f"{type(exc).__name__}: {exc.message}"
    except Exception as exc:  # a defect that one case brings out must not take the results of a long run with it
        heard.error = f"internal error: {type(exc).__name__}: {exc}"
    return _result(case, how, heard, grade, time.monotonic() - started)


def _request(case: Case, how: How, messages: Sequence[Message]) -> TurnRequest:
    sampling = Sampling(temperature=how.temperature, seed=how.seed + how.repeat, max_tokens=MAX_TOKENS)
    return TurnRequest(
        input=(messages[-1],),
        context=tuple(messages[:-1]),
        kept=False,
        model=how.setting.model,
        tools=case.offer,
        client_tools=case.tools,
        tool_mode=how.setting.mode,
        repair=how.setting.repair,
        sampling=sampling,
        limits=Limits(wall_s=how.timeout_s, max_steps=_max_steps(case, how)),
    )


def _max_steps(case: Case, how: How) -> int:
    """Without repair the first answer counts. With it, a call that is sent back may be made again."""
    if case.expect.final is not None:
        return Limits().max_steps
    return 1 + MAX_RETRIES if how.setting.repair else 1


async def _ask(engine: Engine, request: TurnRequest, heard: Heard) -> Transcript:
    transcript = Transcript()
    async with engine.turn(request, ask=_scratch_only) as batches, aclosing(flatten(batches)) as events:
        async for event in events:
            heard.hear(event)
            transcript.apply(event)
    return transcript


async def _scratch_only(question: Question) -> Answer:
    """Writing in the scratch folder is what a case is for; a command that is not proved to read is not."""
    if question.tool.startswith(("files__", "records__")):
        return Answer(Choice.YES)
    return Answer(Choice.NO, note="only commands that read are run here; use the files tools to write")


async def _in_scratch(case: Case, how: How, engine: Engine, engine_in: EngineIn, heard: Heard) -> Grade:
    with tempfile.TemporaryDirectory(prefix="aish-eval-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        await asyncio.to_thread(lay_out, case.world, folder)
        records = ScratchRecords(case.world.records)
        there = engine_in(folder, engine, {"files": ScratchFiles(folder), "records": records})
        messages = case.messages
        for following in (*case.then, ""):
            transcript = await _ask(there, _request(case, how, messages), heard)
            messages = (*messages[:-1], *transcript.history("(no answer)"), user(following))
            if heard.error:
                break
        left = Left(folder, records.tables, heard.answer, frozenset(name for name, _ in heard.calls))
        found = await asyncio.to_thread(lambda: list(faults(case.expect.final, left)) if case.expect.final else [])
    return Grade(exact=not found, right_tool=not found, reason="; ".join(found[:3]))


def _grade(expect: Expectation, heard: Heard) -> Grade:
    return grade_calls(expect.calls, [Made(name, read_arguments(text), text) for name, text in heard.final_calls])


def read_arguments(text: str) -> dict[str, Any] | None:
    """Strictly: whatever needed mending was mended before, or not at all. No text means no arguments."""
    try:
        value = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _fault(name: str, text: str, tools: Mapping[str, ToolSpec]) -> str:
    """Why this call could not be executed as it stands."""
    if name not in tools:
        return "no such tool"
    arguments = read_arguments(text)
    if arguments is None:
        return "the arguments are no JSON object"
    errors = schema_errors(tools[name].schema, arguments)
    return errors[0] if errors else ""


def _result(case: Case, how: How, heard: Heard, grade: Grade, seconds: float) -> Result:
    tools = {tool.name: tool for tool in case.tools}
    judged = case.expect.final is None
    shown = heard.final_calls if judged else heard.calls
    calls = [
        GotCall(name, text[:_MAX_KEPT_CHARS], _fault(name, text, tools) if judged else "")
        for name, text in shown[:_MAX_KEPT_CALLS]
    ]
    return Result(
        case=case.id,
        suite=case.suite,
        model=how.setting.model,
        mode=how.setting.mode_name,
        digest=case.digest,
        repeat=how.repeat,
        outcome="error" if heard.error else "right" if grade.exact else "wrong",
        wants_call=bool(case.expect.calls),
        wants_none=case.expect.no_call,
        right_tool=grade.right_tool and not heard.error,
        calls=tuple(calls),
        text=heard.answer[:_MAX_KEPT_CHARS],
        reason="" if heard.error else grade.reason,
        error=heard.error[:_MAX_KEPT_CHARS],
        rounds=heard.rounds,
        repairs=heard.repairs,
        retries=heard.retries,
        seconds=round(seconds, 3),
        prompt_tokens=heard.usage.prompt_tokens,
        completion_tokens=heard.usage.completion_tokens,
        question=_question(case)[:_MAX_KEPT_CHARS],
        expected=_expected(case.expect),
    )


def _question(case: Case) -> str:
    parts = getattr(case.messages[-1], "parts", ())
    return " ⏎ ".join([text_of(parts), *case.then])


def _expected(expect: Expectation) -> str:
    if expect.no_call:
        return "no call"
    if expect.final is not None:
        return msgspec.json.encode(expect.final).decode()[:_MAX_KEPT_CHARS]
    shown: list[Any] = [{call.name: call.arguments} for call in expect.calls]
    return msgspec.json.encode(shown if len(shown) > 1 else shown[0]).decode()[:_MAX_KEPT_CHARS]
