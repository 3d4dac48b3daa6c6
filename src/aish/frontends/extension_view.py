"""What frontends see of Python extensions: files, enabled extensions, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from aish.config.extensions import Extension
    from aish.config.tool_files import ToolFile
    from aish.extensions.manifest import CommandEntry, Manifest, PythonSource


class CommandReply(Protocol):
    """What a command returned: a text for the user, or a prompt for the model."""

    @property
    def text(self) -> str: ...

    @property
    def prompt(self) -> str: ...


class ExtensionView(Protocol):
    """The Python extensions of the engine that is open."""

    async def refresh(self) -> Sequence[str]:
        """Takes up what was added, changed or removed. Returns new problems."""

    def tool_files(self) -> Sequence[ToolFile]:
        """The files of the user and of the project, also those that are not trusted."""

    @property
    def enabled(self) -> Sequence[Extension]:
        """The extensions that the user has enabled, also those that have changed since."""

    @property
    def commands(self) -> Mapping[str, CommandEntry]:
        """The commands of all extensions, by name."""

    @property
    def problems(self) -> Sequence[str]:
        """What is wrong with files and extensions, in words."""

    def has_tools_of(self, source: str) -> bool:
        """Whether the tools of this source are Python."""

    async def describe(self, sources: Sequence[PythonSource]) -> Sequence[Manifest]:
        """What sources define that need not be enabled. Their Python is imported in the tool process."""

    async def run_command(self, name: str, text: str, cwd: str) -> CommandReply:
        """Runs a command with the words after its name. Raises ToolError; UsageError if it is gone."""
