"""The same questions through other programs, against a recording upstream: how much of a prompt they make a backend
read again.

    PYTHONPATH=tests python -m bench.prefix_parts.rivals [codex opencode pi aider]

There is no model behind it, so bytes are counted, see `prompts`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from bench.peers import PeerMissing, installed  # noqa: E402
from bench.prefix_parts.prompts import share_of_bytes  # noqa: E402
from support.clients import Client, codex, opencode_serving, run  # noqa: E402
from support.recording_upstream import RecordingUpstream, call, recording_upstream, text  # noqa: E402

Json = dict[str, Any]
Ask = Callable[[str], object]

TURNS = 12
CHANGED_IN = 7  # the turn before which files of the project change
_TIMEOUT_S = 300.0
_MODEL = "some-model"


def question(turn: int) -> str:
    return f"Question {turn}: what does the parser keep of line {turn * 7}, and in which table does it look for names?"


def _script(client: Client, upstream: RecordingUpstream, turn: int, tool: str, arguments: Json) -> None:
    """What happens in a turn: now and then a call, and once a change of the project's instructions and files."""
    if turn in (1, CHANGED_IN):
        (client.work / "AGENTS.md").write_text(f"Run the tests of stage {turn}.\n")
        (client.work / f"stage_{turn}.py").write_text(f"def stage_{turn}(): ...\n")
    if tool and turn % 3 == 1:
        upstream.reply(call(tool, arguments), when=_is_work)
    upstream.reply(text(f"Answer {turn}: it keeps the name and the place, in the table of names."), when=_is_work)


def _is_work(seen: Any) -> bool:
    """No request for a title."""
    return "title" not in json.dumps(seen.messages[:1]).lower() or bool(seen.offered)


def play_codex(client: Client, upstream: RecordingUpstream) -> None:
    for turn in range(1, TURNS + 1):
        _script(client, upstream, turn, "exec_command", {"cmd": f"echo {turn}", "login": False})
        codex(client, question(turn), resume=turn > 1)


def play_opencode(client: Client, upstream: RecordingUpstream) -> None:
    with opencode_serving(client) as opencode:
        session = opencode.new_session()
        for turn in range(1, TURNS + 1):
            _script(client, upstream, turn, "bash", {"command": f"echo {turn}", "description": "says a number"})
            opencode.ask(session, question(turn))


def play_pi(client: Client, upstream: RecordingUpstream) -> None:
    pi = installed("pi").program("pi")
    folder = client.home / ".pi" / "agent"
    folder.mkdir(parents=True)
    model = {"id": _MODEL, "contextWindow": 100_000, "maxTokens": 4096}
    local = {"baseUrl": client.base_url, "api": "openai-completions", "apiKey": client.key, "models": [model]}
    (folder / "models.json").write_text(json.dumps({"providers": {"local": local}}))
    for turn in range(1, TURNS + 1):
        _script(client, upstream, turn, "bash", {"command": f"echo {turn}"})
        words = [pi, "-p", *(["--continue"] if turn > 1 else []), "--model", f"local/{_MODEL}", question(turn)]
        ended = run(words, client.environment(PI_OFFLINE="1"), client.work)
        if ended.code:
            raise RuntimeError(f"pi: {ended.err[-400:]}")


def play_aider(client: Client, upstream: RecordingUpstream) -> None:
    aider = installed("aider").program("aider")
    for turn in range(1, TURNS + 1):
        _script(client, upstream, turn, "", {})
    words = (
        aider, "--model", f"openai/{_MODEL}", "--no-git", "--no-pretty", "--no-fancy-input", "--yes-always",
        "--no-check-update", "--no-analytics", "--no-show-model-warnings", "--no-stream",
    )  # fmt: skip
    env = client.environment(OPENAI_API_BASE=client.base_url, OPENAI_API_KEY=client.key)
    lines = "".join(f"{question(turn)}\n" for turn in range(1, TURNS + 1))
    subprocess.run(
        words, input=lines, env=env, cwd=client.work, text=True, timeout=_TIMEOUT_S, check=False, capture_output=True
    )


PLAYS = {"codex": play_codex, "opencode": play_opencode, "pi": play_pi, "aider": play_aider}


def measure(names: Sequence[str] = tuple(PLAYS)) -> tuple[dict[str, float], dict[str, str]]:
    """The share of each, and why one has none."""
    figures: dict[str, float] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            with tempfile.TemporaryDirectory() as folder, recording_upstream() as upstream:
                upstream.always(text("A title"), when=lambda seen: not _is_work(seen))
                PLAYS[name](Client(Path(folder), upstream.url), upstream)
                bodies = [seen.body for seen in upstream.requests]
                upstream.unscripted.clear()
                if len(bodies) < TURNS:
                    raise RuntimeError(f"it sent {len(bodies)} requests only")
                figures[name] = share_of_bytes(bodies)
        except (PeerMissing, AssertionError, OSError, RuntimeError, subprocess.TimeoutExpired) as exc:
            missing[name] = f"{type(exc).__name__}: {exc}"[:300]
    return figures, missing


def main() -> int:
    figures, missing = measure(sys.argv[1:] or tuple(PLAYS))
    for name in PLAYS:
        if name in figures:
            sys.stdout.write(f"{name:<10} {figures[name]:>7.2f} % read again\n")
    sys.stdout.write("".join(f"{name:<10} {why}\n" for name, why in missing.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
