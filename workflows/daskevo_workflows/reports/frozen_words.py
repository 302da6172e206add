"""What was inherited and what of it was frozen, in words: the one need not be the other."""

from __future__ import annotations

from daskevo.types import JSON
from daskevo_plugins.formatting import say_share
from daskevo_workflows.reports.series import RunSeries


def say_frozen(run: RunSeries) -> str:
    """Say how many evaluations inherited, which share of vertices was frozen, and what the policy freezes."""
    match run.identity.get("policy"):
        case {"transfer": False}:
            return "nothing: this run is without transfer"
    counted = f"{len(run.transferred)} of {len(run.finished)} evaluations inherited a prefix"
    if not run.transferred:
        return counted
    rule = say_rule(run.identity.get("policy"))
    return f"{counted}; {say_share(run.mean_frozen_share)} of all vertices were frozen" + (rule and f" ({rule})")


def say_rule(policy: JSON) -> str:
    """Say what of an inherited prefix is frozen by a policy as it is recorded; nothing where that needs no words.

    Examples
    --------
    >>> say_rule({"transfer": True, "freeze": "steps:300"})
    'a layer is frozen once it has had 300 steps; until then what is inherited trains on'
    >>> say_rule({"transfer": True, "freeze": "prefix"})
    ''
    """
    match policy:
        case {"freeze": "none"}:
            return "this policy freezes nothing: what is inherited trains on"
        case {"freeze": str() as freeze} if freeze.startswith("steps:"):
            steps = freeze.removeprefix("steps:")
            return f"a layer is frozen once it has had {steps} steps; until then what is inherited trains on"
    return ""
