"""Settings for the shell. Part of the schema."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from aish.config.schema.section import Section

PROMPT_FIELDS = ("model", "cwd", "branch", "ctx_used", "ctx_max", "cost", "status", "mark")


class ShellConfig(Section, frozen=True, forbid_unknown_fields=True):
    """The prompt where your shell and a model meet."""

    prompt: Annotated[
        str,
        Meta(
            description="What stands before the line. Fields: `{model}`, `{cwd}`, `{branch}`, `{ctx_used}`, "
            "`{ctx_max}`, `{cost}`, `{status}` and `{mark}`, which shows where the line goes."
        ),
    ] = "{cwd} {branch} {status}{mark} "
    continue_after_commands: Annotated[
        Literal["ask", "always", "never"],
        Meta(description="Whether the model hears at once what its proposed commands printed."),
    ] = "ask"
    attach_output: Annotated[
        bool, Meta(description="Whether what your commands printed goes along with your next question.")
    ] = True
    attach_max_chars: Annotated[int, Meta(ge=0, description="At most so much of it, head and tail.")] = 16_000
    recall_history: Annotated[
        bool,
        Meta(
            description="Whether lines of your bash history are hints when you ask for a command. They are shown to "
            "you and sent to the model; lines that look as if they held a secret are left out."
        ),
    ] = False
    editing: Annotated[
        Literal["auto", "emacs", "vi"], Meta(description="Keys for the line; `auto` does as your bash does.")
    ] = "auto"
    highlight: Annotated[bool, Meta(description="Colour code in answers.")] = True
    reasoning: Annotated[Literal["fold", "show", "hide"], Meta(description="What is shown of a model's thinking.")] = (
        "fold"
    )
