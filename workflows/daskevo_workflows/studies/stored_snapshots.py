"""What the repository knows of trajectories, from this study or an earlier one: found by their origin and steps."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.tuning import Configuration, SearchPlan, Trajectory
from daskevo.types import JSON
from daskevo_workflows.stage_training.origin import changed_versions


def described(trajectory: Trajectory, step: int) -> JSON:
    """Return what a snapshot's `extra` says of where it stands on which trajectory."""
    return {
        "origin": trajectory.origin,
        "key": trajectory.key(step),
        "configuration": trajectory.configuration.to_json(),
    }


def learn(plan: SearchPlan, snapshots: Iterable[Any], origin: str) -> tuple[int, int]:
    """Have a plan know what is stored of an origin's trajectories.

    Parameters
    ----------
    snapshots:
        With `name`, `step`, `metrics` and `extra`, as :meth:`daskevo.repository.Repository.snapshots` returns them,
        oldest first: of several of a state the last counts, as an earlier one may have been found damaged. Those of
        others, or that say something else than what they are, are passed over.

    Returns
    -------
    tuple
        How many were taken in, and how many of the origin were not because they were made by other versions of Keras
        and the like: with these, a training from there would not be the same.
    """
    found = others = 0
    for stored in snapshots:
        match stored.extra:
            case {"trajectory": {"origin": str(whose), "key": str(key), "configuration": configuration}, "step": step}:
                if whose != origin:
                    continue
            case _:
                continue
        try:
            trajectory = Trajectory(origin, Configuration.from_json(configuration))
            if trajectory.key(step) != key:
                continue
            state = plan.locate(trajectory, step)
        except (CorruptRecord, InvalidInput):
            continue
        if changed_versions(stored.extra):
            others += 1
            continue
        found += 1
        plan.saved(state, str(stored.name))
        if stored.metrics:
            plan.measured(state, stored.metrics)
    return found, others


class Twin(NamedTuple):
    """Two snapshots of one state, as the list of snapshots has them: the later one is to be kept."""

    earlier: Any
    later: Any


def twins(snapshots: Iterable[Any], origin: str) -> list[Twin]:
    """Return the snapshots of an origin of whose states there is a later one: several processes have trained them.

    Parameters
    ----------
    snapshots:
        As :func:`learn` takes them, oldest first. Those that other versions of Keras and the like made are other
        states.
    """
    last: dict[str, Any] = {}
    found: dict[str, list[Any]] = {}
    for stored in snapshots:
        match stored.extra:
            case {"trajectory": {"origin": str(whose), "key": str(key)}, "step": int(step)} if whose == origin:
                state = json.dumps([key, step, stored.extra.get("versions")], sort_keys=True)
            case _:
                continue
        if state in last:
            found.setdefault(state, []).append(last[state])
        last[state] = stored
    return [Twin(earlier, last[state]) for state, several in found.items() for earlier in several]
