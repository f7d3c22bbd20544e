"""The AI SDK of npm, each case a run of ai_sdk.mjs: text, tools, objects, vectors, errors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.clients.harness import KEY, Cancelled

FOLDER = Path(os.environ.get("PYRITE_CLIENT_FOLDER", "."))
SCRIPT = Path(__file__).parent / "ai_sdk.mjs"
Case = Callable[..., Any]

if shutil.which("node") is None or not (FOLDER / "node_modules" / "ai").is_dir():
    pytest.skip("node or the AI SDK is not installed here", allow_module_level=True)


@pytest.fixture(scope="module")
def case() -> Case:
    """Runs one case: modules are found from where the script lies, so that it is copied there."""
    script = shutil.copy(SCRIPT, FOLDER)

    def run(name: str, url: str, model: str = "told", key: str = KEY) -> Any:
        command = ["node", script, name, url, key, model]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_a_text_and_a_stream(told: str, case: Case) -> None:
    text = case("text", told)
    assert text["whole"] == text["joined"] == "Hello 東京 🌧"
    assert text["reason"] == "stop"
    usage = text["usage"]
    assert (usage["inputTokens"], usage["cachedInputTokens"], usage["outputTokens"]) == (10, 4, 5)


def test_thinking_is_told_apart(told: str, case: Case) -> None:
    assert case("thinking", told) == {"whole": "Hm, yes.", "streamed": "Hm, yes.", "text": "Yes."}


def test_a_tool_is_called_and_its_result_sent_back(told: str, case: Case) -> None:
    words = "Hello 東京 🌧"
    assert case("tools", told) == {"whole": words, "streamed": words, "steps": 2}


def test_objects(told: str, case: Case) -> None:
    told_objects = case("objects", told)
    ada = {"name": "Ada", "age": 36}
    assert (told_objects["object"], told_objects["streamed"]) == (ada, ada)
    assert told_objects["partial"] > 2


def test_vectors(told: str, case: Case) -> None:
    assert case("vectors", told) == {"embeddings": [[2, 1, 0], [1, 1, 0]], "tokens": 3}


def test_errors_are_the_clients_own(told: str, case: Case) -> None:
    errors = case("errors", told)
    for word, status in (("full", 429), ("down", 503), ("long", 400)):
        assert errors[word]["isCallError"]
        assert errors[word]["status"] == errors[f"{word} streamed"]["status"] == status
    assert "the prompt has 5000 tokens" in errors["long"]["words"]
    assert errors["broken"]["isTold"]
    assert "the step failed" in errors["broken"]["words"]


def test_a_wrong_key_and_a_wrong_name(told: str, case: Case) -> None:
    assert case("refused", told, key="wrong")["status"] == 401
    assert case("refused", told, "other")["status"] == 404


def test_a_real_model_must_call(smollm2: str, case: Case) -> None:
    called = case("mustCall", smollm2, "smollm2")
    assert list(called["input"]) == list(called["streamed"]) == ["city"]


def test_a_real_model_is_held_to_a_schema(smollm2: str, case: Case) -> None:
    assert set(case("mustFit", smollm2, "smollm2")) == {"name", "age"}


def test_a_real_stream_that_is_left_is_cancelled(
    smollm2: str, case: Case, cancelled: Cancelled
) -> None:
    assert case("left", smollm2, "smollm2") == "left"
    cancelled()
