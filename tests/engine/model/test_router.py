from __future__ import annotations

import pytest

from aish.engine.model.lazy_providers import LazyProviders
from aish.engine.model.router import Router
from aish.errors import ModelNotFound, ProviderTimeout, ProviderUnavailable
from aish.providers.scripted import ScriptedProvider, from_steps
from aish.types.events import TextDelta
from aish.types.models import ModelProfile, Preset
from aish.types.requests import Knobs, Sampling
from support.engines import Bench


def provider(name: str, *models: str) -> ScriptedProvider:
    return ScriptedProvider(name, {model: from_steps([[TextDelta(name)]]) for model in models})


class Down(ScriptedProvider):
    async def list_models(self):
        raise ProviderUnavailable("down")


A, B = provider("a", "m1", "llama3:8b"), provider("b", "m2", "m1")


async def test_provider_and_model_together_pick_exactly_that():
    assert (await Router({"a": A, "b": B}).resolve("b:m1")).name == "b:m1"


async def test_a_provider_that_nobody_asks_for_is_never_made():
    made, closed = [], []

    class Kept(ScriptedProvider):
        async def aclose(self):
            closed.append(self.name)

    def make(name):
        made.append(name)
        return Kept(name, {"m1": from_steps([[TextDelta(name)]])})

    router = Router(lambda: LazyProviders({name: lambda name=name: make(name) for name in ("a", "b", "c")}))
    assert (await router.resolve("b:m1")).name == "b:m1"
    assert (await router.resolve("b:m1")).name == "b:m1"
    assert made == ["b"]
    await router.aclose()
    assert closed == ["b"]
    assert (await router.resolve("m1")).name == "a:m1"  # a bare name is looked for everywhere
    assert made == ["b", "a", "c"]


async def test_a_bare_name_is_found_in_what_the_providers_list_in_order():
    router = Router({"a": A, "b": B})
    assert (await router.resolve("m1")).name == "a:m1"
    assert (await router.resolve("m2")).name == "b:m2"


async def test_a_colon_in_a_models_own_name_is_no_provider():
    assert (await Router({"a": A}).resolve("llama3:8b")).name == "a:llama3:8b"


async def test_a_providers_own_name_means_its_first_model():
    assert (await Router({"a": A, "b": B}).resolve("b")).name == "b:m2"


async def test_a_preset_names_a_model_with_its_options_and_comes_before_a_model_of_that_name():
    presets = {"m1": Preset("b:m2", "be brief", Sampling(temperature=0.5), context_size=512)}
    route = await Router({"a": A, "b": B}, presets=presets).resolve("m1")
    assert (route.name, route.system, route.sampling.temperature, route.info.context_size) == (
        "b:m2",
        "be brief",
        0.5,
        512,
    )


async def test_a_misspelt_name_suggests_the_near_one():
    with pytest.raises(ModelNotFound) as caught:
        await Router({"a": A}).resolve("lama3:8b")
    assert "a:llama3:8b" in caught.value.hint


async def test_a_name_of_any_length_is_answered_with_a_short_one():
    with pytest.raises(ModelNotFound) as caught:
        await Router({"a": A}).resolve("x" * 100_000)
    assert len(caught.value.message) < 300


async def test_a_provider_that_is_down_does_not_hide_the_others():
    router = Router({"down": Down("down", {}), "a": A})
    assert (await router.resolve("m1")).name == "a:m1"


async def test_no_name_takes_the_default_else_the_first_candidate_that_has_a_model():
    async def candidates():
        return [Down("down", {}), provider("empty"), B]

    assert (await Router({"a": A}, default="a:m1", candidates=candidates).resolve("")).name == "a:m1"
    assert (await Router({"a": A}, candidates=candidates).resolve("")).name == "b:m2"


@pytest.mark.parametrize("name", ["m2", "b", "b:m2"])
async def test_a_name_may_be_one_that_only_discovery_knows(name):
    async def candidates():
        return [B]

    assert (await Router({"a": A}, candidates=candidates).resolve(name)).name == "b:m2"


async def test_a_server_that_is_started_later_is_found_by_name_and_does_not_take_over(monkeypatch):
    monkeypatch.setattr("aish.engine.model.router.LOOK_AGAIN_S", 0)
    running = [A]

    async def candidates():
        return list(running)

    router = Router({}, candidates=candidates)
    assert (await router.resolve("")).name == "a:m1"
    with pytest.raises(ModelNotFound):
        await router.resolve("b:m2")
    running.append(B)
    assert (await router.resolve("b:m2")).name == "b:m2"
    assert "b:m2" in [info.name for info in await router.list_models()]
    assert (await router.resolve("")).name == "a:m1"


