"""A Checkpoint out of a GGUF model: its parts together, tokenizer and templates included.

What an architecture does with keys and tensors is unknown here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyrite.errors import FormatError, ModelError, UnsupportedError
from pyrite.formats.checkpoint import Checkpoint, Tensor
from pyrite.formats.gguf import GgufFile, read_gguf
from pyrite.formats.metadata import Metadata, string
from pyrite.formats.sampling_hints import gguf_hints
from pyrite.formats.shards import read_parts
from pyrite.formats.vocabulary import read_templates, read_tokenizer


def open_gguf(path: Path) -> Checkpoint:
    """Opens a GGUF file; of a split model, any part. Raises FormatError, UnsupportedError."""
    parts = read_parts(read_gguf(path))
    for part in parts:
        _refuse_big_endian(part)
    metadata = parts[0].metadata
    try:
        templates = read_templates(metadata)
        return Checkpoint(
            path=path,
            format="gguf",
            architecture=_architecture(metadata),
            metadata=metadata,
            tensors=_tensors(parts),
            tokenizer=read_tokenizer(metadata),
            chat_template=templates.get("default"),
            chat_templates=templates,
            sampling=gguf_hints(metadata),
            files=tuple(part.path for part in parts),
            num_bytes=sum(len(part.data) for part in parts),
        )
    except ModelError as error:
        raise type(error)(f"{parts[0].path.name}: {error.message}", hint=error.hint) from None


def _architecture(metadata: Metadata) -> str:
    """Importance of columns is a GGUF file without one."""
    if metadata.get("general.type") == "imatrix":
        problem = "it holds the importance of columns, and no model"
        raise FormatError(problem, hint="pyrite quantize --imatrix takes it")
    return string(metadata, "general.architecture")


def _refuse_big_endian(part: GgufFile) -> None:
    if part.big_endian and part.tensors:
        raise UnsupportedError(
            f"{part.path.name}: big-endian tensors are not executed",
            hint="convert the model again for a little-endian machine",
        )


def _tensors(parts: Sequence[GgufFile]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for part in parts:
        for place in part.tensors:
            if place.name in found:
                raise FormatError(
                    f"tensor {place.name} occurs again in {part.path.name}",
                    hint="the parts belong to different models",
                )
            data = part.data[place.start : place.end]
            found[place.name] = Tensor(place.name, place.type, place.shape, data)
    return found
