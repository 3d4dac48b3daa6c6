"""Engines out of the configuration: the one of a run, and others beside it that work in another folder.

Everything they are made of comes from outside; nothing is opened here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

from aish.app.providers import Providers
from aish.app.settings import caps_of, context_rules, presets_of, routing_of
from aish.config.prices import own_prices, price_table
from aish.config.schema.config import Config
from aish.engine.engine import Engine, FindBackground
from aish.engine.model.ledger import Caps, Prices
from aish.engine.model.router import Router
from aish.engine.prompt.system_message import BASE, TOOLS_NOTE, compose_system
from aish.ports import Clock, Gate, ProcessLiveness, Store, Toolset
from aish.safety.redaction.redactor import Redactor
from aish.types.context import ContextRules


class _Shared(TypedDict):
    """What every engine of a process has in common."""

    clock: Clock
    liveness: ProcessLiveness
    redactor: Redactor
    rules: ContextRules
    prices: Prices
    caps: Caps


class Engines:
    """`only` are the providers given for this run: a single one takes whatever model is named."""

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
        self._shared = _Shared(
            clock=clock,
            liveness=liveness,
            redactor=redactor,
            rules=context_rules(config),
            prices=Prices(lambda: price_table(config.prices), providers.is_free, own_prices(config.prices)),
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
        own_words = self._config.system
        return Engine(
            router=self._router(),
            tools=tools,
            gate=gate,
            store=store,
            system=own_words if serving else compose_system(BASE, own_words),
            tools_note="" if serving else TOOLS_NOTE,
            routing=routing_of(self._config),
            find_background=find_background,
            write_through=not serving,
            shared=shared,
            **self._shared,
        )

    def beside(self, base: Engine, tools: Toolset, gate: Gate) -> Engine:
        """With the models and the store of another."""
        return Engine(
            router=base.router,
            tools=tools,
            gate=gate,
            store=lambda: base.store,
            system=self._config.system,
            **self._shared,
        )

    def _router(self) -> Router:
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
