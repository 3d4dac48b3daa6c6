"""Works towards a goal step by step, until it is reached, a limit is reached, or the user has to decide.

A step is one turn in the session of the run, and then the commands that its text proposes; both go through the one
gate. Commands that are proved harmless run, and so do those that the sandbox contains (`destructive_check`). Anything
else that the gate would ask about halts the work. The run is durable: its state is saved before and after each step, so
another process can take it over.
"""

from __future__ import annotations

from contextlib import aclosing

import msgspec

from aish.autonomy.destructive_check import Containment, find_hazard
from aish.autonomy.model_advice import find_objection, write_tasks
from aish.autonomy.prompts import (
    LOST_ANSWER,
    LOST_SECRET,
    NOT_ALL_DONE,
    describe_call,
    describe_recovery,
    is_complete,
    next_step,
    system_text,
)
from aish.autonomy.state import GoalState, Show, Watcher
from aish.autonomy.turn_summary import TurnSummary
from aish.engine.engine import Engine
from aish.engine.tools.authorisation import ASKED_FOR
from aish.errors import AishError, RunLost, StoreError
from aish.runs.journal import call_digest
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
_SHELL_RULE = "gate.exec"  # the rule that asks about a command that is neither proved harmless nor destructive
_STOPPED_BY_USER = "you stopped it in the middle"
_MAX_SKIPS = 3
_MAX_IDLE = 3  # steps in a row without any effect
_STATE_AFTER = {HaltChoice.ABORT: RunState.ABANDONED, HaltChoice.STAY_HALTED: RunState.HALTED}


class _Stop(msgspec.Struct, frozen=True):
    """Why the work ends."""

    state: RunState
    reason: str
    halt: Halt | None = None


