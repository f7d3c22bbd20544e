"""tokenizer.json: ids and texts as the `tokenizers` library has them; and files that lie."""

from __future__ import annotations

import json
import unicodedata

import pytest
from tokenizers import normalizers, processors

import library
from library import added
from pyrite.errors import FormatError
from pyrite.formats.tokenizer_json import read_tokenizer_json
from pyrite.text.tokenizer import Tokenizer
from vocabularies import corpus

LINES = [
    *corpus(500, seed=7),
    *("Hello", " Hello", "  two  spaces", "\nHello", "", " ", "\ufeffx", "\x00", "\t\tif x:\r\n"),
    *("<s>Hello", "<s> Hello</s>x", "a<|im_end|> b", "▁▁a ▁", "e\u0301é\u0301", "1234567 ١٢٣ ½"),
    "room 501, 4096+512, 1234567, 3.14, ١٢٣",
    "x" * 300 + " " * 300 + "é" * 200 + "漢" * 100 + "👩‍👩‍👧‍👦" * 20,
]


def ours(path) -> Tokenizer:
    data = read_tokenizer_json(path).data
    assert data.model != "library", data.unknown
    return Tokenizer.from_data(data)


def compare(made, path, lines=LINES) -> None:
    tokenizer = ours(path)
    assert tokenizer.vocab_size == made.get_vocab_size()
    for line in lines:
        expected = made.encode(line, add_special_tokens=False).ids
        assert tokenizer.encode(line, special=True).tolist() == expected, repr(line)
        assert tokenizer.decode(expected) == made.decode(expected), repr(line)
        made.encode_special_tokens = True
        plain = made.encode(line, add_special_tokens=False).ids
        made.encode_special_tokens = False
        assert tokenizer.encode(line).tolist() == plain, repr(line)


@pytest.mark.parametrize("name", library.ALL)
def test_equals_the_library(tmp_path, name):
    made = library.make(name)
    compare(made, library.save(made, tmp_path))


FLAGS = [{flag: True} for flag in ("lstrip", "rstrip", "normalized", "special")]
FLAGS += [{"lstrip": True, "rstrip": True}, {"special": True, "rstrip": True}]
SIDES = ["x <t> y", "x<t>y", "x  <t>\n\ny", "<t>", " <t> ", "<t><t> <t>", "é\u3000<t>\u2003é", "<t"]
SIDES += ["<t>user", "<t> user", "a\t<t>\tb", "a b<t><s> <t></s>"]


@pytest.mark.parametrize("flags", FLAGS, ids=lambda flags: "+".join(flags))
@pytest.mark.parametrize("name", ["gpt-2", "qwen2", "mistral"])
def test_flags_of_added_tokens(tmp_path, name, flags):
    made = library.make(name, [added("<t>", **flags)])
    compare(made, library.save(made, tmp_path), SIDES)


def test_tokens_that_are_not_normalized_are_found_first(tmp_path):
    tokens = [added("ab", normalized=True), added("bc"), added("  ", normalized=True)]
    made = library.make("gpt-2", tokens)
    compare(made, library.save(made, tmp_path), ["abc", "xabcab", "a  b   c", "bc  ab"])


def test_added_tokens_that_the_vocabulary_has_too(tmp_path):
    """Runs of boundaries, as Gemma's are: only the character itself is one of them."""
    made = library.make("gemma", [added("▁▁"), added("the", special=True), added("é")])
    compare(made, library.save(made, tmp_path), [*LINES, "the  cat ▁▁ the", "▁▁▁ the▁"])


COMPOSED = ["e\u0301", "é", "<s>\u0338x", "a<|im_end|>\u0338", "\u1100\u1161\u11a8", "Å", "ﬁ\u0301"]
COMPOSED += ["q\u0307\u0323<s>q\u0323\u0307", "\u0344", "\U0001d15e", "a\u0301" * 300]


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize("name", ["qwen2", "smollm"])
def test_text_is_normalized_between_markers(tmp_path, name, form):
    made = library.make(name, [added("e", normalized=True), added("<x>")])
    made.normalizer = getattr(normalizers, form)()
    path = library.save(made, tmp_path)
    assert read_tokenizer_json(path).data.normalization == form
    compare(made, path, [*LINES, *COMPOSED])


def test_a_token_that_is_normalized_too_is_left_to_the_library(tmp_path):
    """It is looked for as what it becomes."""
    made = library.make("qwen2", [added("e\u0301", normalized=True)])
    made.normalizer = normalizers.NFC()
    data = read_tokenizer_json(library.save(made, tmp_path)).data
    assert "normalized text" in data.unknown
    tokenizer = Tokenizer.from_data(data)
    for line in ("caf\u00e9", "cafe\u0301", "e\u0301"):
        assert tokenizer.encode(line).tolist() == made.encode(line, add_special_tokens=False).ids


