"""The adapter that comes with aish: which model it was made for, and how llama.cpp is told to use it.

It picks a tool, or says that none fits, in the words of `tool_calling.prompted`; `train/` makes it. It acts only where
a request asks for that, in a slot of its own: what was computed with it must not be taken for what was computed
without.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from aish.types.requests import Tuning

_FILE = Path(__file__).parent / "adapters" / "smollm2-tools.gguf"
# The F16 file that `aish models pull smollm2` makes. Its head is enough to tell it, and is read in a millisecond.
_BASE_BYTES = 270_885_952
_HEAD_BYTES = 1024 * 1024
_HEAD_SHA256 = "87a9fd8d1abf115189addb55c590c71a69dbd93725d8d6b48138e80494cc02e9"

CHAT = Tuning(scale=0.0, slot=0)
# After `{"` the model writes `name` or `answer`. The bias of the latter is set on held-out data: train/CARD.md.
PICKING = Tuning(scale=1.0, slot=1, bias={"11247": -2.0})


def find_adapter(model: Path) -> Path | None:
    """The adapter for this file of a model, if it is the one that it was made for."""
    if not _FILE.is_file() or model.stat().st_size != _BASE_BYTES:
        return None
    with model.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return _FILE if hashlib.sha256(head).hexdigest() == _HEAD_SHA256 else None
