"""Asks before the first prompt whether to trust the settings of the project.

Yes and no are remembered for the exact content of the file; a changed file is asked about again. Any other answer means
"later".
"""

from __future__ import annotations

from aish.config.load import join_names
from aish.config.user_decisions import content_hash, project_content, refuse, trust, was_refused
from aish.errors import ConfigError
from aish.frontends.runtime import Runtime
from aish.frontends.shell.prompt.line_reader import StdinReader, drop_typed_ahead
from aish.frontends.terminal import Output

# Longer files cannot be accepted here: the user would trust an end that was not shown.
_MAX_LINES = 100
_MAX_CHARS = 8000


async def ask_about_project(runtime: Runtime, output: Output, reader: StdinReader) -> Runtime:
    """The runtime to continue with: a new one if the user trusted the file."""
    try:
        return await _ask(runtime, output, reader)
    except ConfigError as exc:  # the file or the record of trusted files is gone or has changed: nothing is trusted
        output.note(f"aish: {exc.message}")
        return runtime


async def _ask(runtime: Runtime, output: Output, reader: StdinReader) -> Runtime:
    file = next(file for file in runtime.loaded.files if file.ignored)
    env = runtime.process_environment.env
    content = project_content(file.path)
    if was_refused(file.path, content, env=env):
        return runtime
    output.note(f"This project has settings for aish, {file.path}:")
    whole = _show(content.decode("utf-8", "replace"), output)
    output.note(f"Ignored until you trust it: {join_names(file.ignored)}")
    if not whole:
        output.note("It is too long to be shown here: read it, and `aish config trust` accepts it.")
    drop_typed_ahead()  # keys typed before the question was shown do not answer it
    answer = await reader.read("Trust it as it is now? [y]es [n]o [l]ater: " if whole else "Ask again? [n]o [l]ater: ")
    match (answer or "").strip().lower():
        case "y" | "yes" if whole:
            trust(file.path, env=env, expected=content_hash(content))
            return runtime.reloaded()
        case "n" | "no":
            refuse(file.path, content, env=env)
    return runtime


def _show(text: str, output: Output) -> bool:
    """Prints the text up to a limit. Whether that was all of it."""
    lines = text[:_MAX_CHARS].rstrip("\n").split("\n")
    for line in lines[:_MAX_LINES]:
        output.note(f"  │ {line}")
    return len(text) <= _MAX_CHARS and len(lines) <= _MAX_LINES
