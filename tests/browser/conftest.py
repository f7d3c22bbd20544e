"""One Chromium for all tests of the page; each test gets a tab with an empty storage."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.browser.chromium import Chromium, Tab, find_chromium, run_chromium
from tests.browser.endpoint import Endpoint, serve


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    program = find_chromium()
    if program is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    with run_chromium(program) as browser:
        yield browser


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serve(Endpoint()) as one:
        yield one


@dataclass
class Page:
    """The chat page in a tab, used as a person would."""

    tab: Tab
    endpoint: Endpoint

    def send(self, text: str) -> None:
        self.tab.click("#message")
        self.tab.type(text)
        self.tab.press("Enter")

    def ask(self, text: str) -> str:
        """Sends, waits for the end of the answer, and gives its text."""
        number = self.answers()
        self.send(text)
        self.tab.wait(f"document.querySelectorAll('.answered').length === {number + 1}")
        self.settle()
        return self.last()

    def settle(self) -> None:
        self.tab.wait("document.querySelector('.answered:last-of-type .foot') !== null")
        self.tab.wait("document.querySelector('[aria-label=Send]') !== null")

    def answers(self) -> int:
        return int(self.tab.run("document.querySelectorAll('.answered').length"))

    def last(self) -> str:
        return str(
            self.tab.run("[...document.querySelectorAll('.answered .text')].at(-1).innerText")
        )

    def click_label(self, label: str) -> None:
        self.tab.click(f"[aria-label={json.dumps(label)}]")

    def problems(self) -> list[str]:
        """Exceptions, refusals by the content policy, and other complaints of the console."""
        thrown = [json.dumps(item) for item in self.tab.happened("Runtime.exceptionThrown")]
        logged = [item["entry"] for item in self.tab.happened("Log.entryAdded")]
        said = [
            item
            for item in self.tab.happened("Runtime.consoleAPICalled")
            if item["type"] == "error"
        ]
        return [
            *thrown,
            *map(json.dumps, said),
            *(json.dumps(entry) for entry in logged if entry["source"] != "network"),
        ]


@pytest.fixture
def page(chromium: Chromium, endpoint: Endpoint) -> Iterator[Page]:
    with chromium.tab() as tab:
        tab.go(endpoint.url)
        tab.wait("document.querySelector('#message') !== null")
        one = Page(tab, endpoint)
        yield one
        assert one.problems() == []


@pytest.fixture
def hold() -> Iterator[threading.Event]:
    """Let go at the end, so that no server waits for ever."""
    event = threading.Event()
    yield event
    event.set()
