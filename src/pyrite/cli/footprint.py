"""What a model takes of memory, and of what is left here what its pages may take by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyrite.backends.lowering import layer_offsets, matrix_names
from pyrite.backends.packing import packed_bytes
from pyrite.cli.terminal import size
from pyrite.config import KV_TYPES, Settings
from pyrite.formats.checkpoint import Checkpoint
from pyrite.graph.memory import least_columns
from pyrite.graph.ops import Graph
from pyrite.graph.plan import Plan
from pyrite.kv.pages import PAGE_TOKENS
from pyrite.models.estimate import FLOAT_BYTES, state_bytes_of
from pyrite.models.registry import build_plan
from pyrite.room import available_for, find_room


def describe_memory(checkpoint: Checkpoint, settings: Settings) -> dict[str, Any]:
    """Raises ModelError, CapacityError."""
    plan = build_plan(checkpoint)
    available = available_for(plan, settings)
    room = find_room(plan, checkpoint.tensors, settings, available)
    page_bytes = {kind: layer_offsets(plan, kind)[-1] for kind in KV_TYPES}
    return {
        "weights": sum(tensor.num_bytes for tensor in checkpoint.tensors.values()),
        "packed": packed_bytes([checkpoint.tensors[name] for name in matrix_names(plan)]),
        "key_value_bytes": {kind: found / PAGE_TOKENS for kind, found in page_bytes.items()},
        "activation_columns": plan.arena_columns,
        "least_columns": least_columns(Graph(plan.values, plan.ops, plan.result)),
        "step_tokens": settings.max_batch_tokens,
        "logits_bytes": plan.vocabulary * FLOAT_BYTES,
        "available": available,
        "context": room.context,
        "page_tokens": room.num_pages * PAGE_TOKENS,
        "pages": room.num_pages * page_bytes[settings.kv_type],
        "state_bytes": state_bytes_of(plan),
        "states": room.num_slots * state_bytes_of(plan),
        "separate_columns": separate_columns(plan),
    }


def separate_columns(plan: Plan) -> int:
    """If every value had columns of its own."""
    return plan.savings.activation_bytes_before // FLOAT_BYTES


def memory_rows(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """For `show.table`."""
    columns, least = found["activation_columns"], found["least_columns"]
    step = found["step_tokens"] * columns * FLOAT_BYTES
    a_token = ", ".join(f"{kind} {size(n)}" for kind, n in found["key_value_bytes"].items())
    available = found["available"]
    left = "nobody tells how much is" if available is None else f"{size(available)} are"
    states = f"{size(found['state_bytes'])} a request; {size(found['states'])} by default, likewise"
    return [
        ("weights", f"{size(found['weights'])}; packed, and shared: {size(found['packed'])}"),
        ("keys, values", f"a token: {a_token}"),
        (
            "pages",
            f"{size(found['pages'])} for {found['page_tokens']} tokens by default, filled as they "
            f"are used; {left} available",
        ),
        *([("states", states)] if found["states"] else []),
        ("context", f"{found['context']} tokens of one request by default"),
        (
            "activations",
            f"{columns} floats a token (apart: {found['separate_columns']}; live at once: {least}),"
            f" {size(step)} a step of {found['step_tokens']} tokens",
        ),
        ("logits", f"{size(found['logits_bytes'])} an output"),
    ]
