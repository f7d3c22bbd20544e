"""Light and dark, wide and narrow, and what those meet who use no mouse or see no page.

PYRITE_SCREENSHOTS names a folder that gets pictures to look at.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.browser.conftest import Page
from tests.browser.endpoint import DONE, delta, plain, usage

TEXT = """Here is the **sieve of Eratosthenes**:

```python
def primes_below(n: int) -> list[int]:
    \"\"\"All primes smaller than n, in order.\"\"\"
    is_prime = bytearray([1]) * n
    for p in range(2, int(n**0.5) + 1):
        if is_prime[p]:  # cross out its multiples
            is_prime[p * p :: p] = bytes(len(range(p * p, n, p)))
    return [i for i in range(2, n) if is_prime[i]]
```

| n | primes | time |
|--:|--:|--:|
| 10⁶ | 78 498 | 21 ms |

1. It takes `O(n log log n)` steps.
2. See [trial division](https://example.org/) for one number.

> Beyond 10⁹, sieve in segments.
"""
BRIGHTNESS = """(() => {
  const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number);
  return r + g + b;
})()"""


@pytest.fixture
def spoken(page: Page) -> Page:
    """The page after a conversation that has a bit of everything."""
    call = {"index": 0, "function": {"name": "count_primes", "arguments": '{"below": 1000}'}}
    script = [delta(reasoning="A sieve is simple."), *plain(TEXT, 30)[1:-3]]
    page.endpoint.scripts.append([*script, delta("stop"), usage(900, 210, 850), DONE])
    page.ask("Which primes are below n?")
    page.endpoint.scripts.append([delta(tool_calls=[call]), delta("tool_calls"), DONE])
    page.send("Count them.")
    page.settle()
    return page


def shoot(page: Page, name: str) -> None:
    if folder := os.environ.get("PYRITE_SCREENSHOTS"):
        page.tab.shoot(Path(folder) / f"{name}.png")


def test_the_theme_follows_the_system_until_it_is_chosen(spoken: Page) -> None:
    tab = spoken.tab
    for scheme, bright in (("light", True), ("dark", False)):
        tab.prefer(scheme)
        assert (tab.run(BRIGHTNESS) > 384) is bright
        shoot(spoken, scheme)
    spoken.click_label("Theme: as the system")
    tab.wait(f"{BRIGHTNESS} > 384")  # light, against the system's wish
    tab.go(spoken.endpoint.url)
    assert tab.run(BRIGHTNESS) > 384
    spoken.click_label("Theme: light")
    tab.prefer("light")
    tab.wait(f"{BRIGHTNESS} < 384")


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_is_wider_than_the_screen(spoken: Page, width: int) -> None:
    tab = spoken.tab
    spoken.click_label("Hide conversations")
    tab.resize(width, 844, mobile=width < 500)
    wide = "document.documentElement.scrollWidth - innerWidth"
    assert tab.run(wide) <= 0
    inside = (
        "[...document.querySelectorAll('.column *')].filter((one) => !one.closest('.code-scroll, "
        ".table-scroll') && one.getBoundingClientRect().right > innerWidth + 1)"
        ".map((one) => one.className)"
    )
    assert tab.run(inside) == []
    shoot(spoken, f"width-{width}")
    spoken.click_label("Settings")
    tab.wait("document.querySelector('.drawer') !== null")
    assert tab.run(wide) <= 0


def test_a_narrow_screen_shows_the_conversation_first(page: Page) -> None:
    page.tab.resize(390, 844, mobile=True)
    page.tab.go(page.endpoint.url + "?narrow")
    page.tab.wait("document.querySelector('#message') !== null")
    assert page.tab.run("document.querySelector('.sidebar')") is None
    page.ask("Hi")
    page.click_label("Show conversations")
    page.tab.wait("document.querySelector('.sidebar') !== null")
    page.tab.click(".new")
    page.tab.wait("document.querySelector('.sidebar') === null")


def test_every_control_has_a_name(spoken: Page) -> None:
    spoken.click_label("Settings")
    spoken.tab.wait("document.querySelector('.drawer') !== null")
    nodes = spoken.tab.call("Accessibility.getFullAXTree")["nodes"]
    acting = {"button", "textbox", "searchbox", "slider", "spinbutton", "link", "checkbox"}
    acting |= {"menuitem", "DisclosureTriangle"}
    controls = [node for node in nodes if node.get("role", {}).get("value") in acting]
    assert len(controls) > 25
    assert [node for node in controls if not node.get("name", {}).get("value", "").strip()] == []


def test_landmarks_and_what_is_said_aloud(spoken: Page) -> None:
    tab = spoken.tab
    assert tab.run("[...document.querySelectorAll('main, nav, h1')].length") >= 3
    assert tab.run("document.documentElement.lang") == "en"
    spoken.ask("Hi")
    tab.wait("document.querySelector('[aria-live=polite]').innerText.includes('Hello.')")


def test_focus_is_always_seen(page: Page) -> None:
    """Tab goes over every control, and each one shows that it has the focus."""
    unseen = page.tab.run("""(async () => {
      const found = [];
      for (const one of document.querySelectorAll('button, input:not([hidden])')) {
        one.focus({ focusVisible: true });
        if (document.activeElement !== one) continue;
        const style = getComputedStyle(one);
        const around = one.closest('.search');
        const clear = !around || getComputedStyle(around).backgroundColor === 'rgba(0, 0, 0, 0)';
        const seen = style.outlineStyle !== 'none' || !clear;
        if (!seen) found.push(one.outerHTML);
      }
      return found;
    })()""")
    assert unseen == []


CONTRAST = """((selector) => {
  const light = (color) => color.match(/[\\d.]+/g).slice(0, 3).map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  }).reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
  const element = document.querySelector(selector);
  let behind = element;
  const clear = (one) => /, 0\\)$|transparent/.test(getComputedStyle(one).backgroundColor);
  while (clear(behind)) behind = behind.parentElement;
  const text = light(getComputedStyle(element).color);
  const ground = light(getComputedStyle(behind).backgroundColor);
  return (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
})"""


def contrast(page: Page, selector: str) -> float:
    """The ratio of WCAG 2.2 between a text and what is behind it."""
    return float(page.tab.run(f"{CONTRAST}('{selector}')"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(spoken: Page, scheme: str) -> None:
    spoken.tab.prefer(scheme)
    selectors = (".said-text", ".answered p", ".figures", ".heads h2", ".model-name", ".new")
    code = (".code-bar", ".code-text", ".hljs-comment", ".hljs-keyword", ".hljs-number")
    low = {one: contrast(spoken, one) for one in selectors + code if contrast(spoken, one) < 4.5}
    assert low == {}
