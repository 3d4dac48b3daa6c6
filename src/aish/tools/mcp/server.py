"""One MCP server and the task that connects, keeps and closes it. A Toolset.

States: connecting → ready → (after a disconnect) connecting again after a pause, a few times, then failed until
reconnected; closed at the end. Calls come from any task; only the owner task opens and closes. Errors stay within this
server.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from aish.errors import AishError, ToolError
from aish.ports import CallContext
from aish.tools.builtin.skills import READ_SKILL_SCHEMA, READ_SKILL_TEXT
from aish.tools.mcp.errors import McpError
from aish.tools.mcp.session import McpClientSession
from aish.tools.mcp.types import (
    ListChanged,
    McpSkill,
    McpTool,
    ServerLog,
    ServerSpec,
    ServerWarning,
    SessionEvent,
)
from aish.types.messages import TextPart
from aish.types.tools import Arguments, Effect, ResultStatus, ToolOutput, ToolSpec

# A server that crashes at every start must not be started for ever.
RESTARTS = 3
_FIRST_PAUSE_S = 1.0
# A server that ran this long counts as recovered; its next crash begins a new count.
_STEADY_S = 60.0
_LOG_LINES = 200
# Several changes in a row are handled as one.
_DEBOUNCE_S = 0.1
# The engine's limit on a call is longer than the session's, which has the better error message.
_MARGIN_S = 5.0
_READ_SKILL = "read_skill"
_MAX_SKILLS_CHARS = 16_000  # about 4 000 tokens

OpenSession = Callable[[ServerSpec, Callable[[SessionEvent], None]], AbstractAsyncContextManager[McpClientSession]]


class ServerState(StrEnum):
    CONNECTING = "connecting"
    READY = "ready"
    FAILED = "failed"
    CLOSED = "closed"


class ToolExposure(msgspec.Struct, frozen=True):
    """Which tools of a server are offered, and whether its hints about them are trusted."""

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    trust_hints: bool = False


class McpServer:
    def __init__(self, spec: ServerSpec, exposure: ToolExposure, open_session: OpenSession) -> None:
        self.spec = spec
        self.generation = 0  # increased whenever the list of tools changes
        self.state = ServerState.CONNECTING
        self.failure: McpError | AishError | None = None
        self.exposure = exposure
        self._open_session = open_session
        self._session: McpClientSession | None = None
        self._specs: tuple[ToolSpec, ...] = ()
        self._skill_spec: ToolSpec | None = None
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._changed = asyncio.Event()
        self._start_ended = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"mcp {spec.name}")

    @property
    def session(self) -> McpClientSession:
        """Raises ToolError unless the server is ready."""
        if self._session is None:
            why = self.failure.message if self.failure else f"MCP server {self.spec.name} is {self.state}"
            raise ToolError(why, status=ResultStatus.SERVER_GONE)
        return self._session

    @property
    def transport(self) -> str:
        return "http" if self.spec.url else "stdio"

    @property
    def log(self) -> list[str]:
        """Recent warnings, log lines and stderr."""
        tail = self._session.stderr_tail() if self._session else getattr(self.failure, "stderr_tail", "")
        return [*self._log, *tail.splitlines()]

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        if name == _READ_SKILL and self._skill_spec in self._specs:
            text = await self.session.read_skill(str(arguments.get("name", "")), str(arguments.get("file", "")))
            return ToolOutput((TextPart(text),))
        return await self.session.call_tool(name, arguments, on_status=context.status)

    async def wait_until_started(self) -> None:
        """Waits until it is known whether the server can be used."""
        await self._start_ended.wait()

    async def refresh(self) -> int:
        """Lists the tools again and returns their number."""
        await self.session.refresh_tools()
        self._update_tools()
        return len(self._specs)

    def abandon(self) -> None:
        """Cancels a server that was not added; nothing has started yet."""
        self._task.cancel()

    async def aclose(self) -> None:
        self._stopping.set()
        if self._session is None:  # it may still be connecting, and no caller waits for that any more
            self._task.cancel()
        await asyncio.wait({self._task}, timeout=2 * self.spec.close_wait_s + 5)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=5)
        self.state = ServerState.CLOSED
        self._start_ended.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        crashes, was_ready = 0, False
        while not self._stopping.is_set():
            began_s = loop.time()
            self.state = ServerState.CONNECTING
            was_ready = await self._run_connection() or was_ready
            if self._stopping.is_set():
                break
            crashes = 1 if loop.time() - began_s > _STEADY_S else crashes + 1
            # A server that never became ready is not retried: its command or URL is probably wrong, and an error helps
            # more.
            if not was_ready or crashes > RESTARTS:
                self.state = ServerState.FAILED
                self._set_specs(())
                self._start_ended.set()
                await self._stopping.wait()
                break
            await self._pause(_FIRST_PAUSE_S * 2 ** (crashes - 1))
        self.state = ServerState.CLOSED
        self._start_ended.set()

    async def _run_connection(self) -> bool:
        """Runs one connection to its end. Returns whether it became ready."""
        ready = False
        try:
            async with self._open_session(self.spec, self._handle_event) as session:
                self._session, ready = session, True
                self._update_tools()
                self.state, self.failure = ServerState.READY, None
                self._start_ended.set()
                await self._monitor(session)
        except AishError as exc:
            self.failure = exc
            self._log.append(exc.message)
        except Exception as exc:  # top of an owner task: no error may leave this server
            self.failure = AishError(f"MCP server {self.spec.name}: {type(exc).__name__}: {exc}")
            self._log.append(self.failure.message)
        finally:
            self._session = None
        return ready

    async def _monitor(self, session: McpClientSession) -> None:
        """Waits until the server is stopped or disconnects. Lists the tools again when the server reports a change."""
        closed_task = asyncio.ensure_future(session.wait_closed())
        stop_task = asyncio.ensure_future(self._stopping.wait())
        try:
            while True:
                changed_task = asyncio.ensure_future(self._changed.wait())
                done, _ = await asyncio.wait(
                    {closed_task, stop_task, changed_task}, return_when=asyncio.FIRST_COMPLETED
                )
                changed_task.cancel()
                if closed_task in done:
                    self.failure = closed_task.result()
                    self._log.append(self.failure.message)
                if closed_task in done or stop_task in done:
                    return
                rereading = asyncio.ensure_future(self._reread())
                await asyncio.wait({rereading, stop_task}, return_when=asyncio.FIRST_COMPLETED)
                rereading.cancel()
        finally:
            closed_task.cancel()
            stop_task.cancel()

    async def _reread(self) -> None:
        await self._pause(_DEBOUNCE_S)
        self._changed.clear()
        try:
            await self.refresh()
        except AishError as exc:
            self._log.append(f"the tools could not be listed again: {exc.message}")

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    def _handle_event(self, event: SessionEvent) -> None:
        match event:
            case ListChanged(what=what):
                if what == "tools":
                    self._changed.set()
            case ServerWarning(text=text):
                self._log.append(text)
            case ServerLog(level=level, text=text):
                self._log.append(f"{level}: {text}")

    def _update_tools(self) -> None:
        assert self._session is not None
        offered = [tool for tool in self._session.tools if _is_offered(tool.name, self.exposure)]
        specs = [self._spec_of(tool) for tool in offered]
        self._skill_spec = _describe_skills(self._session.skills, self.spec)
        if self._skill_spec is not None and all(spec.name != _READ_SKILL for spec in specs):
            specs.append(self._skill_spec)
        self._set_specs(tuple(specs))

    def _set_specs(self, specs: tuple[ToolSpec, ...]) -> None:
        if specs != self._specs:
            self._specs = specs
            self.generation += 1

    def _spec_of(self, tool: McpTool) -> ToolSpec:
        return ToolSpec(
            name=tool.name,
            description=tool.description,
            schema=tool.schema,
            effect=_effect(tool, self.exposure),
            source=self.spec.name,
            timeout_s=self.spec.call_timeout_s + _MARGIN_S,
            output_schema=tool.output_schema,
            hints={"readOnly": tool.read_only, "destructive": tool.destructive, "openWorld": tool.open_world},
        )


def _describe_skills(skills: Sequence[McpSkill], server: ServerSpec) -> ToolSpec | None:
    """The tool that reads the skills of a server, with their names and descriptions; None if it has none."""
    if not skills:
        return None
    lines = [f"- {skill.name}: {' '.join(skill.description.split())}" for skill in skills]
    text = "\n".join((READ_SKILL_TEXT, *lines))[:_MAX_SKILLS_CHARS]
    return ToolSpec(_READ_SKILL, text, READ_SKILL_SCHEMA, Effect.READ, server.name, server.call_timeout_s + _MARGIN_S)


def _is_offered(name: str, exposure: ToolExposure) -> bool:
    return any(fnmatchcase(name, glob) for glob in exposure.allow) and not any(
        fnmatchcase(name, glob) for glob in exposure.deny
    )


def _effect(tool: McpTool, exposure: ToolExposure) -> Effect:
    """Hints make us more careful than the default, which is to ask; they make us less careful only if the user
    trusts them."""
    if exposure.trust_hints and tool.read_only:
        return Effect.READ
    return Effect.EXEC if tool.destructive and not tool.read_only else Effect.WRITE
