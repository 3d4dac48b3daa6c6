"""Frames for tool calls, results, plans and failures: a few lines of styled runs each. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from aish.frontends.shell.render.styles import BOLD, DIM, PLAIN, WRONG, Run
from aish.frontends.shell.render.text_width import count_fitting, width_of
from aish.frontends.terminal import visible
from aish.types.events import Failed, ToolResult
from aish.types.messages import ImagePart, text_of
from aish.types.tools import ResultStatus

_MARK = "[aish] "  # tells the model that aish speaks and not the tool; the user sees that from the frame
# The first lines of a result, or the last ones of a failure, where the error is; all of it is in the session.
_HEAD_LINES = 4
_END_LINES = 8
# While a call runs: the last lines of its output, and of how many calls at once.
_TAIL_LINES = 5
_TAIL_LINES_OF_MANY = 2
_MAX_TAILS = 3
_MAX_VALUE_CHARS = 80
# The code tools tell the model with this line how current their answer is. A user wants to know only if it is not.
_FRESH = ("backend=", " status=fresh ")
_MAX_CHANGED_LINES = 30
_MAX_DIFFED_CHARS = 20_000
_DIFF_STYLES = {"+": "32", "-": "31"}

Frame = list[list[Run]]


def call_frame(name: str, arguments: str, columns: int) -> Frame:
    name = fit_on_one_line(name, columns // 2)
    room = max(8, columns - width_of(name) - 3)
    return [[("● ", DIM), (name, BOLD), (f" {fit_on_one_line(summarize_arguments(arguments), room)}", DIM)]]


class RunningCalls:
    """The calls that run, and the ends of what they have printed."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, str]] = {}  # name and arguments by id
        self._ends: dict[str, deque[str]] = {}

    def begin(self, call: str, name: str, arguments: str) -> None:
        self._calls[call] = (name, arguments)

    def end(self, call: str) -> str:
        """Returns the arguments of the call."""
        self._ends.pop(call, None)
        return self._calls.pop(call, ("", ""))[1]

    def add_output(self, call: str, text: str) -> None:
        lines = (line for line in text.splitlines() if line.strip())
        self._ends.setdefault(call, deque(maxlen=_TAIL_LINES)).extend(lines)

    @property
    def names(self) -> str:
        return ", ".join(name for name, _ in self._calls.values())

    def tail(self, columns: int) -> list[str]:
        """The lines to show. If several calls run, each part says whose it is."""
        if len(self._calls) == 1:
            return [f"│ {fit_line(line, columns - 3)}" for end in self._ends.values() for line in end]
        lines: list[str] = []
        for call, end in list(self._ends.items())[-_MAX_TAILS:]:
            name, arguments = self._calls.get(call, ("", ""))
            lines.append(fit_on_one_line(f"● {name} {summarize_arguments(arguments)}", columns - 1))
            lines += [f"│ {fit_line(line, columns - 3)}" for line in list(end)[-_TAIL_LINES_OF_MANY:]]
        return lines


def result_frame(
    result: ToolResult, columns: int, *, call: str | None = None, number: int = 0, changes: Frame | None = None
) -> Frame:
    """`call` are the arguments of the call if it was not shown just before: then the frame names it. `number` is that
    of the result for `:expand`. `changes` stand for the text of a result that is OK."""
    lines = [line.removeprefix(_MARK) for line in visible(text_of(result.parts)).splitlines() if line.strip()]
    if lines and lines[0].startswith(_FRESH[0]) and _FRESH[1] in lines[0]:
        del lines[0]
    lines += [f"[{part.media_type}]" for part in result.parts if isinstance(part, ImagePart)]
    frame: Frame = call_frame(result.name, call, columns) if call is not None else []
    ok = result.status is ResultStatus.OK
    if ok and changes:
        return [*frame, *changes, [("└ ", DIM), (_remarks(result, lines, len(lines), number), DIM)]]
    shown = lines[:_HEAD_LINES] if ok else lines[-_END_LINES:]
    remarks = _remarks(result, lines, len(lines) - len(shown), number)
    footer = f" · {remarks}" if lines else remarks
    mark: list[Run] = [] if ok else [("✗ ", WRONG)]
    if len(lines) == 1 and width_of(lines[0]) + width_of(footer) + 4 <= columns:
        return [*frame, [("└ ", DIM), *mark, (fit_line(lines[0], columns), DIM), (footer, DIM)]]
    if not ok and len(shown) < len(lines):
        frame.append([("│ …", DIM)])
    frame += [[("│ ", DIM), (fit_line(line, columns - 2), DIM)] for line in shown]
    return [*frame, [("└ ", DIM), *mark, (fit_on_one_line(remarks, columns - 4), DIM)]]


