"""Decides whether effects may happen, and keeps lasting approvals. `engine/tools/authorisation.py` acts on it.

Deny beats ask, ask beats allow; without a rule the effect's default verdict applies. Command lines are judged by
`command_judge`, all other tools by `tool_judge`. A tool that would change a start-up file or keys is asked about unless
a rule names the path.

The answer "always" covers exactly what was shown, except that destructive lines, secrets and writes outside the
workspace are asked about again. A tenant's answer counts only for that tenant.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

from aish.ports import Ask
from aish.safety.commands import PathChange, ShellContext
from aish.safety.policy.always_rules import edit_rule, tool_digest
from aish.safety.policy.judgement import CAREFUL, JudgedCall, Judgement, Nature, RealPaths
from aish.safety.policy.modes import apply_mode, needs_sandbox, strictest
from aish.safety.policy.rules import OUTSIDE_SANDBOX, SHELL_TOOL, Rule, matches_effect, matches_tool
from aish.safety.policy.tool_judge import find_named_files, judge_tool
from aish.safety.policy.visible_losses import NO_SANDBOX_STATE, SandboxState, find_visible_loss
from aish.types.decisions import (
    AUTONOMOUS_RULE,
    Choice,
    Decision,
    EffectRequest,
    Mode,
    Question,
    QuestionKind,
    Verdict,
)
from aish.types.tools import Arguments, Effect, ToolSpec

_MAX_OFFERED = 10_000
_MAX_SESSIONS = 1000  # the oldest are asked again
_MAX_KINDS = 100

_Kind = tuple[str, str]
NO_SANDBOX = (
    "a server with several keys runs commands only inside the sandbox: install bubblewrap and set safety.sandbox to "
    "auto or bwrap"
)


class _SessionApprovals:
    """Yes for a session: which kinds of calls the user has allowed until aish ends. Bounded.

    A kind never covers what is destructive, reads secrets, writes outside the workspace or uses the network: the judges
    name no kind for such a call.
    """

    def __init__(self) -> None:
        self._kinds: OrderedDict[tuple[str, str], set[_Kind]] = OrderedDict()

    def add(self, effect: EffectRequest, like: str) -> None:
        """Does nothing for a call of no session, or of no kind."""
        if not effect.session or not like:
            return
        kinds = self._kinds.setdefault((effect.owner, effect.session), set())
        self._kinds.move_to_end((effect.owner, effect.session))
        if len(kinds) < _MAX_KINDS:
            kinds.add(_kind(effect, like))
        while len(self._kinds) > _MAX_SESSIONS:
            self._kinds.popitem(last=False)

    def covers(self, effect: EffectRequest, like: str) -> bool:
        if not self._kinds or not like:
            return False
        return _kind(effect, like) in self._kinds.get((effect.owner, effect.session), ())


def _kind(effect: EffectRequest, like: str) -> _Kind:
    """A tool of a server counts in its present form only."""
    return like, tool_digest(effect.tool)


def _judge_outside(judged: Judgement, owner: str) -> Judgement:
    """A command that wants to run outside of the sandbox is always a question of its own: no rule, no mode and no
    earlier yes was meant for that. A tenant's cannot."""
    if owner or judged.verdict is Verdict.DENY:
        return judged if judged.verdict is Verdict.DENY else Judgement(Verdict.DENY, "safety.sandbox", NO_SANDBOX)
    reason = "it wants to run outside of the sandbox"
    return msgspec.structs.replace(
        judged,
        verdict=Verdict.ASK,
        rule="outside of the sandbox",
        reason=f"{reason}; {judged.reason}" if judged.reason else reason,
        always=None,
        like="",
        nature=Nature.COMMAND,
        is_default=False,
    )


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
        find_own_program: Callable[[str, str], str] = lambda name, cwd: "",
        confines_tenants: Callable[[], bool] = lambda: False,
        mode: Mode = Mode.ASK,
        sandbox: SandboxState = NO_SANDBOX_STATE,
        count_loss: Callable[[Sequence[str]], Awaitable[str]] | None = None,
    ) -> None:
        """`where` returns the working directory of a turn, for a live shell. `real_paths` finds on disk what a read
        reaches, `find_own_program` the program of the workspace that a name means in a directory. `confines_tenants`
        says whether a tenant's commands can reach neither the files of aish nor those of other tenants. `mode` is that
        of requests which name none; those of tenants are asked about. `count_loss` describes what the removal of paths
        loses on disk."""
        self._mode = mode
        self._count_loss = count_loss
        self._sandbox = sandbox
        self._approved = _SessionApprovals()
        self._real_paths = real_paths
        self._find_own_program = find_own_program
        self._rules = list(rules)
        self._verdicts = dict(verdicts)
        self._context = msgspec.structs.replace(shell, roots=shell.roots or (shell.cwd,))
        self._where = where
        self._root = PurePosixPath(self._context.roots[0])
        self._remember = remember
        self._confines_tenants = confines_tenants
        # Cached by these rules, because it is asked for every tool in every turn.
        self._offered: dict[tuple[str, Effect, bool, str, str], bool] = {}
        self._note_approvals()

    def is_visible(self, tool: ToolSpec, *, interactive: bool, owner: str = "", mode: Mode | None = None) -> bool:
        """Whether to offer a tool: not if every call of it would be refused. In plan mode all are offered that would be
        without it, so that the list of tools stays the same when the plan is worked off."""
        if self._is_unconfined(tool, owner):
            return False
        if tool.undoable and not interactive and self._runs_edits(mode, owner):
            interactive = True
        owner = owner if owner in self._approvers else ""
        digest = tool_digest(tool) if tool.name in self._approved_tools else ""
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
        judged = judge_tool(self._case(tool, owner, turn=""))
        if tool.name == SHELL_TOOL and judged.verdict is Verdict.ASK:
            return True  # a line that is proved read-only runs without approval
        return judged.verdict is Verdict.ALLOW or (judged.verdict is Verdict.ASK and interactive)

    def _runs_edits(self, mode: Mode | None, owner: str) -> bool:
        return self._mode_of(mode, owner) in (Mode.EDITS, Mode.AUTO)

    def _mode_of(self, mode: Mode | None, owner: str) -> Mode:
        if mode is not None:
            return mode
        return strictest(self._mode, Mode.ASK) if owner else self._mode

    async def authorise(self, effect: EffectRequest, ask: Ask | None) -> Decision:
        judged = await self._judge_in_mode(effect)
        if judged.verdict is not Verdict.ASK:
            return Decision(judged.verdict, judged.rule, judged.reason)
        if self._approved.covers(effect, judged.like):
            return Decision(Verdict.ALLOW, "the session")
        if ask is None:
            return Decision(Verdict.DENY, judged.rule, f"{judged.reason}, and there was no user to ask")
        question = self._make_question(effect, judged)
        if loss := await self._find_loss(judged):
            question = msgspec.structs.replace(question, loss=loss)
        answer = await ask(question)
        match answer.choice:
            case Choice.NO:
                return Decision(Verdict.DENY, "the user", answer.note or "the user said no")
            case Choice.EDIT:
                return self._allow_edited(effect, answer.arguments)
            case Choice.ALWAYS if judged.always is not None:
                self._add_rule(edit_rule(judged.always, answer.rule), "" if answer.for_all else effect.owner)
            case Choice.SESSION:
                self._approved.add(effect, judged.like)
            case Choice.YES | Choice.STEP | Choice.TURN | Choice.ALWAYS:
                pass
        return Decision(Verdict.ALLOW, AUTONOMOUS_RULE if answer.is_automatic else "the user")

    async def _judge_in_mode(self, effect: EffectRequest) -> Judgement:
        judged = self.judge(effect.tool, effect.arguments, effect.owner, turn=effect.turn)
        mode = self._mode_of(effect.mode, effect.owner)
        if mode is Mode.ASK or judged.verdict is Verdict.DENY:
            return judged
        is_held = needs_sandbox(judged, mode) and await self._is_held(judged)
        return apply_mode(judged, mode, is_held=is_held)

    async def _is_held(self, judged: Judgement) -> bool:
        """Whether the command visibly loses nothing, and the sandbox holds the rest."""
        if judged.finding is None or find_visible_loss(judged.finding, self._sandbox.is_new):
            return False
        return await self._sandbox.is_active()

    async def _find_loss(self, judged: Judgement) -> str:
        """What a command removes, counted on the disk; "" if that is unknown."""
        writes = judged.finding.writes if judged.finding is not None else ()
        removed = [write.path for write in writes if write.change is PathChange.REMOVE and write.path.startswith("/")]
        return await self._count_loss(removed) if removed and self._count_loss is not None else ""

    async def find_like(self, effect: EffectRequest) -> str:
        """What a yes for the turn would cover, if this call is asked about; "" if it is not, or only by itself."""
        judged = await self._judge_in_mode(effect)
        is_asked = judged.verdict is Verdict.ASK and not self._approved.covers(effect, judged.like)
        return judged.like if is_asked and not judged.insist else ""

    def _add_rule(self, rule: Rule | None, owner: str) -> None:
        rule = msgspec.structs.replace(rule, owner=owner) if rule is not None else None
        if rule is not None and rule not in self._rules:
            self._remember(rule)
            self.learn_rule(rule)

    def learn_rule(self, rule: Rule) -> None:
        """Takes over a lasting approval that is stored already, such as one given in another workspace."""
        if rule not in self._rules:
            self._rules.append(rule)
            self._offered.clear()
            self._note_approvals()

    def judge(self, tool: ToolSpec, arguments: Arguments, owner: str = "", *, turn: str = "") -> Judgement:
        if self._is_unconfined(tool, owner):
            return Judgement(Verdict.DENY, "safety.sandbox", NO_SANDBOX)
        case = self._case(tool, owner, turn)
        if tool.name == SHELL_TOOL and isinstance(command := arguments.get("command"), str):
            from aish.safety.policy.command_judge import judge_command  # with the parser: for the first command

            judged = judge_command(case, command)
            return _judge_outside(judged, owner) if arguments.get(OUTSIDE_SANDBOX) else judged
        return judge_tool(case, find_named_files(tool, arguments, self._root))

    def _case(self, tool: ToolSpec, owner: str, turn: str) -> JudgedCall:
        own = (rule for rule in self._rules if not rule.owner or rule.owner == owner)
        about = [rule for rule in own if matches_tool(rule, tool.name) and matches_effect(rule, tool.effect)]
        return JudgedCall(tool, about, self._verdicts, self._root, lambda: self._shell_in(turn), self._real_paths,
                          self._find_own_program)  # fmt: skip

    def _shell_in(self, turn: str) -> ShellContext:
        if self._where is None:
            return self._context
        return msgspec.structs.replace(self._context, cwd=self._where(turn))

    def _allow_edited(self, effect: EffectRequest, arguments: Arguments | None) -> Decision:
        """The user's own edit counts as approved; only a denial overrides it."""
        judged = self.judge(effect.tool, arguments or {}, effect.owner, turn=effect.turn)
        if judged.verdict is Verdict.DENY or arguments is None:
            return Decision(Verdict.DENY, judged.rule, judged.reason or "the edit was empty")
        return Decision(Verdict.ALLOW, "the user", "edited", arguments)

    def _make_question(self, effect: EffectRequest, judged: Judgement) -> Question:
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
            danger=judged.danger,
            mode=self._mode_of(effect.mode, effect.owner),
        )
