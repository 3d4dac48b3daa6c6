"""Texts for the models of autonomous work."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from aish.tool_calls.detect.proposals import lines_of_prose
from aish.types.runs import StepRecord
from aish.types.tools import Arguments

COMPLETE = "GOAL: complete"
LOST_SECRET = (
    "[aish] it held a secret, and secrets are not stored while the work stands still. Write the command so that it "
    "reads the secret itself, from its file or variable."
)
LOST_ANSWER = (
    "aish was ended while you answered. No CMD: line of that answer was run, and if you wrote that the goal is "
    "complete, that was not read. Write again what is still to be done."
)
NOT_ALL_DONE = (
    "Not all of that was done, so the goal does not count as reached. Find another way, or write again that it is "
    "complete."
)
_MAX_OUTPUT = 4000  # characters of one command's output; a tool result has a limit of its own
_MAX_RECOVERED = 10

_RULES = (
    "You work towards a goal by yourself, step by step; no one answers questions in between. In each step use tools or "
    "write commands, each on a line of its own that begins with CMD: and holds nothing else. Then you get "
    "their output. Some are refused or skipped: find another way. Do one small thing at a time and look at the result. "
    f"When the goal is reached, and only then, write {COMPLETE} on a line of its own."
)

PREPLANNER = (
    "Write the list of tasks that lead to the goal below, for a less able model that has a shell and tools. At most "
    "eight short lines, each one task that can be checked, numbered, in order. Nothing else."
)

OPINION = (
    "Another model works towards a goal by itself and wants to do what is shown. Answer with one JSON object: "
    '{"halt": true or false, "why": "one short sentence"}. Say halt where it could lose data, leave the workspace, '
    "send something away, or has nothing to do with the goal."
)


def system_text(goal: str, tasks: str) -> str:
    """The system message of every step. The goal is part of it, so that it never leaves the context window."""
    return "\n\n".join(filter(None, (_RULES, f"The goal: {goal}", tasks and f"The tasks:\n{tasks}")))


def next_step(number: int, max_steps: int, report: str) -> str:
    head = f"Step {number} of at most {max_steps}."
    return "\n\n".join(filter(None, (head, report, "Go on." if number > 1 else "Begin.")))


def is_complete(answer: str) -> bool:
    """Whether a line outside code fences says that the goal is complete, and nothing else."""
    return any(line.strip() == COMPLETE for line in lines_of_prose(answer))


def describe_call(tool: str, arguments: Arguments, status: str, output: str) -> str:
    command = arguments.get("command")
    call = f"$ {command}" if isinstance(command, str) else f"{tool} {msgspec.json.encode(arguments).decode()}"
    if len(output) > _MAX_OUTPUT:
        output = f"{output[: _MAX_OUTPUT // 2]}\n[…]\n{output[-_MAX_OUTPUT // 2 :]}"
    return f"{call}\n[{status}]\n{output}".rstrip()


def describe_recovery(recovered: Sequence[StepRecord]) -> str:
    """What the model has to know of the effects that were under way when the last process ended."""
    if not recovered:
        return ""
    lines = [f"- {step.tool} {step.arguments.decode()[:300]}: {step.outcome}" for step in recovered[:_MAX_RECOVERED]]
    return "aish was ended in the middle. Of what was under way:\n" + "\n".join(lines)
