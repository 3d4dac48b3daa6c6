"""Classifies one line: parses it, scans for danger, compares the readings, tries the proof, and builds the verdict."""

from __future__ import annotations

import re

from msgspec import structs

from aish.safety.commands.bounds import MAX_BYTES, TooBig
from aish.safety.commands.danger.findings import Findings
from aish.safety.commands.danger.scanner import DangerScan
from aish.safety.commands.proof.evidence import Proof
from aish.safety.commands.proof.exposure import find_secret
from aish.safety.commands.proof.prover import prove
from aish.safety.commands.shell_state import Scope
from aish.safety.commands.syntax.agreement import Agreement, compare_readings
from aish.safety.commands.syntax.parser import parse
from aish.safety.commands.syntax.possible_commands import possible_scripts
from aish.safety.commands.verdict import Level, LineVerdict, Reason, ShellContext

# Control characters, blanks that the shell does not treat as blanks, invisible and direction-changing characters: with
# them, the displayed line is not the executed one.
_DECEPTIVE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f"
    "\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
)
# A word that continues in the next line: the shell joins it, the parser splits it.
_JOIN = re.compile(r"(?<![ \t\n])\\\n")
# `{rm,-rf,x}` as a whole command: the shell expands it to words, the grammar expects a group and fails.
_LEADING_BRACE = re.compile(r"(^|[;&|(\n!]|\b(?:then|do|else)\s)([ \t]*)(?=\{[^\s}])")
_MAX_REASONS = 12
_ANSI = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_BACKSLASHED = re.compile(r"\$'[^']*\\\\")


def classify(line: str, context: ShellContext) -> LineVerdict:
    """Never raises and never accesses the machine. Beyond bounds, on errors and in doubt the level is unknown."""
    if len(line) > MAX_BYTES:
        return LineVerdict(
            Level.UNKNOWN, (Reason("the line is too long to check", (0, len(line)), "too-big", "unproved"),)
        )
    doubts = _find_deception(line)
    text = line.replace("\0", "").encode("utf-8", "replace").decode() if doubts else line
    span = 0, len(text.encode())
    findings = Findings()
    proof = Proof()
    try:
        parsed = parse(text)
        if not parsed.sound:
            doubts.append(Reason("could not be understood as shell", (0, len(line)), "parse", "unproved"))
        DangerScan(findings).walk(parsed.script, Scope(context))
        if _JOIN.search(text):
            doubts.append(Reason("joins words across lines", (0, len(line)), "joined", "unproved"))
            DangerScan(findings).scan_text(_JOIN.sub("", text), Scope(context), span)
        if _BACKSLASHED.search(text):
            # The grammar treats the quote after two backslashes in $'…' as escaped and reads beyond the end.
            doubts.append(
                Reason("holds quoting that cannot be read for certain", (0, len(line)), "quoting", "unproved")
            )
            DangerScan(findings).scan_text(_ANSI.sub("''", text), Scope(context), span)
        if not parsed.sound and _LEADING_BRACE.search(text):
            DangerScan(findings).scan_text(_LEADING_BRACE.sub(r"\1\2command ", text), Scope(context), span)
        agreement = compare_readings(text, parsed)
        ambiguous = [_doubt_reading(text, agreement, findings, context)] if agreement.doubt else []
        if findings.level is Level.SAFE and not doubts:
            proof = prove(parsed, context)
            doubts = [*ambiguous, *proof.doubts]
        if (doubts or findings.level is not Level.SAFE) and not any(doubt.kind == "secret" for doubt in doubts):
            doubts = [*doubts, *_find_named_secrets(findings)]
    except (TooBig, RecursionError) as exc:
        text = str(exc) if isinstance(exc, TooBig) else "the line is nested too deeply to check"
        doubts.append(Reason(text, (0, len(line)), "too-big", "unproved"))
    return _build_verdict(findings, doubts, text, proof)


def _find_named_secrets(findings: Findings) -> list[Reason]:
    """Returns the secrets that an unproved line names, so that the user is informed."""
    for field, scope in findings.arguments:
        if secret := find_secret(field.text, scope):
            return [Reason(f"names {secret}, which holds a secret", findings.anchor or field.span, "secret", "secret")]
    return []


def _find_deception(line: str) -> list[Reason]:
    if line.isascii() and line.isprintable():
        return []
    match = _DECEPTIVE.search(line)
    if match is None:
        return []
    start = len(line[: match.start()].encode("utf-8", "replace"))
    text = f"holds a character that hides what runs (U+{ord(match[0]):04X})"
    return [Reason(text, (start, start + 1), "deceptive", "unproved")]


def _build_verdict(findings: Findings, doubts: list[Reason], text: str, proof: Proof) -> LineVerdict:
    level = findings.level
    if level is Level.SAFE and doubts:
        level = Level.UNKNOWN
    reasons = sorted([*findings.reasons, *doubts], key=_sort_key)[:_MAX_REASONS]
    writes, reads = findings.writes, proof.reads
    if not text.isascii():
        source = text.encode()
        reasons = [structs.replace(reason, span=_to_characters(source, reason.span)) for reason in reasons]
        writes = [structs.replace(write, span=_to_characters(source, write.span)) for write in writes]
        reads = [structs.replace(read, span=_to_characters(source, read.span)) for read in reads]
    programs = tuple(findings.programs)
    return LineVerdict(level, tuple(reasons), tuple(writes), programs, tuple(reads), tuple(proof.hosts))


def _sort_key(reason: Reason) -> tuple[bool, bool]:
    return not reason.catastrophe, reason.level is not Level.DESTRUCTIVE


def _to_characters(source: bytes, span: tuple[int, int]) -> tuple[int, int]:
    start, end = (len(source[:offset].decode("utf-8", "ignore")) for offset in span)
    return start, end


def _doubt_reading(text: str, agreement: Agreement, findings: Findings, context: ShellContext) -> Reason:
    """Adds what another reading of the line would destroy. Returns why the line cannot be proved."""
    span = (0, len(text.encode()))
    other = Findings()
    try:
        if agreement.plain is not None:
            DangerScan(other).walk(agreement.plain, Scope(context))
        else:
            _scan_possible_scripts(text, other, context)
    except (TooBig, RecursionError):
        pass  # a bound was reached: the line is unknown in any case
    _merge_dangers(other, findings)
    return Reason(agreement.doubt, span, "grammar", "unproved")


def _scan_possible_scripts(text: str, found: Findings, context: ShellContext) -> None:
    for script in possible_scripts(text):
        DangerScan(found).scan_text(script, Scope(context), (0, len(text.encode())))


def _merge_dangers(other: Findings, findings: Findings) -> None:
    """Adds only dangers: doubts about a possibly wrong reading are meaningless."""
    known = {(reason.rule, reason.catastrophe) for reason in findings.reasons}
    for reason in other.reasons:
        if reason.level is Level.DESTRUCTIVE and (reason.rule, reason.catastrophe) not in known:
            findings.add(reason)
    for name in other.programs:
        findings.program(name)
