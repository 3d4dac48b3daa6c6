"""`:rewind`: lists the turns of a session and brings back files, conversation or both, as they were before one."""

from __future__ import annotations

import time

from aish.errors import UsageError
from aish.frontends.shell.commands.arguments import unknown_argument
from aish.frontends.shell.shell import Shell
from aish.frontends.terminal import visible
from aish.types.checkpoints import FileChanges, RewindResult, RewindScope, RewindTarget

_SHOWN_PATHS = 12
_SCOPE_OF_KEY = {"f": RewindScope.FILES, "c": RewindScope.CONVERSATION, "b": RewindScope.BOTH}


async def rewind(shell: Shell, rest: str) -> None:
    id, _, word = rest.partition(" ")
    word = word.strip()
    if not shell.request.session:
        raise UsageError("nothing has been said yet, so there is nothing to rewind")
    if word and word not in set(RewindScope):
        raise unknown_argument("rewind", word, "a number of the list, and then files, conversation or both")
    if not id:
        await _list(shell)
    elif word:
        await _rewind(shell, id, RewindScope(word))
    elif (scope := await _choose(shell, id)) is not None:
        await _rewind(shell, id, scope)


async def _list(shell: Shell) -> None:
    targets = await shell.engine.rewinds.list_targets(shell.request.session)
    for target in targets:
        when = time.strftime("%H:%M", time.localtime(target.at_ms / 1000))
        title = visible(target.title)
        shell.output.note(f"{target.id:>4}  {when}  {title:<50}  {_describe_target(target)}")
    shell.output.note(":rewind N brings back what was before turn N: files, conversation or both")


def _describe_target(target: RewindTarget) -> str:
    cut = " (rewound)" if target.is_cut else ""
    if target.problem:
        return f"files not kept: {target.problem}{cut}"
    if target.files is None:
        return f"no files changed by aish{cut}"
    return f"{_count(target.changed)} since{cut}"


def _count(files: int) -> str:
    return "1 file changed" if files == 1 else f"{files} files changed"


async def _choose(shell: Shell, id: str) -> RewindScope | None:
    """Shows what would change, and asks what to bring back."""
    target = await shell.engine.rewinds.find_target(shell.request.session, id)
    shell.output.note(f"before {'turn ' if id.isdecimal() else ''}{id}: {visible(target.title)}")
    for root, changes in target.files or ():
        shell.output.note(f"in {visible(root)}:")
        _show_changes(shell, changes)
    has_files = bool(target.changed) and not target.problem
    if not has_files:
        shell.output.note(f"  files: {_describe_target(target) if target.problem else 'nothing to bring back'}")
    menu = "[f]iles [c]onversation [b]oth [q]uit › " if has_files else "[c]onversation [q]uit › "
    key = await shell.read_key(menu, ["f", "c", "b", "q"] if has_files else ["c", "q"])
    scope = _SCOPE_OF_KEY.get(key or "")
    if scope is None:
        shell.output.note("nothing was brought back")
    return scope


def _show_changes(shell: Shell, changes: FileChanges) -> None:
    marked = [
        *(("+", path) for path in changes.restored),
        *(("~", path) for path in changes.replaced),
        *(("-", path) for path in changes.removed),
    ]
    for mark, path in marked[:_SHOWN_PATHS]:
        shell.output.note(f"  {mark} {visible(path)}")
    if len(marked) > _SHOWN_PATHS:
        shell.output.note(f"  … and {len(marked) - _SHOWN_PATHS} more")
    for path, reason in changes.left[:_SHOWN_PATHS]:
        shell.output.note(f"  ! {visible(path)} stays as it is: {reason}")
    if len(changes.left) > _SHOWN_PATHS:
        shell.output.note(f"  … and {len(changes.left) - _SHOWN_PATHS} more stay as they are")


async def _rewind(shell: Shell, id: str, scope: RewindScope) -> None:
    result = await shell.engine.rewinds.rewind(shell.request.session, id, scope)
    if scope is not RewindScope.CONVERSATION:
        _show_result(shell, result)
    if scope is not RewindScope.FILES:
        shell.forget_context_size()
        shell.output.note(_describe_conversation(result.turns))
    shell.output.note(f":rewind {result.undo} {scope} takes this back")


def _show_result(shell: Shell, result: RewindResult) -> None:
    count = sum(changes.count for _, changes in result.files)
    shell.output.note(f"brought back: {_count(count)}")
    for _, changes in result.files:
        _show_changes(shell, changes)


def _describe_conversation(turns: int) -> str:
    if turns < 0:
        return f"the model sees {-turns} more turn{'s' if turns < -1 else ''} again"
    return f"the model no longer sees {turns} turn{'s' if turns != 1 else ''}; :rewind still lists them"
