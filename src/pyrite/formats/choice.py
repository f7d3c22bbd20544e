"""Which files of a repository make one model: a GGUF file or its parts, or a safetensors folder.

Only names are looked at; where the files are is unknown here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from pyrite.errors import ModelNotFoundError
from pyrite.formats.part_names import PART

DEFAULT_QUANT = "Q4_K_M"
NAME = re.compile(r"(?P<repository>\w[\w.-]*/\w[\w.-]*)(?::(?P<choice>[\w.\-/ +]+))?")
QUANT = re.compile(
    r"(?<![A-Za-z0-9])((?:UD-)?(?:IQ|Q|TQ)\d\w*|BF16|F16|F32|MXFP4\w*)(?![A-Za-z0-9])"
)
NOT_A_MODEL = re.compile(r"(^|[/._-])(mmproj|imatrix)([/._-]|$)", re.IGNORECASE)
FOLDER_FILES = re.compile(
    r"[^/]+\.safetensors|[^/]+\.safetensors\.index\.json|(generation_)?config\.json"
    r"|tokenizer[^/]*\.json|tokenizer\.model|special_tokens_map\.json|chat_template\.(jinja|json)"
    r"|modules\.json|\d+_Pooling/config\.json"
)


def choose_files(paths: Iterable[str], choice: str | None, name: str) -> tuple[str, ...]:
    """The files of one model: the GGUF file or parts of the quant, or a safetensors folder's.

    `choice` is a quant or a file's name. Without one it is Q4_K_M, or the only GGUF model there is,
    or the safetensors folder when there is no GGUF. Raises ModelNotFoundError with what there is.
    """
    listed = sorted(paths)
    models = _gguf_models(listed)
    if choice is None and not models:
        return _folder(listed, name)
    wanted = choice or DEFAULT_QUANT
    named = [model for model in models if wanted in (model[0], PurePosixPath(model[0]).name)]
    found = named or [model for model in models if _has_quant(model[0], wanted)]
    if choice is None and not found and len(models) == 1:
        found = models
    if len(found) == 1:
        return _complete(found[0], name)
    raise _unclear(name, wanted, found, models)


def _unclear(
    name: str, wanted: str, found: Sequence[tuple[str, ...]], models: Sequence[tuple[str, ...]]
) -> ModelNotFoundError:
    if found:
        problem, offered = "several files", [model[0] for model in found]
    else:
        problem, offered = "no GGUF file", [quant_of(model[0]) or model[0] for model in models]
    return ModelNotFoundError(
        f"{name} has {problem} for {wanted}",
        hint=f"name one: {name}:QUANT with {', '.join(offered)}" if offered else "",
    )


def quant_of(path: str) -> str | None:
    """The quant that a file's name states, if it states one."""
    found = QUANT.findall(PurePosixPath(path).name) or QUANT.findall(path)
    return str(found[-1]) if found else None


def _gguf_models(paths: Sequence[str]) -> list[tuple[str, ...]]:
    """Files that are models by themselves, and split ones as all their parts."""
    models: dict[tuple[str, str], list[str]] = {}
    for path in paths:
        if not path.lower().endswith(".gguf") or NOT_A_MODEL.search(path):
            continue
        match = PART.fullmatch(path)
        key = (match["stem"], match["count"]) if match else (path, "")
        models.setdefault(key, []).append(path)
    return [tuple(parts) for parts in models.values()]


def _has_quant(path: str, quant: str) -> bool:
    stem = re.escape(quant.lower())
    return re.search(rf"(?<![a-z0-9]){stem}(?![a-z0-9_])", path.lower()) is not None


def _complete(parts: tuple[str, ...], name: str) -> tuple[str, ...]:
    match = PART.fullmatch(parts[0])
    if match and len(parts) != int(match["count"]):
        raise ModelNotFoundError(
            f"{name} holds {len(parts)} of the {int(match['count'])} parts of {parts[0]}"
        )
    return parts


def _folder(paths: Sequence[str], name: str) -> tuple[str, ...]:
    """A safetensors folder's files; config.json last, so that it tells a whole folder."""
    found = [path for path in paths if FOLDER_FILES.fullmatch(path)]
    if "config.json" not in found or not any(path.endswith(".safetensors") for path in found):
        raise ModelNotFoundError(
            f"{name} holds neither a GGUF file nor config.json with safetensors files"
        )
    return (*(path for path in found if path != "config.json"), "config.json")
