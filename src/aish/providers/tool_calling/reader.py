"""Finds the calls in a backend's chunks, however the model wrote them, and passes every one on as a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from aish.tool_calls.detect.detector import CallDetector
from aish.tool_calls.detect.envelope import WrittenCall
from aish.tool_calls.detect.resolution import resolve_call
from aish.types.chunks import Batch, CallFragment, Chunk, StepEnd, StepFinished
from aish.types.events import Status, TextDelta
from aish.types.tools import ToolSpec

if TYPE_CHECKING:
    from aish.providers.tool_calling.constrained_answers import ConstrainedReader

# Calls found in text are numbered from here. The backend's own calls are numbered from 0.
_OWN_NUMBERS = 1000
_ENDED_BY_ITSELF = (StepEnd.STOP, StepEnd.TOOL_CALLS)


class _CallNumbers:
    """Numbers the calls found in text. An object of its own, because a bound method of the reader would be a reference
    cycle."""

    def __init__(self) -> None:
        self.count = 0

    def new(self) -> int:
        self.count += 1
        return _OWN_NUMBERS + self.count - 1


class ToolCallReader:
    """Reads one answer. `constrained`: the model was asked for one object of our schema. `calls_natively`: the model is
    known to make native calls, so JSON in its text is only JSON. Calls found in text are held back until the end: if
    the backend makes the same call, there is only one."""

    def __init__(
        self, tools: Sequence[ToolSpec], *, constrained: bool, repair: bool, calls_natively: bool = False
    ) -> None:
        self._holds_calls = not constrained
        self._held: dict[int | None, CallFragment] = {}
        self._native: dict[int | None, list[CallFragment]] = {}
        self._found = _CallNumbers()
        self._reader: ConstrainedReader | FreeTextReader = FreeTextReader(
            tools, self._found.new, repair=repair, marked_only=calls_natively
        )
        if constrained:
            from aish.providers.tool_calling.constrained_answers import ConstrainedReader

            self._reader = ConstrainedReader(self._reader, self._found.new)
        self._has_begun = False  # something was passed on
        self.has_called = False
        self.has_called_natively = False

    def passes(self, batch: Batch) -> bool:
        """Whether the batch can be passed on unchanged, as nearly all can."""
        chunk = batch[0]
        if len(batch) != 1 or type(chunk) is not TextDelta or not self._reader.passes(chunk.text):
            return False
        self._has_begun = True
        return True

    def passes_text(self, text: str) -> bool:
        """The same for text alone, once a batch was passed on. Until then the model may be asked in another way."""
        return self._has_begun and self._reader.passes(text)

    def read(self, batch: Batch) -> list[Chunk]:
        chunks: list[Chunk] = []
        for chunk in batch:
            if isinstance(chunk, TextDelta):
                passes = self._reader.passes(chunk.text)  # unchanged, with its log probabilities
                chunks += [chunk] if passes else self._hold_calls(self._reader.text(chunk.text))
            elif isinstance(chunk, StepFinished):
                chunks += self._finish(chunk)
            else:
                if isinstance(chunk, CallFragment):
                    self.has_called = self.has_called_natively = True
                    self._native.setdefault(chunk.index, []).append(chunk)
                chunks.append(chunk)
        self._has_begun = self._has_begun or any(type(chunk) is not Status for chunk in chunks)
        return chunks

    def _hold_calls(self, chunks: list[Chunk]) -> list[Chunk]:
        if not self._holds_calls:
            return chunks
        passed: list[Chunk] = []
        for chunk in chunks:
            if isinstance(chunk, CallFragment):
                self._held[chunk.index] = _join(self._held.get(chunk.index), chunk)
            else:
                passed.append(chunk)
        return passed

    def _release_calls(self) -> list[Chunk]:
        held, self._held = self._held, {}
        if not held:
            return []
        native = [_comparable_call(pieces) for pieces in self._native.values()]
        return [fragment for fragment in held.values() if _comparable_call([fragment]) not in native]

    def _finish(self, finished: StepFinished) -> list[Chunk]:
        """An answer that breaks off inside a call counts as cut, whatever the backend says."""
        is_complete = finished.end in _ENDED_BY_ITSELF
        within_call = self._reader.is_within_call
        chunks = [*self._hold_calls(self._reader.finish(is_complete=is_complete)), *self._release_calls()]
        self.has_called = self.has_called or self._found.count > 0
        end = finished.end
        if not self._found.count:
            return [*chunks, finished]
        if end is StepEnd.STOP:
            end = StepEnd.TOOL_CALLS
        elif end is StepEnd.UNKNOWN:
            end = StepEnd.LENGTH if within_call else StepEnd.TOOL_CALLS
        return [*chunks, StepFinished(end)]


def _join(before: CallFragment | None, more: CallFragment) -> CallFragment:
    if before is None:
        return more
    return CallFragment(
        before.index,
        name=before.name + more.name,
        arguments=before.arguments + more.arguments,
        repairs=(*before.repairs, *more.repairs),
    )


def _comparable_call(pieces: Sequence[CallFragment]) -> tuple[str, object]:
    """Equal for calls that do the same, however they are written."""
    name = "".join([piece.name for piece in pieces])
    arguments = "".join([piece.arguments for piece in pieces])
    try:
        return name, msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        return name, arguments


class FreeTextReader:
    """Looks for calls in text."""

    def __init__(
        self, tools: Sequence[ToolSpec], new_index: Callable[[], int], *, repair: bool, marked_only: bool
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._recogniser = CallDetector({tool.name: tool.schema for tool in tools}, marked_only=marked_only)
        self._new_index = new_index
        self._repair = repair
        self.passes = self._recogniser.passes

    @property
    def is_within_call(self) -> bool:
        return self._recogniser.is_holding

    def text(self, text: str) -> list[Chunk]:
        if self._recogniser.passes(text):
            return [TextDelta(text)]
        return [self._chunk(piece, is_complete=True) for piece in self._recogniser.feed(text)]

    def finish(self, *, is_complete: bool) -> list[Chunk]:
        return [
            self._chunk(piece, is_complete=is_complete) for piece in self._recogniser.finish(is_complete=is_complete)
        ]

    def _chunk(self, piece: str | WrittenCall, *, is_complete: bool) -> Chunk:
        if isinstance(piece, str):
            return TextDelta(piece)
        ready = resolve_call(piece, self._tools, is_complete=is_complete, repair=self._repair)
        return CallFragment(self._new_index(), name=ready.name, arguments=ready.arguments, repairs=ready.repairs)
