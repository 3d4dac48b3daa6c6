"""Where commands run: the person's live shell while there is one, else a shell of their own behind the sandbox; always
the latter where the sandbox is demanded.

Variables that hold secrets are kept from what a model runs, unless the configuration says otherwise.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from aish.config import paths
from aish.config.schema_tools import SafetyConfig
from aish.faces.runtime import Surroundings
from aish.safety.secret_formats import looks_secret

if TYPE_CHECKING:
    from aish.tools.builtin.sandbox import Sandbox
    from aish.tools.builtin.shell import ShellTools
    from aish.tools.livebash.shell import LiveBash


class Commands:
    def __init__(self, here: Surroundings, safety: SafetyConfig, hides: Sequence[Path] = ()) -> None:
        """`hides` are files and folders that commands in the sandbox do not see."""
        self._hides = hides
        self._here = here
        self._safety = safety
        self._live: LiveBash | None = None

    def where(self) -> str:
        """The directory of now."""
        return self._live.cwd if self._live else str(self._here.cwd)

    def tools(self) -> ShellTools:
        from aish.tools.builtin.shell import ShellTools

        return ShellTools(
            cwd=lambda: Path(self.where()),
            shell=shutil.which("bash") or shutil.which("sh") or "sh",
            sandbox=self.sandbox,
            env={name: value for name, value in self._here.env.items() if name not in self._secrets()},
            live=lambda: None if self._safety.sandbox == "bwrap" else self._live,
        )

    @cached_property
    def sandbox(self) -> Sandbox:
        from aish.tools.builtin.sandbox import make_sandbox

        return make_sandbox(
            self._safety.sandbox,
            self._here.cwd,
            network=self._safety.network,
            hides=self._hides,
            home=paths.home_dir(self._here.env),
        )

    @asynccontextmanager
    async def live_shell(
        self, *, on_output: Callable[[bytes], None], on_notice: Callable[[str], None]
    ) -> AsyncIterator[LiveBash]:
        from aish.tools.builtin.shell import QUIET_ENVIRONMENT
        from aish.tools.livebash.shell import LiveBash, LiveBashSpec

        spec = LiveBashSpec(
            cwd=self._here.cwd,
            rc_file=str(paths.home_dir(self._here.env) / ".bashrc"),
            model_env={**dict.fromkeys(self._secrets(), ""), **QUIET_ENVIRONMENT},
        )
        async with LiveBash.open(spec, on_output=on_output, on_notice=on_notice) as shell:
            self._live = shell
            try:
                yield shell
            finally:
                self._live = None

    def _secrets(self) -> frozenset[str]:
        """The variables that commands of a model do not get."""
        if self._safety.secrets_in_env:
            return frozenset()
        return frozenset(name for name in self._here.env if looks_secret(name))
