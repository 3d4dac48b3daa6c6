"""A sandbox for tests of work towards a goal."""

from __future__ import annotations

from aish.safety.commands import ShellContext

_SHELL = ShellContext(cwd="/work", home="/home/u", roots=("/work",))


class FakeSandbox:
    """Holds everything; nothing is there yet but what `there` names."""

    def __init__(self, *there: str, active: bool = True, shell: ShellContext = _SHELL) -> None:
        self.there = there
        self.active = active
        self.shell = shell

    def shell_in(self, turn: str) -> ShellContext:
        return self.shell

    async def is_active(self) -> bool:
        return self.active

    def is_new(self, path: str) -> bool:
        return any(path.startswith(f"{root}/") for root in self.shell.roots) and path not in self.there
