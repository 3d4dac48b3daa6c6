"""Which tools and programs get the real value for a secret's placeholder."""

from __future__ import annotations

from typing import Any

import msgspec

from aish.safety.policy.rules import SHELL_TOOL
from aish.types.globs import globs_of

_PLACEHOLDER_ENDS = str.maketrans("", "", "<>")  # a shell would read them as redirections


class Recipients(msgspec.Struct, frozen=True):
    """`tools` are globs. `programs` are names: a command line gets secrets if every command in it is one of them."""

    tools: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()

    def has_tool(self, name: str) -> bool:
        return bool(self.tools) and name in globs_of(self.tools)

    def has_programs_of(self, tool: str, arguments: str) -> bool:
        """For a call of the shell, with its arguments as JSON."""
        if tool != SHELL_TOOL or not self.programs:
            return False
        try:
            read: Any = msgspec.json.decode(arguments)
        except (msgspec.DecodeError, RecursionError):
            return False
        command = read.get("command") if isinstance(read, dict) else None
        return isinstance(command, str) and self._has_all_of(command)

    def _has_all_of(self, command: str) -> bool:
        """Only for a plain line: without redirections to files, substitutions or assignments."""
        from aish.safety.commands import ShellContext
        from aish.safety.policy.command_line import read_command_line
        from aish.safety.redaction.vault import PLACEHOLDER

        text = PLACEHOLDER.sub(lambda match: match[0].translate(_PLACEHOLDER_ENDS), command)
        line = read_command_line(text, ShellContext(cwd="/", home="/"))
        return line.is_plain and bool(line.parts) and all(words[0] in self.programs for words in line.parts)
