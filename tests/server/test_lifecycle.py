"""A server's life: ready, drained, killed; its engine lost and found. Each a real process."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.patience import PATIENCE, until
from tests.server.harness import Served, events_of, file_server

from pyrite.config import Settings
from pyrite.server.link import EngineLink

TINY = Path(__file__).parent.parent / "golden" / "gguf_models" / "llama_q8_0.gguf"
LONG: dict[str, Any] = {"prompt": "tin", "max_tokens": 120, "ignore_eos": True, "stream": True}


@pytest.fixture(scope="module")
def tiny() -> Iterator[Served]:
    with file_server(TINY, "--name", "tiny", "--alias", "other") as served:
        yield served


def worker_of(served: Served) -> int:
    """The process id of the engine."""
    assert served.process is not None
    children = Path(f"/proc/{served.process.pid}/task/{served.process.pid}/children").read_text()
    (child,) = children.split()
    return int(child)


def test_who_starts_a_server_hears_of_packing(tmp_path: Path) -> None:
    async def told() -> list[tuple[int, int]]:
        link = EngineLink(TINY, Settings(cache=tmp_path))
        heard: list[tuple[int, int]] = []
        link.on_packing = lambda *one: heard.append(one)
        await link.start()
        try:
            await link.settled()
        finally:
            await link.close()
        return heard

    first, second = asyncio.run(told()), asyncio.run(told())
    done, total = first[-1]
    assert done == total > 0
    assert second == []


class Streamer(threading.Thread):
    """One client that reads a stream to its end."""

    def __init__(self, url: str, **fields: Any) -> None:
        super().__init__(daemon=True)
        self.begun = threading.Event()
        self.lines: list[str] = []
        self.error: Exception | None = None
        self._url = url
        self._body = {**LONG, **fields}
        self.start()

    def run(self) -> None:
        try:
            with httpx.stream(
                "POST", f"{self._url}/v1/completions", json=self._body, timeout=PATIENCE
            ) as reply:
                for line in reply.iter_lines():
                    self.lines.append(line)
                    self.begun.set()
        except httpx.HTTPError as error:
            self.error = error
        self.begun.set()


def test_vectors_are_the_same_in_either_form(tiny: Served) -> None:
    body = {"model": "tiny", "input": ["tin", "lead and zinc"]}
    with tiny.client() as client:
        plain = client.post("/v1/embeddings", json=body).json()
        packed = client.post("/v1/embeddings", json={**body, "encoding_format": "base64"}).json()
        alone = client.post("/v1/embeddings", json={**body, "input": "lead and zinc"}).json()
        short = client.post("/v1/embeddings", json={**body, "dimensions": 4}).json()
        wrong = client.post("/v1/embeddings", json={**body, "input": []})
        pooled = client.post("/v1/embeddings", json={**body, "pooling": "nothing"})
    numbers = [np.array(one["embedding"], np.float32) for one in plain["data"]]
    unpacked = [np.frombuffer(base64.b64decode(one["embedding"]), "<f4") for one in packed["data"]]
    assert np.array_equal(numbers, unpacked)
    assert np.array_equal(numbers[1], np.array(alone["data"][0]["embedding"], np.float32))
    assert np.allclose(np.linalg.norm(numbers, axis=1), 1, atol=1e-5)
    assert len(short["data"][0]["embedding"]) == 4
    assert plain["usage"]["prompt_tokens"] > 0
    assert wrong.status_code == pooled.status_code == 400


def test_vectors_that_nobody_waits_for_are_not_computed(tiny: Served) -> None:
    """Of many, a client goes away when the engine has begun, and the engine rests."""
    worker = worker_of(tiny)
    many = {"model": "tiny", "input": ["tin and lead " * 30] * 2048}  # each fits the context
    begun = processor_ticks(worker)
    with asked(tiny, "/v1/embeddings", many):
        until(lambda: processor_ticks(worker) - begun > 20, "the engine does not begin")
    until(lambda: rests(worker), "the engine still computes")
    used = processor_ticks(worker) - begun
    with tiny.client() as client:
        assert client.post("/v1/embeddings", json={**many, "input": "tin"}).status_code == 200
        beyond = client.post("/v1/embeddings", json={**many, "input": ["tin"] * 2049})
        begun = processor_ticks(worker)
        client.post("/v1/embeddings", json={**many, "input": many["input"][:256]})
    assert used < 4 * (processor_ticks(worker) - begun), "less than half of what all take"
    assert beyond.status_code == 400
    assert "at most 2048 texts" in beyond.json()["error"]["message"]


@contextlib.contextmanager
def asked(served: Served, path: str, body: Any) -> Iterator[None]:
    """A client that waits for nothing, and goes away at the end."""
    host, port = served.url.removeprefix("http://").split(":")
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n"
    with socket.create_connection((host, int(port))) as link:
        link.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + data)
        yield


def rests(process: int) -> bool:
    before = processor_ticks(process)
    time.sleep(0.2)
    return processor_ticks(process) - before <= 1


def processor_ticks(process: int) -> int:
    """That a process has used, in hundredths of a second."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_tokens_there_and_back(tiny: Served) -> None:
    with tiny.client() as client:
        ours = client.post("/tokenize", json={"prompt": "lead and zinc"}).json()
        theirs = client.post("/tokenize", json={"content": "lead and zinc"}).json()
        text = client.post("/detokenize", json={"tokens": theirs["tokens"]}).json()["content"]
        neither = client.post("/tokenize", json={})
        outside = client.post("/detokenize", json={"tokens": [10**6]})
    assert ours["count"] == len(ours["tokens"])
    assert text.strip() == "lead and zinc"
    assert neither.status_code == outside.status_code == 400


