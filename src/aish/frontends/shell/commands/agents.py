"""`:agents` and `:agent`: the agents there are, and a task for one of them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from aish.autonomy.turn_summary import TurnSummary
from aish.errors import UsageError
from aish.frontends.mentions import MentionScope, expand_mentions
from aish.frontends.shell.shell import Shell
from aish.types.ids import new_id
from aish.types.models import AgentDefinition
from aish.types.usage import Category


async def agents(shell: Shell, rest: str) -> None:
    """Lists the agents, and those that cannot be used with the reason."""
    roster = shell.runtime.agents
    for agent in roster.definitions:
        shell.output.note(f"{agent.name}: {agent.description}")
        shell.output.note(f"  {_describe(agent)} · {agent.origin}")
    for file in roster.files:
        if not file.is_usable:
            problem = file.file.problem or f"{file.file.state}: `:trust` accepts it"
            shell.output.note(f"{file.name} is not used: {file.file.path} {problem}")
    shell.output.note(":agent NAME TASK gives one a task; models call them with agents__run")


def _describe(agent: AgentDefinition) -> str:
    tools = ", ".join(agent.tools) or "every tool that reads"
    mode = "only reads" if agent.only_reads else f"mode {agent.mode}" if agent.mode else "your mode"
    steps = f" · {agent.max_steps} steps at most" if agent.max_steps else ""
    return f"{agent.model or 'your model'} · {tools} · {mode}{steps}"


async def agent(shell: Shell, rest: str) -> None:
    """Gives a task to an agent. Its report is sent along with the next question."""
    name, _, task = rest.partition(" ")
    found = shell.runtime.agents.find(name)
    if found is None or not task.strip():
        known = ", ".join(one.name for one in shell.runtime.agents.definitions)
        raise UsageError(f"there is no agent {name}" if name and found is None else "give whom which task?",
                         hint=f":agent NAME TASK; there are {known}")  # fmt: skip
    question = await expand_mentions(task.strip(), MentionScope.of(shell.runtime, Path(shell.cwd), ""))
    session = shell.request.session
    request = msgspec.structs.replace(
        shell.request,
        input=(question,),
        model=found.model or shell.request.model,
        session=new_id("sess"),
        may_be_new=True,
        system="",
        memory=False,
        project=False,
        category=Category.AGENT,
        charged_to=session,
        parent=session,
    )
    summary = TurnSummary()
    await shell.show_turn(shell.runtime.agents.narrow(request, found, shell.engine.tools), summary)
    shell.record_usage(summary.usage)
    if summary.text.strip():
        shell.command_context.add_text(
            f"[the agent {name} was given a task] {task.strip()}\n[it reported]\n{summary.text.strip()}"
        )
