"""A headless Chromium driven over its DevTools pipe: no driver program and no package.

Messages are JSON ended by a zero byte, on descriptors 3 and 4 of the browser. Knows no page.
"""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from tests.patience import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "ArrowDown": (40, "")}
SHIFT = 8


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def run_chromium(program: str) -> Iterator[Chromium]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Chromium(program, profile)
        try:
            yield browser
        finally:
            browser.close()


def command(program: str, profile: str) -> list[str]:
    return [
        program,
        "--headless=new",
        "--no-sandbox",  # which a container's root cannot have
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--hide-scrollbars",
        "--force-color-profile=srgb",
        f"--user-data-dir={profile}",
        "--remote-debugging-pipe",
        "about:blank",
    ]


def spawn(words: list[str], reads: int, writes: int) -> int:
    """Starts a program that reads commands on descriptor 3 and answers on 4; its process id."""
    high = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in (reads, writes)]
    null = [(os.POSIX_SPAWN_OPEN, one, os.devnull, os.O_WRONLY, 0) for one in (1, 2)]
    pipes = [(os.POSIX_SPAWN_DUP2, high[0], 3), (os.POSIX_SPAWN_DUP2, high[1], 4)]
    process = os.posix_spawn(words[0], words, os.environ, file_actions=[*null, *pipes])
    for one in (reads, writes, *high):
        os.close(one)
    return process


class Chromium:
    def __init__(self, program: str, profile: str) -> None:
        reads, self._commands = os.pipe()
        self._answers, writes = os.pipe()
        self._process = spawn(command(program, profile), reads, writes)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, SimpleQueue[dict[str, Any]]] = {}
        self._tabs: dict[str, Tab] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        queue = self._waiting[number] = SimpleQueue()
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        try:
            answer = queue.get(timeout=PATIENCE)
        except Empty:
            raise TimeoutError(f"no answer to {method}") from None
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _listen(self) -> None:
        rest = b""
        while data := os.read(self._answers, 1 << 20):
            *messages, rest = (rest + data).split(b"\0")
            for message in map(json.loads, messages):
                self._take(message)
        os.close(self._answers)

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._waiting.pop(message["id"]).put(message)
        elif message.get("sessionId") in self._tabs:
            self._tabs[message["sessionId"]].events.append(message)

    @contextmanager
    def tab(self, width: int = 1280, height: int = 800) -> Iterator[Tab]:
        """A tab with a storage of its own."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        try:
            yield self.another_tab(context, width, height)
        finally:
            self.call("Target.disposeBrowserContext", browserContextId=context)

    def another_tab(self, context: str, width: int = 1280, height: int = 800) -> Tab:
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        tab = Tab(self, attached["sessionId"], context)
        self._tabs[attached["sessionId"]] = tab
        for domain in ("Page", "Runtime", "Network", "Log"):
            tab.call(f"{domain}.enable")
        tab.resize(width, height)
        return tab

    def close(self) -> None:
        self.call("Browser.close")
        os.waitpid(self._process, 0)
        os.close(self._commands)


@dataclass
class Tab:
    browser: Chromium
    session: str
    context: str
    events: list[dict[str, Any]] = field(default_factory=list)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **parameters)

    def happened(self, method: str) -> list[dict[str, Any]]:
        return [event["params"] for event in list(self.events) if event["method"] == method]

    def resize(self, width: int, height: int, *, mobile: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )

    def prefer(self, scheme: str) -> None:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def go(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, expression: str, *, unsafe_eval: bool = True) -> Any:
        """The value of an expression, awaited; raises what it throws.

        `unsafe_eval`: what the page's policy forbids about eval is allowed to the tests.
        """
        answer = self.call(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
            allowUnsafeEvalBlockedByCSP=unsafe_eval,
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def wait(self, expression: str, seconds: float = PATIENCE) -> Any:
        """The value of an expression as soon as it is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := self.run(expression):
                return value
            time.sleep(0.02)
        seen = self.run("document.body.innerText.replace(/\\s+/g, ' ').slice(-500)")
        raise TimeoutError(f"never true: {expression}; the page ends with: {seen}")

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, selector: str) -> None:
        """A press of the mouse in the middle of the first element that the selector finds."""
        found = json.dumps(selector)
        self.wait(f"document.querySelector({found}) !== null")
        x, y = self.run(
            f"(() => {{ const element = document.querySelector({found});"
            "element.scrollIntoView({ block: 'nearest' });"
            "const box = element.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        where = {"x": x, "y": y, "button": "left", "clickCount": 1}
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, **where)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def choose_file(self, selector: str, path: Path) -> None:
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def press(self, key: str, modifiers: int = 0) -> None:
        code, text = KEYS[key]
        event = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    @contextmanager
    def blocks_run(self) -> Iterator[list[int]]:
        """How often each block of the page's scripts runs meanwhile; told at the end."""
        counts: list[int] = []
        self.call("Profiler.enable")
        self.call("Profiler.startPreciseCoverage", callCount=True, detailed=True)
        yield counts
        for script in self.call("Profiler.takePreciseCoverage")["result"]:
            ranges = [one for function in script["functions"] for one in function["ranges"]]
            counts += [one["count"] for one in ranges]
        self.call("Profiler.disable")

    def shoot(self, path: Path) -> None:
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))
