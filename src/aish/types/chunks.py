"""What a provider's stream yields for one model call. Chunks are smaller than events, and calls have no ids of ours
yet.

A stream yields batches: chunks that arrived together stay together, so that the cost of a read is paid once. Any mix of
text, reasoning, call fragments, notes and usage comes first; then exactly one StepFinished.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from aish.types.events import ReasoningDelta, Status, TextDelta
from aish.types.tools import Repair
from aish.types.usage import Usage


class StepEnd(StrEnum):
    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    FILTERED = "filtered"
    UNKNOWN = "unknown"  # the backend gave an unknown reason, or none


class CallFragment(msgspec.Struct, frozen=True):
    """A piece of a tool call. `index` is None if the backend left it out. `repairs` were needed to read it."""

    index: int | None
    id: str = ""
    name: str = ""
    arguments: str = ""
    repairs: tuple[Repair, ...] = ()


class UsageChunk(msgspec.Struct, frozen=True):
    usage: Usage


class StepFinished(msgspec.Struct, frozen=True):
    end: StepEnd


Chunk = TextDelta | ReasoningDelta | CallFragment | UsageChunk | Status | StepFinished
Batch = Sequence[Chunk]  # never empty
