"""From what a user calls a model to its file: a path, an alias, or user/repository[:quant].

Models are kept in the cache's `models` folder: packaged ones under their file's name, the hub's
under hub/USER/REPOSITORY. A model that is there is used without the network. Files are complete
or absent: they get their names last. What speaks HTTP is imported when something is fetched.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyrite.config import cache_home
from pyrite.errors import ModelNotFoundError
from pyrite.formats.choice import DEFAULT_QUANT, NAME, choose_files, quant_of
from pyrite.formats.packages import PACKAGED, Packaged
from pyrite.formats.part_names import PART, is_later_part

if TYPE_CHECKING:
    from pyrite.formats.fetch import Progress

ALIASES = tuple(PACKAGED)
CHOSEN = ".chosen"  # in a repository's folder: the file that its bare name stands for


@dataclass(frozen=True, slots=True)
class InstalledModel:
    name: str  # what `resolve` takes
    path: Path
    num_bytes: int  # of all its files


def models_home() -> Path:
    return cache_home() / "models"


def resolve(name: str, progress: Progress | None = None) -> Path:
    """The file or folder of a model, fetched when it is not here.

    Raises ModelNotFoundError, FetchError, CapacityError.
    """
    path = Path(name).expanduser()
    if name and path.exists():  # an empty name would be the folder that one is in
        return path
    if model := PACKAGED.get(name):
        return _packaged(model, progress)
    if found := _installed_path(name):
        return found
    if _is_repository(name):
        return _local_choice(name) or _fetch_choice(name, progress)
    raise _not_found(name)


def pull(name: str, progress: Progress | None = None) -> Path:
    """Fetches a model, or checks the one that is here and fetches it again when it is damaged.

    Raises ModelNotFoundError, FetchError, CapacityError.
    """
    if model := PACKAGED.get(name):
        _remove_damaged(model)
        return _packaged(model, progress)
    if _is_repository(name) and not Path(name).exists():
        return _fetch_choice(name, progress, check=True)
    raise _not_found(name)


def installed() -> list[InstalledModel]:
    """Models in the cache, by name."""
    return sorted(_installed(), key=lambda model: model.name)


def kept_paths(name: str) -> list[Path]:
    """The models that `remove` would remove: one, or all of a repository that is named alone."""
    return [one.path for one in _installed() if name in (one.name, one.name.partition(":")[0])]


def known_checksums(model: Path) -> dict[Path, str]:
    """SHA-256 of those of a model's files of which it is known: of fetched ones."""
    from pyrite.formats.checksums import read_checksums

    home, place = models_home().resolve(), model.resolve()
    known = {home / one.file_name: one.sha256 for one in PACKAGED.values()}
    if place.is_relative_to(home / "hub"):
        repository = home.joinpath(*place.relative_to(home).parts[:3])
        kept = read_checksums(repository)
        known |= {repository / name: digest for name, digest in kept.items()}
    files = _parts(place) if place.is_file() else list(place.rglob("*"))
    return {path: known[path] for path in files if path in known}


def remove(name: str) -> int:
    """Removes a model from the cache, also what an interrupted download left; bytes given back.

    Raises ModelNotFoundError when the cache has no such model.
    """
    if model := PACKAGED.get(name):
        target = models_home() / model.file_name
        wheels = [models_home() / ".wheels" / wheel.file_name for wheel in model.wheels]
        partials = [path.with_name(path.name + ".partial") for path in (target, *wheels)]
        paths = [target, *wheels, *partials]
    elif _is_repository(name) and ":" not in name and _repository_folder(name).is_dir():
        paths = [_repository_folder(name)]
    else:
        paths = [file for model in installed() if model.name == name for file in _files(model)]
    sizes = [_size(path) for path in paths if path.exists()]
    if not sizes:
        known = ", ".join(model.name for model in installed()) or "none"
        raise ModelNotFoundError(f"the cache has no model {name}", hint=f"here are: {known}")
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return sum(sizes)


