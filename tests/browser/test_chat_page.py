"""The chat page as a person uses it: asking, stopping, asking again, and what may go wrong."""

from __future__ import annotations

import threading

import pytest
from tests.browser.chromium import SHIFT
from tests.browser.conftest import Page
from tests.browser.endpoint import (
    DONE,
    MODEL,
    DroppedError,
    Hold,
    Refusal,
    delta,
    event,
    plain,
    usage,
)
from tests.patience import PATIENCE, until


def test_a_question_is_answered(page: Page) -> None:
    assert page.ask("Hi") == "Hello."
    page.tab.wait(f"document.querySelector('.top .model-name').innerText === '{MODEL}'")
    asked = page.endpoint.asked[0]
    assert asked["messages"] == [{"role": "user", "content": "Hi"}]
    assert asked["stream"] is True
    assert asked["stream_options"] == {"include_usage": True}
    assert asked["model"] == MODEL
    assert asked.keys() == {"messages", "stream", "stream_options", "model"}


def test_what_was_said_before_is_sent_again(page: Page) -> None:
    page.ask("Hi")
    page.ask("And now?")
    roles = [(one["role"], one["content"]) for one in page.endpoint.asked[1]["messages"]]
    assert roles == [("user", "Hi"), ("assistant", "Hello."), ("user", "And now?")]


def test_keys_of_the_composer(page: Page) -> None:
    page.tab.click("#message")
    page.tab.press("Enter")  # nothing to send
    page.tab.type("one")
    page.tab.press("Enter", SHIFT)
    page.tab.type("two")
    page.tab.press("Enter")
    page.settle()
    assert [one["messages"][0]["content"] for one in page.endpoint.asked] == ["one\ntwo"]
    assert page.tab.run("document.querySelector('#message').value") == ""


@pytest.mark.parametrize("way", ["button", "key"])
def test_stop_stops_the_server_and_keeps_what_came(
    page: Page, hold: threading.Event, way: str
) -> None:
    page.endpoint.scripts.append([delta(content="Half an"), Hold(hold), delta(content=" answer")])
    page.send("Hi")
    page.tab.wait("document.querySelector('.answered .text')?.innerText === 'Half an'")
    page.click_label("Stop") if way == "button" else page.tab.press("Escape")
    page.settle()
    assert page.endpoint.gone.wait(PATIENCE)
    assert page.last() == "Half an"
    assert "stopped" in page.tab.text(".figures")
    page.ask("Go on")
    assert page.endpoint.asked[1]["messages"][1]["content"] == "Half an"


def test_answer_again(page: Page) -> None:
    page.endpoint.scripts += [plain("One."), plain("Two."), plain("Three.")]
    page.ask("First")
    page.ask("Second")
    page.click_label("Answer again")  # the first answer's: what follows is cut
    page.tab.wait("document.querySelectorAll('.answered').length === 1")
    page.settle()
    assert page.last() == "Three."
    assert page.endpoint.asked[2]["messages"] == [{"role": "user", "content": "First"}]


def test_edit_cuts_what_follows(page: Page) -> None:
    page.ask("First")
    page.ask("Second")
    page.click_label("Edit message")
    page.tab.wait("document.activeElement.matches('.edit textarea')")
    page.tab.run("document.activeElement.select()")
    page.tab.type("Another first")
    page.tab.press("Enter")
    page.tab.wait("document.querySelectorAll('.answered').length === 1")
    page.settle()
    assert page.endpoint.asked[2]["messages"] == [{"role": "user", "content": "Another first"}]
    assert page.tab.text(".top h1") == "Another first"


def test_an_edit_can_be_left(page: Page) -> None:
    page.ask("First")
    page.click_label("Edit message")
    page.tab.wait("document.activeElement.matches('.edit textarea')")
    page.tab.type(" changed")
    page.tab.press("Escape")
    page.tab.wait("document.querySelector('.edit') === null")
    assert page.tab.text(".said-text") == "First"
    assert len(page.endpoint.asked) == 1


