"""The program that runs llama.cpp: `python -P -m aish.providers.embedded.child`, started by `server`.

It reads one JSON line of settings from stdin, loads the model, and writes one JSON line to stdout: `{"address": ...}`
or `{"error": ...}`. It serves on loopback until stdin ends, which happens when aish closes it or dies. Then it exits at
once, without the library's own tear-down, which may wait for a generation. The key comes over stdin because other users
can read arguments and environment. xllamacpp offers no callback while it loads, so there is no progress.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

# llama.cpp caches past prompts in memory. Its default of 8 GiB is more than many machines have.
_PROMPT_CACHE_MIB = 256
_ERRORS_ONLY = 1
_HEADER_BYTES = 1024 * 1024
_GGUF_UINT32 = 4
_USUAL_CONTEXT_SIZE = 8192
_LARGEST_OWN_CONTEXT_SIZE = 16_384  # a 7B model takes about 1 GB for this


def main() -> None:
    answer = _redirect_stdout()
    try:
        settings = json.loads(sys.stdin.buffer.readline())
        server = _serve(settings)
    except Exception as exc:  # the parent waits for a line, whatever the error is
        _write_line(answer, {"error": str(exc) or type(exc).__name__})
        os._exit(1)
    _write_line(answer, {"address": server.listening_address})
    while os.read(0, 4096):
        pass
    os._exit(0)


def _redirect_stdout() -> int:
    """Keeps stdout for our one line. What the library prints goes to stderr."""
    answer = os.dup(1)
    os.dup2(2, 1)
    return answer


def _write_line(answer: int, message: dict[str, str]) -> None:
    os.write(answer, json.dumps(message).encode() + b"\n")


def _serve(settings: dict[str, Any]) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.model_alias = {settings["alias"]}
    header = _read_header(settings["model"])
    params.n_ctx = settings["context_size"] or _own_context_size(header) * settings["parallel"]
    params.n_parallel = settings["parallel"]
    params.cpuparams.n_threads = settings["threads"]
    params.api_keys = [settings["key"]]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.verbosity = _ERRORS_ONLY
    params.cache_ram_mib = _PROMPT_CACHE_MIB
    params.endpoint_slots = True
    params.use_jinja = True
    params.offline = True
    params.ui = False
    params.embedding = True  # has no measurable cost for a model that only chats
    if b".pooling_type" not in header:  # only embedding models name theirs, and llama.cpp needs one for embeddings
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    if settings["adapter"]:
        params.lora_adapters = [
            xllamacpp.CommonAdapterLoraInfo(settings["adapter"], 0.0)
        ]  # off unless a request turns it on
        params.n_ctx += params.n_ctx // params.n_parallel  # a slot for such requests, as large as the others
        params.n_parallel += 1
        params.cache_idle_slots = False  # otherwise each use of one slot clears the other
    return xllamacpp.Server(params)


def _read_header(path: str) -> bytes:
    """The start of the file, which has the facts about the model, before its vocabulary."""
    with Path(path).open("rb") as file:
        return file.read(_HEADER_BYTES)


def _own_context_size(header: bytes) -> int:
    """The window used in training, up to a limit: its memory is allocated at once, used or not."""
    key, value_type = b".context_length", struct.pack("<I", _GGUF_UINT32)
    _, found, rest = header.partition(key + value_type)
    if not found or len(rest) < 4:
        return _USUAL_CONTEXT_SIZE
    size: int = struct.unpack_from("<I", rest)[0]
    return min(size, _LARGEST_OWN_CONTEXT_SIZE)


if __name__ == "__main__":
    main()
