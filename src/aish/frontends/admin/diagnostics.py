"""`aish doctor`, `aish models` and `aish safety`: what works here, which models there are, what the gate says."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import AsyncIterator, Iterator

import msgspec

from aish import __version__
from aish.engine.engine import Engine
from aish.errors import AishError, UsageError
from aish.frontends.runtime import McpServerView, Runtime
from aish.frontends.signals import run_until_done
from aish.frontends.terminal import Output, ProgressLine, visible
from aish.ports import Provider
from aish.safety.commands import Level, LineVerdict, classify
from aish.types.models import ModelProfile

Finding = tuple[str, str, str]  # mark, subject, what was found
_CODES = {Level.SAFE: 0, Level.UNKNOWN: 10, Level.DESTRUCTIVE: 20}
_MAX_LINE_CHARS = 1024 * 1024


def run_doctor(arguments: argparse.Namespace, runtime: Runtime) -> int:
    return run_until_done(_diagnose(runtime, arguments.model))


async def _diagnose(runtime: Runtime, model: str) -> int:
    """Exit code 0 if a question could be answered now, otherwise 1."""
    healthy = True
    async for mark, subject, text in _findings(runtime, model):
        print(visible(f"{mark} {subject:<10} {text}"))
        healthy = healthy and mark != "✗"
    return 0 if healthy else 1


async def _findings(runtime: Runtime, model: str) -> AsyncIterator[Finding]:
    yield "✓", "aish", f"{__version__}, Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    for file in runtime.loaded.files:
        yield "✓" if file.state in ("read", "absent") else "!", "config", f"{file.path} ({file.state})"
    for notice in runtime.notices:
        yield "!", "config", notice
    yield await _check_store(runtime)
    async for finding in _check_embedded(runtime):
        yield finding
    async with runtime.engine() as engine:
        for name, provider in engine.router.providers.items():
            if name in runtime.config.providers:
                yield await _check_provider(provider)
        found = await runtime.discover()
        for provider in found:
            yield await _check_provider(provider)
        if not found and runtime.config.discovery.enabled:
            yield "·", "discovery", "no local server answers on the well-known ports"
        yield await _check_model(engine, model)
        await runtime.wait_for_mcp(runtime.config.mcp.wait_s)
        for name, server in runtime.mcp_servers.items():
            yield _check_mcp(name, server)
        await runtime.extensions.refresh()
        for finding in _check_extensions(runtime, engine):
            yield finding
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


async def _check_embedded(runtime: Runtime) -> AsyncIterator[Finding]:
    """Reads every model in full, and compares it with its hash."""
    if not runtime.can_embed:
        yield "!", "embedded", "not installed; pip install 'aish-runtime[local]'"
        return
    models = runtime.model_cache.list()
    if not models:
        yield "!", "embedded", "no model yet; aish models pull smollm2"
    intact = []
    for model in models:
        try:
            await runtime.model_cache.verify(model.path, anew=True)
            intact.append(model.name)
        except AishError as exc:
            yield "✗", "embedded", _with_hint(exc)
    if intact:
        yield "✓", "embedded", f"models: {', '.join(intact)}"


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


def _check_extensions(runtime: Runtime, engine: Engine) -> Iterator[Finding]:
    extensions = runtime.extensions
    tools = sum(extensions.has_tools_of(spec.source) for spec in engine.tools.specs())
    if tools:
        yield "✓", "extensions", "1 tool in Python" if tools == 1 else f"{tools} tools in Python"
    for problem in extensions.problems:
        yield "!", "extensions", problem


async def _check_model(engine: Engine, name: str) -> Finding:
    try:
        route = await engine.router.resolve(name)
    except AishError as exc:
        return "✗", "model", _with_hint(exc)
    window = f", window {route.info.context_size} tokens" if route.info.context_size else ", window unknown"
    return "✓", "model", f"{route.name}{window}"


def _with_hint(error: AishError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message


def run_models(arguments: argparse.Namespace, runtime: Runtime) -> int:
    match arguments.action:
        case "pull":
            return run_until_done(_pull(arguments.name, runtime, arguments.sha256, trust=arguments.trust))
        case "trust":
            return run_until_done(_trust(arguments.name, runtime))
        case "rm":
            return _remove(arguments.name, runtime)
        case _:
            return run_until_done(_list_models(runtime, as_json=arguments.json))


async def _list_models(runtime: Runtime, *, as_json: bool) -> int:
    async with runtime.engine() as engine:
        infos = await engine.router.list_models()
    if not as_json:
        for name, preset in runtime.config.presets.items():
            print(visible(f"{name} → {preset.model}"))
    for info in infos:
        print(msgspec.json.encode(info).decode() if as_json else visible(_model_line(info)))
    if not infos:
        print("no models yet; `aish models pull smollm2` fetches a small one", file=sys.stderr)
    return 0


async def _pull(name: str, runtime: Runtime, sha256: str, *, trust: bool) -> int:
    async with runtime.engine():
        with ProgressLine(Output()) as progress:
            model = await runtime.pull(name, progress.show, sha256=sha256, trust=trust)
    print(visible(f"{model.name} is at {model.path}"))
    return 0


async def _trust(name: str, runtime: Runtime) -> int:
    model = await runtime.model_cache.trust(name)
    print(visible(f"{model.name} is trusted as it is now: {model.path}"))
    return 0


def _remove(name: str, runtime: Runtime) -> int:
    runtime.model_cache.remove(name)
    print(f"removed {name}")
    return 0


def _model_line(info: ModelProfile) -> str:
    return f"{info.name}  {info.context_size} tokens" if info.context_size else info.name


def run_safety(arguments: argparse.Namespace, runtime: Runtime) -> int:
    if arguments.action == "explain":
        return _explain(arguments.tool, arguments.arguments, runtime)
    if arguments.stdin:
        return _check_lines(runtime)
    if not arguments.line:
        raise UsageError("no command to check", hint="aish safety check 'rm -rf build', or --stdin")
    verdict = classify(" ".join(arguments.line), runtime.shell_context)
    if arguments.json:
        print(_as_json(verdict))
    else:
        _show_verdict(" ".join(arguments.line), verdict)
    return _CODES[verdict.level]


def _check_lines(runtime: Runtime) -> int:
    """Prints a JSON object for each line of stdin. The exit code is that of the worst line."""
    worst = 0
    for line in sys.stdin:
        verdict = classify(line.rstrip("\n")[:_MAX_LINE_CHARS], runtime.shell_context)
        print(_as_json(verdict), flush=True)
        worst = max(worst, _CODES[verdict.level])
    return worst


def _as_json(verdict: LineVerdict) -> str:
    reasons = [
        {"text": r.text, "span": list(r.span), "rule": r.rule, "class": r.kind, "level": r.level}
        for r in verdict.reasons
    ]
    return json.dumps({"verdict": verdict.level, "reasons": reasons, "catastrophe": verdict.catastrophe})


def _show_verdict(line: str, verdict: LineVerdict) -> None:
    print(verdict.level + (" (asked about even when everything is approved)" if verdict.catastrophe else ""))
    for reason in verdict.reasons:
        start, end = reason.span
        shown = line[start:end] if 0 <= start < end <= len(line) else ""
        print(visible(f"  {reason.text}" + (f"   « {shown} »" if shown and shown != line else "")))


def _explain(name: str, text: str, runtime: Runtime) -> int:
    try:
        arguments = json.loads(text)
    except ValueError as exc:
        raise UsageError(f"the arguments are not JSON: {exc}") from exc
    if not isinstance(arguments, dict):
        raise UsageError("the arguments must be one JSON object")
    judged = runtime.explain(name, arguments)
    print(f"{judged.verdict}  by {visible(judged.rule)}")
    for reason in dict.fromkeys((judged.reason, *judged.reasons)):
        if reason:
            print(f"  {visible(reason)}")
    if judged.always:
        print(f"  always would add: {visible(judged.always.title)}")
    return 0
