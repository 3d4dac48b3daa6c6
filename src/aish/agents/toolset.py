"""`agents__run`: gives a task to an agent, whose turn has a context of its own and no more rights than its caller.

The turn of the agent is recorded like any other, in a session that names the turn of its caller. What it spends is
taken from its caller's budget, the gate decides each of its effects, and its questions go to its caller's user. It ends
with its caller. However it ends, the caller gets one result.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from aish.agents.roster import AgentRoster
from aish.errors import AishError, ToolError
from aish.ports import Ask, CallContext, CallerRights
from aish.types.decisions import Answer, Choice, Question
from aish.types.events import (
    Event,
    Failed,
    Status,
    StepStarted,
    TextDelta,
    ToolCallReady,
    ToolResult,
    TurnEnd,
    TurnFinished,
)
from aish.types.globs import globs_of
from aish.types.ids import new_id
from aish.types.messages import TextPart, text_of, user
from aish.types.models import AGENT_MODEL, MAX_AGENT_DEPTH, AgentDefinition
from aish.types.requests import TurnRequest
from aish.types.tools import (
    AGENTS_SOURCE,
    Arguments,
    Effect,
    EffectByArgument,
    ResultStatus,
    ToolOutput,
    ToolSpec,
)
from aish.types.usage import Category

if TYPE_CHECKING:
    from aish.engine.engine import Engine

_TEXT = (
    "Give a task to an agent, which works on it with a context of its own and reports back. It does not see this "
    "conversation: say all that it must know. Agents that only read run at the same time if you call them together."
)
_TASK_TEXT = "What to do, with all that the agent must know, and what to report"
_REPORT = (
    "You work on a task that another model has given you. Your last message is your report: it is all that the other "
    "model sees of your work, so make it complete and short."
)
_TOO_DEEP = f"agents start agents to a depth of {MAX_AGENT_DEPTH} only; do this task yourself"
_CANNOT_WAIT = "it cannot wait for a later decision within an agent"
# About 2 000 tokens for the names and descriptions of all agents.
_MAX_LIST_CHARS = 8_000
_MAX_LINE_CHARS = 200
_ENDS_WITH_REPORT = (TurnEnd.ANSWERED, TurnEnd.LENGTH)


class AgentTools:
    """A Toolset. It has its tool only if there are agents besides those that are built in. `get_engine` returns the
    engine whose tools these are."""

    def __init__(self, roster: AgentRoster, get_engine: Callable[[], Engine]) -> None:
        self._roster = roster
        self._get_engine = get_engine
        self._known: Sequence[AgentDefinition] = ()
        self._specs: Sequence[ToolSpec] = ()
        self._writing = asyncio.Lock()  # one agent that can change things at a time

    def specs(self) -> Sequence[ToolSpec]:
        """The same object until the agents are read again."""
        agents = self._roster.offered
        if agents is not self._known:
            self._known = agents
            self._specs = (_describe(agents),) if agents else ()
        return self._specs

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        if name != "run":
            raise ToolError(f"there is no tool {name}", status=ResultStatus.UNKNOWN_TOOL)
        caller = context.rights
        if caller is None:
            raise ToolError("agents are started by the turn of a model only", status=ResultStatus.NOT_ALLOWED)
        agent = self._find_agent(str(arguments.get("agent", "")), caller)
        request = self._make_request(agent, str(arguments.get("task", "")), caller, context)
        run = _AgentRun(agent.name, context)
        try:
            async with (
                self._in_turn(agent, caller),
                self._get_engine().turn(request, ask=_ask_for(agent, caller.ask), caller=caller) as batches,
            ):
                async for events in batches:
                    run.observe(events)
        except AishError as exc:
            run.failure = f"{exc.message}; {exc.hint}" if exc.hint else exc.message
        return run.output()

    async def aclose(self) -> None:
        """Every call ends its own turn."""

    def _find_agent(self, name: str, caller: CallerRights) -> AgentDefinition:
        agent = self._roster.find(name)
        if agent is None:
            known = ", ".join(one.name for one in self._roster.definitions)
            raise ToolError(f"there is no agent {name}; there are {known}")
        if caller.depth > MAX_AGENT_DEPTH:
            raise ToolError(_TOO_DEEP, status=ResultStatus.REFUSED)
        covered = globs_of(caller.request.models)
        if agent.model and agent.model not in covered and f"{AGENT_MODEL}{name}" not in covered:
            raise ToolError(f"the key of this request does not cover the model of {name}", status=ResultStatus.REFUSED)
        return agent

    def _make_request(
        self, agent: AgentDefinition, task: str, caller: CallerRights, context: CallContext
    ) -> TurnRequest:
        """As the caller's request, as far as it is about rights; with the limits that the caller has left."""
        given = caller.request
        request = TurnRequest(
            input=(user(task),),
            model=agent.model or caller.model,
            session=_make_session_id(caller.session) if context.session else "",
            kept=bool(context.session),
            may_be_new=True,
            system=_REPORT,
            tools=caller.tools,
            dynamic_mcp=given.dynamic_mcp,
            ask_about=given.ask_about,
            category=Category.AGENT,
            charged_to=given.charged_to or caller.session,
            payer=given.payer,
            environment=given.environment,
            may_fall_back=given.may_fall_back,
            limits=caller.budget.get_remaining(),
            stream=given.stream,
            traceparent=given.traceparent,
            owner=given.owner,
            models=given.models,
            mode=given.mode,
            parent=context.turn,
        )
        return self._roster.narrow(request, agent, self._get_engine().tools)

    @asynccontextmanager
    async def _in_turn(self, agent: AgentDefinition, caller: CallerRights) -> AsyncIterator[None]:
        """Agents that can change things work one after the other. The agents of such an agent work in its turn."""
        if agent.only_reads or caller.depth > 1:
            yield
            return
        try:
            async with asyncio.timeout(caller.budget.remaining_s):
                await self._writing.acquire()
        except TimeoutError:
            raise ToolError("another agent was changing things all the time", status=ResultStatus.LIMIT) from None
        try:
            yield
        finally:
            self._writing.release()


