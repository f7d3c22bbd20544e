"""A server that starts again knows the beginnings of the prompts that it had."""

from __future__ import annotations

from pathlib import Path

from tests.server.harness import Served, file_server

SYSTEM = (
    "You are a helpful assistant. Answer in short sentences, and say what you do not know. " * 2
)


def complete(server: Served, prompt: str) -> tuple[str, int]:
    """The text, and how many tokens of the prompt were cached."""
    body = {"model": "m", "prompt": prompt, "max_tokens": 8, "temperature": 0}
    with server.client() as client:
        told = client.post("/v1/completions", json=body).raise_for_status().json()
    return told["choices"][0]["text"], told["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_a_beginning_is_known_after_a_restart(golden: Path, tmp_path: Path) -> None:
    model = golden / "gguf_models" / "qwen2_q8_0.gguf"
    options = ("--name", "m", "--kv-store-bytes", str(1 << 24))
    found = []
    for _ in range(2):
        with file_server(model, *options, env={"PYRITE_HOME": str(tmp_path)}) as server:
            found.append([complete(server, SYSTEM + ending) for ending in ("One", "Two")])
    first, second = found
    assert [text for text, _ in first] == [text for text, _ in second]
    assert first[0][1] == 0
    assert second[0][1] >= 64
    assert second[1][1] >= first[1][1] >= 64