class GoalWorker:
    """The work ends when `_stop` is set. It is a field and not an exception, because the consent callback runs inside
    the engine: a call must get its result before the work may end. Methods that may set it return right afterwards."""

    def __init__(self, engine: Engine, run: OwnedRun, watcher: Watcher, containment: Containment) -> None:
        self._engine = engine
        self._run = run
        self._watcher = watcher
        self._containment = containment
        self._state = msgspec.json.decode(run.record.body, type=GoalState)
        self._goal = run.record.goal
        self._stored_commands = frozenset(self._state.commands)  # those loaded from the store, with secrets removed
        self._pause_reason = ""
        self._stop: _Stop | None = None
        self._began_s = engine.clock.monotonic_s()

    def pause(self, why: str = "you stopped it") -> None:
        """Halts before the next action."""
        self._pause_reason = why

    @property
    def is_pausing(self) -> bool:
        """Whether it was told to halt and has not reached the next action yet."""
        return bool(self._pause_reason)

    async def work(self, answer: HaltAnswer | None = None) -> RunState:
        """Works until the end, and stores why it ended. `answer` is the decision about the halt it resumes from."""
        await self._resume(answer)
        if not self._stop:
            await self._preplan()
        while not self._stop:
            await self._run_commands()
            if self._stop:
                break
            if self._state.complete:
                self._stop = _Stop(RunState.FINISHED, "the goal is reached")
            else:
                await self._step()
        return await self._end(self._stop)

    async def halt_as_stopped(self) -> None:
        """Halts the run after the user has cancelled `work`, so that it can be resumed.

        If `work` is cancelled because the process ends, another process takes the run over instead.
        """
        self._change(allowed_call="")  # the call that was running is asked about again
        await self._end(_Stop(RunState.HALTED, _STOPPED_BY_USER, Halt(HaltKind.PAUSE, _STOPPED_BY_USER)))

    async def _resume(self, answer: HaltAnswer | None) -> None:
        halt = self._state.halt
        lost = LOST_ANSWER if self._state.asked else ""
        note = "\n\n".join(filter(None, (self._state.note, lost, self._report_recovery())))
        self._change(halt=None, asked=False, note=note)
        if answer is None or halt is None:
            return
        if answer.choice in _STATE_AFTER:
            self._stop_at(halt, answer.choice)
            return
        if answer.note:
            self._tell_model(f"The user says: {answer.note}")
        if halt.question is not None:
            await self._carry_out_decision(halt.question, answer)

    async def _carry_out_decision(self, question: Question, answer: HaltAnswer) -> None:
        """Makes or skips the call at which the work halted."""
        waiting = self._state.commands
        if question.tool == SHELL and waiting[:1] == (question.arguments.get("command"),):
            self._change(commands=waiting[1:])
        if answer.choice is HaltChoice.SKIP:
            self._tell_model(f"The user skipped {question.tool} {msgspec.json.encode(question.arguments).decode()}.")
            self._revoke_completion()
            return
        arguments = question.arguments if answer.arguments is None else answer.arguments
        if answer.arguments is None and self._has_lost_secret(question.tool, arguments):
            self._revoke_completion()
            return
        self._change(allowed_call=call_digest(question.tool, arguments))
        await self._save()
        result = await self._call(question.tool, arguments)
        if result is not None:
            self._change(allowed_call="")
            self._tell_result(question.tool, arguments, result)

    def _report_recovery(self) -> str:
        for step in self._run.recovered:
            self._watcher.notify_user(f"{step.tool}: {step.outcome}")
        return describe_recovery(self._run.recovered)

    async def _preplan(self) -> None:
        state = self._state
        if not state.preplanner or state.tasks or state.step:
            return
        try:
            tasks = await write_tasks(self._engine, state.preplanner, self._goal, self._run.record.session)
        except AishError as exc:
            self._watcher.notify_user(f"no task list: {exc.message}; going on without")
            return
        self._change(tasks=tasks)
        self._watcher.notify_user(f"tasks:\n{tasks}")
        await self._save()

    async def _step(self) -> None:
        """Asks the model. The commands that it writes are run afterwards."""
        await self._check_limits()
        if self._stop:
            return
        number, note = self._state.step + 1, self._state.note
        text = next_step(number, self._state.max_steps, note)
        self._change(step=number, asked=True)
        await self._save()
        async with self._watcher.step(number, self._state.max_steps, await self._cost()) as show:
            summary = await self._turn(text, show)
        self._change(asked=False)
        if summary.error:
            await self._handle_failed_step(number, summary)
            return
        commands = tuple(proposals(summary.text))
        idle = 0 if summary.has_acted or commands else self._state.idle + 1
        self._change(note="", commands=commands, complete=is_complete(summary.text), idle=idle)
        if self._stop:
            return
        if idle:
            self._tell_model("You did nothing. Use a tool or a CMD: line, or write that the goal is complete.")
        await self._save()

    async def _handle_failed_step(self, number: int, summary: TurnSummary) -> None:
        """The model could not be asked or did not answer: the same step is tried again, if the user agrees."""
        self._change(step=number - 1)
        await self._check_limits()
        if self._stop:
            return
        if summary.is_over_budget:
            self._stop = _Stop(RunState.STOPPED, summary.error)
        else:
            await self._decide(Halt(HaltKind.MODEL_FAILED, summary.error))

    async def _run_commands(self) -> None:
        """Runs the commands of the last step, one by one."""
        while self._state.commands:
            await self._run_command(self._state.commands[0])
            if self._stop:
                return
            self._change(commands=self._state.commands[1:])
            await self._save()

    async def _check_limits(self) -> None:
        """Stops at a limit, and halts if it was told to pause."""
        if why := self._pause_reason:
            self._pause_reason = ""
            await self._decide(Halt(HaltKind.PAUSE, why))
        if not self._stop and (limit := await self._reached_limit()):
            self._stop = _Stop(RunState.STOPPED, limit)

    async def _reached_limit(self) -> str:
        state = self._state
        if state.step >= state.max_steps:
            return f"the limit of {state.max_steps} steps is reached"
        if limit := self._reached_time_limit():
            return limit
        if state.max_cost is not None and (cost := await self._cost()) >= state.max_cost:
            return f"${cost:.4f} of ${state.max_cost:g} are spent"
        if state.idle >= _MAX_IDLE:
            return f"the model did nothing in {_MAX_IDLE} steps"
        return ""

    def _reached_time_limit(self) -> str:
        return f"the limit of {self._state.max_s:g} s is reached" if self._spent_s() >= self._state.max_s else ""

    async def _turn(self, text: str, show: Show) -> TurnSummary:
        summary = TurnSummary()
        try:
            async with (
                self._engine.turn(
                    await self._make_request(text), ask=self._ask, journal=self._run.journal, on_left=show
                ) as batches,
                aclosing(batches) as events,
            ):
                async for batch in events:
                    show(batch)
                    summary.add(batch)
                    if self._stop or (self._pause_reason and summary.is_between_actions):
                        break
        except (RunLost, StoreError):  # the journal may lack what was done, so nothing is tried again
            raise
        except AishError as exc:
            summary.fail(exc.message)
        return summary

    async def _make_request(self, text: str) -> TurnRequest:
        state = self._state
        left = None if state.max_cost is None else max(0.0, state.max_cost - await self._cost())
        limits = msgspec.structs.replace(state.turn, wall_s=self._left_s(), max_cost=left)
        system = "\n\n".join(filter(None, (system_text(self._goal, state.tasks), state.system)))
        return TurnRequest(
            (user(text),),
            model=state.model,
            session=self._run.record.session,
            may_be_new=True,
            system=system,
            tools=state.tools,
            ask_about=self._ask_about(),
            may_fall_back=state.may_fall_back,
            category=Category.NORRIS,
            limits=limits,
            owner=state.owner,
            payer=state.payer,
            mode=state.mode,
        )

    def _ask_about(self) -> tuple[str, ...]:
        """The tools that the gate asks about even if a rule allows them: commands; with a second opinion all tools."""
        return ("*",) if self._state.second_opinion else (SHELL,)

    def _left_s(self) -> float:
        """The time for one turn or one command."""
        return max(1.0, min(self._state.turn.wall_s, self._state.max_s - self._spent_s()))

    async def _run_command(self, command: str) -> None:
        """Runs a `CMD:` line, through the same tool, gate and journal as a call of the model."""
        if limit := self._reached_time_limit():
            self._stop = _Stop(RunState.STOPPED, limit)
            return
        if why := self._pause_reason:
            self._pause_reason = ""
            await self._decide(Halt(HaltKind.PAUSE, f"{why} before: {command}"))
            if self._stop:
                return
        arguments: Arguments = {"command": command}
        if command in self._stored_commands and self._has_lost_secret(SHELL, arguments):
            self._revoke_completion()
            return
        result = await self._call(SHELL, arguments)
        if result is not None:
            self._tell_result(SHELL, arguments, result)

    def _has_lost_secret(self, tool: str, arguments: Arguments) -> bool:
        """Whether a secret was removed from the arguments when they were stored. Such a call would do something else
        than was meant: the model is told so instead."""
        if MARK not in msgspec.json.encode(arguments).decode():
            return False
        self._watcher.notify_user(f"not run: {tool} held a secret, and secrets are not kept while work stands still")
        self._tell_model(describe_call(tool, arguments, "not run", LOST_SECRET))
        return True

    async def _call(self, tool: str, arguments: Arguments) -> ToolResult | None:
        """Makes a call without the model. None if the work stopped at it."""
        written = msgspec.json.encode(arguments).decode()
        result = await self._engine.call_tool(
            tool,
            written,
            tools=self._state.tools,
            ask=self._ask,
            journal=self._run.journal,
            ask_about=self._ask_about(),
            wall_s=self._left_s(),
            owner=self._state.owner,
            mode=self._state.mode,
            after=self._run.record.session,
        )
        if self._stop:
            return None
        self._watcher.show_command(arguments.get("command", f"{tool} {written}"), result)
        return result

    async def _ask(self, question: Question) -> Answer:
        """Answers a question of the gate. What tools ask for is not answered: that would take a person."""
        if question.kind is QuestionKind.INPUT:
            return Answer(Choice.NO)
        if call_digest(question.tool, question.arguments) == self._state.allowed_call:
            self._change(skips=0)
            return Answer(Choice.YES)
        hazard = await find_hazard(question, self._containment) if question.tool == SHELL else ""
        reason = hazard or question.reason
        if not hazard and self._may_run(question):
            objection = await self._find_objection(question)
            if not objection:
                self._change(skips=0)
                return Answer(Choice.YES, is_automatic=True)
            reason = f"a second opinion: {objection}"
        return await self._halt(Halt(HaltKind.EFFECT, reason, question))

    def _may_run(self, question: Question) -> bool:
        """Whether a call without a hazard runs unasked: a command, or what the gate asks about only
        because the request named it in `ask_about`."""
        if question.kind is not QuestionKind.EFFECT or question.insist:
            return False
        return question.rule == ASKED_FOR or (question.tool == SHELL and question.rule == _SHELL_RULE)

    async def _find_objection(self, question: Question) -> str:
        if not self._state.second_opinion or question.effect == Effect.READ:
            return ""
        session = self._run.record.session
        return await find_objection(self._engine, self._state.second_opinion, self._goal, question, session)

    async def _halt(self, halt: Halt) -> Answer:
        """Has the user decide about a call, and gives the answer to the gate."""
        answer = await self._watcher.decide(halt)
        match answer.choice:
            case HaltChoice.PROCEED:
                self._change(skips=0)
                return Answer(Choice.YES)
            case HaltChoice.EDIT:
                self._change(skips=0)
                return Answer(Choice.EDIT, arguments=answer.arguments)
            case HaltChoice.SKIP:
                return await self._skip(answer)
            case HaltChoice.ABORT | HaltChoice.STAY_HALTED:
                self._stop_at(halt, answer.choice)
                return Answer(Choice.NO, "the work halted here")

    async def _skip(self, answer: HaltAnswer) -> Answer:
        self._change(skips=self._state.skips + 1)
        note = answer.note or "the user skipped this; find another way"
        if self._state.skips < _MAX_SKIPS:
            return Answer(Choice.NO, note)
        self._change(skips=0)
        halt = Halt(HaltKind.SKIPS, f"{_MAX_SKIPS} skips in a row: say what to do instead, or abort")
        more = await self._watcher.decide(halt)
        if more.choice in _STATE_AFTER:
            self._stop_at(halt, more.choice)
        return Answer(Choice.NO, more.note or note)

    async def _decide(self, halt: Halt) -> None:
        """Has the user decide between two actions whether to continue."""
        answer = await self._watcher.decide(halt)
        if answer.choice in _STATE_AFTER:
            self._stop_at(halt, answer.choice)
        elif answer.note:
            self._tell_model(f"The user says: {answer.note}")

    def _stop_at(self, halt: Halt, choice: HaltChoice) -> None:
        self._stop = _Stop(_STATE_AFTER[choice], halt.reason, halt)

    async def _end(self, stop: _Stop) -> RunState:
        if stop.state is RunState.HALTED:
            self._change(halt=stop.halt)
        await self._save(state=stop.state, reason=stop.reason)
        return stop.state

    async def _save(self, *, state: RunState = RunState.RUNNING, reason: str = "") -> None:
        body = msgspec.json.encode(msgspec.structs.replace(self._state, spent_s=self._spent_s()))
        await self._run.save(body, state=state, reason=reason)

    def _spent_s(self) -> float:
        return self._state.spent_s + self._engine.clock.monotonic_s() - self._began_s

    async def _cost(self) -> float:
        record = self._run.record
        return (await self._engine.store.sum_spending(since_ms=record.created_ms, session=record.session)).cost

    def _tell_result(self, tool: str, arguments: Arguments, result: ToolResult) -> None:
        self._tell_model(describe_call(tool, arguments, result.status.value, text_of(result.parts)))
        if result.status is not ResultStatus.OK:
            self._revoke_completion()

    def _revoke_completion(self) -> None:
        """A part of the step was not done. So the goal is not reached, even if the model says that it is."""
        if self._state.complete:
            self._change(complete=False)
            self._tell_model(NOT_ALL_DONE)

    def _tell_model(self, text: str) -> None:
        """Adds text for the model to the next step."""
        self._change(note="\n\n".join(filter(None, (self._state.note, text))))

    def _change(self, **fields: object) -> None:
        self._state = msgspec.structs.replace(self._state, **fields)
