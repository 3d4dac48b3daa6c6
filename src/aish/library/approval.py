"""Lets a function of the program decide the questions of the gate."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from aish.ports import Ask
from aish.types.decisions import Answer, Choice, Question, QuestionKind
from aish.types.tools import Arguments

# What a function may decide: yes or no, an answer of the gate, other arguments for the call, or the text that a tool
# asks for.
Decided = bool | Choice | Arguments | str
Approve = Callable[[Question], "Decided | Awaitable[Decided]"]


def make_ask(approve: Approve | None) -> Ask | None:
    """None if no function decides: then the gate refuses what it would ask about. An error in the function
    refuses the call."""
    if approve is None:
        return None

    async def ask(question: Question) -> Answer:
        decided = approve(question)
        if inspect.isawaitable(decided):
            decided = await decided
        if isinstance(decided, str) and not isinstance(decided, Choice):
            return Answer(Choice.YES, decided) if question.kind is QuestionKind.INPUT else Answer(Choice.NO)
        if isinstance(decided, Choice):
            return Answer(decided)
        if isinstance(decided, dict):
            return Answer(Choice.EDIT, arguments=decided)
        return Answer(Choice.YES if decided is True else Choice.NO)

    return ask
