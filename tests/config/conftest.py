"""A small world to load settings in: a home, a project in it, and an environment of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aish.config.load import LoadedConfig, check_config, load_config
from aish.config.user_decisions import trust_project_file


@dataclass
class World:
    home: Path
    project: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.env.setdefault("HOME", str(self.home))

    @property
    def user_file(self) -> Path:
        return self.home / ".config" / "aish" / "config.toml"

    @property
    def project_file(self) -> Path:
        return self.project / ".aish.toml"

    def user(self, text: str) -> None:
        self.user_file.parent.mkdir(parents=True, exist_ok=True)
        self.user_file.write_text(text, encoding="utf-8")

    def project_says(self, text: str, *, trusted: bool) -> None:
        self.project_file.write_text(text, encoding="utf-8")
        if trusted:
            trust_project_file(self.project_file, env=self.env)

    def load(self, flags: Mapping[str, Any] | None = None, cwd: Path | None = None) -> LoadedConfig:
        return load_config(cwd=cwd or self.project, env=self.env, flags=flags)

    def problems(self, flags: Mapping[str, Any] | None = None) -> list[str]:
        found = check_config(cwd=self.project, env=self.env, flags=flags)
        return [str(problem).replace(str(self.home), "~") for problem in found]


@pytest.fixture
def world(tmp_path: Path) -> World:
    home = tmp_path / "people" / "ann"
    project = home / "work" / "thing"
    project.mkdir(parents=True)
    return World(home, project)
