"""The renderer by itself: drawn as it comes or all at once, text gives the same page, and never anything but text."""

from __future__ import annotations

import random

import pytest

from browser.scripts import MARKDOWN

FRAGMENTS = [
    "# head", "## two ##", "plain words", "**strong", "strong**", "*em*", "_em_", "snake_case_name", "`code`",
    "``a`b``", "~~no~~", "- item", "  - nested", "1. one", "2) two", "> quote", "> - in quote", "```", "```js", "~~~",
    "    indented", "---", "***", "| a | b |", "|---|:-:|", "| 1 | 2 |", "a | b", "[x](https://e.org)",
    "![i](http://e.org/i.png)", "[bad](javascript:1)", "<script>hacked=1</script>", "<img src=x onerror=hacked=1>",
    "https://e.org/a_b?c=d.", "\\*not em\\*", "  ", "\t", "\x1b[31mred", "\u202eback", "&lt;b&gt;", "<https://e.org>",
    "](", "[[", "**", "__", "``", "|", "\\", "end  ",
]  # fmt: skip
ALLOWED = {
    "DIV", "P", "H3", "H4", "H5", "H6", "HR", "BLOCKQUOTE", "UL", "OL", "LI", "TABLE", "THEAD", "TBODY", "TR", "TH",
    "TD", "PRE", "CODE", "STRONG", "EM", "S", "A", "BR", "SPAN", "BUTTON",
}  # fmt: skip

COMPARE = """async ({texts, cuts}) => {
    const {MarkdownStream} = await import("/console/markdown_stream.js");
    const frame = () => new Promise(requestAnimationFrame);
    const odd = [], tags = new Set(), names = new Set();
    for (let at = 0; at < texts.length; at += 20) {
        const batch = texts.slice(at, at + 20).map((text, place) => {
            return {text, cuts: cuts[at + place], stream: new MarkdownStream()};
        });
        for (let piece = 0; piece < 8; piece++) {
            for (const one of batch) one.stream.push(one.text.slice(one.cuts[piece], one.cuts[piece + 1]));
            await frame();
        }
        for (const one of batch) {
            one.stream.end();
            one.whole = MarkdownStream.whole(one.text);
        }
        // What does not fit into one frame is drawn in the next.
        while (batch.some((one) => one.stream.frame || one.whole.frame)) await frame();
        for (const one of batch) {
            const whole = one.whole.node;
            const same = (node) => { node.normalize(); return node.innerHTML; };
            if (same(whole) !== same(one.stream.node)) odd.push([one.text, same(whole), same(one.stream.node)]);
            for (const node of whole.querySelectorAll("*")) {
                tags.add(node.tagName);
                for (const attribute of node.attributes) names.add(attribute.name);
            }
        }
    }
    return {odd: odd.slice(0, 3), tags: [...tags], names: [...names], hacked: window.hacked ?? null};
}"""


def texts(seed: int, count: int) -> list[str]:
    chance = random.Random(seed)
    ends = ["\n", "\n", "\n\n", " ", ""]
    return [
        "".join(chance.choice(FRAGMENTS) + chance.choice(ends) for _ in range(chance.randint(1, 14)))
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_text_in_pieces_is_drawn_as_text_at_once(page, server, seed):
    chance = random.Random(seed)
    made = texts(seed, 300)
    cuts = [[0, *sorted(chance.randint(0, len(text)) for _ in range(7)), len(text)] for text in made]
    page.goto(server.url)
    seen = page.evaluate(COMPARE, {"texts": made, "cuts": cuts})
    assert seen["odd"] == []
    assert set(seen["tags"]) <= ALLOWED
    assert not [name for name in seen["names"] if name.startswith("on") or name in ("src", "style", "srcdoc")]
    assert seen["hacked"] is None


SLOW = (
    *("*" * 20_000, "[" * 20_000, "`" * 20_000, "#" * 20_000, "> " * 5_000 + "x", "- " * 5_000 + "x", "<a" * 10_000),
    *("**a " * 5_000, "~~a " * 5_000, "_a " * 5_000, "[a](" * 5_000, "\x1b]" * 10_000),
    "|" * 5_000 + "\n" + "|-" * 5_000,
)


@pytest.mark.parametrize("text", SLOW, ids=lambda text: text[:4].encode("unicode_escape").decode())
def test_no_text_makes_the_renderer_slow(page, server, text):
    """Deadlines are generous; what is meant to be caught takes minutes."""
    page.goto(server.url)
    took_ms = page.evaluate(
        """async (text) => {
            const {MarkdownStream} = await import("/console/markdown_stream.js");
            const begun = performance.now();
            MarkdownStream.whole(text);
            return performance.now() - begun;
        }""",
        text,
    )
    assert took_ms < 2000


EVERY_CUT = """async (text) => {
    const {MarkdownStream} = await import("/console/markdown_stream.js");
    const frame = () => new Promise(requestAnimationFrame);
    const whole = MarkdownStream.whole(text);
    const streams = [...text].map(() => new MarkdownStream());
    streams.forEach((stream, cut) => stream.push(text.slice(0, cut)));
    while (streams.some((stream) => stream.frame) || whole.frame) await frame();
    streams.forEach((stream, cut) => { stream.push(text.slice(cut)); stream.end(); });
    while (streams.some((stream) => stream.frame)) await frame();
    const same = (node) => { node.normalize(); return node.innerHTML; };
    return streams.map((stream, cut) => [cut, same(stream.node) === same(whole.node)]).filter(([, is]) => !is);
}"""


def test_an_answer_may_break_off_anywhere_and_go_on(page, server):
    page.goto(server.url)
    assert page.evaluate(EVERY_CUT, MARKDOWN) == []
