"""Characters of several tokens at the edges of an answer: its first delta, its end, its log-probs.

One token of the scripted model is one byte.
"""

from __future__ import annotations

from typing import Any

import pytest
from scripted import MARKER, alone, request, script, scripted_model

EMOJI = "😀".encode()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_answer_cut_inside_a_character(count: int) -> None:
    """It ends for its length, with one U+FFFD for what there is of the character."""
    result = alone(request("a", "q:", max_tokens=1 + count), script("q:", b"a" + EMOJI))
    assert result.text == "a�"
    assert result.last.finish_reason == "length"
    assert result.token_ids == [*(b"a" + EMOJI)[: 1 + count]]


def test_a_prompt_that_ends_inside_a_character() -> None:
    """Nothing of the prompt comes back with the answer."""
    prompt = [*b"prompt ", *EMOJI[:3]]
    result = alone(request("a", prompt, max_tokens=3), script(prompt, [EMOJI[3], *b"ab"]))
    assert result.text == "�ab"
    assert "prompt" not in result.text


@pytest.mark.parametrize("stop", [[], ["zz"], ["😀😀"]])
def test_a_character_comes_once_and_whole(stop: list[str]) -> None:
    answer = [*b"a", *EMOJI, *b" b"]
    result = alone(request("a", "q:", max_tokens=len(answer), stop=stop), script("q:", answer))
    assert result.text == "a😀 b"
    assert not any("�" in delta.text for delta in result.deltas)


def test_log_probabilities_name_the_bytes_of_the_text() -> None:
    model = scripted_model(script("q:", EMOJI))
    answer = model.generate("q:", temperature=0, max_tokens=4, logprobs=0)
    assert [entry.top for entry in answer.logprobs] == [()] * 4
    ids = [entry.token.token_id for entry in answer.logprobs]
    assert b"".join(map(model.loaded.tokenizer.token_bytes, ids)) == answer.text.encode()


ANSWERS: dict[bool, str] = {True: "ab", False: "a<marker>b"}


@pytest.mark.parametrize("skip", ANSWERS)
def test_a_control_token_is_hidden_or_shown_on_every_way(skip: bool) -> None:
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    model = scripted_model(script("q:", [*b"a", MARKER, *b"b"]), template=template)
    asked: dict[str, Any] = {
        "temperature": 0,
        "max_tokens": 3,
        "ignore_eos": True,
        "skip_special_tokens": skip,
    }
    messages = [{"role": "user", "content": "q:"}]
    found = [
        model.generate("q:", **asked),
        model.chat(messages, **asked),
        model.batch(["q:"], **asked)[0],
        "".join(delta.text for delta in model.stream("q:", **asked)),
        "".join(delta.text for delta in model.chat_stream(messages, **asked)),
    ]
    assert found == [ANSWERS[skip]] * 5
