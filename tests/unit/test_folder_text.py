"""What a hub folder says of text: special tokens, stop tokens, templates, in any spelling."""

from __future__ import annotations

import json

import pytest

import library
from pyrite.errors import FormatError
from pyrite.formats.folder_text import read_text
from pyrite.text.tokenizer import Tokenizer

BOS, EOS, START, END = 700, 701, 702, 703  # of library.MARKERS


@pytest.fixture
def folder(tmp_path):
    library.save(library.make("qwen2"), tmp_path)
    return tmp_path


def write(folder, name, document):
    (folder / name).write_text(json.dumps(document))


def data_of(folder, config=None):
    return read_text(folder, config or {}).tokenizer


def test_a_folder_without_any(tmp_path):
    text = read_text(tmp_path, {})
    assert (text.tokenizer, dict(text.templates)) == (None, {})


def test_tokenizer_json_alone(folder):
    data = data_of(folder, {"eos_token_id": EOS})
    assert (data.bos_id, data.eos_ids, data.add_bos, data.add_eos) == (None, (EOS,), False, False)


@pytest.mark.parametrize("as_object", [False, True])
@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json"])
def test_tokens_as_text_or_object(folder, name, as_object):
    def spelled(token):
        return {"content": token, "lstrip": False, "__type": "AddedToken"} if as_object else token

    tokens = {"bos_token": spelled("<s>"), "eos_token": spelled("</s>")}
    write(folder, name, {**tokens, "pad_token": spelled("<|im_end|>"), "unk_token": None})
    data = data_of(folder)
    assert (data.bos_id, data.eos_ids, data.padding_id) == (BOS, (EOS,), END)


def test_the_configuration_counts_before_the_map(folder):
    write(folder, "tokenizer_config.json", {"eos_token": "<|im_end|>", "bos_token": None})
    write(folder, "special_tokens_map.json", {"eos_token": "</s>", "bos_token": "<s>"})
    data = data_of(folder)
    assert (data.bos_id, data.eos_ids) == (BOS, (END,))


def test_a_token_that_is_not_in_the_vocabulary_is_none(folder):
    write(folder, "tokenizer_config.json", {"bos_token": "nobody"})
    assert data_of(folder).bos_id is None


def test_stop_tokens_are_a_union_with_the_tokenizers_own_first(folder):
    write(folder, "tokenizer_config.json", {"eos_token": "<|im_end|>"})
    config = {"eos_token_id": 3, "generation_config": {"eos_token_id": [EOS, 5]}}
    data = data_of(folder, config)
    assert data.eos_ids == (END, 3, 5, EOS)
    assert set(Tokenizer.from_data(data).stop_ids) >= {END, 3, 5, EOS}


def test_stop_tokens_beyond_the_vocabulary_are_told_of(folder, caplog):
    assert data_of(folder, {"eos_token_id": [EOS, 9999]}).eos_ids == (EOS,)
    assert "9999" in caplog.text


# Start and end of texts.


def test_the_post_processor_tells_the_start(tmp_path):
    library.save(library.with_start(library.make("qwen2")), tmp_path)
    data = data_of(tmp_path)
    assert (data.bos_id, data.add_bos) == (BOS, True)
    tokenizer = Tokenizer.from_data(data)
    assert tokenizer.encode("a", bos=True).tolist() == [BOS, *tokenizer.encode("a")]
    assert tokenizer.encode("<s>a", bos=True, special=True).tolist().count(BOS) == 1


@pytest.mark.parametrize("adds", [False, True])
def test_the_configuration_overrules_the_post_processor(tmp_path, adds):
    made = library.make("qwen2")
    library.save(made if adds else library.with_start(made), tmp_path)
    config = {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": adds, "add_eos_token": adds}
    write(tmp_path, "tokenizer_config.json", config)
    data = data_of(tmp_path)
    assert (data.add_bos, data.add_eos) == (adds, adds)


def test_a_start_of_two_tokens(tmp_path):
    def change(document):
        names = {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in both}
        pieces = [{"SpecialToken": {"id": name, "type_id": 0}} for name, _ in both]
        document["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [*pieces, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [],
            "special_tokens": names,
        }

    both = [("<|im_start|>", START), ("<s>", BOS)]
    library.save(library.make("qwen2"), tmp_path, change)
    tokenizer = Tokenizer.from_data(data_of(tmp_path))
    assert tokenizer.encode("a", bos=True).tolist()[:2] == [START, BOS]
    text = "<|im_start|><s>a"
    assert tokenizer.encode(text, bos=True, special=True).tolist()[1:3] == [BOS, ord("a") - 33]


def test_a_start_out_of_range_is_refused(tmp_path):
    def change(document):
        document["post_processor"]["special_tokens"]["<s>"]["ids"] = [9999]

    library.save(library.with_start(library.make("qwen2")), tmp_path, change)
    with pytest.raises(FormatError, match="id 9999 of 704"):
        data_of(tmp_path)


# Templates.


def test_templates_and_which_one_counts(folder):
    config = {"chat_template": [{"name": "default", "template": "config"}]}
    config["chat_template"].append({"name": "tool_use", "template": "tools"})
    write(folder, "tokenizer_config.json", config)
    assert read_text(folder, {}).templates == {"default": "config", "tool_use": "tools"}
    write(folder, "chat_template.json", {"chat_template": "json"})
    assert read_text(folder, {}).templates["default"] == "json"
    (folder / "chat_template.jinja").write_text("jinja é")
    assert read_text(folder, {}).templates == {"default": "jinja é", "tool_use": "tools"}
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "rag.jinja").write_text("rag")
    assert read_text(folder, {}).templates["rag"] == "rag"


def test_one_template_as_text(folder):
    write(folder, "tokenizer_config.json", {"chat_template": "text"})
    assert read_text(folder, {}).templates == {"default": "text"}


# Files that lie.


@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize("content", [b"", b"[]", b'{"bos_token": 1}', b"\xff", b'{"x":' * 9999])
def test_no_configuration(folder, name, content):
    (folder / name).write_bytes(content)
    with pytest.raises(FormatError, match=name):
        read_text(folder, {})


def test_a_template_that_is_no_text(folder):
    (folder / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(FormatError, match=r"chat_template\.jinja"):
        read_text(folder, {})


@pytest.mark.parametrize("name", ["tokenizer.json", "chat_template.jinja", "tokenizer_config.json"])
def test_links_out_of_the_folder_are_refused(tmp_path, name):
    inner = tmp_path / "model"
    inner.mkdir()
    (tmp_path / "secret").write_text("{}")
    (inner / name).symlink_to(tmp_path / "secret")
    with pytest.raises(FormatError, match="outside"):
        read_text(inner, {})


def test_too_large(folder, monkeypatch):
    (folder / "chat_template.jinja").write_text("x" * 1000)
    monkeypatch.setattr("pyrite.formats.json_file.content_of.__defaults__", (999,))
    with pytest.raises(FormatError, match="larger than 999"):
        read_text(folder, {})
