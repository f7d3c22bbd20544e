"""A tokenizer written as GGUF metadata and read again gives the same ids, or says what is lost."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import library
from library import added
from pyrite.errors import UnsupportedError
from pyrite.formats.checkpoint import Checkpoint, Mark, TokenizerData
from pyrite.formats.gguf import read_gguf
from pyrite.formats.gguf_tokenizer import tokenizer_metadata, untold
from pyrite.formats.gguf_writer import write_gguf
from pyrite.formats.tokenizer_json import read_tokenizer_json
from pyrite.formats.vocabulary import read_templates, read_tokenizer
from pyrite.text.tokenizer import Tokenizer
from vocabularies import corpus, table

# "<s>" is a word that merges make; bytes of a character are cut apart; a space comes first.
UNTOLD = ("bloom", "viking", "falcon-folder", "spaced")


def data_of(tmp_path, name, tokens=(), **fields) -> TokenizerData:
    data = read_tokenizer_json(library.save(library.make(name, tokens), tmp_path)).data
    return replace(data, **fields)


def written_and_read(tmp_path, source, **options):
    path = tmp_path / "t.gguf"
    write_gguf(path, tokenizer_metadata(source, **options), [], lambda spec: np.zeros(0, np.uint8))
    return read_gguf(path).metadata


@pytest.mark.parametrize("name", [one for one in library.BYTE_LEVEL if one not in UNTOLD])
def test_byte_level_is_told_whole(tmp_path, name):
    data = data_of(tmp_path, name, [added("<t>")], bos_id=701, eos_ids=(702, 703), add_bos=True)
    assert untold(data) == ()
    again = read_tokenizer(written_and_read(tmp_path, data))
    assert (again.bos_id, again.eos_ids, again.add_bos) == (701, (702, 703), True)
    assert (again.add_eos, again.add_space_prefix) == (False, False)
    one, other = Tokenizer.from_data(data), Tokenizer.from_data(again)
    for line in [*corpus(300, seed=9), "<s><t> x<t>y", "1234 abc"]:
        for special in (False, True):
            ids = one.encode(line, special=special, bos=True).tolist()
            assert other.encode(line, special=special, bos=True).tolist() == ids, repr(line)
        assert one.decode(ids) == other.decode(ids)


def canonical(golden, tmp_path, scheme) -> TokenizerData:
    """The golden SentencePiece model as its tokenizer.json: each way to make a piece is a merge, in
    the order of the pieces' scores."""
    scored = read_tokenizer(read_gguf(golden / "gguf_models" / "llama_q8_0.gguf").metadata)
    pieces = [scored.tokens[index].decode() for index in range(len(scored.tokens))]
    normal = {pieces[index]: index for index in np.flatnonzero(scored.types == 1).tolist()}
    ways = [
        (-float(scored.scores[token_id]), normal[piece[:cut]], normal[piece[cut:]], piece, cut)
        for piece, token_id in normal.items()
        for cut in range(1, len(piece))
        if piece[:cut] in normal and piece[cut:] in normal
    ]
    made = library.characters(scheme, 300)
    document = json.loads(made.to_str())
    document["model"]["vocab"] = {piece: index for index, piece in enumerate(pieces)}
    document["model"]["merges"] = [[p[:cut], p[cut:]] for *_, p, cut in sorted(ways)]
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    return read_tokenizer_json(tmp_path / "tokenizer.json").data


@pytest.mark.parametrize("scheme", ["llama", "gemma"])
def test_pieces_of_sentence_piece_are_told_whole(golden, tmp_path, scheme):
    data = canonical(golden, tmp_path, scheme)
    assert untold(data) == ()
    again = read_tokenizer(written_and_read(tmp_path, data))
    assert again.model == "spm"
    one, other = Tokenizer.from_data(data), Tokenizer.from_data(again)
    for line in [*corpus(1000, seed=9), "the quick brown fox", "  a  b", "aaaaaaa"]:
        ids = one.encode(line).tolist()
        assert other.encode(line).tolist() == ids, repr(line)
        assert one.decode(ids) == other.decode(ids) == line.replace("▁", " ")