class _AgentRun:
    """Follows the turn of an agent, shows its calls, and makes the result of the caller's call of it."""

    def __init__(self, agent: str, context: CallContext) -> None:
        self.failure = ""
        self._agent = agent
        self._context = context
        self._turn = ""
        self._text: list[str] = []  # of the newest step
        self._end: TurnEnd | None = None
        self._detail = ""
        self._calls: dict[str, str] = {}  # the arguments of open calls

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            self._turn = event.turn
            match event.body:
                case StepStarted():
                    self._text.clear()
                case TextDelta(text):
                    self._text.append(text)
                case ToolCallReady(_, arguments):
                    self._calls[event.call] = arguments
                case ToolResult() as result:
                    self._show(_describe_call(result, self._calls.pop(event.call, "")))
                case Status(text):
                    self._show(f"· {text}")
                case Failed(message=message):
                    self.failure = message
                case TurnFinished(reason, detail=detail):
                    self._end, self._detail = reason, detail
                case _:
                    pass

    def output(self) -> ToolOutput:
        text = "".join(self._text).strip()
        if self._end in _ENDS_WITH_REPORT and text:
            return ToolOutput((TextPart(text),), child_turn=self._turn)
        why = self.failure or self._detail or "it gave no report"
        note = f"[aish] the agent {self._agent} did not finish: {why}"
        return ToolOutput((TextPart(f"{text}\n\n{note}".strip()),), is_error=True, child_turn=self._turn)

    def _show(self, line: str) -> None:
        self._context.output(f"{' '.join(line.split())[:_MAX_LINE_CHARS]}\n")


def _describe_call(result: ToolResult, arguments: str) -> str:
    """One line: how the call ended, what it was, and of a failure the beginning of its result."""
    is_ok = result.status is ResultStatus.OK
    more = "" if is_ok else f": {text_of(result.parts)[:_MAX_LINE_CHARS]}"
    return f"{'✓' if is_ok else '✗'} {result.name} {arguments[:_MAX_LINE_CHARS]}{more}"


def _describe(agents: Sequence[AgentDefinition]) -> ToolSpec:
    lines, left = [_TEXT], _MAX_LIST_CHARS
    for agent in agents:
        note = "" if agent.only_reads else " (can change things)"
        line = f"- {agent.name}{note}: {' '.join(agent.description.split())}"
        left -= len(line)
        if left < 0:
            lines.append("- …")
            break
        lines.append(line)
    schema = {
        "type": "object",
        "properties": {
            "agent": {"type": "string", "enum": [agent.name for agent in agents]},
            "task": {"type": "string", "description": _TASK_TEXT},
        },
        "required": ["agent", "task"],
        "additionalProperties": False,
    }
    effects = EffectByArgument("agent", {agent.name: Effect.EXEC for agent in agents if not agent.only_reads})
    return ToolSpec("run", "\n".join(lines), schema, Effect.READ, AGENTS_SOURCE, runs_turns=True, by_argument=effects)


def _make_session_id(callers: str) -> str:
    """The name of a key stands before the sessions that belong to it."""
    key, slash, _ = callers.rpartition("/")
    return f"{key}{slash}{new_id('sess')}"


def _ask_for(agent: AgentDefinition, ask: Ask | None) -> Ask | None:
    """Questions say which agent they are for. A decision that comes later is a no: the caller waits for the report."""
    if ask is None:
        return None

    async def ask_now(question: Question) -> Answer:
        reason = f"{question.reason} (for the agent {agent.name})"
        answer = await ask(msgspec.structs.replace(question, reason=reason))
        return Answer(Choice.NO, _CANNOT_WAIT) if answer.choice is Choice.LATER else answer

    return ask_now
