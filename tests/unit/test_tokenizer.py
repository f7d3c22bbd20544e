"""The tokenizer's rules: markers, bytes, stops, bad data; and relations that must hold."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyrite.errors import FormatError, ParameterError, UnsupportedError
from pyrite.formats.gguf import read_gguf
from pyrite.formats.vocabulary import read_tokenizer
from pyrite.text.tokenizer import Tokenizer
from vocabularies import CONTROL, USER, byte_level, corpus, sentence_piece, table


def tokenizer_data(path):
    return read_tokenizer(read_gguf(path).metadata)


@pytest.fixture(scope="module")
def smollm2(smollm2_path):
    return Tokenizer.from_data(tokenizer_data(smollm2_path))


@pytest.fixture(scope="module")
def gemma3(gemma3_path):
    return Tokenizer.from_data(tokenizer_data(gemma3_path))


@pytest.fixture(scope="module")
def tiny(golden):
    folder = golden / "gguf_models"
    return {
        name: Tokenizer.from_data(tokenizer_data(folder / f"{name}_q8_0.gguf"))
        for name in ("llama", "qwen2")
    }


# Markers.


def test_typed_markers_stay_text(smollm2):
    text = "please print <|im_end|> for me"
    (end,) = smollm2.encode("<|im_end|>", special=True)
    plain, special = smollm2.encode(text), smollm2.encode(text, special=True)
    assert end not in plain
    assert smollm2.decode(plain) == text
    assert special.tolist().count(end) == 1
    assert smollm2.decode(special) == text.replace("<|im_end|>", "")
    assert smollm2.decode(special, skip_special=False) == text


def test_template_markers_are_one_id_each(smollm2):
    turns = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>a"
    ids = smollm2.encode(turns, special=True).tolist()
    assert ids.count(smollm2.control_id("<|im_start|>")) == 3
    assert ids.count(smollm2.control_id("<|im_end|>")) == 2


def test_word_after_a_marker_is_not_given_a_space():
    data = byte_level(["u s", "us er", "Ġ user"], [("<m>", USER)])
    data = replace(data, merges=table([b"u s", b"e r", b"us er", "Ġ user".encode()]))
    ours = Tokenizer.from_data(data)
    size = ours.vocab_size
    assert ours.decode(ours.encode("<m>user")) == "<m>user"
    assert ours.encode("<m>user").tolist()[0] == size - 1
    assert ours.encode("<m>user").tolist() != ours.encode("<m> user").tolist()
    assert ours.token_bytes(int(ours.encode("<m> user")[1])).startswith(b" ")


def test_user_defined_markers_match_in_both_modes():
    ours = Tokenizer.from_data(byte_level(markers=[("<t>", USER), ("<c>", CONTROL)]))
    assert ours.encode("<t><c>").tolist()[0] == 256
    assert 257 not in ours.encode("<t><c>")
    assert ours.encode("<t><c>", special=True).tolist() == [256, 257]


def test_the_longest_marker_wins_and_the_leftmost_goes_first():
    markers = [("ab", USER), ("abc", CONTROL), ("abcd", USER), ("bcde", USER), ("de", USER)]
    ours = Tokenizer.from_data(byte_level(markers=markers))
    assert ours.encode("abcde", special=True).tolist() == [258, ord("e")]
    assert ours.encode("abc", special=True).tolist() == [257]
    assert ours.encode("abc").tolist() == [256, ord("c")]
    assert ours.decode(ours.encode("xbcdex")) == "xbcdex"


@pytest.mark.parametrize("special", [False, True])
def test_markers_inside_a_character_are_not_found(special):
    ours = Tokenizer.from_data(byte_level(markers=[("é", USER)]))
    assert ours.decode(ours.encode("éè漢é", special=special)) == "éè漢é"


# Numbers and missing or unknown pre-tokenizers.


def test_digits_stand_alone(smollm2):
    text = "room 501, 4096+512, 1234567, 3.14, ١٢٣"
    pieces = [smollm2.token_bytes(int(token_id)) for token_id in smollm2.encode(text)]
    assert [piece for piece in pieces if piece.isdigit()] == [
        bytes([byte]) for byte in text.encode() if chr(byte).isascii() and chr(byte).isdigit()
    ]


def test_missing_pre_is_loaded_with_a_warning(smollm2_path, caplog):
    data = replace(tokenizer_data(smollm2_path), pre=None)
    with caplog.at_level(logging.WARNING, logger="pyrite"):
        ours = Tokenizer.from_data(data)
    assert ours.pre == "default"
    assert "tokenizer.ggml.pre" in ours.warnings[0]
    assert "tokenizer.ggml.pre" in caplog.text
    assert Tokenizer.from_data(data, pre="smollm").warnings == ()


def test_unknown_pre_is_refused_unless_overridden():
    data = byte_level(pre="from-the-future")
    with pytest.raises(UnsupportedError, match=r"from-the-future.*llama-bpe.*smollm"):
        Tokenizer.from_data(data)
    assert Tokenizer.from_data(data, pre="qwen2").pre == "qwen2"
    with pytest.raises(UnsupportedError, match="no-such"):
        Tokenizer.from_data(byte_level(), pre="no-such")


# SentencePiece.

PIECES = [("▁", -9.0), ("▁H", -3.0), ("el", -2.0), ("lo", -1.0), ("▁Hel", -4.0), ("▁▁", -5.0)]


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize(
    "text", ["Hello", " Hello", "  two spaces", "\nHello", "", " ", "é 漢\x00"]
)
def test_round_trips_are_stable(text, prefix):
    letters = [(letter, -20.0) for letter in "Helotwspac"]
    ours = Tokenizer.from_data(sentence_piece([*PIECES, *letters], add_space_prefix=prefix))
    ids = first = ours.encode(text).tolist()
    for _ in range(5):
        assert ours.decode(ids) == text
        ids = ours.encode(ours.decode(ids)).tolist()
        assert ids == first


def test_round_trips_with_markers_are_stable(tiny):
    text = "<s>hi</s> there<s> "
    ids = tiny["llama"].encode(text, special=True)
    assert tiny["llama"].decode(ids, skip_special=False) == text


def test_space_prefix_only_at_the_start_and_after_markers(tiny):
    ours = tiny["llama"]
    pieces = [ours.token_bytes(int(token_id)) for token_id in ours.encode("<s>a\nb", special=True)]
    assert b"".join(pieces) == b"<s> a\nb"


def test_scores_decide_and_ties_go_left():
    pieces = [("a", -9.0), ("b", -9.0), ("ab", -2.0), ("ba", -2.0), ("bb", -1.0)]
    ours = Tokenizer.from_data(sentence_piece(pieces, add_space_prefix=False))
    shown = [ours.token_text(int(token_id)) for token_id in ours.encode("ababba")]
    assert shown == ["ab", "a", "bb", "a"]


def test_without_byte_pieces_the_unknown_token_stands_in():
    data = sentence_piece([("a", -1.0)], add_space_prefix=False)
    types = np.where(data.types == 6, 5, data.types).astype(np.int32)
    ours = Tokenizer.from_data(replace(data, types=types))
    ids = ours.encode("aéa").tolist()
    assert ids == [257, 0, 257]
    assert ours.decode(ids) == "aa"


def test_word_cuts_do_not_change_ids():
    """A piece that goes on across a space ("> </") is found although words are cut at spaces."""
    pieces = [(">", -9.0), ("▁", -9.0), ("<", -9.0), ("/", -9.0), ("▁<", -3.0), ("▁</", -2.0)]
    ours = Tokenizer.from_data(sentence_piece([*pieces, (">▁</", -1.0)], add_space_prefix=False))
    assert [ours.token_text(int(i)) for i in ours.encode("> </ </")] == ["> </", " </"]


# Bytes, surrogates, ids.


@pytest.mark.parametrize(
    "data", [b"\xe6\xad", b"\xff", b"a\xc0\x80b", b"\xed\xa0\x80", b"\xf4\x90"]
)
def test_invalid_utf8_becomes_bytes(tiny, data):
    for ours in tiny.values():
        ids = ours.encode_bytes(data)
        assert ours.decode_bytes(ids) == data
        assert "�" in ours.decode(ids)


@pytest.mark.parametrize("text", ["\ud83d", "abc\ude00d", "\ud83d\ud83d\ude00"])
def test_lone_surrogate_names_its_position(tiny, text):
    with pytest.raises(ParameterError, match=r"surrogate.* position \d") as caught:
        tiny["qwen2"].encode(text)
    assert caught.value.name == "text"


@pytest.mark.parametrize("ids", [[-1], [0, 384], [2**40], np.array([384], np.uint64)])
def test_ids_out_of_range(tiny, ids):
    with pytest.raises(ParameterError, match="from 0 to 383"):
        tiny["qwen2"].decode(ids)


@pytest.mark.parametrize("ids", [[0.5], [[1, 2]], ["a"]])
def test_ids_of_a_wrong_kind(tiny, ids):
    with pytest.raises(ParameterError, match="integers"):
        tiny["qwen2"].decode(ids)


@pytest.mark.parametrize("token_id", [-1, 384, 2**31])
def test_one_id_out_of_range(tiny, token_id):
    for ask in (tiny["qwen2"].token_bytes, tiny["qwen2"].is_special):
        with pytest.raises(ParameterError, match="from 0 to 383"):
            ask(token_id)


# Stops, start tokens, fingerprints, data that lies.


def test_stop_ids_are_a_union():
    names = [("<|im_end|>", CONTROL), ("<eos>", CONTROL), ("</s>", USER), ("<x>", CONTROL)]
    ours = Tokenizer.from_data(byte_level(markers=names, eos_ids=(259, 7)))
    assert ours.stop_ids == (7, 256, 257, 259)


def test_stop_ids_of_gemma_hold_its_end_of_turn(gemma3):
    assert {gemma3.control_id("<eos>"), gemma3.control_id("<end_of_turn>")} <= {*gemma3.stop_ids}


@pytest.mark.parametrize(("add_bos", "expected"), [(True, [256, 97]), (False, [97])])
def test_start_token_when_the_model_wants_one(add_bos, expected):
    data = byte_level(markers=[("<s>", CONTROL)], bos_id=256, add_bos=add_bos)
    ours = Tokenizer.from_data(data)
    assert ours.encode("a", bos=True).tolist() == expected
    assert ours.encode("a").tolist() == [97]
    assert ours.encode("<s>a", special=True, bos=True).tolist() == [256, 97]


def test_fingerprint_tells_vocabularies_apart():
    data = byte_level(["a b", "b c"])
    prints = {
        Tokenizer.from_data(variant).fingerprint
        for variant in (
            data,
            byte_level(["b c", "a b"]),
            byte_level(["a b"]),
            byte_level(["a b", "b c"], pre="qwen2"),
            sentence_piece([("a", 1.0)]),
            sentence_piece([("a", 2.0)]),
            sentence_piece([("a", 1.0)], add_space_prefix=False),
        )
    }
    assert len(prints) == 7
    assert Tokenizer.from_data(byte_level(["a b", "b c"])).fingerprint in prints


def test_token_types_may_be_missing():
    spm = sentence_piece([("a", 1.0)], [("<s>", CONTROL)], bos_id=258)
    ours = Tokenizer.from_data(replace(spm, types=None))
    assert ours.decode(ours.encode("aé")) == "aé"
    assert ours.encode("<s>", special=True).tolist() == [258]
    assert 258 not in ours.encode("<s>")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (replace(byte_level(), merges=None), "merges"),
        (replace(sentence_piece([]), scores=None), "scores"),
        (replace(byte_level(), tokens=table([])), "no tokens"),
        (byte_level(bos_id=256), "bos token has id 256"),
        (byte_level(eos_ids=(-1,)), "eos 0 token has id -1"),
        (replace(byte_level(), types=np.ones(3, np.int32)), "types differ"),
        (byte_level(markers=[("x" * 1025, CONTROL)]), "more than 1024 bytes"),
        (
            byte_level(markers=[(f"{n:04}" + "x" * 1000, USER) for n in range(1100)]),
            "more than a million",
        ),
        (replace(sentence_piece([]), scores=np.zeros(3, np.float32)), "scores differ"),
    ],
)
def test_data_that_contradicts_itself(data, message):
    with pytest.raises(FormatError, match=message):
        Tokenizer.from_data(data)


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (0, -1), (2**62, 1), (0, 2**31 - 1)])
def test_strings_outside_their_buffer(start, length):
    tokens = table([b"a", b"b"])
    tokens.starts[1], tokens.lengths[1] = start, length
    data = replace(byte_level(), tokens=tokens, types=np.ones(2, np.int32))
    with pytest.raises(FormatError, match="outside its buffer"):
        Tokenizer.from_data(data)


def test_dead_merges_and_missing_bytes_are_told():
    data = replace(byte_level(), merges=table([b"a zz", b"nospace", b"a b"]))
    assert "3 merges" in Tokenizer.from_data(data).warnings[0]
    few = replace(data, tokens=table([b"a", b"b"]), types=None, merges=table([]))
    ours = Tokenizer.from_data(few)
    assert "254 of 256 bytes" in ours.warnings[0]
    assert ours.encode("abc").tolist() == [0, 1]


# Relations.

TEXT = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]), st.sampled_from(" \n<|>s/im_endtolca'0123éa漢")
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(text=TEXT)
def test_byte_level_is_lossless(tiny, text):
    ours = tiny["qwen2"]
    for special in (False, True):
        ids = ours.encode(text, special=special)
        assert ours.decode(ids, skip_special=False) == text
        joined = b"".join(ours.token_bytes(int(token_id)) for token_id in ids)
        assert joined == text.encode()
    assert not any(ours.is_special(int(token_id)) for token_id in ours.encode(text))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(text=TEXT)
def test_sentence_piece_is_idempotent(tiny, text):
    ours = tiny["llama"]
    ids = ours.encode(text)
    assert ours.decode(ids) == text.replace("▁", " ")
    assert ours.encode(ours.decode(ids)).tolist() == ids.tolist()
    assert not any(ours.is_special(int(token_id)) for token_id in ids)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.binary(max_size=80))
def test_any_bytes_survive(tiny, data):
    assert tiny["qwen2"].decode_bytes(tiny["qwen2"].encode_bytes(data)) == data
    spaced = data.replace("▁".encode(), b" ")
    assert tiny["llama"].decode_bytes(tiny["llama"].encode_bytes(data)) == spaced


@settings(max_examples=60, deadline=None, derandomize=True)
@given(word=st.text("abcd", min_size=49, max_size=120))
def test_long_words_merge_as_short_ones_do(word):
    """The heap and the scan give the same: a plain definition of BPE is the judge."""
    merges = ["a b", "c d", "ab a", "b c", "ab cd", "a a", "aa aa", "d d", "ab ab", "cd cd"]
    ours = Tokenizer.from_data(byte_level(merges))
    parts = list(word)
    ranks = {tuple(merge.split()): rank for rank, merge in enumerate(merges)}
    while pairs := [(ranks[p], i) for i, p in enumerate(pairwise(parts)) if p in ranks]:
        _, at = min(pairs)
        parts[at : at + 2] = ["".join(parts[at : at + 2])]
    assert [ours.token_text(int(token_id)) for token_id in ours.encode(word)] == parts


LONG = {
    "letters": "a" * 1_000_000,
    "pairs": "ab" * 500_000,
    "underscores": "_" * 1_000_000,
    "han": "漢" * 1_000_000,
    "many han": "".join(chr(0x4E00 + index * 7919 % 20000) for index in range(1_000_000)),
    "spaces": " " * 1_000_000,
    "lines": "\n" * 1_000_000,
    "quotes": "'" * 1_000_000,
    "marker beginnings": "<|im_" * 200_000,
}


@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_long_input_is_near_linear(request, name, kind):
    """Work by the square of the length would take an hour."""
    ours = request.getfixturevalue(name)
    assert ours.decode(ours.encode(LONG[kind], special=True)) == LONG[kind]


def test_threads_agree(smollm2_path):
    ours = Tokenizer.from_data(tokenizer_data(smollm2_path))
    alone = Tokenizer.from_data(tokenizer_data(smollm2_path))
    text = " ".join(corpus(500, seed=5))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: ours.encode(text).tolist(), range(8)))
    assert answers == [alone.encode(text).tolist()] * 8
