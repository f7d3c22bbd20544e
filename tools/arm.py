"""Runs the native tests on 64-bit Arm: cross-compiled, then emulated by qemu-user.

Each processor below has one set of instructions more than the one before, so that every table of
kernels for Arm is executed. Says what to install where the compiler or the emulator is missing.
It cannot tell how fast they are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

TOOLS = {"aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64": "qemu-user"}
LIBRARIES = "/usr/aarch64-linux-gnu"
FOLDER = Path("build/arm")
BINARIES = Path(sys.executable).parent  # cmake, ctest and ninja

# Emulated processor: the instruction sets that it must be found to have.
PROCESSORS = {
    "cortex-a72": "scalar neon",
    "cortex-a76": "scalar neon dotprod",
    "max": "scalar neon dotprod i8mm",
}
# Of the other tests one processor is enough.
ON_EACH = "test_kernels|test_lanes|test_program|test_recurrence|test_states"


def missing_packages() -> list[str]:
    return [package for tool, package in TOOLS.items() if shutil.which(tool) is None]


def build() -> None:
    options = ["-DPYRITE_TESTS=ON", "-DPYRITE_BINDINGS=OFF"]
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={Path('native/aarch64.cmake').resolve()}"
    ninja = f"-DCMAKE_MAKE_PROGRAM={BINARIES / 'ninja'}"
    configure = ["-S", ".", "-B", str(FOLDER), "-G", "Ninja", ninja, toolchain, *options]
    subprocess.run([BINARIES / "cmake", *configure], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([BINARIES / "cmake", "--build", str(FOLDER)], check=True)


def run_tests(processor: str, instruction_sets: str, chosen: list[str]) -> None:
    emulated = {
        "QEMU_CPU": processor,
        "QEMU_LD_PREFIX": LIBRARIES,
        "PYRITE_TEST_ISAS": instruction_sets,
        "PYRITE_TEST_EMULATED": "qemu-user",
    }
    print(f"\n{processor}: {instruction_sets}", flush=True)
    command = [BINARIES / "ctest", "--test-dir", str(FOLDER), "--output-on-failure", *chosen]
    subprocess.run(command, check=True, env=os.environ | emulated)


def main() -> int:
    packages = missing_packages()
    if packages:
        print(f"make arm needs Debian's packages: apt-get install {' '.join(packages)}")
        return 1
    try:
        build()
        for processor, instruction_sets in PROCESSORS.items():
            chosen = [] if processor == "max" else ["-R", ON_EACH]
            run_tests(processor, instruction_sets, chosen)
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
