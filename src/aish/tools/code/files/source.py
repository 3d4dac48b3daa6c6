"""The text of one file, with its hash, byte order mark and line ends.

Lines end only at `\\n`, `\\r\\n` and `\\r`, as in the language server protocol; Python's `splitlines` knows more.
"""

from __future__ import annotations

import hashlib
import io
import re
from functools import cached_property

from aish.errors import ToolError
from aish.tools.workspace import Workspace

# The part of the hash that a model sees: long enough to be unique, short enough to repeat.
REVISION_CHARS = 16
# Larger files are only searched.
MAX_SOURCE_BYTES = 4 * 1024 * 1024
BOM = b"\xef\xbb\xbf"
_SNIFFED_BYTES = 8192


def content_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class SourceText:
    """A file as it was when it was read."""

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
        """Includes the line ends."""
        return split_lines(self.text)

    @property
    def line_end(self) -> str:
        """The line end of the first line."""
        first = self.lines[0] if self.lines else ""
        return first[len(first.rstrip("\r\n")) :] or "\n"

    def line(self, number: int) -> str:
        """Returns a line by its number from 1, without its line end; "" if there is none."""
        return self.lines[number - 1].rstrip("\r\n") if 0 < number <= len(self.lines) else ""

    def with_line_ends(self, text: str) -> str:
        """Returns another text with this file's line ends."""
        return text if self.line_end == "\n" else text.replace("\r\n", "\n").replace("\n", self.line_end)

    def encode(self, text: str) -> bytes:
        """Encodes another text for this file, with its byte order mark."""
        data = text.encode()
        return BOM + data if self.data.startswith(BOM) else data


def split_lines(text: str) -> list[str]:
    return list(io.StringIO(text, newline=""))


def is_binary(data: bytes) -> bool:
    return b"\0" in data[:_SNIFFED_BYTES]


def load(space: Workspace, path: str) -> SourceText:
    """Raises ToolError if the file is not UTF-8 text or is too large."""
    path = space.relative(path)
    return decode(path, space.read(path, max_bytes=MAX_SOURCE_BYTES))


def decode(path: str, data: bytes) -> SourceText:
    if is_binary(data):
        raise ToolError(f"{path} is a binary file of {len(data)} bytes")
    try:
        return SourceText(path, data, data.removeprefix(BOM).decode("utf-8"))
    except UnicodeDecodeError as exc:
        raise ToolError(f"{path} is not UTF-8 (byte {exc.start}); it can only be read, with replacement marks") from exc


def word_regex(name: str) -> re.Pattern[str]:
    """Matches the name as a whole word."""
    return re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")
