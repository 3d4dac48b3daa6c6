"""Bounds of the analysis. Beyond a bound the result is "unknown" at once; bounds are checked before work begins."""

from __future__ import annotations

# A user reads no more than this before approving. Files written with a quoted heredoc may be this long.
MAX_BYTES = 32_768
# Outside such heredocs. The parser's time grows with the square of unparsable text: about 100 ms for this much.
MAX_PARSED_BYTES = 4_096
MAX_NODES = 12_000
# Python's own recursion limit is 1000; one level of nesting needs up to four frames.
MAX_NESTING = 60
# Of one command; longer ones are long lists of files.
MAX_WORDS = 400
MAX_REDIRECTS = 16
# The parser's time grows with the square of these if the line is broken.
MAX_MARKS = {b"|": 300, b"(": 300, b")": 300, b"[": 300, b"]": 300, b"{": 300, b">": 300, b"<<": 30, b"`": 64}
# Words that the parser cut in two and that are joined again.
MAX_MERGES = 32
# Wrappers inside wrappers, and shell text inside shell text.
MAX_TEXTS = 8
MAX_CALLS = 12
# Files whose text is remembered for the command that runs them.
MAX_WRITTEN_FILES = 16
# Each takes some tens of microseconds.
MAX_COMMANDS = 500


class TooBig(ValueError):
    """A bound was exceeded; the message says which."""