def test_every_character_is_normalized_as_the_library_does():
    """But for the order of some marks that came to Unicode after the library's tables (9.0)."""
    library_form = normalizers.NFC()
    others = []
    for code in (*range(0x80, 0xD800), *range(0xE000, 0x30000)):
        text = f"a{chr(code)}\u0301 {chr(code)}\u0301 {chr(code)}"
        if library_form.normalize_str(text) != unicodedata.normalize("NFC", text):
            others.append(chr(code))
    assert all(unicodedata.category(one).startswith("M") for one in others)
    assert len(others) < 100


def test_invalid_bytes_pass_the_normalizer(tmp_path):
    made = library.make("gpt-2")
    made.normalizer = normalizers.NFC()
    tokenizer = ours(library.save(made, tmp_path))
    for text in (b"\xe6\xad e\xcc\x81", b"\xff\xcc\x81", b"e\xcc\x81\xed\xa0\x80"):
        assert (
            b"\xc3\xa9" in tokenizer.decode_bytes(tokenizer.encode_bytes(text)) or b"\xff" in text
        )


def test_pairs_and_lines_of_merges_are_the_same(tmp_path):
    made = library.make("gpt-2")

    def joined(document):
        merges = document["model"]["merges"]
        document["model"]["merges"] = [" ".join(pair) for pair in merges]

    path = library.save(made, tmp_path, joined)
    compare(made, path, LINES[:50])


def test_names_in_any_order(tmp_path):
    made = library.make("gpt-2", [added("<t>")])

    def turned(document):
        vocab = document["model"]["vocab"]
        document["model"]["vocab"] = dict(reversed(vocab.items()))

    compare(made, library.save(made, tmp_path, turned), LINES[:50])


def test_two_ids_that_are_exchanged_make_another_tokenizer(tmp_path):
    def exchanged(document):
        vocab = document["model"]["vocab"]
        vocab["a"], vocab["b"] = vocab["b"], vocab["a"]

    made = library.make("gpt-2")
    one = ours(library.save(made, tmp_path))
    other = ours(library.save(made, tmp_path, exchanged))
    assert one.encode("a").tolist() == other.encode("b").tolist()
    assert one.fingerprint != other.fingerprint


# What a post-processor adds.


@pytest.mark.parametrize("wrapped", [False, True])
def test_frames(tmp_path, wrapped):
    made = library.with_start(library.make("gpt-2"))
    if wrapped:
        made.post_processor = processors.Sequence([processors.ByteLevel(), made.post_processor])
    file = read_tokenizer_json(library.save(made, tmp_path))
    assert (file.before, file.after) == ((made.token_to_id("<s>"),), ())


def test_a_frame_on_both_sides(tmp_path):
    made = library.make("gpt-2")
    start, end = made.token_to_id("<s>"), made.token_to_id("</s>")
    made.post_processor = processors.RobertaProcessing(("</s>", end), ("<s>", start))
    file = read_tokenizer_json(library.save(made, tmp_path))
    assert (file.before, file.after) == ((start,), (end,))


# What is not known here, by name; and files that lie.


def set_model(**fields):
    return lambda document: document["model"].update(fields)


def set_part(name, value):
    return lambda document: document.update({name: value})


UNKNOWN = {
    "dropout": set_model(dropout=0.1),
    "suffix": set_model(end_of_word_suffix="</w>"),
    "Lowercase": set_part("normalizer", {"type": "Lowercase"}),
    "Whitespace": set_part("pre_tokenizer", {"type": "Whitespace"}),
    "WordPiece": set_part("decoder", {"type": "WordPiece", "prefix": "##", "cleanup": True}),
    "puts a space": set_part(
        "pre_tokenizer",
        {"type": "Sequence", "pretokenizers": [{"type": "Digits"}, {"type": "ByteLevel"}]},
    ),
    "FromTheFuture": set_part("post_processor", {"type": "FromTheFuture"}),
    "single_word": lambda document: document["added_tokens"][0].update(single_word=True),
    "WordLevel": set_part("model", {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}),
    "Unigram": set_part("model", {"type": "Unigram", "vocab": [["a", -1.0]], "unk_id": 0}),
}


@pytest.mark.parametrize("word", UNKNOWN)
def test_what_is_not_known_is_left_to_the_library(tmp_path, word):
    def change(document):
        UNKNOWN[word](document)
        if "Word" in word or word == "Unigram":
            document["added_tokens"] = []

    data = read_tokenizer_json(library.save(library.make("gpt-2"), tmp_path, change)).data
    assert data.model == "library"
    assert word in data.unknown
    assert data.source == tmp_path / "tokenizer.json"
    assert len(data.tokens) > 0


