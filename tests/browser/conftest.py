"""One Chromium for all tests of the page; each test gets a tab with an empty storage."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


# What the page takes back by itself, a notice or the word "Copied", stays: a test may be slow.
LASTING = """{
  const wait = window.setTimeout;
  window.setTimeout = (run, milliseconds, ...given) =>
    wait(run, milliseconds >= 1000 ? 1e9 : milliseconds, ...given);
}"""

# Whether something is true of `all` conversations in the browser's database.
KEPT = """new Promise((resolve) => {
  const opened = indexedDB.open('pyrite');
  opened.onupgradeneeded = () => opened.transaction.abort();
  opened.onerror = () => resolve(false);
  opened.onsuccess = () => {
    const found = opened.result.transaction('conversations').objectStore('conversations').getAll();
    found.onsuccess = () => {
      opened.result.close();
      const all = found.result;
      resolve(CONDITION);
    };
  };
})"""


@dataclass
class Page:
    """The chat page in a tab, used as a person would."""

    tab: Tab
    endpoint: Endpoint
    trusts_itself: bool = True  # False where a test attacks the page on purpose

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
        self.tab.wait(
            "!![...document.querySelectorAll('.answered')].at(-1)?.querySelector('.foot')"
        )
        self.tab.wait("document.querySelector('[aria-label=Send]') !== null")

    def wait_kept(self, condition: str) -> None:
        """Until it is true of `all` conversations as they are on disk: a page may go before."""
        self.tab.wait(KEPT.replace("CONDITION", condition))

    def answers(self) -> int:
        return int(self.tab.run("document.querySelectorAll('.answered').length"))

    def last(self) -> str:
        """The text of the last answer."""
        answer = "[...document.querySelectorAll('.answered')].at(-1)"
        return str(self.tab.run(f"{answer}.querySelector('.text')?.innerText ?? ''"))

    def click_label(self, label: str) -> None:
        self.tab.click(f"[aria-label={json.dumps(label)}]")

    def bring_in(self, folder: Path, conversations: list[dict[str, Any]]) -> None:
        """Imports conversations from a file in this folder."""
        file = folder / "conversations.json"
        content = {"format": "pyrite-conversations", "version": 1, "conversations": conversations}
        file.write_text(json.dumps(content))
        self.tab.choose_file("input[type=file]", file)
        self.tab.wait("document.querySelector('.notice')?.innerText.includes('imported')")

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

    def foreign_requests(self) -> list[str]:
        """Addresses asked for that are not the page's own three, or that it carries within it."""
        url = self.endpoint.url
        known = {url, f"{url}v1/models", f"{url}v1/chat/completions"}
        asked = [item["request"]["url"] for item in self.tab.happened("Network.requestWillBeSent")]
        asked = [one.partition("?")[0] for one in asked if not one.startswith(("data:", "blob:"))]
        return [one for one in asked if one not in known]


@pytest.fixture
def page(chromium: Chromium, endpoint: Endpoint) -> Iterator[Page]:
    with chromium.tab() as tab:
        tab.call("Page.addScriptToEvaluateOnNewDocument", source=LASTING)
        tab.go(endpoint.url)
        tab.wait("document.querySelector('.top .model-name') !== null")
        one = Page(tab, endpoint)
        yield one
        if one.trusts_itself:
            assert one.problems() == []
            assert one.foreign_requests() == []


@pytest.fixture
def hold() -> Iterator[threading.Event]:
    """Let go at the end, so that no server waits for ever."""
    event = threading.Event()
    yield event
    event.set()
