"""No answer runs script, loads anything, or borrows the page's looks; and were one to get through
the sanitizer, the content policy would still hold.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.browser.conftest import Page
from tests.browser.endpoint import delta, event, plain
from tests.browser.hostile_markdown import HUGE, LINKS, MUTATIONS, NESTED, RUNS_NOTHING, TAGS

# In every element of the answers: nothing but known tags, no attribute that acts, no link that
# does not lead elsewhere. Gives what is wrong.
LOOK = """(() => {
  const tags = new Set(`A B BLOCKQUOTE BR BUTTON CODE DEL DIV EM FIGCAPTION FIGURE H1 H2 H3 H4 H5 H6
    HR I INPUT INS KBD LI MARK OL P PRE S SAMP SMALL SPAN STRONG SUB SUP TABLE TBODY TD TH THEAD TR
    U UL`.split(/\\s+/));
  const wrong = [];
  for (const element of document.querySelectorAll('.answered .text *')) {
    if (!tags.has(element.tagName)) wrong.push(element.outerHTML);
    const ours = element.closest('figure.code') || element.matches('.block, .table-scroll');
    for (const { name } of element.attributes) {
      if (/^on|^style$|^id$|^name$|^src/.test(name)) wrong.push(element.outerHTML);
      if (name === 'class' && !ours) wrong.push(element.outerHTML);
    }
    if (element.tagName !== 'A') continue;
    if (!/^(https?|mailto):$/.test(element.protocol)) wrong.push(element.outerHTML);
    if (!/noopener/.test(element.rel)) wrong.push(element.outerHTML);
  }
  return wrong;
})()"""

MOST_BLOCKS = 5_000_000  # for 50 thousand quotes in code, that are painted, it is a fifth


def test_there_are_enough_cases() -> None:
    assert len(set(RUNS_NOTHING)) == len(RUNS_NOTHING) > 120


@pytest.fixture
def trapped(page: Page) -> Iterator[Page]:
    """A page that knows `pwn()`; afterwards it was never called, and nothing was let through.

    The `page` fixture also refuses every complaint of the policy and every foreign request.
    """
    page.tab.run("window.pwned = 0, window.pwn = () => void (window.pwned += 1)")
    yield page
    page.tab.run("document.querySelectorAll('.answered .text *').forEach((one) => one.focus?.())")
    assert page.tab.run(LOOK) == []
    assert page.tab.run("window.pwned") == 0
    assert page.tab.happened("Page.javascriptDialogOpening") == []


def test_hostile_answers_run_nothing(trapped: Page, tmp_path: Path) -> None:
    """All of them, each a message of its own, as they are shown when a conversation is opened."""
    messages = [{"role": "assistant", "content": case} for case in RUNS_NOTHING]
    trapped.bring_in(
        tmp_path, [{"title": "Hostile <img src=x onerror=pwn()>", "messages": messages}]
    )
    trapped.tab.click(".head-title")
    trapped.tab.wait(f"document.querySelectorAll('.answered').length === {len(RUNS_NOTHING)}")


@pytest.mark.parametrize("kind", [TAGS, MUTATIONS, LINKS, NESTED], ids=len)
def test_hostile_streams_run_nothing(trapped: Page, kind: tuple[str, ...]) -> None:
    """Cut where no sanitizer expects it, with every state in between drawn."""
    trapped.endpoint.scripts.append(plain("\n\n".join(kind), 23, pause=0.008))
    trapped.ask("Go on")


def test_hostile_titles_keys_and_names_run_nothing(trapped: Page) -> None:
    """Text that is no Markdown: the question, the reasoning, a tool's name, an error."""
    for case in ("<img src=x onerror=pwn()>", "<script>pwn()</script>"):
        call = {"index": 0, "function": {"name": case, "arguments": '{"' + case + '": 1}'}}
        refusal = event({"error": {"message": case}})
        script = [delta(reasoning=case), delta(tool_calls=[call]), refusal]
        trapped.endpoint.scripts.append(script)
        trapped.ask(case)
        assert case in trapped.tab.text(".answered:last-of-type")


@pytest.mark.parametrize("part", range(3))
def test_huge_input_is_bounded_work(page: Page, part: int) -> None:
    """By how often the blocks of the page's code run, over the few states that are drawn."""
    for case in HUGE[part::3]:
        page.tab.click(".new")
        page.endpoint.scripts.append(plain(case, len(case) // 4 + 1))
        with page.tab.blocks_run() as counts:
            page.ask("Go on")
        assert 1000 < sum(counts) < MOST_BLOCKS, (case[:20], sum(counts))
        assert page.tab.run(LOOK) == []


def test_huge_input_loses_nothing(page: Page) -> None:
    case = "\n".join(f"{'*a_ ' * 50}{number}" for number in range(200))
    page.endpoint.scripts.append(plain(case, 1000))
    page.ask("Go on")
    shown = page.tab.run("document.querySelector('.answered .text').textContent")
    assert shown == case


ATTACKS = {
    "an inline script": (
        "const made = document.createElement('script'); made.append('window.pwned = 1');"
        "document.body.append(made)"
    ),
    "a handler": "document.body.setAttribute('onclick', 'window.pwned = 1'); document.body.click()",
    "markup": "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=pwned=1>')",
    "a script of this origin": (
        "const made = document.createElement('script');"
        "made.setAttribute('src', '/pwned.js'); document.body.append(made)"
    ),
    "an image from elsewhere": "new Image().src = 'https://pwned.invalid/x.png'",
    "a request elsewhere": "await fetch('https://pwned.invalid/')",
    "a frame": (
        "const f = document.createElement('iframe'); f.src = '/pwned'; document.body.append(f)"
    ),
    "text as code": "new Function('window.pwned = 1')()",
    "a form": (
        "const f = document.createElement('form'); f.action = '/pwned';"
        "document.body.append(f); f.submit()"
    ),
    "a base": (
        "const b = document.createElement('base'); b.href = 'https://pwned.invalid/';"
        "document.head.append(b); if (document.baseURI.includes('pwned')) pwned = 1"
    ),
}


def test_the_policy_holds_by_itself(page: Page) -> None:
    page.trusts_itself = False
    page.tab.run("window.pwned = 0")
    came_through = []
    for name, attack in ATTACKS.items():
        script = f"(async () => {{ try {{ {attack} }} catch {{}} }})()"
        page.tab.run(script, unsafe_eval=False)
        time.sleep(0.05)
        if page.tab.run("window.pwned") or page.tab.run("location.pathname") != "/":
            came_through.append(name)
            page.tab.run("window.pwned = 0")
    assert came_through == []
    answered = [one["response"]["url"] for one in page.tab.happened("Network.responseReceived")]
    assert [url for url in answered if "pwned" in url] == []
