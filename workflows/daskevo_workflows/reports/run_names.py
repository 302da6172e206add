"""Names of runs and arms, the same in figures, pages and tables. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from daskevo_plugins.formatting import plain
from daskevo_workflows.reports.differences import by_difference
from daskevo_workflows.reports.run_reader import CONTROL
from daskevo_workflows.reports.series import RunSeries

TREATED = "with transfer"
"""Name of an arm that inherits, next to a single control arm."""


def run_names(runs: Sequence[RunSeries]) -> list[str]:
    """Return a unique name for each run: its folder's, with its id if several have the same."""
    names = [run.label for run in runs]
    return names if len(set(names)) == len(names) else numbered([f"{run.label} {run.run_id[:8]}" for run in runs])


def policy_names(firsts: Sequence[RunSeries]) -> list[str]:
    """Return a short, unique description of what each arm does, from its first run."""
    arms = [plain(arm, 60) for arm in _short([run.arm or run.label for run in firsts])]
    rest = [
        json.dumps(
            {name: part for name, part in run.identity.items() if name not in ("seed", "policy")}, sort_keys=True
        )
        for run in firsts
    ]
    # Strategies are named only where something else than seed and policy differs: mostly nothing does.
    if len(set(rest)) > 1:
        named = [run.facts.get("strategy", "").split(",")[0].removeprefix("name = ") for run in firsts]
        strategies = [plain(name, 40) for name in named]
        if len(set(strategies)) > 1:
            arms = [f"{arm}, {strategy}" for arm, strategy in zip(arms, strategies, strict=True)]
    return numbered(by_difference(arms, firsts))


def numbered(labels: Sequence[str]) -> list[str]:
    """Return unique labels: repeated ones get a number.

    Examples
    --------
    >>> numbered(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    return [
        label if label not in labels[:place] else f"{label} ({labels[:place].count(label) + 1})"
        for place, label in enumerate(labels)
    ]


def _short(arms: Sequence[str]) -> list[str]:
    """Return the labels, or `with transfer` and `no transfer` if there are exactly these two."""
    if set(arms) != {CONTROL} and CONTROL in arms and len(set(arms)) == 2:
        return [arm if arm == CONTROL else TREATED for arm in arms]
    return list(arms)
