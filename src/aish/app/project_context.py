"""Finds what the model is told of the machine and the project: the environment, and the project's instructions.

Both stand at the beginning of each prompt, so they are read once and stay the same while aish runs. What changes
meanwhile (the directory, the branch, the day, a file of instructions) is told in the newest message.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from aish.config import paths
from aish.config.agents import AgentFile, find_agents
from aish.config.instructions import InstructionFile, find_instructions
from aish.config.prompt_files import PromptFile, find_prompt_files
from aish.config.skills import SkillFile, refresh_skills, stamp_skills
from aish.errors import ConfigError
from aish.frontends.runtime import LaunchContext
from aish.frontends.terminal import visible

if TYPE_CHECKING:
    from aish.config.extensions import Part

_OS_RELEASE = (Path("/etc/os-release"), Path("/usr/lib/os-release"))
_PACKAGE_MANAGERS = ("apt", "dnf", "yum", "pacman", "zypper", "apk", "xbps-install", "emerge", "nix-env", "brew", "pkg")
# Files in the root of a project, and the language or the tool that they mean.
_TOOLCHAINS = {
    "pyproject.toml": "Python", "setup.py": "Python", "requirements.txt": "Python", "uv.lock": "uv",
    "poetry.lock": "Poetry", "package.json": "Node.js", "tsconfig.json": "TypeScript", "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "Yarn", "Cargo.toml": "Rust", "go.mod": "Go", "CMakeLists.txt": "CMake", "meson.build": "Meson",
    "Makefile": "make", "justfile": "just", "pom.xml": "Maven", "build.gradle": "Gradle", "build.gradle.kts": "Gradle",
    "Gemfile": "Ruby", "composer.json": "PHP", "mix.exs": "Elixir", "Package.swift": "Swift", "flake.nix": "Nix",
    "Dockerfile": "Docker", "dune-project": "OCaml", "stack.yaml": "Haskell",
}  # fmt: skip
_MAX_RELEASE_BYTES = 16 * 1024
_MAX_HEAD_BYTES = 1024
_MAX_PATH_CHARS = 500
_MAX_BRANCH_CHARS = 100
# About 8 000 tokens for all files together: a quarter of a common window.
_MAX_INSTRUCTION_CHARS = 32_000
_MAX_NEW_SKILLS = 20
_MAX_SKILL_CHARS = 16_000  # as many as the description of the tool that reads them
_ENVIRONMENT = "[environment]"
_INSTRUCTIONS = "[instructions] What the user wants of you in this project. Nearer files are more specific."
_SKILLS = "Skills here (`skills__read` reads one before such work is done):"
_AT_BEGINNING = "Its instructions and skills are those at the beginning of this conversation."


class ProjectContext:
    """What the model is told of the machine and of the project in `launch.cwd`, the workspace. Its instructions and
    skills are looked for down to `cwd`."""

    def __init__(self, launch: LaunchContext, cwd: Path | None = None) -> None:
        self._launch = launch
        self._cwd = cwd or launch.cwd
        self._skills_of_now: tuple[tuple[str, ...] | None, list[SkillFile]] = None, []

    @cached_property
    def instruction_files(self) -> list[InstructionFile]:
        return find_instructions(self._cwd, self._launch.env, self._parts("instructions"))

    @cached_property
    def _first_skills(self) -> list[SkillFile]:
        """Those that the model was told of at first."""
        return self.skills

    @property
    def skills(self) -> list[SkillFile]:
        """The skills as they are on disk now."""
        more = self._parts("skills")
        seen = tuple(stamp_skills(self._cwd, self._launch.env, more))
        before, known = self._skills_of_now
        if before != seen:
            known = refresh_skills(known, self._cwd, self._launch.env, more)
            self._skills_of_now = seen, known
        return known

    @cached_property
    def agents(self) -> list[AgentFile]:
        return find_agents(self._cwd, self._launch.env, self._parts("agents"))

    @cached_property
    def prompt_files(self) -> list[PromptFile]:
        return find_prompt_files(self._cwd, self._launch.env, self._parts("commands"))

    def _parts(self, name: Part) -> Sequence[Path]:
        return self._extension_parts.get(name, ())

    @cached_property
    def _extension_parts(self) -> Mapping[Part, Sequence[Path]]:
        """What extensions have for models. Extensions that cannot be read are told of by their own commands."""
        if not paths.extensions_file(self._launch.env).exists():
            return {}
        from aish.config.extensions import find_usable_parts

        try:
            return find_usable_parts(self._launch.env)
        except ConfigError:
            return {}

    @cached_property
    def text(self) -> str:
        """The part that stays the same."""
        _ = self._first_skills  # the description of the tool that reads them names these
        return "\n\n".join(
            filter(None, (f"{_ENVIRONMENT}\n{self._environment()}\n{self.first_place}", self.instructions))
        )

    @cached_property
    def first_place(self) -> str:
        return describe_place(self._cwd)

    def place(self, cwd: Path) -> str:
        """Where the user is now, which instructions have changed since they were read, and which skills are new."""
        changed = [_on_one_line(str(file.path)) for file in self.instruction_files if _has_changed(file)]
        known = {(skill.name, skill.description) for skill in self._first_skills if skill.is_usable}
        new = [skill for skill in self.skills if skill.is_usable and (skill.name, skill.description) not in known]
        return "\n".join(
            (
                describe_place(cwd),
                *(f"{name} has changed; `:reload` reads it again." for name in changed),
                *(
                    f"New skill: {_describe_skill(skill)} ({_on_one_line(str(skill.file.path))})"
                    for skill in new[:_MAX_NEW_SKILLS]
                ),
            )
        )

    @cached_property
    def workspace(self) -> str:
        """What a model is told that began in another workspace. The first line names this one."""
        skills = [f"- {_describe_skill(skill)}" for skill in self._first_skills if skill.is_usable]
        listed = "\n".join((_SKILLS, *skills))[:_MAX_SKILL_CHARS] if skills else ""
        project = self._lines(("Workspace", str(self._launch.cwd)), ("Project", ", ".join(self._toolchains)))
        return "\n".join(filter(None, (project, listed, self.instructions)))

    @property
    def workspace_again(self) -> str:
        """What a model is told that began in this workspace and has been told of another one since."""
        return f"{self._lines(('Workspace', str(self._launch.cwd)))}\n{_AT_BEGINNING}"

    def _environment(self) -> str:
        env = self._launch.env
        return self._lines(
            ("System", describe_system()),
            ("Package manager", _find_package_manager(env)),
            ("Shell", Path(env.get("SHELL", "")).name or "bash"),
            ("Workspace", str(self._launch.cwd)),
            ("Project", ", ".join(self._toolchains)),
        )

    def _lines(self, *named: tuple[str, str]) -> str:
        return "\n".join(f"{name}: {_on_one_line(value)}" for name, value in named if value)

    @property
    def _toolchains(self) -> list[str]:
        return find_toolchains(self._launch.cwd)

    @cached_property
    def instructions(self) -> str:
        """The instructions that the user trusts, as the model gets them."""
        blocks, left = [], _MAX_INSTRUCTION_CHARS
        for file in self.instruction_files:
            text = _plain(file.content) if file.state == "trusted" else ""
            if text:
                cut = text[:left]
                mark = f"\n[aish] … {len(text) - len(cut)} characters left out …" if len(cut) < len(text) else ""
                blocks.append(f"# {_on_one_line(str(file.path))}\n{cut}{mark}")
                left -= len(cut)
        return "\n\n".join((_INSTRUCTIONS, *blocks)) if blocks else ""


def _describe_skill(skill: SkillFile) -> str:
    return _on_one_line(f"{skill.name}: {' '.join(skill.description.split())}")


def describe_system() -> str:
    """The operating system and its distribution, as in "Debian GNU/Linux 12 (bookworm), x86_64"."""
    import platform  # with the first turn

    for path in _OS_RELEASE:
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                lines = file.read(_MAX_RELEASE_BYTES).splitlines()
        except OSError:
            continue
        for line in lines:
            if line.startswith("PRETTY_NAME="):
                return f"{line.partition('=')[2].strip().strip(chr(34))}, {platform.machine()}"
    return f"{platform.system()} {platform.release()}, {platform.machine()}"


def _find_package_manager(env: Mapping[str, str]) -> str:
    folders = [folder for folder in env.get("PATH", "").split(os.pathsep) if folder]
    found = (name for name in _PACKAGE_MANAGERS for folder in folders if os.access(Path(folder, name), os.X_OK))
    return next(found, "")


def find_toolchains(root: Path) -> list[str]:
    return list(dict.fromkeys(name for file, name in _TOOLCHAINS.items() if (root / file).is_file()))


def describe_place(cwd: Path) -> str:
    """The directory, the branch and the day, on one line."""
    branch = find_git_branch(cwd)
    where = _on_one_line(str(cwd))[:_MAX_PATH_CHARS]
    return (
        f"Directory: {where}. " + (f"Git branch: {branch}. " if branch else "") + f"Day: {time.strftime('%Y-%m-%d')}."
    )


def find_git_branch(folder: Path) -> str:
    """The branch that is checked out, or the beginning of the commit; "" outside of a repository."""
    for parent in (folder, *folder.parents):
        git = parent / ".git"
        if git.is_file():  # of a worktree or a submodule: names the folder
            git = parent / _first_line(git).removeprefix("gitdir: ")
        if head := _first_line(git / "HEAD"):
            branch = head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else head[:7]
            return _on_one_line(branch)[:_MAX_BRANCH_CHARS]
    return ""


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(_MAX_HEAD_BYTES).strip()
    except OSError:
        return ""


def _has_changed(file: InstructionFile) -> bool:
    """Whether a trusted file has another content now. A file that was not used does not matter."""
    if file.state != "trusted":
        return False
    try:
        return file.path.stat().st_size != len(file.content) or file.path.read_bytes() != file.content
    except OSError:
        return True


def _on_one_line(text: str) -> str:
    """A name with a line break could begin a section of its own."""
    return visible(text).replace("\n", "\u240a")


def _plain(content: bytes) -> str:
    """The text with control characters made visible, line by line."""
    return "\n".join(visible(line.expandtabs()) for line in content.decode("utf-8-sig", "replace").splitlines()).strip()
