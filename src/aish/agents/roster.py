"""Knows the agents, and narrows a request to what an agent does.

Definitions come from files of the user and of trusted projects, from code (extensions, programs that use aish), and one
is built in. They are read once and stay the same until they are read again, because models see them in a tool's
description, at the beginning of each prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import msgspec

from aish.config.agents import AgentFile
from aish.ports import DynamicToolset, Toolset
from aish.safety.policy.modes import strictest
from aish.safety.policy.rules import SHELL_TOOL
from aish.types.decisions import Mode
from aish.types.globs import globs_of
from aish.types.models import AgentDefinition, agent_of
from aish.types.requests import TurnRequest
from aish.types.tools import Effect, ToolSpec

EXPLORE = AgentDefinition(
    "explore",
    "Finds things out in the files of this project and reports them, with file names and lines. Changes nothing.",
    instructions="Find out what the task asks. Search first, then read the places that matter. Report what you found, "
    "with file names and line numbers, and say what you did not find.",
    origin="built in",
)
BUILT_IN = (EXPLORE,)
_READ_ONLY = "You only read: calls that would change something are refused."


class AgentRoster:
    """`find_files` finds the definitions in files, `find_more` those from code. `mode` is that of requests which name
    none."""

    def __init__(
        self,
        find_files: Callable[[], Sequence[AgentFile]] = tuple,
        find_more: Callable[[], Sequence[AgentDefinition]] = tuple,
        *,
        mode: Mode = Mode.ASK,
    ) -> None:
        self._find_files = find_files
        self._find_more = find_more
        self._mode = mode

    @cached_property
    def files(self) -> Sequence[AgentFile]:
        """Also those that cannot be used, which say why."""
        return tuple(self._find_files())

    @cached_property
    def definitions(self) -> Sequence[AgentDefinition]:
        """The agents that can be used, by name. A file of the user counts before code, and both before what is built
        in."""
        found: dict[str, AgentDefinition] = {}
        from_files = [file.definition for file in self.files if file.is_usable]
        for agent in (*from_files, *self._find_more(), *BUILT_IN):
            found.setdefault(agent.name, agent)
        return tuple(found[name] for name in sorted(found))

    @property
    def offered(self) -> Sequence[AgentDefinition]:
        """The agents that models and API clients see: none if there are only those that are built in, since a list of
        them is read in each prompt."""
        return () if all(agent in BUILT_IN for agent in self.definitions) else self.definitions

    def reread(self) -> None:
        """Has the definitions looked up again."""
        self.__dict__.pop("files", None)
        self.__dict__.pop("definitions", None)

    def find(self, name: str) -> AgentDefinition | None:
        return next((agent for agent in self.definitions if agent.name == name), None)

    def find_model(self, name: str) -> str | None:
        """The model that `agent:NAME` means, "" for the default; None if the name means no agent."""
        agent = self.find(agent_of(name))
        return None if agent is None else agent.model

    def as_agent(self, request: TurnRequest, tools: Toolset) -> TurnRequest:
        """The request narrowed to the agent that its model names; as it is if there is no such agent."""
        agent = self.find(agent_of(request.model))
        if agent is None:
            return request
        request = msgspec.structs.replace(request, model=agent.model)
        return self.narrow(request, agent, tools)

    def narrow(self, request: TurnRequest, agent: AgentDefinition, tools: Toolset) -> TurnRequest:
        """The request with the instructions of the agent, the tools that both name, the stricter of their modes and the
        lower of their limits."""
        if request.dynamic_mcp and isinstance(tools, DynamicToolset):
            tools = tools.with_dynamic(request.dynamic_mcp)
        limits, steps = request.limits, agent.max_steps
        if steps is not None:
            limits = msgspec.structs.replace(limits, max_steps=min(steps, limits.max_steps))
        texts = (agent.instructions, _READ_ONLY if agent.only_reads else "", request.system)
        return msgspec.structs.replace(
            request,
            agent=agent.name,
            system="\n\n".join(filter(None, texts)),
            tools=_choose_tools(request.tools, agent, tools.specs()),
            mode=self._narrow_mode(request, agent),
            limits=limits,
        )

    def _narrow_mode(self, request: TurnRequest, agent: AgentDefinition) -> Mode | None:
        wanted = Mode.PLAN if agent.only_reads else agent.mode
        if wanted is None:
            return request.mode
        configured = strictest(self._mode, Mode.ASK) if request.owner else self._mode
        return strictest(wanted, request.mode or configured)


def _choose_tools(globs: tuple[str, ...], agent: AgentDefinition, specs: Iterable[ToolSpec]) -> tuple[str, ...]:
    """The names of the tools that the globs and the agent name. An agent that names none gets those that read, and no
    agents of its own."""
    given, own = globs_of(globs), globs_of(agent.tools or ("*",))
    among = [spec for spec in specs if spec.name in given and spec.name in own]
    if agent.only_reads:
        among = [spec for spec in among if spec.effect is Effect.READ or spec.name == SHELL_TOOL]
    return tuple(spec.name for spec in among if agent.tools or not spec.runs_turns)
