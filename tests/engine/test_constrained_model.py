"""Grammars over a real model and its tokenizer: what it says is valid, alone and in company."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import pyrite
from pyrite import Grammar, Model

PLACE = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 30},
        "country": {"enum": ["France", "Italy", "Spain", None]},
        "people": {"type": "integer", "minimum": 0, "maximum": 20_000_000},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 3},
    },
    "required": ["city", "country", "people"],
    "additionalProperties": False,
}
SCHEMAS: list[dict[str, Any]] = [
    PLACE,
    {"type": "array", "items": {"maximum": 99, "type": "integer", "minimum": 0}, "minItems": 2},
    {"type": "object", "properties": {"città è": {"type": "boolean"}}, "required": ["città è"]},
    {"anyOf": [{"type": "string", "format": "date"}, {"const": {"none": True}}]},
]
QUESTION = "Tell me about a city in Europe, in JSON."

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def model(smollm2_path: Path) -> Iterator[Model]:
    with pyrite.load(smollm2_path, context=512) as model:
        yield model


@pytest.mark.parametrize("index", range(len(SCHEMAS)))
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_answers_are_valid(model: Model, index: int, temperature: float) -> None:
    schema = SCHEMAS[index]
    answer = model.chat(
        QUESTION,
        grammar=Grammar.json_schema(schema),
        temperature=temperature,
        seed=index,
        max_tokens=120,
    )
    if answer.finish_reason == "stop":
        jsonschema.validate(json.loads(answer.text), schema)
    else:  # an array or an object that goes on and on
        assert index in (1, 2)


def test_choice_regex_and_lark(model: Model) -> None:
    texts = ["Rome is the capital.", "Paris is the capital.", "Oslo is"]
    asked = {"temperature": 0, "max_tokens": 40}
    question = "What is the capital of France?"
    assert model.chat(question, grammar=Grammar.choice(texts), **asked).text == texts[1]
    number = model.chat("Name a year.", grammar=Grammar.regex("[12][0-9]{3}"), **asked).text
    assert 1000 <= int(number) < 3000
    listed = model.chat(
        "Name colors.", grammar=Grammar.lark('start: (w ", "){2} w\nw: /[a-z]{3,8}/'), **asked
    )
    assert len(listed.text.split(", ")) == 3


def test_the_tokens_are_those_that_text_is_cut_into(model: Model) -> None:
    """A model that wanted to say something else would take pieces that it was never trained on."""
    grammar = Grammar.choice(["The quick brown fox jumps over the lazy dog."])
    answer = model.generate("Write:", grammar=grammar, temperature=0)
    expected = model.tokenizer.encode(answer.text).tolist()
    assert list(answer.token_ids) == expected
