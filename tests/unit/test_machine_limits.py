"""Shares of the machine's limits: what work costs, and which limit judges it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from pyrite.cli import limits_report
from pyrite.cli.caches import Cache, caches
from pyrite.cli.limits import Limits, Peak, Read, levels, measure_limits, thread_counts
from pyrite.cli.report import shares
from pyrite.cli.speed import Test as SpeedTest
from pyrite.cli.work import Cost, Layer, Matrices, Step, Work, seen, work_of
from pyrite.errors import BackendError
from pyrite.models.registry import build_plan, open_model

PEAKS = (
    Peak("avx2", "fma", "floats", 32, 60.0),
    Peak("avx2", "words", "words", 16, 90.0),
    Peak("avx2", "one", "bytes", 8, 100.0),
    Peak("avx2", "four", "bytes", 5, 140.0),
    Peak("avx2", "eight", "bytes", 4, 150.0),
)
LIMITS = Limits(2, (Read("weights", 1000, 10.0, "one stream"),), PEAKS)


@pytest.mark.parametrize(
    ("weights", "planes", "instructions", "speed"),
    [
        ("Q4_K", 1, "eight", 150.0),
        ("Q5_1", 1, "four", 140.0),
        ("Q6_K", 1, "one", 100.0),
        ("Q8_0", 1, "one", 100.0),
        ("IQ4_NL", 1, "one", 100.0),
        ("Q4_K", 2, "words", 90.0),
        ("F16", 1, "fma", 60.0),
        ("BF16", 2, "fma", 60.0),
    ],
)
def test_the_fastest_exact_instructions_judge(
    weights: str, planes: int, instructions: str, speed: float
) -> None:
    found = LIMITS.peak(weights, planes)
    assert (found.instructions, found.products_per_second) == (instructions, speed)


def test_two_planes_of_bytes_are_two_products() -> None:
    bytes_alone = Limits(1, (), (Peak("avx512", "vpdpbusd", "bytes", 8, 100.0),))
    found = bytes_alone.peak("Q4_0", 2)
    assert found.products_per_second == 50.0
    assert found.instructions == "vpdpbusd, 2 planes"


@pytest.mark.parametrize(
    ("depth", "tokens", "window"),
    [(0, 1, 0), (0, 7, 0), (9, 4, 0), (0, 7, 3), (2, 7, 5), (9, 4, 5), (5, 1, 5), (4, 1, 5)],
)
def test_seen_positions_are_those_of_the_mask(depth: int, tokens: int, window: int) -> None:
    ends = [position + 1 for position in range(depth, depth + tokens)]
    assert seen(depth, tokens, window) == sum(min(end, window or end) for end in ends)


def test_cost_of_steps() -> None:
    """Weights once a step, the head's products once a stream, a window's keys alone."""
    work = Work(
        (Matrices("Q4_0", 1, False, 40, 100), Matrices("Q6_K", 2, True, 10, 30)),
        (Layer(position_bytes=2, products=3, window=0), Layer(2, 3, window=4)),
    )
    cost = work.cost([Step(tokens=5, streams=2, depth=10), Step(tokens=1, streams=2, depth=15)])
    first = 50 + 2 * 2 * (15 + 8)
    assert cost.num_bytes == first + 50 + 2 * 2 * (16 + 4)
    assert cost.products["Q4_0", 1] == 2 * 6 * 100
    assert cost.products["Q6_K", 2] == 2 * 2 * 30
    attention = 3 * (seen(10, 5, 0) + seen(10, 5, 4) + seen(15, 1, 0) + seen(15, 1, 4))
    assert cost.products["F32", 1] == 2 * attention


def test_the_longer_of_two_times_is_the_limit() -> None:
    cost = Cost(100, {("Q4_0", 1): 150, ("F32", 1): 60})
    found = shares(cost, 20.0, LIMITS)
    assert (found["limit"], found["of_memory"], found["of_compute"]) == ("memory", 0.5, 0.1)
    assert (found["of_limit"], found["limit_per_second"]) == (0.5, 10.0)
    found = shares(Cost(1, {("Q4_0", 1): 150, ("F32", 1): 60}), 4.0, LIMITS)
    assert (found["limit"], found["of_limit"], found["limit_from"]) == ("compute", 0.5, "eight")
    assert found["limit_per_second"] == 210 / 2


def test_work_of_a_real_plan(golden: Path) -> None:
    checkpoint = open_model(golden / "gguf_models" / "qwen2_q8_0.gguf")
    plan = build_plan(checkpoint)
    default = work_of(plan, checkpoint, "default", "f16")
    fast = work_of(plan, checkpoint, "fast", "q8")
    assert {one.planes for one in default.matrices} == {2}
    assert {(one.planes, one.wanted) for one in fast.matrices} == {(1, False), (2, True)}
    assert default.weight_bytes == fast.weight_bytes < checkpoint.num_bytes
    assert len(default.layers) == plan.num_layers
    assert fast.layers[0].position_bytes < default.layers[0].position_bytes


def test_work_of_a_mixture(golden: Path) -> None:
    """Of its stacks as many matrices count as a token has experts."""
    checkpoint = open_model(golden / "tiny" / "mixtral")
    work = work_of(build_plan(checkpoint), checkpoint, "default", "f16")
    sizes = {name: tensor.num_bytes for name, tensor in checkpoint.tensors.items()}
    stacks = sum(size for name, size in sizes.items() if "_exps" in name)
    others = sum(size for name, size in sizes.items() if "_exps" not in name)
    unread = sum(size for name, size in sizes.items() if "norm" in name or "token_embd" in name)
    assert work.weight_bytes == others - unread + stacks * 2 // 4


def test_work_of_states(golden: Path) -> None:
    """Each stream's are read once a step."""
    checkpoint = open_model(golden / "tiny" / "mamba")
    plan = build_plan(checkpoint)
    work = work_of(plan, checkpoint, "default", "f16")
    one, two = (work.cost([Step(1, streams)]).num_bytes for streams in (1, 2))
    assert two - one == 4 * sum(plan.states) > 0


