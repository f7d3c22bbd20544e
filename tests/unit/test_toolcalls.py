"""What public chat templates write as calls and reasoning is read back, wherever it is cut."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pyrite.errors import TemplateError
from pyrite.text.answer import CallArguments, CallStart, Content, Piece, Reasoning
from pyrite.text.answers import AnswerParser, merged
from pyrite.text.calls.bodies import CallFormat
from pyrite.text.messages import normalize
from pyrite.text.reasoning import ReasoningFormat, find_reasoning
from pyrite.text.template import ChatTemplate
from pyrite.text.toolcalls import FORMATS, find_format

DATA = json.loads((Path(__file__).parent.parent / "golden" / "chat_templates.json").read_text())
FAMILIES = {
    **dict.fromkeys(["llama-3.1", "llama-3.2", "llama-3.3"], ("llama3", None)),
    **dict.fromkeys(["qwen2.5", "hermes-2-pro-tool", "hermes-3-tool"], ("hermes", None)),
    **dict.fromkeys(["qwen3", "qwq"], ("hermes", "think")),
    "mistral-nemo": ("mistral-list", None),
    "mistral-small-3.2": ("mistral", None),
    "deepseek-r1-distill-llama": ("deepseek-r1", "think"),
    "deepseek-r1-distill-qwen-gguf": ("deepseek-r1", "think"),
    "deepseek-v3.1": ("deepseek-v3", "think"),
    "command-r7b": ("cohere", "cohere"),
    "granite-3.3": ("granite", "granite"),
    "smollm3": (None, "think"),
    "gpt-oss": ("harmony", "harmony"),
    "glm-4.6": ("glm", "think"),
    "lfm2": ("lfm2", None),
    "kimi-k2": ("kimi", None),
    **dict.fromkeys(["phi-3.5-mini", "gemma-2", "mistral-7b-instruct"], (None, None)),
    **dict.fromkeys(["phi-3-mini", "llama-2", "smollm2-gguf"], (None, None)),
}
WRITING = [name for name, (calls, _) in FAMILIES.items() if calls not in (None, "granite", "lfm2")]
ONE_CALL = ("llama-3.1", "llama-3.2", "llama-3.3", "gpt-oss")  # templates that write one at most
ENDS = ("<|im_end|>", "<|eot_id|>", "<|END_OF_TURN_TOKEN|>", "<|return|>", "<|user|>")

CALLS = [
    ("get_weather", {"city": 'Zürich "Süd" {x} \\ 😀', "unit": "celsius"}),
    ("calc", {"expr": "1\n</b> + [2]}", "digits": 2, "opts": ["a", "b}"], "deep": {"k": [{}]}}),
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "does something",
            "parameters": {
                "type": "object",
                "properties": {key: {"description": key} for key in arguments},
            },
        },
    }
    for name, arguments in CALLS
]
SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}  # type: ignore[index]


@functools.cache
def formats_of(name: str) -> tuple[CallFormat | None, ReasoningFormat | None]:
    template = template_of(name)
    return find_format(template), find_reasoning(template.source)


def template_of(name: str) -> ChatTemplate:
    entry = DATA["templates"][name]
    return ChatTemplate(
        entry["template"], bos_token=entry["bos_token"], eos_token=entry["eos_token"]
    )


def answer_of(name: str, message: dict[str, Any]) -> str:
    """What a template makes of an answer: the text that its model would have written."""
    template = template_of(name)
    question = {"role": "user", "content": "Weather?"}
    messages = normalize([question, {"role": "assistant", **message}], template.call_shape)
    whole = template.render(messages, TOOLS, add_generation_prompt=False)
    for opened in (True, False):
        prompt = template.render(messages[:1], TOOLS, add_generation_prompt=opened)
        if whole.startswith(prompt):
            whole = whole[len(prompt) :]
            break
    for header in ("<｜Assistant｜>", "<|im_start|>assistant"):  # where the prompt has more than it
        whole = whole.removeprefix(header)
    for end in (*ENDS, template.eos_token):
        whole = whole.split(end)[0] if end else whole
    return whole


def message_of(calls: Sequence[tuple[str, Any]], **more: Any) -> dict[str, Any]:
    written = [
        {
            "id": f"abcdefgh{index}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for index, (name, arguments) in enumerate(calls)
    ]
    return {"content": None, **more, "tool_calls": written}


def ids() -> Callable[[], str]:
    numbers = itertools.count()
    return lambda: f"id{next(numbers)}"


def parse(name: str, texts: Iterable[str], **options: Any) -> list[Piece]:
    parser = AnswerParser(*formats_of(name), tools=SCHEMAS, new_id=ids(), **options)
    return merged([piece for text in texts for piece in parser.push(text)] + parser.finish())


def cuts(text: str) -> Iterable[list[str]]:
    """The text whole, in single characters, and in two at every place."""
    yield [text]
    yield list(text)
    yield from ([text[:place], text[place:]] for place in range(1, len(text)))


def split(pieces: list[Piece]) -> tuple[str, str, list[tuple[str, Any]]]:
    """Content, reasoning, calls."""
    starts = [piece for piece in pieces if isinstance(piece, CallStart)]
    assert [piece.index for piece in starts] == list(range(len(starts)))
    arguments = [""] * len(starts)
    for piece in pieces:
        if isinstance(piece, CallArguments):
            arguments[piece.index] += piece.text
    calls = [(start.name, json.loads(text)) for start, text in zip(starts, arguments, strict=True)]
    content = "".join(piece.text for piece in pieces if isinstance(piece, Content))
    return content, "".join(p.text for p in pieces if isinstance(p, Reasoning)), calls


def test_every_public_template_has_its_formats() -> None:
    assert set(FAMILIES) == set(DATA["templates"])
    for name, (calls, reasoning) in FAMILIES.items():
        found, thinking = formats_of(name)
        assert (found and found.name) == calls, name
        assert (thinking and thinking.name) == reasoning, name


@pytest.mark.parametrize("name", WRITING)
@pytest.mark.parametrize("count", [1, 2])
def test_calls_are_read_back_at_every_cut(name: str, count: int) -> None:
    if count == 2 and name in ONE_CALL:
        if name == "gpt-oss":
            pytest.skip("this template passes over all calls but the first")
        with pytest.raises(TemplateError, match="single"):
            answer_of(name, message_of(CALLS))
        return
    answer = answer_of(name, message_of(CALLS[:count]))
    whole = parse(name, [answer])
    content, _, calls = split(whole)
    assert (content, calls) == ("", CALLS[:count])
    for texts in cuts(answer):
        assert parse(name, texts) == whole, texts


@pytest.mark.parametrize("name", [name for name in WRITING if "-r1-" not in name])
def test_content_before_calls(name: str) -> None:
    answer = answer_of(name, message_of(CALLS[:1], content="Let me look."))
    content, reasoning, calls = split(parse(name, [answer]))
    assert calls == CALLS[:1]
    written = "Let me look." in answer
    assert (content + reasoning).strip() == ("Let me look." if written else "")


@pytest.mark.parametrize("name", ["qwen3", "glm-4.6", "command-r7b", "gpt-oss"])
@pytest.mark.parametrize("calls", [[], CALLS[:1]])
def test_reasoning_is_read_back_at_every_cut(name: str, calls: list[Any]) -> None:
    thought = "I wonder:\n\n  <b> is 1 < 2?"
    message = message_of(calls, reasoning_content=thought, thinking=thought, content=None)
    if not calls:
        message = {"content": "It is.\n", "reasoning_content": thought, "thinking": thought}
    answer = answer_of(name, message)
    if thought not in answer:
        pytest.skip("this template writes reasoning only together with calls")
    whole = parse(name, [answer])
    assert split(whole)[1:] == (thought, calls)
    assert split(whole)[0].strip() == ("" if calls else "It is.")
    for texts in cuts(answer):
        assert parse(name, texts) == whole, texts


def test_no_marker_lies_inside_another() -> None:
    """The search for markers relies on it."""
    for row in FORMATS:
        for one, other in itertools.permutations({*row.begins, row.end} - {""}, 2):
            assert one not in other, row.name
