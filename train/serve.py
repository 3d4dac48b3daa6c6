"""Serves the model with an adapter on loopback, to be measured: one line with the address, then until stdin ends.

python -m train.serve MODEL.gguf [ADAPTER.gguf]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import xllamacpp

_CONTEXT_SIZE = 8192
_THREADS = 2


def serve(model: Path, adapter: Path | None) -> xllamacpp.Server:
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {"smollm2"}
    params.n_ctx = _CONTEXT_SIZE
    params.n_parallel = 1
    params.cpuparams.n_threads = _THREADS
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.verbosity = 1  # errors only
    params.use_jinja = True
    params.offline = True
    if adapter is not None:
        params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(adapter), 1.0)]
    return xllamacpp.Server(params)


def main() -> None:
    if not 2 <= len(sys.argv) <= 3:
        raise SystemExit("usage: python -m train.serve MODEL.gguf [ADAPTER.gguf]")
    missing = [path for path in sys.argv[1:] if not Path(path).is_file()]
    if missing:
        raise SystemExit(f"{missing[0]} is not there")
    server = serve(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) == 3 else None)
    sys.stdout.write(server.listening_address + "\n")
    sys.stdout.flush()
    while os.read(0, 4096):
        pass
    os._exit(0)  # the library's own tear-down may wait for a generation


if __name__ == "__main__":
    main()
