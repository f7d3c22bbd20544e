"""Random models in the shapes of real ones, for benchmarks: `python benchmarks/models.py`.

Weights are random blocks of the wanted type, scaled so that activations stay near one and logits
are finite; the tokenizer is a byte-level BPE of the real size with made-up merges. The mix of types
is the one that llama.cpp's quantiser chooses, so that other engines load and time the same bytes; a
"pure" model has all its matrices in one type. Nothing here makes a model that says anything.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.config import cache_home
from pyrite.formats import hub
from pyrite.formats.gguf_writer import TensorSpec, write_gguf
from pyrite.quant.formats import FORMATS
from pyrite.quant.microfloats import HALVES_OF_E4M3

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Shape:
    """A Qwen 2 model: biases on query, key and value; embeddings are the output matrix too."""

    hidden: int
    layers: int
    heads: int
    key_heads: int
    ffn: int
    vocabulary: int
    head_width: int = 128
    context: int = 32768
    rope_theta: float = 1e6


SHAPES = {
    "qwen2-1.5b": Shape(1536, 28, 12, 2, 8960, 151936),
    "qwen2-0.1b": Shape(768, 12, 6, 2, 2048, 32768),
    "qwen2-tiny": Shape(256, 2, 2, 1, 512, 2048),
}


@dataclass(frozen=True, slots=True)
class Mix:
    """Types of matrices; `wide`: of those that get more bits in some layers."""

    file_type: int  # general.file_type
    plain: str
    wide: str
    table: str


# Numbers of general.file_type for matrices of one type.
FILE_TYPES = {
    "F32": 0,
    "F16": 1,
    "Q4_0": 2,
    "Q4_1": 3,
    "Q8_0": 7,
    "Q5_0": 8,
    "Q5_1": 9,
    "Q2_K": 10,
    "Q3_K": 11,
    "Q4_K": 14,
    "Q5_K": 16,
    "Q6_K": 18,
    "IQ2_XXS": 19,
    "IQ2_XS": 20,
    "IQ3_XXS": 23,
    "IQ1_S": 24,
    "IQ4_NL": 25,
    "IQ3_S": 26,
    "IQ2_S": 28,
    "IQ4_XS": 30,
    "IQ1_M": 31,
    "BF16": 32,
    "TQ1_0": 36,
    "TQ2_0": 37,
    "MXFP4": 38,
    "NVFP4": 39,
    "Q1_0": 40,
    "Q2_0": 41,
}
MIXES = {
    "Q4_0": Mix(2, "Q4_0", "Q4_0", "Q6_K"),
    "Q8_0": Mix(7, "Q8_0", "Q8_0", "Q8_0"),
    "Q4_K_M": Mix(15, "Q4_K", "Q6_K", "Q6_K"),
    **{f"pure-{kind}": Mix(number, kind, kind, kind) for kind, number in FILE_TYPES.items()},
}
NUM_SPECIAL = 3
# Models by the names that benchmarks take.
REAL = ("smollm2", "gemma3:270m")
RANDOM = {f"1.5b-{mix.lower()}": ("qwen2-1.5b", mix) for mix in ("Q4_0", "Q4_K_M", "Q8_0")}
TYPES = {f"0.1b-{kind.lower()}": ("qwen2-0.1b", f"pure-{kind}") for kind in FILE_TYPES}

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# type -> (bytes where float16 scales stand, and for each: standard deviation of a value whose other
# bytes are random, divided by that scale). A second scale centres the values: 31.5 is the mean of
# scales of 6 bits, 7.5 of 4 bits, and so on; a minimum that is added is negative.
SCALES: dict[str, tuple[tuple[int, float], ...]] = {
    "Q4_0": ((0, 4.61),),
    "Q4_1": ((0, 4.61), (2, -4.61 / 7.5)),
    "Q5_0": ((0, 9.23),),
    "Q5_1": ((0, 9.23), (2, -9.23 / 15.5)),
    "Q8_0": ((0, 73.9),),
    "Q2_K": ((80, 13.9), (82, 13.9 / 1.5)),
    "Q3_K": ((108, 43.3),),
    "Q4_K": ((0, 258.0), (2, 258.0 / 7.5)),
    "Q5_K": ((0, 527.0), (2, 527.0 / 15.5)),
    "Q6_K": ((208, 1365.0),),
    "IQ4_NL": ((0, 67.2),),
    "IQ4_XS": ((0, 1246.0),),
    "IQ1_S": ((0, 7.21),),
    "IQ2_XXS": ((0, 53.4),),
    "IQ2_XS": ((0, 55.8),),
    "IQ2_S": ((0, 56.4),),
    "IQ3_XXS": ((0, 142.0),),
    "IQ3_S": ((0, 140.0),),
    "TQ1_0": ((52, 0.816),),
    "TQ2_0": ((64, 0.816),),
    "Q1_0": ((0, 1.0),),
    "Q2_0": ((0, 0.816),),
}


def put_powers(blocks: NDArray[np.uint8], scale: Floats) -> None:
    blocks[:, :1] = np.rint(np.log2(scale)) + 128


def put_small_floats(blocks: NDArray[np.uint8], scale: Floats) -> None:
    blocks[:, :4] = np.searchsorted(HALVES_OF_E4M3[:0x7F], scale)


def put_quarters(blocks: NDArray[np.uint8], scale: Floats) -> None:
    """Four bits of a float16 on top of each of four words."""
    words = blocks[:, 48:].view(np.uint16)
    shifts = np.array([0, 4, 8, 12], np.uint16)
    quarters = scale.astype(np.float16).view(np.uint16) >> shifts & 15
    words[:] = words & 0xFFF | quarters << 12


# The same of types that have other scales than a float16 in one place: who writes them, the factor.
OTHER_SCALES = {
    "IQ1_M": (put_quarters, 7.18),
    "MXFP4": (put_powers, 5.85),
    "NVFP4": (put_small_floats, 5.86),
}
# Bytes of four digits that are 0, 1 or 2: quantised weights never mean 2, which the digit 3 would.
THREES = np.array([byte for byte in range(256) if not byte & byte >> 1 & 0x55], np.uint8)


def random_blocks(
    rng: np.random.Generator, kind: str, shape: tuple[int, ...], deviation: float
) -> NDArray[np.uint8]:
    """Bytes of a tensor whose values have about this standard deviation and mean 0. (bytes,)"""
    if kind not in SCALES and kind not in OTHER_SCALES:
        return random_floats(rng, kind, shape, deviation)
    row = FORMATS[kind]
    count = int(np.prod(shape)) // row.block_columns
    blocks = np.frombuffer(rng.bytes(count * row.block_bytes), np.uint8)
    blocks = blocks.reshape(count, row.block_bytes).copy()
    if kind in ("TQ2_0", "Q2_0"):
        blocks = THREES[blocks % len(THREES)]
    spread = rng.uniform(0.7, 1.3, (count, 1))
    if kind in OTHER_SCALES:
        put, factor = OTHER_SCALES[kind]
        put(blocks, deviation / factor * spread)
    for start, factor in SCALES.get(kind, ()):
        scale = (deviation / factor * spread).astype(np.float16)
        blocks[:, start : start + 2] = scale.view(np.uint8)
    return blocks.reshape(-1)


def random_floats(
    rng: np.random.Generator, kind: str, shape: tuple[int, ...], deviation: float
) -> NDArray[np.uint8]:
    values = rng.standard_normal(shape, np.float32) * np.float32(deviation)
    if kind == "BF16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    return values.astype(np.float16 if kind == "F16" else np.float32).view(np.uint8)


def more_bits(layer: int, layers: int) -> bool:
    """Whether Q4_K_M gives this layer's value and down projections six bits."""
    first = layers // 8
    return layer < first or layer >= 7 * layers // 8 or (layer - first) % 3 == 2