def test_settings_are_sent_as_they_are(page: Page) -> None:
    page.click_label("Settings")
    page.tab.wait("document.activeElement.matches('.system')")
    page.tab.type("Be brief.")
    given = {
        "temperature": 5.5,  # out of bounds: the server's to judge
        "top_p": 0.9,
        "min_p": 0.05,
        "top_k": 40,
        "max_tokens": 77,
        "seed": -3,
        "repetition_penalty": 1.1,
        "presence_penalty": -0.5,
        "frequency_penalty": 0.25,
    }
    for name, value in given.items():
        page.tab.click(f"#sampling-{name}")
        page.tab.type(str(value))
    page.ask("Hi")
    asked = page.endpoint.asked[0]
    assert {name: asked[name] for name in given} == given
    assert asked["messages"][0] == {"role": "system", "content": "Be brief."}
    page.tab.click(".drawer-heading .link")  # reset
    page.ask("Again")
    assert not given.keys() & page.endpoint.asked[1].keys()


def test_a_slider_sets_its_field(page: Page) -> None:
    page.click_label("Settings")
    page.tab.click('[aria-label="Temperature, as a slider"]')
    page.tab.press("ArrowDown")
    page.tab.wait("document.querySelector('#sampling-temperature').value === '0.95'")
    page.ask("Hi")
    assert page.endpoint.asked[0]["temperature"] == 0.95


def test_figures(page: Page) -> None:
    """By a clock that the test sets: 0.1 s to the first token, and 20 more in half a second."""
    begin, end = Hold(threading.Event()), Hold(threading.Event())
    last = [delta("stop"), usage(1000, 21, 900), DONE]
    page.endpoint.scripts.append([begin, delta(content="a"), end, *last])
    page.tab.run("window.clock = 0, performance.now = () => window.clock")
    page.send("Hi")
    until(lambda: page.endpoint.asked)
    page.tab.run("window.clock = 100")
    begin.event.set()
    page.tab.wait("document.querySelector('.answered .text')?.innerText === 'a'")
    page.tab.run("window.clock = 600")
    end.event.set()
    page.settle()
    tokens, speed, first, cached = page.tab.text(".figures").split("\n")
    assert tokens.strip() == "21 tokens"
    assert (float(speed.split()[0]), speed.split()[1]) == (40, "tok/s")
    assert float(first.split()[2]) == 0.1
    assert cached.strip() == "900 of 1,000 cached"


def test_without_usage_nothing_is_made_up(page: Page) -> None:
    page.endpoint.scripts.append([delta(content="a"), delta("length"), DONE])
    page.ask("Hi")
    assert "tok" not in page.tab.text(".figures").replace("token limit", "")
    assert "ended by the token limit" in page.tab.text(".figures")


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_folded(page: Page, name: str) -> None:
    steps = [delta(**{name: "First, "}), delta(**{name: "**think**."}), delta(content="Done.")]
    page.endpoint.scripts.append([*steps, delta("stop"), DONE])
    page.ask("Hi")
    assert page.tab.run("document.querySelector('.reasoning').open") is False
    page.tab.click(".reasoning summary")
    assert page.tab.text(".reasoning .text") == "First, think."
    assert page.tab.text(".answered > .text") == "Done."
    page.ask("Go on")
    assert page.endpoint.asked[1]["messages"][1] == {"role": "assistant", "content": "Done."}


def test_tool_calls_are_readable(page: Page) -> None:
    def call(index: int, **function: str) -> bytes:
        return delta(tool_calls=[{"index": index, "id": f"c{index}", "function": function}])

    parts = ['{"ci', 'ty": "Reykja', 'vík", "days": 3}']
    page.endpoint.scripts.append(
        [
            call(0, name="weather", arguments=""),
            *(call(0, arguments=part) for part in parts),
            call(1, name="broken", arguments='{"a": '),
            call(2, name="empty", arguments="{}"),
            delta("tool_calls"),
            DONE,
        ]
    )
    page.send("Hi")
    page.settle()
    calls = page.tab.run("[...document.querySelectorAll('.call')].map((one) => one.innerText)")
    assert [one.split("\n")[0] for one in calls] == ["weather", "broken", "empty"]
    shown = page.tab.run("[...document.querySelectorAll('.call dl > *')].map((e) => e.innerText)")
    assert shown == ["city", "Reykjavík", "days", "3"]
    assert '{"a":' in calls[1]
    assert "no arguments" in calls[2]


