"""Fetches the two real models that tests use into the cache, unless they are there already.

Run by `make test`. PYRITE_TEST_SMOLLM2 and PYRITE_TEST_GEMMA3 name files to use instead. Without a
network the tests that need a model are skipped, and say so.
"""

from __future__ import annotations

import os
import sys

from pyrite.errors import PyriteError
from pyrite.formats.hub import resolve

MODELS = {"smollm2": "PYRITE_TEST_SMOLLM2", "gemma3:270m": "PYRITE_TEST_GEMMA3"}


def main() -> int:
    for name, variable in MODELS.items():
        if os.environ.get(variable):
            continue
        try:
            print(f"{name}: {resolve(name)}")
        except PyriteError as error:
            print(f"{name}: {error}; its tests will be skipped", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
