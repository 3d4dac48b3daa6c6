"""`aish mcp import`: adds the servers of another program's `mcpServers` JSON to the user's configuration."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from aish.config import paths
from aish.config.load import check_config
from aish.errors import ConfigError
from aish.frontends.runtime import ProcessEnvironment
from aish.frontends.terminal import visible

_MAX_BYTES = 1024 * 1024


def import_servers(file: Path, environment: ProcessEnvironment) -> int:
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


def _check(text: str, environment: ProcessEnvironment) -> None:
    """Checks the configuration before it is written, so that an import cannot break it. Raises ConfigError."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "aish" / "config.toml"
        file.parent.mkdir()
        file.write_text(text, "utf-8")
        problems = check_config(cwd=Path(folder), env={**environment.env, "XDG_CONFIG_HOME": folder})
    if problems:
        raise ConfigError(f"nothing was imported: {problems[0]}", hint="mend the entry in the file, or add it by hand")


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
