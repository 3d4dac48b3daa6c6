"""Puts the gate's questions to the user at the terminal: shows the call, and lets its arguments be edited."""

from __future__ import annotations

from collections.abc import Iterator

from aish.frontends.shell.prompt.line_reader import AnswerReader, StdinReader, drop_typed_ahead
from aish.frontends.terminal import Output, is_interactive, visible
from aish.ports import Ask
from aish.safety.commands import ShellContext, classify
from aish.safety.policy.always_rules import is_too_wide
from aish.safety.policy.judgement import Judgement
from aish.safety.policy.rules import SHELL_TOOL
from aish.types.decisions import Answer, Choice, Question, QuestionKind
from aish.types.tools import Arguments

_CHOICES = {
    "y": Choice.YES, "yes": Choice.YES, "n": Choice.NO, "no": Choice.NO, "t": Choice.TURN, "turn": Choice.TURN,
    "a": Choice.ALWAYS, "always": Choice.ALWAYS, "e": Choice.EDIT, "edit": Choice.EDIT,
}  # fmt: skip
HARMLESS = "only reads, as far as can be told"


async def approve_all(question: Question) -> Answer:
    """For `--yes`. Says no to what the gate insists on asking, and to repeated calls."""
    if question.insist or question.kind is QuestionKind.REPEAT:
        return Answer(Choice.NO, f"--yes does not cover this: {question.reason}")
    return Answer(Choice.YES)


def make_consent(output: Output, reader: StdinReader, *, yes: bool) -> Ask | None:
    """None if there is no user to ask."""
    if yes:
        return approve_all
    return TerminalConsent(output, reader) if is_interactive() else None


class TerminalConsent:
    def __init__(self, output: Output, reader: AnswerReader) -> None:
        self._output = output
        self._reader = reader

    async def __call__(self, question: Question) -> Answer:
        """An empty line and the end of input are a no; an unknown word is asked about again."""
        drop_typed_ahead()  # keys typed before the question was shown do not answer it
        self._output.note(f"{question.tool} wants to run: {question.reason}")
        self._output.note(call_text(question))
        while True:
            line = await self._reader.read(_prompt(question))
            word = "" if line is None else line.strip().lower()
            if not word:
                return Answer(Choice.NO, "the user did not say yes")
            if question.kind is QuestionKind.REPEAT and word not in ("y", "yes", "n", "no"):
                continue
            if word in ("x", "explain"):
                self._explain(question)
                continue
            choice = _CHOICES.get(word)
            if choice is Choice.EDIT:
                arguments = await read_edited_arguments(question, self._reader, self._output)
                if arguments is not None:
                    return Answer(Choice.EDIT, arguments=arguments)
            elif choice is Choice.TURN and not question.like:
                self._output.note("this is asked about each time")
            elif choice is Choice.ALWAYS and not question.always:
                self._output.note("no rule would be narrow enough to allow this always")
            elif choice is Choice.ALWAYS:
                command = question.tool == SHELL_TOOL
                if always := await ask_for_rule(question.always, self._reader, self._output, command=command):
                    return always
            elif choice is not None:
                return Answer(choice)

    def _explain(self, question: Question) -> None:
        if question.preview:
            self._output.note(arguments_text(question))
        for reason in question.reasons or (question.reason,):
            self._output.note(f"- {reason}")
        if question.always:
            self._output.note(f"[a]lways adds the rule: {question.always}")


def _prompt(question: Question) -> str:
    if question.kind is QuestionKind.REPEAT:
        return "go on? [y]es, [n]o: "
    always = f", [a]lways for {visible(question.always.removeprefix('always '))}" if question.always else ""
    turn = ", yes for this [t]urn" if question.like else ""
    return f"run it? [y]es, [n]o, [e]dit, e[x]plain{turn}{always}: "


async def ask_for_rule(always: str, reader: AnswerReader, output: Output, *, command: bool) -> Answer | None:
    """Lets the user edit the rule to add. None if they gave none that can be accepted."""
    proposed = always.removeprefix("always ")
    typed = await reader.read("always allow: ", proposed)
    if typed is None:
        return None
    rule = typed.strip() or proposed
    if rule != proposed and is_too_wide(rule, command=command):
        output.note("that would allow nearly everything; nothing was run or kept")
        return None
    return Answer(Choice.ALWAYS, rule=rule)


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
