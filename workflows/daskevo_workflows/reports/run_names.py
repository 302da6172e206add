"""Names of runs and of arms: the same in figures, on pages and in frames. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from daskevo_plugins.formatting import plain
from daskevo_workflows.reports.differences import by_difference
from daskevo_workflows.reports.run_reader import CONTROL
from daskevo_workflows.reports.series import RunSeries

TREATED = "with transfer"
"""How an arm that inherits is called beside a control arm, where there are no others."""


def run_names(runs: Sequence[RunSeries]) -> list[str]:
    """Return a name for each run that tells it from the others: its folder's, with its id where two have the same."""
    names = [run.label for run in runs]
    return names if len(set(names)) == len(names) else numbered([f"{run.label} {run.run_id[:8]}" for run in runs])


def policy_names(firsts: Sequence[RunSeries]) -> list[str]:
    """Return words for what each arm's first run does, as short as they can be and still differ."""
    arms = [plain(arm, 60) for arm in _short([run.arm or run.label for run in firsts])]
    rest = [
        json.dumps(
            {name: part for name, part in run.identity.items() if name not in ("seed", "policy")}, sort_keys=True
        )
        for run in firsts
    ]
    if len(set(rest)) > 1:
        named = [run.facts.get("strategy", "").split(",")[0].removeprefix("name = ") for run in firsts]
        strategies = [plain(name, 40) for name in named]
        if len(set(strategies)) > 1:
            arms = [f"{arm}, {strategy}" for arm, strategy in zip(arms, strategies, strict=True)]
    return numbered(by_difference(arms, firsts))


def numbered(labels: Sequence[str]) -> list[str]:
    """Return labels that are all different: each that has been there before gets a number.

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
    """Return the same words, or `with transfer` beside `no transfer` where there are these two and no others."""
    if set(arms) != {CONTROL} and CONTROL in arms and len(set(arms)) == 2:
        return [arm if arm == CONTROL else TREATED for arm in arms]
    return list(arms)
