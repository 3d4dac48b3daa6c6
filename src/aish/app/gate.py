"""Makes the gate from the configuration: its rules, and those that the user added by answering "always"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from aish.config.approvals import add_approval, approvals_file, load_approvals
from aish.config.schema.config import Config
from aish.errors import ConfigError
from aish.safety.commands import ShellContext
from aish.safety.policy.always_rules import narrow_rule
from aish.safety.policy.gate import PolicyGate
from aish.safety.policy.rules import Rule, example_errors
from aish.tools.real_paths import RealPaths
from aish.types.decisions import Verdict
from aish.types.tools import Effect


def make_gate(
    config: Config,
    env: Mapping[str, str],
    shell: ShellContext,
    where: Callable[[str], str],
    confines_tenants: Callable[[], bool],
) -> PolicyGate:
    """`where` gives the directory in which the next command of a turn runs."""
    approvals = approvals_file(env)
    return PolicyGate(
        [*make_rules(config), *_load_approved_rules(approvals)],
        verdicts={effect: getattr(config.gate, effect.value) for effect in Effect},
        shell=shell,
        where=where,
        remember=lambda rule: add_approval(approvals, msgspec.to_builtins(rule)),
        real_paths=RealPaths(Path(shell.cwd), lambda path: _is_secret(path, shell)),
        confines_tenants=confines_tenants,
    )


def make_rules(config: Config) -> list[Rule]:
    """The rules of the configuration, short forms first. Raises ConfigError if the examples of a rule do not hold."""
    gate = config.gate
    approved = [Rule(Verdict.ALLOW, f"auto_approve {g}", (g,)) for g in (*gate.auto_approve, *config.mcp.auto_approve)]
    denied = [Rule(Verdict.DENY, f"gate.deny {glob}", (glob,)) for glob in gate.deny]
    given = [Rule(**msgspec.structs.asdict(rule)) for rule in gate.rules]
    if errors := example_errors(given):
        raise ConfigError("; ".join(errors), hint="mend gate.rules in the config")
    return [*approved, *denied, *given]


def _load_approved_rules(file: Path) -> list[Rule]:
    """Raises ConfigError for a rule that cannot be read or that would allow everything."""
    approvals = load_approvals(file)
    if not approvals:
        return []
    try:
        rules = [narrow_rule(rule) for rule in msgspec.convert(approvals, list[Rule])]
        errors = "; ".join(example_errors(rules))
    except msgspec.ValidationError as exc:
        rules, errors = [], str(exc)
    if errors:
        raise ConfigError(f"{file} is damaged: {errors}", hint="delete it to be asked again")
    return rules


def _is_secret(path: str, shell: ShellContext) -> bool:
    from aish.safety.commands.proof.exposure import is_secret  # with its tables: not before the first prompt
    from aish.safety.commands.scope import Scope

    return is_secret(path, Scope(shell))
