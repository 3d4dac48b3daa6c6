"""Files with tools, and what a test needs to call them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from aish.extensions.manifest import PythonSource
from aish.tools.extensions.process import CallPlace

HEAD = "import asyncio, os, sys, time\nfrom aish import *\n"


def write_source(path: Path, code: str, owner: str = "my") -> PythonSource:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + code)
    return source_of(path, owner)


def source_of(path: Path, owner: str = "my") -> PythonSource:
    return PythonSource(owner, path=str(path), revision=hashlib.sha256(path.read_bytes()).hexdigest())


class CallRecord:
    """A call's place, and what was reported while it ran. `answer` is what the user answers."""

    def __init__(self, workspace: Path, answer: str | None = None) -> None:
        self.statuses: list[str] = []
        self.output: list[str] = []
        self.questions: list[tuple[str, list[str]]] = []
        self._answer = answer
        self.place = CallPlace(
            str(workspace), "sess_1", "turn_1", "call_1", self.statuses.append, self.output.append, self._ask
        )

    async def _ask(self, text: str, choices: Sequence[str]) -> str | None:
        self.questions.append((text, list(choices)))
        return self._answer


class NoExtensions:
    """A runtime's extensions where there are none."""

    commands: dict[str, object] = {}
    problems: tuple[str, ...] = ()

    async def refresh(self) -> tuple[str, ...]:
        return ()

    def tool_files(self) -> tuple[()]:
        return ()

    def has_tools_of(self, source: str) -> bool:
        return False
