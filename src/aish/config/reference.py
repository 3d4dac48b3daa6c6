"""Prints settings: the reference page of the schema, the starter file, and the effective values with their sources.

`python -m aish.config.reference > docs/config.md` writes the page.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from aish.config.load import LoadedConfig
from aish.config.schema.tree import KeyPath, Leaf, NamedTable, Node, Table, root
from aish.config.schema.values import MASK, Secret, mask_logins
from aish.errors import ConfigError

_PAGE_INTRO = """\
# Settings

<!-- Made by `python -m aish.config.reference`. Change src/aish/config/schema/config.py instead. -->

Settings are TOML. Later layers win, key by key (a list replaces a list):

1. the defaults below;
2. your file, `~/.config/aish/config.toml` (`XDG_CONFIG_HOME` is honoured);
3. the project's file, `.aish.toml`, found from the working directory upwards, short of your home;
4. the environment: `AISH_MODEL=…`, and `AISH_LIMITS__MAX_STEPS=4` for `max_steps` in `[limits]`. Lists are separated by
   commas, `true`/`false`/`1`/`0` are truth values, `none` unsets. `OLLAMA_HOST`, `MNN_HOST`, `LMDEPLOY_HOST`,
   `LLAMA_CPP_MODEL` and `RUNTIME_PROVIDER` are understood too;
5. flags.

A project's file is not trusted until you accept it. The shell shows it and asks once; `aish config trust` accepts it
without asking, and `aish config distrust` takes that back. The acceptance is pinned to the hash of the file. Until you
accept it, and again after any change, the file can only make settings stricter: lower `[limits]` and caps in `[cost]`,
stricter verdicts and more `deny` in `[gate]`, fewer tools in `tools.offer`. aish ignores the rest of it and says
so.

Relative paths start at the directory of the file that contains them; `~` is your home. `aish config init` writes a file
to start from, `aish config check` finds mistakes, `aish config show` prints the effective settings and who set them.
"""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STARTER_INTRO = """\
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
    "providers.NAME.options": '{"region" = "eu"}',
    "extensions.settings": '{"tickets" = {"url" = "https://tickets.example.org"}}',
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


def reference_page() -> str:
    return _PAGE_INTRO + "\n" + "\n".join(_section(root(), "Top level")) + "\n"


def _section(table: Table, title: str, path: str = "") -> Iterator[str]:
    yield from (f"## {title}", "", table.description, "")
    yield from ("| key | takes | default | |", "|---|---|---|---|")
    for name, node in table.children.items():
        if not _is_section(node):
            yield _row(name, node)
    yield ""
    for name, node in table.children.items():
        if isinstance(node, Table):
            yield from _section(node, f"`[{path}{name}]`", f"{path}{name}.")
        elif isinstance(node, NamedTable) and isinstance(node.item, Table):
            yield from _section(node.item, f"`[{path}{name}.NAME]`", f"{path}{name}.NAME.")


def _is_section(node: Node) -> bool:
    return isinstance(node, Table) or (isinstance(node, NamedTable) and isinstance(node.item, Table))


def _row(name: str, node: Node) -> str:
    if not isinstance(node, Leaf):
        is_text = isinstance(node, NamedTable) and isinstance(node.item, Leaf) and node.item.secret
        kind = "texts" if is_text else "tables"
        return f"| `{name}` | a table of {kind} | | {node.description} |"
    value = show_value(node.default)
    default = node.default_in_words or (f"`{value}`" if value not in ("", '""', "[]") else "")
    return f"| `{name}` | {node.expected} | {default} | {node.description} |"


# Only an extension knows which of its settings are secret.
_HIDDEN_SETTINGS = ("extensions", "settings")
_HIDDEN_OPTIONS = ("providers", "options")


class Row(NamedTuple):
    key: str
    value: str
    origin: str


def show_rows(loaded: LoadedConfig) -> list[Row]:
    """Returns the rows in the order of the schema. A key that is not set has an empty value."""
    return [_make_row(loaded, path, value) for path, value in _leaves(loaded.config, ())]


def show_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Secret):
        return MASK
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quote(mask_logins(value))
    if isinstance(value, list | tuple):
        return "[" + ", ".join(show_value(item) for item in value) + "]"
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.asdict(value).items()
        return "{" + ", ".join(f"{name} = {show_value(item)}" for name, item in fields) + "}"
    return str(value)


def _make_row(loaded: LoadedConfig, path: KeyPath, value: Any) -> Row:
    origin = loaded.origin(".".join(path))
    is_hidden = path[:2] == _HIDDEN_SETTINGS or path[:1] + path[2:3] == _HIDDEN_OPTIONS
    shown = MASK if is_hidden else show_value(value)
    return Row(".".join(_key(name) for name in path), shown, origin.where or origin.layer)


def _leaves(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    elif not isinstance(value, Mapping):
        yield path, value
        return
    for name, item in value.items():
        yield from _leaves(item, (*path, name))


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _quote(name)


def _quote(text: str) -> str:
    # A JSON string is a TOML string, except for DEL, which TOML wants escaped.
    quoted = msgspec.json.encode(text.encode("utf-8", "replace").decode()).decode()
    return quoted.replace("\x7f", "\\u007f")


def starter_text() -> str:
    return _STARTER_INTRO + "\n" + "\n".join(_lines(root(), "")) + "\n"


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
        if isinstance(child, Leaf) or (isinstance(child, NamedTable) and isinstance(child.item, Leaf)):
            yield from _setting(name, child, f"{path}{name}")
    for name, child in table.children.items():
        if isinstance(child, Table):
            yield from ("", f"# {child.description}", f"[{path}{name}]", *_lines(child, f"{path}{name}."))
    # Last: a key uncommented without its table then stands in a table where it is an error, not another setting.
    for name, child in table.children.items():
        if isinstance(child, NamedTable) and isinstance(child.item, Table):
            header = f"#[{path}{name}.{_NAMES[path + name]}]"
            yield from ("", f"# {child.description}", header, *_lines(child.item, f"{path}{name}.NAME."))


def _setting(name: str, node: Node, path: str) -> Iterator[str]:
    value = show_value(node.default) if isinstance(node, Leaf) else ""
    words = node.default_in_words if isinstance(node, Leaf) else ""
    note = f" Default: {words}." if words else ""
    yield f"# {node.description}{note}"
    yield f"#{name} = {_EXAMPLES.get(path, value)}"


if __name__ == "__main__":
    sys.stdout.write(reference_page())
