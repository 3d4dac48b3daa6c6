"""Settings for the IDE tools and their language servers."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from aish.config.schema.section import Count, Section


class LanguageConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Settings of one language: `python`, `typescript`, `c`."""

    server: Annotated[str, Meta(description="Its server, such as `ty` for Python. Unset: the first that is found.")] = (
        ""
    )


class LanguageServerConfig(Section, frozen=True, forbid_unknown_fields=True):
    """A language server: `basedpyright`, `ty`, `ruff`, `typescript`, `typescript-language-server`, `clangd`."""

    command: Annotated[
        tuple[str, ...], Meta(description="The program and its arguments, if the server is not in `PATH`.")
    ] = ()


class IdeConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Tools that understand and change code: `ide__references`, `ide__rename` and ten more."""

    enabled: Annotated[
        Literal["auto", "always", "never"],
        Meta(description="Whether these tools are offered; `auto` offers them in a project."),
    ] = "auto"
    languages: dict[str, LanguageConfig] = {}
    servers: dict[str, LanguageServerConfig] = {}
    project_programs: Annotated[
        bool,
        Meta(
            description="Whether servers and interpreters in the project's own `.venv` and `node_modules` may be run. "
            "In a project of strangers they are programs of strangers."
        ),
    ] = False
    mcp: Annotated[
        str,
        Meta(
            description="The MCP server that is your IDE and answers instead, if it offers `lsp.*` tools. `auto` takes "
            "a configured local one that does, `none` never one."
        ),
    ] = "auto"
    max_servers: Annotated[Count, Meta(description="Language servers at once.")] = 4
    max_memory_mb: Annotated[
        int, Meta(ge=0, description="Memory of one server above which it is restarted; 0 means no limit.")
    ] = 2048
    idle_stop_s: Annotated[
        float, Meta(ge=0, description="Seconds without use after which a server is stopped; 0 means never.")
    ] = 600.0
    start_timeout_s: Annotated[float, Meta(gt=0, description="Seconds a server may take to start.")] = 30.0
    wait_s: Annotated[
        float, Meta(gt=0, le=60, description="Seconds to wait for an answer; later ones are `pending`.")
    ] = 10.0
    format_on_edit: Annotated[
        bool, Meta(description="Format files that the model has edited, if there is a formatter.")
    ] = False
    hard_links: Annotated[
        bool,
        Meta(
            description="Whether files that have a second name, which may be outside the workspace, are read. They are "
            "never written, and those of installed packages are read anyway."
        ),
    ] = False
