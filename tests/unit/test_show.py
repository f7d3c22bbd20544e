"""The printed plan, against files in `plans`; PYRITE_REWRITE=1 rewrites them: read the diff."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyrite.graph.show import show_plan
from pyrite.models.registry import build_plan, open_model

PLANS = Path(__file__).parent / "plans"


def check(text: str, name: str) -> None:
    path = PLANS / f"{name}.txt"
    if os.environ.get("PYRITE_REWRITE"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("case", ["llama", "llama_tied", "gemma2", "gemma3_text"])
def test_a_plan_as_printed(golden, case):
    check(show_plan(build_plan(open_model(golden / "tiny" / case))), case)


def test_a_plan_as_written(golden):
    plan = build_plan(open_model(golden / "tiny" / "gemma3_text"), passes=())
    check(show_plan(plan), "gemma3_text_as_written")


def test_like_layers_are_printed_once(golden):
    text = show_plan(build_plan(open_model(golden / "tiny" / "llama_sharded")))
    assert "layers 0 to 2, 3 times:" in text
    assert text.count("attention") == 2
