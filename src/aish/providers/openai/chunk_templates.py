"""What stands around the words of a streamed answer: nearly all of its chunks differ in their words alone, and those of
a tool call in their piece of the arguments.

It is learned from one chunk, and the next are read without being taken apart. Nothing is taken on trust: that other
words in this place are the chunk's text, and nothing else, is tried before.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from aish.providers.openai.chunks import WireChunk, decode_chunk

_TRIED = "other words"
_MAX_IN_VAIN = 8  # a backend that changes it with each chunk is read chunk by chunk; llama.cpp does each second

_decode_text = msgspec.json.Decoder(str).decode

Read = Callable[[bytes], str]


def _nothing(data: bytes) -> str:
    return ""


class Frame:
    """`text` reads the words of a chunk in this frame, "" of one that has to be read in full; `event_text` those of one
    that came alone, with what makes it an event: so its ends need not be found first.

    `plain`: the words of a chunk that was read in full, "" if it holds anything else."""

    def __init__(self, place: bytes, plain: Callable[[WireChunk], str]) -> None:
        self.text: Read = _nothing
        self.event_text: Read = _nothing
        self._place = place
        self._plain = plain
        self._in_vain = [0]  # learned since it was last of use

    def learn(self, data: bytes, text: str) -> bool:
        """From a chunk that holds this piece of the answer and nothing else. Whether it is the frame from now on."""
        place = self._place
        start = data.find(place) + len(place)
        if start < len(place) or self._in_vain[0] >= _MAX_IN_VAIN or text == _TRIED:  # which would prove nothing
            return False
        self._in_vain[0] += 1
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
            self.text = _between(head, tail, self._in_vain)
            self.event_text = _between(b"data: " + head, tail + b"\n\n", self._in_vain)
        return is_text


def _between(head: bytes, tail: bytes, in_vain: list[int]) -> Read:
    start, end = len(head), -len(tail)

    def read(data: bytes) -> str:
        if not (data.startswith(head) and data.endswith(tail)):
            return ""
        try:
            text = _decode_text(data[start:end])
        except ValueError:  # not one text: a null, several chunks, or more than the words is new
            return ""
        in_vain[0] = 0
        return text

    return read


def text_frame() -> Frame:
    return Frame(b'"content":', WireChunk.plain_text)


def arguments_frame() -> Frame:
    return Frame(b'"arguments":', WireChunk.plain_arguments)
