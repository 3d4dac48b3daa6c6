"""`:ask`, `:exec`, `:model`, `:diff`, `:undo` and their like: the conversation and the shell."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from aish.config.reference import show_rows
from aish.errors import SessionNotFound, UsageError
from aish.frontends.mentions import tree_lines
from aish.frontends.shell.approvals.consent import level_line, verdict_lines
from aish.frontends.shell.ask_model import ask_model
from aish.frontends.shell.commands.arguments import is_folder, resolve_path, unknown_argument
from aish.frontends.shell.commands.workspace import AISH, find_untrusted
from aish.frontends.shell.render.highlight.highlighter import find_highlighter
from aish.frontends.shell.shell import Shell
from aish.types.events import TurnEnd
from aish.types.ids import OWN_SESSIONS
from aish.types.live_shell import RAN_MARK, RunResult
from aish.types.messages import AssistantMessage, Message, TextPart, ToolMessage, UserMessage
from aish.types.records import SessionRecord

_MAX_FILES = 400
_SHOWN_PATHS = 3
_MAX_SESSIONS = 15
_MAX_MESSAGES = 20
_SHOWN_CHARS = 300
_ROW_CHARS = 100
_MAX_ROWS = 200


async def ask(shell: Shell, rest: str) -> None:
    if rest:
        await ask_model(shell, rest)
    else:
        shell.output.note("ask what? :ask TEXT")


async def exec_(shell: Shell, rest: str) -> None:
    if rest:
        await shell.run_line(rest, attach=shell.runtime.config.shell.attach_output, typed=True)
    else:
        shell.output.note("run what? :exec COMMAND")


async def model(shell: Shell, rest: str) -> None:
    if rest:
        await shell.switch_model(rest)
    else:
        await shell.look_up_model()
    window = f", {shell.window} tokens of context" if shell.window else ""
    shell.output.note(f"model: {shell.model}{window}")


async def models(shell: Shell, rest: str) -> None:
    infos = await shell.engine.router.list_models()
    for preset, settings in shell.runtime.config.presets.items():
        shell.output.note(f"  {preset} → {settings.model}")
    for info in infos:
        shell.output.note(f"{'*' if info.name == shell.model else ' '} {info.name}")
    if not infos:
        shell.output.note("no model answers here; :doctor says why")


async def reasoning(shell: Shell, rest: str) -> None:
    match rest:
        case "fold" | "show" | "hide":
            shell.set_display(reasoning=rest)
        case "":
            pass
        case _:
            raise unknown_argument("reasoning", rest, "fold, show or hide")
    shell.output.note(f"thinking: {shell.reasoning}")


async def highlight(shell: Shell, rest: str) -> None:
    if rest not in ("", "on", "off"):
        raise unknown_argument("highlight", rest, "on or off")
    if rest:
        shell.set_display(highlight=rest == "on")
    shell.output.note(f"highlight: {'on' if shell.highlight else 'off'}")
    if shell.highlight and find_highlighter("bash") is None:
        shell.output.note("but no colours are installed for code: pip install 'aish-runtime[shell]'")


async def safety(shell: Shell, rest: str) -> None:
    line = f"{rest} ".removeprefix("check ").strip()
    if not line:
        shell.output.note("of which command? :safety check COMMAND")
        return
    shell.output.note(level_line(line, msgspec.structs.replace(shell.runtime.shell_context, cwd=shell.cwd)))
    for verdict_line in verdict_lines(shell.runtime.explain("shell__run", {"command": line})):
        shell.output.note(verdict_line)


async def diff(shell: Shell, rest: str) -> None:
    """Runs `git diff` in the live bash and sends its output with the next question."""
    # Outside a repository `git diff` is another command, whose help is long.
    line = f"git rev-parse --git-dir >/dev/null && git --no-pager diff {rest}".strip()
    result = await shell.run_line(line, attach=False)
    shell.command_context.add_run(msgspec.structs.replace(result, line=f"git diff {rest}".strip()))
    shell.command_context.pin()
    if not result.status and not result.output.strip():
        shell.output.note("git sees no difference")


async def tree(shell: Shell, rest: str) -> None:
    root = resolve_path(shell.cwd, rest or ".")
    if not is_folder(root):
        raise UsageError(f"{root} is not a folder")
    lines = await asyncio.to_thread(tree_lines, root, _MAX_FILES)
    shell.command_context.add_run(RunResult(f"tree {rest}".strip(), 0, shell.cwd, 0.0, "\n".join(lines)))
    shell.command_context.pin()
    entries = "1 entry goes" if len(lines) == 1 else f"{len(lines)} entries go"
    shell.output.note(f"{entries} along with your next question")


async def undo(shell: Shell, rest: str) -> None:
    """Takes back an edit of the code tools, or lists those that can be taken back."""
    if rest != "list":
        shell.output.note(await shell.runtime.undo_edit(rest))
        return
    edits = await shell.runtime.list_undoable()
    for edit in edits:
        when = time.strftime("%d %b %H:%M", time.localtime(edit.made_ms / 1000))
        more = f" and {len(edit.paths) - _SHOWN_PATHS} more" if len(edit.paths) > _SHOWN_PATHS else ""
        shell.output.note(f"{edit.id}  {when}  {edit.title}  ({', '.join(edit.paths[:_SHOWN_PATHS])}{more})")
    if not edits:
        shell.output.note("there is nothing to undo")


async def clear(shell: Shell, rest: str) -> None:
    shell.output.clear_screen()


async def quit_(shell: Shell, rest: str) -> None:
    shell.leave()


async def sessions(shell: Shell, rest: str) -> None:
    found = await shell.engine.store.list_sessions(limit=_MAX_SESSIONS, search=rest)
    for session in found:
        when = datetime.fromtimestamp(session.updated_ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
        here = "*" if session.id == shell.request.session else " "
        turns = f"{session.turns:>3} turn{'s' if session.turns != 1 else ' '}"
        shell.output.note(f"{here} {session.id}  {when}  {turns}  {session.title}")
    if not found:
        shell.output.note("no sessions yet" if not rest else f"no session holds {rest!r}")


async def resume(shell: Shell, rest: str) -> None:
    """Resumes a session by its id or a unique beginning of one; by default the latest other session."""
    store = shell.engine.store
    if rest:
        exact = await store.find_session(rest)
        found = [exact] if exact else await store.list_sessions(limit=2, under=rest)
    else:
        newest = await store.list_sessions(limit=2, under=OWN_SESSIONS)
        found = [one for one in newest if one.id != shell.request.session][:1]
    if len(found) != 1:
        why = f"several sessions begin with {rest}" if found else "there is no such session"
        raise SessionNotFound(why, hint=":sessions lists them")
    await _resume(shell, found[0])


async def show_session(shell: Shell) -> None:
    """Shows the session that the shell was started in."""
    if session := await shell.engine.store.find_session(shell.request.session):
        await _resume(shell, session)


async def _resume(shell: Shell, session: SessionRecord) -> None:
    messages = await shell.engine.history(
        session.id
    )  # closes turns that a crash left open; raises if another aish runs
    shell.change_request(session=session.id)
    shell.output.note(f"going on with {session.id}: {session.title}")
    _show_messages(shell, messages, user_text=_question_only)
    turns = await shell.engine.store.list_turns(session.id)
    if turns and turns[-1].end is not TurnEnd.ANSWERED:
        shell.output.note(f"it stopped there: {turns[-1].end}")


async def reset(shell: Shell, rest: str) -> None:
    shell.start_conversation()
    shell.output.note("a new conversation; the old one is kept (:sessions)")


async def history(shell: Shell, rest: str) -> None:
    """Lists what was said, or shows one answer of the list again."""
    messages = await shell.engine.history(shell.request.session) if shell.request.session else ()
    if not messages:
        shell.output.note("nothing has been said yet")
    elif not rest:
        _list_messages(shell, messages)
    else:
        answers = [message.text for message in messages if isinstance(message, AssistantMessage) and message.text]
        if not rest.isdecimal() or not 1 <= int(rest) <= len(answers):
            raise UsageError(f"there is no answer {rest}", hint=f":history lists 1 to {len(answers)}")
        shell.make_printer().show_text(answers[int(rest) - 1])


def _list_messages(shell: Shell, messages: Sequence[Message]) -> None:
    """A line for each question, command and answer. Answers have numbers, by which they are shown whole."""
    lines: list[str] = []
    answer = 0
    for message in messages:
        match message:
            case UserMessage():
                lines += ["", f"> {_shorten(_question_only(message))}", *_commands_of(message)]
            case AssistantMessage(text) if text:
                answer += 1
                lines.append(f"{answer:>4}  {_shorten(text, _ROW_CHARS)}")
            case ToolMessage(name=name):
                lines.append(f"      ← {name}: {_shorten(message.text, _ROW_CHARS)}")
            case _:
                pass
    for line in lines[-_MAX_ROWS:]:
        shell.output.note(line)
    shell.output.note(":history N shows an answer in full")


def _commands_of(message: UserMessage) -> Iterator[str]:
    """The commands that were sent along, without their output."""
    for part in message.parts[1:]:
        if isinstance(part, TextPart):
            for line in part.text.splitlines():
                if line.startswith(RAN_MARK):
                    yield f"      {_shorten(line.removeprefix(RAN_MARK), _ROW_CHARS)}"


def _show_messages(shell: Shell, messages: Sequence[Message], *, user_text: Callable[[UserMessage], str]) -> None:
    for message in messages[-_MAX_MESSAGES:]:
        match message:
            case UserMessage():
                shell.output.note(f"> {_shorten(user_text(message))}")
            case AssistantMessage(text) if text:
                shell.output.note(f"  {_shorten(text)}")
            case ToolMessage(name=name):
                shell.output.note(f"  ← {name}: {_shorten(message.text, 100)}")
            case _:
                pass


def _question_only(message: UserMessage) -> str:
    """The user's own words, without files and command output that were sent along."""
    first = message.parts[0] if message.parts else None
    return first.text if isinstance(first, TextPart) else message.text


