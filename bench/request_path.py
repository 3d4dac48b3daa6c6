"""Prints the path of one streamed chat request with one tool call through the modules of aish.

    .venv/bin/python bench/request_path.py              the summary and the modules, in the order of their first call
    .venv/bin/python bench/request_path.py --calls      each call as well

`aish serve` runs over the bench's upstream. After a few requests that fill caches, SIGUSR1 turns a profile function on
in its event loop's thread for one request. Counted are calls of Python functions in `aish`; a resumed generator or
coroutine counts as a call. A switch is a call whose module is not that of the call before it.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

MODEL = "bench-toolloop1-echo"
CONFIG = '[serve]\ntools = ["runtime__echo"]\n'
CALLS = "BENCH_REQUEST_PATH"  # names the file for the calls, in the environment of the server
WARM_REQUESTS = 5
READY_S = 60.0
MAX_MODULES, MAX_SWITCHES = 45, 350

Call = tuple[str, str]  # module, function


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", action="store_true", help="print each call")
    options = parser.parse_args()
    calls = trace_request()
    modules = Counter(module for module, _ in calls)
    switches = sum(before[0] != after[0] for before, after in itertools.pairwise(calls))
    if options.calls:
        say("\n".join(f"{module}:{function}" for module, function in calls))
    say("\n".join(f"{count:5}  {module}" for module, count in modules.items()))
    functions = len(set(calls))
    say(f"{len(calls)} calls, {functions} functions, {len(modules)} modules ({MAX_MODULES}), "
        f"{switches} module switches ({MAX_SWITCHES})")  # fmt: skip
    return int(len(modules) > MAX_MODULES or switches > MAX_SWITCHES)


def trace_request() -> list[Call]:
    from bench.gateway_parts import gateways, kinds
    from bench.gateway_parts.gate import body

    with tempfile.TemporaryDirectory(prefix="request-path-") as folder, gateways.upstream_running() as upstream:
        home, port = Path(folder), gateways.free_port()
        kind = kinds.aish(upstream, port)
        config = home / ".config" / "aish" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(CONFIG)
        env = {**os.environ, "HOME": folder, CALLS: str(home / "calls"), "PYTHONPATH": str(ROOT)}
        words = [sys.executable, __file__, *kind.words[3:]]
        with (home / "log").open("w") as log:
            server = subprocess.Popen(words, cwd=folder, env=env, stderr=log, start_new_session=True)
        try:
            wait_until_ready(port, home / "log")
            for _ in range(WARM_REQUESTS):
                ask(port, body(MODEL, stream=True))
            time.sleep(1.0)  # what is done in the background after a request is over
            toggle(server, home / "calls")
            ask(port, body(MODEL, stream=True))
            toggle(server, home / "calls")
            return [(module, function) for module, function in json.loads((home / "calls").read_text())]
        finally:
            gateways.end(server)


def wait_until_ready(port: int, log: Path) -> None:
    due_s = time.monotonic() + READY_S
    while time.monotonic() < due_s:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"the server did not come up: {log.read_text()[-1000:]}")


def ask(port: int, request: dict[str, object]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/v1/chat/completions", json.dumps(request), {"content-type": "application/json"})
    response = connection.getresponse()
    text = response.read()
    if response.status != 200 or b"[DONE]" not in text:
        raise SystemExit(f"the server answered {response.status}: {text[:500]!r}")
    connection.close()


def toggle(server: subprocess.Popen[bytes], calls: Path) -> None:
    """Starts or ends the trace, and waits until the server has done so: it writes the file both times."""
    calls.unlink(missing_ok=True)
    server.send_signal(signal.SIGUSR1)
    due_s = time.monotonic() + READY_S
    while time.monotonic() < due_s:
        if calls.exists():
            return
        time.sleep(0.02)
    raise SystemExit("the server did not begin or end its trace")


def serve() -> None:
    """`aish serve` with a trace that SIGUSR1 turns on and off."""
    calls: list[Call] = []
    source = str(ROOT / "src" / "aish") + os.sep
    modules: dict[str, str] = {}

    def see(frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        path = frame.f_code.co_filename
        module = modules.get(path)
        if module is None:
            module = (
                path.removeprefix(source).removesuffix(".py").replace(os.sep, ".") if path.startswith(source) else ""
            )
            modules[path] = module
        if module:
            calls.append((module, frame.f_code.co_qualname))

    def switch(number: int, frame: FrameType | None) -> None:
        sys.setprofile(None if sys.getprofile() else see)
        part = Path(os.environ[CALLS] + ".part")
        part.write_text(json.dumps(calls))
        part.rename(os.environ[CALLS])

    signal.signal(signal.SIGUSR1, switch)
    from aish.__main__ import main as run

    sys.argv[0] = "aish"
    run()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    if CALLS in os.environ:
        serve()
    sys.exit(main())
