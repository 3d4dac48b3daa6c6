"""`:undo`: takes back what the tools for code have changed, if nobody has changed it since."""

from __future__ import annotations

import time

from aish.frontends.shell.state import Shell

_PATHS_SHOWN = 3


async def undo(shell: Shell, rest: str) -> None:
    if rest == "list":
        await _list(shell)
        return
    shell.output.note(await shell.runtime.undo_edit(rest))


async def _list(shell: Shell) -> None:
    kept = await shell.runtime.list_undoable()
    for edit in kept:
        when = time.strftime("%d %b %H:%M", time.localtime(edit.made_ms / 1000))
        more = f" and {len(edit.paths) - _PATHS_SHOWN} more" if len(edit.paths) > _PATHS_SHOWN else ""
        shell.output.note(f"{edit.id}  {when}  {edit.title}  ({', '.join(edit.paths[:_PATHS_SHOWN])}{more})")
    if not kept:
        shell.output.note("there is nothing to undo")
