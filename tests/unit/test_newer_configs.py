"""config.json as a newer library writes it says the same as the published one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pyrite.formats.checkpoint import open_checkpoint
from pyrite.formats.json_file import read_json
from pyrite.models.registry import MODEL_TYPES, as_model, read_config

TINY = Path(__file__).parents[1] / "golden" / "tiny"
NEWER = json.loads((TINY / "configs_v5.json").read_text())


@pytest.mark.parametrize("case", NEWER)
def test_newer_keys_say_the_same(case: str, tmp_path: Path):
    published = open_checkpoint(TINY / case)
    if published.architecture not in MODEL_TYPES:
        pytest.skip(f"{published.architecture} is not executed")
    (tmp_path / "config.json").write_text(json.dumps(NEWER[case]))
    newer = replace(published, metadata=read_json(tmp_path / "config.json"))
    assert read_config(as_model(newer)) == read_config(as_model(published))