async def test_nothing_anywhere_says_what_to_do():
    with pytest.raises(ModelNotFound) as caught:
        await Router({}).resolve("")
    assert "aish models pull" in caught.value.hint


async def test_a_catch_all_takes_names_that_nobody_lists():
    class Unlisted(ScriptedProvider):
        async def list_models(self):
            return []

        async def describe(self, model):
            return self._info(model)

    router = Router({"up": Unlisted("up", {}), "a": A}, catch_all="up")
    assert (await router.resolve("anything")).name == "up:anything"
    assert (await router.resolve("a:m1")).name == "a:m1"


async def test_the_requests_sampling_wins_over_the_presets():
    presets = {"p": Preset("scripted:model", sampling=Sampling(temperature=0.5, seed=7))}
    bench = Bench([TextDelta("x")], presets=presets)
    await bench.run(model="p", sampling=Sampling(temperature=0.0))
    sampling = bench.scripted.requests[0].sampling
    assert (sampling.temperature, sampling.seed) == (0.0, 7)


async def test_the_requests_knobs_win_over_the_presets_one_by_one():
    presets = {"p": Preset("scripted:model", sampling=Sampling(seed=7, knobs=Knobs(top_k=40, min_p=0.1)))}
    bench = Bench([TextDelta("x")], presets=presets)
    await bench.run(model="p", sampling=Sampling(knobs=Knobs(top_k=0, typical_p=0.9)))
    assert bench.scripted.requests[0].sampling == Sampling(seed=7, knobs=Knobs(top_k=0, min_p=0.1, typical_p=0.9))


class Counted(ScriptedProvider):
    described = 0

    async def describe(self, model):
        self.described += 1
        return await super().describe(model)


async def test_what_is_known_of_a_model_outlives_a_look_for_others(monkeypatch):
    monkeypatch.setattr("aish.engine.model.router.LOOK_AGAIN_S", 0.0)
    a = Counted("a", {"m1": from_steps([[TextDelta("a")]])})

    async def candidates():
        return [a]

    router = Router({"a": a}, candidates=candidates)
    for _ in range(3):
        await router.resolve("a:m1")
        await router.list_models()
    assert a.described == 1


async def test_models_are_listed_as_they_were_described():
    class Telling(ScriptedProvider):
        async def describe(self, model):
            return ModelProfile("a", model, 8192)

        async def list_models(self):
            return [ModelProfile("a", "m1"), ModelProfile("a", "m2")]

    router = Router({"a": Telling("a", {})})
    await router.resolve("a:m1")
    assert [(info.id, info.context_size) for info in await router.list_models()] == [("m1", 8192), ("m2", None)]


async def test_what_a_backend_said_of_a_model_will_do_while_it_is_too_busy_to_say_it_again():
    class Busy(Counted):
        is_busy = False

        async def describe(self, model):
            if self.is_busy:
                raise ProviderTimeout("no answer within 5 s")
            return await super().describe(model)

    a = Busy("a", {"m1": from_steps([[TextDelta("a")]])})
    router = Router({"a": a}, presets={"p": Preset("a:m1", system="be short", context_size=7)})
    known, preset = await router.resolve("a:m1"), await router.resolve("p")
    a.is_busy = True
    router.forget(preset)
    assert await router.resolve("a:m1") == known
    assert await router.resolve("p") == preset
    a.is_busy = False
    await router.resolve("a:m1")
    assert a.described == 2


async def test_a_model_whose_backend_is_too_busy_to_describe_it_is_asked_all_the_same():
    class Busy(Counted):
        async def describe(self, model):
            if not self.described:
                self.described += 1
                raise ProviderTimeout("no answer within 5 s")
            return ModelProfile("a", model, 8192)

    router = Router({"a": Busy("a", {"m1": from_steps([[TextDelta("a")]])})})
    assert (await router.resolve("a:m1")).info == ModelProfile("a", "m1")
    assert (await router.resolve("a:m1")).info.context_size == 8192, "it was told later"


async def test_a_provider_that_is_down_says_so_itself_where_only_it_is_named():
    class Down(ScriptedProvider):
        async def list_models(self):
            raise ProviderUnavailable("a: connection refused")

    class Empty(ScriptedProvider):
        async def list_models(self):
            return []

    router = Router({"a": Down("a", {}), "b": Empty("b", {})})
    with pytest.raises(ProviderUnavailable, match="connection refused"):
        await router.resolve("a")
    with pytest.raises(ModelNotFound, match="b has no models"):
        await router.resolve("b")
