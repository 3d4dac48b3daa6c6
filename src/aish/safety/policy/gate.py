"""Decides on tools, effects, commands and paths by rules.

Deny beats ask, ask beats allow; without a rule the effect's default verdict applies. A command line is allowed only if
each of its commands is. A line that is proved read-only needs no rule, a rule without a command does not cover a
destructive line, and a catastrophe is always asked about. A tool that would change a start-up file or keys is asked
about unless a rule names the path.

The answer "always" covers exactly what was shown, except that destructive lines, secrets and writes outside the
workspace are asked about again. A tenant's answer counts only for that tenant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from aish.ports import Ask
from aish.safety.commands import Level, ShellContext, classify
from aish.safety.commands.verdict import Verdict as Finding
from aish.safety.path_names import BadPath, relative_path
from aish.safety.policy.always_rules import digest_of, edited, is_current, rule_for_command, rule_for_tool
from aish.safety.policy.disk_check import RealPaths, check_disk
from aish.safety.policy.rules import (
    ANY_WORD,
    Rule,
    Words,
    free_words,
    matches_command,
    matches_effect,
    matches_path,
    matches_tool,
    names_command,
)
from aish.types.decisions import Choice, Decision, EffectRequest, Question, QuestionKind, Verdict
from aish.types.tools import Arguments, Effect, ToolSpec

if TYPE_CHECKING:
    from aish.safety.policy.command_line import CommandLine

SHELL_TOOL = "shell__run"
CAREFUL: Mapping[Effect, Verdict] = {
    Effect.READ: Verdict.ALLOW,
    Effect.WRITE: Verdict.ASK,
    Effect.EXEC: Verdict.ASK,
    Effect.NETWORK: Verdict.ASK,
}
_PHRASES = {
    Effect.READ: "read",
    Effect.WRITE: "change things",
    Effect.EXEC: "run programs",
    Effect.NETWORK: "reach the network",
}
_PATH_ARGUMENTS = frozenset({
    "path", "paths", "file", "files", "file_path", "filename", "uri", "directory", "source", "destination", "target",
})  # fmt: skip
# Removed by the shell: quotes, backslashes, and line continuations.
_QUOTING = re.compile(r"\\\n|[\"'\\]")
# Variables that make programs load a file or library first.
_SETS_START = re.compile(r"(?<!\w)(BASH_ENV|ENV|ZDOTDIR|LD_PRELOAD|LD_AUDIT|DYLD_INSERT_LIBRARIES)\+?=")
_MAX_REASONS = 5
_MAX_OFFERED = 10_000
NO_SANDBOX = (
    "a server with several keys runs commands only inside the sandbox: install bubblewrap and set safety.sandbox to "
    "auto or bwrap"
)


class Judgement(msgspec.Struct, frozen=True):
    """The gate's judgement of one effect. `always` is the rule that a lasting approval would add."""

    verdict: Verdict
    rule: str
    reason: str
    reasons: tuple[str, ...] = ()
    insist: bool = False
    always: Rule | None = None
    like: str = ""  # what an approval for the rest of the turn covers


