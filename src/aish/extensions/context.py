"""What a running tool, command or hook knows of its call, and can do besides returning a result."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

AskUser = Callable[[str, Sequence[str]], Awaitable["str | None"]]


async def _ask_nobody(text: str, choices: Sequence[str]) -> str | None:
    return None


def _ignore(text: str) -> None:
    pass


class Context:
    """Given to functions that have a parameter `ctx`.

    `workspace` is the folder that the model works in. `settings` is what the extension's settings were read into, None
    if it has none.
    """

    def __init__(
        self,
        *,
        workspace: Path,
        session: str = "",
        turn: str = "",
        call: str = "",
        settings: Any = None,
        on_status: Callable[[str], None] = _ignore,
        on_output: Callable[[str], None] = _ignore,
        ask: AskUser = _ask_nobody,
    ) -> None:
        self.workspace = workspace
        self.session = session
        self.turn = turn
        self.call = call
        self.settings = settings
        self._on_status = on_status
        self._on_output = on_output
        self._ask = ask
        self._cancelled = threading.Event()

    @property
    def is_cancelled(self) -> bool:
        """Whether the call was cancelled. A tool that is not `async` runs in a thread, which cannot be stopped: one
        that takes long should look here."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        self._cancelled.set()

    def status(self, text: str) -> None:
        """Shows the user a line while the tool runs."""
        self._on_status(text)

    def output(self, text: str) -> None:
        """Shows the user what the tool prints, as it comes. The model gets the result only."""
        self._on_output(text)

    async def ask(self, text: str, choices: Sequence[str] = ()) -> str | None:
        """Asks the user. Returns None if there is no user to ask, or no answer. Only for functions that are `async`."""
        return await self._ask(text, choices)