def changes_frame(arguments: str, columns: int) -> Frame:
    """What a call that edits files puts in the place of what, as a diff. Empty for other calls."""
    frame: Frame = []
    edits = _edits_of(arguments)
    names_files = len({edit["path"] for edit in edits}) > 1
    for edit in edits:
        if names_files:
            frame.append([("│ ", DIM), (fit_on_one_line(edit["path"], columns - 2), BOLD)])
        frame += [
            [("│ ", DIM), (fit_line(line, columns - 2), _DIFF_STYLES.get(line[:1], DIM))] for line in _diff_lines(edit)
        ]
    if len(frame) > _MAX_CHANGED_LINES:
        left_out = len(frame) - _MAX_CHANGED_LINES
        frame[_MAX_CHANGED_LINES:] = [[(f"│ … {left_out} more lines of changes", DIM)]]
    return frame


def _diff_lines(edit: dict[str, Any]) -> Iterator[str]:
    import difflib  # not before the first prompt

    old, new = str(edit.get("old", "")), str(edit.get("new", ""))
    if len(old) + len(new) > _MAX_DIFFED_CHARS:
        yield f"{len(new)} characters"
        return
    diff = difflib.unified_diff(visible(old).splitlines(), visible(new).splitlines(), n=1, lineterm="")
    yield from (line for line in list(diff)[2:] if not line.startswith("@@"))


def _edits_of(arguments: str) -> Sequence[dict[str, Any]]:
    """The edits in the arguments of a call that edits files; none for other calls."""
    try:
        values = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ()
    edits = values.get("edits") if isinstance(values, dict) and len(values) == 1 else None
    if not isinstance(edits, list) or not all(isinstance(edit, dict) for edit in edits):
        return ()
    return edits if all(isinstance(edit.get("path"), str) for edit in edits) else ()


def plan_frame(plan: Any, columns: int) -> Frame:
    """The steps of a plan, each with the steps it needs and its reason."""
    frame: Frame = [[("the plan:", DIM)]]
    for step in plan["steps"]:
        needs = f" after {', '.join(step['needs'])}" if step.get("needs") else ""
        why = f" · {step['why']}" if step.get("why") else ""
        line = f"{step['tool']} {summarize_arguments(msgspec.json.encode(step.get('args', {})).decode())}{needs}{why}"
        frame.append([(f"  {visible(step['id'])} ", BOLD), (fit_on_one_line(visible(line), columns - 6), DIM)])
    return frame


def failure_frame(failed: Failed) -> Frame:
    frame: Frame = [[("aish: ", WRONG), (visible(failed.message), PLAIN)]]
    return [*frame, [(f"  {visible(failed.hint)}", DIM)]] if failed.hint else frame


def _remarks(result: ToolResult, lines: list[str], left_out: int, number: int) -> str:
    status = result.status.replace("_", " ")
    is_known = result.status is ResultStatus.OK or (lines and lines[0].startswith(status))
    parts = [] if is_known else [status]
    if left_out > 0:
        expand = f" (:expand {number})" if number else ""
        parts.append(f"{left_out} more line{'s' if left_out > 1 else ''}{expand}")
    if result.truncated_chars:
        parts.append(f"{result.truncated_chars} characters left out")
    if not result.parts:
        parts.append("no output")
    return " · ".join([*parts, format_duration(result.duration_ms / 1000)])


def summarize_arguments(arguments: str) -> str:
    """A command as `$ command`, edits as the names of the files, a single value alone, several with their names."""
    if edits := _edits_of(arguments):
        return ", ".join(dict.fromkeys(edit["path"] for edit in edits))
    try:
        values = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError):
        return arguments
    if not isinstance(values, dict):
        return arguments
    if len(values) == 1:
        ((name, value),) = values.items()
        return f"$ {value}" if name == "command" else _value(value)
    return ", ".join(f"{name}={_value(value)}" for name, value in values.items())


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[: _MAX_VALUE_CHARS - 1]}…"


def fit_on_one_line(text: str, columns: int) -> str:
    """The text on one line of at most that width. Blanks and line breaks become one blank."""
    # Only the beginning can be shown: the rest of a result of megabytes is not processed.
    flat = " ".join(visible(text[: 4 * max(1, columns)]).split())
    return _cut(flat, columns, is_whole=len(text) <= 4 * max(1, columns))


def fit_line(line: str, columns: int) -> str:
    """A line of output, cut to that width. Its blanks stay: they indent code and align columns."""
    shown = visible(line[: 4 * max(1, columns)]).expandtabs().rstrip()
    return _cut(shown, columns, is_whole=len(line) <= 4 * max(1, columns))


def _cut(text: str, columns: int, *, is_whole: bool) -> str:
    if is_whole and width_of(text) <= columns:
        return text
    return f"{text[: count_fitting(text, max(1, columns - 1))]}…"


def format_duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"
