"""Runs everything in tests/fuzz again and again with new seeds, for FUZZ_SECONDS (default 300).

Run by `make fuzz`. Inputs that failed are kept by hypothesis in .hypothesis and tried first the
next time; a failure ends the run with status 1 and the seed that shows it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time


def main() -> int:
    seconds = float(os.environ.get("FUZZ_SECONDS", "300"))
    first = int(os.environ.get("FUZZ_SEED", str(time.time_ns() // 1_000_000)))
    environment = {**os.environ, "PYRITE_FUZZ": "long"}
    end, rounds = time.monotonic() + seconds, 0
    while rounds == 0 or time.monotonic() < end:
        seed = first + rounds
        command = [sys.executable, "-m", "pytest", "tests/fuzz", "-q", f"--hypothesis-seed={seed}"]
        if subprocess.run(command, env=environment, check=False).returncode != 0:
            print(f"fuzz: failed; again with FUZZ_SEED={seed} FUZZ_SECONDS=0 make fuzz")
            return 1
        rounds += 1
    print(f"fuzz: {rounds} rounds without a failure, seeds {first} to {first + rounds - 1}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
