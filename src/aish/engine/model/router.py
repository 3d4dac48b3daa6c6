"""Resolves the name of a model to the provider that serves it.

`provider:model` names both. A preset names a model with options. The name of a provider means its first model. A bare
name is looked up in the listings of all providers. No name means the configured default, else what discovery finds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import cached_property

import msgspec

from aish.engine.model.lazy_providers import LazyProviders
from aish.errors import AishError, ModelNotFound, ProviderTimeout
from aish.ports import Provider
from aish.types.models import ModelProfile, Preset
from aish.types.requests import Sampling, ToolMode

# Listing is on the way to an answer, so a provider that is slow to list is skipped.
LIST_TIMEOUT_S = 3.0
AUTO = "auto"  # the model for the kind of question, see `selection`; without a question, the default
# A server that was started later is found by its name. Discovery takes half a second, so a typo must not repeat it.
LOOK_AGAIN_S = 10.0
_SHOWN_CHARS = 200  # of a name from a client
_MAX_KNOWN = 1000  # a provider may take any name, so clients may send any number of names

# The providers to use when no model is named, best first: configured, discovered, embedded. May probe the machine.
FindCandidates = Callable[[], Awaitable[Sequence[Provider]]]


class Route(msgspec.Struct, frozen=True):
    provider: Provider
    info: ModelProfile
    sampling: Sampling = Sampling()
    system: str = ""
    tool_mode: ToolMode = "auto"
    use_tool_role: bool | None = None
    name: str = ""  # the model's

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "name", self.info.name)


class Router:
    def __init__(
        self,
        providers: Mapping[str, Provider] | Callable[[], Mapping[str, Provider]],
        *,
        presets: Mapping[str, Preset] | None = None,
        default: str = "",
        strict: Collection[str] = (),
        catch_all: str = "",
        candidates: FindCandidates | None = None,
        find_alias: Callable[[str], str | None] = lambda name: None,
    ) -> None:
        """`find_alias` returns the name of the model that another name stands for, "" for the default; None if it
        stands for none."""
        self._find_alias = find_alias
        self._given = providers
        self._presets = dict(presets or {})
        self._default = default
        self._find_candidates = candidates
        self._candidates: list[Provider] | None = None
        self._looked_s = 0.0
        self._known: dict[str, Route] = {}  # described routes, by `provider:model` or a bare name
        self._doubted: dict[str, Route] = {}  # routes whose backend has failed since
        self._strict_providers = frozenset(strict)  # providers whose chat templates reject tool messages
        self._catch_all = catch_all  # this provider takes bare names, listed or not
        # What backends were seen to reject, by the model's name.
        self._strict: set[str] = set()
        self._early_system: set[str] = set()

    @property
    def providers(self) -> Mapping[str, Provider]:
        return self._providers

    @cached_property
    def _providers(self) -> LazyProviders:
        """Made when first used: a first prompt needs none."""
        given = self._given() if callable(self._given) else self._given
        return given if isinstance(given, LazyProviders) else LazyProviders.of(given)

    async def aclose(self) -> None:
        if "_providers" in self.__dict__:
            await self._providers.aclose()

    def find_resolved_route(self, name: str) -> Route | None:
        """A route that was resolved before, unless a preset has that name."""
        return None if name in self._presets else self._known.get(name)

    async def resolve(self, name: str) -> Route:
        name = self._default if name in ("", AUTO) else name
        preset = self._presets.get(name)
        if preset is None:
            alias = self._find_alias(name)
            return await (self._plain(name) if alias is None else self.resolve(alias))
        route = await self._plain(preset.model)
        info = msgspec.structs.replace(route.info, context_size=preset.context_size or route.info.context_size)
        return Route(route.provider, info, preset.sampling, preset.system, preset.tool_mode, preset.use_tool_role)

    def rejects_tool_role(self, route: Route) -> bool:
        """Whether tool messages are rejected, by configuration or by an earlier refusal of this model's backend."""
        if route.name in self._strict:
            return True
        if route.use_tool_role is not None:
            return not route.use_tool_role
        return bool(self._strict_providers) and route.provider.name in self._strict_providers

    def rejects_late_system(self, route: Route) -> bool:
        """Whether this model's backend has refused a system message after the beginning."""
        return route.name in self._early_system

    def forget(self, route: Route) -> None:
        """Forgets what a backend said of its model, since a call has failed. It is asked again."""
        if len(self._doubted) >= _MAX_KNOWN:
            self._doubted.clear()
        self._doubted |= {known.name: known for known in self._known.values() if known.name == route.name}
        self._known = {name: known for name, known in self._known.items() if known.name != route.name}

    def remember_strict(self, route: Route) -> None:
        self._strict.add(route.name)

    def remember_early_system(self, route: Route) -> None:
        self._early_system.add(route.name)

    async def list_models(self) -> list[ModelProfile]:
        """Lists the models of all providers, described where they have been. Providers that fail are left out."""
        await self._look_again()
        listed = [info for infos in (await self._listings()).values() for info in infos]
        return [self._known[info.name].info if info.name in self._known else info for info in listed]

    async def _plain(self, name: str) -> Route:
        if not name:
            return await self._default_route()
        if self._catch_all and name.partition(":")[0] not in self._providers:
            route = await self._describe(self._providers[self._catch_all], name)
            self._known[name] = route
            return route
        return self._known.get(name) or await self._at_provider(name) or await self._find_listed(name)

    async def _default_route(self) -> Route:
        for provider in await self._candidates_once():
            if infos := await _list_safely(provider):
                return await self._describe(provider, infos[0].id)
        raise ModelNotFound(
            "no model to ask: no local server answers and none is configured",
            hint="run `aish models pull smollm2`, start a local server such as Ollama, or see `aish doctor`",
        )

    async def _at_provider(self, name: str) -> Route | None:
        prefix, colon, model = name.partition(":")
        return await self._describe(self._providers[prefix], model) if colon and prefix in self._providers else None

    async def _find_listed(self, name: str) -> Route:
        route = await self._look_up(name, await self._listings())
        if route is None and await self._look_again():
            route = await self._at_provider(name) or await self._look_up(name, await self._listings())
        if route is None and name in self._providers:
            await self._providers[name].list_models()  # raises the reason, if listing fails
            raise ModelNotFound(f"{name} has no models", hint="name one of them, if it does not list them")
        if route is None:
            raise self._not_found(name, await self._listings())
        return route

    async def _look_up(self, name: str, listings: Mapping[str, Sequence[ModelProfile]]) -> Route | None:
        if listings.get(name):
            return await self._describe(self._providers[name], listings[name][0].id)
        for provider, infos in listings.items():
            if any(info.id == name for info in infos):
                return await self._describe(self._providers[provider], name)
        return None

    async def _describe(self, provider: Provider, model: str) -> Route:
        key = f"{provider.name}:{model}"
        route = self._known.get(key)
        if route is not None:
            return route
        try:
            route = Route(provider, await provider.describe(model))
        except ProviderTimeout:  # too busy to describe it: use the earlier description, or none
            return self._doubted.get(key) or Route(provider, ModelProfile(provider.name, model))
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[key] = route
        return route

    async def _listings(self) -> dict[str, Sequence[ModelProfile]]:
        providers = dict(self._providers)
        found = await asyncio.gather(*map(_list_safely, providers.values()))
        return dict(zip(providers, found, strict=True))

    async def _candidates_once(self) -> Sequence[Provider]:
        """Finds the default candidates once, so that the default does not change in the middle of a conversation."""
        if self._candidates is None:
            self._candidates = await self._look()
        return self._candidates

    async def _look_again(self) -> bool:
        """Discovers again, if the last time is long ago. Returns whether new providers were found."""
        now_s, known = asyncio.get_running_loop().time(), len(self._providers)
        if self._candidates is None:
            await self._candidates_once()
        elif now_s >= self._looked_s + LOOK_AGAIN_S:
            await self._look()
        return len(self._providers) > known

    async def _look(self) -> list[Provider]:
        """Discovers providers. New ones become providers like any other."""
        self._looked_s = asyncio.get_running_loop().time()
        found = list(await self._find_candidates() if self._find_candidates else self._providers.values())
        before = len(self._providers)
        for provider in found:
            self._providers.add(provider.name, provider)
        if len(self._providers) > before:
            self._known.clear()  # a name may mean another now
        return found

    def _not_found(self, name: str, listings: Mapping[str, Sequence[ModelProfile]]) -> ModelNotFound:
        import difflib  # slow to import, and needed for typos only

        known = [*self._presets, *(info.name for infos in listings.values() for info in infos)]
        bare = {info.id: info.name for infos in listings.values() for info in infos}
        near = difflib.get_close_matches(name[:_SHOWN_CHARS], [*known, *bare], n=3)
        hint = f"did you mean {', '.join(dict.fromkeys(bare.get(n, n) for n in near))}?" if near else ""
        return ModelNotFound(f"no model named {name[:_SHOWN_CHARS]}", hint=hint or "`aish models` lists what there is")


async def _list_safely(provider: Provider) -> Sequence[ModelProfile]:
    try:
        async with asyncio.timeout(LIST_TIMEOUT_S):
            return await provider.list_models()
    except (AishError, TimeoutError):
        return ()
