"""Asks one case once, through the engine like any other question, and grades the result.

A case with its own tools ends at the model's first calls, which are not run. A case with real tools runs to its end in
a scratch folder; there only commands that are proved read-only run, and only scratch tools may write.
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
from aish.engine.turn.events import Transcript
from aish.errors import AishError
from aish.frontends.eval.case_world import FinalState, ScratchFiles, ScratchRecords, create_files, find_faults
from aish.frontends.eval.cases import Case, Expectation
from aish.frontends.eval.matching import ActualCall, Grade, grade_calls
from aish.frontends.eval.report import GotCall, Result, Setting
from aish.ports import Toolset
from aish.tool_calls.detect.envelope import WrittenCall
from aish.tool_calls.detect.resolution import resolve_call
from aish.tool_calls.schema.validator import schema_errors
from aish.types.decisions import Answer, Choice, Question
from aish.types.events import Event, Failed, StepStarted, TextDelta, ToolCallReady, ToolResult, TurnEnd, TurnFinished
from aish.types.messages import Message, text_of, user
from aish.types.requests import Sampling, TurnLimits, TurnRequest
from aish.types.tools import ResultStatus, ToolSpec
from aish.types.usage import Usage

EngineIn = Callable[[Path, Engine, Mapping[str, Toolset]], Engine]

# Enough for a call or a short answer; stops a small model that does not end.
MAX_TOKENS = 512
MAX_RETRIES = 2
_MAX_REPORTED_CHARS = 4000
_MAX_REPORTED_CALLS = 16
_RETRIED = (ResultStatus.BAD_ARGUMENTS, ResultStatus.SCHEMA, ResultStatus.UNKNOWN_TOOL, ResultStatus.NOT_ALLOWED)
_BROKEN_ENDS = (TurnEnd.FAILED, TurnEnd.WALL_TIME, TurnEnd.CANCELLED, TurnEnd.COST)


class AttemptSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a case is asked: everything that does not belong to the case itself."""

    setting: Setting
    seed: int
    repeat: int
    temperature: float | None
    timeout_s: float


