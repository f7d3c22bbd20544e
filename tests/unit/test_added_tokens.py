"""Added tokens as tokenizer_config.json states them: the ids that `transformers` would have.

It tells the `tokenizers` library of each such token that tokenizer.json has not, or not so.
"""

from __future__ import annotations

import json

import pytest
from tokenizers import AddedToken, normalizers

import library
from library import added
from pyrite.formats.folder_text import read_text
from pyrite.text.library_tokenizer import LibraryTokenizer
from pyrite.text.tokenizer import Tokenizer

LINES = [
    "a <t> b",
    "a<t>b",
    "x  <t>\n\ny",
    "the cat <s>sat</s>",
    "<|im_end|> <t><t>",
    "<new> <t",
    "",
]
PLAIN = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False}


def stated(text, *, special=False, **flags):
    return {"content": text, **PLAIN, "special": special, **flags}


def told(made, tokens):
    """The library's tokenizer, told as transformers does."""
    for token in tokens:
        flags = {name: value for name, value in token.items() if name != "content"}
        made.add_tokens([AddedToken(token["content"], **flags)])
    return made


def folder_of(made, folder, config):
    library.save(made, folder)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return Tokenizer.from_data(read_text(folder, {}).tokenizer)


def compare(ours, theirs):
    assert ours.vocab_size == theirs.get_vocab_size()
    for line in LINES:
        ids = theirs.encode(line, add_special_tokens=False).ids
        assert ours.encode(line, special=True).tolist() == ids, line
        assert ours.decode(ids) == theirs.decode(ids), line
        assert ours.decode(ids, skip_special=False) == theirs.decode(ids, skip_special_tokens=False)


@pytest.fixture(params=["native", "library"])
def make(request):
    def made():
        one = library.make("qwen2", [added("<t>", rstrip=True)])
        if request.param == "library":
            one.normalizer = normalizers.Lowercase()
        return one

    return made


CHANGES = {
    "other flags": {704: stated("<t>", lstrip=True)},
    "special after all": {704: stated("<t>", special=True)},
    "no longer special": {703: stated("<|im_end|>", lstrip=True)},
    "the same": {704: stated("<t>", rstrip=True), 703: stated("<|im_end|>", special=True)},
    "a new one": {705: stated("<new>", special=True, lstrip=True)},
    "a piece": {300: stated("the", special=True)},
    "two new ones": {705: stated("<new>"), 706: stated("<newer>", special=True)},
}


@pytest.mark.parametrize("change", CHANGES)
def test_tokens_by_id(tmp_path, make, change):
    tokens = CHANGES[change]
    if change == "a piece":
        tokens = {make().token_to_id("the"): tokens[300]}
    config = {"added_tokens_decoder": {str(key): one for key, one in tokens.items()}}
    ours = folder_of(make(), tmp_path, config)
    assert isinstance(ours, LibraryTokenizer) == (make().normalizer is not None)
    compare(ours, told(make(), tokens.values()))


def test_tokens_that_are_only_named(tmp_path, make):
    """A piece that ends texts is special then; one that tokenizer.json has stays as it is there."""
    config = {"eos_token": "the", "bos_token": "<s>", "pad_token": stated("at", rstrip=True)}
    config["additional_special_tokens"] = ["<t>", "nobody", {"content": "cat"}]
    ours = folder_of(make(), tmp_path, config)
    pieces = [stated("the", special=True), stated("at", special=True, rstrip=True)]
    compare(ours, told(make(), pieces))
    assert ours.is_special(make().token_to_id("the"))
    assert ours.eos_ids == (make().token_to_id("the"),)


def test_what_cannot_be_is_left_out(tmp_path, make):
    """An id that is not the next one, and names without text."""
    tokens = {"999": stated("<new>", special=True), "705": stated("")}
    compare(folder_of(make(), tmp_path, {"added_tokens_decoder": tokens}), make())


def test_left_to_right_flags_default_as_theirs(tmp_path):
    """`normalized` is what a special token is not."""
    made = library.make("qwen2")
    made.normalizer = normalizers.NFC()
    tokens = {"704": {"content": "e\u0301"}}
    ours = folder_of(made, tmp_path, {"added_tokens_decoder": tokens})
    theirs = library.make("qwen2")
    theirs.normalizer = normalizers.NFC()
    theirs.add_tokens([AddedToken("e\u0301")])
    for line in ("caf\u00e9", "cafe\u0301", "e\u0301"):
        assert ours.encode(line).tolist() == theirs.encode(line, add_special_tokens=False).ids