class PolicyGate:
    def __init__(
        self,
        rules: Sequence[Rule] = (),
        *,
        verdicts: Mapping[Effect, Verdict] = CAREFUL,
        shell: ShellContext,
        where: Callable[[str], str] | None = None,
        remember: Callable[[Rule], None] = lambda rule: None,
        real_paths: RealPaths = lambda read: (),
        confines_tenants: Callable[[], bool] = lambda: False,
    ) -> None:
        """`where` returns the working directory of a turn, for a live shell. `real_paths` finds on disk what a read
        reaches. `confines_tenants` says whether a tenant's commands can reach neither the files of aish nor those
        of other tenants."""
        self._real_paths = real_paths
        self._rules = list(rules)
        self._verdicts = dict(verdicts)
        self._context = shell
        self._where = where
        self._turn = ""  # of the judged call; judging never waits, so calls do not interleave
        self._root = PurePosixPath(shell.roots[0] if shell.roots else shell.cwd)
        self._remember = remember
        self._confines_tenants = confines_tenants
        # Cached by these rules, because it is asked for every tool in every turn.
        self._offered: dict[tuple[str, Effect, bool, str, str], bool] = {}
        self._note_approvals()

    @property
    def _shell(self) -> ShellContext:
        if self._where is None:
            return self._context
        return msgspec.structs.replace(self._context, cwd=self._where(self._turn))

    def is_visible(self, tool: ToolSpec, *, interactive: bool, owner: str = "") -> bool:
        """Whether to offer a tool: not if every call of it would be refused."""
        if self._is_unconfined(tool, owner):
            return False
        owner = owner if owner in self._approvers else ""
        digest = digest_of(tool) if tool.name in self._approved_tools else ""
        key = tool.name, tool.effect, interactive, owner, digest
        offered = self._offered.get(key)
        if offered is None:
            if len(self._offered) >= _MAX_OFFERED:
                self._offered.clear()
            offered = self._offered[key] = self._may_run(tool, owner, interactive=interactive)
        return offered

    def _note_approvals(self) -> None:
        """Updates the owners with rules of their own, and the tools approved in a certain version."""
        self._approvers = {rule.owner for rule in self._rules}
        self._approved_tools = {name for rule in self._rules if rule.digest for name in rule.tools}

    def _is_unconfined(self, tool: ToolSpec, owner: str) -> bool:
        """Whether commands would run as the server's user, who can read data of every tenant."""
        return bool(owner) and tool.name == SHELL_TOOL and not self._confines_tenants()

    def _may_run(self, tool: ToolSpec, owner: str, *, interactive: bool) -> bool:
        judged = self._judge_tool(tool, (), owner)
        if tool.name == SHELL_TOOL and judged.verdict is Verdict.ASK:
            return True  # a line that is proved read-only runs without approval
        return judged.verdict is Verdict.ALLOW or (judged.verdict is Verdict.ASK and interactive)

    async def authorise(self, effect: EffectRequest, ask: Ask | None) -> Decision:
        judged = self.judge(effect.tool, effect.arguments, effect.owner, turn=effect.turn)
        if judged.verdict is not Verdict.ASK:
            return Decision(judged.verdict, judged.rule, judged.reason)
        if ask is None:
            return Decision(Verdict.DENY, judged.rule, f"{judged.reason}, and nobody was there to ask")
        answer = await ask(_question(effect, judged))
        match answer.choice:
            case Choice.NO:
                return Decision(Verdict.DENY, "the user", answer.note or "the user said no")
            case Choice.EDIT:
                return self._edited(effect, answer.arguments)
            case Choice.ALWAYS if judged.always is not None:
                self._add(edited(judged.always, answer.rule), "" if answer.for_all else effect.owner)
            case Choice.YES | Choice.TURN | Choice.ALWAYS:
                pass
        return Decision(Verdict.ALLOW, "the user")

    def _add(self, rule: Rule | None, owner: str) -> None:
        rule = msgspec.structs.replace(rule, owner=owner) if rule is not None else None
        if rule is not None and rule not in self._rules:
            self._remember(rule)
            self._rules.append(rule)
            self._offered.clear()
            self._note_approvals()

    def judge(self, tool: ToolSpec, arguments: Arguments, owner: str = "", *, turn: str = "") -> Judgement:
        self._turn = turn
        if self._is_unconfined(tool, owner):
            return Judgement(Verdict.DENY, "safety.sandbox", NO_SANDBOX)
        if tool.name == SHELL_TOOL and isinstance(command := arguments.get("command"), str):
            return self._judge_command(tool, command, owner)
        return self._judge_tool(tool, _paths_in(tool, arguments, self._root), owner)

    def _edited(self, effect: EffectRequest, arguments: Arguments | None) -> Decision:
        """The user's own edit counts as approved; only a denial overrides it."""
        judged = self.judge(effect.tool, arguments or {}, effect.owner, turn=effect.turn)
        if judged.verdict is Verdict.DENY or arguments is None:
            return Decision(Verdict.DENY, judged.rule, judged.reason or "the edit was empty")
        return Decision(Verdict.ALLOW, "the user", "edited", arguments)

    def _judge_tool(self, tool: ToolSpec, paths: Sequence[str | None], owner: str) -> Judgement:
        about = [rule for rule in self._about(tool, owner) if not (rule.commands or rule.reads)]
        matching = [rule for rule in about if is_current(rule, tool) and _fits_paths(rule, tool, paths)]
        rule = _strictest(matching)
        verdict = rule.verdict if rule else self._verdicts.get(tool.effect, Verdict.DENY)
        is_named = any(rule.paths for rule in matching)
        if verdict is Verdict.ALLOW and not is_named and (path := self._find_secret(tool, paths)):
            return Judgement(Verdict.ASK, "secret", f"{tool.name} would read {path}, which holds a secret")
        if verdict is Verdict.ALLOW and not is_named and (path := self._find_delicate(tool, paths)):
            reason = f"{tool.name} would change {path}, which starts programs or holds keys"
            return Judgement(Verdict.ASK, "destructive", reason)
        if rule:
            return Judgement(verdict, rule.title, rule.why or f"{tool.name}: {rule.title}")
        reason = f"{tool.name} can {_PHRASES[tool.effect]}"
        if lapsed := [rule for rule in about if not is_current(rule, tool)]:
            reason = f"{reason}; {_lapse(tool, lapsed)}"
        return Judgement(verdict, f"gate.{tool.effect}", reason, always=rule_for_tool(tool), like=tool.name)

    def _find_secret(self, tool: ToolSpec, paths: Sequence[str | None]) -> str:
        """Returns a path that a reading tool names and that holds a secret, by its place or name."""
        if tool.effect is not Effect.READ or not any(paths):
            return ""
        from aish.safety.commands.proof.exposure import is_secret
        from aish.safety.commands.scope import Scope

        scope = Scope(self._shell)
        known = (path for path in paths if path)
        return next((path for path in known if is_secret(str(self._root / path), scope)), "")

    def _find_delicate(self, tool: ToolSpec, paths: Sequence[str | None]) -> str:
        """Returns a path of keys or start-up files, which need a rule that names them, as for commands."""
        if tool.effect is Effect.READ or not paths:
            return ""
        from aish.safety.commands.places import Place, place_of
        from aish.safety.commands.scope import Scope

        scope = Scope(self._shell)
        known = (path for path in paths if path is not None)
        places = ((path, place_of(str(self._root / path), scope)) for path in known)
        return next((path for path, place in places if place in (Place.KEYS, Place.STARTUP)), "")

    def _judge_command(self, tool: ToolSpec, command: str, owner: str) -> Judgement:
        from aish.safety.policy.command_line import read_line  # with the parser: loaded for the first command

        shell = msgspec.structs.replace(self._shell, readable=self._readable(tool, owner))
        line, finding = read_line(command, shell), check_disk(classify(command, shell), shell, self._real_paths)
        judged = self._by_rules(tool, command, line, finding, owner) or self._by_finding(tool, line, finding)
        if keeping := [rule for rule in self._about(tool, owner) if rule.paths and rule.verdict is not Verdict.ALLOW]:
            judged = self._by_paths(keeping, command, line, finding, judged)
        reasons = tuple(reason.text for reason in finding.reasons[:_MAX_REASONS])
        return msgspec.structs.replace(judged, reasons=reasons)

    def _readable(self, tool: ToolSpec, owner: str) -> tuple[str, ...]:
        """Returns the folders besides the workspace that rules let commands read."""
        return tuple(folder for rule in self._about(tool, owner) for folder in rule.reads)

    def _by_rules(
        self, tool: ToolSpec, command: str, line: CommandLine, finding: Finding, owner: str
    ) -> Judgement | None:
        """Returns None if the rules do not decide. Rules about paths never allow a command, because it may use other
        paths, too."""
        about = [rule for rule in self._about(tool, owner) if not (rule.paths or rule.reads)]
        for verdict in (Verdict.DENY, Verdict.ASK):
            for rule in about:
                if rule.verdict is verdict and (not rule.commands or _touches(rule, line, finding)):
                    return Judgement(verdict, rule.title, rule.why or f"the rule '{rule.title}' applies")
        if finding.catastrophe:
            return Judgement(Verdict.ASK, "catastrophe", _first_reason(finding), insist=True)
        allowing = [rule for rule in about if rule.verdict is Verdict.ALLOW and rule.commands]
        if (named := self._find_allowing(allowing, line, finding)) is not None:
            return Judgement(Verdict.ALLOW, named.title, "")
        blanket = next((rule for rule in about if rule.verdict is Verdict.ALLOW and not rule.commands), None)
        forbidding = [rule for rule in about if rule.commands and rule.verdict is not Verdict.ALLOW]
        hidden = bool(forbidding) and (not line.is_readable or _SETS_START.search(command) is not None)
        hidden = hidden or any(_may_name(rule, command, line) for rule in forbidding)
        guarded = finding.level is Level.DESTRUCTIVE or _reads_secret(finding)
        if blanket is not None and not guarded and not hidden:
            return Judgement(Verdict.ALLOW, blanket.title, "")
        return None

    def _find_allowing(self, rules: Sequence[Rule], line: CommandLine, finding: Finding) -> Rule | None:
        """Finds rules of the configuration for each command of the line, or a lasting approval of the whole line.
        Destructive lines and secrets are allowed only by rules that name exactly these commands."""
        if not line.is_plain or not line.parts:
            return None
        matches = names_command if _is_grave(finding) else matches_command
        written = [rule for rule in rules if rule.covers == "prefix"]
        named = [next((rule for rule in written if matches(rule, part)), None) for part in line.parts]
        if all(named):
            return named[0]
        if len(line.parts) > 1 or _is_grave(finding) or any(not write.inside for write in finding.writes):
            return None
        return next((rule for rule in rules if rule.covers != "prefix" and self._covers(rule, line.parts[0])), None)

    def _covers(self, rule: Rule, words: Words) -> bool:
        """Whether a lasting approval covers this command: its holes take no path outside the workspace."""
        if rule.covers == "exact":
            return names_command(rule, words)
        fits = (free_words(tuple(text.split()), words) for text in rule.commands)
        return any(all(map(self._is_inside, free)) for free in fits if free is not None)

    def _is_inside(self, path: str) -> bool:
        from aish.safety.commands.places import Place, place_of, resolve
        from aish.safety.commands.proof.exposure import is_secret
        from aish.safety.commands.scope import Scope

        scope = Scope(self._shell)
        absolute = resolve(path, scope)
        return absolute is not None and place_of(absolute, scope) is Place.INSIDE and not is_secret(absolute, scope)

    def _by_paths(
        self, keeping: Sequence[Rule], command: str, line: CommandLine, finding: Finding, judged: Judgement
    ) -> Judgement:
        """Applies rules that protect paths. A command that names such a path falls under them. One that may reach it
        without naming it needs approval, unless a rule is about that very command."""
        from aish.safety.policy.path_reach import named_paths, reads_only_named

        if judged.verdict is Verdict.DENY:
            return judged
        named = named_paths(command, self._shell, str(self._root))
        rule = _strictest(rule for rule in keeping if any(matches_path(rule, path) for path in named))
        if rule is not None and (rule.verdict is Verdict.DENY or judged.verdict is Verdict.ALLOW):
            return Judgement(rule.verdict, rule.title, rule.why or f"the rule '{rule.title}' applies")
        is_ruled = any(rule.commands and rule.title == judged.rule for rule in self._rules)
        if judged.verdict is not Verdict.ALLOW or is_ruled or reads_only_named(line, self._shell):
            return judged
        reason = f"it may reach what the rule '{keeping[0].title}' is about without naming it"
        return Judgement(Verdict.ASK, keeping[0].title, reason, always=self._always(line, finding))

    def _by_finding(self, tool: ToolSpec, line: CommandLine, finding: Finding) -> Judgement:
        verdict = self._verdicts.get(tool.effect, Verdict.DENY)
        if verdict is Verdict.DENY:
            return Judgement(verdict, f"gate.{tool.effect}", "commands are denied by gate.exec")
        if finding.level is Level.SAFE:
            return Judgement(Verdict.ALLOW, "proved read-only", "")
        always = self._always(line, finding)
        if finding.level is Level.DESTRUCTIVE:
            return Judgement(Verdict.ASK, "destructive", _first_reason(finding), always=always)
        if _reads_secret(finding):
            return Judgement(Verdict.ASK, "secret", _secret_reason(finding), always=always)
        if verdict is not Verdict.ALLOW and finding.only("link"):
            return Judgement(Verdict.ASK, "reads outside", _first_reason(finding))
        if verdict is not Verdict.ALLOW and finding.only("outside"):
            return self._by_folders(finding)
        if finding.only("network", "outside") and finding.hosts:
            verdict = _strictest_verdict(verdict, self._verdicts.get(Effect.NETWORK, Verdict.DENY), finding)
            return Judgement(verdict, "gate.network", _first_reason(finding), always=always, like=_title(always))
        like = always.title if always else ""
        return Judgement(verdict, f"gate.{tool.effect}", _first_reason(finding), always=always, like=like)

    def _by_folders(self, finding: Finding) -> Judgement:
        """Asks once for each folder outside the workspace."""
        from aish.safety.commands.proof.exposure import folder_to_grant
        from aish.safety.commands.scope import Scope

        scope = Scope(self._shell)
        outside = [read for read in finding.reads if not read.inside]
        folders = dict.fromkeys(folder_to_grant(read, scope) for read in outside)
        if not all(folders):
            return Judgement(Verdict.ASK, "reads outside", _first_reason(finding))
        rule = Rule(Verdict.ALLOW, name=f"always read {' '.join(folders)}", tools=(SHELL_TOOL,), reads=tuple(folders))
        return Judgement(Verdict.ASK, "reads outside", _first_reason(finding), always=rule, like=rule.title)

    def _about(self, tool: ToolSpec, owner: str) -> list[Rule]:
        rules = (rule for rule in self._rules if not rule.owner or rule.owner == owner)
        return [rule for rule in rules if matches_tool(rule, tool.name) and matches_effect(rule, tool.effect)]

    def _always(self, line: CommandLine, finding: Finding) -> Rule | None:
        """Returns the rule for a lasting approval; None also if it would not be applied."""
        is_one = line.is_plain and len(line.parts) == 1
        if not is_one or _is_grave(finding) or any(not write.inside for write in finding.writes):
            return None
        return rule_for_command(line.parts[0], is_inside=self._is_inside)


