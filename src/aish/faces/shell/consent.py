"""Puts the gate's questions to the person at the terminal."""

from __future__ import annotations

import json

from aish.faces.shell.lines import LineSource
from aish.faces.terminal import Output
from aish.types.decisions import Answer, Choice, Question

_CHOICES = {"y": Choice.YES, "yes": Choice.YES, "n": Choice.NO, "no": Choice.NO, "t": Choice.TURN, "turn": Choice.TURN}


async def always_yes(question: Question) -> Answer:
    """For `--yes`."""
    return Answer(Choice.YES)


class TerminalConsent:
    def __init__(self, output: Output, lines: LineSource) -> None:
        self._output = output
        self._lines = lines

    async def __call__(self, question: Question) -> Answer:
        """Shows all that will happen. Anything but a clear yes is a no; the end of input is, too."""
        self._output.note(f"{question.tool} wants to run: {question.reason}")
        self._output.note(json.dumps(question.arguments, ensure_ascii=False, indent=2))
        while True:
            line = await self._lines.read("run it? [y]es, [n]o, yes for this [t]urn: ")
            if line is None or not line.strip():
                return Answer(Choice.NO, "the user did not say yes")
            if choice := _CHOICES.get(line.strip().lower()):
                return Answer(choice)
