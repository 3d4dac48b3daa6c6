from __future__ import annotations

from playwright.sync_api import expect

from browser.acting import ask, begin, finished, live


def waiting(page, server, model):
    (server.workspace / "greeting.py").write_text("greeting = 'hello'\nprint(greeting)\n")
    begin(page, server, model)
    live(page)
    turn = ask(page, "do it")
    card = turn.locator("section.approval")
    card.wait_for()
    return turn, card


def test_a_write_is_approved_with_its_diff_in_sight(page, server, picture):
    turn, card = waiting(page, server, "edit")
    expect(card.locator(".diff .minus")).to_have_text("-greeting = 'hello'\n")
    expect(card.locator(".diff .plus")).to_have_text("+greeting = 'good morning'\n")
    expect(card).to_contain_text("ide__edit can change things")
    expect(page.get_by_label("1 waiting")).to_be_visible()
    picture(page, "approval-light")
    card.get_by_role("button", name="Yes", exact=True).click()
    expect(finished(turn)).to_contain_text("The greeting is changed.")
    assert "good morning" in (server.workspace / "greeting.py").read_text()


def test_a_refusal_is_told_to_the_model_with_its_reason(page, server):
    turn, card = waiting(page, server, "shell")
    card.get_by_label("Why not").fill("not on a Sunday")
    card.get_by_role("button", name="No", exact=True).click()
    finished(turn)
    expect(turn.locator(".call .badge")).not_to_have_text("ok")
    turn.locator("summary", has_text="shell__run").click()
    expect(turn.locator(".call-body")).to_contain_text("not on a Sunday")


def test_a_command_is_edited_before_it_runs(page, server):
    turn, card = waiting(page, server, "shell")
    expect(card).to_contain_text("$ touch made-by-model")
    card.get_by_role("button", name="Edit").click()
    card.get_by_label("New command").fill("touch made-by-person")
    card.get_by_role("button", name="Run this").click()
    finished(turn)
    assert (server.workspace / "made-by-person").exists()
    assert not (server.workspace / "made-by-model").exists()


def test_arguments_that_do_not_fit_are_complained_of_and_can_be_written_anew(page, server):
    turn, card = waiting(page, server, "edit")
    card.get_by_role("button", name="Edit").click()
    box = card.get_by_label("New arguments (JSON)")
    right = box.input_value()
    box.fill('{"edits": 3}')
    for _ in range(2):
        card.get_by_role("button", name="Run this").click()
        expect(card.locator(".refused")).to_contain_text("arguments: do not fit ide__edit: edits: ")
    box.fill(right.replace("good morning", "good evening"))
    card.get_by_role("button", name="Run this").click()
    expect(finished(turn)).to_contain_text("The greeting is changed.")
    assert "good evening" in (server.workspace / "greeting.py").read_text()


def test_what_cannot_be_undone_needs_the_word_and_a_click_is_not_enough(page, server):
    turn, card = waiting(page, server, "catastrophe")
    expect(card.get_by_role("button", name="Yes", exact=True)).to_have_count(0)
    card.get_by_role("button", name="Run it").click()
    expect(card.locator(".refused")).to_contain_text('confirm: must be "yes"')
    card.get_by_role("button", name="No", exact=True).click()
    expect(finished(turn).locator(".call .badge")).not_to_have_text("ok")


def test_a_yes_for_the_session_and_the_mode_are_offered_where_they_are(page, server):
    turn, card = waiting(page, server, "shell")
    card.get_by_role("button", name="Yes, for this session").click()
    finished(turn)
    assert (server.workspace / "made-by-model").exists()
    page.get_by_label("Mode", exact=True).select_option("plan")
    with page.expect_request("**/v1/chat/completions") as sent:
        finished(ask(page, "once more"))
    assert sent.value.post_data_json["mode"] == "plan"


def test_keys_answer_the_card_that_has_the_focus(page, server):
    turn, card = waiting(page, server, "shell")
    card.focus()
    page.keyboard.press("n")
    expect(finished(turn).locator(".call .badge")).not_to_have_text("ok")


def test_the_first_of_two_tabs_answers_and_the_other_sees_it(open_page, server):
    page, other = open_page(), open_page()
    turn, _card = waiting(page, server, "edit")
    other.goto(f"{server.url}#/approvals")
    theirs = other.locator("section.approval")
    theirs.wait_for()
    theirs.get_by_role("button", name="Yes", exact=True).click()
    expect(theirs).to_contain_text("Allowed.")
    expect(finished(turn)).to_contain_text("The greeting is changed.")


def test_an_answer_that_comes_second_is_told_what_the_first_one_was(open_page, server):
    """Both tabs press before either hears of the other."""
    page, other = open_page(), open_page()
    waiting(page, server, "edit")
    other.route("**/v1/events", lambda route: route.abort())
    other.goto(f"{server.url}#/approvals")
    theirs = other.locator("section.approval")
    theirs.wait_for()
    statuses: list[int] = []
    other.on("response", lambda reply: statuses.append(reply.status) if reply.request.method == "POST" else None)
    [asked] = server.ask("GET", "/v1/approvals")["data"]
    other.evaluate(
        """async (id) => {
            const yes = [...document.querySelectorAll("section.approval button")].find(b => b.textContent === "Yes");
            await fetch(`/v1/approvals/${id}`, {method: "POST", body: JSON.stringify({choice: "no"})});
            yes.click();
        }""",
        asked["id"],
    )
    expect(theirs).to_contain_text("Refused elsewhere.")
    assert statuses == [200, 409]


def test_a_question_asked_by_any_client_appears_in_the_view(page, server):
    page.goto(f"{server.url}#/approvals")
    live(page)
    expect(page.locator("#main")).to_contain_text("Nothing waits for an answer")
    body = {"model": "shell:shell", "messages": [{"role": "user", "content": "go"}], "stream": True}
    page.evaluate(
        "body => { fetch('/v1/chat/completions', {method: 'POST', body: JSON.stringify(body)}).then(r => r.text()) }",
        body,
    )
    card = page.locator("section.approval")
    expect(card).to_contain_text("$ touch made-by-model")
    card.get_by_role("button", name="No", exact=True).click()
    expect(card).to_contain_text("Refused.")