def test_the_key_is_asked_for_and_kept_in_the_tab_alone(page: Page) -> None:
    page.endpoint.key = "sk-word"
    page.send("Hi")
    page.tab.wait("document.querySelector('dialog[open] input') === document.activeElement")
    page.tab.type("wrong")
    page.tab.press("Enter")
    page.tab.wait("document.querySelector('dialog')?.innerText.includes('may not accept')")
    page.tab.run("document.querySelector('dialog input').select()")
    page.tab.type("sk-word")
    page.tab.press("Enter")
    page.tab.wait("document.querySelector('.answered .text')?.innerText === 'Hello.'")
    assert page.tab.run("sessionStorage.getItem('pyrite.key')") == "sk-word"
    assert "sk-word" not in page.tab.run("JSON.stringify(localStorage)")
    assert page.tab.run("document.querySelectorAll('.answered').length") == 1


def test_a_key_that_is_needed_for_the_models_name(page: Page) -> None:
    page.endpoint.key = "sk-word"
    page.tab.go(page.endpoint.url + "?again")
    page.tab.wait("document.querySelector('dialog[open]') !== null")
    page.tab.type("sk-word")
    page.tab.press("Enter")
    page.tab.wait(f"document.querySelector('.top .model-name')?.innerText === '{MODEL}'")
    assert page.tab.run("document.querySelector('dialog')") is None


