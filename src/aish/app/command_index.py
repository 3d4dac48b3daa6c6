"""Makes the index of commands from the configuration: its file, and the sources that it may read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aish.config import paths
from aish.config.schema.shell import ShellConfig
from aish.tools.command_index.index import CommandIndex
from aish.tools.command_index.lines import history_file, tldr_folders


def command_index(config: ShellConfig, env: Mapping[str, str], redacted: Callable[[str], str]) -> CommandIndex:
    home = paths.home_dir(env)
    return CommandIndex(
        paths.cache_dir(env) / "commands.db",
        env.get("PATH", ""),
        tldr=tldr_folders(home),
        history=history_file(home, env.get("HISTFILE", "")) if config.recall_history else None,
        redacted=redacted,
    )
