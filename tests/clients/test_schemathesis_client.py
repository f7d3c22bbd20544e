"""Schemathesis: requests made out of the OpenAPI document, answers held to what it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients.harness import KEY, ROOT, model_path, python, run

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed here")

from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from schemathesis.checks import CHECKS, load_all_checks  # noqa: E402

load_all_checks()
HELD_TO = CHECKS.get_by_names(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
        "unsupported_method",
    ]
)
HEADERS = {"authorization": f"Bearer {KEY}"}
TINY = ROOT / "tests" / "golden" / "gguf_models" / "llama_q8_0.gguf"
WANDERING = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def served(model: Path) -> Iterator[str]:
    """The URL of `pyrite serve` with a context so small that every answer is quick."""
    command = [python(), "-m", "pyrite", "serve", str(model), "--port", "0", "--alias", "*"]
    yield from run([*command, "--context", "64", "--api-key", KEY])


@pytest.fixture
def chatty() -> Iterator[str]:
    yield from served(model_path())


@pytest.fixture
def plain() -> Iterator[str]:
    """With a model that has no chat template."""
    yield from served(TINY)


def faults(url: str) -> dict[str, BaseException]:
    """By route, what its first answer was that the document does not allow.

    Routes that change the models that are here are left out.
    """
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", headers=HEADERS)
    found: dict[str, BaseException] = {}
    for operation in schema.exclude(path=["/api/pull", "/api/delete"]).get_all_operations():
        try:
            wander(operation.ok())
        except (Exception, BaseExceptionGroup) as error:
            found[operation.ok().label] = error
    return found


def wander(operation: Any) -> None:
    @settings(WANDERING)
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        case.call_and_validate(headers=HEADERS, checks=HELD_TO)

    ask()


def test_a_server_answers_as_described(chatty: str) -> None:
    assert faults(chatty) == {}


def test_a_server_without_a_template_answers_as_described(plain: str) -> None:
    assert faults(plain) == {}
