"""How each gateway is started over the fake upstream: as its own documentation advises for production, with nothing
switched on that it does not need. With `tools` it has an MCP server of two tools, over stdio or at a URL.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from bench.gateway_parts.gateways import ECHO, Json, Kind, Upstream, free_port
from bench.peers import installed

RELAY = Path(__file__).with_name("relay.py")
TOOLS_CONFIG = '[serve]\ntools = ["bench__*"]\n[mcp]\nauto_approve = ["bench__*"]\n'


def aish(
    upstream: Upstream, port: int, *, tools: bool = False, url: str = "", more: str = TOOLS_CONFIG, others: int = 0
) -> Kind:
    config = ""
    if tools:
        command = f"command = {json.dumps(sys.executable)}\nargs = {json.dumps([str(ECHO), str(others)])}"
        where = f"url = {json.dumps(url)}" if url else command
        config = f"{more}[mcp.servers.bench]\n{where}\ntrust_hints = true\n"
    listen, endpoint = f"127.0.0.1:{port}", f"up={upstream.url}"
    words = (sys.executable, "-m", "aish", "serve", "--listen", listen, "--endpoint", endpoint)
    return Kind("aish", words, files={".config/aish/config.toml": config}, version=_aish_version())


def relay(upstream: Upstream, port: int) -> Kind:
    """The least that a gateway made of our parts can cost."""
    words = (sys.executable, str(RELAY), upstream.url, str(port))
    return Kind("relay", words, version="bench/gateway_parts/relay.py")


def litellm(upstream: Upstream, port: int, *, tools: bool = False, url: str = "") -> Kind:
    params = {"model": "openai/*", "api_base": upstream.url, "api_key": "none"}
    config: Json = {"model_list": [{"model_name": "*", "litellm_params": params}]}
    config["litellm_settings"] = {"request_timeout": 600, "set_verbose": False}
    # A stream that its client leaves counts as a failure of the upstream, and for a while everybody is refused.
    config["router_settings"] = {"disable_cooldowns": True}
    if tools:
        stdio = {"transport": "stdio", "command": sys.executable, "args": [str(ECHO)]}
        config["mcp_servers"] = {"bench": {"transport": "http", "url": url} if url else stdio}
    peer = installed("litellm")
    start = (peer.program("litellm"), "--config", "litellm.json", "--host", "127.0.0.1")
    words = (*start, "--port", str(port), "--num_workers", "1")
    env = {
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOG": "ERROR",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_ENABLE_MCP_STDIO": "true",
        "LITELLM_TELEMETRY": "False",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",  # no key to check is its best case
    }
    return Kind("litellm", words, env, {"litellm.json": json.dumps(config)}, peer.version)


def sglang_router(upstream: Upstream, port: int) -> Kind:
    peer = installed("sglang-router")
    python = str(peer.folder / "bin" / "python")
    base = upstream.url.removesuffix("/v1")
    words = (python, "-m", "sglang_router.launch_router", "--backend", "openai", "--worker-urls", base)
    quiet = ("--history-backend", "none", "--log-level", "error", "--prometheus-port", str(free_port()))
    # A client that leaves counts as a failure of the upstream, and after a few of them everybody is refused.
    # It also asks for a path that the upstream does not have, and gives it up after three minutes.
    patient = ["--disable-circuit-breaker", "--disable-retries", "--max-concurrent-requests", "-1"]
    patient.append("--disable-health-check")
    listen = ("--host", "127.0.0.1", "--port", str(port))
    return Kind("sglang-router", (*words, *listen, *quiet, *patient), version=peer.version)


def portkey(upstream: Upstream, port: int) -> Kind:
    """It is told with each request where to go."""
    peer = installed("portkey")
    script = peer.folder / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    words = (shutil.which("node") or "node", str(script), f"--port={port}", "--headless")
    headers = {"x-portkey-provider": "openai", "x-portkey-custom-host": upstream.url, "authorization": "Bearer none"}
    return Kind("portkey", words, version=peer.version, headers=headers)


def bridge(upstream: Upstream, port: int, *, tools: bool = True, url: str = "") -> Kind:
    """It runs tools for Ollama's own wire only."""
    peer = installed("ollama-mcp-bridge")
    server = {"url": url} if url else {"command": sys.executable, "args": [str(ECHO)]}
    files = {"mcp.json": json.dumps({"mcpServers": {"bench": server} if tools else {}})}
    base = upstream.url.removesuffix("/v1")
    words = (peer.program("ollama-mcp-bridge"), "--config", "mcp.json", "--host", "127.0.0.1", "--port", str(port))
    env = {"LOGURU_LEVEL": "ERROR"}
    return Kind("ollama-mcp-bridge", (*words, "--ollama-url", base), env, files, peer.version, path="/api/chat")


def _aish_version() -> str:
    words = (sys.executable, "-m", "aish", "--version")
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout.strip()
