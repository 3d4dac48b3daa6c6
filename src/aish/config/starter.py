"""Writes the starter file: every setting with its default and its description, commented out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from aish.config.schema.tree import Leaf, Named, Node, Table, root
from aish.config.show import show_value
from aish.errors import ConfigError

_INTRO = """\
# Settings of aish. All are commented out and show their default or an example: uncomment what you want to change, and
# the [table] above it where that is commented out too.
# `aish config check` finds mistakes, `aish config show` prints the effective values and who set them.
"""
# Examples for settings that have no default to show.
_EXAMPLES = {
    "providers.NAME.url": '"http://127.0.0.1:8080"',
    "providers.NAME.key": '"…"',
    "providers.NAME.headers": '{"X-Team" = "…"}',
    "providers.NAME.context_size": "32768",
    "presets.NAME.temperature": "0.7",
    "presets.NAME.top_p": "0.95",
    "presets.NAME.top_k": "40",
    "presets.NAME.min_p": "0.05",
    "presets.NAME.repeat_penalty": "1.1",
    "presets.NAME.max_tokens": "1024",
    "presets.NAME.seed": "1",
    "presets.NAME.use_tool_role": "true",
    "presets.NAME.context_size": "32768",
    "limits.max_tokens": "100000",
    "limits.max_cost": "0.5",
    "context.max_turns": "40",
    "context.token_budget": "24000",
    "context.answer_room": "2048",
    "cost.cap_per_session": "2.0",
    "cost.cap_per_day": "10.0",
    "cost.warn_at_dollars": "1.0",
    "cost.warn_at_tokens": "500000",
    "prices.NAME.cached": "0.1",
    "mcp.servers.NAME.auth_token": '"…"',
    "mcp.servers.NAME.command": '"npx"',
    "mcp.servers.NAME.args": '["-y", "@modelcontextprotocol/server-filesystem", "."]',
    "mcp.servers.NAME.env": '{"TOKEN" = "…"}',
    "ide.languages.NAME.server": '"ty"',
    "ide.servers.NAME.command": '["/opt/llvm/bin/clangd", "--background-index"]',
    "norris.max_cost": "1.0",
    "store.url": '"postgresql://aish:…@db.example.org:5432/aish"',
    "store.keep_days": "90",
    "telemetry.headers": '{"Authorization" = "…"}',
    "network.http_proxy": '"http://proxy:3128"',
    "network.https_proxy": '"http://proxy:3128"',
}
_NAMES = {
    "providers": "local",
    "presets": "fast",
    "prices": "my-model",
    "mcp.servers": "files",
    "ide.languages": "python",
    "ide.servers": "clangd",
}


def starter_text() -> str:
    return _INTRO + "\n" + "\n".join(_lines(root(), "")) + "\n"


def init_config(path: Path) -> None:
    """Writes the starter file. Never overwrites a file."""
    if path.exists():
        raise ConfigError(f"{path} is already there", hint="edit it, or move it away first")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as exc:
        raise ConfigError(f"{path} cannot be written: {exc.strerror}", hint="make its directory writable") from exc
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(starter_text())
    except OSError as exc:
        path.unlink()  # half a file would prevent the next attempt
        raise ConfigError(f"{path} cannot be written: {exc.strerror}", hint="make room on the disk") from exc


def _lines(table: Table, path: str) -> Iterator[str]:
    for name, child in table.children.items():
        if isinstance(child, Leaf) or (isinstance(child, Named) and isinstance(child.item, Leaf)):
            yield from _setting(name, child, f"{path}{name}")
    for name, child in table.children.items():
        if isinstance(child, Table):
            yield from ("", f"# {child.description}", f"[{path}{name}]", *_lines(child, f"{path}{name}."))
    # Last: a key uncommented without its table then stands in a table where it is an error, not another setting.
    for name, child in table.children.items():
        if isinstance(child, Named) and isinstance(child.item, Table):
            header = f"#[{path}{name}.{_NAMES[path + name]}]"
            yield from ("", f"# {child.description}", header, *_lines(child.item, f"{path}{name}.NAME."))


def _setting(name: str, node: Node, path: str) -> Iterator[str]:
    value = show_value(node.default) if isinstance(node, Leaf) else ""
    words = node.default_words if isinstance(node, Leaf) else ""
    note = f" Default: {words}." if words else ""
    yield f"# {node.description}{note}"
    yield f"#{name} = {_EXAMPLES.get(path, value)}"