async def config(shell: Shell, rest: str) -> None:
    if rest == "path":
        for file in shell.runtime.loaded.files:
            shell.output.note(str(file.path))
        return
    if rest not in ("", "show", "show all"):
        raise unknown_argument("config", rest, "show, show all or path")
    rows = [row for row in show_rows(shell.runtime.loaded) if rest == "show all" or row.origin != "default"]
    for row in rows:
        shell.output.note(f"{row.key} = {row.value}  ({row.origin})")
    if rest != "show all":
        shell.output.note("the other settings have their defaults; :config show all shows every setting")
    model = shell.model or shell.request.model or shell.runtime.config.model or "(what is found)"
    shell.output.note(f"here and now: model {model}; tools {', '.join(shell.request.tools) or 'none'}")


async def trust(shell: Shell, rest: str) -> None:
    if not await _confirm_trust(shell):
        return
    result = await shell.run_line(f"{AISH} config trust", attach=False)
    if not result.status:
        shell.runtime.reread_project()
        shell.output.note("what its settings loosen holds from the next start of aish")


async def _confirm_trust(shell: Shell) -> bool:
    """Whether the user means it, asked where there is something to trust."""
    found = await asyncio.to_thread(find_untrusted, shell, also_refused=True)
    if not found:
        return True
    for path in found:
        shell.output.note(f"  {path}")
    answer = await shell.read("trust what stands in there now? [y/N] ")
    return (answer or "").strip().lower() in ("y", "yes")


async def redact(shell: Shell, rest: str) -> None:
    shell.output.note(shell.engine.redact(rest) if rest else "of what text? :redact TEXT")


async def doctor(shell: Shell, rest: str) -> None:
    model = shell.request.model
    await shell.run_line(f"{AISH} doctor{f' --model {shlex.quote(model)}' if model else ''}", attach=False)


def _shorten(text: str, max_chars: int = _SHOWN_CHARS) -> str:
    line = " ".join(text.split())
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"
