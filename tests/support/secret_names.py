"""The test for secrets that the composition root gives to the tools, for a workspace."""

from __future__ import annotations

from pathlib import Path

from aish.safety.commands import ShellContext
from aish.safety.policy.secret_names import SecretNames


def secret_names(root: Path) -> SecretNames:
    return SecretNames(ShellContext(cwd=str(root), home=str(root.parent / "home"), roots=(str(root),)))
