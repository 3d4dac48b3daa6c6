from __future__ import annotations

import pytest
from playwright.sync_api import expect

from browser.acting import ask, finished, live
from browser.console_server import console
from support.models import model_cache  # noqa: F401  a fixture

pytest.importorskip("xllamacpp")


def test_the_embedded_model_answers_in_the_page(tmp_path, page, model_cache, picture):  # noqa: F811
    home = tmp_path / "embedded"
    (home / ".cache" / "aish").mkdir(parents=True)
    (home / ".cache" / "aish" / "models").symlink_to(model_cache.find("smollm2").parent)
    with console(home) as server:
        page.goto(server.url)
        page.locator("select.model option[value='embedded:smollm2']").wait_for(state="attached")
        page.get_by_label("Model").select_option("embedded:smollm2")
        live(page)
        page.get_by_role("button", name="Tools").click()
        page.get_by_role("button", name="None").click()
        page.keyboard.press("Escape")
        turn = ask(page, "What is the capital of France? Answer in one short sentence.")
        expect(turn.get_by_role("button", name="Retry")).to_be_visible(timeout=90_000)
        expect(finished(turn).locator(".prose")).to_contain_text("Paris")
        expect(turn.locator(".turn-foot")).to_contain_text("first token")
        picture(page, "embedded")