class AttemptRecord:
    """Collects from the events of an attempt its calls, answer, usage and errors."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self._step: dict[str, tuple[str, str]] = {}  # calls of the latest step, by id
        self._rejected: set[str] = set()  # ids of calls that went back to the model
        self.text: list[str] = []
        self.rounds = self.repairs = self.retries = 0
        self.usage = Usage()
        self._is_cut = False
        self.error = ""

    def add(self, event: Event) -> None:
        match event.body:
            case TextDelta(text):
                self.text.append(text)
            case StepStarted():
                self.rounds += 1
                self.text, self._step = [], {}  # the answer is the text of the last step
            case ToolCallReady(name, arguments, repairs):
                self.calls.append((name, arguments))
                self._step[event.call] = (name, arguments)
                self.repairs += len(repairs or ())
            case ToolResult(status=status, repairs=repairs):
                if status in _RETRIED:
                    self._rejected.add(event.call)
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
        """The accepted calls of the last step, or all of them if none was accepted."""
        accepted = [call for id, call in self._step.items() if id not in self._rejected]
        return accepted or list(self._step.values())

    def repair(self, tools: Mapping[str, ToolSpec]) -> None:
        """Repairs the calls as dispatch does for server-side tools. Native calls of client tools are passed
        unchanged."""
        for id, (name, text) in self._step.items():
            ready = resolve_call(WrittenCall(name, text), tools, is_complete=not self._is_cut)
            self._step[id] = (ready.name, ready.arguments)
            self.repairs += len(ready.repairs)


async def attempt(case: Case, settings: AttemptSettings, engine: Engine, engine_in: EngineIn) -> Result:
    """Failures of the backend are results: nothing is raised for them."""
    record, started = AttemptRecord(), time.monotonic()
    grade = Grade(exact=False, right_tool=False)
    try:
        async with asyncio.timeout(settings.timeout_s):
            if case.expect.final is None:
                await _ask(engine, _request(case, settings, case.messages), record)
                if settings.setting.repair:
                    record.repair({tool.name: tool for tool in case.tools})
                grade = _grade(case.expect, record)
            else:
                grade = await _in_scratch(case, settings, engine, engine_in, record)
    except TimeoutError:
        record.error = f"no answer within {settings.timeout_s:g} s"
    except AishError as exc:
        record.error = f"{type(exc).__name__}: {exc.message}"
    except Exception as exc:  # a defect that one case triggers must not end a long run
        record.error = f"internal error: {type(exc).__name__}: {exc}"
    return _result(case, settings, record, grade, time.monotonic() - started)


def _request(case: Case, settings: AttemptSettings, messages: Sequence[Message]) -> TurnRequest:
    sampling = Sampling(temperature=settings.temperature, seed=settings.seed + settings.repeat, max_tokens=MAX_TOKENS)
    return TurnRequest(
        input=(messages[-1],),
        context=tuple(messages[:-1]),
        kept=False,
        model=settings.setting.model,
        tools=case.offer,
        client_tools=case.tools,
        tool_mode=settings.setting.mode,
        repair=settings.setting.repair,
        sampling=sampling,
        limits=TurnLimits(wall_s=settings.timeout_s, max_steps=_max_steps(case, settings)),
    )


def _max_steps(case: Case, settings: AttemptSettings) -> int:
    """Without repair the first answer counts. With it, the model may correct a rejected call."""
    if case.expect.final is not None:
        return TurnLimits().max_steps
    return 1 + MAX_RETRIES if settings.setting.repair else 1


async def _ask(engine: Engine, request: TurnRequest, record: AttemptRecord) -> Transcript:
    transcript = Transcript()
    async with engine.turn(request, ask=_scratch_only) as batches, aclosing(flatten(batches)) as events:
        async for event in events:
            record.add(event)
            transcript.apply(event)
    return transcript


async def _scratch_only(question: Question) -> Answer:
    """Answers the gate: scratch tools may write; commands that are not proved read-only are refused."""
    if question.tool.startswith(("files__", "records__")):
        return Answer(Choice.YES)
    return Answer(Choice.NO, note="only commands that read are run here; use the files tools to write")


async def _in_scratch(
    case: Case, settings: AttemptSettings, engine: Engine, engine_in: EngineIn, record: AttemptRecord
) -> Grade:
    with tempfile.TemporaryDirectory(prefix="aish-eval-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        await asyncio.to_thread(create_files, case.world, folder)
        records = ScratchRecords(case.world.records)
        scratch_engine = engine_in(folder, engine, {"files": ScratchFiles(folder), "records": records})
        messages = case.messages
        for following in (*case.then, ""):
            transcript = await _ask(scratch_engine, _request(case, settings, messages), record)
            messages = (*messages[:-1], *transcript.history("(no answer)"), user(following))
            if record.error:
                break
        state = FinalState(folder, records.tables, record.answer, frozenset(name for name, _ in record.calls))
        found = await asyncio.to_thread(
            lambda: list(find_faults(case.expect.final, state)) if case.expect.final else []
        )
    return Grade(exact=not found, right_tool=not found, reason="; ".join(found[:3]))


def _grade(expect: Expectation, record: AttemptRecord) -> Grade:
    return grade_calls(
        expect.calls, [ActualCall(name, read_arguments(text), text) for name, text in record.final_calls]
    )


def read_arguments(text: str) -> dict[str, Any] | None:
    """Parses strictly: repairs happen before this, or not at all. No text means no arguments."""
    try:
        value = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _find_fault(name: str, text: str, tools: Mapping[str, ToolSpec]) -> str:
    """Why this call could not be executed, or ""."""
    if name not in tools:
        return "no such tool"
    arguments = read_arguments(text)
    if arguments is None:
        return "the arguments are no JSON object"
    errors = schema_errors(tools[name].schema, arguments)
    return errors[0] if errors else ""


def _result(case: Case, settings: AttemptSettings, record: AttemptRecord, grade: Grade, seconds: float) -> Result:
    tools = {tool.name: tool for tool in case.tools}
    judged = case.expect.final is None
    shown = record.final_calls if judged else record.calls
    calls = [
        GotCall(name, text[:_MAX_REPORTED_CHARS], _find_fault(name, text, tools) if judged else "")
        for name, text in shown[:_MAX_REPORTED_CALLS]
    ]
    return Result(
        case=case.id,
        suite=case.suite,
        model=settings.setting.model,
        mode=settings.setting.mode_name,
        digest=case.digest,
        repeat=settings.repeat,
        outcome="error" if record.error else "right" if grade.exact else "wrong",
        wants_call=bool(case.expect.calls),
        wants_none=case.expect.no_call,
        right_tool=grade.right_tool and not record.error,
        calls=tuple(calls),
        text=record.answer[:_MAX_REPORTED_CHARS],
        reason="" if record.error else grade.reason,
        error=record.error[:_MAX_REPORTED_CHARS],
        rounds=record.rounds,
        repairs=record.repairs,
        retries=record.retries,
        seconds=round(seconds, 3),
        prompt_tokens=record.usage.prompt_tokens,
        completion_tokens=record.usage.completion_tokens,
        question=_question(case)[:_MAX_REPORTED_CHARS],
        expected=_describe_expected(case.expect),
    )


def _question(case: Case) -> str:
    parts = getattr(case.messages[-1], "parts", ())
    return " ⏎ ".join([text_of(parts), *case.then])


def _describe_expected(expect: Expectation) -> str:
    if expect.no_call:
        return "no call"
    if expect.final is not None:
        return msgspec.json.encode(expect.final).decode()[:_MAX_REPORTED_CHARS]
    shown: list[Any] = [{call.name: call.arguments} for call in expect.calls]
    return msgspec.json.encode(shown if len(shown) > 1 else shown[0]).decode()[:_MAX_REPORTED_CHARS]
