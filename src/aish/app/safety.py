"""Makes the gate from the configuration, and decides where the commands of a model run.

They run in copies of the user's live shell if there is one, otherwise in a new shell; in both cases inside the sandbox
if there is one. They do not get variables that hold secrets, unless the configuration says otherwise.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aish.config import paths
from aish.config.schema.config import Config
from aish.config.schema.tools import SafetyConfig
from aish.config.user_decisions import add_approval, approvals_file, load_approvals
from aish.errors import ConfigError
from aish.frontends.runtime import LaunchContext
from aish.safety.commands import ShellContext
from aish.safety.policy.always_rules import narrow_rule
from aish.safety.policy.gate import PolicyGate
from aish.safety.policy.rules import Rule, example_errors
from aish.safety.policy.secret_names import SecretNames
from aish.safety.policy.visible_losses import NO_SANDBOX_STATE, SandboxState
from aish.safety.redaction.secret_formats import looks_secret
from aish.tools.real_paths import RealPaths
from aish.types.decisions import Verdict
from aish.types.tools import Effect

if TYPE_CHECKING:
    from aish.process.sandbox import Sandbox
    from aish.tools.bash.shell import LiveBash
    from aish.tools.builtin.shell import ShellTools


_TMP = "/tmp"  # writable in the sandbox


def make_gate(
    config: Config,
    env: Mapping[str, str],
    shell: ShellContext,
    where: Callable[[str], str],
    confines_tenants: Callable[[], bool],
    search_path: Callable[[], str] = lambda: "",
    sandbox: SandboxState = NO_SANDBOX_STATE,
    learn: Callable[[Rule], None] = lambda rule: None,
) -> PolicyGate:
    """`where` gives the directory in which the next command of a turn runs. `learn` is told of each lasting approval,
    for the gates of other workspaces."""
    approvals = approvals_file(env)

    def remember(rule: Rule) -> None:
        add_approval(approvals, msgspec.to_builtins(rule))
        learn(rule)

    disk = RealPaths(Path(shell.cwd), SecretNames(shell), search_path)
    return PolicyGate(
        [*make_rules(config), *_load_approved_rules(approvals)],
        verdicts={effect: getattr(config.gate, effect.value) for effect in Effect},
        shell=shell,
        where=where,
        remember=remember,
        real_paths=disk,
        find_own_program=disk.find_own_program,
        confines_tenants=confines_tenants,
        mode=config.gate.mode,
        sandbox=sandbox,
        count_loss=_count_loss,
    )


async def _count_loss(paths: Sequence[str]) -> str:
    from aish.tools.removal_counts import count_loss

    return await asyncio.to_thread(count_loss, paths)


def make_rules(config: Config) -> list[Rule]:
    """The rules of the configuration, short forms first. Raises ConfigError if the examples of a rule do not hold."""
    gate = config.gate
    approved = [Rule(Verdict.ALLOW, f"auto_approve {g}", (g,)) for g in (*gate.auto_approve, *config.mcp.auto_approve)]
    denied = [Rule(Verdict.DENY, f"gate.deny {glob}", (glob,)) for glob in gate.deny]
    given = [Rule(**msgspec.structs.asdict(rule)) for rule in gate.rules]
    if errors := example_errors(given):
        raise ConfigError("; ".join(errors), hint="fix gate.rules in the config")
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


class CommandRunner:
    """Runs the commands of models in one workspace, which is `environment.cwd`."""

    def __init__(
        self,
        environment: LaunchContext,
        safety: SafetyConfig,
        hides: Sequence[Path] = (),
        folders: Sequence[Path] = (),
        *,
        opened_by: CommandRunner | None = None,
    ) -> None:
        """`hides` are files and folders that commands in the sandbox do not see, `folders` those of aish, which they
        cannot make either. `opened_by` is the runner of the
        workspace in which the live shell was opened, if that is another one."""
        self._hides = hides
        self._folders = folders
        self._environment = environment
        self._safety = safety
        self._live: LiveBash | None = None
        self._opened_by = opened_by or self
        self._entered = self  # whose rules hold in the live shell

    def enter(self) -> None:
        """From now on, the rules of this workspace hold for commands in the live shell."""
        self._opened_by._entered = self

    def _find_live(self) -> LiveBash | None:
        return self._opened_by._live

    def where(self) -> str:
        """The directory of the user."""
        live = self._find_live()
        return live.cwd if live else str(self._environment.cwd)

    def search_path(self) -> str:
        """PATH of the next command."""
        live = self._find_live()
        return (live.search_path if live else "") or self._environment.env.get("PATH", "")

    def where_in(self, turn: str) -> str:
        """The directory in which the next command of the turn runs. A name that leads into the workspace through a
        link is resolved, because the gate compares names."""
        live, folder = self._find_live(), self._environment.cwd
        if live is None:
            return str(folder)
        cwd = live.model_cwd(turn)
        if self._opened_by is self or Path(cwd).is_relative_to(folder):
            return cwd
        real = os.path.realpath(cwd)
        return real if Path(real).is_relative_to(folder) else cwd

    def tools(self) -> ShellTools:
        from aish.tools.builtin.shell import ShellTools

        secrets = self._secrets()
        return ShellTools(
            cwd=lambda: Path(self.where()),
            workspace=self._environment.cwd,
            sandbox=self.sandbox,
            env={name: value for name, value in self._environment.env.items() if name not in secrets},
            live=self._find_live,
        )

    @cached_property
    def sandbox(self) -> Sandbox:
        from aish.process.sandbox import make_sandbox

        return make_sandbox(
            self._safety.sandbox,
            self._environment.cwd,
            network=self._safety.network,
            hides=self._hides,
            folders=self._folders,
            read_only=(Path(sys.prefix), Path(sys.base_prefix)),
            home=paths.home_dir(self._environment.env),
            tmp=Path(tmp) if (tmp := self._environment.env.get("TMPDIR")) else None,
            cache=paths.sandbox_cache_dir(self._environment.env),
        )

    @asynccontextmanager
    async def live_shell(
        self, *, on_output: Callable[[bytes], None], on_notice: Callable[[str], None], wants_ps1: bool = False
    ) -> AsyncIterator[LiveBash]:
        from aish.tools.bash.shell import LiveBash, LiveBashSpec
        from aish.tools.builtin.shell import QUIET_ENVIRONMENT

        spec = LiveBashSpec(
            cwd=self._environment.cwd,
            rc_file=str(paths.home_dir(self._environment.env) / ".bashrc"),
            model_env={**dict.fromkeys(self._secrets(), ""), **QUIET_ENVIRONMENT},
            hides=lambda name: not self._entered._safety.secrets_in_env and looks_secret(name),
            workspace=lambda: self._entered._environment.cwd,
            wants_ps1=wants_ps1,
            private=paths.runtime_dir(self._environment.env),
        )
        async with LiveBash.open(spec, on_output=on_output, on_notice=on_notice) as shell:
            self._live = shell
            try:
                yield shell
            finally:
                self._live = None

    @property
    def has_network(self) -> bool:
        """Whether commands in the sandbox may use the network."""
        return self._safety.network

    def _secrets(self) -> frozenset[str]:
        """The names of the variables that commands of a model do not get."""
        if self._safety.secrets_in_env:
            return frozenset()
        return frozenset(name for name in self._environment.env if looks_secret(name))


class CommandContainment:
    """Implements `autonomy.destructive_check.Containment`."""

    def __init__(self, commands: CommandRunner, shell: ShellContext) -> None:
        self._commands = commands
        self._shell = shell

    def shell_in(self, turn: str) -> ShellContext:
        return msgspec.structs.replace(self._shell, cwd=self._commands.where_in(turn))

    async def is_active(self) -> bool:
        return not self._commands.has_network and await self._commands.sandbox.probe()

    def is_new(self, path: str) -> bool:
        folders = (*self._shell.roots, _TMP)
        is_inside = any(Path(path).is_relative_to(folder) for folder in folders)
        if not is_inside or os.path.lexists(path):
            return False
        # `cp a *` overwrites the last file that matches. Brackets are also in names of files: `[id].tsx`.
        return "*" not in path and "?" not in path and next(Path("/").glob(path[1:]), None) is None
