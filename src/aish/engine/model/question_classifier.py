"""Classifies a question by its words alone: pure, quick, and able to say why."""

from __future__ import annotations

import re

import msgspec

_TRACEBACK = re.compile(
    r"^Traceback \(most recent|^\s+at \S+\(.*:\d+\)|^\s*File \"[^\"]+\", line \d+|panicked at|Segmentation fault"
    r"|^\S+:\d+:\d+: (?:fatal )?error|\b\w+(?:Error|Exception): |core dumped|undefined reference to|\berror\[E\d+\]",
    re.MULTILINE,
)
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_CODE = re.compile(
    r"\b(?:def|class|fn|func|function|import|return|async|await|const|let|var|public|struct|SELECT|INSERT)\b[^\n]{0,80}"
    r"[(){};:=]|[{};]\s*$|=>|::|</\w+>|\w+\(\w*\)",
    re.MULTILINE,
)
_ABOUT_CODE = re.compile(
    r"\b(?:code|function|method|class|regex|script|bug|refactor|compile|unit tests?|stack trace|python|rust|javascript"
    r"|typescript|bash|sql|api|docker(?:file)?|makefile|kubernetes|git)\b",
    re.IGNORECASE,
)
_REASONING = re.compile(
    r"\b(?:why|prove|proof|derive|explain|analy[sz]e|compare|trade-?offs?|step by step|reason|design|plan|evaluate"
    r"|pros and cons|how would|what if|strategy|optimi[sz]e|warum|erkläre|beweise|vergleiche)\b|为什么|证明|分析|比较",
    re.IGNORECASE,
)
_LONG_CHARS = 4000
_QUICK_CHARS = 120


class ClassifiedQuestion(msgspec.Struct, frozen=True):
    """The kind of a user's question, such as `code` or `quick`, which `[routing]` maps to a model."""

    kind: str
    reasons: tuple[str, ...]


def classify_question(text: str) -> ClassifiedQuestion:
    question = text.strip()
    if _TRACEBACK.search(question):
        return ClassifiedQuestion("debug", ("it holds an error or a traceback",))
    if reasons := _code_reasons(question):
        return ClassifiedQuestion("code", reasons)
    if found := {match.lower() for match in _REASONING.findall(question)}:
        return ClassifiedQuestion("reasoning", (f"it says {', '.join(sorted(found)[:3])}",))
    if len(question) > _LONG_CHARS:
        return ClassifiedQuestion("long", (f"it has {len(question)} characters",))
    if len(question) <= _QUICK_CHARS:
        return ClassifiedQuestion("quick", ("it is short and plain",))
    return ClassifiedQuestion("plain", ("nothing about it stands out",))


def _code_reasons(question: str) -> tuple[str, ...]:
    reasons: list[str] = []
    if _FENCE.search(question):
        reasons.append("it holds a code block")
    if len(_CODE.findall(question)) >= 2:
        reasons.append("it reads like code")
    if len(words := {match.lower() for match in _ABOUT_CODE.findall(question)}) >= 2:
        reasons.append(f"it speaks of {', '.join(sorted(words)[:3])}")
    return tuple(reasons)
