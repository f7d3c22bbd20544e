"""Adapters at the doors: each is a model of its own, and none of another's text is found for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.server.harness import Served, file_server

import pyrite
from pyrite.errors import ParameterError
from pyrite.formats.gguf_writer import TensorSpec, write_gguf

MODEL = Path(__file__).parent.parent / "golden" / "gguf_models" / "llama_q8_0.gguf"
PROMPT = "tin can in the sun, tin can in the sea, and one more tin can on the sand"
RANK, WIDTH = 8, 256


def write_adapter(path: Path, seed: int, strength: float = 8.0, width: int = WIDTH) -> Path:
    """A GGUF file as llama.cpp's converter writes it."""
    random = np.random.default_rng(seed)
    values = {}
    for layer in range(2):
        for name in ("attn_q", "attn_output", "ffn_down"):
            weight = f"blk.{layer}.{name}.weight"
            down = random.standard_normal((RANK, width)) / width**0.5
            values[f"{weight}.lora_a"] = down.astype(np.float32)
            values[f"{weight}.lora_b"] = random.standard_normal((width, RANK)).astype(np.float32)
    specs = [TensorSpec(name, "F32", one.shape) for name, one in values.items()]
    metadata = {
        "general.architecture": "llama",
        "general.type": "adapter",
        "adapter.type": "lora",
        "adapter.lora.alpha": strength,
    }
    write_gguf(path, metadata, specs, lambda spec: values[spec.name].reshape(-1).view(np.uint8))
    return path


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("adapters")
    return write_adapter(folder / "poet.gguf", 1), write_adapter(folder / "cook.gguf", 2)


@pytest.fixture(scope="module")
def served(adapters: tuple[Path, Path]) -> Iterator[Served]:
    poet, cook = adapters
    with file_server(MODEL, "--name", "tiny", "--lora", str(poet), "--lora", f"a/b={cook}") as one:
        yield one


def complete(served: Served, model: str, **fields: object) -> dict:
    body = {"model": model, "prompt": PROMPT, "max_tokens": 24, "temperature": 0, **fields}
    with served.client() as client:
        response = client.post("/v1/completions", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def text(reply: dict) -> str:
    return reply["choices"][0]["text"]


def test_each_adapter_is_a_model_of_its_own(served: Served) -> None:
    with served.client() as client:
        listed = [one["id"] for one in client.get("/v1/models").json()["data"]]
        tags = [one["name"] for one in client.get("/api/tags").json()["models"]]
    assert listed == tags == ["tiny", "poet", "a/b"]
    replies = {name: complete(served, name) for name in listed}
    assert {name: reply["model"] for name, reply in replies.items()} == {n: n for n in listed}
    assert len({text(reply) for reply in replies.values()}) == 3


def test_nobody_finds_what_another_computed(served: Served) -> None:
    """The second time each is found in the cache, and is what it was."""
    salts = {"cache_salt": "poet"}
    first = [complete(served, name) for name in ("tiny", "poet", "a/b")]
    salted = complete(served, "tiny", **salts)
    again = [complete(served, name) for name in ("tiny", "poet", "a/b")]
    assert [text(one) for one in first] == [text(one) for one in again]
    assert text(salted) == text(first[0])
    cached = [one["usage"]["prompt_tokens_details"]["cached_tokens"] for one in again]
    assert all(count > 0 for count in cached)


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": PROMPT}]}),
        ("/v1/responses", {"input": PROMPT}),
        ("/v1/messages", {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 16}),
        ("/api/chat", {"messages": [{"role": "user", "content": PROMPT}], "stream": False}),
        ("/api/generate", {"prompt": PROMPT, "stream": False}),
    ],
)
def test_every_dialect_picks_it_by_name(served: Served, route: str, body: dict) -> None:
    options = {"options": {"temperature": 0, "num_predict": 16}}
    more = options if route.startswith("/api") else {"temperature": 0}
    limit = {"/v1/chat/completions": "max_completion_tokens", "/v1/responses": "max_output_tokens"}
    more = {**more, **({limit[route]: 16} if route in limit else {})}

    def answer(model: str) -> str:
        with served.client() as client:
            response = client.post(route, json={**body, **more, "model": model})
        assert response.status_code == 200, response.text
        told = response.json()
        kept = ("choices", "output", "content", "message", "response")
        said = {key: told[key] for key in kept if key in told}
        return json.dumps([one for one in walk(said) if isinstance(one, str)])

    assert answer("poet") != answer("tiny")


