"""`Aish`: asks models, with tools, sessions, approvals, plans and goals, from a program.

    async with Aish(model="local:qwen3") as aish:
        answer = await aish.ask("What is left to do?", tools=[ticket])

Entering opens the engine; leaving closes everything that it has started.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, TypeVar, Unpack, overload

import msgspec

from aish.app.container import Container, library_runtime
from aish.errors import AishError, UsageError
from aish.extensions.results import Image
from aish.library.approval import Approve, make_ask
from aish.library.inline_tools import SOURCE, InlineTools
from aish.library.replies import GoalReport, Reply, ReplyReader, describe_schema, read_value, schema_of
from aish.types.decisions import Mode
from aish.types.events import Event
from aish.types.messages import ImagePart, Part, TextPart, UserMessage, marked_text
from aish.types.requests import Sampling, TurnRequest
from aish.types.runs import Planning
from aish.types.tools import AGENTS_SOURCE, ResultStatus

if TYPE_CHECKING:
    from aish.engine.engine import Engine
    from aish.frontends.eval.report import Report
    from aish.ports import Provider
    from aish.types.models import AgentDefinition
    from aish.types.records import SessionRecord

Tools = Sequence["Callable[..., Any] | str"]
ModeName = Literal["ask", "edits", "auto", "plan"]
Asked = str | Sequence["str | Image"]
Value = TypeVar("Value")
_WAIT_S = 30.0  # for MCP servers that still connect


class Options(TypedDict, total=False):
    """The options of `ask` and `stream`.

    `session` goes on with a conversation. `tools` are functions with @tool and names of aish's own tools with `*`; left
    out, those of the constructor. `approve` decides calls that the gate asks about; without it they are not offered.
    `mode` is how much runs without a question. `plan`: first write a plan, then follow it. `system` is more system
    text. `max_steps` are calls of the model.
    """

    model: str
    session: str
    tools: Tools | None
    approve: Approve | None
    mode: ModeName | None
    system: str
    plan: bool
    temperature: float | None
    max_tokens: int | None
    max_steps: int | None


class ReplyError(AishError):
    """A turn that failed, or an answer that is not of the type that was asked for. `reply` is what there is."""

    def __init__(self, message: str, reply: Reply[None], *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reply = reply


class Aish:
    def __init__(
        self,
        model: str | Provider = "",
        *,
        tools: Tools = (),
        config: Mapping[str, Any] | None = None,
        workspace: str | Path = "",
        providers: Sequence[Provider] = (),
        agents: Sequence[AgentDefinition] = (),
    ) -> None:
        """`model` is the name of a model, or `aish.testing.Scripted`. `tools` are functions decorated with @tool, and
        names of aish's own tools with `*`; each `ask` may name others. `config` are settings as in config.toml, over
        those of the user's file. `workspace` is the folder in which tools work, by default the working directory.
        `providers` are backends of your own, whose models are named `NAME:MODEL`. `agents` are those that the model may
        give tasks to, besides those in files; the model name `agent:NAME` asks one itself."""
        self._agents = agents
        self._providers = {provider.name: provider for provider in providers}
        if not isinstance(model, str):
            self._providers[model.name] = model
            model = str(getattr(model, "model", f"{model.name}:"))
        self._model = model
        self._tools = tools
        self._config = config or {}
        self._workspace = str(workspace)
        self._stack = AsyncExitStack()
        self._runtime: Container | None = None
        self._opened: Engine | None = None

    async def __aenter__(self) -> Self:
        self._runtime = library_runtime(self._config, self._workspace, self._providers, self._agents)
        self._opened = await self._stack.enter_async_context(self._runtime.engine())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened = None
        await self._stack.__aexit__(kind, exc, trace)

    @overload
    async def ask(self, question: Asked, *, result: type[Value], **options: Unpack[Options]) -> Reply[Value]: ...
    @overload
    async def ask(self, question: Asked, *, result: None = None, **options: Unpack[Options]) -> Reply[None]: ...

    async def ask(self, question: Asked, *, result: type[Any] | None = None, **options: Unpack[Options]) -> Reply[Any]:
        """Asks and waits for the whole answer. Takes the options of `stream`.

        `result` is a type (a dataclass, a msgspec.Struct, a list of those, …) that the answer is read into: the model
        is held to its schema, and asked once more if its answer does not fit; `tools` and `usage` are of both then.
        Raises ReplyError if the turn fails, or if the answer does not fit. A turn that a limit ended is a Reply, too:
        its `end` says so.
        """
        answer = await self._answer(question, result=result, **options)
        if result is None:
            return answer
        value, problem = read_value(answer.text, result)
        if problem:
            answer = await self._ask_again(answer, problem, result=result, **options)
            value, problem = read_value(answer.text, result)
        if problem:
            raise ReplyError(f"the answer is no {getattr(result, '__name__', result)}: {problem}", answer)
        return msgspec.structs.replace(answer, value=value)

    async def _ask_again(self, answer: Reply[None], problem: str, **options: Any) -> Reply[None]:
        """Asks once more. The tools and the usage are of both turns, also if the second one fails."""
        again = f"That does not fit: {problem}. Answer again, with the JSON only."
        try:
            return _join(answer, await self._answer(again, **{**options, "session": answer.session}))
        except ReplyError as exc:
            exc.reply = _join(answer, exc.reply)
            raise

    async def stream(
        self, question: Asked, *, result: type[Any] | None = None, **options: Unpack[Options]
    ) -> AsyncGenerator[Event, None]:
        """Asks, and yields the events of the turn as they come. Closing the generator stops everything. The options are
        those of `Options`, `result` is as in `ask`."""
        tools = options.get("tools")
        names, view_name, view = self._select(self._tools if tools is None else tools)
        request = self._make_request(question, names, view_name, result, options)
        async with self._engine.turn(request, ask=make_ask(options.get("approve"))) as batches:
            del view  # the turn has it from here on
            async for events in batches:
                for event in events:
                    yield event

    def _make_request(
        self, question: Asked, tools: tuple[str, ...], view: str, result: type[Any] | None, options: Options
    ) -> TurnRequest:
        if unknown := set(options) - set(Options.__annotations__):
            raise UsageError(f"there is no option {', '.join(sorted(unknown))}")
        config = self._container.config
        limits, max_steps = config.limits.limits(), options.get("max_steps")
        sampling = Sampling(temperature=options.get("temperature"), max_tokens=options.get("max_tokens"))
        system, mode = options.get("system", ""), options.get("mode")
        if result is not None:
            system = f"{system}\n\n{describe_schema(result)}".strip()
            sampling = msgspec.structs.replace(sampling, json_schema=schema_of(result))
        return TurnRequest(
            input=(_make_message(question),),
            model=options.get("model") or self._model or config.model,
            session=options.get("session", ""),
            system=system,
            tools=tools,
            dynamic_mcp=view,
            mode=Mode(mode) if mode else config.gate.mode,
            planner=Planning() if options.get("plan") else None,
            sampling=sampling,
            limits=msgspec.structs.replace(limits, max_steps=max_steps) if max_steps is not None else limits,
        )

    async def call(
        self, tool: str, given: Mapping[str, Any] | None = None, /, *, approve: Approve | None = None, **arguments: Any
    ) -> str:
        """Calls a tool of aish by its name, without a model, through the same gate. Raises AishError if it fails.

        `given` are arguments as well, of any name: one that is named `approve` can be given only there."""
        encoded = msgspec.json.encode({**(given or {}), **arguments}).decode()
        result = await self._engine.call_tool(tool, encoded, ask=make_ask(approve))
        text = marked_text(result.parts)
        if result.status is not ResultStatus.OK:
            raise AishError(text or f"{tool} failed: {result.status}")
        return text

    async def work(
        self,
        goal: str,
        *,
        model: str = "",
        tools: Sequence[str] = ("*",),
        approve: Approve | None = None,
        max_steps: int | None = None,
        max_cost: float | None = None,
        max_minutes: float | None = None,
    ) -> GoalReport:
        """Works towards a goal in many turns, by itself. `approve` decides where it halts; without it, it stays halted
        and `aish runs resume` goes on with it."""
        from aish.library.goals import work_towards

        return await work_towards(
            self._container, self._engine, goal, model=model or self._model, tools=tuple(tools), approve=approve,
            max_steps=max_steps, max_cost=max_cost, max_minutes=max_minutes,
        )  # fmt: skip

    async def embed(self, texts: Sequence[str], *, model: str = "") -> list[list[float]]:
        """A vector for each text."""
        route = await self._engine.router.resolve(model or self._model)
        found = await self._engine.side_calls.embed(route, list(texts))
        return [list(vector) for vector in found.vectors]

    async def sessions(self, *, limit: int = 20, search: str = "") -> Sequence[SessionRecord]:
        """The stored conversations, newest first."""
        return await self._engine.store.list_sessions(limit=limit, search=search)

    async def models(self) -> list[str]:
        """The names of all models that can be asked."""
        return [info.name for info in await self._engine.router.list_models()]

    async def evaluate(self, suites: Sequence[str] = (), *, model: str = "", limit: int = 0) -> Report:
        """Runs cases of `aish eval`: names of suites that ship, or files of cases."""
        from aish.library.evals import evaluate

        return await evaluate(self._container, self._engine, suites, model=model or self._model, limit=limit)

    async def wait_for_tools(self, timeout_s: float = _WAIT_S) -> Sequence[str]:
        """Waits for the configured MCP servers. Returns those that still connect."""
        return await self._container.wait_for_mcp(timeout_s)

    async def _answer(self, question: Asked, **options: Any) -> Reply[None]:
        reader = ReplyReader()
        async with aclosing(self.stream(question, **options)) as events:
            async for event in events:
                reader.add([event])
        answer = reader.read()
        if reader.failure is not None:
            raise ReplyError(reader.failure.message, answer, hint=reader.failure.hint)
        return answer

    def _select(self, tools: Tools) -> tuple[tuple[str, ...], str, object]:
        """The globs of a request, and the view of the registry that has its functions: its name, "" for none, and what
        keeps it."""
        if isinstance(tools, str):
            raise UsageError(f"tools must be a list, and not the text {tools!r}", hint=f"tools=[{tools!r}]")
        names = tuple(tool for tool in tools if isinstance(tool, str))
        if self._agents:
            names = (*names, f"{AGENTS_SOURCE}__*")
        functions = [tool for tool in tools if not isinstance(tool, str)]
        if not functions:
            return names, "", None
        inline = InlineTools(functions, self._container.launch_context.cwd)
        name, view = self._container.add_tools({SOURCE: inline})
        return (*names, f"{SOURCE}__*"), name, view

    @property
    def _engine(self) -> Engine:
        if self._opened is None:
            raise _not_open()
        return self._opened

    @property
    def _container(self) -> Container:
        if self._runtime is None or self._opened is None:
            raise _not_open()
        return self._runtime


def _join(first: Reply[None], second: Reply[None]) -> Reply[None]:
    return msgspec.structs.replace(second, tools=(*first.tools, *second.tools), usage=first.usage + second.usage)


def _not_open() -> UsageError:
    return UsageError("aish is not open", hint="use it inside `async with Aish() as aish:`")


def run(
    question: Asked, *, model: str | Provider = "", config: Mapping[str, Any] | None = None, **options: Any
) -> Reply[Any]:
    """Asks one question and waits for the answer, for scripts without an event loop. Takes the options of `ask`."""

    async def ask() -> Reply[Any]:
        async with Aish(model, config=config) as aish:
            answer: Reply[Any] = await aish.ask(question, **options)
            return answer

    return asyncio.run(ask())


def _make_message(question: Asked) -> UserMessage:
    parts: list[Part] = []
    for part in [question] if isinstance(question, str) else question:
        if isinstance(part, Image):
            import base64

            parts.append(ImagePart(part.media_type, base64.b64encode(part.data).decode()))
        else:
            parts.append(TextPart(part))
    return UserMessage(tuple(parts))