def tensor_specs(shape: Shape, mix: str) -> list[TensorSpec]:
    """All tensors with their types, in the order of a converted file."""
    types = MIXES[mix]
    specs = [
        TensorSpec("token_embd.weight", types.table, (shape.vocabulary, shape.hidden)),
        TensorSpec("output_norm.weight", "F32", (shape.hidden,)),
    ]
    for layer in range(shape.layers):
        wide = types.wide if more_bits(layer, shape.layers) else types.plain
        specs += _layer_specs(shape, layer, types.plain, wide)
    return specs


def _layer_specs(shape: Shape, layer: int, plain: str, wide: str) -> list[TensorSpec]:
    hidden, ffn = shape.hidden, shape.ffn
    query, key = shape.heads * shape.head_width, shape.key_heads * shape.head_width
    rows = (
        ("attn_norm.weight", "F32", (hidden,)),
        ("attn_q.weight", plain, (query, hidden)),
        ("attn_q.bias", "F32", (query,)),
        ("attn_k.weight", plain, (key, hidden)),
        ("attn_k.bias", "F32", (key,)),
        ("attn_v.weight", wide, (key, hidden)),
        ("attn_v.bias", "F32", (key,)),
        ("attn_output.weight", plain, (hidden, query)),
        ("ffn_norm.weight", "F32", (hidden,)),
        ("ffn_gate.weight", plain, (ffn, hidden)),
        ("ffn_up.weight", plain, (ffn, hidden)),
        ("ffn_down.weight", wide, (hidden, ffn)),
    )
    return [TensorSpec(f"blk.{layer}.{name}", kind, size) for name, kind, size in rows]


