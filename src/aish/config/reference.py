"""Writes the reference page of all settings from the schema: `python -m aish.config.reference > docs/config.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from aish.config.schema.tree import Leaf, Named, Node, Table, root
from aish.config.show import show_value

_INTRO = """\
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


def reference_page() -> str:
    return _INTRO + "\n" + "\n".join(_section(root(), "Top level")) + "\n"


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
        elif isinstance(node, Named) and isinstance(node.item, Table):
            yield from _section(node.item, f"`[{path}{name}.NAME]`", f"{path}{name}.NAME.")


def _is_section(node: Node) -> bool:
    return isinstance(node, Table) or (isinstance(node, Named) and isinstance(node.item, Table))


def _row(name: str, node: Node) -> str:
    if not isinstance(node, Leaf):
        return f"| `{name}` | a table of texts | | {node.description} |"
    value = show_value(node.default)
    default = node.default_words or (f"`{value}`" if value not in ("", '""', "[]") else "")
    return f"| `{name}` | {node.expected} | {default} | {node.description} |"


if __name__ == "__main__":
    sys.stdout.write(reference_page())
