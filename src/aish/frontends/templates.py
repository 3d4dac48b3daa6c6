"""Templates with parameters: saved plans, and the prompts of MCP servers.

`{{name}}` in a text of a plan is filled in for a run; a text `{{name:number}}` becomes a number.

A filled-in template is checked like any other plan before a step of it runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from aish.errors import UsageError
from aish.planner.references import change_plain_text, references
from aish.planner.run import PlanBody
from aish.ports import Store
from aish.safety.redaction.redactor import MARK
from aish.types.messages import Message, UserMessage, marked_text
from aish.types.records import Document
from aish.types.runs import Plan, RunKind, RunRecord

KIND = "plan_template"
_NAME = re.compile(r"[A-Za-z][\w.-]{0,63}")
_PARAMETER_NAME = re.compile(r"[A-Za-z]\w*")
_PARAMETER = re.compile(r"\{\{([A-Za-z]\w*)(?::number)?\}\}")
_NUMBER = re.compile(r"\{\{([A-Za-z]\w*):number\}\}")
_MAX_BYTES = 256 * 1024


class PlanTemplate(msgspec.Struct, frozen=True):
    name: str
    question: str
    plan: Plan
    tools: tuple[str, ...] = ()

    @property
    def parameters(self) -> list[str]:
        """In the order of their first use."""
        text = msgspec.json.encode([self.question, self.plan]).decode()
        return list(dict.fromkeys(_PARAMETER.findall(text)))

    def fill(self, given: Mapping[str, str]) -> tuple[str, Plan]:
        """The question and the plan with these values. Raises UsageError."""
        parameters = self.parameters
        if missing := [name for name in parameters if name not in given]:
            raise UsageError(f"{self.name} needs {', '.join(missing)}", hint=f"give {missing[0]}=VALUE")
        if unknown := [name for name in given if name not in parameters]:
            takes = ", ".join(parameters) or "no parameters"
            raise UsageError(f"{self.name} has no parameter {unknown[0]}", hint=f"it takes {takes}")
        plan = msgspec.convert(_fill_in(msgspec.to_builtins(self.plan), given), Plan)
        if _list_references(plan) != _list_references(self.plan):
            raise UsageError("a value reads as a reference to a step of the plan", hint="write $$ for a plain $")
        return str(_fill_in(self.question, given)), plan


async def save_template(store: Store, name: str, run: RunRecord, replaced: Mapping[str, str]) -> PlanTemplate:
    """Saves the plan of a run. `replaced` maps new parameters to the values that they replace. Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot name a plan", hint="use a letter, then letters, digits, . - or _")
    body = msgspec.json.decode(run.body, type=PlanBody) if run.kind is RunKind.PLAN else None
    if body is None or body.plan is None:
        raise UsageError(f"the run {run.id} has no plan", hint="`aish runs list` shows those that have")
    template = _with_parameters(PlanTemplate(name, body.question, body.plan, body.tools), replaced)
    encoded = msgspec.json.encode(template)
    if MARK in encoded.decode():
        raise UsageError("the plan held a secret, which is not kept", hint="plan it so that a step reads the secret")
    if len(encoded) > _MAX_BYTES:
        raise UsageError(f"the plan is larger than {_MAX_BYTES // 1024} KB")
    await store.put(Document(KIND, name, encoded))
    return template


async def find_template(store: Store, name: str) -> PlanTemplate:
    document = await store.find(KIND, name)
    if document is None:
        raise UsageError(f"there is no plan {name}", hint="`aish plan list` shows those that are kept")
    return msgspec.json.decode(document.body, type=PlanTemplate)


async def list_templates(store: Store) -> Sequence[PlanTemplate]:
    return [msgspec.json.decode(found.body, type=PlanTemplate) for found in await store.list_documents(KIND)]


def parse_parameters(words: Sequence[str]) -> dict[str, str]:
    """Parses `NAME=VALUE` words. Raises UsageError."""
    pairs = [word.partition("=") for word in words]
    if bad := [name for name, mark, _ in pairs if not mark or not _PARAMETER_NAME.fullmatch(name)]:
        raise UsageError(
            f"{bad[0]!r} gives no parameter a value",
            hint="write NAME=VALUE; a name is a letter, then letters and digits",
        )
    return {name: value for name, _, value in pairs}


def _list_references(plan: Plan) -> list[str]:
    return [id for step in plan.steps for id in references(step.args)]


def _fill_in(value: Any, given: Mapping[str, str]) -> Any:
    def fill(leaf: Any) -> Any:
        if not isinstance(leaf, str):
            return leaf
        if match := _NUMBER.fullmatch(leaf):
            return _number(match[1], given[match[1]])
        return _PARAMETER.sub(lambda match: given[match[1]], leaf)

    return _map_leaves(value, fill)


def _with_parameters(template: PlanTemplate, replaced: Mapping[str, str]) -> PlanTemplate:
    """Replaces texts in the question and the arguments by parameters. Steps, tools and references stay as they are."""
    if empty := [name for name, text in replaced.items() if not text]:
        raise UsageError(f"{empty[0]} stands for which text?", hint=f"{empty[0]}=TEXT OF THE PLAN")
    if not replaced:
        return template
    names = {text: name for name, text in replaced.items()}
    longest_first = sorted(names, key=len, reverse=True)
    pattern = re.compile("|".join(re.escape(text) for text in longest_first))

    def in_text(text: str) -> str:
        return pattern.sub(lambda match: f"{{{{{names[match[0]]}}}}}", text)

    def in_value(leaf: Any) -> Any:
        if isinstance(leaf, str):
            return change_plain_text(leaf, in_text)
        is_number = isinstance(leaf, int | float) and not isinstance(leaf, bool) and str(leaf) in names
        return f"{{{{{names[str(leaf)]}:number}}}}" if is_number else leaf

    steps = (msgspec.structs.replace(step, args=_map_leaves(step.args, in_value)) for step in template.plan.steps)
    result = msgspec.structs.replace(template, question=in_text(template.question), plan=Plan(tuple(steps)))
    if missing := [name for name in replaced if name not in result.parameters]:
        raise UsageError(f"{replaced[missing[0]]!r} does not occur in the plan")
    return result


def _number(name: str, text: str) -> int | float:
    try:
        return msgspec.json.decode(text, type=int | float)
    except ValueError:
        raise UsageError(f"{name} is a number, and {text!r} is none") from None


def _map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """Applies `change` to every value that is no object or list."""
    if isinstance(value, dict):
        return {key: _map_leaves(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_map_leaves(item, change) for item in value]
    return change(value)


def parse_values(words: Sequence[str]) -> dict[str, str]:
    """Parses `KEY=VALUE` words. Raises UsageError."""
    pairs = [word.partition("=") for word in words]
    if bad := [key + mark for key, mark, _ in pairs if not (key and mark)]:
        raise UsageError(f"{bad[0]!r} gives no argument a value", hint="write KEY=VALUE")
    return {key: value for key, _, value in pairs}


def prompt_text(messages: Sequence[Message]) -> str:
    """The text of all messages, with a mark in place of each image."""
    return "\n\n".join(marked_text(m.parts) if isinstance(m, UserMessage) else m.text for m in messages)
