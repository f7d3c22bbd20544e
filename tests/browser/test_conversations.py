"""Conversations stay in the browser: over reloads, broken answers, full disks and other windows."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

from tests.browser.conftest import Page
from tests.browser.endpoint import Hold, delta, plain
from tests.patience import PATIENCE

TITLES = "[...document.querySelectorAll('.head-title')].map((one) => one.innerText)"


def test_a_conversation_outlives_a_reload(page: Page) -> None:
    page.ask("Keep this")
    page.wait_kept("all[0]?.messages.at(-1).content === 'Hello.'")
    page.tab.go(page.endpoint.url)
    page.tab.click(".head-title")
    page.tab.wait("document.querySelector('.said-text')?.innerText === 'Keep this'")
    assert page.last() == "Hello."


def test_half_an_answer_outlives_the_page(page: Page, hold: threading.Event) -> None:
    page.endpoint.scripts.append([delta(content="Half an answer"), Hold(hold)])
    page.send("Hi")
    page.wait_kept("all[0]?.messages.at(-1).content === 'Half an answer'")  # each second
    page.tab.go(page.endpoint.url)
    page.tab.click(".head-title")
    page.tab.wait("document.querySelector('.answered .text')?.innerText === 'Half an answer'")
    page.ask("Go on")
    assert page.endpoint.asked[1]["messages"][1]["content"] == "Half an answer"


def test_an_answer_goes_on_behind_another_conversation(page: Page, hold: threading.Event) -> None:
    page.endpoint.scripts.append([delta(content="One"), Hold(hold), *plain(" two.")[1:]])
    page.send("First")
    page.tab.wait("document.querySelector('.answered .text')?.innerText === 'One'")
    page.tab.click(".new")
    page.tab.wait("document.querySelector('.welcome') !== null")
    assert page.ask("Second") == "Hello."
    hold.set()
    page.tab.wait("document.querySelector('.dot') === null")
    page.tab.run(
        "[...document.querySelectorAll('.head-title')].find((one) => "
        "one.innerText === 'First').click()"
    )
    page.tab.wait("document.querySelector('.answered .text')?.innerText === 'One two.'")


def test_rename(page: Page) -> None:
    page.ask("Hi")
    page.click_label("Actions for Hi")
    page.tab.wait("document.activeElement.innerText === 'Rename'")
    page.tab.press("Enter")
    page.tab.wait("document.activeElement.matches('.rename')")
    page.tab.type("Another name")
    page.tab.press("Enter")
    page.tab.wait(f"({TITLES})[0] === 'Another name'")
    page.wait_kept("all[0].title === 'Another name'")
    page.tab.go(page.endpoint.url)
    page.tab.wait(f"({TITLES})[0] === 'Another name'")


def delete_first(page: Page) -> None:
    page.tab.click(".head .icon-button")
    page.tab.click(".menu-list .danger")


def test_delete_and_undo(page: Page) -> None:
    page.ask("Hi")
    delete_first(page)
    page.tab.wait("document.querySelector('.welcome') !== null")
    page.tab.wait(f"({TITLES}).length === 0")
    page.tab.click(".notice .link")
    page.tab.wait(f"({TITLES})[0] === 'Hi'")
    delete_first(page)
    page.tab.wait(f"({TITLES}).length === 0")
    page.wait_kept("all.length === 0")
    page.tab.go(page.endpoint.url)
    page.tab.wait("document.querySelector('.nothing') !== null")


def test_deleting_stops_the_answer_and_it_stays_deleted(page: Page, hold: threading.Event) -> None:
    page.endpoint.scripts.append([delta(content="Half"), Hold(hold)])
    page.send("Hi")
    page.tab.wait("document.querySelector('.answered .text') !== null")
    delete_first(page)
    assert page.endpoint.gone.wait(PATIENCE)
    time.sleep(0.3)
    page.tab.go(page.endpoint.url)
    page.tab.wait("document.querySelector('.nothing') !== null")


def test_search_finds_what_was_said(page: Page) -> None:
    page.endpoint.scripts += [plain("About foxes."), plain("About geese.")]
    page.ask("First")
    page.tab.click(".new")
    page.ask("Second")
    page.tab.click("[type=search]")
    page.tab.type("GEESE about")
    page.tab.wait(f"JSON.stringify({TITLES}) === '[\"Second\"]'")
    page.tab.type(" nowhere")
    page.tab.wait("document.querySelector('.nothing')?.innerText === 'Nothing found.'")


def test_export_and_import(page: Page, tmp_path: Path) -> None:
    page.tab.browser.call(
        "Browser.setDownloadBehavior",
        behavior="allow",
        downloadPath=str(tmp_path),
        browserContextId=page.tab.context,
    )
    page.ask("Keep this")
    page.click_label("Export all conversations")
    file = wait_for_file(tmp_path, "pyrite-*.json")
    (exported,) = json.loads(file.read_text())["conversations"]
    assert [one["content"] for one in exported["messages"]] == ["Keep this", "Hello."]
    page.click_label("Actions for Keep this")
    page.tab.run("document.querySelectorAll('.menu-list button')[1].click()")
    assert "## You\n\nKeep this" in wait_for_file(tmp_path, "Keep-this.md").read_text()
    delete_first(page)
    page.tab.wait(f"({TITLES}).length === 0")
    page.bring_in(tmp_path, [exported])
    page.tab.wait(f"({TITLES})[0] === 'Keep this'")


def wait_for_file(folder: Path, pattern: str) -> Path:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := [path for path in folder.glob(pattern) if path.stat().st_size]:
            return found[0]
        time.sleep(0.02)
    raise TimeoutError(f"no {pattern} in {folder}")


def test_a_foreign_file_is_refused(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"a": 1}')
    page.tab.choose_file("input[type=file]", file)
    page.tab.wait("document.querySelector('.notice')?.innerText.includes('Nothing was imported')")


def start_with(page: Page, script: str) -> None:
    """Loads the page anew, in a browser that is changed by the script."""
    page.tab.call("Page.addScriptToEvaluateOnNewDocument", source=script)
    page.tab.go(page.endpoint.url + "?changed")
    page.tab.wait("document.querySelector('#message') !== null")


def test_a_full_disk_is_said_and_nothing_is_lost_on_the_page(page: Page) -> None:
    start_with(
        page,
        "IDBObjectStore.prototype.put = () => {"
        " throw new DOMException('full', 'QuotaExceededError'); };"
        "Storage.prototype.setItem = () => {"
        " throw new DOMException('full', 'QuotaExceededError'); };",
    )
    assert page.ask("Hi") == "Hello."
    assert "no more room" in page.tab.text(".notice")
    page.click_label("Settings")
    page.tab.wait("document.activeElement.matches('.system')")
    page.tab.type("Be brief.")
    assert page.ask("Again") == "Hello."
    assert page.endpoint.asked[1]["messages"][0]["content"] == "Be brief."


def test_without_storage_it_works_in_memory_and_says_so(page: Page) -> None:
    start_with(page, "Object.defineProperty(window, 'indexedDB', { value: undefined })")
    page.tab.wait("document.querySelector('.welcome').innerText.includes('until you leave')")
    assert page.ask("Hi") == "Hello."
    page.tab.click(".new")
    page.tab.click(".head-title")
    page.tab.wait("document.querySelector('.said-text')?.innerText === 'Hi'")


def test_what_is_loaded_before_the_first_paint_is_shown(page: Page) -> None:
    late = "const set = setTimeout; setTimeout = (does, ms = 0) => set(does, ms + 2000);"
    start_with(page, late + "window.requestAnimationFrame = (does) => setTimeout(does, 0);")
    page.tab.wait("document.querySelector('.model-name') !== null")


def test_another_window_sees_what_was_written(page: Page) -> None:
    other = page.tab.browser.another_tab(page.tab.context)
    other.go(page.endpoint.url)
    other.wait("document.querySelector('.nothing') !== null")
    page.ask("From the first window")
    other.wait(f"({TITLES})[0] === 'From the first window'")
