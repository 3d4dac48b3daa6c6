"""`aish mcp list|tools|tool|call|ping|log|resources|read|prompts|prompt|import`: uses MCP servers without a model."""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

from aish.config import paths
from aish.config.load import check_config
from aish.engine.engine import Engine
from aish.errors import ConfigError, UsageError
from aish.frontends.runtime import LaunchContext, McpServerView, Runtime
from aish.frontends.signals import run_until_done
from aish.frontends.templates import parse_values, prompt_text
from aish.frontends.terminal import Output, visible
from aish.types.decisions import Answer, Choice, Mode, Question
from aish.types.messages import marked_text
from aish.types.tools import ResultStatus, ToolSpec

_CALL_FAILED = 1
_REFUSED = 3
_MAX_BYTES = 1024 * 1024


def run(arguments: argparse.Namespace, runtime: Runtime) -> int:
    if arguments.action == "import":
        return import_servers(Path(arguments.file), runtime.launch_context)
    return run_until_done(_run(arguments, runtime))


async def _run(arguments: argparse.Namespace, runtime: Runtime) -> int:
    actions: dict[str, Callable[[argparse.Namespace, Runtime, Engine], Awaitable[int]]] = {
        "list": _list, "tools": _tools, "tool": _tool, "call": _call, "ping": _ping, "log": _log,
        "resources": _resources, "read": _read, "prompts": _prompts, "prompt": _prompt,
    }  # fmt: skip
    configured = runtime.config.mcp.servers
    if not configured:
        raise UsageError("no MCP servers are configured", hint="add [mcp.servers.NAME] to the config")
    async with runtime.engine(mcp=_find_server(arguments, configured)) as engine:
        await runtime.wait_for_mcp(arguments.timeout)
        return await actions[arguments.action](arguments, runtime, engine)


def _find_server(arguments: argparse.Namespace, configured: Collection[str]) -> list[str] | None:
    """The server that the command names, or None for all. Raises UsageError."""
    named = getattr(arguments, "server", "") or getattr(arguments, "name", "").replace(".", "__", 1).partition("__")[0]
    if named and named not in configured:
        raise UsageError(f"no MCP server named {named}", hint=f"there are: {', '.join(configured)}")
    return [named] if named else None


async def _list(arguments: argparse.Namespace, runtime: Runtime, engine: Engine) -> int:
    """Exit code 0 if every server is ready."""
    for name, server in runtime.mcp_servers.items():
        if arguments.json:
            why = server.failure.message if server.failure else ""
            print(json.dumps({"name": name, "state": server.state, "tools": len(server.specs()), "error": why}))
        else:
            print(visible(_server_line(name, server)))
    return 0 if all(server.state == "ready" for server in runtime.mcp_servers.values()) else _CALL_FAILED


async def _tools(arguments: argparse.Namespace, runtime: Runtime, engine: Engine) -> int:
    for spec in engine.tools.specs():
        if spec.source in runtime.mcp_servers:
            summary = spec.description.split("\n", 1)[0]
            print(visible(f"{spec.name}  [{spec.effect}]  {summary}"))
    return 0


async def _tool(arguments: argparse.Namespace, runtime: Runtime, engine: Engine) -> int:
    spec = _find_tool(runtime, engine, arguments.name)
    print(visible(f"{spec.name}  [{spec.effect}]\n{spec.description}\n{json.dumps(spec.schema, indent=2)}"))
    return 0


async def _call(arguments: argparse.Namespace, runtime: Runtime, engine: Engine) -> int:
    """Makes a call. Questions of the gate are answered yes, since the user typed the call; what it denies stays
    denied."""
    spec = _find_tool(runtime, engine, arguments.name)
    result = await engine.call_tool(spec.name, arguments.arguments, ask=_consent, mode=Mode.ASK)
    Output().answer(marked_text(result.parts) + "\n")
    if result.status in (ResultStatus.REFUSED, ResultStatus.NOT_ALLOWED):
        return _REFUSED
    return 0 if result.status is ResultStatus.OK else _CALL_FAILED


async def _ping(arguments: argparse.Namespace, runtime: Runtime, engine: Engine) -> int:
    code = 0
    for name, server in runtime.mcp_servers.items():
        began_s = time.monotonic()
        try:
            count = await server.refresh()
        except Exception as exc:
            print(visible(f"✗ {name}  {exc}"))
            code = _CALL_FAILED
        else:
            print(visible(f"✓ {name}  {count} tools in {(time.monotonic() - began_s) * 1000:.1f} ms"))
    return code


async def _log(arguments: argparse.Namespace, runtime: Runtime, engine: Engine) -> int:
    for line in runtime.mcp_servers[arguments.server].log:
        print(visible(line))
    return 0


async def _resources(arguments: argparse.Namespace, runtime: Runtime, engine: Engine) -> int:
    for resource in await runtime.mcp_servers[arguments.server].session.list_resources():
        print(visible(f"{resource.uri}  {resource.name}  {resource.media_type}"))
    return 0


async def _read(arguments: argparse.Namespace, runtime: Runtime, engine: Engine) -> int:
    output = await runtime.mcp_servers[arguments.server].session.read_resource(arguments.uri)
    Output().answer(marked_text(output.parts) + "\n")
    return 0


async def _prompts(arguments: argparse.Namespace, runtime: Runtime, engine: Engine) -> int:
    for prompt in await runtime.mcp_servers[arguments.server].session.list_prompts():
        parameters = " ".join(f"{a.name}{'' if a.required else '?'}" for a in prompt.arguments)
        print(visible(f"{prompt.name}({parameters})  {prompt.description}"))
    return 0


