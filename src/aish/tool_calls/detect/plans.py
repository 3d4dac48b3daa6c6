"""Tells a plan from any other answer in plan mode. Pure.

The model is asked to mark its plan with a line `PLAN:`. Headings and lines such as "My plan:" count as the mark, too,
since small models write what they are used to. Without a mark, numbered steps are a plan only if the user has not asked
a question: "what are the parts of git?" is often answered with a numbered list.
"""

from __future__ import annotations

import re

from aish.tool_calls.detect.proposals import lines_of_prose

_WORD = r"(?:plan|plán|plano|piano|план|计划|計画|計劃)"
# A few words before and after it, as in "Here is my plan for the release:".
_LINE = re.compile(
    rf"[*_]{{0,3}}(?:[\w'’]+ ){{0,4}}?{_WORD}\b(?![ -]?mod)(?: [\w'’`./-]+){{0,6}}[*_]{{0,3}} ?[:：]", re.I
)
_HEADING = re.compile(
    rf"(?:#{{1,6}} .{{0,60}}?\b{_WORD}\b|(\*\*|__).{{0,60}}?\b{_WORD}\b.{{0,60}}\1$)(?![ -]?mod)", re.I
)
_STEP = re.compile(r"(?:#{1,6} )?[*_]{0,3}(?:\w{2,12} )?(\d{1,2})[.):][*_]{0,3} ?\S", re.I)
_MIN_STEPS = 2
_MAX_LINE_CHARS = 400  # of a line that is looked at


def is_plan(answer: str, question: str) -> bool:
    """Whether an answer is a plan that the user may approve."""
    lines = [line.strip()[:_MAX_LINE_CHARS] for line in lines_of_prose(answer) if line.strip()]
    if any(_LINE.match(line) or _HEADING.match(line) for line in lines):
        return True
    is_asked = question.rstrip(" \t\n\"'»”)").endswith(("?", "？", "؟"))
    return not is_asked and _count_steps(lines) >= _MIN_STEPS


def _count_steps(lines: list[str]) -> int:
    """How far the numbers of the lines count up from 1."""
    count = 0
    for line in lines:
        found = _STEP.match(line)
        if found is not None and int(found[1]) == count + 1:
            count += 1
    return count
