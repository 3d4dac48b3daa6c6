"""The tool process: one child in which the Python of all extensions runs, and what is asked of it.

It starts when it is first needed and ends with aish. After a crash the next call starts another. A process that runs
old code, or in which a cancelled function does not end, is retired: new calls go to a new one, and the old one ends
when its other calls have ended, or after a while.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from aish.errors import AishError, ToolError
from aish.extensions.host import (
    ANSWER_METHOD,
    OUTPUT_METHOD,
    QUESTION_METHOD,
    STATUS_METHOD,
    WITHDRAW_METHOD,
    CallMeta,
    CommandOutput,
)
from aish.extensions.manifest import Manifest, PythonSource
from aish.tools.mcp.connect import open_own_server
from aish.tools.mcp.errors import FaultKind, McpError
from aish.tools.mcp.session import McpClientSession
from aish.tools.mcp.text import Sanitiser
from aish.tools.mcp.transport.incoming_messages import IncomingMessages
from aish.tools.mcp.types import ServerSpec
from aish.types.decisions import HookAnswer, HookEvent
from aish.types.tools import Arguments, ResultStatus, ToolOutput

NAME = "python tools"
# For imports, which the process itself gives up after ten seconds each, and all at once.
_DESCRIBE_S = 30.0
_START_S = 30.0
_CLOSE_S = 1.0
# The engine's limit on a call is shorter: it knows the limit of the tool.
_MAX_CALL_S = 86_400.0
# How long a cancelled function has to end before its process is retired, and how long it has to answer then.
_GRACE_S = 2.0
_ANSWER_S = 1.0
_RETIRED_S = 60.0  # the calls that still run in a retired process have so long
_STATUS_CHARS = 500
_OUTPUT_CHARS = 64 * 1024

Ask = Callable[[str, Sequence[str]], Awaitable["str | None"]]
Result = TypeVar("Result")


class CallPlace(msgspec.Struct, frozen=True):
    """Where a call comes from, and who hears of it while it runs."""

    workspace: str
    session: str = ""
    turn: str = ""
    call: str = ""
    on_status: Callable[[str], None] = lambda text: None
    on_output: Callable[[str], None] = lambda text: None
    ask: Ask | None = None


class _Report(msgspec.Struct):
    token: str = ""
    text: str = ""
    question: int = 0
    choices: list[str] = []


class _Messages(IncomingMessages):
    """Also takes what calls report while they run, by the token of the call."""

    def __init__(self, sanitiser: Sanitiser) -> None:
        super().__init__(NAME, sanitiser, None)
        self._clean = sanitiser
        self.places: dict[str, CallPlace] = {}
        self.session: McpClientSession | None = None
        self._answering: dict[tuple[str, int], asyncio.Task[None]] = {}

    def notification(self, method: str, params: msgspec.Raw) -> None:
        if method not in (STATUS_METHOD, OUTPUT_METHOD, QUESTION_METHOD, WITHDRAW_METHOD):
            super().notification(method, params)
            return
        with suppress(msgspec.MsgspecError):
            report = msgspec.json.decode(params, type=_Report)
            if method == WITHDRAW_METHOD:
                self._withdraw(lambda token, question: question == report.question)
                return
            place = self.places.get(report.token)
            if place is None:
                return
            if method == STATUS_METHOD:
                place.on_status(self._clean.show_line(report.text, _STATUS_CHARS))
            elif method == OUTPUT_METHOD:
                place.on_output(self._clean.show(report.text, _OUTPUT_CHARS) + "\n" * report.text.endswith("\n"))
            else:
                key = report.token, report.question
                task = self._answering[key] = asyncio.ensure_future(self._ask(place, report))
                task.add_done_callback(lambda _: self._answering.pop(key, None))

    async def _ask(self, place: CallPlace, report: _Report) -> None:
        text = self._clean.show(report.text, _STATUS_CHARS)
        answer = await place.ask(text, report.choices) if place.ask is not None else None
        if self.session is not None:
            with suppress(AishError):
                await self.session.notify(ANSWER_METHOD, {"question": report.question, "answer": answer})

    def forget(self, token: str) -> None:
        """The call is over, and so are its questions."""
        del self.places[token]
        self._withdraw(lambda asked_by, question: asked_by == token)

    def close(self) -> None:
        self._withdraw(lambda token, question: True)

    def _withdraw(self, is_meant: Callable[[str, int], bool]) -> None:
        for key, task in list(self._answering.items()):
            if is_meant(*key):
                task.cancel()


class _Child:
    """One process and the task that owns it."""

    def __init__(self, spec: ServerSpec) -> None:
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._spec = spec
        self._messages = _Messages(Sanitiser(spec.secrets()))
        self._tokens = count(1)
        self._stopping = asyncio.Event()
        self._started: asyncio.Future[McpClientSession] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._run())

    @property
    def has_ended(self) -> bool:
        return self._task.done()

    async def session(self) -> McpClientSession:
        return await asyncio.shield(self._started)

    @asynccontextmanager
    async def reports_to(self, place: CallPlace) -> AsyncIterator[str]:
        """The token by which the reports of one call are told from those of others."""
        token = f"call-{next(self._tokens)}"
        self._messages.places[token] = place
        try:
            with self.is_used():
                yield token
        finally:
            self._messages.forget(token)

    @contextmanager
    def is_used(self) -> Iterator[None]:
        """The process does not end meanwhile, if it is retired."""
        self._calls += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    async def end(self, within_s: float = 0.0) -> None:
        """Ends the process, when its calls have ended or the time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._idle.wait()
        self._stopping.set()
        await asyncio.wait({self._task}, timeout=3 * _CLOSE_S + 2)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=_CLOSE_S)

    async def _run(self) -> None:
        try:
            async with open_own_server(self._spec, self._messages, Sanitiser(self._spec.secrets())) as session:
                self._messages.session = session
                self._started.set_result(session)
                closed = asyncio.ensure_future(session.wait_closed())
                stopped = asyncio.ensure_future(self._stopping.wait())
                await asyncio.wait({closed, stopped}, return_when=asyncio.FIRST_COMPLETED)
                closed.cancel()
                stopped.cancel()
        except AishError as exc:
            if not self._started.done():
                self._started.set_exception(exc)
                self._started.exception()  # also if no call waits for it
        finally:
            self._messages.close()
            if not self._started.done():
                self._started.set_exception(AishError("the tool process was closed"))
                self._started.exception()


