"""Has a model write a plan: without tools, its answer constrained by a schema, and errors sent back to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence

import msgspec

from aish.engine.model.router import Route
from aish.engine.model.side_call import SideAnswer, SideCalls
from aish.errors import ProviderRejected
from aish.planner.validation import NoPlanNeeded, has_same_calls, parse_plan, plan_errors, plan_schema
from aish.types.events import Body, PlanAccepted, PlanProposed, PlanRejected, Status, UsageReported
from aish.types.requests import Sampling
from aish.types.runs import Plan, Planning
from aish.types.tools import JsonSchema, ToolSpec
from aish.types.usage import Category, KeyBudget

_MAX_QUESTION = 8000
_MAX_TOOL = 600  # characters of one tool's description and schema
_MAX_TOOLS = 24_000
_MAX_TOKENS = 2000
_SHOWN_RESULT = 500
_UNSUPPORTED = (400, 422)  # how backends refuse a request with a field they do not know

_RULES = (
    "Plan the calls that answer the request, for tools that are run for you. Answer with one JSON object:\n"
    '{"direct": false, "steps": [{"id": "a", "tool": "...", "args": {...}, "needs": [], "why": "..."}]}\n'
    'If the request needs no tool, answer {"direct": true, "steps": []}.\n'
    "Use only the tools below, with arguments that fit their schemas. A text argument that is just $a stands for all "
    "that step a gives, $a.items[0].name for a part of it; inside a longer text write ${a.name}, and $${X} for a plain "
    "${X}. Refer only to earlier steps. Fewer steps are better."
)


class PlanWriter:
    """Writes the plans of one turn. `written` is the last valid plan; None after `write` if there is none.

    A plan may use all `tools`. The model is told of those that `listed` names, because very many would fill its window;
    None: of all.
    """

    def __init__(
        self,
        side_calls: SideCalls,
        route: Route,
        tools: Sequence[ToolSpec],
        planning: Planning,
        *,
        session: str,
        payer: KeyBudget | None = None,
        listed: Collection[str] | None = None,
    ) -> None:
        self._side_calls = side_calls
        self._route = route
        self._tools = {spec.name: spec for spec in tools}
        self._listed = {name: spec for name, spec in self._tools.items() if listed is None or name in listed}
        self._planning = planning
        self._session = session
        self._payer = payer
        self._schema: JsonSchema | None = plan_schema(self._listed, planning.max_steps)
        self.written: Plan | None = None

    async def write(
        self,
        question: str,
        *,
        results: Mapping[str, str],
        failed: Sequence[Plan] = (),
        error: str = "",
        calls_left: int,
        deadline_s: float,
    ) -> AsyncGenerator[Body, None]:
        """Writes a plan and sets `written`. Raises what the provider raises, and BudgetExceeded.

        `results` are those of completed steps. `failed` are the remaining steps of plans that failed with `error`: the
        same plan again is an error.
        """
        self.written = None
        if self._route.info.is_weak:  # a small model would write nonsense that fits the schema, for minutes
            yield Status(f"{self._route.name} is too small a model to plan; working without a plan (see planner.model)")
            return
        prompt = text = _planning_prompt(question, results, failed, error)
        for attempt in range(1, self._planning.max_rewrites + 2):
            answer = await self._ask(text, deadline_s)
            yield UsageReported(self._route.name, answer.usage, Category.PLANNER)
            plan = parse_plan(answer.text)
            if isinstance(plan, NoPlanNeeded):
                yield Status("no plan is needed")
                return
            errors = [plan] if isinstance(plan, str) else self._errors(plan, results, failed, calls_left)
            yield PlanProposed(
                answer.text[:_MAX_QUESTION] if isinstance(plan, str) else msgspec.to_builtins(plan), attempt
            )
            if not errors and isinstance(plan, Plan):
                self.written = plan
                yield PlanAccepted(msgspec.to_builtins(plan))
                return
            yield PlanRejected(tuple(errors))
            text = f"{prompt}\n\n{_rewrite_prompt(answer.text, errors)}"
        yield Status(f"no plan that can be run after {attempt} attempts; working without one")

    def check(self, plan: Plan, *, results: Mapping[str, str], calls_left: int) -> list[str]:
        """The errors of a plan that was not written here."""
        return self._errors(plan, results, (), calls_left)

    def _errors(self, plan: Plan, results: Mapping[str, str], failed: Sequence[Plan], calls_left: int) -> list[str]:
        if any(has_same_calls(plan, other) for other in failed):
            return ["this is the same plan that has failed before; find another way, or say direct"]
        max_steps = self._planning.max_steps
        return plan_errors(plan, self._tools, max_steps=max_steps, done=results, calls_left=calls_left)

    async def _ask(self, text: str, deadline_s: float) -> SideAnswer:
        """Asks without a schema if the backend does not support one: the plan is checked in any case."""
        if self._schema is not None:
            try:
                return await self._call(text, deadline_s)
            except ProviderRejected as exc:
                if exc.status not in _UNSUPPORTED:
                    raise
                self._schema = None
        return await self._call(text, deadline_s)

    async def _call(self, text: str, deadline_s: float) -> SideAnswer:
        return await self._side_calls.ask(
            self._route,
            text,
            system=f"{_RULES}\n\nThe tools:\n{_list_tools(self._listed.values())}",
            category=Category.PLANNER,
            session=self._session,
            max_tokens=_MAX_TOKENS,
            deadline_s=deadline_s,
            sampling=Sampling(temperature=0.0, json_schema=self._schema),
            plans_calls=True,
            payer=self._payer,
        )


def _rewrite_prompt(plan: str, errors: Sequence[str]) -> str:
    listed = "\n".join(f"- {error}" for error in errors)
    return f"Your plan was:\n{plan[:4000]}\n\nIt cannot be run:\n{listed}\nWrite it again without these errors."


def _planning_prompt(question: str, results: Mapping[str, str], failed: Sequence[Plan], error: str) -> str:
    parts = [f"The request: {question[-_MAX_QUESTION:]}"]
    if results:
        done = "\n".join(f"- {id}: {text[:_SHOWN_RESULT]}" for id, text in results.items())
        parts.append(f"These steps are done, refer to their results by their ids:\n{done}")
    if failed:
        parts.append(f"What was left of the plan failed: {error}\nPlan the rest in another way, with new ids.")
    return "\n\n".join(parts)


def _list_tools(tools: Collection[ToolSpec]) -> str:
    lines: list[str] = []
    room = _MAX_TOOLS
    for spec in tools:
        schema = msgspec.json.encode(spec.schema).decode()
        line = f"- {spec.name} {schema}: {' '.join(spec.description.split())}"[:_MAX_TOOL]
        room -= len(line)
        lines.append(line if room > 0 else f"- {spec.name}")
    return "\n".join(lines)
