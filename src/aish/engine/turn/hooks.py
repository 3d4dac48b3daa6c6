"""Runs the user's hooks at the points of one turn, and applies what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from aish.engine.prompt.message_notes import add_hook_notes
from aish.errors import UsageError
from aish.ports import ExtensionPoints
from aish.types.decisions import HookEvent, HookPoint, HookVerdict, Question
from aish.types.messages import UserMessage
from aish.types.requests import TurnRequest
from aish.types.tools import Arguments, ToolSpec

_MAX_TEXT_CHARS = 32_000  # of a question, an answer or a result that a hook is told


class TurnHooks:
    """`session`, `turn` and `model` are those of the turn."""

    def __init__(self, extensions: ExtensionPoints, *, session: str, turn: str, model: str) -> None:
        self._extensions = extensions
        self._session = session
        self._turn = turn
        self._model = model

    def has(self, point: HookPoint) -> bool:
        """Whether there is any hook for this point. Where there is none, nothing is asked."""
        return self._extensions.has_hooks(point)

    async def before_turn(self, request: TurnRequest) -> tuple[TurnRequest, Sequence[str]]:
        """The request with the notes of hooks, and notices for the user. Raises UsageError if a hook denies it."""
        question = "\n".join(message.text for message in request.input if isinstance(message, UserMessage))
        verdict = await self._extensions.run_hooks(self._event("before_turn", text=question))
        if verdict.refusal is not None:
            raise UsageError(f"a hook refused this turn: {verdict.refusal}")
        return add_hook_notes(request, verdict.notes), verdict.notices

    async def before_tool(self, tool: ToolSpec, arguments: Arguments) -> HookVerdict:
        return await self._extensions.run_hooks(
            self._event("before_tool", tool=tool.name, effect=tool.effect.value, arguments=arguments)
        )

    async def after_tool(self, tool: ToolSpec, arguments: Arguments, text: str, status: str) -> HookVerdict:
        """Its notes go with the result."""
        return await self._extensions.run_hooks(
            self._event(
                "after_tool", tool=tool.name, effect=tool.effect.value, arguments=arguments, text=text, status=status
            )
        )

    async def after_turn(self, text: str, status: str) -> None:
        """Nothing can be changed any more, so answers are ignored."""
        await self._extensions.run_hooks(self._event("after_turn", text=text, status=status))

    async def on_question(self, question: Question) -> HookVerdict:
        """A hook may answer a question of the gate with no."""
        return await self._extensions.run_hooks(
            self._event(
                "on_question", tool=question.tool, effect=question.effect, arguments=question.arguments,
                text=question.reason,
            )
        )  # fmt: skip

    def _event(self, point: HookPoint, **fields: Any) -> HookEvent:
        event = HookEvent(point, session=self._session, turn=self._turn, model=self._model, **fields)
        return msgspec.structs.replace(event, text=event.text[:_MAX_TEXT_CHARS])
