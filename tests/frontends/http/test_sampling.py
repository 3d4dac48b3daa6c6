"""How the model is to choose its words, as clients of each API say it: OpenAI's fields and those of local backends."""

import pytest

from aish.frontends.http.anthropic.request import MessagesBody
from aish.frontends.http.openai.chat.handler import ChatBody
from aish.frontends.http.openai.responses.request import ResponseBody
from aish.frontends.http.turns.request_fields import Extensions
from aish.types.events import TextDelta
from aish.types.requests import Knobs, Sampling
from support.engines import Bench
from support.http_face import face

EVERY = {
    "top_k": 40,
    "min_p": 0.05,
    "typical_p": 0.9,
    "top_n_sigma": 1.5,
    "repeat_penalty": 1.1,
    "repeat_last_n": 64,
    "dynatemp_range": 0.2,
    "dynatemp_exponent": 1.0,
    "mirostat": 2,
    "mirostat_tau": 5.0,
    "mirostat_eta": 0.1,
    "dry_multiplier": 0.8,
    "dry_base": 1.75,
    "dry_allowed_length": 2,
    "dry_penalty_last_n": -1,
    "dry_sequence_breakers": ["\n", ":"],
    "xtc_probability": 0.5,
    "xtc_threshold": 0.1,
    "min_tokens": 3,
    "ignore_eos": True,
    "chat_template_kwargs": {"enable_thinking": False},
}
SAID = [{"role": "user", "content": "hello"}]
PLACES = {
    "/v1/chat/completions": {"messages": SAID},
    "/v1/messages": {"messages": SAID, "max_tokens": 9},
    "/v1/responses": {"input": "hello"},
}


def bench():
    return Bench([TextDelta("x")])


async def ask(http, path, **fields):
    return await http.ask("POST", path, {"model": "scripted:model", **PLACES[path], **fields})


@pytest.mark.parametrize("path", PLACES)
async def test_every_knob_of_local_backends_is_taken_in_every_api(path):
    under = bench()
    async with face(under) as http:
        reply = await ask(http, path, **EVERY)
    assert reply.status == 200, reply.body
    assert set(EVERY) == set(Knobs.__struct_fields__)
    assert under.scripted.requests[0].sampling.knobs == Knobs(**{**EVERY, "dry_sequence_breakers": ("\n", ":")})


@pytest.mark.parametrize("path", PLACES)
async def test_a_request_without_any_has_none(path):
    under = bench()
    async with face(under) as http:
        await ask(http, path, temperature=0.5, top_k=None)
    assert under.scripted.requests[0].sampling.knobs is None


@pytest.mark.parametrize("body", [ChatBody, MessagesBody, ResponseBody, Extensions])
def test_knobs_are_the_first_fields_of_every_body(body):
    first = (*Knobs.__struct_fields__, "repetition_penalty")
    assert body.__struct_fields__[: len(first)] == first


@pytest.mark.parametrize(
    ("given", "taken"),
    [({"repetition_penalty": 1.2}, 1.2), ({"repeat_penalty": 1.1, "repetition_penalty": 1.2}, 1.1)],
)
async def test_a_penalty_for_repeating_has_two_names(given, taken):
    under = bench()
    async with face(under) as http:
        await http.chat(**given)
    assert under.scripted.requests[0].sampling == Sampling(knobs=Knobs(repeat_penalty=taken))


@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("top_k", "40"),
        ("top_k", 0.5),
        ("top_k", 2**31),
        ("min_p", "low"),
        ("repetition_penalty", []),
        ("dry_sequence_breakers", "\n"),
        ("ignore_eos", 1),
        ("chat_template_kwargs", "thinking"),
    ],
)
async def test_a_knob_of_a_wrong_type_is_a_400_that_names_it(path, field, value):
    async with face(bench()) as http:
        reply = await ask(http, path, **{field: value})
    assert reply.status == 400
    assert reply.json["error"]["message"].startswith(f"{field}: ")


async def test_tokens_to_favour_are_handed_on():
    under = bench()
    async with face(under) as http:
        await http.chat(logit_bias={"50256": -100})
    assert under.scripted.requests[0].sampling.logit_bias == {"50256": -100}
