"""`aish doctor`: checks what works here, and says how to repair what does not."""

from __future__ import annotations

import platform
import sys
from collections.abc import AsyncIterator

from aish import __version__
from aish.engine.engine import Engine
from aish.errors import AishError
from aish.frontends.runtime import McpServerView, Runtime
from aish.frontends.signals import run_until_done
from aish.frontends.terminal import visible
from aish.ports import Provider

Finding = tuple[str, str, str]  # mark, subject, what was found


def run(runtime: Runtime) -> int:
    return run_until_done(_run(runtime))


async def _run(runtime: Runtime) -> int:
    """Exit code 0 if a question could be answered now, otherwise 1."""
    healthy = True
    async for mark, subject, text in _findings(runtime):
        print(visible(f"{mark} {subject:<10} {text}"))
        healthy = healthy and mark != "✗"
    return 0 if healthy else 1


async def _findings(runtime: Runtime) -> AsyncIterator[Finding]:
    yield "✓", "aish", f"{__version__}, Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    for file in runtime.loaded.files:
        yield "✓" if file.state in ("read", "absent") else "!", "config", f"{file.path} ({file.state})"
    for notice in runtime.notices:
        yield "!", "config", notice
    yield await _check_store(runtime)
    yield _check_embedded(runtime)
    async with runtime.engine() as engine:
        for name, provider in engine.router.providers.items():
            if name in runtime.config.providers:
                yield await _check_provider(provider)
        found = await runtime.discover()
        for provider in found:
            yield await _check_provider(provider)
        if not found and runtime.config.discovery.enabled:
            yield "·", "discovery", "no local server answers on the well-known ports"
        yield await _check_default_model(engine)
        await runtime.wait_for_mcp(runtime.config.mcp.wait_s)
        for name, server in runtime.mcp_servers.items():
            yield _check_mcp(name, server)
    for language, has_server, text in runtime.describe_languages():
        yield "✓" if has_server else "·", "language", f"{language}: {text}"
    yield "·", "sandbox", await runtime.describe_sandbox()
    yield "✓", "terminal", "interactive" if sys.stdin.isatty() and sys.stdout.isatty() else "not a terminal"


async def _check_store(runtime: Runtime) -> Finding:
    try:
        await runtime.store.list_sessions(limit=1)
    except AishError as exc:
        return "✗", "store", _with_hint(exc)
    store = runtime.config.store
    return "✓", "store", ("PostgreSQL, as store.url says" if store.url else store.path) if store.enabled else "off"


def _check_embedded(runtime: Runtime) -> Finding:
    if not runtime.can_embed:
        return "!", "embedded", "not installed; pip install 'aish-runtime[local]'"
    models = [model.name for model in runtime.model_cache.list()]
    if not models:
        return "!", "embedded", "no model yet; aish models pull smollm2"
    return "✓", "embedded", f"models: {', '.join(models)}"


async def _check_provider(provider: Provider) -> Finding:
    try:
        infos = await provider.list_models()
    except AishError as exc:
        return "✗", provider.name, _with_hint(exc)
    shown = ", ".join(info.id for info in infos[:5]) + (", …" if len(infos) > 5 else "")
    return "✓", provider.name, f"{len(infos)} models: {shown}" if infos else "answers, but has no models"


def _check_mcp(name: str, server: McpServerView) -> Finding:
    if server.state == "ready":
        return "✓", f"mcp {name}", f"{len(server.specs())} tools"
    return "!", f"mcp {name}", _with_hint(server.failure) if server.failure else server.state


async def _check_default_model(engine: Engine) -> Finding:
    try:
        route = await engine.router.resolve("")
    except AishError as exc:
        return "✗", "model", _with_hint(exc)
    window = f", window {route.info.context_size} tokens" if route.info.context_size else ", window unknown"
    return "✓", "model", f"{route.name}{window}"


def _with_hint(error: AishError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message
