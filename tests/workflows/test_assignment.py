"""What is drawn for an evaluation: its seed, and whether it belongs to the control arm."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from daskevo_workflows.assignment import evaluation_seed, in_control_arm


def test_seeds_depend_on_run_and_number_only() -> None:
    seeds = {(run, number): evaluation_seed(run, number) for run in range(20) for number in range(50)}
    assert len(set(seeds.values())) == 1000
    assert all(0 <= seed < 2**31 for seed in seeds.values())
    assert evaluation_seed(3, 7) == seeds[3, 7]


@given(st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_the_control_arm_is_a_fixed_draw_of_its_share(share: float, seed: int) -> None:
    drawn = [in_control_arm(seed, number, share) for number in range(60)]
    assert drawn == [in_control_arm(seed, number, share) for number in range(60)]
    # Five standard deviations of a binomial draw.
    assert abs(sum(drawn) - 60 * share) <= 5 * np.sqrt(60 * share * (1 - share)) + 1e-9
