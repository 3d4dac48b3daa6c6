"""Whether a line goes on in the next one, as bash would have it: an open quote, a `do` without its `done`."""

from __future__ import annotations

import functools
import re
import shutil

from aish.process.quick_run import ask_program

# What may leave a line open. Without any of it there is nothing to ask bash.
_OPENING = re.compile(r"""["'`({]|<<|[|&\\]\s*$|\b(?:do|then|else|elif|in|if|while|until|for|case|select)\b""")
_SAYS = ("unexpected end of file", "unexpected EOF", "delimited by end-of-file")
_PATIENCE_S = 0.5


@functools.lru_cache(maxsize=4)
def goes_on(line: str) -> bool:
    """Asks a bash of its own, which reads the line and runs nothing: a few milliseconds, once for a line."""
    if line.endswith("\\"):
        return True
    bash = shutil.which("bash") if _OPENING.search(line) else None
    if bash is None:
        return False
    said = ask_program([bash, "--norc", "-O", "extglob", "-n"], line, timeout_s=_PATIENCE_S) or ""
    return any(words in said for words in _SAYS)
