"""A secret that a model says in pieces is in nothing of what is written together; and all else is."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aish.engine.engine import flatten
from aish.engine.turn import recorder
from aish.engine.turn.stream_redaction import count_writable
from aish.errors import ProviderUnavailable
from aish.safety.redaction.redactor import MARK, Redactor
from aish.types.chunks import CallFragment
from aish.types.events import ArgumentsDelta, Event, ReasoningDelta, Status, TextDelta, TurnFinished, decode_event
from support.engines import Bench, Tools, call

KEY = "sk-proj-" + "abcdEFGH1234567890abcdEFGH1234567890"
QUOTED, FOREIGN, SPACED = 'quo"ted\\secret', "pässwörd-Ω", "correct horse battery"
REDACTOR = Redactor([QUOTED, FOREIGN, SPACED, "hunter22"])
PRIVATE = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc\n-----END RSA " + "PRIVATE KEY-----"
SECRETS = {
    "key": KEY,
    "aws": "AKIA" + "ABCDEFGH12345678",
    "github": "ghp_" + "a1B2" * 9,
    "slack": "xoxb-" + "123456789012-abcdef",
    "google": "AIza" + "Sy0123456789abcdefghijklmnopqrstuvw",
    "stripe": "rk_" + "live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N",
    "private key": PRIVATE,
    "login": "https://app:" + "s3cr3tpw" + "@db.local",
    "bearer": "Bearer " + "abcdefghijklmnopqrstuvwxyz012345",
    "quoted": QUOTED,
    "foreign": FOREIGN,
    "spaced": SPACED,
}
SECRET = pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
STREAM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
# Words that begin like secrets, and what stands around them.
ORDINARY = [
    "the", " a", "s", " sk-", "-", "--", "-----BEGIN ", " AK", " ghp_", " eyJ", ":", "://", "Bearer", " ", "\n", ".",
    "h", "hunt", "corr", "ü", "\"", "\\", "pä", "x",
]  # fmt: skip


def cut(text: str, size: int) -> list[str]:
    return [text[place : place + size] for place in range(0, len(text), size)]


def together(events: Sequence[Event], kind: type) -> str:
    return "".join(event.body.text for event in events if isinstance(event.body, kind))


async def recorded(bench: Bench, *, stream: bool) -> tuple[list[Event], list[Event]]:
    """What was shown, and what was written."""
    async with asyncio.timeout(20), bench.engine.turn(bench.request(kept=False, stream=stream)) as batches:
        shown = [event async for event in flatten(batches)]
    written = [decode_event(line) for line in (await bench.recorded(shown)).splitlines()]
    assert [event.seq for event in written] == [event.seq for event in shown] == list(range(1, len(shown) + 1))
    assert [type(event.body) for event in written] == [type(event.body) for event in shown]
    return shown, written


@STREAM
@SECRET
@pytest.mark.parametrize("size", [1, 3, 20])
async def test_what_is_written_of_an_answer_is_what_it_says_without_secrets(secret, size, stream):
    said = f"it is {secret} as you know, and {secret} again"
    bench = Bench([TextDelta(piece) for piece in cut(said, size)], redactor=REDACTOR)
    shown, written = await recorded(bench, stream=stream)
    assert together(shown, TextDelta) == said
    assert together(written, TextDelta) == REDACTOR.text(said) != said


@STREAM
@pytest.mark.parametrize("end", ["", "\n"])
async def test_a_secret_that_ends_an_answer_or_a_thought_is_not_written(end, stream):
    words = [*map(ReasoningDelta, cut("so " + KEY + end, 2)), *map(TextDelta, cut("is " + KEY + end, 2))]
    bench = Bench(words)
    _, written = await recorded(bench, stream=stream)
    assert together(written, ReasoningDelta) == f"so {MARK}{end}"
    assert together(written, TextDelta) == f"is {MARK}{end}"


@STREAM
@SECRET
@pytest.mark.parametrize("ensure_ascii", [True, False])
async def test_a_secret_in_the_arguments_of_calls_is_not_written(secret, ensure_ascii, stream):
    first, second = (json.dumps({name: secret}, ensure_ascii=ensure_ascii) for name in "ab")
    pieces = [
        CallFragment(index, "", "", arguments)
        for both in zip(cut(first, 2), cut(second, 2), strict=True)
        for index, arguments in enumerate(both)
    ]
    steps = [call("t__x", ""), call("t__x", "", index=1), *pieces], [TextDelta("done")]
    bench = Bench(*steps, tools=Tools().add("t__x"), redactor=REDACTOR)
    shown, written = await recorded(bench, stream=stream)
    calls = {event.call for event in written if isinstance(event.body, ArgumentsDelta)}
    assert len(calls) == 2
    for id in calls:
        said, kept = (together([e for e in events if e.call == id], ArgumentsDelta) for events in (shown, written))
        (value,) = json.loads(said).values()
        (left,) = json.loads(kept).values()
        assert value == secret
        assert left in (REDACTOR.text(secret), MARK)


@given(st.data())
async def test_however_a_text_is_cut_and_written_it_is_the_same_without_secrets(data):
    words = st.one_of(st.sampled_from(ORDINARY), st.sampled_from([f" {secret} " for secret in SECRETS.values()]))
    said = "".join(data.draw(st.lists(words, min_size=1, max_size=12)))
    pieces, rest = [], said
    while rest:
        size = data.draw(st.integers(1, min(len(rest), 12)))
        pieces.append(rest[:size])
        rest = rest[size:]
    bench = Bench([TextDelta(piece) for piece in pieces], redactor=REDACTOR)
    shown, written = await recorded(bench, stream=data.draw(st.booleans()))
    assert together(shown, TextDelta) == said
    assert together(written, TextDelta) == REDACTOR.text(said)


@STREAM
@given(pieces=st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), min_size=1, max_size=12))
async def test_ordinary_words_are_written_as_they_are(pieces, stream):
    assume(Redactor().text("".join(pieces)) == "".join(pieces))
    bench = Bench([TextDelta(piece) for piece in pieces])
    shown, written = await recorded(bench, stream=stream)
    assert written == shown


@STREAM
async def test_an_answer_that_breaks_off_in_the_middle_of_a_secret_is_written_whole(stream):
    words = [*map(TextDelta, cut("it is " + KEY[:-4], 4)), ProviderUnavailable("gone")]
    shown, written = await recorded(Bench(words), stream=stream)
    assert together(shown, TextDelta) == "it is " + KEY[:-4]
    assert together(written, TextDelta) == f"it is {MARK}"


async def test_a_turn_that_is_left_in_the_middle_of_a_secret_leaves_all_that_was_said():
    bench = Bench([*map(TextDelta, cut("it is " + KEY, 4)), 30.0])
    async with asyncio.timeout(20), bench.engine.turn(bench.request(kept=False, stream=True)) as batches:
        async for event in flatten(batches):
            if isinstance(event.body, TextDelta) and event.body.text == KEY[-2:]:
                break
    written = [decode_event(line) for line in (await bench.store.read_events(event.turn)).splitlines()]
    assert [event.seq for event in written] == list(range(1, len(written) + 1))
    assert isinstance(written[-1].body, TurnFinished)
    assert together(written, TextDelta) == f"it is {MARK}"


WRITTEN = pytest.mark.parametrize(
    "settings", [{}, {"write_through": True}], ids=["by the moment", "before it is shown"]
)


def slowly(pieces: Sequence[str], kind: type = TextDelta) -> list[Any]:
    """Each is a moment of its own."""
    return [item for piece in pieces for item in (kind(piece), 0.02)]


@WRITTEN
@SECRET
@pytest.mark.parametrize("kind", [TextDelta, ReasoningDelta])
async def test_a_secret_that_takes_its_time_is_not_written(secret, kind, settings, monkeypatch):
    monkeypatch.setattr(recorder, "_WRITE_INTERVAL_S", 0.002)
    said = f"it is {secret} as you know"
    bench = Bench([*slowly(cut(said, 7), kind), TextDelta("done")], redactor=REDACTOR, settings=settings)
    shown, written = await recorded(bench, stream=True)
    assert together(shown, kind).startswith(said)
    assert together(written, kind) == REDACTOR.text(together(shown, kind)) != together(shown, kind)


@WRITTEN
async def test_secrets_in_calls_that_are_made_side_by_side_and_slowly_are_not_written(settings, monkeypatch):
    monkeypatch.setattr(recorder, "_WRITE_INTERVAL_S", 0.002)
    texts = [json.dumps({"a": KEY}), json.dumps({"b": QUOTED * 3})]
    both = itertools.zip_longest(*(cut(text, 7) for text in texts), fillvalue="")
    pieces = [CallFragment(index, "", "", piece) for pair in both for index, piece in enumerate(pair)]
    slow = [item for piece in pieces for item in (piece, 0.02)]
    steps = [call("t__x", ""), call("t__x", "", index=1), *slow], [TextDelta("done")]
    bench = Bench(*steps, tools=Tools().add("t__x"), redactor=REDACTOR, settings=settings)
    _, written = await recorded(bench, stream=True)
    calls = dict.fromkeys(event.call for event in written if isinstance(event.body, ArgumentsDelta))
    kept = [together([event for event in written if event.call == id], ArgumentsDelta) for id in calls]
    assert [json.loads(text) for text in kept] == [{"a": MARK}, {"b": MARK * 3}]


async def test_what_cannot_be_a_secret_is_written_at_once_and_the_rest_when_it_is_known(monkeypatch):
    monkeypatch.setattr(recorder, "_WRITE_INTERVAL_S", 0.002)
    bench = Bench([TextDelta("the"), TextDelta(" key sk"), 0.2, TextDelta("etch"), 0.2, TextDelta("ed")])
    seen: list[str] = []
    async with asyncio.timeout(20), bench.engine.turn(bench.request(kept=False, stream=True)) as batches:
        async for event in flatten(batches):
            if isinstance(event.body, TextDelta) and event.body.text in ("etch", "ed"):
                lines = (await bench.store.read_events(event.turn)).splitlines()
                seen.append(together([decode_event(line) for line in lines], TextDelta))
    assert seen == ["the", "the key sketch"]


async def test_a_key_after_an_escaped_line_end_is_not_written_though_the_two_characters_come_apart():
    pieces = ['{"a": "it is', "\\", "n", *cut(SECRETS["aws"], 2), '"}']
    slow = [item for piece in pieces for item in (CallFragment(0, "", "", piece), 0.02)]
    bench = Bench(
        [call("t__x", ""), *slow],
        [TextDelta("done")],
        tools=Tools().add("t__x"),
        settings={"write_through": True},
    )
    _, written = await recorded(bench, stream=True)
    assert json.loads(together(written, ArgumentsDelta)) == {"a": f"it is\n{MARK}"}


@pytest.mark.parametrize("between", [Status("a moment"), ReasoningDelta("hm "), CallFragment(0, "", "t__x", "")])
async def test_what_is_said_in_the_middle_of_a_secret_has_no_half_of_it_written(between):
    said = [*slowly(cut("it is " + KEY[:20], 7)), between, *slowly(cut(KEY[20:] + " as", 7))]
    bench = Bench(said, [TextDelta("")], tools=Tools().add("t__x"), settings={"write_through": True})
    _, written = await recorded(bench, stream=True)
    assert together(written, TextDelta) == f"it is {MARK} as"


async def test_a_thought_that_ends_like_the_beginning_of_a_key_holds_back_no_answer():
    words = [f" word{number}" for number in range(40)]
    bench = Bench([ReasoningDelta("they want sk-"), *map(TextDelta, words), 30.0], settings={"write_through": True})
    async with asyncio.timeout(20), bench.engine.turn(bench.request(kept=False, stream=True)) as batches:
        async for event in flatten(batches):
            if isinstance(event.body, TextDelta) and event.body.text == words[-1]:
                break
        written = [decode_event(line) for line in (await bench.store.read_events(event.turn)).splitlines()]
    assert together(written, TextDelta).startswith("".join(words[:30]))


class Counting(Redactor):
    looks = 0

    def open_chars(self, text: str) -> int:
        self.looks += 1
        return super().open_chars(text)


@pytest.mark.parametrize("piece", ["-" * 8, ":", "b", "\\", "-----BEGIN "])
def test_what_seems_to_begin_a_secret_over_and_over_is_looked_at_a_few_times(piece):
    counting = Counting(["hunter22"])
    events = [Event("", "turn_x", number, 0, TextDelta(piece), 1) for number in range(500)]
    assert count_writable(events, counting) < 500
    assert counting.looks < 5


async def test_whoever_reads_one_turn_to_its_end_cuts_no_secret_of_another():
    bench = Bench(*[[*map(TextDelta, cut("it is " + KEY[:30], 4)), 0.3, TextDelta(KEY[30:] + " ok")] for _ in range(2)])

    async def said() -> list[Event]:
        async with bench.engine.turn(bench.request(kept=False, stream=True)) as batches:
            return [event async for event in flatten(batches)]

    async def looked() -> None:
        await asyncio.sleep(0.1)
        bench.engine.flush_running_turns(["turn_of_another"])

    async with asyncio.timeout(20):
        first, second, _ = await asyncio.gather(said(), said(), looked())
    for shown in (first, second):
        written = [decode_event(line) for line in (await bench.recorded(shown)).splitlines()]
        assert together(written, TextDelta) == f"it is {MARK} ok"


@SECRET
def test_wherever_a_text_breaks_off_in_a_secret_all_of_that_is_open(secret):
    alone = secret.removeprefix("https").removesuffix("db.local")
    for length in range(1, len(alone)):
        assert REDACTOR.open_chars("it is " + alone[:length]) >= length
    assert REDACTOR.open_chars(f"it is {secret} and on ") == 0


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_what_ends_with_a_full_stop_and_a_space_is_settled(text):
    assert REDACTOR.open_chars(text.replace("-", "") + ". ") == 0


async def test_what_seems_to_be_a_secret_from_one_event_to_another_leaves_both_readable():
    said = "no, it ends with -----END PRIVATE KEY----- there"
    bench = Bench([TextDelta(said)])
    request = bench.request("does it begin with -----BEGIN PRIVATE KEY----- there?", kept=False)
    async with bench.engine.turn(request) as batches:
        shown = [event async for event in flatten(batches)]
    written = [decode_event(line) for line in (await bench.recorded(shown)).splitlines()]
    assert [event.seq for event in written] == [event.seq for event in shown]
    assert together(written, TextDelta) == said
