"""Memory nodes of a machine: which processors are near which memory, and who belongs where.

A machine of several sockets has several, and so have some of one. Reads the tree that Linux shows;
`root` is "/" but in tests. Binds nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate
from pathlib import Path

from pyrite.cgroup import read_text
from pyrite.cores import parse_list
from pyrite.records import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """`cpus`: the logical processors near it that this process may run on."""

    index: int
    cpus: frozenset[int]


def find_nodes(
    *, affinity: AbstractSet[int] | None = None, root: Path = Path("/")
) -> tuple[Node, ...]:
    """Those with processors that may be used, by number; none where nothing tells.

    `affinity`: logical processors, by default the mask of this process.
    """
    allowed = set(os.sched_getaffinity(0)) if affinity is None else set(affinity)
    folder = root / "sys/devices/system/node"
    found = (
        Node(index, frozenset(parse_list(read_text(folder / f"node{index}/cpulist")) & allowed))
        for index in sorted(parse_list(read_text(folder / "online")))
    )
    return tuple(node for node in found if node.cpus)


def spread(count: int, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """A node for each of `count` threads, in proportion to processors; threads of one node are
    adjacent. () where there is nothing to choose."""
    if len(nodes) < 2 or count < 2:
        return ()
    ends = list(accumulate(len(node.cpus) for node in nodes))
    places = ((2 * thread + 1) * ends[-1] / (2 * count) for thread in range(count))
    return tuple(
        next(node for node, end in zip(nodes, ends, strict=True) if place < end) for place in places
    )
