"""Selects the model that answers: the named one, the one for this kind of question, or the fallback. It is selected
once for a turn, and the user is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from aish.engine.model.router import AUTO, Route, Router
from aish.errors import AishError, ModelNotFound, ProviderBusy, ProviderError, ProviderTimeout, ProviderUnavailable
from aish.types.messages import Message, UserMessage
from aish.types.requests import TurnRequest

if TYPE_CHECKING:
    from aish.engine.model.question_classifier import ClassifiedQuestion


class Routing(msgspec.Struct, frozen=True):
    """`classes` maps kinds of questions to presets; a kind without a preset uses the default."""

    auto: bool = False
    classes: Mapping[str, str] = {}
    fallback: str = ""


class SelectedModel(msgspec.Struct, frozen=True):
    """A route and notes about it for the user."""

    route: Route
    notes: tuple[str, ...] = ()
    fell_back: bool = False


class RoutingDecision(msgspec.Struct, frozen=True):
    classified: ClassifiedQuestion
    preset: str  # "" is the default


class ModelSelector:
    def __init__(self, router: Router, routing: Routing) -> None:
        self._router = router
        self._routing = routing

    def explain(self, text: str) -> RoutingDecision:
        from aish.engine.model.question_classifier import classify_question

        classified = classify_question(text)
        return RoutingDecision(classified, self._routing.classes.get(classified.kind, ""))

    def is_automatic(self, model: str) -> bool:
        return model == AUTO or (self._routing.auto and not model)

    def find_selected(self, request: TurnRequest) -> SelectedModel | None:
        """The selected model if it is named and known, without waiting."""
        if request.model == AUTO or (self._routing.auto and not request.model):
            return None
        route = self._router.find_resolved_route(request.model)
        return None if route is None else SelectedModel(route)

    async def select(self, request: TurnRequest) -> SelectedModel:
        name: str = request.model
        notes: tuple[str, ...] = ()
        if self.is_automatic(name):
            explained = self.explain(_question(request.input))
            name = explained.preset
            if name:
                notes = (f"{name}: {explained.classified.kind}, {'; '.join(explained.classified.reasons)}",)
        try:
            return SelectedModel(self._router.find_resolved_route(name) or await self._router.resolve(name), notes)
        except ModelNotFound as exc:
            if not notes:
                raise
            raise ModelNotFound(f"{exc.message}, where [routing] sends this kind of question", hint=exc.hint) from exc
        except ProviderError as exc:
            if not request.may_fall_back:
                raise
            return await self._after(exc, notes)

    async def fall_back(self, error: AishError, tried: str) -> SelectedModel | None:
        """The fallback model after a transport failure; None if there is none to try."""
        if not self._routing.fallback or not is_transport_failure(error):
            return None
        route = await self._router.resolve(self._routing.fallback)
        if route.name == tried:
            return None
        return SelectedModel(route, (f"{error.message}; asking {route.name} instead",), fell_back=True)

    async def _after(self, error: ProviderError, notes: Sequence[str]) -> SelectedModel:
        try:
            selected = await self.fall_back(error, "")
        except AishError as second:
            raise type(error)(f"{error.message}; and the fallback fails, too: {second.message}") from error
        if selected is None:
            raise error
        return msgspec.structs.replace(selected, notes=(*notes, *selected.notes))


def is_transport_failure(error: AishError) -> bool:
    return isinstance(error, ProviderUnavailable | ProviderTimeout | ProviderBusy)


def _question(messages: Sequence[Message]) -> str:
    return next((message.text for message in reversed(messages) if isinstance(message, UserMessage)), "")
