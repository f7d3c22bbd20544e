"""Instructor over OpenAI's client: models out of calls and out of schemas, whole and growing."""

from __future__ import annotations

from typing import Any

import pytest
from tests.clients.harness import KEY, Cancelled, awaited, opened

instructor = pytest.importorskip("instructor", reason="instructor is not installed here")

import openai  # noqa: E402
from instructor.core import InstructorRetryException  # noqa: E402
from pydantic import BaseModel, Field  # noqa: E402

MODES = [instructor.Mode.TOOLS, instructor.Mode.JSON, instructor.Mode.JSON_SCHEMA]


class Person(BaseModel):
    name: str
    age: int


class Weather(BaseModel):
    """The weather of a city."""

    city: str


def client_of(url: str, mode: Any, key: str = KEY) -> Any:
    plain = opened(openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0))
    return instructor.from_openai(plain, mode=mode)


def asked(word: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": word}]
    return {"model": "told", "messages": messages, "max_retries": 0, **fields}


@pytest.mark.parametrize("mode", MODES[1:])
def test_a_model_out_of_json(told: str, mode: Any) -> None:
    create = client_of(told, mode).chat.completions
    person = create.create(**asked("json"), response_model=Person)
    assert person.model_dump() == {"name": "Ada", "age": 36}
    person, completion = create.create_with_completion(**asked("json"), response_model=Person)
    assert person.age == 36
    assert completion.usage.completion_tokens == 5


def test_a_model_that_grows(told: str) -> None:
    create = client_of(told, instructor.Mode.JSON).chat.completions
    grown = list(create.create_partial(**asked("json"), response_model=Person))
    assert len(grown) > 2
    assert grown[-1].model_dump() == {"name": "Ada", "age": 36}


@pytest.mark.parametrize(
    ("word", "key", "name", "kind"),
    [
        ("json", "wrong", "told", openai.AuthenticationError),
        ("json", KEY, "other", openai.NotFoundError),
        ("long", KEY, "told", openai.BadRequestError),
        ("full", KEY, "told", openai.RateLimitError),
    ],
)
def test_errors_are_the_clients_own(
    told: str, word: str, key: str, name: str, kind: type[Exception]
) -> None:
    create = client_of(told, instructor.Mode.JSON, key).chat.completions.create
    with pytest.raises((kind, InstructorRetryException)) as caught:
        create(**asked(word, model=name), response_model=Person)
    assert isinstance(caught.value, kind) or kind.__name__ in chain(caught.value)


def chain(error: BaseException | None) -> list[str]:
    """Names of the errors that led to one, as far as it tells."""
    names = []
    while error is not None:
        names.append(type(error).__name__)
        error = error.__cause__ or error.__context__
    return names


@pytest.mark.parametrize("mode", [instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA])
def test_a_real_model_is_held_to_a_model(smollm2: str, mode: Any) -> None:
    body = asked("Who is Ada, of 36 years?", model="smollm2", max_tokens=60, temperature=0)
    person = client_of(smollm2, mode).chat.completions.create(**body, response_model=Person)
    assert isinstance(person, Person)


def test_real_calls_at_once(smollm2: str) -> None:
    mode = instructor.Mode.TOOLS
    body = asked("Weather in Paris?", model="smollm2", max_tokens=60, temperature=0)
    found = client_of(smollm2, mode).chat.completions.create(**body, response_model=Weather)
    assert isinstance(found, Weather)


class Story(BaseModel):
    """One that takes long to write; the client itself checks no length."""

    text: str = Field(json_schema_extra={"minLength": 4000})


def test_a_real_stream_that_is_left_is_cancelled(smollm2: str, cancelled: Cancelled) -> None:
    plain = openai.AsyncOpenAI(base_url=f"{smollm2}/v1", api_key=KEY, max_retries=0)
    create = instructor.from_openai(plain, mode=instructor.Mode.JSON_SCHEMA).chat.completions
    body = asked("Write a long story.", model="smollm2", max_tokens=1900)

    async def run() -> None:
        growing = create.create_partial(**body, response_model=Story)
        async for _ in growing:
            break
        await growing.aclose()
        await plain.close()

    awaited(run())
    cancelled()
