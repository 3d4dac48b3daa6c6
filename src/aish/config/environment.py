"""Reads layers from environment variables: `AISH_…`, addresses such as `OLLAMA_HOST`, and the usual proxies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from aish.config.schema.tree import KeyPath, Leaf, NamedTable, Node, Table, root
from aish.config.validation import Problem, suggestion

PREFIX = "AISH_"

# The variable, the provider it defines, its kind, and the default port.
_HOST_VARIABLES = (
    ("OLLAMA_HOST", "ollama", "ollama", 11434),
    ("MNN_HOST", "mnn", "openai", 8000),
    ("LMDEPLOY_HOST", "lmdeploy", "openai", 23333),
)


class Variables:
    """A layer read from variables: nested texts, and the variable that each came from."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.names: dict[KeyPath, str] = {}
        self.problems: list[Problem] = []
        self.notices: list[str] = []

    def put(self, path: KeyPath, value: Any, variable: str) -> None:
        table = self.values
        for name in path[:-1]:
            table = table.setdefault(name, {})
        table[path[-1]] = value
        self.names[path] = variable

    def locate(self, path: KeyPath) -> str:
        return self.names.get(path, "the environment")


def aish_variables(env: Mapping[str, str], lower: Mapping[str, Any]) -> Variables:
    """`AISH_LIMITS__MAX_STEPS=4` sets `limits.max_steps`. Names are taken from `lower`, the layers below."""
    layer = Variables()
    for variable in sorted(name for name in env if name.startswith(PREFIX)):
        parts = [part.lower() for part in variable.removeprefix(PREFIX).split("__")]
        path, leaf, problem = _resolve(parts, lower)
        if leaf is not None:
            layer.put(path, env[variable], variable)
        elif problem:
            layer.problems.append(Problem(variable, problem))
        else:
            layer.notices.append(f"the variable {variable} names no setting and is ignored")
    return layer


def runtime_variables(env: Mapping[str, str]) -> Variables:
    layer = Variables()
    for variable, provider, kind, port in _HOST_VARIABLES:
        if host := env.get(variable, "").strip():
            layer.put(("providers", provider, "kind"), kind, variable)
            layer.put(("providers", provider, "url"), url_of(host, port), variable)
    if env.get("RUNTIME_LISTEN_PORT") or env.get("RUNTIME_LISTEN_HOST"):
        layer.put(("serve", "listen"), _listen(env), "RUNTIME_LISTEN_HOST")
    for name, url, variable in _mcp_hosts(env):
        layer.put(("mcp", "servers", name, "url"), url, variable)
    for variable, path in (("LLAMA_CPP_MODEL", ("embedded", "model")), ("RUNTIME_PROVIDER", ("provider",))):
        if value := env.get(variable, "").strip():
            layer.put(path, value, variable)
    return layer


def _listen(env: Mapping[str, str]) -> str:
    host, port = env.get("RUNTIME_LISTEN_HOST") or "127.0.0.1", env.get("RUNTIME_LISTEN_PORT") or "8600"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _mcp_hosts(env: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """`MCP_HOST` is one, `MCP_HOSTS` several, by commas: `alias=url`, or a url, which gets `mcp1`, `mcp2`, …"""
    entries = [
        (*_mcp_host(part.strip()), variable)
        for variable in ("MCP_HOST", "MCP_HOSTS")
        for part in env.get(variable, "").split(",")
        if part.strip()
    ]
    named = {name for name, _, _ in entries}
    free = (name for number in count(1) if (name := f"mcp{number}") not in named)
    for name, url, variable in entries:
        yield name or next(free), url, variable


def _mcp_host(entry: str) -> tuple[str, str]:
    """Returns the alias, "" if there is none, and the url."""
    name, equals, url = entry.partition("=")
    is_named = equals and "/" not in name
    return (name.strip(), url_of(url.strip(), 80)) if is_named else ("", url_of(entry, 80))


def proxy_variables(env: Mapping[str, str]) -> Variables:
    """The lower-case name wins, as in other programs. ALL_PROXY counts where the exact variable is not set."""
    layer = Variables()
    for key, names in (
        ("http_proxy", ("HTTP_PROXY", "ALL_PROXY")),
        ("https_proxy", ("HTTPS_PROXY", "ALL_PROXY")),
        ("no_proxy", ("NO_PROXY",)),
    ):
        cased = (variable for name in names for variable in (name.lower(), name))
        if variable := next((variable for variable in cased if env.get(variable)), None):
            layer.put(("network", key), env[variable], variable)
    return layer


def url_of(host: str, port: int) -> str:
    """Turns `host`, `host:port`, `[::1]:port` or a URL into a URL that a client can use."""
    if "://" in host:
        return host.rstrip("/")
    host = host.rstrip("/")
    if host.count(":") > 1 and not host.startswith("["):
        host = f"[{host}]"
    if not host.rpartition("]")[2].count(":"):
        host = f"{host}:{port}"
    # A server that listens on all addresses is reached on loopback.
    for anywhere, here in (("0.0.0.0:", "127.0.0.1:"), ("[::]:", "[::1]:")):
        if host.startswith(anywhere):
            host = here + host.removeprefix(anywhere)
    return f"http://{host}"


def _resolve(parts: list[str], lower: Mapping[str, Any]) -> tuple[KeyPath, Leaf | None, str]:
    """Finds the key that the parts of a variable's name stand for. Returns no leaf but a problem if the name is wrong,
    and neither if it is not a variable of aish."""
    node: Node = root()
    path: KeyPath = ()
    known: Any = lower
    for part in parts:
        if isinstance(node, NamedTable):
            part = _chosen_name(part, node, known)
            node = node.item
        elif isinstance(node, Table) and part in node.children:
            node = node.children[part]
        else:
            near = suggestion(part, node) if isinstance(node, Table) else ""
            ours = path or near
            return path, None, f'unknown key "{".".join((*path, part))}"{near}' if ours else ""
        path = (*path, part)
        known = known.get(part, {}) if isinstance(known, Mapping) else {}
    if not isinstance(node, Leaf):
        return (
            path,
            None,
            f'"{".".join(path)}" is a table: name a key in it, as in {PREFIX}{"__".join(path).upper()}__…',
        )
    return path, node, ""


def _chosen_name(part: str, named: NamedTable, known: Any) -> str:
    if isinstance(named.item, Leaf):
        return part.replace("_", "-")  # a header
    return next((name for name in _names(known) if name.lower().replace("-", "_") == part), part)


def _names(known: Any) -> Iterator[str]:
    return iter(known) if isinstance(known, Mapping) else iter(())
