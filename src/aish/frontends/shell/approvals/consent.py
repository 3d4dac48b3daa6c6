"""Puts the gate's questions to the user at the terminal, and reads the answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aish.frontends.shell.approvals.question_view import explain_lines, show_question
from aish.frontends.shell.prompt.line_reader import AnswerReader, StdinReader
from aish.frontends.shell.render.styles import columns_of
from aish.frontends.terminal import Output, is_interactive
from aish.ports import Ask
from aish.safety.commands import ShellContext, classify
from aish.safety.policy.always_rules import covers_example, is_too_wide
from aish.safety.policy.judgement import Judgement
from aish.safety.policy.rules import SHELL_TOOL
from aish.types.decisions import Answer, Choice, Question, QuestionKind

_CHOICES = {
    "y": Choice.YES, "yes": Choice.YES, "n": Choice.NO, "no": Choice.NO, "l": Choice.STEP, "all": Choice.STEP,
    "t": Choice.TURN, "turn": Choice.TURN, "s": Choice.SESSION, "session": Choice.SESSION, "a": Choice.ALWAYS,
    "always": Choice.ALWAYS, "e": Choice.EDIT, "edit": Choice.EDIT,
}  # fmt: skip
_PLAN_PROMPT = "follow this plan? [a]pprove, [e]dit, [r]efuse: "
TYPED_YES = "this cannot be undone; type yes to run it: "
HARMLESS = "only reads, as far as can be told"
_NOT_OFFERED = {
    Choice.STEP: "there are no other calls like this in the step",
    Choice.TURN: "this is asked about each time",
    Choice.SESSION: "this is asked about each time",
    Choice.ALWAYS: "no rule would be narrow enough to allow this always",
}


async def approve_all(question: Question) -> Answer:
    """For `--yes`. Says no to what the gate insists on asking, to repeated calls and to what tools ask for."""
    if question.insist or question.kind in (QuestionKind.REPEAT, QuestionKind.INPUT):
        return Answer(Choice.NO, f"--yes does not cover this: {question.reason}")
    return Answer(Choice.YES)


def make_consent(output: Output, reader: StdinReader, env: Mapping[str, str], *, yes: bool) -> Ask | None:
    """None if there is no user to ask. `env` names the user's editor."""
    if yes:
        return approve_all
    return TerminalConsent(output, reader, env) if is_interactive() else None


class TerminalConsent:
    def __init__(self, output: Output, reader: AnswerReader, env: Mapping[str, str]) -> None:
        self._output = output
        self._reader = reader
        self._env = env

    async def __call__(self, question: Question) -> Answer:
        """An empty line and the end of input are a no; an unknown word is asked about again."""
        self._reader.drop_typed_ahead()
        if question.kind is QuestionKind.PLAN:
            return await self._ask_about_plan(question)
        if question.kind is QuestionKind.INPUT:
            return await ask_for_input(question, self._reader, self._output)
        show_question(question, self._output)
        if question.insist and question.kind is QuestionKind.EFFECT:
            return await self._ask_for_word(question)
        while True:
            line = await self._reader.read(_prompt(question, columns_of(self._output.out)()))
            word = "" if line is None else line.strip().lower()
            if not word:
                return Answer(Choice.NO, "the user did not say yes")
            if word in ("x", "explain") and question.kind is QuestionKind.EFFECT:
                self._explain(question)
            elif (answer := await self._read_answer(question, _CHOICES.get(word))) is not None:
                return answer

    async def _ask_about_plan(self, question: Question) -> Answer:
        """The plan itself has been printed."""
        while True:
            match ((await self._reader.read(_PLAN_PROMPT)) or "").strip().lower():
                case "a" | "approve" | "y" | "yes":
                    return Answer(Choice.YES)
                case "e" | "edit":
                    from aish.frontends.shell.approvals.editor import read_edited_arguments

                    edited = await read_edited_arguments(question, self._reader, self._output, self._env)
                    if edited is not None:
                        return Answer(Choice.EDIT, arguments=edited)
                case "" | "r" | "refuse" | "n" | "no":
                    return Answer(Choice.NO)

    async def _ask_for_word(self, question: Question) -> Answer:
        """Only "yes", spelled out, is a yes."""
        while True:
            typed = ((await self._reader.read(TYPED_YES)) or "").strip().lower()
            if typed not in ("x", "explain"):
                return Answer(Choice.YES) if typed == "yes" else Answer(Choice.NO, "the user did not type yes")
            self._explain(question)

    async def _read_answer(self, question: Question, choice: Choice | None) -> Answer | None:
        """None: the user is asked again."""
        if choice is None or (question.kind is QuestionKind.REPEAT and choice not in (Choice.YES, Choice.NO)):
            return None
        if not _is_offered(question, choice):
            self._output.note(_NOT_OFFERED[choice])
            return None
        if choice is Choice.EDIT:
            from aish.frontends.shell.approvals.editor import read_edited_arguments

            arguments = await read_edited_arguments(question, self._reader, self._output, self._env)
            return None if arguments is None else Answer(Choice.EDIT, arguments=arguments)
        if choice is Choice.ALWAYS:
            command = question.tool == SHELL_TOOL
            example = str(question.arguments.get("command", "")) if command else question.tool
            return await ask_for_rule(question.always, self._reader, self._output, command=command, example=example)
        return Answer(choice)

    def _explain(self, question: Question) -> None:
        for line in explain_lines(question):
            self._output.note(line)


