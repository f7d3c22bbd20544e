"""The page's reader of server-sent events and its fold of chunks, as modules: every split of a
stream gives the same events. What a module test can hold, no click has to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.browser.chromium import Chromium, Tab
from tests.browser.endpoint import Endpoint

STREAM = (
    "\ufeff: a comment\r\n\r\n"
    'data: {"a": "é"}\r\n\r\n'
    "event: x\ndata: one\ndata:two\ndata\n\n"
    "id: 1\nretry: 5\n\n"
    "data:  spaced\r\r"
    "data: 🦊🏽 \u2028 end\n\n\n\n"
    "data: [DONE]\r\n\r\n"
    "data: last, without its empty line"
)
EVENTS = [
    '{"a": "é"}',
    "one\ntwo\n",
    " spaced",
    "🦊🏽 \u2028 end",
    "[DONE]",
    "last, without its empty line",
]


@pytest.fixture
def tab(chromium: Chromium, endpoint: Endpoint) -> Iterator[Tab]:
    """A tab in which the sources can be imported."""
    with chromium.tab() as one:
        one.go(endpoint.url + "blank")
        yield one


def test_every_split_gives_the_same_events(tab: Tab) -> None:
    script = """(async () => {
      const { EventReader } = await import('/ui/events.js');
      const bytes = new TextEncoder().encode(%s);
      const read = (pieces) => {
        const reader = new EventReader();
        return [...pieces.flatMap((piece) => reader.feed(piece)), ...reader.end()];
      };
      const all = new Set();
      for (let at = 0; at <= bytes.length; at += 1) {
        all.add(JSON.stringify(read([bytes.slice(0, at), bytes.slice(at)])));
        for (let next = at; next <= bytes.length; next += 7) {
          const three = [bytes.slice(0, at), bytes.slice(at, next), bytes.slice(next)];
          all.add(JSON.stringify(read(three)));
        }
      }
      all.add(JSON.stringify(read([...bytes].map((byte) => new Uint8Array([byte])))));
      return [...all].map((one) => JSON.parse(one));
    })()"""
    assert tab.run(script % json.dumps(STREAM)) == [EVENTS]


def test_what_is_exported_comes_back(tab: Tab) -> None:
    conversation = {
        "title": "A title",
        "created": 1,
        "updated": 2,
        "settings": {"system": "Be brief.", "sampling": {"top_k": 3}},
        "messages": [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": "Yes.",
                "reasoning": "Hm.",
                "calls": [{"id": "c", "name": "f", "arguments": "{}"}],
                "model": "m",
                "finish": "failed",
                "error": {"kind": "cut", "message": "It broke."},
                "usage": {
                    "prompt_tokens": 3,
                    "completion_tokens": 2,
                    "prompt_tokens_details": {"cached_tokens": 1},
                },
                "times": {"first": 0.5, "total": 1},
            },
        ],
    }
    script = """(async () => {
      const { asJson, asMarkdown, fromJson } = await import('/ui/transfer.js');
      const given = %s;
      const [back] = fromJson(asJson([given]));
      delete back.id;
      back.messages.forEach((message) => delete message.id);
      return [back, asMarkdown(given)];
    })()"""
    back, markdown = tab.run(script % json.dumps(conversation))
    assert back == conversation
    for part in ("# A title", "Be brief.", "## You\n\nHi", "## Answer (m)", "> Hm.", "Yes."):
        assert part in markdown
    assert "> Error: It broke." in markdown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        '{"format": "other"}',
        '{"format": "pyrite-conversations", "conversations": {}}',
        '{"format": "pyrite-conversations", "conversations": [null]}',
        '{"format": "pyrite-conversations", "conversations": [{"messages": [null]}]}',
        '{"format": "pyrite-conversations", "conversations": [{"messages": [{"role": "x"}]}]}',
    ],
)
def test_what_was_not_exported_is_refused(tab: Tab, text: str) -> None:
    script = f"""import('/ui/transfer.js').then(({{ fromJson }}) => {{
      try {{
        fromJson({json.dumps(text)});
        return 'taken';
      }} catch (error) {{
        return error.message;
      }}
    }})"""
    assert "file" in tab.run(script)


def test_strange_values_are_dropped_on_import(tab: Tab) -> None:
    """Whatever a file claims, the views get the types that they expect."""
    message = {
        "role": "assistant",
        "content": 5,
        "calls": [None, 3],
        "usage": {"prompt_tokens": "x"},
    }
    conversation = {"title": {}, "settings": {"sampling": {"seed": "x"}}, "messages": [message]}
    file = {"format": "pyrite-conversations", "conversations": [conversation]}
    script = "import('/ui/transfer.js').then(({ fromJson }) => fromJson(%s)[0])"
    back = tab.run(script % json.dumps(json.dumps(file)))
    assert back["title"] == "Imported"
    assert back["settings"] == {"system": "", "sampling": {}}
    assert back["messages"][0]["content"] == ""
    assert back["messages"][0]["calls"] == [{"id": "", "name": "", "arguments": ""}] * 2
    assert back["messages"][0]["usage"] == {}
