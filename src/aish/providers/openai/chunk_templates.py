"""Reads repeated chunks of a streamed answer without parsing their JSON.

Nearly all chunks of an answer differ only in their text, and those of a tool call only in their piece of the arguments.
The bytes around the text are learned from one chunk; a later chunk with the same bytes around it is read by decoding
the text alone. Before a template is used it is tested: with another text in the same place, a full parse must find that
text and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

_PROBE_TEXT = "other words"
_MAX_UNUSED = 8  # a backend whose chunks never repeat is parsed in full; llama.cpp's change once a second

_decode_text = msgspec.json.Decoder(str).decode

Read = Callable[[bytes], str]


class ChunkTemplate:
    """`text` reads the text of a chunk that fits the template, "" of any other. `event_text` does so for the bytes of a
    whole event that arrived alone, so that its ends need not be found first. Both are None until one was learned.

    `parse` is the full parse of a chunk: it returns the text, "" if the chunk holds anything else, and raises
    ValueError for bytes that are no chunk.
    """

    def __init__(self, field: bytes, parse: Read) -> None:
        self.text: Read | None = None
        self.event_text: Read | None = None
        self._field = field
        self._parse = parse
        self._unused = [0]  # templates learned since one was last used

    def learn(self, data: bytes, text: str) -> bool:
        """Learns from a chunk that holds this piece of text and nothing else. Returns whether that worked."""
        field = self._field
        start = data.find(field) + len(field)
        if start < len(field) or self._unused[0] >= _MAX_UNUSED:
            return False
        if text == _PROBE_TEXT:  # it would prove nothing
            return False
        self._unused[0] += 1
        begin = data.find(b'"', start)
        end = data.find(b'"', begin + 1) + 1
        head, text_bytes, tail = data[:begin], data[begin:end], data[end:]
        if data[start:begin].strip() or b"\\" in text_bytes or not tail:
            return False
        try:
            is_text = self._parse(b'%b"%b"%b' % (head, _PROBE_TEXT.encode(), tail)) == _PROBE_TEXT
        except ValueError:
            return False
        if is_text:
            self.text = _between(head, tail, self._unused)
            self.event_text = _between(b"data: " + head, tail + b"\n\n", self._unused)
        return is_text


def _between(head: bytes, tail: bytes, unused: list[int]) -> Read:
    start, end = len(head), -len(tail)

    def read(data: bytes) -> str:
        if not (data.startswith(head) and data.endswith(tail)):
            return ""
        try:
            text = _decode_text(data[start:end])
        except ValueError:  # not one text: a null, several chunks, or something else besides the text
            return ""
        unused[0] = 0
        return text

    return read
