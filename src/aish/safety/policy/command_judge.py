"""Judges command lines: by rules, then by what the classifier proves, then by rules that protect paths.

A line is allowed only if each of its commands is. A line that is proved read-only needs no rule, a rule without a
command does not cover a destructive line, and a catastrophe is always asked about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import msgspec

from aish.safety.commands import Level, LineVerdict, Reason, ShellContext, classify
from aish.safety.commands.bounds import TooBig
from aish.safety.commands.path_kinds import PathKind, absolute_path, is_inside, is_under, kind_of_path
from aish.safety.commands.proof.exposure import Exposure, classify_read, find_folder_to_grant, is_secret
from aish.safety.commands.shell_state import Scope
from aish.safety.commands.verdict import Read
from aish.safety.policy.always_rules import make_command_rule
from aish.safety.policy.command_line import CommandLine, read_command_line
from aish.safety.policy.judgement import JudgedCall, Judgement, Nature, RealPaths, find_strictest
from aish.safety.policy.path_reach import find_named_paths, reads_only_named
from aish.safety.policy.rules import (
    ANY_WORD,
    SHELL_TOOL,
    CommandWords,
    Rule,
    free_words,
    matches_command,
    matches_path,
    names_command,
)
from aish.safety.policy.visible_losses import hides_effects
from aish.types.decisions import PROVED_RULE, Danger, Verdict
from aish.types.tools import Effect

# Removed by the shell: quotes, backslashes, and line continuations.
_QUOTING = re.compile(r"\\\n|[\"'\\]")
# Variables that make programs load a file or library first.
_SETS_START = re.compile(r"(?<!\w)(BASH_ENV|ENV|ZDOTDIR|LD_PRELOAD|LD_AUDIT|DYLD_INSERT_LIBRARIES)\+?=")
_MAX_REASONS = 5
_DIRECTORY_CHANGES = frozenset({"cd", "pushd"})
# What a yes for the turn or the session covers, in words.
LIKE_COMMANDS = "all commands like this that stay in the project"


def judge_command(case: JudgedCall, command: str) -> Judgement:
    # The folders besides the workspace that rules let commands read.
    readable = tuple(folder for rule in case.rules for folder in rule.reads)
    shell = msgspec.structs.replace(case.shell, readable=readable)
    line = read_command_line(command, shell)
    finding = _check_programs(case, _check_disk(classify(command, shell), shell, case.real_paths))
    judged = _judge_by_rules(case, command, line, finding) or _judge_by_finding(case, line, finding)
    if protecting := [rule for rule in case.rules if rule.paths and rule.verdict is not Verdict.ALLOW]:
        judged = _judge_by_paths(case, protecting, command, line, finding, judged)
    reasons = tuple(reason.text for reason in finding.reasons[:_MAX_REASONS])
    nature = Nature.READ if finding.level is Level.SAFE else Nature.COMMAND
    return msgspec.structs.replace(judged, reasons=reasons, nature=nature, danger=_danger_of(finding), finding=finding)


def _danger_of(finding: LineVerdict) -> Danger:
    if finding.catastrophe:
        return Danger.CATASTROPHE
    return Danger.DESTRUCTIVE if finding.level is Level.DESTRUCTIVE else Danger.NONE


# Where the files of a proved line really are. A proof is about names; links and wildcards may lead elsewhere.


def _check_disk(finding: LineVerdict, shell: ShellContext, real_paths: RealPaths) -> LineVerdict:
    """Returns the verdict, or an unknown one with the reason."""
    if finding.level is not Level.SAFE:
        return finding
    for read in finding.reads:
        reason = _find_disk_reason(read, shell, real_paths)
        if reason is not None:
            return msgspec.structs.replace(finding, level=Level.UNKNOWN, reasons=(reason,))
    return finding


def _check_programs(case: JudgedCall, finding: LineVerdict) -> LineVerdict:
    """A name that the proof knows may mean another program, if PATH finds one in the workspace."""
    if finding.level is not Level.SAFE:
        return finding
    for name in finding.programs:
        if own := case.find_own_program(name, case.shell.cwd):
            reason = Reason(f"{name} is a program of the workspace here: {own}", (0, 0), "own-program", "unproved")
            return msgspec.structs.replace(finding, level=Level.UNKNOWN, reasons=(reason,))
    return finding


def _find_disk_reason(read: Read, shell: ShellContext, real_paths: RealPaths) -> Reason | None:
    scope = Scope(shell)
    # Names below a folder are harmless, if no link there is followed. Those behind a link to the folder itself count.
    looked_at = read if read.follows or not read.names_only else msgspec.structs.replace(read, deep=False)
    try:
        for path in real_paths(looked_at):
            exposure = classify_read(
                path, scope, deep=read.deep and read.names_only, names_only=read.names_only, glob=False
            )
            if exposure is Exposure.SECRET:
                return Reason(f"reads {path}, which holds a secret", read.span, "secret", "secret")
            if exposure is Exposure.OUTSIDE:
                return Reason(f"reads {path} through a link, outside the workspace", read.span, "link", "link")
    except TooBig as exc:
        return Reason(f"reads {read.path}: {exc}", read.span, "link", "link")
    return None


# Rules about commands.


def _judge_by_rules(case: JudgedCall, command: str, line: CommandLine, finding: LineVerdict) -> Judgement | None:
    """Returns None if the rules do not decide. Rules about paths never allow a command, because it may use other
    paths, too."""
    about = [rule for rule in case.rules if not (rule.paths or rule.reads)]
    for verdict in (Verdict.DENY, Verdict.ASK):
        for rule in about:
            if rule.verdict is verdict and (not rule.commands or _touches(rule, line, finding)):
                return Judgement(verdict, rule.title, rule.why or f"the rule '{rule.title}' applies")
    if finding.catastrophe:
        return Judgement(Verdict.ASK, "catastrophe", _first_reason(finding), insist=True)
    allowing = [rule for rule in about if rule.verdict is Verdict.ALLOW and rule.commands]
    if (named := _find_allowing(case, allowing, line, finding)) is not None:
        return Judgement(Verdict.ALLOW, named.title, "")
    blanket = next((rule for rule in about if rule.verdict is Verdict.ALLOW and not rule.commands), None)
    forbidding = [rule for rule in about if rule.commands and rule.verdict is not Verdict.ALLOW]
    hidden = bool(forbidding) and (not line.is_readable or _SETS_START.search(command) is not None)
    hidden = hidden or any(_may_name(rule, command, line) for rule in forbidding)
    if blanket is not None and not _is_grave(finding) and not hidden:
        return Judgement(Verdict.ALLOW, blanket.title, "")
    return None


def _find_allowing(case: JudgedCall, rules: Sequence[Rule], line: CommandLine, finding: LineVerdict) -> Rule | None:
    """Finds rules of the configuration for each command of the line, or a lasting approval of the whole line.

    Destructive lines and secrets are allowed only by rules that name exactly these commands.
    """
    if not line.is_plain or not line.parts:
        return None
    matches = names_command if _is_grave(finding) else matches_command
    written = [rule for rule in rules if rule.covers == "prefix"]
    named = [next((rule for rule in written if matches(rule, part)), None) for part in line.parts]
    if all(named):
        return named[0]
    if len(line.parts) > 1 or _is_grave(finding) or any(not write.inside for write in finding.writes):
        return None
    return next((rule for rule in rules if rule.covers != "prefix" and _covers(case, rule, line.parts[0])), None)


def _covers(case: JudgedCall, rule: Rule, words: CommandWords) -> bool:
    """Whether a lasting approval covers this command: it was given here or above, and its holes take no path outside
    the workspace."""
    if not _is_in_workspace(case) or (rule.folder and not is_under(case.shell.cwd, rule.folder)):
        return False
    if rule.covers in ("exact", "quoted"):
        return names_command(rule, words)
    fits = (free_words(tuple(text.split()), words) for text in rule.commands)
    return any(all(_is_inside(case, path) for path in free) for free in fits if free is not None)


def _is_in_workspace(case: JudgedCall) -> bool:
    """Whether the command runs in the workspace. Elsewhere the same words run what others may have put there."""
    return is_inside(case.shell.cwd, Scope(case.shell))


def _is_inside(case: JudgedCall, path: str) -> bool:
    """Whether a path, and what it leads to if it is a link, is in the workspace and no secret."""
    scope = Scope(case.shell)
    absolute = absolute_path(path, scope)
    return absolute is not None and all(
        kind_of_path(place, scope) is PathKind.INSIDE and not is_secret(place, scope)
        for place in case.places_of(absolute)
    )


def _touches(rule: Rule, line: CommandLine, finding: LineVerdict) -> bool:
    """For rules that forbid: the command may be anywhere, also behind a wrapper, a path or its own options."""
    parts = (*line.parts, *line.possible)
    if any(matches_command(rule, _by_basename(words)) for words in parts):
        return True
    words = {word for part in parts for field in part if field for word in field.split()}
    for prefix in rule.commands:
        program, *rest = prefix.split() or [""]
        if program in finding.programs and all(word in words or word == ANY_WORD for word in rest):
            return True
    return False


def _may_name(rule: Rule, command: str, line: CommandLine) -> bool:
    """Whether the words of a forbidden command occur anywhere in the line, also in a text, because bash and other
    programs may run text in too many ways to list."""
    read = " ".join(word for part in line.parts for word in part if word)
    texts = (command, _QUOTING.sub("", command), read)
    return any(_occur_in(prefix.split(), text) for prefix in rule.commands for text in texts)


def _occur_in(words: Sequence[str], text: str) -> bool:
    names = [word.rpartition("/")[2] or word for word in words if word != ANY_WORD]
    return all(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for name in names)


def _by_basename(words: CommandWords) -> CommandWords:
    return (words[0].rpartition("/")[2], *words[1:]) if words and words[0] else words


# Rules that protect paths.


def _judge_by_paths(
    case: JudgedCall,
    protecting: Sequence[Rule],
    command: str,
    line: CommandLine,
    finding: LineVerdict,
    judged: Judgement,
) -> Judgement:
    """A command that names a protected path falls under the path's rule. One that may reach it without naming it needs
    approval, unless a rule is about that very command."""
    if judged.verdict is Verdict.DENY:
        return judged
    named = find_named_paths(command, case.shell, str(case.root))
    rule = find_strictest(rule for rule in protecting if any(matches_path(rule, path) for path in named))
    if rule is not None and (rule.verdict is Verdict.DENY or judged.verdict is Verdict.ALLOW):
        return Judgement(rule.verdict, rule.title, rule.why or f"the rule '{rule.title}' applies")
    is_ruled = any(rule.commands and rule.title == judged.rule for rule in case.rules)
    if judged.verdict is not Verdict.ALLOW or is_ruled or reads_only_named(line, case.shell):
        return judged
    reason = f"it may reach what the rule '{protecting[0].title}' is about without naming it"
    return Judgement(Verdict.ASK, protecting[0].title, reason, always=_make_always(case, line, finding))


# The classifier's verdict, if the rules do not decide.


def _judge_by_finding(case: JudgedCall, line: CommandLine, finding: LineVerdict) -> Judgement:
    verdict = case.default
    if verdict is Verdict.DENY:
        return Judgement(verdict, f"gate.{case.tool.effect}", "commands are denied by gate.exec")
    if finding.level is Level.SAFE:
        return Judgement(Verdict.ALLOW, PROVED_RULE, "")
    always = _make_always(case, line, finding)
    if finding.level is Level.DESTRUCTIVE:
        return Judgement(Verdict.ASK, "destructive", _first_reason(finding), always=always)
    if _reads_secret(finding):
        return Judgement(Verdict.ASK, "secret", _secret_reason(finding), always=always)
    if verdict is not Verdict.ALLOW and finding.only("link"):
        return Judgement(Verdict.ASK, "reads outside", _first_reason(finding))
    if verdict is not Verdict.ALLOW and finding.only("outside"):
        return _judge_outside_folders(case, finding)
    if finding.only("network", "outside") and finding.hosts:
        verdict = _network_verdict(verdict, case.verdicts.get(Effect.NETWORK, Verdict.DENY), finding)
        return Judgement(verdict, "gate.network", _first_reason(finding), always=always)
    like = LIKE_COMMANDS if _stays_inside(case, line, finding) else ""
    reason = _first_reason(finding)
    return Judgement(verdict, f"gate.{case.tool.effect}", reason, always=always, like=like, is_default=True)


def _stays_inside(case: JudgedCall, line: CommandLine, finding: LineVerdict) -> bool:
    """As far as can be told. A file that is written may be a link to another place."""
    written = (place for write in finding.writes for place in case.places_of(write.path))
    return _has_no_way_out(line, finding, case.shell) and all(is_inside(place, Scope(case.shell)) for place in written)


def _judge_outside_folders(case: JudgedCall, finding: LineVerdict) -> Judgement:
    """Asks once for each folder outside the workspace."""
    scope = Scope(case.shell)
    outside = [read for read in finding.reads if not read.inside]
    folders = dict.fromkeys(find_folder_to_grant(read, scope) for read in outside)
    if not all(folders):
        return Judgement(Verdict.ASK, "reads outside", _first_reason(finding))
    rule = Rule(Verdict.ALLOW, name=f"always read {' '.join(folders)}", tools=(SHELL_TOOL,), reads=tuple(folders))
    return Judgement(
        Verdict.ASK,
        "reads outside",
        _first_reason(finding),
        always=rule,
        like=f"all commands that read {' '.join(folders)}",
    )


def _make_always(case: JudgedCall, line: CommandLine, finding: LineVerdict) -> Rule | None:
    """Returns the rule for a lasting approval; None also if it would not be applied."""
    return _make_rule(case, line, finding) if _is_in_workspace(case) else None


def _make_rule(case: JudgedCall, line: CommandLine, finding: LineVerdict) -> Rule | None:
    is_one = line.is_plain and len(line.parts) == 1
    if not is_one or _is_grave(finding) or any(not write.inside for write in finding.writes):
        return None
    return make_command_rule(line.parts[0], folder=case.shell.cwd, is_inside=lambda path: _is_inside(case, path))


def _network_verdict(exec_verdict: Verdict, network: Verdict, finding: LineVerdict) -> Verdict:
    """For a line that only contacts other hosts: allowed if all commands are, unless the network is denied."""
    if network is Verdict.DENY:
        return network
    if exec_verdict is Verdict.ALLOW or (network is Verdict.ALLOW and finding.only("network")):
        return Verdict.ALLOW
    return Verdict.ASK


def _reads_secret(finding: LineVerdict) -> bool:
    """A rule for the program does not cover secrets: permission to read one file with `cat` does not mean every key."""
    return any(reason.kind == "secret" for reason in finding.reasons)


def _secret_reason(finding: LineVerdict) -> str:
    return next(reason.text for reason in finding.reasons if reason.kind == "secret")


def _is_grave(finding: LineVerdict) -> bool:
    return finding.level is Level.DESTRUCTIVE or _reads_secret(finding)


def _first_reason(finding: LineVerdict) -> str:
    return finding.reasons[0].text if finding.reasons else "it could not be proved to be harmless"


# Which commands a yes for all commands covers. A program that is not known may do anything, so this is no proof.


def _has_no_way_out(line: CommandLine, found: LineVerdict, shell: ShellContext) -> bool:
    """Whether an unproved line loses nothing and stays in the workspace, as far as can be told. What it writes there
    may change: that is what the user allows."""
    scope = Scope(shell)
    if found.level is not Level.UNKNOWN or not line.is_readable or not is_inside(shell.cwd, scope):
        return False
    if any(map(hides_effects, found.reasons)):
        return False
    if any(not write.inside for write in found.writes):
        return False
    parts = (*line.parts, *line.possible)
    written = (*found.programs, *(part[0] or "" for part in parts))
    names = {name.rpartition("/")[2] for name in written}
    return names.isdisjoint(_outgoing_programs()) and not any(_leads_out(part, scope) for part in parts)


def _leads_out(words: CommandWords, scope: Scope) -> bool:
    """Whether the words send another machine something, or name a place outside the workspace."""
    known = [word or "" for word in words]
    program = known[0].rpartition("/")[2]
    if any(program == begin[0] and all(word in known for word in begin[1:]) for begin in _outgoing_uses()):
        return True
    if program in _DIRECTORY_CHANGES and len(words) > 1 and words[1] is None:
        return True
    return any(_is_outside(text, scope) for word in known for text in (word, word.rpartition("=")[2]))


def _is_outside(text: str, scope: Scope) -> bool:
    if "://" in text:
        return True
    if not (text.startswith(("/", "~")) or ".." in text.split("/")):
        return False
    path = absolute_path(text, scope)
    return path is None or not (is_inside(path, scope) or path.startswith("/dev/"))


@cache
def _outgoing() -> tuple[tuple[str, ...], ...]:
    import tomllib  # with the first question, not with the first prompt
    from importlib import resources

    raw = tomllib.loads(resources.files("aish.safety.policy").joinpath("always.toml").read_text("utf-8"))
    return tuple(tuple(line.split()) for line in raw["outgoing"]["begins"].split("\n") if line.strip())


@cache
def _outgoing_programs() -> frozenset[str]:
    return frozenset(begin[0] for begin in _outgoing() if len(begin) == 1)


@cache
def _outgoing_uses() -> tuple[tuple[str, ...], ...]:
    return tuple(begin for begin in _outgoing() if len(begin) > 1)
