"""`:mcp`: servers, their tools, resources and prompts; connecting and disconnecting while the shell runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from aish.errors import UsageError
from aish.frontends.runtime import McpServerView
from aish.frontends.shell.commands.arguments import split_words
from aish.frontends.shell.render.styles import columns_of
from aish.frontends.shell.render.tool_frames import fit_on_one_line
from aish.frontends.shell.shell import Shell
from aish.frontends.templates import parse_values, prompt_text
from aish.types.tools import ToolSpec

_SIGNS = {"ready": "✓", "failed": "✗", "connecting": "…", "closed": "-"}
_LOG_LINES = 30
_WIDE_COLUMNS = 80


async def mcp(shell: Shell, rest: str) -> None:
    action, _, argument = rest.partition(" ")
    argument = argument.strip()
    match action or "list":
        case "list":
            _list(shell)
        case "tools":
            _tools(shell, argument)
        case "tool":
            _tool(shell, argument)
        case "log":
            _show(shell, list(_find(shell, argument).log)[-_LOG_LINES:], f"{argument} has logged nothing")
        case "refresh":
            shell.output.note(f"{await _find(shell, argument).refresh()} tools")
        case "resources":
            found = await _find(shell, argument).session.list_resources()
            _show(shell, [f"{resource.uri}  {resource.name}" for resource in found], f"{argument} has no resources")
        case "prompt" | "prompts":
            await _prompt(shell, argument)
        case "connect":
            await _connect(shell, argument)
        case "disconnect":
            name = _name(shell, argument)
            await shell.runtime.disconnect_mcp(name)
            shell.output.note(f"{name} is disconnected")
        case other:
            shell.output.note(
                f"there is no :mcp {other}; list, tools, tool, resources, prompt, log, refresh, connect …"
            )


def _list(shell: Shell) -> None:
    servers = shell.runtime.mcp_servers
    for name, server in servers.items():
        why = f"  {server.failure.message}" if server.failure and server.state != "ready" else ""
        shell.output.note(
            f"{_SIGNS.get(server.state, '?')} {name:<14} {server.state:<11} {len(server.specs())} tools{why}"
        )
    others = [name for name in shell.runtime.config.mcp.servers if name not in servers]
    for name in others:
        shell.output.note(f"{_SIGNS['closed']} {name:<14} closed      :mcp connect {name}")
    if not servers and not others:
        shell.output.note("no MCP servers; :mcp connect NAME URL, or [mcp.servers.NAME] in the config")


async def _prompt(shell: Shell, argument: str) -> None:
    """`SERVER` lists its prompts; `SERVER NAME KEY=VALUE …` fills one in and sends it with the next question."""
    server, _, rest = argument.partition(" ")
    session = _find(shell, server).session
    name, *given = split_words(rest) or [""]
    if not name:
        _show(shell, [_prompt_line(prompt) for prompt in await session.list_prompts()], f"{server} has no prompts")
        return
    messages = await session.get_prompt(name, parse_values(given))
    text = prompt_text(messages)
    shell.command_context.add_text(f"[prompt {name} of {server}]\n{text}")
    shell.output.note(f"{text}\nit goes along with your next question")


def _prompt_line(prompt: Any) -> str:
    wanted = " ".join(f"{value.name}{'' if value.required else '?'}" for value in prompt.arguments)
    return f"{prompt.name}({wanted})  {prompt.description}"


def _tools(shell: Shell, server: str) -> None:
    columns = columns_of(shell.output.out)()
    specs = [spec for spec in shell.engine.tools.specs() if not server or spec.source == server]
    lines = [line for spec in specs for line in tool_lines(spec, columns)]
    _show(shell, lines, f"{server} has no tools" if server else "there are no tools")


def tool_lines(spec: ToolSpec, columns: int) -> list[str]:
    """The beginning of the description stands behind the name, or on a narrow terminal below it."""
    head = f"{spec.name:<34} {spec.effect:<8} "
    if columns < _WIDE_COLUMNS:
        return [head.rstrip(), f"  {fit_on_one_line(spec.description, columns - 2)}"]
    return [f"{head}{fit_on_one_line(spec.description, columns - len(head))}"]


def _tool(shell: Shell, name: str) -> None:
    for spec in shell.engine.tools.specs():
        if spec.name in (name, name.replace(".", "__", 1)):
            shell.output.note(f"{spec.name} ({spec.effect})\n{spec.description}\n{json.dumps(spec.schema, indent=2)}")
            return
    shell.output.note(f"there is no tool {name}; :mcp tools lists them" if name else "which tool? :mcp tool NAME")


async def _connect(shell: Shell, argument: str) -> None:
    """`NAME URL`, `URL`, or `NAME COMMAND …` for a program; `NAME` alone reconnects a server that is known."""
    first, _, rest = argument.partition(" ")
    if not first:
        shell.output.note("connect to what? :mcp connect NAME URL, or :mcp connect NAME COMMAND ARGS")
        return
    name, target = ("", first) if first.startswith(("http://", "https://")) else (first, rest.strip())
    split_words(target)  # raises on an open quotation, before anything is connected
    if target:
        name = await shell.runtime.connect_mcp(name, target)
    else:
        await shell.runtime.reconnect_mcp(name)
    server = shell.runtime.mcp_servers[name]
    if server.state == "ready":
        shell.output.note(f"✓ {name}: {len(server.specs())} tools")
    elif server.failure is not None:
        shell.output.note(f"✗ {server.failure.message}")
    else:
        shell.output.note(f"… {name} is still connecting; :mcp list shows how it goes")


def _show(shell: Shell, lines: Sequence[str], none: str) -> None:
    for line in lines or [none]:
        shell.output.note(line)


def _name(shell: Shell, name: str) -> str:
    if name not in shell.runtime.mcp_servers:
        missing = f"there is no MCP server {name}" if name else "of which MCP server?"
        raise UsageError(missing, hint=f"there are: {', '.join(shell.runtime.mcp_servers) or 'none'}")
    return name


def _find(shell: Shell, name: str) -> McpServerView:
    return shell.runtime.mcp_servers[_name(shell, name)]
