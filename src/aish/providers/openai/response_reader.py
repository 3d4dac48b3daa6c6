"""Reads one answer of a chat-completions backend to its end, one batch for each read that brings something.

It arrives as server-sent events or as one document, whatever was requested. What is optional in practice is optional
here: `[DONE]`, usage, finish reasons, content types. Only a tool call must be complete: it has an effect, and half of
one is never passed on. The finish comes last, even where usage follows the finish reason on the wire.

Before the first piece a backend may think for as long as the deadline allows: many send headers at once and then read a
long prompt. After that, silence means that something is stuck.
"""

from __future__ import annotations

from aish.errors import ProviderError, ProviderProtocolError
from aish.net.http.client import Response
from aish.net.lines import SseReader
from aish.ports import TextRelay
from aish.providers.endpoint import MAX_ANSWER_BYTES, WRONG_URL
from aish.providers.http_faults import error_text, stream_error
from aish.providers.loose_json import NotJson, decode_json
from aish.providers.openai.chunk_templates import ChunkTemplate, arguments_template, text_template
from aish.providers.openai.chunks import WireChunk, decode_chunk, read_chunk
from aish.types.chunks import Batch, CallFragment, Chunk, StepEnd, StepFinished
from aish.types.events import Status, TextDelta

# One event has at most one delta. The largest known are tool arguments in a single piece (about 1 MB).
MAX_EVENT_BYTES = 8 * 1024 * 1024
# How long to wait for the end of the body after `[DONE]`. It allows the connection to be used again.
_TAIL_S = 0.1
# How long to wait for usage and `[DONE]` after the finish reason.
_LAG_S = 2.0
_BLANK = b"\xef\xbb\xbf \r\n\t"


