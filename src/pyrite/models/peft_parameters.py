"""Which matrices are for a parameter, and not for a module: `target_parameters` of PEFT.

PEFT wraps the module that has the parameters, once for each: the first matrices lie innermost,
below as many names `base_layer`. Of experts that one parameter holds all first matrices stand in
one, the rows of an expert together, and so do the second ones, a rank's columns of all experts
together. What the parameters are in a model is unknown here.

Source: ParamWrapper of the `peft` library.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats import derived
from pyrite.models.fields import shorten
from pyrite.models.lora import Pair

# Parameters that are read here, of modules of this name and of others, in the modules' order.
EXPERTS, OF_EXPERTS, OF_OTHERS = "experts", ("gate_up_proj", "down_proj"), ("weight",)
PARAMETERS = OF_EXPERTS + OF_OTHERS
INNER = ".base_layer"
MOST_EXPERTS = 1 << 12
Names = tuple[str, ...]


def read_parameters(value: Any) -> Names:
    """`target_parameters`: whole names or ends. Raises FormatError, UnsupportedError."""
    items = [] if value is None else value
    if not isinstance(items, list) or not all(isinstance(one, str) and one for one in items):
        raise FormatError(f"target_parameters = {shorten(value)}: must be a list of names")
    for name in items:
        if name.rpartition(".")[2] not in PARAMETERS:
            raise UnsupportedError(
                f"target_parameters names {shorten(name)}: of a module's parameters"
                f" {', '.join(PARAMETERS)} are adapted here"
            )
    return tuple(items)


def split(pairs: Mapping[str, Pair], names: Names) -> tuple[dict[str, Pair], dict[str, Pair]]:
    """Of modules, and by the whole names of parameters. Raises TensorError."""
    modules: dict[str, Pair] = {}
    parameters: dict[str, Pair] = {}
    for module, wrapped in _by_module(pairs).items():
        there = OF_EXPERTS if module.rpartition(".")[2] == EXPERTS else OF_OTHERS
        own = [one for one in there if _is_named(f"{module}.{one}", names)]
        if not own and len(wrapped) == 1:
            modules[module] = wrapped[0]
        elif len(own) != len(wrapped):
            raise TensorError(
                f"it has {len(wrapped)} pairs of matrices for {module}, and target_parameters ="
                f" {shorten(list(names))} names {len(own)} of its parameters",
                hint="configuration and matrices are of different adapters: save it again",
            )
        else:
            parameters |= {f"{module}.{one}": pair for one, pair in zip(own, wrapped, strict=True)}
    return modules, parameters


def by_experts(name: str, pair: Pair, rank: int) -> Pair:
    """`rank`: of one expert; the pair itself where it is for a matrix. Raises TensorError."""
    if pair.rank == rank:
        return pair
    if pair.rank % rank:
        raise TensorError(f"the matrices for {name} have {pair.rank} ranks: no multiple of {rank}")
    experts = pair.rank // rank
    rows, columns = pair.shape
    up = derived.values_of(pair.up).reshape(rows, rank, experts).transpose(2, 0, 1)
    down = derived.reshaped(pair.down, (experts, rank, columns))
    return Pair(down, derived.held(pair.up.name, np.ascontiguousarray(up)))


def _by_module(pairs: Mapping[str, Pair]) -> dict[str, list[Pair]]:
    """The innermost first."""
    depths: dict[str, list[tuple[int, Pair]]] = defaultdict(list)
    for name, pair in pairs.items():
        module = name
        while module.endswith(INNER):
            module = module.removesuffix(INNER)
        depths[module].append((len(name), pair))
    return {
        module: [pair for _, pair in sorted(found, key=lambda one: -one[0])]
        for module, found in depths.items()
    }


def _is_named(name: str, names: Names) -> bool:
    return name in names or name.endswith(tuple("." + one for one in names))