def test_a_lost_engine_is_told_and_replaced(tiny: Served) -> None:
    streamer = Streamer(tiny.url, max_tokens=400)
    assert streamer.begun.wait(PATIENCE)
    os.kill(worker_of(tiny), signal.SIGKILL)
    streamer.join(PATIENCE)
    assert not streamer.is_alive(), "the client was left waiting"
    datas = events_of("\n".join(streamer.lines))
    if datas[-1] != "[DONE]":  # it may have ended just before
        assert "error" in json.loads(datas[-1])
    with tiny.client() as client:

        def is_replaced() -> bool:
            reply = client.post("/v1/completions", json={"prompt": "tin", "max_tokens": 2})
            assert reply.status_code in (200, 500, 503)
            return reply.status_code == 200

        until(is_replaced)


def test_the_first_signal_drains() -> None:
    with file_server(TINY, "--name", "tiny") as served:
        assert served.process is not None
        streamers = [Streamer(served.url) for _ in range(8)]
        assert all(one.begun.wait(PATIENCE) for one in streamers)
        worker = worker_of(served)
        served.process.send_signal(signal.SIGTERM)
        until(lambda: drains(served))
        with contextlib.suppress(httpx.TransportError):  # it may be gone already
            assert httpx.get(f"{served.url}/livez").status_code == 200
            refused = httpx.post(f"{served.url}/v1/completions", json={"prompt": "tin"})
            assert refused.status_code == 503
        for one in streamers:
            one.join(PATIENCE)
            assert one.error is None
            assert events_of("\n".join(one.lines))[-1] == "[DONE]"
        assert served.process.wait(PATIENCE) == 0
        assert not Path(f"/proc/{worker}").exists(), "an orphan"


def drains(served: Served) -> bool:
    """True also of a server that has ended."""
    try:
        return httpx.get(f"{served.url}/readyz", timeout=PATIENCE).status_code == 503
    except httpx.TransportError:
        return True


def test_the_second_signal_ends_all(smollm2_path: Path) -> None:
    """Before the streams end by themselves."""
    patient = ("--drain-seconds", "3600")
    with file_server(smollm2_path, "--context", "4096", *patient) as served:
        assert served.process is not None
        streamers = [Streamer(served.url, max_tokens=4000) for _ in range(8)]
        assert all(one.begun.wait(PATIENCE) for one in streamers)
        worker = worker_of(served)
        served.process.send_signal(signal.SIGINT)
        until(lambda: drains(served))
        served.process.send_signal(signal.SIGINT)
        served.process.wait(PATIENCE)
        for one in streamers:
            one.join(PATIENCE)
            assert not one.is_alive()
            assert one.error is None, "a stream was cut without a word"
            assert "shutting down" in events_of("\n".join(one.lines))[-1]
        assert not Path(f"/proc/{worker}").exists(), "an orphan"


def test_an_engine_does_not_outlive_its_server() -> None:
    with file_server(TINY, "--name", "tiny") as served:
        assert served.process is not None
        worker = worker_of(served)
        served.process.kill()
        served.process.wait(PATIENCE)
        until(lambda: not Path(f"/proc/{worker}").exists(), "an orphan")


def test_a_model_that_cannot_be_loaded_ends_the_server(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(TINY.read_bytes()[:-1000])
    command = [sys.executable, "-m", "pyrite", "serve", str(broken), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("pyrite: error:")


def test_a_port_that_is_taken_is_said_so(tiny: Served) -> None:
    port = tiny.url.rsplit(":", 1)[1]
    command = [sys.executable, "-m", "pyrite", "serve", str(TINY), "--port", port]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert port in done.stderr


def test_servers_are_listed_while_they_run(tmp_path: Path) -> None:
    environment = {**os.environ, "PYRITE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "pyrite", "ps", "--json"]

    def listed() -> list[dict[str, Any]]:
        said = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        return [json.loads(line) for line in said.stdout.splitlines()]

    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "1.json").write_text("nonsense")
    with file_server(TINY, "--name", "tiny", env={"PYRITE_HOME": str(tmp_path)}) as served:
        (one,) = listed()
        assert one["url"] == served.url
        assert one["model"] == "tiny"
        assert one["state"] == "ready"
        assert one["running"] == 0
    assert listed() == []


def test_what_is_there_of_an_api_is_described(tiny: Served) -> None:
    with tiny.client() as client:
        described = client.get("/openapi.json").json()
        for path, item in described["paths"].items():
            (method,) = item
            reply = client.request(method, path, json=None if method == "get" else {})
            assert reply.status_code == (200 if method == "get" else 400), path


def test_the_log_has_a_line_a_request_and_no_prompt(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-m", "pyrite", "serve", str(TINY), "--port", "0", "--access-log"]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stderr=stream, stdin=subprocess.DEVNULL)
    try:
        until(lambda: b"ready at" in log.read_bytes())
        url = log.read_text().split("ready at ")[1].split()[0]
        httpx.post(f"{url}/v1/completions?a=b", json={"prompt": "a private text", "max_tokens": 2})
    finally:
        process.terminate()
        process.wait(PATIENCE)
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    (line,) = [one for one in lines if one["event"] == "request"]
    assert line["path"] == "/v1/completions"
    assert line["status"] == 200
    assert "a private text" not in log.read_text()
