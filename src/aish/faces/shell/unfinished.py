"""Whether a line goes on in the next one, as bash would have it: an open quote, a `do` without its `done`."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess

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
    try:
        asked = subprocess.run(
            [bash, "--norc", "-O", "extglob", "-n"],
            input=line.encode("utf-8", "replace"),
            capture_output=True,
            timeout=_PATIENCE_S,
            env={"LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    said = asked.stderr.decode("utf-8", "replace")
    return any(words in said for words in _SAYS)
