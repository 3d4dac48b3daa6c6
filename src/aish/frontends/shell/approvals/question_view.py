"""What a question of the gate shows: the call in words a user reads, diffs in colour, and what may be lost first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from aish.frontends.shell.render.styles import columns_of
from aish.frontends.terminal import Output
from aish.safety.policy.rules import SHELL_TOOL
from aish.types.decisions import Mode, Question, QuestionKind
from aish.types.tools import Arguments

_DIFF_STYLES = {"+": "32", "-": "31", "@": "36"}
_BOLD = "1"
_MAX_VALUE_LINES = 200  # of one argument
_EFFECTS = {
    "read": "only reads", "write": "changes things", "exec": "runs programs", "network": "talks to other machines",
}  # fmt: skip


def show_question(question: Question, output: Output) -> None:
    """What is asked, beginning with what may be lost. Diffs stand for the arguments they come from."""
    columns = columns_of(output.out)()
    title = question.reason if question.reason.startswith(question.tool) else f"{question.tool}: {question.reason}"
    if question.danger or question.insist:
        for line in _wrap(title, columns):
            output.alarm(line)
        if question.loss:
            output.alarm(f"  {question.loss}")
    else:
        for line in _wrap(title, columns):
            output.note(line)
    show_call(question.arguments, question.preview, output)
    for number, other in enumerate(question.others, 2):
        output.note(f"and {number} of {len(question.others) + 1}:")
        show_call(other.arguments, other.preview, output)
    if question.kind is not QuestionKind.REPEAT and not question.insist:
        for line in _choice_lines(question, columns):
            output.note(line)


def _wrap(text: str, columns: int) -> list[str]:
    """Breaks prose between words. A command or a rule is shown as it is: the terminal breaks it, and blanks count."""
    if len(text) <= columns:
        return [text]
    return textwrap.wrap(text, columns, subsequent_indent="    ", break_on_hyphens=False)


def _choice_lines(question: Question, columns: int) -> Iterator[str]:
    """What the wider answers cover."""
    if question.others:
        yield f"  a[l]l: the {len(question.others) + 1} calls above"
    if question.like:
        yield from _wrap(f"  [t]urn, [s]ession: {question.like}", columns)
    if question.always:
        yield f"  [a]lways: {question.always.removeprefix('always ')}"


def show_call(arguments: Arguments, preview: str, output: Output) -> None:
    """A diff stands for the arguments that it comes from."""
    if is_diff(preview):
        show_diff(preview, output)
        return
    output.note(arguments_text(arguments))
    if preview:
        output.note(preview)


def is_diff(preview: str) -> bool:
    return preview.startswith("--- ") or "\n--- " in preview


def show_diff(diff: str, output: Output) -> None:
    """A unified diff, each file under its name."""
    lines = diff.splitlines()
    is_header = False
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if is_header:  # the second line of a header was shown with the first
            is_header = False
        elif line.startswith("--- ") and following.startswith("+++ "):
            is_header = True
            output.styled_note([(_title(line[4:], following[4:]), _BOLD)])
        else:
            output.styled_note([(line, _DIFF_STYLES.get(line[:1], ""))])


def _title(before: str, after: str) -> str:
    if before == "/dev/null":
        return f"new file {after.removeprefix('b/')}"
    if after == "/dev/null":
        return f"removes {before.removeprefix('a/')}"
    return f"changes {after.removeprefix('b/')}"


def arguments_text(arguments: Arguments) -> str:
    """A command as it is, other arguments by name."""
    command = arguments.get("command")
    if isinstance(command, str) and len(arguments) == 1:
        return f"$ {command}"
    return "\n".join(_lines_of(arguments)) or "(no arguments)"


def _lines_of(arguments: Arguments) -> Iterator[str]:
    for name, value in arguments.items():
        lines = _value_lines(value)
        if len(lines) == 1 and isinstance(value, str | int | float | bool | None):
            yield f"{name}: {lines[0]}"
        else:
            yield f"{name}:"
            yield from (f"  {line}" for line in lines[:_MAX_VALUE_LINES])
            if len(lines) > _MAX_VALUE_LINES:
                yield f"  … {len(lines) - _MAX_VALUE_LINES} more lines"


def _value_lines(value: object) -> list[str]:
    if isinstance(value, str):
        return value.splitlines() or [""]
    if isinstance(value, dict):
        return list(_lines_of(value))
    if isinstance(value, list):
        shown = (_value_lines(item) for item in value)
        return [f"{'- ' if number == 0 else '  '}{line}" for lines in shown for number, line in enumerate(lines)]
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    return ["nothing" if value is None else str(value)]


def explain_lines(question: Question) -> Iterator[str]:
    """In words: what it would do, why it is asked, and what each answer means."""
    if question.tool == SHELL_TOOL:
        yield "The model wants to run this command in a copy of your shell."
    else:
        yield f"The model wants to use {question.tool}, which {_EFFECTS.get(question.effect, 'can do anything')}."
    for reason in question.reasons or (question.reason,):
        yield f"- {reason}"
    if question.mode is not Mode.ASK:
        yield f"- it is asked although the mode is {question.mode}"
    if is_diff(question.preview):
        yield "If you say yes, exactly these changes are made, or none. :undo takes them back."
        yield arguments_text(question.arguments)
    if question.like:
        yield f"[t]urn and [s]ession also allow {question.like}, but nothing destructive, no secrets, no network."
        yield "[t]urn lasts until the model has answered, [s]ession until aish ends."
    if question.always:
        rule = question.always.removeprefix("always ")
        yield f"[a]lways adds the rule: {rule}. It is kept in `approved.json` in aish's data folder."