def test_the_golden_ids_come_out_of_merges_too(golden, tmp_path):
    """Merges by rank are scores by value."""
    tokenizer = Tokenizer.from_data(canonical(golden, tmp_path, "llama"))
    cases = json.loads((golden / "gguf_models" / "tokenize.json").read_text())["llama"]
    for case in cases:
        if "<" not in case["text"]:
            assert tokenizer.encode(case["text"]).tolist() == case["llamacpp_plain"]


def lost(data: TokenizerData) -> str:
    return "; ".join(untold(data))


def test_what_is_lost_is_said(tmp_path):
    data = data_of(tmp_path, "gpt-2")
    assert "white space" in lost(replace(data, marks=data.marks | np.uint8(Mark.LEFT)))
    assert "NFC" in lost(replace(data, normalization="NFC"))
    assert "(1, 2)" in lost(replace(data, begin_ids=(1, 2)))
    assert "end with the ids (3,)" in lost(replace(data, end_ids=(3,)))
    assert "special tokens" in lost(data_of(tmp_path, "bloom"))
    assert "4 tokens" in lost(replace(data, eos_ids=(1, 2, 3, 4)))
    assert "first unless" in lost(data_of(tmp_path, "mistral"))
    assert "order" in lost(data_of(tmp_path, "llama"))  # trained otherwise
    assert "Falcon" in lost(data_of(tmp_path, "falcon-folder"))
    assert "unless spaced" in lost(data_of(tmp_path, "spaced"))
    assert "each space begins a word" in lost(data_of(tmp_path, "cut"))
    assert "does not take a space away" in lost(data_of(tmp_path, "cut always"))
    assert "takes a space away" in lost(data_of(tmp_path, "yi"))


def test_falcons_pieces_are_named_as_llama_cpp_names_them(tmp_path):
    metadata = tokenizer_metadata(data_of(tmp_path, "falcon-folder"))
    assert metadata["tokenizer.ggml.pre"] == "falcon"


def test_ids_without_a_token_are_named_and_the_rows_filled(tmp_path):
    data = data_of(tmp_path, "gpt-2")
    data = replace(data, tokens=table([b"a", b"", b"b"]), types=np.array([1, 5, 1], np.int32))
    again = read_tokenizer(written_and_read(tmp_path, data, size=5))
    assert [again.tokens[i] for i in range(5)] == [b"a", b"[PAD1]", b"b", b"[PAD3]", b"[PAD4]"]
    assert again.types.tolist() == [1, 5, 1, 5, 5]


def test_templates_go_along(tmp_path):
    templates = {"default": "one", "tool_use": "two"}
    checkpoint = Checkpoint(tmp_path, "safetensors", "llama", {}, {}, chat_templates=templates)
    metadata = written_and_read(tmp_path, checkpoint)
    assert read_templates(metadata) == templates


def test_other_kinds_are_refused(tmp_path):
    data = replace(data_of(tmp_path, "gpt-2"), model="library", unknown="a model of type Unigram")
    with pytest.raises(UnsupportedError, match="Unigram"):
        tokenizer_metadata(data)


def test_pieces_by_merges_in_gguf(golden, tmp_path):
    """As Gemma 4's files have them: merges, and no scores that count."""
    data = canonical(golden, tmp_path, "gemma")
    metadata = {
        **tokenizer_metadata(data),
        "tokenizer.ggml.model": "gemma4",
        "tokenizer.ggml.merges": data.merges,
    }
    del metadata["tokenizer.ggml.scores"], metadata["tokenizer.ggml.add_space_prefix"]
    write_gguf(tmp_path / "t.gguf", metadata, [], lambda spec: np.zeros(0, np.uint8))
    again = read_tokenizer(read_gguf(tmp_path / "t.gguf").metadata)
    assert (again.model, again.scores, again.add_space_prefix) == ("spm", None, False)
    one, other = Tokenizer.from_data(data), Tokenizer.from_data(again)
    for line in corpus(300, seed=2):
        assert one.encode(line).tolist() == other.encode(line).tolist()