async def _prompt(arguments: argparse.Namespace, runtime: Runtime, engine: Engine) -> int:
    given = parse_values(arguments.arguments)
    messages = await runtime.mcp_servers[arguments.server].session.get_prompt(arguments.name, given)
    print(visible(prompt_text(messages)))
    return 0


async def _consent(question: Question) -> Answer:
    return Answer(Choice.YES)


def _find_tool(runtime: Runtime, engine: Engine, name: str) -> ToolSpec:
    wanted = {name, name.replace(".", "__", 1)}
    for spec in engine.tools.specs():
        if spec.name in wanted:
            return spec
    for server in runtime.mcp_servers.values():
        if server.failure is not None and server.state != "ready":
            raise server.failure
    raise UsageError(f"no tool named {name}", hint="`aish mcp tools` lists what there is")


def _server_line(name: str, server: McpServerView) -> str:
    mark = "✓" if server.state == "ready" else "✗" if server.state == "failed" else "…"
    what = f"{len(server.specs())} tools" if server.state == "ready" else ""
    why = server.failure.message if server.failure and server.state != "ready" else ""
    more = f"\n    {_advice(server)}" if why and _advice(server) else ""
    return f"{mark} {name:<12} {server.state:<10} {what or why}{more}"


def _advice(server: McpServerView) -> str:
    """The hint of the failure; without one, the last line of the server's stderr."""
    if server.failure is not None and server.failure.hint:
        return server.failure.hint
    last = [line for line in getattr(server.failure, "stderr_tail", "").splitlines() if line.strip()][-1:]
    return f"its last words: {last[0].strip()}" if last else ""


def import_servers(file: Path, environment: LaunchContext) -> int:
    """Appends tables to the user's config. A server that is already there stays as it is."""
    servers = _read_servers(file)
    target = paths.user_file(environment.env)
    present = target.read_text("utf-8") if target.exists() else ""
    added: dict[str, str] = {}
    notes: list[str] = []
    for name, entry in servers.items():
        alias = _make_alias(name)
        if alias in added or re.search(rf"^\[mcp\.servers\.\"?{re.escape(alias)}\"?\]", present, re.MULTILINE):
            notes.append(f"{name}: there is a server {alias} already, left as it is")
        elif bool(entry.get("command")) == bool(entry.get("url")):
            notes.append(f"{name}: it needs either a command or a url, left out")
        else:
            added[alias] = _make_table(alias, entry)
            dropped = ", ".join(_list_unsupported_headers(entry))
            notes.append(f"{alias}: imported" + (f", without its headers {dropped}" if dropped else ""))
    if added:
        text = "".join(added.values())
        _check(present + text, environment)
        _append(target, text)
    for note in notes:
        print(visible(note))
    return 0


def _check(text: str, environment: LaunchContext) -> None:
    """Checks the configuration before it is written, so that an import cannot break it. Raises ConfigError."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "aish" / "config.toml"
        file.parent.mkdir()
        file.write_text(text, "utf-8")
        problems = check_config(cwd=Path(folder), env={**environment.env, "XDG_CONFIG_HOME": folder})
    if problems:
        raise ConfigError(f"nothing was imported: {problems[0]}", hint="fix the entry in the file, or add it by hand")


def _read_servers(file: Path) -> dict[str, dict[str, Any]]:
    try:
        if file.stat().st_size > _MAX_BYTES:
            raise ConfigError(f"{file} is too large to be a list of servers")
        content = json.loads(file.read_bytes())
    except OSError as exc:
        raise ConfigError(f"cannot read {file}: {exc.strerror}") from exc
    except ValueError as exc:
        raise ConfigError(f"{file} is not JSON: {exc}") from exc
    servers = content.get("mcpServers", content.get("servers")) if isinstance(content, dict) else None
    if not isinstance(servers, dict) or not all(isinstance(entry, dict) for entry in servers.values()):
        raise ConfigError(f"{file} has no mcpServers table", hint='expected {"mcpServers": {"NAME": {"command": …}}}')
    return servers


def _make_alias(name: str) -> str:
    return re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9-]", "_", name)).strip("_") or "server"


def _make_table(alias: str, entry: dict[str, Any]) -> str:
    lines = [f"\n[mcp.servers.{alias}]"]
    for ours, theirs in (("command", "command"), ("args", "args"), ("cwd", "cwd"), ("url", "url"), ("env", "env")):
        value = entry.get(theirs)
        if value not in (None, "", [], {}):
            lines.append(f"{ours} = {_encode_toml(value)}")
    if token := _find_token(entry):
        lines.append(f"auth_token = {_encode_toml(token)}")
    if entry.get("disabled") is True:
        lines.append("enabled = false")
    return "\n".join(lines) + "\n"


def _headers(entry: dict[str, Any]) -> dict[str, str]:
    headers = entry.get("headers")
    return {str(name): str(value) for name, value in headers.items()} if isinstance(headers, dict) else {}


def _find_token(entry: dict[str, Any]) -> str:
    given = next((value for name, value in _headers(entry).items() if name.lower() == "authorization"), "")
    kind, _, token = given.partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _list_unsupported_headers(entry: dict[str, Any]) -> list[str]:
    """The headers for which our configuration has no key."""
    return [name for name in _headers(entry) if not (name.lower() == "authorization" and _find_token(entry))]


def _encode_toml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_encode_toml(item) for item in value if item is not None) + "]"
    if isinstance(value, dict):
        items = (f"{json.dumps(str(key))} = {_encode_toml(item)}" for key, item in value.items() if item is not None)
        return "{" + ", ".join(items) + "}"
    # A JSON string is a TOML basic string, except that TOML requires DEL to be escaped.
    text = value if isinstance(value, str) else json.dumps(value)
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _append(target: Path, text: str) -> None:
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(text)
    except OSError as exc:
        raise ConfigError(f"{target} cannot be written: {exc.strerror}") from exc
