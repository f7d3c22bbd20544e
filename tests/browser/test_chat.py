"""The chat page in a browser."""

from __future__ import annotations

from tests.browser.conftest import Page
from tests.browser.endpoint import MODEL


def test_a_question_is_answered(page: Page) -> None:
    assert page.ask("Hi") == "Hello."
    page.tab.wait(f"document.querySelector('.top .model-name').innerText === '{MODEL}'")
    assert page.endpoint.asked[0]["messages"] == [{"role": "user", "content": "Hi"}]
