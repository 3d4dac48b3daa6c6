"""Runs the user's hooks: functions of extensions in the tool process, and commands that get the event as JSON.

A command answers with one JSON object on stdout, such as `{"answer": "deny", "reason": "…"}`, or with nothing. Exit
code 2 denies as well, with stderr as the reason; any other code but 0 is a failure.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from shutil import which

import msgspec

from aish.config.schema.tools import HookConfig
from aish.config.tool_files import MY
from aish.errors import AishError
from aish.extensions.manifest import BLOCKED
from aish.process.child import ProcessSpec, run
from aish.tools.extensions.process import CallPlace, ToolProcess
from aish.tools.extensions.toolset import FoundHook
from aish.types.decisions import Ask, Change, Deny, HookAnswer, HookEvent, HookPoint, HookVerdict, Note
from aish.types.globs import Globs

_MAX_ANSWER_BYTES = 256 * 1024
_MAX_REASON_CHARS = 1000
_DENIES = 2  # the exit code

RunHook = Callable[[HookEvent], Awaitable["HookAnswer | None"]]


class _Hook(msgspec.Struct, frozen=True):
    """`refuses`: if it fails, the call is refused."""

    name: str
    run: RunHook
    refuses: bool


class HookRunner:
    """`find_hooks` lists the hooks of extensions as they are now."""

    def __init__(
        self,
        process: Callable[[], ToolProcess],
        find_hooks: Callable[[], Sequence[FoundHook]],
        commands: Sequence[HookConfig],
        *,
        timeout_s: float,
        failing: str,
        workspace: Callable[[], Path],
        redact: Callable[[str], str],
        folder: Path,
    ) -> None:
        """Commands run in `folder`, that of the user's settings, which no model writes to, also if the workspace is
        around it. Files of the workspace could take the place of modules and programs."""
        self._folder = folder
        self._process = process
        self._find_hooks = find_hooks
        self._commands = commands
        self._timeout_s = timeout_s
        self._failing = failing
        self._workspace = workspace
        self._redact = redact

    def has_hooks(self, point: HookPoint) -> bool:
        return any(hook.entry.point == point for hook in self._find_hooks()) or any(
            command.point == point for command in self._commands
        )

    async def run_hooks(self, event: HookEvent) -> HookVerdict:
        """All hooks run, one after the other: each sees the arguments as the one before has left them. Never raises."""
        event = msgspec.structs.replace(event, workspace=str(self._workspace()))
        verdict = HookVerdict()
        for hook in self._matching(event):
            verdict, event = await self._run_one(hook, event, verdict)
            if verdict.refusal is not None:
                break
        return verdict

    def _matching(self, event: HookEvent) -> Iterator[_Hook]:
        for command in self._commands:
            if command.point == event.point and _is_for(command.tools, event):
                yield _Hook(command.command, self._make_command(command), self._refuses(MY))
        for found in self._find_hooks():
            if found.entry.point == event.point and _is_for(found.entry.tools, event):
                yield _Hook(found.entry.name, self._make_function(found), self._refuses(found.source.owner))

    def _refuses(self, owner: str) -> bool:
        return self._failing == "refuse" or (self._failing == "auto" and owner != MY)

    async def _run_one(self, hook: _Hook, event: HookEvent, verdict: HookVerdict) -> tuple[HookVerdict, HookEvent]:
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await hook.run(event)
        except Exception as exc:  # whatever it is, the hook has failed
            why = f"took more than {self._timeout_s:g} s" if isinstance(exc, TimeoutError) else str(exc)
            text = self._say(f"the hook {hook.name} failed: {why}")
            if hook.refuses and event.point in ("before_turn", "before_tool"):
                return msgspec.structs.replace(verdict, refusal=text), event
            return msgspec.structs.replace(verdict, notices=(*verdict.notices, f"{text}; it was skipped")), event
        match answer:
            case Deny(reason):
                return msgspec.structs.replace(verdict, refusal=self._say(reason) or f"by {hook.name}"), event
            case Ask(reason) if event.point == "before_tool":
                return msgspec.structs.replace(verdict, question=self._say(reason) or f"by {hook.name}"), event
            case Change(arguments) if event.point == "before_tool":
                changed = msgspec.structs.replace(event, arguments=arguments)
                return msgspec.structs.replace(verdict, arguments=arguments), changed
            case Note(text) if event.point != "before_tool":
                return msgspec.structs.replace(verdict, notes=(*verdict.notes, self._redact(text))), event
            case None:
                return verdict, event
            case _:
                kind = type(answer).__name__.lower()
                notice = f"the hook {hook.name} answered {kind}, which has no effect at {event.point}"
                return msgspec.structs.replace(verdict, notices=(*verdict.notices, notice)), event

    def _say(self, text: str) -> str:
        return self._redact(text)[:_MAX_REASON_CHARS]

    def _make_function(self, found: FoundHook) -> RunHook:
        async def call(event: HookEvent) -> HookAnswer | None:
            if found.source.revision == BLOCKED:
                raise AishError(f"{found.source.title} has changed since you trusted it")
            place = CallPlace(event.workspace, event.session, event.turn)
            return await self._process().run_hook(
                found.source, found.entry.name, event, place, timeout_s=self._timeout_s
            )

        return call

    def _make_command(self, command: HookConfig) -> RunHook:
        async def call(event: HookEvent) -> HookAnswer | None:
            words = tuple(shlex.split(command.command))
            if not words:
                raise AishError("its command is empty")
            if changeable := _find_changeable(words, self._folder, self._workspace()):
                raise AishError(f"{changeable} is in the workspace, where a model may change it: keep it elsewhere")
            spec = ProcessSpec(words, cwd=self._folder, redact=self._redact)
            done = await run(
                spec, timeout_s=self._timeout_s, max_output_bytes=_MAX_ANSWER_BYTES, stdin=msgspec.json.encode(event)
            )
            if done.returncode == _DENIES:
                return Deny(done.stderr_tail.strip())
            if done.returncode:
                raise AishError(f"it ended with the exit code {done.returncode}: {done.stderr_tail.strip()}")
            output = done.stdout.strip()
            return _decode_answer(output) if output else None

        return call


def _find_changeable(words: Sequence[str], folder: Path, workspace: Path) -> Path | None:
    """A program or a script of the command that is a file of the workspace, and so in reach of a model."""
    program = which(words[0]) or words[0]
    for word in (program, *words[1:]):
        named = folder / word  # also a link in the workspace, such as the Python of an environment there
        for path, outer, own in ((named, workspace, folder), (named.resolve(), workspace.resolve(), folder.resolve())):
            if path.is_relative_to(outer) and not path.is_relative_to(own):
                return path
    return None


_decode_answer: Callable[[bytes], HookAnswer] = msgspec.json.Decoder(HookAnswer).decode


def _is_for(tools: Sequence[str], event: HookEvent) -> bool:
    return not event.tool or event.tool in Globs(tools)
