"""Settings for the shell."""

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
            description="The text before the input line. Fields: `{model}`, `{cwd}`, `{branch}`, `{ctx_used}`, "
            "`{ctx_max}`, `{cost}`, `{status}` and `{mark}`, which shows where the line goes."
        ),
    ] = "{cwd} {branch} {status}{mark} "
    continue_after_commands: Annotated[
        Literal["ask", "always", "never"],
        Meta(description="Whether the output of a proposed command is sent to the model at once."),
    ] = "ask"
    attach_output: Annotated[
        bool, Meta(description="Whether the output of your commands is sent with your next question.")
    ] = True
    attach_max_chars: Annotated[
        int, Meta(ge=0, description="The most characters of that output; the beginning and the end of it are sent.")
    ] = 16_000
    recall_history: Annotated[
        bool,
        Meta(
            description="Whether lines of your bash history are hints when you ask for a command. They are shown to "
            "you and sent to the model; lines that seem to hold a secret are left out."
        ),
    ] = False
    editing: Annotated[
        Literal["auto", "emacs", "vi"], Meta(description="Key bindings; `auto` takes those of your bash.")
    ] = "auto"
    highlight: Annotated[bool, Meta(description="Colour code in answers.")] = True
    reasoning: Annotated[Literal["fold", "show", "hide"], Meta(description="How a model's reasoning is shown.")] = (
        "fold"
    )