def walk(value: object) -> list[object]:
    if isinstance(value, dict):
        return [
            x for k, v in value.items() if k in TEXTS or not isinstance(v, str) for x in walk(v)
        ]
    if isinstance(value, list):
        return [x for one in value for x in walk(one)]
    return [value]


TEXTS = ("text", "content", "response")


@pytest.mark.parametrize("route", ["/v1/embeddings", "/api/embed", "/api/embeddings"])
def test_vectors_are_the_adapters(served: Served, route: str) -> None:
    field = "prompt" if route == "/api/embeddings" else "input"

    def vector(model: str) -> tuple[str, list[float]]:
        with served.client() as client:
            response = client.post(route, json={"model": model, field: PROMPT})
        assert response.status_code == 200, response.text
        told = response.json()
        if "data" in told:
            return told["model"], told["data"][0]["embedding"]
        return model, told["embedding"] if "embedding" in told else told["embeddings"][0]

    with pyrite.load(MODEL) as model:
        expected = model.embed(PROMPT, normalize=route != "/api/embeddings")
    found = {name: vector(name) for name in ("tiny", "poet", "a/b", "tiny")}
    assert [name for name, _ in found.values()] == ["tiny", "poet", "a/b"]
    np.testing.assert_allclose(found["tiny"][1], expected, rtol=1e-5, atol=1e-7)
    for other in ("poet", "a/b"):
        assert np.abs(np.array(found[other][1]) - expected).max() > 0.1 * expected.std()
    assert found["poet"][1] != found["a/b"][1]


def test_a_name_that_is_none(served: Served) -> None:
    with served.client() as client:
        response = client.post("/v1/completions", json={"model": "bard", "prompt": "x"})
    assert response.status_code == 404
    assert "tiny, poet, a/b" in response.text


def test_one_that_does_not_fit_ends_the_server(tmp_path: Path) -> None:
    """Nothing is started again: it would be the same."""
    wrong = write_adapter(tmp_path / "wrong.gguf", 1, width=128)
    command = [sys.executable, "-m", "pyrite", "serve", str(MODEL), "--port", "0"]
    done = subprocess.run(
        [*command, "--lora", str(wrong)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 3
    assert "starting a new one" not in done.stderr
    told = f"adapter {wrong}: it is for blk.0.attn_q.weight of (128, 128), and {MODEL.name} has it"
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_python_and_the_command_line(
    served: Served, adapters: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    expected = text(complete(served, "poet"))
    plain = text(complete(served, "tiny"))
    with pyrite.load(MODEL, lora=[f"x={adapters[0]}"]) as model:
        assert model.generate(PROMPT, max_tokens=24, temperature=0) == plain
        model.adapter = "x"
        assert model.generate(PROMPT, max_tokens=24, temperature=0) == expected
        for wrong, told in (("y", "one that was loaded: x"), (None, "a name of an adapter")):
            with pytest.raises(ParameterError, match=told):
                model.adapter = wrong
        assert model.adapter == "x"
        vector = model.embed(PROMPT)
        model.adapter = ""
        assert np.abs(vector - model.embed(PROMPT)).max() > 0.1 * vector.std()
    arguments = ["embed", str(MODEL), PROMPT, "--lora", str(adapters[0])]
    done = subprocess.run(
        [sys.executable, "-m", "pyrite", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=True,
    )
    np.testing.assert_allclose(json.loads(done.stdout)["embedding"], vector, rtol=1e-5, atol=1e-7)
    arguments = ["run", str(MODEL), PROMPT, "--raw", "-n", "24", "--temp", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "pyrite", *arguments, "--lora", str(adapters[0])],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.decode().strip() == expected.strip()
