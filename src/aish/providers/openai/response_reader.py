"""Reads one answer of a chat-completions backend to its end, a batch for each read that brought something.

It comes by server-sent events or as one document, whatever was asked for. What is optional in practice is optional
here: `[DONE]`, usage, finish reasons, content types. Only a tool call must be surely whole: it is an effect, and half
of one is never handed on. The finish comes last even where usage follows the finish reason on the wire.

How long the next piece is waited for is as in `answer_body`.
"""

from __future__ import annotations

from aish.errors import ProviderError, ProviderProtocolError
from aish.net.http.client import Response
from aish.net.lines import SseReader
from aish.ports import TextRelay
from aish.providers.endpoint import MAX_ANSWER_BYTES, WRONG_URL
from aish.providers.http_faults import error_text, stream_error
from aish.providers.loose_json import NotJson, decode_json
from aish.providers.openai.chunk_templates import Frame, arguments_frame, text_frame
from aish.providers.openai.chunks import WireChunk, decode_chunk, read_chunk
from aish.types.chunks import Batch, CallFragment, Chunk, StepEnd, StepFinished
from aish.types.events import Status, TextDelta

# One event holds at most one delta; tool arguments in a single piece are the largest known (about 1 MB).
MAX_EVENT_BYTES = 8 * 1024 * 1024
# How long the end of the body may lag behind `[DONE]`; waiting for it saves the connection for the next request.
_TAIL_S = 0.1
# How long usage and `[DONE]` may lag behind the finish reason.
_LAG_S = 2.0
_BLANK = b"\xef\xbb\xbf \r\n\t"


class Answer:
    """Asked for batches until it `is_over`."""

    # Of an answer that comes by events.
    _reader: SseReader
    _frame: Frame
    _call_frame: Frame

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
        self.is_over = False  # the last has been told
        self._provider = provider
        self._model = model
        self._response = response
        self._idle_s = idle_s
        self._relay = relay
        self._logprobs = logprobs  # for how many tokens in the place of each it was asked
        self._document: list[bytes] = []
        self._document_bytes = 0
        self._by_events = False
        self._is_between = False  # what comes next begins an event
        self._call_index: int | None = None  # of the call whose frame it is
        self._ended = False  # nothing more is to be read
        self._whole = False  # the backend has said that this was all
        self._said = False
        self._called = False
        self._finished: StepFinished | None = None
        self._broken: ProviderError | None = None

    async def next_batch(self) -> Batch:
        while not self._ended:
            if self._whole:
                await self._let_end()
                break
            piece = await self._response.next_piece()
            if self._is_between and (text := self._frame.event_text(piece)):
                return [TextDelta(text)]
            if batch := self._read_piece(piece):
                self._said = True
                return batch
        if self._broken is not None:
            raise self._broken
        return self._last()

    def _take(self, piece: bytes) -> bool:
        """Relays a word that came alone. Returns False if it is none, or if it belongs into a batch."""
        relay = self._relay
        if relay is None or not self._is_between:
            return False
        text = self._frame.event_text(piece)
        return bool(text) and relay.accept(text)

    def _last(self) -> Batch:
        self.is_over = True
        finished = self._finished
        return [finished] if finished else [self._without_finish(), StepFinished(StepEnd.UNKNOWN)]

    def _without_finish(self) -> Status:
        if not self._said:
            raise ProviderProtocolError(f"{self._provider} ended its answer without saying anything")
        if self._called and not self._whole:
            raise ProviderProtocolError(f"{self._provider} broke off its answer in a tool call")
        return Status(f"{self._provider} ended the answer without a finish reason")

    async def _let_end(self) -> None:
        """Nothing is missing; what may still come is read, so that the connection can be used again."""
        self._ended, self._relay = True, None
        self._response.spare_rest(_TAIL_S)
        while await self._response.next_piece():
            pass

    def _read_piece(self, piece: bytes) -> list[Chunk]:
        if self._by_events:
            return self._read_events(piece)
        return self._read_document(piece) if self._document else self._begin(piece)

    def _begin(self, piece: bytes) -> list[Chunk]:
        """The first of it says whether it comes by events or as one document."""
        self._response.limit_silence(self._idle_s)
        text = piece.lstrip(_BLANK)
        start = text[:1]
        if start == b"{":
            self._document.append(text)
            self._document_bytes = len(text)
            if self._response.at_end:
                return self._read_document(b"")
        elif start == b"<":
            said = f"{self._provider} answered with an HTML page instead of a stream"
            raise ProviderProtocolError(said, hint=WRONG_URL)
        elif start:
            self._by_events = True
            self._reader = SseReader(MAX_EVENT_BYTES)
            self._frame = text_frame()
            self._call_frame = arguments_frame()
            if self._relay is not None:
                self._response.offer_to(self._take)
            return self._read_events(piece)
        else:
            self._ended = not piece
        return []

    def _read_document(self, piece: bytes) -> list[Chunk]:
        """JSON, asked for or not, or something that is no answer at all; read at its end."""
        if piece:
            self._document.append(piece)
            self._document_bytes += len(piece)
            if self._document_bytes > MAX_ANSWER_BYTES:
                raise ProviderProtocolError(f"{self._provider}: the answer is larger than {MAX_ANSWER_BYTES} bytes")
            return []
        self._ended = self._whole = True
        batch = self._read(self._decode(b"".join(self._document)))
        self._said = bool(batch)
        batch += self._last()
        return batch

    def _read_events(self, piece: bytes) -> list[Chunk]:
        """The chunks up to the end or to one that cannot be read: what came well before it is not lost."""
        reader = self._reader
        if piece:
            events = reader.feed_data(piece)
            self._is_between = reader.is_between
        else:
            events = [event.data for event in reader.finish()]
            self._ended = True
        batch: list[Chunk] = []
        frame, call_frame = self._frame, self._call_frame
        for data in events:
            if text := frame.text(data):
                batch.append(TextDelta(text))
            elif text := call_frame.text(data):
                batch.append(CallFragment(self._call_index, arguments=text))
            elif data == b"[DONE]":
                self._whole = True
                break
            elif data:
                try:
                    self._read_event(data, batch)
                except ProviderError as exc:
                    self._ended, self._broken = True, exc
                    break
        return batch

    def _read_event(self, data: bytes, batch: list[Chunk]) -> None:
        try:
            wire = decode_chunk(data)
        except (ValueError, RecursionError):  # with more patience, then
            wire = self._decode(data)
        if self._logprobs is not None:
            batch += self._read(wire)
        elif text := wire.plain_text():
            if self._said or batch:  # the first word is not kept waiting for it
                self._frame.learn(data, text)
            batch.append(TextDelta(text))
        elif (fragment := wire.plain_fragment()) and self._call_frame.learn(data, fragment.arguments):
            self._called, self._call_index = True, fragment.index
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
                self._response.spare_rest(_LAG_S)
            else:
                self._called = self._called or type(chunk) is CallFragment
                batch.append(chunk)
        return batch

    def _decode(self, data: bytes) -> WireChunk:
        try:
            return decode_json(data, decode_chunk)
        except NotJson as exc:
            shown = error_text(data)[:80]
            raise ProviderProtocolError(f"{self._provider} sent a chunk that cannot be read ({exc}): {shown}") from exc
