"""Puts the gate's questions to the person at the terminal: what will happen, in full, and what they may answer."""

from __future__ import annotations

from aish.frontends.shell.approvals.call_view import arguments_shown, edited_arguments, what_would_run
from aish.frontends.shell.prompt.line_reader import Lines, drop_typed_ahead
from aish.frontends.terminal import Output, has_person, visible
from aish.ports import Ask
from aish.safety.policy.always_rules import is_too_wide
from aish.safety.policy.gate import SHELL_TOOL
from aish.types.decisions import Answer, Choice, Question, QuestionKind

_WORDS = {
    "y": Choice.YES, "yes": Choice.YES, "n": Choice.NO, "no": Choice.NO, "t": Choice.TURN, "turn": Choice.TURN,
    "a": Choice.ALWAYS, "always": Choice.ALWAYS, "e": Choice.EDIT, "edit": Choice.EDIT,
}  # fmt: skip


async def always_yes(question: Question) -> Answer:
    """For `--yes`. It covers what is asked as a matter of course, not what the gate insists on."""
    if question.insist or question.kind is QuestionKind.REPEAT:
        return Answer(Choice.NO, f"--yes does not cover this: {question.reason}")
    return Answer(Choice.YES)


def consent_for(output: Output, lines: Lines, *, yes: bool) -> Ask | None:
    """None where there is nobody to ask."""
    if yes:
        return always_yes
    return TerminalConsent(output, lines) if has_person() else None


class TerminalConsent:
    def __init__(self, output: Output, lines: Lines) -> None:
        self._output = output
        self._lines = lines

    async def __call__(self, question: Question) -> Answer:
        """Anything but a clear yes is a no; so is the end of input."""
        drop_typed_ahead()  # what was typed before the question was seen is no answer to it
        self._output.note(f"{question.tool} wants to run: {question.reason}")
        self._output.note(what_would_run(question))
        while True:
            line = await self._lines.read(_prompt(question))
            word = "" if line is None else line.strip().lower()
            if not word:
                return Answer(Choice.NO, "the user did not say yes")
            if question.kind is QuestionKind.REPEAT and word not in ("y", "yes", "n", "no"):
                continue
            if word in ("x", "explain"):
                self._explain(question)
                continue
            choice = _WORDS.get(word)
            if choice is Choice.EDIT:
                arguments = await edited_arguments(question, self._lines, self._output)
                if arguments is not None:
                    return Answer(Choice.EDIT, arguments=arguments)
            elif choice is Choice.TURN and not question.like:
                self._output.note("this is asked about each time")
            elif choice is Choice.ALWAYS and not question.always:
                self._output.note("no rule would be narrow enough to allow this always")
            elif choice is Choice.ALWAYS:
                command = question.tool == SHELL_TOOL
                if always := await ask_how_wide(question.always, self._lines, self._output, command=command):
                    return always
            elif choice is not None:
                return Answer(choice)

    def _explain(self, question: Question) -> None:
        if question.preview:
            self._output.note(arguments_shown(question))
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


async def ask_how_wide(always: str, lines: Lines, output: Output, *, command: bool) -> Answer | None:
    """What is always to be allowed, as the person leaves it; None: ask again."""
    covers = always.removeprefix("always ")
    changed = await lines.read("always allow: ", covers)
    if changed is None:
        return None
    wanted = changed.strip() or covers
    if wanted != covers and is_too_wide(wanted, command=command):
        output.note("that would allow nearly everything; nothing was run or kept")
        return None
    return Answer(Choice.ALWAYS, rule=wanted)
