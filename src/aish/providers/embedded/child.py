"""The program that runs llama.cpp: `python -P -m aish.providers.embedded.child`, started by `embedded_engine`.

Life: one JSON line of settings on stdin; load; one JSON line on stdout, `{"address": ...}` or `{"error": ...}`; serve
on loopback until stdin ends, which it does when aish closes it or dies; exit at once, without the library's own
tear-down, which may wait for a generation. The key comes over stdin because arguments and environment can be read by
others. xllamacpp offers no callback while it loads, so no progress is reported.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

# llama.cpp keeps past prompts in memory to pick them up again; its default of 8 GiB is more than many machines have.
_PROMPT_CACHE_MIB = 256
_ERRORS_ONLY = 1
_HEADER_BYTES = 1024 * 1024
_GGUF_UINT32 = 4
_USUAL_CONTEXT_SIZE = 8192
_LARGEST_OWN_CONTEXT_SIZE = 16_384  # a 7B model takes about 1 GB for this


def main() -> None:
    answer = _take_stdout()
    try:
        settings = json.loads(sys.stdin.buffer.readline())
        server = _serve(settings)
    except Exception as exc:  # top of a program: whatever it is, the parent is waiting for a line
        _say(answer, {"error": str(exc) or type(exc).__name__})
        os._exit(1)
    _say(answer, {"address": server.listening_address})
    while os.read(0, 4096):
        pass
    os._exit(0)


def _take_stdout() -> int:
    """stdout is for our one line; whatever the library prints there goes to stderr instead."""
    answer = os.dup(1)
    os.dup2(2, 1)
    return answer


def _say(answer: int, message: dict[str, str]) -> None:
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
    params.embedding = True  # costs a model that only chats nothing that can be measured
    if b".pooling_type" not in header:  # embedding models name theirs; without any, llama.cpp gives no embeddings
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    if settings["adapter"]:
        params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(settings["adapter"], 0.0)]  # off unless a request asks
        params.n_ctx += params.n_ctx // params.n_parallel  # a slot for those that do, as large as the others
        params.n_parallel += 1
        params.cache_idle_slots = False  # else each use of one slot throws out what the other knows
    return xllamacpp.Server(params)


def _read_header(path: str) -> bytes:
    """The start of the file, where the facts about the model stand before its vocabulary."""
    with Path(path).open("rb") as file:
        return file.read(_HEADER_BYTES)


def _own_context_size(header: bytes) -> int:
    """What the model was trained for, within reason: memory for it is taken at once, whether or not it is used."""
    key, value_type = b".context_length", struct.pack("<I", _GGUF_UINT32)
    _, found, rest = header.partition(key + value_type)
    if not found or len(rest) < 4:
        return _USUAL_CONTEXT_SIZE
    size: int = struct.unpack_from("<I", rest)[0]
    return min(size, _LARGEST_OWN_CONTEXT_SIZE)


if __name__ == "__main__":
    main()
