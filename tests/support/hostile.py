"""Sessions with hostile MCP servers over stdio, keeping all they show and do for a last look."""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aish.tools.mcp.connect import open_session
from aish.tools.mcp.errors import McpError
from aish.tools.mcp.session import McpClientSession
from aish.tools.mcp.types import ServerSpec, ServerWarning, SessionEvent

SUPPORT = Path(__file__).parent
SECRET = "tok-51c0ffee-9a7d"
DEADLINE_S = 30.0


class Hostile:
    """`open` connects to the server in some modes; `refuse` expects that to fail."""

    def __init__(self, folder: Path) -> None:
        self.pid_file = folder / "pids"
        self.events: list[SessionEvent] = []
        self.errors: list[McpError] = []
        self.shown: list[str] = []

    def spec(self, *modes: str, **fields: Any) -> ServerSpec:
        script = "hostile_mcp.py" if modes else "mcp_stub.py"
        env = {"PID_FILE": str(self.pid_file), "API_TOKEN": SECRET} | fields.pop("env", {})
        command = (sys.executable, str(SUPPORT / script), *modes)
        return ServerSpec("files", **({"command": command, "env": env, "close_wait_s": 0.5} | fields))

    @asynccontextmanager
    async def open(self, *modes: str, **fields: Any) -> AsyncIterator[McpClientSession]:
        spec = self.spec(*modes, **fields)
        self.shown.append(repr(spec))
        async with asyncio.timeout(DEADLINE_S), open_session(spec, on_event=self.events.append) as session:
            yield session
            self.shown += [repr(session), session.stderr_tail()]

    async def refuse(self, *modes: str, **fields: Any) -> McpError:
        with pytest.raises(McpError) as caught:
            async with self.open(*modes, **fields):
                pass
        return self.keep(caught.value)

    async def fail_call(self, session: McpClientSession, name: str, **options: Any) -> McpError:
        with pytest.raises(McpError) as caught:
            await session.call_tool(name, {}, **options)
        return self.keep(caught.value)

    def keep(self, error: McpError) -> McpError:
        self.errors.append(error)
        self.shown += ["".join(traceback.format_exception(error)), repr(error), str(error), repr(vars(error))]
        return error

    @property
    def warnings(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, ServerWarning)]

    def pids(self) -> list[int]:
        return [int(line) for line in self.pid_file.read_text().split()] if self.pid_file.exists() else []


def group_exists(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    return True
