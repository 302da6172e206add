"""What is drawn for an evaluation: by what its training is named, and whether it belongs to the control arm."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from daskevo.types import VertexId
from daskevo_workflows.evaluation.assignment import in_control_arm
from daskevo_workflows.evaluation.training_seed import seed_of, trajectory


def test_a_training_is_named_by_the_runs_seed_its_architecture_and_its_ancestor() -> None:
    ids = [VertexId(bytes([number]) * 16) for number in range(4)]
    first = trajectory(1, ids[:2])
    names = {
        first,
        trajectory(2, ids[:2]),
        trajectory(1, ids[:3]),
        trajectory(1, ids[1::-1]),
        trajectory(1, ids[:2], first),
        trajectory(1, ids[:2], repeat=1),
        trajectory(1, ids[:2], first, repeat=1),
    }
    assert len(names) == 7
    assert trajectory(1, ids[:2]) == first
    assert len({seed_of(name) for name in names}) == 7
    assert all(0 <= seed_of(name) < 2**31 for name in names)


@given(st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_the_control_arm_is_a_fixed_draw_of_its_share(share: float, seed: int) -> None:
    drawn = [in_control_arm(seed, number, share) for number in range(60)]
    assert drawn == [in_control_arm(seed, number, share) for number in range(60)]
    # Five standard deviations of a binomial draw.
    assert abs(sum(drawn) - 60 * share) <= 5 * np.sqrt(60 * share * (1 - share)) + 1e-9