def byte_letters() -> list[str]:
    """The letter that byte-level BPE writes for each byte (GPT-2's table)."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    letters, others = [], 0
    for byte in range(256):
        letters.append(chr(byte if byte in printable else 256 + others))
        others += byte not in printable
    return letters


def synthetic_merges(count: int, seed: int) -> tuple[list[str], list[str]]:
    """`count` pieces, each joined from two that are there already, and the merges that say so."""
    rng = np.random.default_rng(seed)
    pieces = byte_letters()
    known = set(pieces)
    merges: list[str] = []
    while len(merges) < count:
        # Powers favour early, short pieces, as a trained vocabulary does.
        for left, right in (rng.random((4096, 2)) ** 3 * len(pieces)).astype(int):
            piece = pieces[left] + pieces[right]
            if len(merges) < count and len(piece) <= 24 and piece not in known:
                known.add(piece)
                merges.append(f"{pieces[left]} {pieces[right]}")
                pieces.append(piece)
    return pieces, merges


def metadata(name: str, shape: Shape, mix: str, seed: int) -> dict[str, Any]:
    pieces, merges = synthetic_merges(shape.vocabulary - 256 - NUM_SPECIAL, seed)
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    first = len(pieces)
    return {
        "general.architecture": "qwen2",
        "general.name": f"Random {name}",
        "general.file_type": MIXES[mix].file_type,
        "general.quantization_version": 2,
        "qwen2.block_count": shape.layers,
        "qwen2.context_length": shape.context,
        "qwen2.embedding_length": shape.hidden,
        "qwen2.feed_forward_length": shape.ffn,
        "qwen2.attention.head_count": shape.heads,
        "qwen2.attention.head_count_kv": shape.key_heads,
        "qwen2.rope.freq_base": shape.rope_theta,
        "qwen2.attention.layer_norm_rms_epsilon": 1e-6,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": pieces + special,
        "tokenizer.ggml.token_type": np.array([1] * first + [3] * NUM_SPECIAL, np.int32),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.eos_token_id": first + 2,
        "tokenizer.ggml.padding_token_id": first,
        "tokenizer.ggml.bos_token_id": first,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def write_model(path: Path, name: str, mix: str, seed: int = 1) -> None:
    """Writes a random model; the same bytes for the same arguments."""
    shape = SHAPES[name]
    rng = np.random.default_rng(seed)

    def values(tensor: TensorSpec) -> NDArray[np.uint8]:
        if len(tensor.shape) == 1:
            centre = 0.0 if tensor.name.endswith("bias") else 1.0
            return rng.normal(centre, 0.1, tensor.shape).astype(np.float32).view(np.uint8)
        table = tensor.name.startswith("token_embd")
        deviation = 0.03 if table else 0.5 * tensor.shape[-1] ** -0.5
        return random_blocks(rng, tensor.type, tensor.shape, deviation)

    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    write_gguf(partial, metadata(name, shape, mix, seed), tensor_specs(shape, mix), values)
    partial.replace(path)


def random_model(name: str, mix: str) -> Path:
    """The random model of this shape and mix, made in the cache when it is not there yet."""
    path = cache_home() / "benchmarks" / f"random-{name}-{mix.lower()}.gguf"
    if not path.is_file():
        write_model(path, name, mix)
    return path


def model_path(name: str | Path) -> Path:
    """A path as it is; a model by its name, made or fetched when it is not there yet."""
    known = RANDOM | TYPES
    if str(name) in known:
        return random_model(*known[str(name)])
    return hub.resolve(str(name)) if str(name) in REAL else Path(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("mix", choices=MIXES)
    parser.add_argument("path", nargs="?", type=Path, help="where to write; default: the cache")
    arguments = parser.parse_args()
    if arguments.path:
        write_model(arguments.path, arguments.shape, arguments.mix)
    print(arguments.path or random_model(arguments.shape, arguments.mix))
    return 0


if __name__ == "__main__":
    sys.exit(main())
