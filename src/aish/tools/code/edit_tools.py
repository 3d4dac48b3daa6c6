"""The tools that change code: rename, format, code actions, edits. They compute edits and pass them to the applier.

Nothing is written unless every file is still as it was read. An answer that is not fresh is not applied: a rename from
an incomplete index would miss uses. An approved preview is applied exactly as shown, or not at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from aish.errors import ToolError
from aish.tools.code.backends.port import AnswerStatus, CodeAnswer, CodeBackend, Edits
from aish.tools.code.backends.selection import Backends
from aish.tools.code.contents import Contents
from aish.tools.code.edits.records import EditOutcome, FileEdit
from aish.tools.code.edits.text_edits import resolve_model_edits
from aish.tools.code.files.source import REVISION_CHARS, SourceText, content_hash
from aish.tools.code.names import check_new_name, find_name_clash, find_word
from aish.tools.code.query_tools import QueryTools
from aish.tools.code.rendering import envelope, format_diff, join_lines
from aish.tools.workspace import Workspace
from aish.types.tools import Arguments, ResultStatus

_DIAGNOSED_AFTER = 5  # files whose diagnostics are returned with the edit
_FILES_NAMED = 12
_MAX_TAKEN_CHECKED = 200  # files of a rename that are searched for the new name


Fingerprint = frozenset[tuple[str, str | None, str | None]]
_MAX_SHOWN = 256  # previews that wait for an answer of the user
_CHANGING = frozenset({"rename", "edit", "format", "code_action"})


class ProposedChange(msgspec.Struct, frozen=True):
    """The edits that a call comes to. `first` is the file of the call; `nothing` is the text if there are no edits."""

    answer: CodeAnswer[Edits]
    title: str
    first: str = ""
    nothing: str = "nothing changes"


class EditTools:
    def __init__(
        self,
        space: Workspace,
        contents: Contents,
        backends: Backends,
        understanding: QueryTools,
        *,
        format_on_edit: bool = False,
    ) -> None:
        self.edited: list[str] = []
        self._space = space
        self._backends = backends
        self._understanding = understanding
        self._contents = contents
        self._format_on_edit = format_on_edit
        self._previews: dict[bytes, Fingerprint] = {}

    async def change(self, name: str, arguments: Arguments, call: str) -> str:
        """Runs a tool and returns its text. Raises ToolError."""
        previewed = self._previews.pop(_key(name, arguments, call), None)
        plan = await self._plan(name, arguments)
        if isinstance(plan, str):
            return plan
        if previewed is not None and previewed != _fingerprint(plan.answer.value):
            raise ToolError("nothing was changed: it would no longer be what the user was shown. Make the call again.")
        return await self._apply(plan)

    async def preview(self, name: str, arguments: Arguments, call: str) -> str:
        """Returns the diff; "" if nothing would change. The call itself then does exactly this, or nothing."""
        plan = await self._plan(name, arguments) if name in _CHANGING else ""
        if isinstance(plan, str):
            return ""
        is_known = plan.answer.status is AnswerStatus.FRESH  # otherwise nothing is shown and nothing is applied
        edits = sorted(plan.answer.value if is_known else (), key=lambda edit: (edit.path != plan.first, edit.path))
        files = [(edit.path, await self._before(edit), edit.content) for edit in edits]
        self._previews[_key(name, arguments, call)] = _fingerprint(edits)
        while len(self._previews) > _MAX_SHOWN:
            del self._previews[next(iter(self._previews))]
        diff = await asyncio.to_thread(format_diff, files)
        return join_lines(f"note: {plan.answer.note}", diff) if plan.answer.note and diff else diff

    async def compute_witness(self, name: str, arguments: Arguments) -> str:
        """Returns the hashes of the files before and after; "" if nothing would change. Raises ToolError."""
        plan = await self._plan(name, arguments) if name in _CHANGING else ""
        if isinstance(plan, str) or not plan.answer.value:
            return ""
        return msgspec.json.encode(sorted(_fingerprint(plan.answer.value), key=lambda file: file[0])).decode()

    async def has_happened(self, witness: str) -> bool | None:
        """Returns whether a change was made, None if unclear. Edits are all or nothing, so a mixture means that others
        changed files."""
        files = msgspec.json.decode(witness, type=list[tuple[str, str | None, str | None]])
        now = [await self._hash_of(path) for path, _, _ in files]
        if now == [new for _, _, new in files]:
            return True
        return False if now == [base for _, base, _ in files] else None

    async def _hash_of(self, path: str) -> str | None:
        if not await asyncio.to_thread(self._space.exists, path):
            return None
        return content_hash(await self._contents.read(path))

    async def undo(self, id: str) -> str:
        undone = await self._contents.undo(id)
        outcome = undone.outcome
        if outcome.conflicts:
            raise ToolError(f"not undone, and nothing was changed: {undone.title} ({_reasons(outcome)})")
        self._remember_edited(outcome)
        self._backends.servers.report_edits(undone.edits)
        return join_lines(outcome.note, f"undone: {undone.title}", *_format_revisions(undone.edits))

    async def _plan(self, name: str, arguments: Arguments) -> ProposedChange | str:
        """Returns text instead of a plan if the call only lists or previews."""
        match name:
            case "rename":
                return await self._rename(arguments)
            case "format":
                return await self._format(arguments)
            case "code_action":
                return await self._code_action(arguments)
            case _:
                return await self._edit(arguments)

    async def _before(self, edit: FileEdit) -> bytes | None:
        return await self._contents.read(edit.path) if edit.base is not None else None

    async def _rename(self, arguments: Arguments) -> ProposedChange | str:
        source = await self._load(arguments)
        spot = await self._backends.locate(source, arguments.get("line"), str(arguments["symbol"]))
        new_name = str(arguments["new_name"]).strip()
        check_new_name(source.path, spot.symbol, new_name)
        answer = await self._backends.for_file(source.path).rename(source, spot, new_name)
        answer = await self._check_not_taken(answer, spot.symbol, new_name, merge=bool(arguments.get("merge")))
        nothing = f"{answer.backend} changes nothing: it may not let {spot.symbol} be renamed, or not to {new_name}"
        if arguments.get("preview"):
            note = ["would change:", *_format_revisions(answer.value)] if answer.value else [nothing]
            return join_lines(envelope(answer, f"files={len(answer.value)}"), *note)
        return ProposedChange(answer, f"rename {spot.symbol} to {new_name}", first=source.path, nothing=nothing)

    async def _check_not_taken(
        self, answer: CodeAnswer[Edits], symbol: str, new_name: str, *, merge: bool
    ) -> CodeAnswer[Edits]:
        """Raises ToolError if the new name is declared beside the symbol; adds a note if the name occurs elsewhere."""
        note = ""
        for edit in [edit for edit in answer.value if edit.base is not None][:_MAX_TAKEN_CHECKED]:
            source = await self._contents.load(edit.path)
            if (word := find_word(source, new_name)) is None:
                continue
            note = note or f"{new_name} stands in {word.path}:{word.line} already: see that the two are not mixed up"
            outline = (await self._backends.outline(source)).value
            if not merge and (clash := find_name_clash(source, outline, symbol, new_name)) is not None:
                text = f"nothing was changed: {clash.path}:{clash.line} declares {new_name} already, beside {symbol}"
                raise ToolError(f"{text}. Take another name, or give `merge` if one name for both is meant.")
        return msgspec.structs.replace(answer, note=". ".join(filter(None, (answer.note, note))))

    async def _format(self, arguments: Arguments) -> ProposedChange:
        source = await self._load(arguments)
        answer = await self._backends.for_formatting(source.path).format(source)
        nothing = "the formatter changes nothing: it is formatted already, or it cannot be parsed"
        return ProposedChange(answer, f"format {source.path}", nothing=nothing)

    async def _code_action(self, arguments: Arguments) -> ProposedChange | str:
        source, line = await self._load(arguments), int(arguments["line"])
        end_line = max(line, int(arguments.get("end_line", line)))
        if line < 1 or end_line > len(source.lines):
            text = f"{source.path} has lines 1 to {len(source.lines)}, not {line} to {end_line}"
            raise ToolError(text, status=ResultStatus.BAD_ARGUMENTS)
        if key := str(arguments.get("apply", "")):
            return await self._apply_action(source, line, end_line, key)
        return await self._list_actions(source, line, end_line)

    async def _edit(self, arguments: Arguments) -> ProposedChange:
        edits = await resolve_model_edits(self._space, self._contents.load, arguments["edits"])
        if self._format_on_edit:
            edits = [await self._format_edit(edit) for edit in edits]
        return ProposedChange(CodeAnswer(tuple(edits), "aish"), f"edit {', '.join(edit.path for edit in edits)}")

    async def _list_actions(self, source: SourceText, line: int, end_line: int) -> str:
        blocks = []
        for backend in self._action_backends(source.path):
            answer = await backend.fixes(source, line, end_line)
            listed = [f"{fix.key}: {fix.title}{' (preferred)' if fix.preferred else ''}" for fix in answer.value]
            head = envelope(answer, f"total={len(listed)}", revision=source.revision)
            blocks.append(join_lines(head, *(listed or ["nothing is offered here"])))
        return join_lines(*blocks)

    async def _apply_action(self, source: SourceText, line: int, end_line: int, key: str) -> ProposedChange:
        unsure: CodeAnswer[Edits] | None = None
        for backend in self._action_backends(source.path):
            answer = await backend.fix(source, line, end_line, key)
            if answer.value is not None:
                return ProposedChange(answer.with_value(answer.value.edits), answer.value.title)
            if answer.status is AnswerStatus.PENDING:
                unsure = answer.with_value(())
        if unsure is not None:
            return ProposedChange(unsure, f"code action {key}")
        raise ToolError(f"nothing with the id {key} is offered here now; list the actions again")

    def _action_backends(self, path: str) -> Sequence[CodeBackend]:
        style, main = self._backends.for_formatting(path), self._backends.for_file(path)
        return [main] if style.name == main.name else [main, style]

    async def _apply(self, plan: ProposedChange) -> str:
        answer, title = plan.answer, plan.title
        if answer.status is not AnswerStatus.FRESH:
            return join_lines(envelope(answer), f"nothing was changed: what is known is {answer.status}, not fresh")
        if not answer.value:
            return join_lines(envelope(answer, "files=0"), plan.nothing)
        outcome = await self._contents.apply(answer.value, title=title)
        if outcome.conflicts:
            is_other = any("changed" in conflict.reason for conflict in outcome.conflicts)
            advice = ". Read the file again and repeat the edit." if is_other else ""
            raise ToolError(f"nothing was changed: {_reasons(outcome)}{advice}")
        self._remember_edited(outcome)
        self._backends.servers.report_edits(edit for edit in answer.value if edit.path in outcome.applied)
        files = sorted(outcome.applied, key=lambda path: (path != plan.first, path))
        diagnose_files = await self._understanding.diagnose_files(files[:_DIAGNOSED_AFTER])
        left = len(files) - _DIAGNOSED_AFTER
        rest = f"({left} more files were not looked at)" if left > 0 else ""
        undo = f"undo={outcome.undo}" if outcome.undo else ""
        head = envelope(answer, f"files={len(files)}", undo)
        return join_lines(
            head,
            outcome.note,
            f"done: {title}",
            *_format_revisions(answer.value),
            "problems now:",
            diagnose_files,
            rest,
        )

    def _remember_edited(self, outcome: EditOutcome) -> None:
        self.edited = list(dict.fromkeys((*outcome.applied, *self.edited)))[:200]

    async def _format_edit(self, edit: FileEdit) -> FileEdit:
        """Formats the new content if a formatter accepts it."""
        if edit.content is None:
            return edit
        source = SourceText(edit.path, edit.content, edit.content.decode("utf-8"))
        answer = await self._backends.for_formatting(edit.path).format(source)
        if answer.status is AnswerStatus.FRESH and len(answer.value) == 1:
            return FileEdit(edit.path, edit.base, answer.value[0].content)
        return edit

    async def _load(self, arguments: Arguments) -> SourceText:
        return await self._contents.load(str(arguments["path"]))


def _fingerprint(edits: Iterable[FileEdit]) -> Fingerprint:
    """Summarises edits independently of their order, without their contents."""
    return frozenset((e.path, e.base, None if e.content is None else content_hash(e.content)) for e in edits)


def _key(name: str, arguments: Arguments, call: str) -> bytes:
    return msgspec.json.encode((call, name, arguments), order="deterministic")


def _reasons(outcome: EditOutcome) -> str:
    return "; ".join(f"{conflict.path}: {conflict.reason}" for conflict in outcome.conflicts[:5])


def _format_revisions(edits: Edits) -> list[str]:
    previewed = [f"  {edit.path} revision={_revision(edit)}" for edit in edits[:_FILES_NAMED]]
    left = len(edits) - len(previewed)
    return [*previewed, f"  and {left} more files"] if left else previewed


def _revision(edit: FileEdit) -> str:
    return content_hash(edit.content)[:REVISION_CHARS] if edit.content is not None else "gone"
