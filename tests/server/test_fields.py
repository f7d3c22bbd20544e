"""Each field of a request is used, refused, or ignored and said so."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyrite.errors import ParameterError
from pyrite.server.fields import Fields, Ignored, Refused, header_of


class Text(msgspec.Struct, tag="text"):
    text: str


class Call(msgspec.Struct, tag="call"):
    name: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class Message(msgspec.Struct):
    role: str
    content: str | list[Text | Call] | None = None


class Asked(msgspec.Struct):
    messages: list[Message]
    limit: int | None = None


FIELDS = Fields(
    Asked,
    refused={
        "stored": Refused("nothing is kept: send the whole conversation", harmless=(False,)),
        "messages[].content[].image": Refused("text alone is read"),
        "messages[].content[].type": Refused("this engine reads text alone"),
    },
    ignored={
        "user": "there are no users",
        "messages[].name": "templates know no names",
        "tier": Ignored("all are served alike", harmless=("auto",)),
    },
)


def asked(**more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "Hi"}], **more}


def test_used_fields_are_not_listed() -> None:
    assert FIELDS.check(asked(limit=3)) == ()


def test_ignored_and_unknown_fields_are_listed() -> None:
    assert FIELDS.check(asked(user="me", colour="red")) == ("user", "colour")


def test_what_is_done_anyway_is_not_told() -> None:
    assert FIELDS.check(asked(tier="auto")) == ()
    assert FIELDS.check(asked(tier="fast")) == ("tier",)


def test_null_is_as_good_as_absent() -> None:
    assert FIELDS.check(asked(user=None, stored=None)) == ()


def test_a_refused_field_names_value_and_what_to_do() -> None:
    with pytest.raises(ParameterError, match="stored = True: must be absent or false") as caught:
        FIELDS.check(asked(stored=True))
    assert caught.value.name == "stored"
    assert "send the whole conversation" in str(caught.value)


@pytest.mark.parametrize("value", [True, 0, "", [], 1])
def test_only_the_harmless_value_passes(value: object) -> None:
    with pytest.raises(ParameterError):
        FIELDS.check(asked(stored=value))
    assert FIELDS.check(asked(stored=False)) == ()


def test_nested_fields_are_listed_once_by_their_path() -> None:
    text = {"type": "text", "text": "a", "mark": 1}
    message = {"role": "user", "name": "me", "content": [text, text]}
    names = FIELDS.check({"messages": [message, message]})
    assert names == ("messages[].name", "messages[].content[].mark")


def test_a_nested_refusal_says_where() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "image": "x"}]
    with pytest.raises(ParameterError) as caught:
        FIELDS.check({"messages": [{"role": "user", "content": content}]})
    assert caught.value.name == "messages[0].content[1].image"


def test_kinds_of_a_union_are_told_apart() -> None:
    content = [{"type": "call", "name": "f", "text": "x"}, {"type": "text", "text": "b"}]
    names = FIELDS.check({"messages": [{"role": "user", "content": content}]})
    assert names == ("messages[].content[].text",)


def test_free_objects_are_not_looked_into() -> None:
    content = [{"type": "call", "name": "f", "arguments": {"anything": {"image": 1}}}]
    assert FIELDS.check({"messages": [{"role": "user", "content": content}]}) == ()


@pytest.mark.parametrize("kind", ["image", None, 3, ["text"]])
def test_an_unknown_kind_is_refused_with_the_known_ones(kind: object) -> None:
    content = [{"type": kind, "text": "a"}]
    with pytest.raises(ParameterError, match='must be "text" or "call"') as caught:
        FIELDS.check({"messages": [{"role": "user", "content": content}]})
    assert caught.value.name == "messages[0].content[0].type"
    assert "this engine reads text alone" in str(caught.value)


@pytest.mark.parametrize("messages", [None, 3, "x", [3], [None], [[]], [{"content": [7]}]])
def test_what_is_wrong_is_left_to_the_conversion(messages: object) -> None:
    assert FIELDS.check({"messages": messages}) == ()


def test_the_table_documents_every_field_once() -> None:
    rows = FIELDS.rows()
    assert [row.name for row in rows] == [
        "messages", "limit", "stored", "messages[].content[].image", "messages[].content[].type",
        "user", "messages[].name", "tier",
    ]  # fmt: skip
    assert {row.fate for row in rows} == {"used", "refused", "ignored"}


def test_a_field_has_one_fate() -> None:
    with pytest.raises(AssertionError):
        Fields(Asked, ignored={"limit": "both"})
    with pytest.raises(AssertionError):
        Fields(Asked, ignored={"x": "both"}, refused={"x": Refused("both")})


def test_the_header_carries_no_line_break_and_no_flood() -> None:
    assert header_of(()) == ()
    assert header_of(("a", "b[].c")) == ((b"x-pyrite-ignored", b"a, b[].c"),)
    assert header_of(("a\r\nset-cookie: x", "é", "x" * 65)) == (
        (b"x-pyrite-ignored", b"and-3-more"),
    )
    (pair,) = header_of(tuple(f"f{number}" for number in range(1000)))
    assert pair[1].endswith(b"f31, and-968-more")


def test_a_flood_of_unknown_fields_is_refused() -> None:
    flood = {f"field{number}": number for number in range(1000)}
    assert len(FIELDS.check(asked(**flood))) == 1000
    with pytest.raises(ParameterError, match="at most 1000 fields"):
        FIELDS.check(asked(**flood, more=1))