def test_steps_of_a_test() -> None:
    assert list(SpeedTest("pp", 700, 100).steps(512)) == [Step(512, 1, 100), Step(188, 1, 612)]
    assert list(SpeedTest("tg", 2, 9, 32).steps(512)) == [Step(1, 32, 9), Step(1, 32, 10)]


def test_thread_counts() -> None:
    assert thread_counts(1) == [1]
    assert thread_counts(3) == [1, 2, 3]
    assert thread_counts(24) == [1, 2, 4, 8, 16, 24]


def test_levels_end_past_the_last_cache() -> None:
    found = levels((Cache(1, 1 << 15, 2), Cache(2, 2 << 20, 2), Cache(3, 64 << 20, 1)), 1)
    assert found[:2] == [("level 2 cache", 1 << 20), ("level 3 cache", 32 << 20)]
    what, size = found[2]
    assert what == "memory"
    assert size == 256 << 20


def test_caches_are_counted_once_for_all_who_share(tmp_path: Path) -> None:
    for cpu in range(4):
        pair = f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}"
        rows = (("1", "Instruction", "32K", pair), ("2", "Unified", "1M", pair))
        rows += (("3", "Unified", "33792K", "0-3"), ("x", "Unified", "1M", "0-3"))
        for index, texts in enumerate(rows):
            folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
            folder.mkdir(parents=True)
            names = ("level", "type", "size", "shared_cpu_list")
            for name, text in zip(names, texts, strict=True):
                (folder / name).write_text(text + "\n")
    found = caches(affinity={0, 1, 2}, root=tmp_path)
    assert found == (Cache(2, 1 << 20, 2), Cache(3, 33792 << 10, 1))
    assert caches(affinity={9}, root=tmp_path) == ()


def test_an_absent_instruction_set_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYRITE_ISA", "abacus")
    with pytest.raises(BackendError, match="PYRITE_ISA"):
        measure_limits(1, 1 << 20)


def test_limits_as_json_and_csv() -> None:
    one = json.loads(limits_report.as_json([LIMITS]))[0]
    assert one["reads"][0]["bytes_per_second"] == 10.0
    rows = list(csv.DictReader(io.StringIO(limits_report.as_csv([LIMITS]))))
    assert [row["limit"] for row in rows] == ["read", *["avx2"] * 5]
    assert rows[-1]["per_second"] == "150.0"
