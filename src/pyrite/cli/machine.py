"""The machine in one line, for the head of a table of measurements."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from pyrite.cgroup import read_text


def machine_line(root: Path = Path("/")) -> str:
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    return f"{processor(root)}, {cores} processors, {platform.platform()}; load now {load:.1f}"


def processor(root: Path = Path("/")) -> str:
    """Its name, where the system tells it; else the kind of machine."""
    match = re.search(r"^model name\s*:\s*(.+)$", read_text(root / "proc/cpuinfo"), re.MULTILINE)
    return match[1].strip() if match else platform.machine()
