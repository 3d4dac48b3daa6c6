"""A call that a person is asked about: shown in full, and changed by them."""

from __future__ import annotations

from aish.frontends.shell.prompt.line_reader import Lines
from aish.frontends.terminal import Output
from aish.types.decisions import Question
from aish.types.tools import Arguments


def what_would_run(question: Question) -> str:
    """The diff, where there is one, says more than the arguments it comes from."""
    if question.preview.startswith("--- "):
        return question.preview
    arguments = arguments_shown(question)
    return f"{arguments}\n{question.preview}" if question.preview else arguments


def arguments_shown(question: Question) -> str:
    command = question.arguments.get("command")
    if isinstance(command, str) and len(question.arguments) == 1:
        return f"$ {command}"
    return _json(question.arguments, indent=2)


async def edited_arguments(question: Question, lines: Lines, output: Output) -> Arguments | None:
    """A command is edited as it is, anything else as JSON; None if nothing came of it."""
    command = question.arguments.get("command")
    if isinstance(command, str):
        line = await lines.read("new command: ", command)
    else:
        line = await lines.read("new arguments (JSON): ", _json(question.arguments))
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
    import json  # only once somebody is asked

    return json.dumps(arguments, ensure_ascii=False, indent=indent)
