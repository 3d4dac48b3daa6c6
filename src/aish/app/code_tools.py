"""Makes the code tools from the configuration. Their implementation is imported when a tool is first called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aish.config.paths import data_dir
from aish.config.schema.tools import IdeConfig
from aish.frontends.runtime import LaunchContext
from aish.tools.code.toolset import IdeTools

if TYPE_CHECKING:
    from aish.tools.code.backends.mcp import IdeSession
    from aish.tools.code.facade import Ide, IdeSettings
    from aish.tools.code.languages import FoundServer, ServerChoice
    from aish.tools.mcp.server import McpServer
    from aish.tools.workspace import IsSecret
    from aish.types.tools import ToolSpec

# One of these in a folder makes it a project.
PROJECT_MARKS = (
    ".git", ".hg", "pyproject.toml", "setup.py", "package.json", "tsconfig.json", "compile_commands.json",
    "CMakeLists.txt", "Makefile", "Cargo.toml", "go.mod",
)  # fmt: skip

McpOfNow = Callable[[], Mapping[str, "McpServer"]]


def find_ide_tools(
    config: IdeConfig, here: LaunchContext, mcp: McpOfNow, is_secret: IsSecret, hides: Sequence[Path] = ()
) -> IdeTools | None:
    """None where they are not wanted. `hides` are files and folders that no tool opens, secrets are opened by name."""
    if config.enabled == "never" or (config.enabled == "auto" and not _is_project(here.cwd)):
        return None
    return IdeTools(lambda: _make(config, here, mcp, is_secret, hides))


def _is_project(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in PROJECT_MARKS)


def _make(config: IdeConfig, here: LaunchContext, mcp: McpOfNow, is_secret: IsSecret, hides: Sequence[Path]) -> Ide:
    from aish.tools.code.facade import Ide

    def find_server() -> tuple[str, Sequence[ToolSpec], IdeSession] | None:
        server = _ide_server(config, mcp())
        return (server.spec.name, server.specs(), server.session) if server is not None else None

    settings = msgspec.structs.replace(settings_of(config, here.env), hides=tuple(hides), is_secret=is_secret)
    return Ide(here.cwd, settings, state=data_dir(here.env) / "edits", find_server=find_server)


def is_hidden(config: IdeConfig, mcp: McpOfNow, alias: str, name: str) -> bool:
    """Whether a tool is one of the IDE's own that stand behind ours."""
    from aish.tools.code.ide_tool_names import canonical_name

    if not canonical_name(name):
        return False
    server = _ide_server(config, mcp())
    return server is not None and server.spec.name == alias


def _ide_server(config: IdeConfig, servers: Mapping[str, McpServer]) -> McpServer | None:
    """Finds it by its name; without one, the first local server with such tools. A remote one gets no code unasked."""
    from aish.tools.code.ide_tool_names import has_ide_tools

    for name, server in servers.items():
        chosen = name == config.mcp or (config.mcp == "auto" and bool(server.spec.command))
        if chosen and server.state == "ready" and has_ide_tools(spec.name for spec in server.specs()):
            return server
    return None


def settings_of(config: IdeConfig, env: Mapping[str, str]) -> IdeSettings:
    from aish.tools.code.facade import IdeSettings
    from aish.tools.code.languages import ServerLimits

    limits = ServerLimits(
        start_timeout_s=config.start_timeout_s,
        answer_timeout_s=config.wait_s,
        idle_stop_s=config.idle_stop_s,
        max_memory_mb=config.max_memory_mb,
    )
    return IdeSettings(
        choice=choice_of(config, env),
        limits=limits,
        max_servers=config.max_servers,
        diagnostics_wait_s=config.wait_s,
        format_on_edit=config.format_on_edit,
        hard_links=config.hard_links,
    )


def choice_of(config: IdeConfig, env: Mapping[str, str]) -> ServerChoice:
    from aish.tools.code.languages import ServerChoice

    return ServerChoice(
        use={name: language.server for name, language in config.languages.items() if language.server},
        commands={name: server.command for name, server in config.servers.items() if server.command},
        project_programs=config.project_programs,
        search_path=env.get("PATH", ""),
    )


def language_lines(config: IdeConfig, here: LaunchContext) -> list[tuple[str, bool, str]]:
    """For `aish doctor`: each language, whether a server answers for it, and where it is or how to get it."""
    from aish.tools.code.languages import find_server, language_table

    choice = choice_of(config, here.env)
    found = [(name, find_server(name, here.cwd, choice)) for name in language_table().language]
    return [
        (name, bool(one.command), f"{one.server}: {one.command[0]} ({one.where})" if one.command else _missing(one))
        for name, one in found
        if one is not None
    ]


def _missing(found: FoundServer) -> str:
    return f"{found.server}: {found.missing}"
