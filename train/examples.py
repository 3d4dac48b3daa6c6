"""Examples by the ten thousand: which tools stand in a prompt, what is asked, and what the right answer is.

Shares: about a third whole requests written by hand, three tenths such with slots and tools of open data, three tenths
requests that no tool serves and plain talk, the rest results to tell of and requests that take two calls.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from aish.engine.prompt.composer import BASE
from aish.types.messages import AssistantMessage, Message, SystemMessage, TextPart, ToolCall, ToolMessage, user
from aish.types.tools import ToolSpec
from train.altered import altered_request, displayed, learn_examples
from train.forms import reformed
from train.frames import Asked, Written, asked, language_of, read_small_talk, read_tools
from train.likeness import distinct, stems, words_of
from train.measured import is_measured, measured_requests
from train.natural import aspect_of, spaced
from train.open_data import Pair, made_request, restyled, seal_fields, seal_requests, seal_tools, tldr_requests
from train.options import with_options
from train.render import Example, answer, call
from train.replies import after_result, no_tool
from train.slots import SLOTS
from train.voices import authored, spoken
from train.whole import Whole, tongue_of
from train.whole_examples import Drawn, WholeRequests

_SYSTEMS = (
    BASE,
    BASE,
    BASE,
    BASE,
    "",
    "You are a helpful assistant.",
    "You are an assistant with access to tools.",
    "Be brief.",
    f"{BASE}\n\nThe user's shell is bash on Linux.",
)
# They may serve nearly any request: where no tool is to fit, they are not among those offered.
_GENERAL = {
    "web_search",
    "wiki_article",
    "shell__run",
    "unit_convert",
    "http_request",
    "sql_query",
    "translate_text",
    "news_search",
    "image_generate",
    "note_create",
    "ide__search",
    "runtime__echo",
    "law_search",
    "email_send",
    "message_send",
    "quiz_question",
    "define_word",
    "summarize_url",
}
_SIZES = (1,) * 42 + (2,) * 14 + (3,) * 14 + (4,) * 12 + (5,) * 6 + (6,) * 5 + (8,) * 4 + (12,) * 3
_AND = (" and ", ", and ", ". Then ", ", then ", ". Also, ", " and also ", "; after that ", ". And ")
_AGAIN = {
    "en": ("and {}?", "what about {}?", "And for {}?", "now {}", "the same for {} please", "How about {}?", "{} too"),
    "de": ("und {}?", "Und für {}?", "das Gleiche für {}", "Und was ist mit {}?"),
    "zh": ("那{}呢？", "{}呢？", "{}也一样"),
}
_NAMELESS = Written("", "", "", (), ())  # for results that do not depend on the tool
_UNSEEN_EVERY = 40  # of the open tools, one in so many is only measured


class Maker:
    def __init__(self, source: Path, whole: Sequence[Whole], rng: random.Random) -> None:
        self._rng = rng
        self._whole_requests = WholeRequests(whole, self._strangers, rng)
        measured = measured_requests()
        self._tools = [_unmeasured(written, measured) for written in read_tools()]
        self._talk = read_small_talk()
        seal = seal_tools(source)
        self._unseen = list(seal.values())[::_UNSEEN_EVERY]
        unseen = {spec.name for spec in self._unseen}
        self._open = [spec for spec in seal.values() if spec.name not in unseen]
        self._asked_open = [pair for pair in seal_requests(source, seal) if pair[0].name not in unseen]
        commands = list(tldr_requests(source, rng))
        fields = seal_fields(source)
        self._fields: dict[str, list[ToolSpec]] = {}
        for spec in self._open:
            self._fields.setdefault(fields[spec.name], []).append(spec)
        self._field_of = fields
        self._aspects = [spec for spec in self._open if aspect_of(spec.description)]
        learn_examples(self._open)
        self._commands = rng.sample(commands, min(4000, len(commands)))

    def examples(self, size: int) -> Iterator[Example]:
        """In the order of chance, each kind with its share."""
        whole = 1.0 if self._whole_requests else 0.0
        kinds = (
            (self._whole, 0.32 * whole), (self._whole_refused, 0.12 * whole), (self._whole_elsewhere, 0.06 * whole),
            (self._by_hand, 0.16), (self._altered, 0.12), (self._from_seal, 0.005), (self._from_seal_requests, 0.01),
            (self._from_tldr, 0.01), (self._other_tools, 0.03), (self._talked, 0.05), (self._near_miss, 0.04),
            (self._result, 0.03), (self._two_calls, 0.04), (self._sibling, 0.02), (self._open_sibling, 0.02),
            (self._other_aspect, 0.03), (self._follow_up, 0.02),
        )  # fmt: skip
        makers, weights = zip(*kinds, strict=True)
        made = 0
        while made < size:
            example = self._rng.choices(makers, weights)[0]()
            if example is not None:
                made += 1
                yield example

    def unseen_tools(self) -> Iterator[Example]:
        for spec in self._unseen:
            if found := made_request(spec, self._rng):
                yield self._example("unseen", found[0], (spec,), call(spec, found[1]))

    def unseen_whole(self, whole: Sequence[Whole]) -> Iterator[Example]:
        for one in whole:
            for said, given in one.asks:
                tools = (one.spec, *self._strangers(self._rng.choice((0, 0, 1, 2, 3))))
                yield self._example("whole", said, tools, call(one.spec, given))
            for said in one.refused:
                right = answer(no_tool(tongue_of(said), random.Random(1)))  # as it is said most often
                yield self._example("whole refusal", said, (one.spec,), right)

    def _whole(self) -> Example:
        drawn = self._whole_requests.call(self._size())
        right = call(drawn.tools[0], drawn.given or {})
        return self._example("call", drawn.said, drawn.tools, right, history=True)

    def _whole_refused(self) -> Example:
        return self._declined(self._whole_requests.refused(self._size()))

    def _whole_elsewhere(self) -> Example | None:
        drawn = self._whole_requests.elsewhere()
        return self._declined(drawn) if drawn else None

    def _declined(self, drawn: Drawn) -> Example:
        return self._example("refusal", drawn.said, drawn.tools, answer(no_tool(drawn.tongue, self._rng)))

    def _by_hand(self) -> Example:
        written, ask = self._draw()
        version, said, given = self._filled(written, ask)
        others = self._others(written, self._size() - 1)
        return self._example("call", said, (version.spec, *others), call(version.spec, given), history=True)

    def _from_seal(self) -> Example | None:
        spec = self._rng.choice(self._open)
        found = made_request(spec, self._rng)
        return self._of_open((spec, *found)) if found else None

    def _altered(self) -> Example | None:
        """An open tool put in other words, among others of its field."""
        spec = self._rng.choice(self._open)
        if (found := altered_request(spec, self._rng)) is None:
            return None
        version, said, given = found
        field = self._fields[self._field_of[spec.name]]
        words, others = stems(said), []
        for _ in range(self._size() - 1):
            other = self._rng.choice(field if self._rng.random() < 0.5 else self._open)
            if other is not spec and stems(spaced(other.name)) - words - stems(spaced(spec.name)):
                others.append(displayed(other, self._rng))
        return self._example("call", said, (version, *others), call(version, given), history=True)

    def _open_sibling(self) -> Example | None:
        """A request for an open tool, and others of its field: each is about something that the other lacks."""
        spec = self._rng.choice(self._open)
        if (found := altered_request(spec, self._rng)) is None:
            return None
        own, said = stems(f"{spaced(spec.name)} {spec.description}"), stems(found[1])
        field, offered = self._fields[self._field_of[spec.name]], []
        for other in self._rng.sample(field, min(10, len(field))):
            lacking = (stems(spaced(spec.name)) & said) - words_of(other)
            if lacking and stems(spaced(other.name)) - said - own:
                offered.append(displayed(other, self._rng))
        if not offered:
            return None
        count = self._rng.choice((1, 1, 1, 1, 2, 3))
        return self._example("refusal", found[1], offered[:count], answer(no_tool("en", self._rng)))

    def _other_aspect(self) -> Example | None:
        """A request for the height of a tower, and a tool that knows its age."""
        spec = self._rng.choice(self._aspects)
        verb, own, thing = aspect_of(spec.description) or ("", "", "")
        field = [other for other in self._fields[self._field_of[spec.name]] if aspect_of(other.description)]
        for other in self._rng.sample(field, min(6, len(field))):
            _, wanted, _ = aspect_of(other.description) or ("", "", "")
            if not stems(wanted) & words_of(spec) and not stems(own) & stems(wanted):
                break
        else:
            return None
        if (found := altered_request(spec, self._rng, f"{verb}the {wanted}{thing}")) is None:
            return None
        offered = [found[0]]
        if self._rng.random() < 0.2:
            offered += self._unlike(f"{found[1]} {spec.description}", "", self._rng.randint(1, 2))
        return self._example("refusal", found[1], offered, answer(no_tool("en", self._rng)))

    def _from_seal_requests(self) -> Example:
        return self._of_open(self._rng.choice(self._asked_open))

    def _from_tldr(self) -> Example:
        return self._of_open(self._rng.choice(self._commands))

    def _of_open(self, pair: Pair) -> Example:
        spec, said, given = pair
        spec, given = restyled(spec, given, self._rng)
        others = [other for other in self._strangers(self._size() - 1) if other.name != spec.name]
        return self._example("call", said, (spec, *others), call(spec, given))

    def _other_tools(self) -> Example:
        """A good request, and tools that cannot serve it."""
        if self._rng.random() < 0.25:
            spec, said, _ = self._rng.choice(self._asked_open)
            offered = self._unlike(f"{spec.name} {spec.description} {said}", "", self._size())
            return self._example("refusal", said, offered, answer(no_tool("en", self._rng)))
        written, ask = self._draw()
        found = asked(written, ask, self._rng)
        offered = self._unlike(f"{written.name} {written.about} {ask}", written.domain, self._size())
        language = found.language
        return self._example("refusal", spoken(found, self._rng), offered, answer(no_tool(language, self._rng)))

    def _sibling(self) -> Example | None:
        """A good request, and another tool of its field: the request names something that this tool lacks, and the
        tool is about something that the request lacks."""
        written, ask = self._draw()
        own, said = stems(f"{written.name} {written.about}".replace("_", " ")), stems(ask)
        field = [w for w in self._tools if w.domain == written.domain and w.name not in _GENERAL]
        for other in self._rng.sample(field, min(8, len(field))):
            names_lacking = (own & said) - words_of(other.spec)
            if names_lacking and stems(other.name.replace("_", " ")) - said - own:
                break
        else:
            return None
        found = asked(written, ask, self._rng)
        offered = [authored(other, self._rng)[0].spec]
        if self._rng.random() < 0.35:
            offered += self._unlike(f"{written.name} {written.about} {ask}", written.domain, self._rng.randint(1, 3))
        return self._example("refusal", spoken(found, self._rng), offered, answer(no_tool(found.language, self._rng)))

    def _talked(self) -> Example:
        _, said, reply = self._rng.choice(self._talk)
        if self._rng.random() < 0.15:
            said = said.lower().rstrip("?!.") or said
        general = [w for w in self._tools if w.name.startswith(("runtime__", "shell__", "ide__"))]
        offered = [authored(w, self._rng)[0].spec for w in self._rng.sample(self._tools, self._size())]
        if self._rng.random() < 0.35:
            offered = [w.spec for w in self._rng.sample(general, self._rng.randint(1, 6))]
        words = stems(said)
        fitting = [spec for spec in offered if not words & words_of(spec)]
        return self._example("talk", said, fitting or [self._open[0]], answer(reply), history=True)

    def _near_miss(self) -> Example:
        """A request that looks like the tool's and is not."""
        written = self._rng.choice([w for w in self._tools if w.refused])
        language, said = language_of(self._rng.choice(written.refused))
        version, _ = authored(written, self._rng)
        offered = (version.spec, *self._unlike(f"{written.name} {said}", written.domain, self._size() - 1))
        voiced = spoken(Asked([said], []), self._rng) if language == "en" else said
        return self._example("refusal", voiced, offered, answer(no_tool(language, self._rng)))

    def _result(self) -> Example:
        """The call was made, its result is there: the user is told."""
        written, ask = self._draw()
        version, said, given = self._filled(written, ask)
        result, reply = after_result(written.name, given, self._rng)
        made = self._made(version.spec, given, result)
        offered = (version.spec, *self._others(written, self._size() - 1))
        return self._example("result", said, offered, answer(reply), after=made)

    def _two_calls(self) -> Example:
        """Two things in one request, one call an answer: the first, then the other, then what came of both."""
        first, second = self._draw(), self._draw()
        (one, said_one, given_one), (two, said_two, given_two) = self._filled(*first), self._filled(*second)
        said = said_one.rstrip(" .!?") + self._rng.choice(_AND) + said_two
        offered = (one.spec, two.spec, *self._others(first[0], self._size() - 1))
        results = [after_result(w.name, {}, self._rng) for w in (_NAMELESS, _NAMELESS)]
        stage = self._rng.choice((0, 1, 1, 2))
        after: tuple[Message, ...] = ()
        if stage:
            after = self._made(one.spec, given_one, results[0][0])
        if stage == 2:
            after = (*after, *self._made(two.spec, given_two, results[1][0]))
        told = answer(f"{results[0][1]} {results[1][1]}")
        right = (call(one.spec, given_one), call(two.spec, given_two), told)[stage]
        return self._example("call" if stage < 2 else "result", said, offered, right, after=after)

    def _follow_up(self) -> Example | None:
        """After a call, the same again with one thing changed, in few words."""
        written, ask = self._draw()
        version, said, given = self._filled(written, ask)
        slots = [a for a in version.arguments if a.slot and isinstance(given.get(a.name), str) and a.slot in SLOTS]
        if not slots or language_of(ask)[0] not in _AGAIN:
            return None
        language, changed = language_of(ask)[0], self._rng.choice(slots)
        if changed.slot in ("date", "time") or str(given[changed.name]) not in said:
            return None
        spoken_value, value = (SLOTS.get(f"{language} {changed.slot}") or SLOTS[changed.slot])(self._rng)
        result, reply = after_result(written.name, given, self._rng)
        past = (user(said), *self._made(version.spec, given, result), AssistantMessage(reply))
        offered = [version.spec, *self._others(written, self._size() - 1)]
        again = self._rng.choice(_AGAIN[language]).format(spoken_value)
        right = call(version.spec, {**given, changed.name: value})
        example = self._example("call", again, offered, right)
        opening, asked_now = example.messages[:-1], example.messages[-1]
        return replace(example, messages=(*opening, *past, asked_now))

    def _made(self, spec: ToolSpec, given: dict[str, Any], result: str) -> tuple[Message, ...]:
        arguments = call(spec, given).partition('"arguments": ')[2][:-1]
        return (
            AssistantMessage("", (ToolCall("call_1", spec.name, arguments),)),
            ToolMessage("call_1", spec.name, (TextPart(result),)),
        )

    def _draw(self) -> tuple[Written, str]:
        """Tools with more ways of asking come up more often, but not by as much."""
        written = self._rng.choices(self._tools, [len(w.asks) ** 0.6 for w in self._tools])[0]
        return written, self._rng.choice(written.asks)

    def _filled(self, written: Written, ask: str) -> tuple[Written, str, dict[str, Any]]:
        found = asked(written, ask, self._rng)
        version, names = authored(written, self._rng)
        given = found.arguments = {names.get(name, name): value for name, value in found.arguments.items()}
        given = {**given, **with_options(version, found, self._rng)}
        version, given = reformed(version, given, self._rng)
        return version, spoken(found, self._rng), given

    def _size(self) -> int:
        return self._rng.choice(_SIZES)

    def _others(self, written: Written, count: int) -> list[ToolSpec]:
        """Half of them of the same domain."""
        near = [w for w in self._tools if w.domain == written.domain and w.name != written.name]
        chosen = [self._rng.choice(near if self._rng.random() < 0.55 else self._tools) for _ in range(count)]
        return [authored(w, self._rng)[0].spec for w in chosen if w.name != written.name]

    def _strangers(self, count: int) -> list[ToolSpec]:
        chosen = [self._rng.choice(self._open) for _ in range(count)]
        return [
            displayed(spec, self._rng) if self._rng.random() < 0.6 else restyled(spec, {}, self._rng)[0]
            for spec in chosen
        ]

    def _unlike(self, text: str, domain: str, count: int) -> tuple[ToolSpec, ...]:
        """Tools that share no word with the request's own tool; some of the same domain."""
        words = stems(text)
        offered: list[ToolSpec] = []
        for _ in range(count * 6):
            if len(offered) == count:
                break
            if self._rng.random() < 0.3:
                spec = self._strangers(1)[0]
                if not words & words_of(spec):
                    offered.append(spec)
                continue
            same = [w for w in self._tools if w.domain == domain] if self._rng.random() < 0.5 else []
            written = self._rng.choice(same or self._tools)
            if written.name not in _GENERAL and not words & words_of(written.spec):
                offered.append(authored(written, self._rng)[0].spec)
        return distinct(offered) or tuple(self._strangers(min(1, count)))

    def _example(
        self,
        kind: str,
        said: str,
        tools: Sequence[ToolSpec],
        right: str,
        *,
        after: tuple[Message, ...] = (),
        history: bool = False,
    ) -> Example:
        first, *rest = distinct(tools)
        offered = [first, *rest]
        self._rng.shuffle(offered)
        system = self._rng.choice(_SYSTEMS)
        opening: tuple[Message, ...] = (SystemMessage(system),) if system else ()
        if history and self._rng.random() < 0.1:
            opening = (*opening, *self._past())
        return Example(kind, (*opening, user(said), *after), tuple(offered), right)

    def _past(self) -> tuple[Message, ...]:
        """An exchange before this one."""
        if self._rng.random() < 0.5:
            _, said, reply = self._rng.choice(self._talk)
            return user(said), AssistantMessage(reply)
        written, ask = self._draw()
        found = asked(written, ask, self._rng)
        result, reply = after_result(written.name, found.arguments, self._rng)
        return user(found.text), *self._made(written.spec, found.arguments, result), AssistantMessage(reply)


def _unmeasured(written: Written, measured: frozenset[str]) -> Written:
    """Without the requests that one of the measured ones could have come from."""
    asks = tuple(ask for ask in written.asks if not is_measured(ask, measured))
    return replace(written, asks=asks)
