"""The text of one file, with what must be kept of it: its hash, its byte order mark, its line ends.

Lines end at `\\n`, `\\r\\n` and `\\r` and nowhere else, as in the language server protocol; Python's own idea of a line
knows more ends than that. Knows nothing of servers or tools.
"""

from __future__ import annotations

import hashlib
import io
from functools import cached_property

from aish.errors import ToolError
from aish.tools.workspace import Workspace

# The hash of a content as a model sees it: enough to tell any two texts apart, few enough tokens to repeat.
REVISION_CHARS = 16
# Larger files are for search, not for servers and models.
MAX_SOURCE_BYTES = 4 * 1024 * 1024
BOM = b"\xef\xbb\xbf"
_SNIFFED_BYTES = 8192


def content_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Source:
    """What a file held when it was read."""

    def __init__(self, path: str, data: bytes, text: str) -> None:
        self.path = path
        self.data = data
        self.text = text

    @cached_property
    def hash(self) -> str:
        return content_hash(self.data)

    @property
    def revision(self) -> str:
        return self.hash[:REVISION_CHARS]

    @cached_property
    def lines(self) -> list[str]:
        """With their ends."""
        return split_lines(self.text)

    @property
    def line_end(self) -> str:
        """The one that its first line has."""
        first = self.lines[0] if self.lines else ""
        return first[len(first.rstrip("\r\n")) :] or "\n"

    def line(self, number: int) -> str:
        """By its number from 1, without its end; "" where there is none."""
        return self.lines[number - 1].rstrip("\r\n") if 0 < number <= len(self.lines) else ""

    def encoded(self, text: str) -> bytes:
        """Another text as this file would hold it."""
        data = text.encode()
        return BOM + data if self.data.startswith(BOM) else data


def split_lines(text: str) -> list[str]:
    return list(io.StringIO(text, newline=""))


def is_binary(data: bytes) -> bool:
    return b"\0" in data[:_SNIFFED_BYTES]


def load(space: Workspace, path: str) -> Source:
    """Raises ToolError for what is no text in UTF-8, or too much of it."""
    path = space.relative(path)
    return decode(path, space.read(path, max_bytes=MAX_SOURCE_BYTES))


def decode(path: str, data: bytes) -> Source:
    if is_binary(data):
        raise ToolError(f"{path} is a binary file of {len(data)} bytes")
    try:
        return Source(path, data, data.removeprefix(BOM).decode("utf-8"))
    except UnicodeDecodeError as exc:
        raise ToolError(f"{path} is not UTF-8 (byte {exc.start}); it can only be read, with replacement marks") from exc