class ToolProcess:
    def __init__(
        self,
        *,
        workspace: Callable[[], Path],
        env_patterns: Sequence[str] = (),
        max_memory_mb: int = 0,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """`env_patterns` are names of variables that the process gets, besides a few that all programs need. `settings`
        are those of each extension, by its name."""
        self._workspace = workspace
        self._env_patterns = tuple(env_patterns)
        self._max_memory_mb = max_memory_mb
        self._settings = settings or {}
        self._child: _Child | None = None
        self._children: set[_Child] = set()  # also retired ones, until they have ended
        self._background: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def describe(self, sources: Sequence[PythonSource]) -> list[Manifest]:
        """What each of the sources defines. Never raises: what fails is the problem of a manifest."""
        params = {"sources": list(sources)}
        try:
            child = self._current()
            with child.is_used():
                session = await child.session()
                return await session.request("aish/describe", params, list[Manifest], timeout_s=_DESCRIBE_S)
        except AishError as exc:
            self.retire()  # one of them may have ended or blocked the process
            if len(sources) == 1 or self._is_closed:
                return [Manifest(problem=_describe_fault(exc, f"the import of {sources[0].title}"))] * len(sources)
        return [manifest for source in sources for manifest in await self.describe([source])]

    async def call_tool(self, source: PythonSource, name: str, arguments: Arguments, place: CallPlace) -> ToolOutput:
        """Raises ToolError."""

        async def call(session: McpClientSession, meta: CallMeta) -> ToolOutput:
            return await session.call_tool(
                name, arguments, timeout_s=_MAX_CALL_S, meta={"aish": msgspec.to_builtins(meta)}
            )

        return await self._work(source, place, call, name)

    async def run_command(self, source: PythonSource, name: str, text: str, place: CallPlace) -> CommandOutput:
        """Raises ToolError."""

        async def run(session: McpClientSession, meta: CallMeta) -> CommandOutput:
            params = {"name": name, "text": text, "meta": meta}
            return await session.request("aish/command", params, CommandOutput, timeout_s=_MAX_CALL_S)

        return await self._work(source, place, run, name)

    async def run_hook(
        self, source: PythonSource, name: str, event: HookEvent, place: CallPlace, *, timeout_s: float
    ) -> HookAnswer | None:
        """Raises ToolError."""

        async def run(session: McpClientSession, meta: CallMeta) -> HookAnswer | None:
            params = {"name": name, "event": event, "meta": meta}
            return await session.request("aish/hook", params, HookReply, timeout_s=timeout_s)

        return await self._work(source, place, run, name)

    def retire(self) -> None:
        """The next call starts another process, which imports everything anew."""
        child, self._child = self._child, None
        if child is not None:
            self._run_in_background(child.end(_RETIRED_S))

    async def aclose(self) -> None:
        self._is_closed, self._child = True, None
        for task in self._background:
            task.cancel()
        await asyncio.gather(*(child.end() for child in self._children))

    async def _work(
        self,
        source: PythonSource,
        place: CallPlace,
        work: Callable[[McpClientSession, CallMeta], Awaitable[Result]],
        name: str,
    ) -> Result:
        try:
            child = self._current()
        except AishError as exc:
            raise ToolError(exc.message, status=ResultStatus.SERVER_GONE) from exc
        async with child.reports_to(place) as token:
            settings = dict(self._settings.get(source.owner, {}))
            meta = CallMeta(source, place.workspace, place.session, place.turn, place.call, settings, token)
            try:
                return await work(await child.session(), meta)
            except asyncio.CancelledError:
                self._run_in_background(self._check(child))
                raise
            except McpError as exc:
                if exc.kind is FaultKind.EXIT and child is self._child:
                    self.retire()
                elif exc.kind is not FaultKind.RPC:
                    self._run_in_background(self._check(child))
                raise ToolError(_describe_fault(exc, name), status=exc.status) from exc
            except AishError as exc:
                raise ToolError(_describe_fault(exc, name), status=ResultStatus.SERVER_GONE) from exc

    def _current(self) -> _Child:
        """Raises AishError once all is closed: nothing would end the process."""
        if self._is_closed:
            raise AishError("the tool process was closed")
        if self._child is None or self._child.has_ended:
            self._child = _Child(self._spec())
            self._children = {child for child in self._children if not child.has_ended} | {self._child}
        return self._child

    async def _check(self, child: _Child) -> None:
        """Retires the process if a function that was cancelled still runs in it, or if it does not answer."""
        await asyncio.sleep(_GRACE_S)
        if child is not self._child or child.has_ended:
            return
        try:
            session = await child.session()
            abandoned = await session.request("aish/abandoned", {}, int, timeout_s=_ANSWER_S)
        except AishError:
            abandoned = 1
        if abandoned and child is self._child:
            self.retire()

    def _run_in_background(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _spec(self) -> ServerSpec:
        # -P: no module of the working directory takes the place of another.
        command = (sys.executable, "-P", "-m", "aish.extensions", str(self._max_memory_mb))
        return ServerSpec(
            NAME, command, inherit=self._env_patterns, cwd=self._workspace(), start_timeout_s=_START_S,
            close_wait_s=_CLOSE_S,
        )  # fmt: skip


# A union cannot be a type argument of a decoder that mypy knows.
HookReply: Any = HookAnswer | None


def _describe_fault(error: AishError, name: str) -> str:
    """The failure of the process in words, without those of MCP."""
    if not isinstance(error, McpError):
        return error.message
    if error.kind is FaultKind.RPC:
        return error.detail
    if error.kind is FaultKind.EXIT:
        tail = f": {error.stderr_tail.splitlines()[-1]}" if error.stderr_tail else ""
        return f"the Python process ended while {name} ran ({error.detail}){tail}; the next call starts another"
    return f"{name}: {error.detail}"
