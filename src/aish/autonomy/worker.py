"""Works towards a goal by itself: step after step, until it is reached, a limit is, or a person has to decide.

A step is one turn in the run's session and the commands that its text proposes, all through the one gate. Commands that
are proved harmless run, and so do those that a sandbox holds (`destructive_check`); whatever else the gate would ask
about halts the work. The run is durable: what is needed to go on is saved before and after each step, and another
process can take it over.
"""

from __future__ import annotations

from contextlib import aclosing

import msgspec

from aish.autonomy.destructive_check import Containment, hazard_of
from aish.autonomy.prompts import (
    LOST_ANSWER,
    LOST_SECRET,
    NOT_ALL_DONE,
    is_complete,
    next_step,
    system_text,
    told_of_call,
    told_of_recovery,
)
from aish.autonomy.second_opinion import objection_to, write_tasks
from aish.autonomy.state import NorrisBody, Show, Watcher
from aish.autonomy.turn_summary import Heard
from aish.engine.engine import Engine
from aish.engine.tools.consent import ASKED_FOR
from aish.errors import AishError, RunLost, StoreError
from aish.runs.journal import digest_of
from aish.runs.ownership import OwnedRun
from aish.safety.redaction.redactor import MARK
from aish.tool_calls.detect.proposals import proposals
from aish.types.decisions import Answer, Choice, Question, QuestionKind
from aish.types.events import ToolResult
from aish.types.messages import text_of, user
from aish.types.requests import TurnRequest
from aish.types.runs import Halt, HaltAnswer, HaltChoice, HaltKind, RunState
from aish.types.tools import Arguments, Effect, ResultStatus
from aish.types.usage import Category

SHELL = "shell__run"
_SHELL_RULE = "gate.exec"  # what asks about a command that is neither proved harmless nor destructive
_LEFT_OFF = "you stopped it in the middle"
_MAX_SKIPS = 3
_MAX_IDLE = 3  # steps in a row without any effect


class _Stopped(Exception):
    """No error: the way out of the middle of a step."""

    def __init__(self, state: RunState, reason: str, halt: Halt | None = None) -> None:
        super().__init__(reason)
        self.state = state
        self.reason = reason
        self.halt = halt


