"""What a provider's stream yields for one model call: smaller than events, before calls have ids of ours.

A stream yields batches: what arrived together stays together, so that nobody pays per chunk for what costs per read.
Order: any mix of text, reasoning, call fragments, notes and usage; then exactly one StepFinished, last.
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
    UNKNOWN = "unknown"  # the backend gave a word we do not know, or none


class CallFragment(msgspec.Struct, frozen=True):
    """A piece of a tool call. `index` None means the backend left it out. `repairs` were needed to read it."""

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
