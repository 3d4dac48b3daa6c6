"""Shows a call that needs approval and what the gate says of it, and lets the user edit its arguments."""

from __future__ import annotations

from collections.abc import Iterator

from aish.frontends.shell.prompt.line_reader import AnswerReader
from aish.frontends.terminal import Output
from aish.safety.commands import ShellContext, classify
from aish.safety.policy.judgement import Judgement
from aish.types.decisions import Question
from aish.types.tools import Arguments

HARMLESS = "only reads, as far as can be told"


def call_text(question: Question) -> str:
    """The call with its preview. A diff stands alone: it says more than the arguments that it comes from."""
    if question.preview.startswith("--- "):
        return question.preview
    arguments = arguments_text(question)
    return f"{arguments}\n{question.preview}" if question.preview else arguments


def arguments_text(question: Question) -> str:
    command = question.arguments.get("command")
    if isinstance(command, str) and len(question.arguments) == 1:
        return f"$ {command}"
    return _json(question.arguments, indent=2)


def level_line(command: str, context: ShellContext) -> str:
    """The classification of the command, before any rule is applied."""
    verdict = classify(command, context)
    return verdict.level.value + (" (asked about even when everything is approved)" if verdict.catastrophe else "")


def verdict_lines(judged: Judgement) -> Iterator[str]:
    reason = judged.reason or HARMLESS
    yield f"{judged.verdict}: {reason}"
    for more in judged.reasons:
        if more != reason:
            yield f"  - {more}"


async def read_edited_arguments(question: Question, reader: AnswerReader, output: Output) -> Arguments | None:
    """The arguments as the user has edited them: a command as it is, others as JSON. None if they are empty or
    invalid."""
    command = question.arguments.get("command")
    if isinstance(command, str):
        line = await reader.read("new command: ", command)
    else:
        line = await reader.read("new arguments (JSON): ", _json(question.arguments))
    if not line or not line.strip():
        return None
    if isinstance(command, str):
        return {**question.arguments, "command": line}
    import json

    from aish.tool_calls.schema.validator import schema_errors

    try:
        arguments = json.loads(line)
    except (ValueError, RecursionError) as exc:
        output.note(f"that is not JSON: {exc}")
        return None
    if errors := schema_errors(question.schema, arguments):
        output.note(f"that does not fit {question.tool}: {'; '.join(errors)}")
        return None
    return arguments if isinstance(arguments, dict) else None


def _json(arguments: Arguments, indent: int | None = None) -> str:
    import json  # not before the first question

    return json.dumps(arguments, ensure_ascii=False, indent=indent)