def _lapse(tool: ToolSpec, lapsed: Sequence[Rule]) -> str:
    if any(rule.digest for rule in lapsed):
        return f"{tool.name} has changed since you allowed it always"
    return f"{tool.name} was allowed always before aish kept what it was: answer once more"


def _title(rule: Rule | None) -> str:
    return rule.title if rule else ""


def _strictest_verdict(exec_verdict: Verdict, network: Verdict, finding: Finding) -> Verdict:
    """For a line that only contacts other hosts: allowed if all commands are, unless the network is denied."""
    if network is Verdict.DENY:
        return network
    if exec_verdict is Verdict.ALLOW or (network is Verdict.ALLOW and finding.only("network")):
        return Verdict.ALLOW
    return Verdict.ASK


def _strictest(rules: Iterable[Rule]) -> Rule | None:
    order = (Verdict.DENY, Verdict.ASK, Verdict.ALLOW)
    return min(rules, key=lambda rule: order.index(rule.verdict), default=None)


def _reads_secret(finding: Finding) -> bool:
    """A rule for the program does not cover secrets: permission to read one file with `cat` does not mean every key."""
    return any(reason.kind == "secret" for reason in finding.reasons)


def _secret_reason(finding: Finding) -> str:
    return next(reason.text for reason in finding.reasons if reason.kind == "secret")


