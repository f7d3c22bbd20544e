"""The slots of states: memory of a runner's own, which a batch names and is checked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from plans import make_model
from pyrite.backends.base import Batch, Runner
from pyrite.backends.cpu import CpuBackend
from pyrite.backends.reference import ReferenceBackend
from pyrite.errors import BackendError
from steps import Part, make_batch

STATES = (5, 40)  # floats, of operations that the plan does not have


@pytest.fixture(params=[ReferenceBackend(), CpuBackend()], ids=["reference", "cpu"])
def runner(request: pytest.FixtureRequest) -> Runner:
    return prepared(request.param, STATES)


def prepared(backend: Any, states: tuple[int, ...]) -> Runner:
    model = make_model(lambda builder, x: builder.softcap(x, 2.0), 32)
    return backend.prepare(
        replace(model.plan, states=states),
        model.weights,
        num_pages=4,
        max_tokens=8,
        num_threads=1,
        precision="default",
        num_slots=3,
    )


def batch(*slots: int) -> Batch:
    return make_batch([Part([1, 2], [0], slot=slot) for slot in slots])


def test_what_is_written_is_read_and_copied(runner: Runner) -> None:
    assert runner.num_slots == 3
    assert runner.state_bytes >= 4 * sum(STATES)
    data = np.random.default_rng(1).standard_normal((2, runner.state_bytes // 4)).astype(np.float32)
    for slot in range(2):
        runner.write_state(slot, data[slot].view(np.uint8))
    runner.copy_state(1, 2)
    found = np.empty(runner.state_bytes, np.uint8)
    for slot, expected in enumerate([data[0], data[1], data[1]]):
        runner.read_state(slot, found)
        np.testing.assert_array_equal(found, expected.view(np.uint8))


def test_slots_that_are_not_there(runner: Runner) -> None:
    data = np.empty(runner.state_bytes, np.uint8)
    for use in (
        lambda: runner.copy_state(0, 3),
        lambda: runner.copy_state(-1, 0),
        lambda: runner.read_state(3, data),
        lambda: runner.write_state(-1, data),
        lambda: runner.write_state(0, data[1:]),
        lambda: runner.read_state(0, data.view(np.float32)),
    ):
        with pytest.raises(BackendError, match=r"slot -?\d|state of \d+ bytes"):
            use()


@pytest.mark.parametrize(
    ("slots", "fault"), [((0, 3), "slot"), ((-1, 0), "slot"), ((1, 1), "two sequences")]
)
def test_a_batch_names_slots_of_its_sequences(
    runner: Runner, slots: tuple[int, ...], fault: str
) -> None:
    with pytest.raises(BackendError, match=fault):
        runner.run(batch(*slots))
    with pytest.raises(BackendError, match="state"):
        runner.run(replace(batch(0, 1), state_slots=np.zeros(1, np.int32)))
    assert len(runner.run(batch(2, 0))) == 4
    assert len(runner.run(batch(2, 0))) == 4, "the check keeps nothing of the run before"


@pytest.mark.parametrize("backend", [ReferenceBackend(), CpuBackend()])
def test_a_plan_without_states_looks_at_no_slots(backend: Any) -> None:
    runner = prepared(backend, ())
    assert runner.state_bytes == 0
    for slots in ([], [-1, -1], [0, 0]):
        named = replace(batch(0, 1), state_slots=np.array(slots, np.int32))
        assert len(runner.run(named)) == 4
