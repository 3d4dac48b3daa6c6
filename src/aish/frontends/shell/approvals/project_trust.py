"""Settings of a project that are not trusted: shown and asked about once, before the first prompt.

Yes and no are remembered for this very content, and a changed file is asked about anew. Any other answer is "later".
"""

from __future__ import annotations

from aish.config.load import some_of
from aish.config.trust import content_hash, project_content, refuse, trust, was_refused
from aish.errors import ConfigError
from aish.frontends.runtime import Runtime
from aish.frontends.shell.prompt.line_reader import Lines, drop_typed_ahead
from aish.frontends.terminal import Output

# What a person reads before they answer; of a longer file the end would be accepted unseen.
_MAX_LINES = 100
_MAX_CHARS = 8000


async def ask_about_project(runtime: Runtime, output: Output, lines: Lines) -> Runtime:
    """What to go on with: another one where the answer changed what holds."""
    try:
        return await _ask(runtime, output, lines)
    except ConfigError as exc:  # of the pins or of the file, which is gone or has changed: nothing is trusted then
        output.note(f"aish: {exc.message}")
        return runtime


async def _ask(runtime: Runtime, output: Output, lines: Lines) -> Runtime:
    file = next(file for file in runtime.loaded.files if file.ignored)
    env = runtime.process_environment.env
    content = project_content(file.path)
    if was_refused(file.path, content, env=env):
        return runtime
    output.note(f"This project has settings for aish, {file.path}:")
    whole = _show(content.decode("utf-8", "replace"), output)
    output.note(f"Of these only with your trust: {some_of(file.ignored)}")
    if not whole:
        output.note("It is too long to be shown here: read it, and `aish config trust` accepts it.")
    drop_typed_ahead()  # keys from before the question was seen are no answer to it
    answer = await lines.read("Trust it as it is now? [y]es [n]o [l]ater: " if whole else "Ask again? [n]o [l]ater: ")
    match (answer or "").strip().lower():
        case "y" | "yes" if whole:
            trust(file.path, env=env, expected=content_hash(content))
            return runtime.reloaded()
        case "n" | "no":
            refuse(file.path, content, env=env)
    return runtime


def _show(text: str, output: Output) -> bool:
    """Whether that is all of it."""
    lines = text[:_MAX_CHARS].rstrip("\n").split("\n")
    for line in lines[:_MAX_LINES]:
        output.note(f"  │ {line}")
    return len(text) <= _MAX_CHARS and len(lines) <= _MAX_LINES