def _is_grave(finding: Finding) -> bool:
    return finding.level is Level.DESTRUCTIVE or _reads_secret(finding)


def _touches(rule: Rule, line: CommandLine, finding: Finding) -> bool:
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
    return any(_stand_in(prefix.split(), text) for prefix in rule.commands for text in texts)


def _stand_in(words: Sequence[str], text: str) -> bool:
    names = [word.rpartition("/")[2] or word for word in words if word != ANY_WORD]
    return all(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for name in names)


def _by_basename(words: Words) -> Words:
    return (words[0].rpartition("/")[2], *words[1:]) if words and words[0] else words


def _fits_paths(rule: Rule, tool: ToolSpec, paths: Sequence[str | None]) -> bool:
    """An allowing rule must cover every path; other rules apply if one path matches. None is an unknown path."""
    if not rule.paths:
        return True
    if rule.verdict is Verdict.ALLOW:
        if tool.beyond:
            return False
        inside = [path for path in paths if path is not None and not path.startswith("/")]
        return bool(paths) and len(inside) == len(paths) and all(matches_path(rule, path) for path in inside)
    return any(path is None or matches_path(rule, path.lstrip("/")) for path in paths)


def _paths_in(tool: ToolSpec, arguments: Arguments, root: PurePosixPath) -> list[str | None]:
    """Returns every text that names a file, or may: relative below the root, else absolute, or None if unknown."""
    return [_below(text, root) for name, text in _texts(arguments) if _may_be_path(tool, name, text)]


def _may_be_path(tool: ToolSpec, name: str, text: str) -> bool:
    if tool.paths:
        return name in tool.paths
    return name in _PATH_ARGUMENTS or "/" in text or text[:1] == "."


def _texts(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, str(key))
    elif isinstance(value, Sequence):
        for item in value:
            yield from _texts(item, name)


def _below(text: str, root: PurePosixPath) -> str | None:
    try:
        return str(relative_path(text, root))
    except BadPath:
        return text if text.startswith("/") and ".." not in text.split("/") else None


def _first_reason(finding: Finding) -> str:
    return finding.reasons[0].text if finding.reasons else "it could not be proved to be harmless"


def _question(effect: EffectRequest, judged: Judgement) -> Question:
    return Question(
        call=effect.call,
        kind=QuestionKind.EFFECT,
        tool=effect.tool.name,
        effect=effect.tool.effect,
        arguments=effect.arguments,
        reason=judged.reason,
        reasons=judged.reasons,
        insist=judged.insist,
        always=judged.always.title if judged.always else "",
        like=judged.like,
        rule=judged.rule,
        schema=effect.tool.schema,
        owner=effect.owner,
        turn=effect.turn,
    )