REFUSALS = {
    "400": (
        Refusal(400, {"error": {"message": "top_p = 3: must be at most 1", "type": "x"}}),
        "400 · top_p = 3: must be at most 1",
    ),
    "429": (
        Refusal(429, {"error": {"message": "too many"}}, {"retry-after": "7"}),
        "429 · too many\nTry again in 7 s.",
    ),
    "another shape": (Refusal(422, {"detail": "no such field"}), "422 · no such field"),
    "no shape": (Refusal(500, "oops"), "500 · oops"),
    "in the stream": (
        [delta(content="a"), 0.1, event({"error": {"message": "out of pages"}})],
        "out of pages",
    ),
    "not JSON": ([b"data: {oops\n\n"], "The server sent an event that is not JSON."),
    "dropped": (
        [delta(content="a"), 0.1, DroppedError()],
        "The connection ended before the answer did.",
    ),
    "no end": ([delta(content="a"), 0.1], "The connection ended before the answer did."),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_an_error_is_shown_in_place_and_can_be_tried_again(page: Page, name: str) -> None:
    script, message = REFUSALS[name]
    page.endpoint.scripts.append(script)
    page.ask("Hi")
    assert page.tab.text(".failure p").startswith(message)
    if not isinstance(script, Refusal) and name != "not JSON":
        assert page.last() == "a"  # what came is kept
    page.tab.click(".failure .button")
    page.tab.wait("document.querySelector('.failure') === null")
    page.settle()
    assert page.last() == "Hello."
    assert page.endpoint.asked[0] == page.endpoint.asked[1]


def test_an_answer_that_said_how_it_ended_is_whole(page: Page) -> None:
    page.endpoint.scripts.append([delta(content="a"), delta("stop")])  # no [DONE]
    page.ask("Hi")
    assert page.tab.text(".failure") == ""


def test_a_server_that_is_gone(page: Page) -> None:
    page.tab.run("window.fetch = () => Promise.reject(new TypeError('Failed to fetch'))")
    page.send("Hi")
    page.settle()
    assert page.tab.text(".failure").startswith("The server cannot be reached.")


def test_markdown_and_code(page: Page) -> None:
    text = "# Title\n\nSome **bold** text.\n\n```python\nx = 1\n```\n\n| a |\n|---|\n| 1 |\n\n- it"
    page.endpoint.scripts.append(plain(text, 3))
    page.ask("Hi")
    found = "(selector) => document.querySelector(`.answered .text ${selector}`)?.innerText"
    for selector, shown in {
        "h1": "Title",
        "strong": "bold",
        ".code-language": "python",
        ".code-text": "x = 1",
        ".code-text .hljs-number": "1",
        "td": "1",
        "li": "it",
    }.items():
        assert page.tab.run(f"({found})({selector!r})") == shown


def test_code_is_copied(page: Page) -> None:
    page.tab.browser.call(
        "Browser.grantPermissions",
        permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
        browserContextId=page.tab.context,
    )
    page.endpoint.scripts.append(plain("```c\nint a;\n\n  int b;\n```"))
    page.ask("Hi")
    page.tab.click(".code-copy")
    page.tab.wait("document.querySelector('.code-copy').innerText === 'Copied'")
    assert page.tab.run("navigator.clipboard.readText()") == "int a;\n\n  int b;"
    page.click_label("Copy answer")
    page.tab.wait("document.querySelector('[aria-label=Copied]') !== null")
    assert page.tab.run("navigator.clipboard.readText()") == "```c\nint a;\n\n  int b;\n```"


def test_links_leave_and_images_stay_out(page: Page) -> None:
    text = "[a](https://example.org/) ![b](https://example.org/b.png) ![](data:image/png;base64,x)"
    page.endpoint.scripts.append(plain(text))
    page.ask("Hi")
    links = page.tab.run(
        "[...document.querySelectorAll('.answered a')].map((a) => [a.href, a.rel, a.target])"
    )
    assert [link[0] for link in links] == ["https://example.org/", "https://example.org/b.png"]
    assert all(link[1:] == ["noopener noreferrer nofollow", "_blank"] for link in links)
    assert page.tab.run("document.querySelectorAll('.answered img').length") == 0


def test_a_long_answer_redraws_its_end_alone(page: Page) -> None:
    """5000 tokens; a block that has settled is never touched again."""
    paragraph = "Some *words* of an answer that goes on, `code` and all, line after line.\n\n"
    text = "".join(f"### {number}\n\n{paragraph}" for number in range(300))
    steps = plain(text, 5, pause=0.0002)
    assert len(steps) > 4000
    page.endpoint.scripts.append(steps)
    page.send("Hi")
    page.tab.wait("document.querySelectorAll('.answered .block').length > 20")
    page.tab.run(
        "window.touched = 0, [...document.querySelectorAll('.answered .block')].slice(0, -2)"
        ".forEach((block) => new MutationObserver((all) => (window.touched += all.length))"
        ".observe(block, { childList: true, subtree: true, characterData: true }))"
    )
    page.tab.wait("document.querySelectorAll('.answered .block').length > 200")
    assert page.tab.run("window.touched") == 0
    page.settle()
    scroller = page.tab.run(
        "(({ scrollHeight: a, scrollTop: b, clientHeight: c }) => a - b - c)"
        "(document.querySelector('.thread'))"
    )
    assert scroller < 2  # it followed to the end


def test_a_reader_who_scrolls_away_is_left_there(page: Page, hold: threading.Event) -> None:
    steps = plain("line\n\n" * 100, 6)
    page.endpoint.scripts.append([*steps[:90], Hold(hold), *steps[90:]])
    page.send("Hi")
    page.tab.wait("document.querySelectorAll('.answered .block').length > 85")
    page.tab.run("document.querySelector('.thread').scrollTop = 40")
    page.tab.wait("document.querySelector('.to-end') !== null")
    hold.set()
    page.settle()
    assert page.tab.run("document.querySelector('.thread').scrollTop") == 40
    page.click_label("To the end")
    page.tab.wait("document.querySelector('.to-end') === null")