LIES = {
    "two tokens": (r"have one id, 5", lambda d: d["model"]["vocab"].update({"twice": 5})),
    "negative": ("from -1 to", lambda d: d["model"]["vocab"].update({"x" * 9: -1})),
    "huge": ("must be from 0", lambda d: d["model"]["vocab"].update({"x" * 9: 1 << 40})),
    "beyond": ("64 bits", lambda d: d["model"]["vocab"].update({"x" * 9: 1 << 63})),
    "other id": ("has id 3", lambda d: d["added_tokens"][0].update(id=3, content="x")),
    "taken id": ("have one id, 3", lambda d: d["added_tokens"][0].update(id=3)),
    "no tokens": ("no tokens", lambda d: d.update(model={"vocab": {}}, added_tokens=[])),
    "merges": ("merges", lambda d: d["model"].update(merges=[["a"]])),
    "vocab": ("vocab", lambda d: d["model"].update(vocab=[1])),
    "model": ("model", lambda d: d.pop("model")),
    "prefix": ("lacks '##'", lambda d: d["model"].update(continuing_subword_prefix="##")),
    "one part": ("merges: byte", lambda d: d["model"].update(merges=[["a", "b"], ["a"]])),
    "three parts": ("merges: byte", lambda d: d["model"].update(merges=[["a", "b", "c"]])),
    "no text": ("merges: byte", lambda d: d["model"].update(merges=["a b", 1])),
    "number": ("vocab: byte", lambda d: d["model"]["vocab"].update({"x" * 9: 1.5})),
    "list": ("pre_tokenizer", lambda d: d.update(pre_tokenizer=[])),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_named(tmp_path, lie):
    words, change = LIES[lie]
    path = library.save(library.make("gpt-2"), tmp_path, change)
    with pytest.raises(FormatError, match=words):
        read_tokenizer_json(path)


@pytest.mark.parametrize("merge", [["a", "nobody"], ["nobody", "a"], ["a", "ÿÿÿ"]])
def test_merges_of_unknown_pieces_are_refused(tmp_path, merge):
    made = library.make("gpt-2")
    path = library.save(made, tmp_path, lambda d: d["model"]["merges"].append(merge))
    with pytest.raises(FormatError, match="1 merge"):
        ours(path)


@pytest.mark.parametrize("depth", [100, 100_000])
@pytest.mark.parametrize("place", ["normalizer", "model", "more"])
def test_deep_nesting_is_refused(tmp_path, place, depth):
    path = tmp_path / "tokenizer.json"
    nested = "[" * depth + "]" * depth
    path.write_text(f'{{"model": {{"vocab": {{"a": 0}}}}, "{place}": {nested}}}')
    if place == "more" and depth == 100:
        assert read_tokenizer_json(path).data.model == "library"
        return
    with pytest.raises(FormatError):
        read_tokenizer_json(path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"model": 1}', b'{"a": "\xff"}'])
def test_no_json_at_all(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"tokenizer\.json"):
        read_tokenizer_json(path)


@pytest.mark.parametrize("place", ["model", "added_tokens"])
def test_half_of_a_surrogate_pair(tmp_path, place):
    path = library.save(library.make("gpt-2"), tmp_path)
    name = {"model": '"vocab": {', "added_tokens": '"content": "'}[place]
    half = {"model": '"\\ud800": 999, ', "added_tokens": "\\ud800"}[place]
    path.write_text(path.read_text().replace(name, name + half, 1))
    with pytest.raises(FormatError, match=r"tokenizer\.json"):
        read_tokenizer_json(path)


def test_too_large_and_too_long(tmp_path, monkeypatch):
    path = library.save(library.make("gpt-2"), tmp_path)
    for most, name in ((100, "vocab"), (703, "")):
        monkeypatch.setattr("pyrite.formats.tokenizer_json.MAX_ENTRIES", most)
        if name:
            with pytest.raises(FormatError, match=f"{name}: more than {most} entries"):
                read_tokenizer_json(path)
    read_tokenizer_json(path)
    monkeypatch.setattr("pyrite.formats.tokenizer_json.MAX_ADDED_BYTES", 100)
    with pytest.raises(FormatError, match="added_tokens have more than 100 bytes"):
        read_tokenizer_json(path)
    monkeypatch.setattr("pyrite.formats.tokenizer_json.MAX_BYTES", 1000)
    with pytest.raises(FormatError, match="larger than 1000 bytes"):
        read_tokenizer_json(path)


def test_holes_in_the_ids_are_unused(tmp_path):
    def change(document):
        document["added_tokens"][-1]["id"] += 5

    tokenizer = ours(library.save(library.make("gpt-2"), tmp_path, change))
    assert tokenizer.vocab_size == 709
    assert tokenizer.token_bytes(705) == b""
    assert tokenizer.encode("<|im_end|>", special=True).tolist() == [708]


def test_strings_with_zero_bytes(tmp_path):
    made = library.make("gpt-2", [added("a\0b"), added("\0")])
    compare(made, library.save(made, tmp_path), ["a\0b\0c", "\0\0"])
    assert json.loads((tmp_path / "tokenizer.json").read_text())["added_tokens"][-1]["id"] == 705
