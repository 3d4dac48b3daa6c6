"""Model output and tool results are hostile: nothing in them runs, loads, misleads or stalls the page."""

from __future__ import annotations

from playwright.sync_api import expect

from browser.acting import ask, begin, finished


def answered(page, server, model):
    """The answer, with everything the page asked the network for meanwhile."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    begin(page, server, model)
    turn = finished(ask(page, "show me"))
    assert [url for url in asked if not url.startswith((server.url, "data:"))] == []
    assert page.evaluate("window.hacked") is None
    return turn


def test_markup_in_an_answer_is_text(page, server, picture):
    prose = answered(page, server, "hostile").locator(".answer > .prose")
    expect(prose).to_contain_text("<script>window.hacked = 1</script>")
    expect(prose).to_contain_text('<img src=x onerror="window.hacked = 2">')
    assert prose.locator("script, img, svg, iframe, object, style, link, form").count() == 0
    handlers = "nodes => nodes.flatMap(n => [...n.attributes].map(a => a.name)).filter(n => n.startsWith('on'))"
    assert prose.locator("*").evaluate_all(handlers) == []
    picture(page, "hostile")


def test_only_links_to_the_web_and_to_mail_become_links(page, server):
    prose = answered(page, server, "hostile").locator(".answer > .prose")
    links = prose.locator("a").evaluate_all("nodes => nodes.map(n => n.href)")
    assert links == ["https://example.org/", "https://example.org/tracker.png", "https://example.org/up"]
    expect(prose.get_by_role("link", name="image: a picture")).to_be_visible()
    expect(prose).to_contain_text("[click](javascript:window.hacked=4)")


def test_characters_that_reorder_text_are_made_visible(page, server):
    prose = answered(page, server, "hostile").locator(".answer > .prose")
    expect(prose).to_contain_text("‹U+202E›gnp.exe‹U+202C›")
    expect(prose).to_contain_text("‹U+2066›x‹U+2069›")


def test_terminal_sequences_are_taken_out(page, server):
    prose = answered(page, server, "hostile").locator(".answer > .prose")
    expect(prose).to_contain_text("Coloured red and a title  and a link here.")
    assert "\x1b" not in prose.inner_text()


def test_a_line_of_a_megabyte_is_cut_until_asked_for(page, server):
    turn = answered(page, server, "longline")
    prose = turn.locator(".answer > .prose")
    expect(prose).to_contain_text("after")
    assert len(prose.inner_text()) < 70_000
    page.get_by_role("button", name="Show all (1.1 MB)").click()
    assert len(prose.locator("pre").last.text_content()) > 1_000_000


def test_a_tool_result_that_is_a_page_is_shown_as_text(page, server):
    turn = answered(page, server, "htmltool")
    turn.locator("summary", has_text="runtime__echo").click()
    expect(turn.locator(".call-body pre").last).to_contain_text("<script>window.hacked=11</script>")
    assert turn.locator(".call-body h1, .call-body script").count() == 0
    assert page.evaluate("window.hacked") is None
    turn.get_by_role("link", name="Trace").click()
    page.locator(".span-row.call").click()
    expect(page.locator(".detail")).to_contain_text("<script>window.hacked=11</script>")
    assert page.evaluate("window.hacked") is None


def test_the_page_itself_forbids_what_is_not_its_own(open_page, server):
    page = open_page(complaints="Content Security Policy")
    begin(page, server, "short")
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.hacked = 12";
        document.body.append(script);
        const handler = document.createElement("b");
        handler.setAttribute("onclick", "window.hacked = 13");
        document.body.append(handler);
        handler.click();
    }""")
    assert page.evaluate("window.hacked") is None
