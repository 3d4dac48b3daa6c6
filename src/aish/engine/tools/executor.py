"""Runs one authorised call and turns every way it can end into an outcome.

A tool has its own timeout, and never more time than the turn has left. A tool that ignores its cancellation is
abandoned after a grace period, so it cannot hang the turn.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

import msgspec

from aish.errors import ToolError
from aish.ports import Ask, CallContext, CallerRights, Clock, Previewing, Toolset, Witnessing
from aish.types.decisions import Choice, Question, QuestionKind
from aish.types.messages import ImagePart, Part, TextPart, text_of
from aish.types.tools import Arguments, Effect, JsonObject, ResultStatus, ToolOutput, ToolSpec

# Time a cancelled tool has to end before it is abandoned.
CANCEL_GRACE_S = 5.0
# Time to compute a preview. A language server may have to start for it.
_PREVIEW_S = 30.0
_WITNESS_S = 10.0
_SHORTEST_WAIT_S = 0.05  # the time that is left stays the same while the user is asked
_SLOW_S = 1.0  # then the user is told what is being waited for
_SLOW_CHECKPOINT = "the files of the workspace are being stored, so that this turn can be rewound"
# The mark of a tool that has cut the middle out of its output.
_LEFT_OUT = re.compile(r"\n\[aish\] … (\d{1,18}) bytes left out …\n")


class Outcome(msgspec.Struct, frozen=True):
    """`structured` is as the tool gave it. `engine/tools/structured_results.py` prepares it for programs. `child_turn`
    is the turn that the call has run."""

    status: ResultStatus
    parts: tuple[Part, ...]
    duration_ms: float = 0.0
    truncated_chars: int = 0
    structured: JsonObject | None = None
    child_turn: str = ""

    @property
    def text(self) -> str:
        return text_of(self.parts)

    def with_note(self, note: str) -> Outcome:
        return msgspec.structs.replace(self, parts=(TextPart(f"[aish] {note}\n"), *self.parts))

    def truncate(self, max_chars: int) -> Outcome:
        """The outcome with the text cut to `max_chars`, with a mark that says how much is missing."""
        size = len(self.text)
        if size <= max_chars:
            return self
        images: tuple[Part, ...] = tuple(part for part in self.parts if isinstance(part, ImagePart))
        cut = TextPart(_cut_middle(self.text, max_chars))
        return msgspec.structs.replace(self, parts=(cut, *images), truncated_chars=size - max_chars)


class Preview(msgspec.Struct, frozen=True):
    """`text` is what the call would change, "" if that is unknown. `error`: the call would fail, for this reason."""

    text: str = ""
    error: str = ""


def _ignore_output(text: str) -> None:
    pass


def aish_says(status: ResultStatus, text: str) -> Outcome:
    return Outcome(status, (TextPart(f"[aish] {text}"),))


_OUTPUT_PAUSE_S = 0.1
# Of one call this much output is shown in full, and then only the end of what comes between two pauses.
_FULL_OUTPUT_CHARS = 64 * 1024
_OUTPUT_END_CHARS = 1024
OnOutput = Callable[[str, int], None]
BeforeEffect = Callable[[], Awaitable[str]]


class OutputRelay:
    """Passes on what a running call prints: whole lines, at most ten times a second, and in bounded memory.

    `send` gets the text and the number of characters that were left out before it. Output that comes after the last
    pause is not passed on, because the result has it.
    """

    def __init__(self, send: OnOutput, redact: Callable[[str], str]) -> None:
        self._send = send
        self._redact = redact
        self._text = ""
        self._shown_chars = 0
        self._left_out_chars = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, text: str) -> None:
        room = max(_OUTPUT_END_CHARS, _FULL_OUTPUT_CHARS - self._shown_chars)
        self._left_out_chars += max(0, len(self._text) + len(text) - room)
        self._text = (self._text + text[-room:])[-room:]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_OUTPUT_PAUSE_S, self._flush)

    def _flush(self) -> None:
        self._timer = None
        lines, newline, rest = self._text.rpartition("\n")
        if newline or len(rest) >= _OUTPUT_END_CHARS:
            shown, self._text = (lines + newline, rest) if newline else (rest, "")
            self._shown_chars += len(shown)
            left_out, self._left_out_chars = self._left_out_chars, 0
            self._send(self._redact(shown), left_out)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class _Context:
    def __init__(
        self,
        tool: ToolSpec,
        session: str,
        turn: str,
        call: str,
        owner: str,
        on_status: Callable[[str], None],
        on_output: Callable[[str], None],
        *,
        is_proved: bool,
        is_unasked: bool,
        rights: CallerRights | None,
        ask: Ask | None,
        redact: Callable[[str], str],
    ) -> None:
        self._redact = redact
        self._waited_s = 0.0  # for answers of the user, so far
        self._asked_since_s = 0.0
        self._questions = 0  # that are open
        self.rights = rights
        self._ask = ask
        self.tool = tool
        self.session = session
        self.turn = turn
        self.call = call
        self.owner = owner
        self.is_proved = is_proved
        self.is_unasked = is_unasked
        self.status = on_status
        self.output = on_output

    async def ask_user(self, text: str, choices: Sequence[str]) -> str | None:
        if self._ask is None:
            return None
        shown = [self._redact(choice) for choice in choices]
        question = Question(
            self.call, QuestionKind.INPUT, self.tool.name, self.tool.effect, {"choices": shown}, self._redact(text),
            turn=self.turn,
        )  # fmt: skip
        if not self._questions:
            self._asked_since_s = _now_s()
        self._questions += 1
        try:
            answer = await self._ask(question)
        except Exception:
            return None  # asking failed, which is no answer
        finally:
            self._questions -= 1
            if not self._questions:
                self._waited_s += _now_s() - self._asked_since_s
        if answer.choice is not Choice.YES or not choices:
            return answer.note if answer.choice is Choice.YES else None
        return choices[shown.index(answer.note)] if answer.note in shown else None

    def find_pause_s(self) -> float:
        """How long the call has waited for the user."""
        return self._waited_s + (_now_s() - self._asked_since_s if self._questions else 0.0)


class ConcurrencyLimits:
    """Limits the concurrent calls of each tool, over all turns of the engine."""

    def __init__(self) -> None:
        self._semaphores: dict[str, asyncio.Semaphore] = {}

    def limit(self, spec: ToolSpec) -> AbstractAsyncContextManager[None]:
        if spec.concurrency <= 0:
            return nullcontext()
        return self._semaphores.setdefault(spec.name, asyncio.Semaphore(spec.concurrency))


class Executor:
    """`for_programs`: structured results are kept. They may be large, and a turn would hold all of them to its end.
    `before_effect` is run once, before the first call that does more than read; it returns a notice for the user."""

    def __init__(
        self,
        *,
        tools: Toolset,
        concurrency: ConcurrencyLimits,
        clock: Clock,
        session: str,
        turn: str,
        redact: Callable[[str], str],
        owner: str = "",
        for_programs: bool = False,
        before_effect: BeforeEffect | None = None,
    ) -> None:
        self._before_effect = before_effect
        self._owner = owner
        self._for_programs = for_programs
        self._tools = tools
        self._concurrency = concurrency
        self._clock = clock
        self._session = session
        self._turn = turn
        self._redact = redact

    async def run(
        self,
        spec: ToolSpec,
        arguments: Arguments,
        *,
        call: str,
        deadline_s: float,
        on_status: Callable[[str], None],
        on_output: OnOutput | None = None,
        is_proved: bool = False,
        is_unasked: bool = False,
        rights: CallerRights | None = None,
        ask: Ask | None = None,
    ) -> Outcome:
        """`on_output` gets what the tool prints while it runs; None if it is not shown. `rights` as in a CallContext.
        `ask` puts what the tool asks for to the user."""
        if self._before_effect is not None and spec.effect is not Effect.READ and not is_proved:
            await self._prepare_effect(self._before_effect, on_status)
        started_s = self._clock.monotonic_s()
        relay = OutputRelay(on_output, self._redact) if on_output else None
        output = relay.add if relay else _ignore_output
        context = _Context(
            spec, self._session, self._turn, call, self._owner, on_status, output, is_proved=is_proved,
            is_unasked=is_unasked, rights=rights, ask=ask, redact=self._redact,
        )  # fmt: skip
        # A turn has a deadline of its own, which waits while the user is asked.
        timeout_s = None if spec.runs_turns else min(spec.timeout_s, deadline_s)
        try:
            outcome = await self._call_guarded(spec, arguments, context, timeout_s)
        finally:
            if relay:
                relay.close()
        duration_ms = round((self._clock.monotonic_s() - started_s) * 1000, 3)
        parts = tuple(self._clean(part) for part in outcome.parts)
        structured = outcome.structured if self._for_programs else None
        return msgspec.structs.replace(outcome, parts=parts, duration_ms=duration_ms, structured=structured)

    async def _prepare_effect(self, before_effect: BeforeEffect, on_status: Callable[[str], None]) -> None:
        self._before_effect = None
        slow = asyncio.get_running_loop().call_later(_SLOW_S, on_status, _SLOW_CHECKPOINT)
        try:
            notice = await before_effect()
        finally:
            slow.cancel()
        if notice:
            on_status(notice)

    async def preview(self, tool: str, arguments: Arguments, *, call: str, deadline_s: float) -> Preview:
        """What the call would change, or why it would fail. Never raises."""
        if not isinstance(self._tools, Previewing):
            return Preview()
        try:
            async with asyncio.timeout(min(_PREVIEW_S, deadline_s)):
                return Preview(self._redact(await self._tools.preview(tool, arguments, call)))
        except ToolError as exc:
            return Preview(error=self._redact(exc.message))
        except Exception:
            return Preview()  # the question is asked without a preview

    async def compute_witness(self, spec: ToolSpec, arguments: Arguments) -> str:
        """Digests of the state before the call and after it; "" if there are none. Never raises.

        After a crash, a comparison with the state found shows whether the call was made.
        """
        if not isinstance(self._tools, Witnessing):
            return ""
        try:
            async with asyncio.timeout(_WITNESS_S):
                return await self._tools.compute_witness(spec.name, arguments)
        except Exception:
            return ""  # then after a crash the user is asked whether the call was made

    async def _call_guarded(
        self, spec: ToolSpec, arguments: Arguments, context: _Context, timeout_s: float | None
    ) -> Outcome:
        task = asyncio.create_task(self._call(spec, arguments, context))
        try:
            await _wait(task, context, timeout_s)
        except asyncio.CancelledError:
            await _end(task)
            raise
        if not task.done():
            await _end(task)
            return aish_says(
                ResultStatus.TIMEOUT, f"{spec.name} gave no answer within {timeout_s:g} s and was stopped."
            )
        return _outcome_of(spec, task)

    async def _call(self, spec: ToolSpec, arguments: Arguments, context: CallContext) -> ToolOutput:
        async with self._concurrency.limit(spec):
            return await self._tools.call(spec.name, arguments, context)

    def _clean(self, part: Part) -> Part:
        return TextPart(self._redact(part.text)) if isinstance(part, TextPart) else part


async def _wait(task: asyncio.Task[ToolOutput], context: _Context, timeout_s: float | None) -> None:
    """Waits until the call is over or its time is up, which stands still while the user is asked."""
    ends_s = None if timeout_s is None else _now_s() + timeout_s
    while True:
        left_s = None if ends_s is None else ends_s + context.find_pause_s() - _now_s()
        if left_s is not None and left_s <= 0:
            return
        done, _ = await asyncio.wait({task}, timeout=left_s if left_s is None else max(left_s, _SHORTEST_WAIT_S))
        if done:
            return


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _outcome_of(spec: ToolSpec, task: asyncio.Task[ToolOutput]) -> Outcome:
    if task.cancelled():
        return aish_says(ResultStatus.CANCELLED, f"{spec.name} was cancelled.")
    error = task.exception()
    if isinstance(error, ToolError):
        return aish_says(error.status, error.message)
    if error is not None:
        return aish_says(ResultStatus.FAILED, f"{spec.name} failed: {type(error).__name__}: {error}")
    output = task.result()
    status = ResultStatus.TOOL_ERROR if output.is_error else ResultStatus.OK
    return Outcome(status, output.parts, structured=output.structured, child_turn=output.child_turn)


async def _end(task: asyncio.Task[ToolOutput]) -> None:
    """Cancels the task and waits for it, for a bounded time."""
    task.cancel()
    await asyncio.wait({task}, timeout=CANCEL_GRACE_S)
    if task.done() and not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not report it


def _cut_middle(text: str, max_chars: int) -> str:
    """Cuts the middle out. The mark also counts what the tool itself has left out there."""
    keep_until = max_chars * 3 // 4
    tail_start = len(text) - (max_chars - keep_until)
    cut_start, cut_end = keep_until, tail_start
    bytes_before, mark_chars = 0, 0
    for mark in _LEFT_OUT.finditer(text):
        if mark.end() > keep_until and mark.start() < tail_start:  # wholly or in part
            cut_start, cut_end = min(cut_start, mark.start()), max(cut_end, mark.end())
            bytes_before += int(mark[1])
            mark_chars += len(mark[0])
    before = f" and {bytes_before} bytes" if bytes_before else ""
    cut_chars = cut_end - cut_start - mark_chars
    return f"{text[:cut_start]}\n[aish] … {cut_chars} characters{before} left out …\n{text[cut_end:]}"
