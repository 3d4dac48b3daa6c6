"""Meta commands about what is kept, and about aish itself."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from aish.config.show import show_rows
from aish.errors import SessionNotFound
from aish.frontends.shell.commands.arguments import unknown
from aish.frontends.shell.state import Shell
from aish.types.events import TurnEnd
from aish.types.ids import OWN_SESSIONS
from aish.types.messages import AssistantMessage, Message, TextPart, ToolMessage, UserMessage
from aish.types.records import SessionRecord

_LISTED = 15
_SHOWN_CHARS = 300
_AISH = f"{shlex.quote(sys.executable)} -m aish"  # which need not be on the person's PATH


async def sessions(shell: Shell, rest: str) -> None:
    found = await shell.runtime.store.list_sessions(limit=_LISTED, search=rest)
    for session in found:
        when = datetime.fromtimestamp(session.updated_ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
        here = "*" if session.id == shell.request.session else " "
        turns = f"{session.turns:>3} turn{'s' if session.turns != 1 else ' '}"
        shell.output.note(f"{here} {session.id}  {when}  {turns}  {session.title}")
    if not found:
        shell.output.note("no sessions yet" if not rest else f"no session holds {rest!r}")


async def resume(shell: Shell, rest: str) -> None:
    """By its id, or by a beginning that only it has; without one, the latest but this."""
    store = shell.runtime.store
    if rest:
        whole = await store.find_session(rest)
        found = [whole] if whole else await store.list_sessions(limit=2, under=rest)
    else:
        newest = await store.list_sessions(limit=2, under=OWN_SESSIONS)
        found = [one for one in newest if one.id != shell.request.session][:1]
    if len(found) != 1:
        why = f"several sessions begin with {rest}" if found else "there is no such session"
        raise SessionNotFound(why, hint=":sessions lists them")
    await _go_on_with(shell, found[0])


async def resumed(shell: Shell) -> None:
    """For a shell that begins in a session."""
    if chosen := await shell.runtime.store.find_session(shell.request.session):
        await _go_on_with(shell, chosen)


async def _go_on_with(shell: Shell, chosen: SessionRecord) -> None:
    said = await shell.engine.history(chosen.id)  # closes what a crash left open; not while another aish is at it
    shell.change(session=chosen.id)
    shell.output.note(f"going on with {chosen.id}: {chosen.title}")
    _tell(shell, said, asked=_asked)
    turns = await shell.runtime.store.list_turns(chosen.id)
    if turns and turns[-1].end is not TurnEnd.ANSWERED:
        shell.output.note(f"it stopped there: {turns[-1].end}")


async def reset(shell: Shell, rest: str) -> None:
    shell.change(session="")
    shell.attached.clear()
    shell.context_tokens = 0
    shell.output.note("a new conversation; the old one is kept (:sessions)")


async def history(shell: Shell, rest: str) -> None:
    said = await shell.engine.history(shell.request.session) if shell.request.session else ()
    _tell(shell, said)
    if not said:
        shell.output.note("nothing has been said yet")


def _whole(message: UserMessage) -> str:
    return message.text


def _tell(shell: Shell, said: Sequence[Message], *, asked: Callable[[UserMessage], str] = _whole) -> None:
    for message in said[-20:]:
        match message:
            case UserMessage():
                shell.output.note(f"> {_brief(asked(message))}")
            case AssistantMessage(text) if text:
                shell.output.note(f"  {_brief(text)}")
            case ToolMessage(name=name):
                shell.output.note(f"  ← {name}: {_brief(message.text, 100)}")
            case _:
                pass


def _asked(message: UserMessage) -> str:
    """What the person said, without what went along with it."""
    first = message.parts[0] if message.parts else None
    return first.text if isinstance(first, TextPart) else message.text


async def config(shell: Shell, rest: str) -> None:
    if rest == "path":
        for place in shell.runtime.loaded.files:
            shell.output.note(str(place.path))
        return
    if rest not in ("", "show", "show all"):
        raise unknown("config", rest, "show, show all or path")
    rows = [row for row in show_rows(shell.runtime.loaded) if rest == "show all" or row.origin != "default"]
    for row in rows:
        shell.output.note(f"{row.key} = {row.value}  ({row.origin})")
    if rest != "show all":
        shell.output.note("the rest is as it comes; :config show all shows every setting")
    model = shell.model or shell.request.model or shell.runtime.config.model or "(what is found)"
    shell.output.note(f"here and now: model {model}; tools {', '.join(shell.request.tools) or 'none'}")


async def trust(shell: Shell, rest: str) -> None:
    ran = await shell.run(f"{_AISH} config trust", attach=False)
    if not ran.status:
        shell.output.note("what it loosens holds from the next start of aish")


async def redact(shell: Shell, rest: str) -> None:
    shell.output.note(shell.engine.redacted(rest) if rest else "of what text? :redact TEXT")


async def doctor(shell: Shell, rest: str) -> None:
    await shell.run(f"{_AISH} doctor", attach=False)


def _brief(text: str, most: int = _SHOWN_CHARS) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
