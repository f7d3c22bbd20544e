"""What a model file holds, with --plan what is made of it, with --memory what it takes."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyrite.cli.models import find_model
from pyrite.cli.terminal import size, this_terminal
from pyrite.config import Settings

if TYPE_CHECKING:
    from pyrite.formats.checkpoint import Checkpoint, TokenizerData


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--plan", action="store_true", help="the operations that the model becomes")
    parser.add_argument("--memory", action="store_true", help="what it takes once it is loaded")
    parser.add_argument("--json", action="store_true", help="for a program to read")


def run(options: argparse.Namespace) -> int:
    from pyrite.formats.checkpoint import open_checkpoint

    checkpoint = open_checkpoint(find_model(options.model, this_terminal()))
    if options.plan:
        from pyrite.graph.show import show_plan
        from pyrite.models.registry import as_model, build_plan

        print(show_plan(build_plan(as_model(checkpoint))), end="")
        return 0
    if options.memory:
        from pyrite.cli.footprint import describe_memory, memory_rows
        from pyrite.models.registry import as_model

        found = describe_memory(as_model(checkpoint), Settings())
        print(json.dumps(found, indent=1) if options.json else table(memory_rows(found)))
        return 0
    facts = describe(checkpoint)
    print(json.dumps(facts, ensure_ascii=False, indent=1) if options.json else as_text(facts))
    return 0


def describe(checkpoint: Checkpoint) -> dict[str, Any]:
    """`problem` says why the model cannot be run; the file's own facts are there all the same."""
    tensors = checkpoint.tensors.values()
    facts: dict[str, Any] = {
        "path": str(checkpoint.path),
        "format": checkpoint.format,
        "architecture": checkpoint.architecture,
        "bytes": checkpoint.num_bytes,
        "files": [str(path) for path in checkpoint.files],
        "parameters": sum(count(tensor.shape) for tensor in tensors),
        "tensors": len(checkpoint.tensors),
        "types": types_of(checkpoint),
        **sizes(checkpoint),
        "chat_template": checkpoint.chat_template is not None,
        "chat_template_characters": len(checkpoint.chat_template or ""),
        "tokenizer": describe_tokenizer(checkpoint.tokenizer),
        "sampling": dict(checkpoint.sampling),
    }
    return facts


def sizes(checkpoint: Checkpoint) -> dict[str, Any]:
    from pyrite.errors import ModelError
    from pyrite.models.registry import as_model, build_plan

    try:
        plan = build_plan(as_model(checkpoint))
    except ModelError as error:
        return {"problem": str(error)}
    from pyrite.cli.verdicts import verdict
    from pyrite.config import cache_home

    return {
        "problem": None,
        "doctor": verdict(as_model(checkpoint), cache_home()),
        "layers": plan.num_layers,
        "context": plan.context_length,
        "vocabulary": plan.vocabulary,
        "key_heads": list(plan.key_heads),
        "head_widths": list(plan.head_widths),
    }


def types_of(checkpoint: Checkpoint) -> dict[str, dict[str, int]]:
    """Weight type: how many tensors have it, and their bytes."""
    tensors = checkpoint.tensors.values()
    counts = Counter(tensor.type for tensor in tensors)
    num_bytes: Counter[str] = Counter()
    for tensor in tensors:
        num_bytes[tensor.type] += tensor.num_bytes
    return {
        name: {"tensors": number, "bytes": num_bytes[name]}
        for name, number in sorted(counts.items(), key=lambda item: -num_bytes[item[0]])
    }


def describe_tokenizer(data: TokenizerData | None) -> dict[str, Any] | None:
    if data is None:
        return None
    return {
        "model": data.model,
        "unknown": data.unknown or None,
        "pre": data.pre,
        "tokens": len(data.tokens),
        "bos_id": data.bos_id,
        "eos_ids": list(data.eos_ids),
        "add_bos": data.add_bos,
    }


def as_text(facts: dict[str, Any]) -> str:
    types = [
        f"{name} {row['tensors']} ({size(row['bytes'])})" for name, row in facts["types"].items()
    ]
    tokenizer = facts["tokenizer"]
    rows = [
        ("path", facts["path"]),
        ("format", f"{facts['format']}, {size(facts['bytes'])} in {len(facts['files']) or 1} file"),
        ("architecture", facts["architecture"]),
        ("parameters", f"{facts['parameters'] / 1e6:.1f} M in {facts['tensors']} tensors"),
        ("types", ", ".join(types)),
        ("layers", facts.get("layers")),
        ("context", facts.get("context") and f"{facts['context']} tokens"),
        ("vocabulary", facts.get("vocabulary")),
        (
            "template",
            f"{facts['chat_template_characters']} characters"
            if facts["chat_template"]
            else "none: the model continues text",
        ),
        ("tokenizer", tokenizer and tokenizer_line(tokenizer)),
        ("sampling", sampling_line(facts["sampling"])),
        ("problem", facts["problem"]),
        ("doctor", facts.get("doctor") or "not looked at yet: pyrite doctor"),
    ]
    return table((name, text) for name, text in rows if text is not None)


def sampling_line(sampling: dict[str, float]) -> str | None:
    """What requests have that state nothing else."""
    if not sampling:
        return None
    fields = ", ".join(f"{name} {value:g}" for name, value in sampling.items())
    return f"{fields}: as its maker recommends (--generation-config off: neutral)"


def tokenizer_line(tokenizer: dict[str, Any]) -> str:
    if tokenizer["unknown"]:
        return f"with the tokenizers library: it has {tokenizer['unknown']}"
    pre = f", pre-tokenizer {tokenizer['pre']}" if tokenizer["pre"] else ""
    ends = ", ".join(str(token_id) for token_id in tokenizer["eos_ids"]) or "none"
    return f"{tokenizer['model']}{pre}, {tokenizer['tokens']} tokens, end of answer: {ends}"


def table(rows: Iterable[tuple[str, Any]]) -> str:
    return "\n".join(f"{name:<14}{text}" for name, text in rows)


def count(shape: tuple[int, ...]) -> int:
    product = 1
    for extent in shape:
        product *= extent
    return product
