"""What the native tokenizer does not know runs in the `tokenizers` library, by our rules."""

from __future__ import annotations

import json
import sys

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

import library
from library import added
from pyrite.errors import FormatError, ParameterError, UnsupportedError
from pyrite.formats.tokenizer_json import read_tokenizer_json
from pyrite.text import library_tokenizer
from pyrite.text.library import called
from pyrite.text.library_tokenizer import LibraryTokenizer
from pyrite.text.tokenizer import Tokenizer
from vocabularies import corpus
from work import lines_run

SPECIAL = ["<unk>", "<s>", "</s>", "<|im_end|>"]


def unigram() -> Library:
    made = Library(models.Unigram([("<unk>", 0.0)], 0, False))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    made.decoder = decoders.Metaspace(prepend_scheme="first")
    trainer = trainers.UnigramTrainer(
        vocab_size=400, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator(library.training(), trainer)
    return made


def word_piece() -> Library:
    made = Library(models.WordPiece(unk_token="<unk>"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(cleanup=False)
    trainer = trainers.WordPieceTrainer(vocab_size=600, special_tokens=SPECIAL, show_progress=False)
    made.train_from_iterator(library.training(), trainer)
    return made


def byte_level() -> Library:
    """Known, but for its normalizer."""
    made = library.make("qwen2", [added("<t>", rstrip=True, lstrip=True, special=True)])
    made.normalizer = normalizers.Lowercase()
    return made


def whole_words() -> Library:
    """Known, but for a token that matches whole words alone."""
    return library.make("gpt-2", [added("cat", single_word=True), added("<t>", normalized=True)])


def suffixed() -> Library:
    """Pieces that end a word are written so."""
    made = Library(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.decoder = decoders.BPEDecoder(suffix="</w>")
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=SPECIAL, end_of_word_suffix="</w>", show_progress=False
    )
    made.train_from_iterator(library.training(), trainer)
    return made


def words() -> Library:
    """Without a decoder, which puts spaces between them."""
    made = Library(models.WordLevel(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(special_tokens=SPECIAL, show_progress=False)
    made.train_from_iterator(library.training(), trainer)
    return made


KINDS = {
    "suffixed": suffixed,
    "words": words,
    "unigram": unigram,
    "word_piece": word_piece,
    "byte_level": byte_level,
    "whole_words": whole_words,
}


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory):
    made = KINDS[request.param]()
    path = library.save(made, tmp_path_factory.mktemp(request.param))
    tokenizer = Tokenizer.from_data(read_tokenizer_json(path).data)
    assert isinstance(tokenizer, LibraryTokenizer)
    return made, tokenizer


def test_equals_the_library(pair):
    made, tokenizer = pair
    more = ["<s>the cat</s> <|im_end|>", "", "the cat, concat cats cat_ cat\u0301 catcat", "a<t>b"]
    for line in [*corpus(200, seed=3), *more]:
        ids = made.encode(line, add_special_tokens=False).ids
        assert tokenizer.encode(line, special=True).tolist() == ids
        assert tokenizer.encode_segments([(line, True)]).tolist() == ids
        assert tokenizer.decode(ids) == made.decode(ids)
        assert tokenizer.decode(ids, skip_special=False) == made.decode(
            ids, skip_special_tokens=False
        )


def test_typed_markers_stay_text(pair):
    _, tokenizer = pair
    end = tokenizer.control_id("<|im_end|>")
    assert end is not None
    text = "print <|im_end|> for me"
    assert end not in tokenizer.encode(text)
    assert end in tokenizer.encode(text, special=True)
    parts = [("<s>", True), ("the <|im_end|> cat", False), ("<|im_end|>", True), ("x", False)]
    ids = tokenizer.encode_segments(parts).tolist()
    assert ids.count(end) == 1
    assert ids[0] == tokenizer.control_id("<s>")
    joined = [("<|im", True), ("_end|>", False)]
    assert end not in tokenizer.encode_segments(joined)
    assert end in tokenizer.encode_segments([(text, True) for text, _ in joined])


def test_a_single_character_that_is_special(tmp_path):
    made = Library(
        models.Unigram([("<unk>", 0.0), ("a", -1.0), ("b", -1.0), ("é", -1.0)], 0, False)
    )
    made.add_special_tokens(["b", "é"])
    path = library.save(made, tmp_path)
    tokenizer = Tokenizer.from_data(read_tokenizer_json(path).data)
    assert tokenizer.encode("abbéa", special=True).tolist() == [1, 2, 2, 3, 1]
    assert tokenizer.encode("abbéa").tolist() == [1, 1]
    assert tokenizer.encode("b").tolist() == []


def test_parts_between_markers_are_encoded_as_in_the_whole(pair):
    """Nothing begins anew after a marker: the same ids as where no marker was typed."""
    made, tokenizer = pair
    whole = made.encode("<s>the cat</s>sat on", add_special_tokens=False).ids
    typed = [("<s>the cat</s>sat on", True), (" <|im_end|>", False)]
    assert tokenizer.encode_segments(typed).tolist()[: len(whole)] == whole


def test_white_space_that_a_marker_takes_along(tmp_path):
    path = library.save(byte_level(), tmp_path)
    tokenizer = Tokenizer.from_data(read_tokenizer_json(path).data)
    marker = tokenizer.control_id("<t>")
    segments = [("a ", False), ("<t>", True), (" b<t>", False)]
    ids = tokenizer.encode_segments(segments).tolist()
    assert ids == [*tokenizer.encode("a"), marker, *tokenizer.encode("b<t>")]


def test_pieces_are_bytes_one_by_one(tmp_path):
    """Streams are joined from them: half a character is half a character."""
    path = library.save(byte_level(), tmp_path)
    tokenizer = Tokenizer.from_data(read_tokenizer_json(path).data)
    text = "漢字 é👩‍🚀 <s>"
    ids = tokenizer.encode(text, special=True).tolist()
    assert b"".join(map(tokenizer.token_bytes, ids)).decode() == text


def test_special_ids_and_what_is_shown(pair):
    _, tokenizer = pair
    ends = {tokenizer.control_id(name) for name in ("<s>", "</s>", "<|im_end|>")}
    assert ends <= set(tokenizer.special_ids)
    assert all(tokenizer.is_special(one) for one in ends)
    assert tokenizer.control_id("the") is None
    assert set(tokenizer.stop_ids) == ends - {tokenizer.control_id("<s>")}


def test_pieces_join_to_what_is_decoded(pair):
    """But for the first space, and what WordPiece writes apart."""
    made, tokenizer = pair
    for line in [*corpus(100, seed=5), "the cat sat on the mat"]:
        ids = made.encode(line, add_special_tokens=False).ids
        shown = [one for one in ids if not tokenizer.is_special(one)]
        joined = b"".join(map(tokenizer.token_bytes, shown)).decode(errors="replace")
        assert joined.strip(" ") == tokenizer.decode(ids).strip(" ")


@pytest.mark.parametrize("atom", ["a", "漢", " ", "the cat ", "<s>", "\u0301"])
def test_long_texts_are_no_more_work_a_character(pair, atom, monkeypatch):
    _, tokenizer = pair
    handed: list[int] = []  # lengths of the texts that the library was given

    def counted(function, *arguments, **options):
        handed.append(len(arguments[0]))
        return called(function, *arguments, **options)

    monkeypatch.setattr(library_tokenizer, "called", counted)
    work = []
    for size in (2_000, 10_000):
        handed.clear()
        segments = [((atom * size)[:size], False), ("<s>", True)]
        lines = lines_run(lambda segments=segments: tokenizer.encode_segments(segments))
        work.append((sum(handed), lines))
    (characters, lines), (more_characters, more_lines) = work
    assert 0 < more_characters <= 5 * characters, work
    assert 0 < more_lines <= 5 * lines, work


def test_what_no_text_can_carry(pair):
    _, tokenizer = pair
    with pytest.raises(ParameterError, match="surrogate"):
        tokenizer.encode("\ud800")
    with pytest.raises(ParameterError, match="surrogate"):
        tokenizer.encode_segments([("\ud800", True)])
    for ids in ([-1], [10**6]):
        with pytest.raises(ParameterError):
            tokenizer.decode(ids)


def test_fingerprints_differ(pair, tmp_path):
    _, tokenizer = pair
    made = byte_level()
    made.add_tokens(["other"])
    other = Tokenizer.from_data(read_tokenizer_json(library.save(made, tmp_path)).data)
    assert tokenizer.fingerprint != other.fingerprint


def test_a_tokenizer_is_made_once_where_nothing_differs_at_a_beginning(tmp_path):
    made = whole_words()
    tokenizer = Tokenizer.from_data(read_tokenizer_json(library.save(made, tmp_path)).data)
    assert tokenizer._later is tokenizer._plain
    assert (
        Tokenizer.from_data(read_tokenizer_json(library.save(unigram(), tmp_path)).data)._later
        is not None
    )


def test_without_the_library_the_package_is_named(tmp_path, monkeypatch):
    data = read_tokenizer_json(library.save(byte_level(), tmp_path)).data
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UnsupportedError, match=r"normalizer Lowercase.*pyrite-llm\[tokenizers\]"):
        Tokenizer.from_data(data)


def test_what_the_library_refuses(tmp_path):
    path = library.save(byte_level(), tmp_path)
    document = json.loads(path.read_text())
    document["model"]["merges"].append(["nobody", "knows"])
    path.write_text(json.dumps(document))
    data = read_tokenizer_json(path).data
    with pytest.raises(FormatError, match="tokenizers library"):
        Tokenizer.from_data(data)


def test_other_numbers_than_the_files(tmp_path):
    path = library.save(byte_level(), tmp_path)
    document = json.loads(path.read_text())
    document["added_tokens"][-1]["id"] += 7
    path.write_text(json.dumps(document))
    with pytest.raises(FormatError, match=r"'<t>' has id 711, and 704"):
        Tokenizer.from_data(read_tokenizer_json(path).data)
