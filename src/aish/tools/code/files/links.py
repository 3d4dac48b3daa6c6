"""Links inside a workspace: a change under one name is a change under all of them.

A language server knows a file by the name in an import, which may go through a link; the kernel reports the real
folder. Links that lead outside are not followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

MAX_LINKS = 2000
_MAX_CHAIN = 4  # links within linked folders


class Links:
    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._links: set[str] = set()
        self._known: dict[str, str] | None = {}  # link targets; None after one has changed

    @property
    def complete(self) -> bool:
        return len(self._links) < MAX_LINKS

    def update(self, path: str) -> bool:
        """Updates one path. Returns whether it is or was a link; then other links may lead elsewhere, too."""
        was = path in self._links
        if (self._root / path).is_symlink() and self.complete:
            self._links.add(path)
        else:
            self._links.discard(path)
        if not was and path not in self._links:
            return False
        self._known = None
        return True

    def has_target(self, link: str) -> bool:
        return link in self._targets

    def names(self, path: str) -> set[str]:
        """Returns the other names of a file through links."""
        found: set[str] = set()
        fresh = {path}
        for _ in range(_MAX_CHAIN):
            fresh = {name for one in fresh for name in self._names(one)} - found - {path}
            if not fresh or len(found) > MAX_LINKS:
                break
            found |= fresh
        return found

    @property
    def _targets(self) -> dict[str, str]:
        if self._known is None:
            self._known = {link: target for link in self._links if (target := self._target(link)) is not None}
        return self._known

    def _names(self, path: str) -> Iterator[str]:
        for link, target in self._targets.items():
            if path == target:
                yield link
            elif path.startswith(f"{target}/"):
                yield link + path[len(target) :]

    def _target(self, link: str) -> str | None:
        """Returns the target relative to the root; None if it is outside, missing, or above the link."""
        real = Path(os.path.realpath(self._root / link))
        if not real.is_relative_to(self._root) or (self._root / link).is_relative_to(real):
            return None
        return real.relative_to(self._root).as_posix()
