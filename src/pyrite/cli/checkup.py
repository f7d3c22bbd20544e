"""What `doctor` looks at on the machine; each check gives a line of text or raises."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyrite import __version__
from pyrite.cli.doctor import Fault, Skip
from pyrite.cli.terminal import size
from pyrite.config import cache_home

Check = tuple[str, Callable[[], str]]


def machine_checks(threads: int | None) -> list[Check]:
    return [
        ("pyrite", lambda: f"{__version__}, Python {platform.python_version()}, {sys.platform}"),
        ("processor", processor),
        ("instructions", instructions),
        ("threads", partial(thread_count, threads)),
        ("memory", memory),
        ("cache", cache),
    ]


def processor() -> str:
    return f"{processor_name()}, {platform.machine()}, {os.cpu_count()} logical processors"


def processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"


def instructions() -> str:
    from pyrite._native import kernels

    asked = os.environ.get("PYRITE_ISA", "")
    available = ", ".join(kernels.isa_names())
    try:
        chosen = kernels.chosen_isa(asked)
    except ValueError as error:
        raise Fault(f"PYRITE_ISA={error}") from None
    reason = "PYRITE_ISA asks for it" if asked else "the widest"
    return f"{chosen}: {reason} of {available}"


def thread_count(asked: int | None) -> str:
    from pyrite.cores import choose_threads

    return choose_threads(asked).reason


def memory() -> str:
    from pyrite.memory import available_bytes

    available = available_bytes()
    if available is None:
        raise Skip("the system does not tell how much is free")
    return f"{size(available)} available"


def cache() -> str:
    """The folder for models and packed weights: it must be possible to write there."""
    home = cache_home()
    existing = next(place for place in (home, *home.parents) if place.exists())
    if not os.access(existing, os.W_OK):
        raise Fault(f"{home} cannot be written to (name another folder with PYRITE_HOME)")
    files = [path for path in home.rglob("*") if path.is_file()] if home.exists() else []
    used = sum(path.stat().st_size for path in files)
    free = shutil.disk_usage(existing).free
    return f"{home}: {size(used)} in {len(files)} files, {size(free)} free"
