"""A llama.cpp with SmolLM2 whose chat template writes tools into the prompt, as those of larger models do.

    python bench/prefix_parts/llama.py MODEL SLOTS WINDOW

It writes its address as one line, and ends with its stdin.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

TEMPLATE = Path(__file__).with_name("chat.jinja")
_CACHE_MIB = 256
_END_S = 5.0


def serve(model: str, slots: int, window: int) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {"smollm2"}
    params.n_ctx = window * slots
    params.n_parallel = slots
    params.kv_unified = False
    params.cpuparams.n_threads = len(os.sched_getaffinity(0))
    params.chat_template = TEMPLATE.read_text()
    params.use_jinja = True
    params.cache_ram_mib = _CACHE_MIB
    params.endpoint_slots = True
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.verbosity = 1
    params.ui = False
    server = xllamacpp.Server(params)
    os.write(1, f"{server.listening_address}\n".encode())
    while os.read(0, 4096):
        pass
    os._exit(0)


@contextmanager
def llama(model: Path, *, slots: int, window: int) -> Iterator[str]:
    """Yields the address of a server that runs until the context is left."""
    words = [sys.executable, __file__, str(model), str(slots), str(window)]
    child = Popen(words, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    assert child.stdin and child.stdout
    try:
        for line in child.stdout:  # the library may write lines of its own
            if line.startswith(b"http"):
                yield line.decode().strip()
                return
        raise RuntimeError("llama.cpp did not start")
    finally:
        child.stdin.close()
        try:
            child.wait(_END_S)
        finally:
            child.kill()
            child.stdout.close()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