class ChatResponseReader:
    """Call `next_batch` until `is_over`."""

    # Set once the answer turns out to be an event stream.
    _reader: SseReader
    _template: ChunkTemplate
    _call_template: ChunkTemplate

    def __init__(
        self,
        provider: str,
        model: str,
        response: Response,
        idle_s: float,
        relay: TextRelay | None,
        *,
        logprobs: int | None,
    ) -> None:
        self.is_over = False  # the last batch has been returned
        self._provider = provider
        self._model = model
        self._response = response
        self._idle_s = idle_s
        self._relay = relay
        self._logprobs = logprobs  # how many alternatives for each token were requested
        self._document: list[bytes] = []
        self._document_bytes = 0
        self._is_event_stream = False
        self._is_between = False  # the next bytes begin an event
        self._call_index: int | None = None  # of the call that `_call_template` belongs to
        self._has_ended = False  # nothing more will be read
        self._is_complete = False  # the backend has sent everything
        self._has_content = False
        self._has_call = False
        self._finished: StepFinished | None = None
        self._broken: ProviderError | None = None

    async def next_batch(self) -> Batch:
        while not self._has_ended:
            if self._is_complete:
                await self._read_to_end()
                break
            piece = await self._response.next_piece()
            if self._is_between and (text := self._template.event_text(piece)):
                return [TextDelta(text)]
            if batch := self._read_piece(piece):
                self._has_content = True
                return batch
        if self._broken is not None:
            raise self._broken
        return self._last()

    def _take(self, piece: bytes) -> bool:
        """Relays a word that came alone. Returns False if it is none, or if it belongs into a batch."""
        relay = self._relay
        if relay is None or not self._is_between:
            return False
        text = self._template.event_text(piece)
        return bool(text) and relay.accept(text)

    def _last(self) -> Batch:
        self.is_over = True
        finished = self._finished
        return [finished] if finished else [self._without_finish(), StepFinished(StepEnd.UNKNOWN)]

    def _without_finish(self) -> Status:
        if not self._has_content:
            raise ProviderProtocolError(f"{self._provider} ended its answer without saying anything")
        if self._has_call and not self._is_complete:
            raise ProviderProtocolError(f"{self._provider} broke off its answer in a tool call")
        return Status(f"{self._provider} ended the answer without a finish reason")

    async def _read_to_end(self) -> None:
        """Reads the end of the body, which holds nothing, so that the connection can be used again."""
        self._has_ended, self._relay = True, None
        self._response.make_rest_optional(_TAIL_S)
        while await self._response.next_piece():
            pass

    def _read_piece(self, piece: bytes) -> list[Chunk]:
        if self._is_event_stream:
            return self._read_events(piece)
        return self._read_document(piece) if self._document else self._begin(piece)

    def _begin(self, piece: bytes) -> list[Chunk]:
        """The first bytes tell an event stream from a document."""
        self._response.limit_silence(self._idle_s)
        text = piece.lstrip(_BLANK)
        start = text[:1]
        if start == b"{":
            self._document.append(text)
            self._document_bytes = len(text)
            if self._response.at_end:
                return self._read_document(b"")
        elif start == b"<":
            message = f"{self._provider} answered with an HTML page instead of a stream"
            raise ProviderProtocolError(message, hint=WRONG_URL)
        elif start:
            self._is_event_stream = True
            self._reader = SseReader(MAX_EVENT_BYTES)
            self._template = text_template()
            self._call_template = arguments_template()
            if self._relay is not None:
                self._response.offer_to(self._take)
            return self._read_events(piece)
        else:
            self._has_ended = not piece
        return []

    def _read_document(self, piece: bytes) -> list[Chunk]:
        """Collects JSON, requested or not, and reads it at its end."""
        if piece:
            self._document.append(piece)
            self._document_bytes += len(piece)
            if self._document_bytes > MAX_ANSWER_BYTES:
                raise ProviderProtocolError(f"{self._provider}: the answer is larger than {MAX_ANSWER_BYTES} bytes")
            return []
        self._has_ended = self._is_complete = True
        batch = self._read(self._decode(b"".join(self._document)))
        self._has_content = bool(batch)
        batch += self._last()
        return batch

    def _read_events(self, piece: bytes) -> list[Chunk]:
        """The chunks up to the end, or up to one that cannot be read: what came before it is not lost."""
        reader = self._reader
        if piece:
            events = reader.feed_data(piece)
            self._is_between = reader.is_between_events
        else:
            events = [event.data for event in reader.finish()]
            self._has_ended = True
        batch: list[Chunk] = []
        frame, call_frame = self._template, self._call_template
        for data in events:
            if text := frame.text(data):
                batch.append(TextDelta(text))
            elif text := call_frame.text(data):
                batch.append(CallFragment(self._call_index, arguments=text))
            elif data == b"[DONE]":
                self._is_complete = True
                break
            elif data:
                try:
                    self._read_event(data, batch)
                except ProviderError as exc:
                    self._has_ended, self._broken = True, exc
                    break
        return batch

    def _read_event(self, data: bytes, batch: list[Chunk]) -> None:
        try:
            wire = decode_chunk(data)
        except (ValueError, RecursionError):  # read it leniently
            wire = self._decode(data)
        if self._logprobs is not None:
            batch += self._read(wire)
        elif text := wire.plain_text():
            if self._has_content or batch:  # the first word is not kept waiting for it
                self._template.learn(data, text)
            batch.append(TextDelta(text))
        elif (fragment := wire.plain_fragment()) and self._call_template.learn(data, fragment.arguments):
            self._has_call, self._call_index = True, fragment.index
            batch.append(fragment)
        else:
            batch += self._read(wire)

    def _read(self, wire: WireChunk) -> list[Chunk]:
        if (error := wire.find_error()) is not None:
            raise stream_error(self._provider, self._model, error)
        batch: list[Chunk] = []
        for chunk in read_chunk(wire, logprobs=self._logprobs):
            if type(chunk) is StepFinished:
                self._finished = chunk
                self._response.make_rest_optional(_LAG_S)
            else:
                self._has_call = self._has_call or type(chunk) is CallFragment
                batch.append(chunk)
        return batch

    def _decode(self, data: bytes) -> WireChunk:
        try:
            return decode_json(data, decode_chunk)
        except NotJson as exc:
            shown = error_text(data)[:80]
            raise ProviderProtocolError(f"{self._provider} sent a chunk that cannot be read ({exc}): {shown}") from exc
