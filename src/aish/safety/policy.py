"""The gate's judgement: rules as data, over tools, effects, commands and paths.

Deny beats ask beats allow; where no rule speaks, the effect's own verdict does. A command line is judged by its parts
(it is allowed only if each part is) and by what the classifier proves: a line proved read-only needs no rule, a
destructive one is not covered by a rule that names no command, and a catastrophe is asked about whatever the rules say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from aish.ports import Ask
from aish.safety.always import rule_for_command, rule_for_tool
from aish.safety.commands import Level, ShellContext, classify
from aish.safety.commands.verdict import Verdict as Finding
from aish.safety.lines import CommandLine, read_line
from aish.safety.rules import Rule, matches_command, matches_effect, matches_path, matches_tool
from aish.types.decisions import Choice, Decision, EffectRequest, Question, QuestionKind, Verdict
from aish.types.tools import Arguments, Effect, ToolSpec

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
_PATH_ARGUMENTS = ("path", "file", "file_path", "filename", "uri", "directory", "source", "destination")
_MAX_REASONS = 5


class Judgement(msgspec.Struct, frozen=True):
    """What the policy says of one effect, and why. `always` is the rule that a lasting yes would add."""

    verdict: Verdict
    rule: str
    reason: str
    reasons: tuple[str, ...] = ()
    insist: bool = False
    always: Rule | None = None


class PolicyGate:
    def __init__(
        self,
        rules: Sequence[Rule] = (),
        *,
        verdicts: Mapping[Effect, Verdict] = CAREFUL,
        shell: ShellContext,
        remember: Callable[[Rule], None] = lambda rule: None,
    ) -> None:
        self._rules = list(rules)
        self._verdicts = dict(verdicts)
        self._shell = shell
        self._remember = remember

    def offers(self, tool: ToolSpec, *, interactive: bool) -> bool:
        """Not where every call of it would be refused."""
        judged = self._judge_tool(tool, ())
        if tool.name == SHELL_TOOL and judged.verdict is Verdict.ASK:
            return True  # a line that is proved read-only runs without anybody's consent
        return judged.verdict is Verdict.ALLOW or (judged.verdict is Verdict.ASK and interactive)

    async def authorise(self, effect: EffectRequest, ask: Ask | None) -> Decision:
        judged = self.judge(effect.tool, effect.arguments)
        if judged.verdict is not Verdict.ASK:
            return Decision(judged.verdict, judged.rule, judged.reason)
        if ask is None:
            return Decision(Verdict.DENY, judged.rule, f"{judged.reason}, and nobody was there to ask")
        answer = await ask(_question(effect, judged))
        match answer.choice:
            case Choice.NO:
                return Decision(Verdict.DENY, "the user", answer.note or "the user said no")
            case Choice.EDIT:
                return self._edited(effect.tool, answer.arguments)
            case Choice.ALWAYS if judged.always is not None:
                self._rules.append(judged.always)
                self._remember(judged.always)
            case Choice.YES | Choice.TURN | Choice.ALWAYS:
                pass
        return Decision(Verdict.ALLOW, "the user")

    def judge(self, tool: ToolSpec, arguments: Arguments) -> Judgement:
        if tool.name == SHELL_TOOL and isinstance(command := arguments.get("command"), str):
            return self._judge_command(tool, command)
        return self._judge_tool(tool, _paths_in(arguments))

    def _edited(self, tool: ToolSpec, arguments: Arguments | None) -> Decision:
        """What the person wrote themselves they have also agreed to; only a denial stands above it."""
        judged = self.judge(tool, arguments or {})
        if judged.verdict is Verdict.DENY or arguments is None:
            return Decision(Verdict.DENY, judged.rule, judged.reason or "the edit was empty")
        return Decision(Verdict.ALLOW, "the user", "edited", arguments)

    def _judge_tool(self, tool: ToolSpec, paths: Sequence[str]) -> Judgement:
        matching = [rule for rule in self._about(tool) if not rule.commands and _fits_paths(rule, paths)]
        if rule := _strictest(matching):
            return Judgement(
                rule.verdict, rule.title, rule.why or f"{tool.name}: {rule.title}", always=rule_for_tool(tool)
            )
        verdict = self._verdicts.get(tool.effect, Verdict.DENY)
        reason = f"{tool.name} can {_PHRASES[tool.effect]}"
        return Judgement(verdict, f"gate.{tool.effect}", reason, always=rule_for_tool(tool))

    def _judge_command(self, tool: ToolSpec, command: str) -> Judgement:
        line, finding = read_line(command, self._shell), classify(command, self._shell)
        reasons = tuple(reason.text for reason in finding.reasons[:_MAX_REASONS])
        always = rule_for_command(line.parts[0]) if line.is_plain and len(line.parts) == 1 else None
        judged = self._by_rules(tool, line, finding) or self._by_finding(tool, finding)
        return msgspec.structs.replace(judged, reasons=reasons, always=always)

    def _by_rules(self, tool: ToolSpec, line: CommandLine, finding: Finding) -> Judgement | None:
        """None where the rules leave it open."""
        about = self._about(tool)
        touching = [rule for rule in about if not rule.commands or any(matches_command(rule, p) for p in line.parts)]
        for verdict in (Verdict.DENY, Verdict.ASK):
            if rule := next((rule for rule in touching if rule.verdict is verdict), None):
                return Judgement(verdict, rule.title, rule.why or f"the rule '{rule.title}' applies")
        if finding.catastrophe:
            return Judgement(Verdict.ASK, "catastrophe", _first_reason(finding), insist=True)
        allowing = [rule for rule in about if rule.verdict is Verdict.ALLOW and rule.commands]
        if line.is_plain and line.parts and all(any(matches_command(r, p) for r in allowing) for p in line.parts):
            named = next(rule for rule in allowing if matches_command(rule, line.parts[0]))
            return Judgement(Verdict.ALLOW, named.title, "")
        blanket = next((rule for rule in touching if rule.verdict is Verdict.ALLOW and not rule.commands), None)
        if blanket is not None and finding.level is not Level.DESTRUCTIVE:
            return Judgement(Verdict.ALLOW, blanket.title, "")
        return None

    def _by_finding(self, tool: ToolSpec, finding: Finding) -> Judgement:
        verdict = self._verdicts.get(tool.effect, Verdict.DENY)
        if verdict is Verdict.DENY:
            return Judgement(verdict, f"gate.{tool.effect}", "commands are denied by gate.exec")
        if finding.level is Level.SAFE:
            return Judgement(Verdict.ALLOW, "proved read-only", "")
        if finding.level is Level.DESTRUCTIVE:
            return Judgement(Verdict.ASK, "destructive", _first_reason(finding))
        return Judgement(verdict, f"gate.{tool.effect}", _first_reason(finding))

    def _about(self, tool: ToolSpec) -> list[Rule]:
        return [rule for rule in self._rules if matches_tool(rule, tool.name) and matches_effect(rule, tool.effect)]


def _strictest(rules: Iterable[Rule]) -> Rule | None:
    order = (Verdict.DENY, Verdict.ASK, Verdict.ALLOW)
    return min(rules, key=lambda rule: order.index(rule.verdict), default=None)


def _fits_paths(rule: Rule, paths: Sequence[str]) -> bool:
    """An allowing rule must cover every path, any other is touched by one."""
    if not rule.paths:
        return True
    fits = [matches_path(rule, path) for path in paths]
    return bool(fits) and (all(fits) if rule.verdict is Verdict.ALLOW else any(fits))


def _paths_in(arguments: Arguments) -> list[str]:
    return [value for name, value in arguments.items() if name in _PATH_ARGUMENTS and isinstance(value, str)]


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
    )
