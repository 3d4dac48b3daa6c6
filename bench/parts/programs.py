"""The programs whose start is timed: aish, its peers, and what bounds them. How each is asked for its version, for a
prompt on a terminal and for one answer, with as little switched on as it allows. All answers come from one upstream.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.peers import installed

KEY = "none"  # every program wants one
MODEL = "bench-json"


@dataclass(frozen=True)
class Program:
    name: str
    version: tuple[str, ...] = ()
    prompt: tuple[str, ...] = ()
    mark: str = ""  # what its prompt draws
    answer: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # below its home
    env: Mapping[str, str] = field(default_factory=dict)
    limit: bool = False


def aish(url: str) -> Program:
    command = str(Path(sys.executable).with_name("aish"))
    ask = (command, "--endpoint", f"up={url}", "--model", f"up:{MODEL}")
    return Program("aish", (command, "--version"), ask, "›", (*ask, "hi"))


def scripted() -> tuple[str, ...]:
    """One answer of the model that ships for tests: no network at all."""
    command = str(Path(sys.executable).with_name("aish"))
    return (command, "--model", "scripted:fake-tool", "hi")


def python(url: str) -> Program:
    """The interpreter that runs aish, and a bare prompt drawn with the library aish draws with."""
    bare = "from prompt_toolkit import PromptSession; PromptSession().prompt('bare › ')"
    return Program("python", (sys.executable, "-c", "pass"), (sys.executable, "-c", bare), "bare ›", limit=True)


def bash(url: str) -> Program:
    words = shutil.which("bash") or "bash"
    return Program("bash", (words, "--version"), (words, "--norc", "-i"), "bare $", env={"PS1": "bare $ "}, limit=True)


def llm(url: str) -> Program:
    command = installed("llm").program("llm")
    models = f"- model_id: {MODEL}\n  model_name: {MODEL}\n  api_base: {url}\n  api_key_name: bench\n"
    files = {"llm/extra-openai-models.yaml": models, "llm/keys.json": json.dumps({"bench": KEY})}
    chat, ask = (command, "chat", "-m", MODEL), (command, "-m", MODEL, "hi")
    return Program("llm", (command, "--version"), chat, "\n> ", ask, files, {"LLM_USER_PATH": "llm"})


def aider(url: str) -> Program:
    command = installed("aider").program("aider")
    quiet = (
        "--no-git",
        "--no-check-update",
        "--no-show-model-warnings",
        "--no-show-release-notes",
        "--analytics-disable",
    )
    model = ("--model", f"openai/{MODEL}", "--openai-api-base", url, "--openai-api-key", KEY, "--edit-format", "ask")
    words = (command, *quiet, *model)
    return Program("aider", (command, "--version"), words, "ask> ", (*words, "--no-pretty", "--message", "hi"))


def shell_gpt(url: str) -> Program:
    command = installed("shell-gpt").program("sgpt")
    lines = {"API_BASE_URL": url, "OPENAI_API_KEY": KEY, "DEFAULT_MODEL": MODEL, "USE_LITELLM": "false"}
    files = {".config/shell_gpt/.sgptrc": "".join(f"{key}={value}\n" for key, value in lines.items())}
    ask = (command, "--no-cache", "--no-md", "hi")
    return Program("shell-gpt", (command, "--version"), (command, "--repl", "temp"), ">>> ", ask, files)


def xonsh(url: str) -> Program:
    """A shell in Python without a model."""
    command = installed("xonsh").program("xonsh")
    return Program("xonsh", (command, "--version"), (command, "--no-rc", "-DPROMPT=bare> "), "bare>")


def codex(url: str) -> Program:
    command = installed("codex").program("codex")
    config = (
        f'model = "{MODEL}"\nmodel_provider = "bench"\ncheck_for_update_on_startup = false\n'
        f'[model_providers.bench]\nname = "bench"\nbase_url = "{url}"\nwire_api = "responses"\n'
    )
    files = {".codex/config.toml": config, ".codex/auth.json": json.dumps({"OPENAI_API_KEY": KEY})}
    ask = (command, "exec", "--skip-git-repo-check", "hi")
    return Program("codex", (command, "--version"), (command,), "Ask Codex", ask, files)


def opencode(url: str) -> Program:
    command = str(installed("opencode").folder / "node_modules" / "opencode-linux-x64" / "bin" / "opencode")
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "bench", "options": {"baseURL": url, "apiKey": KEY}}
    config = {
        "provider": {"bench": {**provider, "models": {MODEL: {"name": MODEL}}}},
        "model": f"bench/{MODEL}",
        "small_model": f"bench/{MODEL}",
        "autoupdate": False,
        "share": "disabled",
    }
    files = {".config/opencode/opencode.json": json.dumps(config)}
    return Program("opencode", (command, "--version"), (command,), "Ask anything", (command, "run", "hi"), files)


PROGRAMS = {
    "aish": aish,
    "python": python,
    "bash": bash,
    "llm": llm,
    "aider": aider,
    "shell-gpt": shell_gpt,
    "xonsh": xonsh,
    "codex": codex,
    "opencode": opencode,
}
