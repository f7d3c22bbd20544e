"""How fast a tokenizer is made from a model file, and encodes, beside the `tokenizers` library.

    python benchmarks/tokenizer.py MODEL.gguf [TEXT ...]

Processor time, best of several; the library is given the same vocabulary where that is a simple
matter (byte-level models that split single digits, as SmolLM2 does), and must give the same ids.
Without texts, the project's own Python sources are encoded.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyrite.formats.checkpoint import TokenizerData
from pyrite.formats.gguf import read_gguf
from pyrite.formats.vocabulary import read_tokenizer
from pyrite.text.tokenizer import Tokenizer

SOURCES = Path(__file__).resolve().parent.parent / "src" / "pyrite"
LONG = {"letters": "a" * 200_000, "underscores": "_" * 200_000, "spaces": " " * 200_000}


def seconds(work: Callable[[], object], rounds: int = 5) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def library(data: TokenizerData) -> Callable[[str], list[int]] | None:
    """The library's encode over the same pieces and merges, or None."""
    if data.merges is None or data.pre not in ("smollm", "starcoder", "command-r"):
        return None
    from tokenizers import Tokenizer as Library
    from tokenizers import models, pre_tokenizers

    pieces = {data.tokens[index].decode(): index for index in range(len(data.tokens))}
    merges = [tuple(data.merges[index].decode().split(" ")) for index in range(len(data.merges))]
    built = Library(models.BPE(pieces, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
    return lambda text: built.encode(text, add_special_tokens=False).ids


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument("texts", nargs="*", type=Path, help="default: our own sources")
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    data = read_tokenizer(read_gguf(options.model).metadata)
    if data is None:
        sys.exit(f"{options.model} holds no tokenizer that is known here")
    files = options.texts or sorted(SOURCES.rglob("*.py"))
    text = "".join(file.read_text() for file in files)
    megabytes = len(text.encode()) / 1e6
    made = seconds(lambda: Tokenizer.from_data(data)) * 1e3
    ours = Tokenizer.from_data(data)
    ids = ours.encode(text)
    print(f"made from {len(data.tokens)} pieces in {made:.1f} ms")
    print(f"encode {megabytes / seconds(lambda: ours.encode(text)):.1f} MB/s")
    print(f"decode {megabytes / seconds(lambda: ours.decode_bytes(ids)):.1f} MB/s")
    for name, line in LONG.items():
        taken = seconds(lambda line=line: ours.encode(line)) * 1e3
        print(f"200 KB of {name} {taken:.0f} ms")
    if theirs := library(data):
        assert theirs(text) == ids.tolist()
        print(f"tokenizers library: encode {megabytes / seconds(lambda: theirs(text)):.1f} MB/s")


if __name__ == "__main__":
    main()
