"""How much of a line is looked at. Past a bound the answer is "unknown", at once: bounds come before work."""

from __future__ import annotations

# A person reads no more than this before saying yes. Files written with a quoted heredoc may be this long.
MAX_BYTES = 32_768
# Outside of such heredocs. The parser's time grows with the square of what it cannot parse: about 100 ms for this much.
MAX_PARSED_BYTES = 4_096
MAX_NODES = 12_000
# Python's own recursion limit is 1000; one level of nesting costs up to four frames.
MAX_NESTING = 60
# One command's; longer ones are lists of files nobody reads.
MAX_WORDS = 400
MAX_REDIRECTS = 16
# The parser's time grows with the square of these when the line is broken.
MAX_MARKS = {b"|": 300, b"(": 300, b")": 300, b"[": 300, b"]": 300, b"{": 300, b">": 300, b"<<": 30, b"`": 64}
# Words the parser cut in two, to be put together again.
MAX_MERGES = 32
# Wrappers in wrappers, and shell text in shell text.
MAX_TEXTS = 8
MAX_CALLS = 12
# Followed into what runs them later.
MAX_WRITTEN_FILES = 16
# Each is some tens of microseconds of work.
MAX_COMMANDS = 500


class TooBig(ValueError):
    """Over a bound: said in words."""
