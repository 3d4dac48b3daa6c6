"""Makes engines from the configuration: the main one of a process, and further ones that work in another folder.

Their parts are passed in; nothing is opened here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

from aish.app.providers import Providers
from aish.app.settings import caps_of, context_rules, presets_of, routing_of
from aish.config.prices import configured_prices, price_table
from aish.config.schema.config import Config
from aish.engine.engine import Engine, FindBackground
from aish.engine.model.ledger import Caps, Prices
from aish.engine.model.router import Router
from aish.engine.prompt.system_message import BASE, TOOLS_NOTE, compose_system
from aish.ports import Clock, Gate, ProcessLiveness, Store, Toolset
from aish.safety.redaction.redactor import Redactor
from aish.types.context import ContextRules


class _SharedParts(TypedDict):
    """The parts that all engines of a process share."""

    clock: Clock
    liveness: ProcessLiveness
    redactor: Redactor
    rules: ContextRules
    prices: Prices
    caps: Caps


class EngineFactory:
    """`only` are the providers given for this run. A single one gets every model name that has no prefix."""

    def __init__(
        self,
        config: Config,
        providers: Providers,
        *,
        clock: Clock,
        liveness: ProcessLiveness,
        redactor: Redactor,
        only: Sequence[str] = (),
    ) -> None:
        self._config = config
        self._providers = providers
        self._only = only
        self._shared = _SharedParts(
            clock=clock,
            liveness=liveness,
            redactor=redactor,
            rules=context_rules(config),
            prices=Prices(lambda: price_table(config.prices), providers.is_free, configured_prices(config.prices)),
            caps=caps_of(config),
        )

    def make(
        self,
        tools: Toolset,
        gate: Gate,
        store: Callable[[], Store],
        find_background: FindBackground,
        *,
        serving: bool,
        shared: bool,
    ) -> Engine:
        system = self._config.system
        return Engine(
            router=self._make_router(),
            tools=tools,
            gate=gate,
            store=store,
            system=system if serving else compose_system(BASE, system),
            tools_note="" if serving else TOOLS_NOTE,
            routing=routing_of(self._config),
            find_background=find_background,
            write_through=not serving,
            shared=shared,
            **self._shared,
        )

    def make_beside(self, base: Engine, tools: Toolset, gate: Gate) -> Engine:
        """An engine with the models and the store of another, and its own tools and gate."""
        return Engine(
            router=base.router,
            tools=tools,
            gate=gate,
            store=lambda: base.store,
            system=self._config.system,
            **self._shared,
        )

    def _make_router(self) -> Router:
        config = self._config
        router = Router(
            self._providers.all,
            presets=presets_of(config),
            default=config.model,
            strict={name for name, settings in config.providers.items() if not settings.use_tool_role},
            catch_all=self._only[0] if len(self._only) == 1 else "",
            candidates=lambda: self._providers.candidates(router.providers),
        )
        return router
