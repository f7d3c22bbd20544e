"""The text of docs/models.md, made from the registry of architectures and the table of types."""

from __future__ import annotations

from importlib import import_module

from pyrite.models.registry import ARCHITECTURES, MODEL_TYPES
from pyrite.quant.formats import FORMATS
from pyrite.quant.recipes import RECIPES

HEAD = """# Models and weights

Made by `tools/write_docs.py` from the tables that models are loaded by: do not edit.

## Architectures

Each is a file in `src/pyrite/models/`, and equal to an independent implementation in its logits at
every position (`tests/parity/test_golden.py`). The names are `general.architecture` of GGUF files
and `model_type` of config.json.

| file | models | GGUF | folders |
| --- | --- | --- | --- |
"""

WEIGHTS = """
## Weights

Types of GGUF that are executed, with bits a weight in the file; `pyrite quantize` writes those that
have a recipe.

| type | bits | block |
| --- | --- | --- |
"""

FOLDERS = """
## Folders

Safetensors files, one or several with an index, in F32, F16 or BF16, or quantized already:

| quant_method | executed as |
| --- | --- |
| fp8 (blocks, rows, tensors; E4M3, E5M2) | as they are; F16 where 128 does not divide rows |
| gptq, 4 and 8 bits | Q4_0, Q5_0 with zeros, Q8_0 |
| awq, 4 bits (gemm) | Q5_0 |
| compressed-tensors, packed 4 and 8 bits | Q4_0, Q5_0 with zeros, Q8_0 |
| compressed-tensors, int8 and float8 | Q8_0, as fp8 |
| mxfp4 (GPT-OSS) | MXFP4 |

8-bit floats are under a float32 scale for 128 columns. GPTQ's columns out of order (`desc_act`)
are sorted by group, and inputs with them; those of experts become F16. GGUF has neither: `pyrite
convert` writes F16, or what `--type` names.
"""


def text() -> str:
    recipes = ", ".join(f"`{name}`" for name in RECIPES)
    return (
        HEAD
        + "\n".join(architecture_rows())
        + "\n"
        + WEIGHTS
        + "\n".join(type_rows())
        + f"\n\nRecipes: {recipes}.\n"
        + FOLDERS
    )


def architecture_rows() -> list[str]:
    modules = sorted(set(ARCHITECTURES.values()) | set(MODEL_TYPES.values()))
    return [row_of(name) for name in modules]


def row_of(module: str) -> str:
    words = (import_module(f"pyrite.models.{module}").__doc__ or "").strip()
    title = " ".join(words.split("\n\n")[0].split()).rstrip(".")
    named = [", ".join(names_in(table, module)) for table in (ARCHITECTURES, MODEL_TYPES)]
    return f"| `{module}.py` | {title} | {named[0]} | {named[1]} |"


def names_in(table: dict[str, str], module: str) -> list[str]:
    return [f"`{name}`" for name, where in table.items() if where == module]


def type_rows() -> list[str]:
    found = sorted(
        (row for row in FORMATS.values() if row.executed and row.number is not None),
        key=lambda row: (-row.block_bytes / row.block_columns, row.name),
    )
    return [
        f"| {row.name} | {8 * row.block_bytes / row.block_columns:.4g} | {row.block_columns} |"
        for row in found
    ]
