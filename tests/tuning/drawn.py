"""Hypothesis strategies: sequences and configurations that often begin alike."""

from __future__ import annotations

from hypothesis import strategies as st

from daskevo.tuning import (
    Configuration,
    Constant,
    Cosine,
    Cyclic,
    Exponential,
    Linear,
    MultiStep,
    Step,
    StepSequence,
    Trajectory,
    concatenate,
    warmup,
)

VALUES = st.sampled_from([0.1, 0.05, 0.5, 1.0])
FEW = st.sampled_from([0.1, 0.1, 0.1, 0.05])
"""Most trials are to begin alike."""
FACTORS = st.sampled_from([0.5, 1.0, 2.0])
STEPS = st.integers(1, 12)
MILESTONES = st.sets(STEPS, max_size=3).map(lambda steps: tuple(sorted(steps)))

ELEMENTARY: st.SearchStrategy[StepSequence] = st.one_of(
    st.builds(Constant, VALUES),
    st.builds(Linear, VALUES, VALUES, STEPS),
    st.builds(Exponential, VALUES, FACTORS),
    st.builds(Step, VALUES, STEPS, FACTORS),
    st.builds(MultiStep, VALUES, MILESTONES, FACTORS),
    st.builds(Cosine, VALUES, VALUES, STEPS, st.sampled_from([None, 1, 1.5, 2])),
    st.builds(Cyclic, VALUES, VALUES, STEPS, STEPS),
)
SEQUENCES: st.SearchStrategy[StepSequence] = st.recursive(
    ELEMENTARY,
    lambda inner: st.one_of(
        st.builds(lambda first, at, later: concatenate(first, (at, later)), inner, STEPS, inner),
        st.builds(warmup, VALUES, STEPS, inner),
    ),
    max_leaves=4,
)
PIECEWISE: st.SearchStrategy[StepSequence] = st.one_of(
    st.builds(Constant, FEW),
    st.builds(MultiStep, FEW, MILESTONES, FACTORS),
    st.builds(lambda a, at, b: concatenate(Constant(a), (at, Constant(b))), FEW, STEPS, FEW),
)
CONFIGURATIONS = st.builds(
    lambda rate, size, optimizer: Configuration(
        {"learning_rate": rate, "batch_size": size}, {"optimizer": optimizer}, "epoch"
    ),
    PIECEWISE,
    st.sampled_from([Constant(32), MultiStep(32, (4,), 2), MultiStep(32, (4, 8), 2)]),
    st.sampled_from(["sgd"] * 7 + ["adam"]),
)


def prefix(trajectory: Trajectory, steps: int) -> tuple[object, ...]:
    """The first steps of a trajectory written out: what two trainings share if it is equal."""
    configuration = trajectory.configuration
    values = [tuple(value.hex() for value in configuration.at(step).values()) for step in range(steps)]
    return (trajectory.origin, repr(configuration.constants), configuration.unit, *values)