def _packaged(model: Packaged, progress: Progress | None) -> Path:
    path = models_home() / model.file_name
    if path.is_file():
        return path
    from pyrite.formats.packaged import fetch_packaged

    return fetch_packaged(model, models_home(), progress)


def _remove_damaged(model: Packaged) -> None:
    from pyrite.formats.fetch import sha256_of

    path = models_home() / model.file_name
    if path.is_file() and sha256_of(path) != model.sha256:
        path.unlink()


def _is_repository(name: str) -> bool:
    if NAME.fullmatch(name) is None or ".." in name:
        return False
    return ":" in name or not name.lower().endswith((".gguf", ".safetensors"))


def _split(name: str) -> tuple[str, str | None]:
    repository, _, choice = name.partition(":")
    return repository, choice or None


def _repository_folder(name: str) -> Path:
    return models_home().joinpath("hub", *_split(name)[0].split("/"))


def _local_choice(name: str) -> Path | None:
    """The model if all its files are here: the one chosen before, or the quant asked for."""
    repository, choice = _split(name)
    folder = _repository_folder(name)
    if choice is None and (folder / CHOSEN).is_file():
        chosen = folder / (folder / CHOSEN).read_text().strip()
        if chosen.exists():
            return chosen
    paths = [path.relative_to(folder).as_posix() for path in folder.rglob("*.gguf")]
    if not paths:
        return folder if choice is None and (folder / "config.json").is_file() else None
    try:
        return folder / choose_files(paths, choice or DEFAULT_QUANT, repository)[0]
    except ModelNotFoundError:
        return None


def _fetch_choice(name: str, progress: Progress | None, *, check: bool = False) -> Path:
    """`check`: files that are here already are fetched again where they are damaged."""
    from pyrite.formats.repository import fetch_files, list_repository, remove_damaged

    repository, choice = _split(name)
    folder = _repository_folder(name)
    remote = list_repository(repository)
    paths = choose_files((file.path for file in remote.files), choice, repository)
    if check:
        remove_damaged(remote, paths, folder)
    targets = fetch_files(remote, paths, folder, progress)
    is_folder = paths[-1] == "config.json"
    if choice is None:
        (folder / CHOSEN).write_text("." if is_folder else paths[0])
    return folder if is_folder else targets[0]


def _installed() -> Iterator[InstalledModel]:
    home = models_home()
    aliases = {model.file_name: name for name, model in PACKAGED.items()}
    for path in home.glob("*.gguf"):
        yield InstalledModel(aliases.get(path.name, path.name), path, _size(path))
    for folder in home.glob("hub/*/*"):
        repository = "/".join(folder.parts[-2:])
        if (folder / "config.json").is_file():
            yield InstalledModel(repository, folder, _size(folder))
        for path in folder.rglob("*.gguf"):
            if not is_later_part(path) and _is_whole(path):
                label = quant_of(path.name) or path.relative_to(folder).as_posix()
                size = sum(map(_size, _parts(path)))
                yield InstalledModel(f"{repository}:{label}", path, size)


def _installed_path(name: str) -> Path | None:
    return next((model.path for model in _installed() if model.name == name), None)


def _files(model: InstalledModel) -> list[Path]:
    return _parts(model.path) if model.path.is_file() else [model.path]


def _parts(path: Path) -> list[Path]:
    match = PART.fullmatch(path.name)
    if match is None:
        return [path]
    return sorted(path.parent.glob(f"{match['stem']}-?????-of-{match['count']}.gguf"))


def _is_whole(path: Path) -> bool:
    match = PART.fullmatch(path.name)
    return match is None or len(_parts(path)) == int(match["count"])


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _not_found(name: str) -> ModelNotFoundError:
    if name.startswith((".", "/", "~")) or name.lower().endswith((".gguf", ".safetensors")):
        return ModelNotFoundError(f"there is no file or folder {name}")
    import difflib

    known = dict.fromkeys((*ALIASES, *(model.name for model in _installed())))
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known names: {', '.join(known)}"
    return ModelNotFoundError(
        f"{name or 'an empty name'} is no path, no known name, and not user/repository[:quant]",
        hint=hint,
    )
