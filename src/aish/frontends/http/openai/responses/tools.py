"""Whose tools a request has, as responses knows them: the client's, ours, and ours that wait for its consent.

A client that names a server of ours is asked itself, where the gate or the client wants consent: the question ends the
turn, and the answer begins another. For all other tools it is asked as in every API.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

import msgspec

from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.openai.responses.output_items import Listing, split_name
from aish.frontends.http.openai.responses.request import Declared, Namespaced, ResponseBody, read_declared
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.dynamic_mcp import bring_servers, consenting
from aish.frontends.http.turns.request_fields import ToolsByServer, check_count, choose_tools
from aish.frontends.runtime import BroughtTools
from aish.ports import Ask
from aish.safety.policy.gate import SHELL_TOOL
from aish.types.decisions import Answer, Choice, Question, QuestionKind
from aish.types.globs import Globs
from aish.types.tools import ToolSpec


class Chosen(msgspec.Struct, frozen=True):
    """`functions` are the client's by the model's name for them; `late` as in Setup. `approvable` are those that run
    once the client has said yes. `guests` are the servers it has brought, `agreed` those of their tools that it has
    said yes to ahead of time."""

    ours: tuple[str, ...] = ()
    clients: tuple[ToolSpec, ...] = ()
    functions: dict[str, Namespaced] = {}
    ask_about: tuple[str, ...] = ()
    late: frozenset[str] = frozenset()
    approvable: frozenset[str] = frozenset()
    listings: tuple[Listing, ...] = ()
    guests: BroughtTools | None = None
    agreed: frozenset[str] = frozenset()


async def choose(service: Service, caller: Caller, asked: ResponseBody, listed: Collection[str]) -> Chosen:
    """`listed` are the labels whose tools were told before."""
    given = asked.tools or []
    check_count("tools", len(given), service.config.max_tools)
    declared = read_declared(given)
    check_count("tools", len(declared.functions), service.config.max_tools)
    guests = await bring_servers(service, caller, declared.mcp) if declared.mcp else None
    tools = choose_tools(service, caller, declared.functions, declared.mcp, guests)
    functions = {spec.name: declared.spaces.get(spec.name, Namespaced(spec.name)) for spec in tools.clients}
    if not declared.mcp:
        return Chosen(tools.ours, tools.clients, functions)
    offered = partial(service.engine.offered, tools.ours, guests=tools.guest_name, owner=caller.owner)
    someone = {spec.name: spec for spec in offered(interactive=True)}
    nobody = {spec.name for spec in offered(interactive=False)}
    gated = {name for name in someone if name not in nobody or name == SHELL_TOOL}
    asked_about, by_server = Globs(tools.ask), ToolsByServer(someone)
    late = frozenset(n for n in someone if n in asked_about or (n in gated and _may_ask(n, declared)))
    late -= tools.agreed
    usable = someone if service.ask(caller) is not None else nobody | late | tools.agreed
    return Chosen(
        ours=tuple(name for name in tools.ours if name in usable),
        clients=tools.clients,
        functions=functions,
        ask_about=tools.ask,
        late=late,
        approvable=late | nobody | tools.agreed,
        guests=guests,
        agreed=tools.agreed,
        listings=tuple(
            _listing(entry.label, [someone[name] for name in by_server.tools(entry.label, entry.allowed)])
            for entry in declared.mcp
            if entry.label not in listed
        ),
    )


def asking(service: Service, caller: Caller, late: frozenset[str], agreed: frozenset[str]) -> Ask | None:
    """Who answers the gate: for tools the client said it would approve, the client, later; for those it has approved
    already, nobody."""
    others = service.ask(caller)
    if agreed:
        others = consenting(others, agreed)
    if not late:
        return others

    async def ask(question: Question) -> Answer:
        if question.tool in late:
            return Answer(Choice.LATER if question.kind is QuestionKind.EFFECT else Choice.NO)
        return await others(question) if others is not None else Answer(Choice.NO, "nobody was there to ask")

    return ask


def _may_ask(name: str, declared: Declared) -> bool:
    label, _ = split_name(name)
    return label not in declared.silent and any(entry.label == label for entry in declared.mcp)


def _listing(label: str, specs: Sequence[ToolSpec]) -> Listing:
    tools = tuple(
        {"name": split_name(spec.name)[1], "description": spec.description, "input_schema": spec.schema}
        for spec in specs
    )
    return Listing(label, tools, None if tools else f"no tools of {label} can be used here")
