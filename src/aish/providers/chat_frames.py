"""What stands around the words of a streamed answer: nearly all of its chunks differ in their words alone, and those of
a tool call in their piece of the arguments.

It is learned from one chunk, and the next are read without being taken apart. Nothing is taken on trust: that other
words in this place are the chunk's text, and nothing else, is tried before.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from aish.providers.chat_chunks import WireChunk, decode_chunk

_TRIED = "other words"
_NO_HEAD = b"\0"  # no chunk of JSON begins so
_MOST_IN_VAIN = 8  # a backend that changes it with each chunk is read chunk by chunk; llama.cpp does each second

_decode_text = msgspec.json.Decoder(str).decode


class Frame:
    """`plain`: the words of a chunk that was read in full, "" if it holds anything else."""

    def __init__(self, place: bytes, plain: Callable[[WireChunk], str]) -> None:
        self._place = place
        self._plain = plain
        self._head, self._tail = _NO_HEAD, b""
        self._event_head, self._event_tail = _NO_HEAD, b""
        self._in_vain = 0  # learned since it was last of use

    def text(self, data: bytes) -> str:
        """Of a chunk in this frame; "" of one that has to be read in full."""
        return self._words(data, self._head, self._tail)

    def event_text(self, piece: bytes) -> str:
        """Of a chunk that came alone, with what makes it an event: the same, without finding its ends first."""
        return self._words(piece, self._event_head, self._event_tail)

    def _words(self, data: bytes, head: bytes, tail: bytes) -> str:
        if not (data.startswith(head) and data.endswith(tail)):
            return ""
        try:
            text = _decode_text(data[len(head) : -len(tail)])
        except ValueError:  # not one text: a null, several chunks, or more than the words is new
            return ""
        self._in_vain = 0
        return text

    def learn(self, data: bytes, text: str) -> bool:
        """From a chunk that holds this piece of the answer and nothing else. Whether it is the frame from now on."""
        place = self._place
        start = data.find(place) + len(place)
        if start < len(place) or self._in_vain >= _MOST_IN_VAIN or text == _TRIED:  # which would prove nothing
            return False
        self._in_vain += 1
        begin = data.find(b'"', start)
        end = data.find(b'"', begin + 1) + 1
        head, words, tail = data[:begin], data[begin:end], data[end:]
        if data[start:begin].strip() or b"\\" in words or not tail:
            return False
        try:
            is_text = self._plain(decode_chunk(b'%b"%b"%b' % (head, _TRIED.encode(), tail))) == _TRIED
        except ValueError:
            return False
        if is_text:
            self._head, self._tail = head, tail
            self._event_head, self._event_tail = b"data: " + head, tail + b"\n\n"
        return is_text


def text_frame() -> Frame:
    return Frame(b'"content":', WireChunk.plain_text)


def arguments_frame() -> Frame:
    return Frame(b'"arguments":', WireChunk.plain_arguments)