class Norris:
    def __init__(self, engine: Engine, run: OwnedRun, watcher: Watcher, containment: Containment) -> None:
        self._engine = engine
        self._run = run
        self._watcher = watcher
        self._containment = containment
        self._body = msgspec.json.decode(run.record.body, type=NorrisBody)
        self._goal = run.record.goal
        self._kept = frozenset(self._body.commands)  # as they were stored: without secrets
        self._pausing = ""  # why
        self._stopped: _Stopped | None = None
        self._began_s = engine.clock.monotonic_s()

    def pause(self, why: str = "you stopped it") -> None:
        """Halt before the next action."""
        self._pausing = why

    @property
    def is_pausing(self) -> bool:
        """It was told to halt, and has not come to the next action yet."""
        return bool(self._pausing)

    async def work(self, answer: HaltAnswer | None = None) -> RunState:
        """`answer` is what a person said to the halt it was left at. The run's record says why it ended."""
        try:
            await self._take_up(answer)
            await self._preplan()
            while not await self._carry_out():
                await self._step()
            return await self._end(RunState.FINISHED, "the goal is reached")
        except _Stopped as stop:
            return await self._end(stop.state, stop.reason, stop.halt)

    async def left_off(self) -> None:
        """After `work` was cancelled because a person wanted it so: it stands halted, to be gone on with. What was
        cancelled by the end of the process is taken up by another."""
        self._change(allowed="")  # what was under way is asked about again
        await self._end(RunState.HALTED, _LEFT_OFF, Halt(HaltKind.PAUSE, _LEFT_OFF))

    async def _take_up(self, answer: HaltAnswer | None) -> None:
        halt = self._body.halt
        lost = LOST_ANSWER if self._body.asked else ""
        told = "\n\n".join(filter(None, (self._body.told, lost, self._recovered())))
        self._change(halt=None, asked=False, told=told)
        if answer is None or halt is None:
            return
        if answer.choice in (HaltChoice.ABORT, HaltChoice.LEAVE):
            raise _Stopped(_STATE_AFTER[answer.choice], halt.reason, halt)
        if answer.note:
            self._tell(f"The user says: {answer.note}")
        if halt.question is not None:
            await self._do_after_all(halt.question, answer)

    async def _do_after_all(self, question: Question, answer: HaltAnswer) -> None:
        """The call it halted at, now that a person has decided."""
        waiting = self._body.commands
        if question.tool == SHELL and waiting[:1] == (question.arguments.get("command"),):
            self._change(commands=waiting[1:])
        if answer.choice is HaltChoice.SKIP:
            self._tell(f"The user skipped {question.tool} {msgspec.json.encode(question.arguments).decode()}.")
            self._not_done()
            return
        arguments = question.arguments if answer.arguments is None else answer.arguments
        if answer.arguments is None and not self._is_whole(question.tool, arguments):
            self._not_done()
            return
        self._change(allowed=digest_of(question.tool, arguments))
        await self._save()
        result = await self._call(question.tool, arguments)
        self._change(allowed="")
        self._tell_of(question.tool, arguments, result)

    def _recovered(self) -> str:
        for step in self._run.recovered:
            self._watcher.note(f"{step.tool}: {step.outcome}")
        return told_of_recovery(self._run.recovered)

    async def _preplan(self) -> None:
        body = self._body
        if not body.preplanner or body.tasks or body.step:
            return
        try:
            tasks = await write_tasks(self._engine, body.preplanner, self._goal, self._run.record.session)
        except AishError as exc:
            self._watcher.note(f"no task list: {exc.message}; going on without")
            return
        self._change(tasks=tasks)
        self._watcher.note(f"tasks:\n{tasks}")
        await self._save()

    async def _step(self) -> None:
        """Asks the model. What it wants done by commands is left to be carried out."""
        await self._check_limits()
        number, told = self._body.step + 1, self._body.told
        text = next_step(number, self._body.max_steps, told)
        self._change(step=number, asked=True)
        await self._save()
        async with self._watcher.step(number, self._body.max_steps, await self._cost()) as show:
            heard = await self._turn(text, show)
        self._change(asked=False)
        if heard.trouble:  # it was not heard, or not answered: the same again
            self._change(step=number - 1)
            await self._check_limits()
            if heard.is_spent:
                raise _Stopped(RunState.STOPPED, heard.trouble)
            await self._decide(Halt(HaltKind.TROUBLE, heard.trouble))
            return
        commands = tuple(proposals(heard.said))
        idle = 0 if heard.acted or commands else self._body.idle + 1
        self._change(told="", commands=commands, complete=is_complete(heard.said), idle=idle)
        if self._stopped:
            raise self._stopped
        if idle:
            self._tell("You did nothing. Use a tool or a CMD: line, or write that the goal is complete.")
        await self._save()

    async def _carry_out(self) -> bool:
        """The commands of the last step, one by one; then whether the goal is reached."""
        while self._body.commands:
            await self._command(self._body.commands[0])
            self._change(commands=self._body.commands[1:])
            await self._save()
        return self._body.complete

    async def _check_limits(self) -> None:
        body = self._body
        if why := self._pausing:
            self._pausing = ""
            await self._decide(Halt(HaltKind.PAUSE, why))
        if body.step >= body.max_steps:
            raise _Stopped(RunState.STOPPED, f"the limit of {body.max_steps} steps is reached")
        self._check_time()
        if body.max_cost is not None and (cost := await self._cost()) >= body.max_cost:
            raise _Stopped(RunState.STOPPED, f"${cost:.4f} of ${body.max_cost:g} are spent")
        if body.idle >= _MAX_IDLE:
            raise _Stopped(RunState.STOPPED, f"the model did nothing in {_MAX_IDLE} steps")

    def _check_time(self) -> None:
        if self._spent_s() >= self._body.max_s:
            raise _Stopped(RunState.STOPPED, f"the limit of {self._body.max_s:g} s is reached")

    async def _turn(self, text: str, show: Show) -> Heard:
        heard = Heard()
        try:
            async with (
                self._engine.turn(
                    await self._request(text), ask=self._ask, journal=self._run.journal, left=show
                ) as batches,
                aclosing(batches) as events,
            ):
                async for batch in events:
                    show(batch)
                    heard.see(batch)
                    if self._stopped or (self._pausing and heard.is_between_actions):
                        break
        except (RunLost, StoreError):  # what was done may not be in the journal: it is not tried again from here
            raise
        except AishError as exc:
            heard.trouble = exc.message
        return heard

    async def _request(self, text: str) -> TurnRequest:
        body = self._body
        left = None if body.max_cost is None else max(0.0, body.max_cost - await self._cost())
        limits = msgspec.structs.replace(body.turn, wall_s=self._left_s(), max_cost=left)
        system = "\n\n".join(filter(None, (system_text(self._goal, body.tasks), body.system)))
        return TurnRequest(
            (user(text),),
            model=body.model,
            session=self._run.record.session,
            may_be_new=True,
            system=system,
            tools=body.tools,
            ask_about=self._asked_about(),
            may_fall_back=body.may_fall_back,
            category=Category.NORRIS,
            limits=limits,
            owner=body.owner,
        )

    def _asked_about(self) -> tuple[str, ...]:
        """Commands, also where a rule allows them; with a second opinion everything."""
        return ("*",) if self._body.second_opinion else (SHELL,)

    def _left_s(self) -> float:
        """For one turn or one command."""
        return max(1.0, min(self._body.turn.wall_s, self._body.max_s - self._spent_s()))

    async def _command(self, command: str) -> None:
        """A `CMD:` line: the same tool, gate and journal as a call."""
        self._check_time()
        if why := self._pausing:
            self._pausing = ""
            await self._decide(Halt(HaltKind.PAUSE, f"{why} before: {command}"))
        arguments: Arguments = {"command": command}
        if command in self._kept and not self._is_whole(SHELL, arguments):
            self._not_done()
            return
        self._tell_of(SHELL, arguments, await self._call(SHELL, arguments))

    def _is_whole(self, tool: str, arguments: Arguments) -> bool:
        """What was stored had its secrets taken out, and would now do something else than was meant."""
        if MARK not in msgspec.json.encode(arguments).decode():
            return True
        self._watcher.note(f"not run: {tool} held a secret, and secrets are not kept while work stands still")
        self._tell(told_of_call(tool, arguments, "not run", LOST_SECRET))
        return False

    async def _call(self, tool: str, arguments: Arguments) -> ToolResult:
        """Without the model, by the same gate and journal."""
        written = msgspec.json.encode(arguments).decode()
        result = await self._engine.call_tool(
            tool,
            written,
            tools=self._body.tools,
            ask=self._ask,
            journal=self._run.journal,
            ask_about=self._asked_about(),
            wall_s=self._left_s(),
            owner=self._body.owner,
        )
        if self._stopped:
            raise self._stopped
        self._watcher.ran(arguments.get("command", f"{tool} {written}"), result)
        return result

    async def _ask(self, question: Question) -> Answer:
        if digest_of(question.tool, question.arguments) == self._body.allowed:
            self._change(skips=0)
            return Answer(Choice.YES)
        hazard = await hazard_of(question, self._containment) if question.tool == SHELL else ""
        reason = hazard or question.reason
        if not hazard and self._may_run(question):
            objection = await self._objection(question)
            if not objection:
                self._change(skips=0)
                return Answer(Choice.YES)
            reason = f"a second opinion: {objection}"
        return await self._halted(Halt(HaltKind.EFFECT, reason, question))

    def _may_run(self, question: Question) -> bool:
        """Commands without a hazard, and what the gate would not have asked about."""
        if question.kind is not QuestionKind.EFFECT or question.insist:
            return False
        return question.rule == ASKED_FOR or (question.tool == SHELL and question.rule == _SHELL_RULE)

    async def _objection(self, question: Question) -> str:
        if not self._body.second_opinion or question.effect == Effect.READ:
            return ""
        session = self._run.record.session
        return await objection_to(self._engine, self._body.second_opinion, self._goal, question, session)

    async def _halted(self, halt: Halt) -> Answer:
        """The answer to the gate. What ends the run is noted, and ends it as soon as the gate has its no."""
        assert halt.question is not None
        answer = await self._watcher.halt(halt)
        match answer.choice:
            case HaltChoice.PROCEED:
                self._change(skips=0)
                return Answer(Choice.YES)
            case HaltChoice.EDIT:
                self._change(skips=0)
                return Answer(Choice.EDIT, arguments=answer.arguments)
            case HaltChoice.SKIP:
                return await self._skipped(answer)
            case HaltChoice.ABORT | HaltChoice.LEAVE:
                self._stopped = _Stopped(_STATE_AFTER[answer.choice], halt.reason, halt)
                return Answer(Choice.NO, "the work halted here")

    async def _skipped(self, answer: HaltAnswer) -> Answer:
        self._change(skips=self._body.skips + 1)
        note = answer.note or "the user skipped this; find another way"
        if self._body.skips < _MAX_SKIPS:
            return Answer(Choice.NO, note)
        self._change(skips=0)
        halt = Halt(HaltKind.SKIPS, f"{_MAX_SKIPS} skips in a row: say what to do instead, or abort")
        more = await self._watcher.halt(halt)
        if more.choice in (HaltChoice.ABORT, HaltChoice.LEAVE):
            self._stopped = _Stopped(_STATE_AFTER[more.choice], halt.reason, halt)
        return Answer(Choice.NO, more.note or note)

    async def _decide(self, halt: Halt) -> None:
        """Between actions: goes on, or ends the run."""
        answer = await self._watcher.halt(halt)
        if answer.choice in (HaltChoice.ABORT, HaltChoice.LEAVE):
            raise _Stopped(_STATE_AFTER[answer.choice], halt.reason, halt)
        if answer.note:
            self._tell(f"The user says: {answer.note}")

    async def _end(self, state: RunState, reason: str, halt: Halt | None = None) -> RunState:
        if state is RunState.HALTED:
            self._change(halt=halt)
        await self._save(state=state, reason=reason)
        return state

    async def _save(self, *, state: RunState = RunState.RUNNING, reason: str = "") -> None:
        body = msgspec.json.encode(msgspec.structs.replace(self._body, spent_s=self._spent_s()))
        await self._run.save(body, state=state, reason=reason)

    def _spent_s(self) -> float:
        return self._body.spent_s + self._engine.clock.monotonic_s() - self._began_s

    async def _cost(self) -> float:
        record = self._run.record
        return (await self._engine.store.spent(since_ms=record.created_ms, session=record.session)).cost

    def _tell_of(self, tool: str, arguments: Arguments, result: ToolResult) -> None:
        self._tell(told_of_call(tool, arguments, result.status.value, text_of(result.parts)))
        if result.status is not ResultStatus.OK:
            self._not_done()

    def _not_done(self) -> None:
        """Something of the step: a word that the goal is complete was given before that was known."""
        if self._body.complete:
            self._change(complete=False)
            self._tell(NOT_ALL_DONE)

    def _tell(self, text: str) -> None:
        self._change(told="\n\n".join(filter(None, (self._body.told, text))))

    def _change(self, **fields: object) -> None:
        self._body = msgspec.structs.replace(self._body, **fields)


_STATE_AFTER = {HaltChoice.ABORT: RunState.ABANDONED, HaltChoice.LEAVE: RunState.HALTED}