def _is_offered(question: Question, choice: Choice) -> bool:
    match choice:
        case Choice.STEP:
            return bool(question.others)
        case Choice.TURN | Choice.SESSION:
            return bool(question.like)
        case Choice.ALWAYS:
            return bool(question.always)
        case _:
            return True


def _prompt(question: Question, columns: int) -> str:
    """On a narrow terminal without the answers that are named above it."""
    if question.kind is QuestionKind.REPEAT:
        return "go on? [y]es, [n]o: "
    words = ["[y]es", "[n]o", "[e]dit", "e[x]plain"]
    wider = ["a[l]l"] if question.others else []
    wider += ["[t]urn", "[s]ession"] if question.like else []
    wider += ["[a]lways"] if question.always else []
    prompt = f"run it? {', '.join((*words, *wider))}: "
    return prompt if len(prompt) < columns else f"{' '.join(words)}{' …' if wider else ''}: "


async def ask_for_input(question: Question, reader: AnswerReader, output: Output) -> Answer:
    """Reads what a tool asks for: the number or the text of a choice, or any text. An empty line is no answer."""
    choices = [str(choice) for choice in question.arguments.get("choices", [])]
    output.note(f"{question.tool} asks: {question.reason}")
    for number, choice in enumerate(choices, 1):
        output.note(f"  {number}  {choice}")
    while True:
        typed = ((await reader.read("your answer: ")) or "").strip()
        if not typed:
            return Answer(Choice.NO)
        if not choices or typed in choices:
            return Answer(Choice.YES, typed)
        if typed.isdecimal() and 0 < int(typed) <= len(choices):
            return Answer(Choice.YES, choices[int(typed) - 1])
        output.note("that is none of these; an empty line gives no answer")


async def ask_for_rule(
    always: str, reader: AnswerReader, output: Output, *, command: bool, example: str = ""
) -> Answer | None:
    """Lets the user edit the rule to add. None if they gave none that can be accepted. `example` is the command or the
    tool that is asked about, which the rule must cover; "" if that is unknown."""
    proposed = always.removeprefix("always ")
    typed = await reader.read("always allow: ", proposed)
    if typed is None:
        return None
    rule = typed.strip() or proposed
    if rule == proposed:
        return Answer(Choice.ALWAYS, rule=rule)
    if is_too_wide(rule, command=command):
        output.note("that would allow nearly everything; nothing was run or kept")
        return None
    if example and not covers_example(proposed, rule, example, command=command):
        output.note(f"{rule!r} does not cover what is asked about: {example}; nothing was run or kept")
        return None
    return Answer(Choice.ALWAYS, rule=rule)


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
