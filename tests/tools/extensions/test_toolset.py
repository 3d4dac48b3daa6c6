"""Tools of extensions come and go in the registry with their sources, and are known without starting a process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from aish.errors import ToolError
from aish.extensions.manifest import PythonSource
from aish.tools.extensions.process import ToolProcess
from aish.tools.extensions.toolset import ExtensionTools
from aish.tools.registry import Registry
from aish.types.messages import text_of
from aish.types.tools import Effect
from support.python_tools import source_of, write_source

CODE = '@tool(effect="read")\ndef {name}(x: int = 0) -> int:\n    "The tool {name}."\n    return {result}\n'


class Context:
    session, turn, call, owner, is_proved, is_unasked, rights = "s", "t", "c", "", False, False, None

    def status(self, text: str) -> None: ...

    def output(self, text: str) -> None: ...

    async def ask_user(self, text: str, choices: Sequence[str]) -> str | None:
        return None


class World:
    """Extension tools over a list of sources that a test changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sources: list[PythonSource] = []
        self.registry = Registry()
        self.tools = self.begin()

    def begin(self) -> ExtensionTools:
        """As a new start of aish would."""
        process = ToolProcess(workspace=lambda: self.folder)
        return ExtensionTools(
            process, self.registry, lambda: self.sources, cache_file=self.folder / "cache.json",
            workspace=lambda: self.folder,
        )  # fmt: skip

    def write(self, name: str, result: str = "1", owner: str = "my") -> PythonSource:
        return write_source(self.folder / f"{name}.py", CODE.format(name=name, result=result), owner)

    def names(self) -> list[str]:
        return [spec.name for spec in self.registry.specs()]

    async def call(self, name: str) -> str:
        return text_of((await self.registry.call(name, {}, Context())).parts)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    try:
        yield made
    finally:
        await made.tools.aclose()


async def test_tools_are_named_by_their_owner_and_can_be_called(world: World):
    world.sources = [world.write("one"), world.write("two", "2", owner="tickets")]
    await world.tools.refresh()
    assert world.names() == ["my__one", "tickets__two"]
    (spec, _) = world.registry.specs()
    assert (spec.effect, spec.description, spec.source, spec.hints) == (Effect.READ, "The tool one.", "my", None)
    assert [await world.call(name) for name in world.names()] == ["1", "2"]


async def test_a_list_that_has_not_changed_is_the_same_object(world: World):
    world.sources = [world.write("one")]
    await world.tools.refresh()
    before = world.registry.specs()
    await world.tools.refresh()
    assert world.registry.specs() is before


async def test_an_edited_file_is_taken_up_and_a_removed_one_is_gone(world: World):
    world.sources = [world.write("one"), world.write("two")]
    await world.tools.refresh()
    assert await world.call("my__one") == "1"
    world.sources = [world.write("one", "10"), source_of(world.folder / "two.py")]
    await world.tools.refresh()
    assert await world.call("my__one") == "10"
    world.sources = world.sources[:1]
    await world.tools.refresh()
    assert world.names() == ["my__one"]
    world.sources = []
    await world.tools.refresh()
    assert world.names() == []
    with pytest.raises(ToolError):
        await world.call("my__one")


async def test_what_is_known_is_listed_without_a_process(world: World):
    world.sources = [world.write("one")]
    await world.tools.refresh()
    await world.tools.aclose()
    world.registry = Registry()
    world.tools = again = world.begin()
    await again.refresh()
    assert world.names() == ["my__one"]
    assert again.process._child is None
    assert await world.call("my__one") == "1"


async def test_a_cache_that_is_damaged_or_cannot_be_written_is_done_without(world: World):
    (world.folder / "cache.json").write_text("{")
    world.sources = [world.write("one")]
    await world.tools.refresh()
    assert world.names() == ["my__one"]
    (world.folder / "cache.json").unlink()
    (world.folder / "cache.json").mkdir()
    world.sources = [world.write("one", "2")]
    await world.tools.refresh()
    assert await world.call("my__one") == "2"


async def test_two_files_with_one_tool_and_a_broken_file_are_problems(world: World):
    twin = write_source(world.folder / "twin.py", CODE.format(name="one", result="2"))
    broken = write_source(world.folder / "broken.py", "1 / 0\n")
    world.sources = [world.write("one"), twin, broken]
    await world.tools.refresh()
    assert world.names() == ["my__one"]
    assert await world.call("my__one") == "1"
    problems = " ".join(world.tools.problems)
    assert "twin.py" in problems and "has a one, too" in problems and "ZeroDivisionError" in problems


async def test_a_name_that_is_taken_is_a_problem_and_nothing_is_replaced(world: World):
    world.registry.add("my", other := ExtensionStandIn())
    world.sources = [world.write("one")]
    await world.tools.refresh()
    assert "there is already a source of tools named my" in world.tools.problems[0]
    assert world.registry.remove("my") is other


class ExtensionStandIn:
    def specs(self) -> tuple[()]:
        return ()

    async def aclose(self) -> None: ...


async def test_a_file_that_breaks_keeps_its_hooks_which_fail_then(world: World):
    """So that a guard is not lost by a mistake in its file."""
    code = '@hook("before_tool")\ndef guard(event):\n    return Deny("no")\n'
    path = world.folder / "guard.py"
    world.sources = [write_source(path, code, "project")]
    await world.tools.refresh()
    assert [hook.entry.name for hook in world.tools.hooks] == ["guard"]
    world.sources = [write_source(path, code + "1 / 0\n", "project")]
    await world.tools.refresh()
    assert world.tools.problems
    assert [(hook.entry.name, hook.source) for hook in world.tools.hooks] == [("guard", world.sources[0])]
    world.sources = [write_source(path, "", "project")]
    await world.tools.refresh()
    assert not world.tools.hooks


async def test_a_hundred_files_are_listed_from_the_cache_in_one_go(world: World):
    world.sources = [world.write(f"tool{number}") for number in range(100)]
    await world.tools.refresh()
    assert len(world.names()) == 100
    assert not world.tools.problems
