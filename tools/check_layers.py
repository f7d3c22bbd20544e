"""Checks that imports go downward: no layer imports one above it.

Run by `make lint`. The order is that of ARCHITECTURE.md; a new package gets a row here.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "pyrite"

# Lowest first. A layer may import itself and everything on earlier lines; layers that share a
# line do not know each other.
ORDER: tuple[tuple[str, ...], ...] = (
    ("records",),
    ("errors", "_native", "sampling.limits", "stopwatch", "beside"),
    ("cgroup",),
    ("cores", "memory"),
    ("nodes",),
    ("config", "sampling.grammar"),
    ("quant", "sampling.params", "pooling"),
    ("formats", "request"),
    ("calibration",),
    ("conversion",),
    ("text", "sampling", "kv", "graph"),
    ("models",),
    ("backends",),
    ("sequence", "continuation", "steptimes", "room", "export", "passages"),
    ("adapter_export",),
    ("evaluation", "quantized"),
    ("shares", "leaders", "step"),
    ("scheduler", "keeper", "identity"),
    ("assembly", "grammars", "speculation", "drafting"),
    ("engine",),
    ("driver", "loading", "logits", "completion"),
    ("stream", "embedding", "importance"),
    ("llm",),
    ("vllm",),
    ("server",),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}


def layer(module: str) -> str:
    """`pyrite.sampling.params.x` -> the longest prefix that has a rank."""
    parts = module.split(".")[1:]
    for size in range(len(parts), 0, -1):
        name = ".".join(parts[:size])
        if name in RANK:
            return name
    return ""


def imports(path: Path) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, name.name) for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.lineno, f"{node.module}.{name.name}") for name in node.names]
    return [(line, name) for line, name in found if name.startswith("pyrite.")]


def violations(path: Path) -> list[str]:
    module = "pyrite." + ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    own = layer(module)
    if path.name == "__init__.py" and path.parent == SOURCE:
        return []
    if own == "":
        return [f"{path}: no layer in tools/check_layers.py for {module}"]
    wrong = []
    for line, name in imports(path):
        other = layer(name)
        if other in ("", own):
            continue
        if RANK[other] > RANK[own] or (RANK[other] == RANK[own] and own.split(".")[0] != other):
            wrong.append(f"{path}:{line}: {own} imports {name}, which is not below it")
    return wrong


def main() -> int:
    wrong = [text for path in sorted(SOURCE.rglob("*.py")) for text in violations(path)]
    print("\n".join(wrong) or "layers: every import goes downward")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
