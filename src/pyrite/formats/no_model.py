"""What a folder holds that was taken for a model and is none, by the names of its files."""

from __future__ import annotations

from pathlib import Path

from pyrite.errors import FormatError
from pyrite.formats.part_names import PART, part_path

WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth")


def no_model(folder: Path) -> FormatError:
    """For a folder without config.json, and without a GGUF file to begin with."""
    names = sorted(path.name for path in folder.iterdir())
    problem, hint = _what(folder, names)
    return FormatError(f"{folder} {problem}", hint=hint)


def _what(folder: Path, names: list[str]) -> tuple[str, str]:
    if not names:
        return "is an empty folder", "fetch the model's files into it"
    if "adapter_config.json" in names:
        return "is an adapter, and no model", f"load its model, and name it as --lora {folder}"
    if "model_index.json" in names:
        return "is a pipeline that makes images (model_index.json)", "give a language model"
    if (part := next(filter(None, map(PART.fullmatch, names)), None)) is not None:
        first = part_path(folder, part["stem"], 1, int(part["count"])).name
        return f"holds {part[0]}, and {first} is missing", "fetch all parts into one folder"
    if (snapshot := _snapshot(folder)) is not None:
        return "is a folder of the hub's cache", f"the model is in {snapshot}"
    for pattern in WEIGHTS:
        if found := sorted(folder.glob(pattern)):
            hint = "fetch the model's other files too: config.json says what the weights are of"
            return f"holds {found[0].name}, and no config.json", hint
    return (
        "is a folder without config.json and without a GGUF file",
        "give a GGUF file, or a folder with config.json and safetensors files",
    )


def _snapshot(folder: Path) -> Path | None:
    """The newest in a folder like models--user--name."""
    found = [path for path in folder.glob("snapshots/*") if path.is_dir()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)
