"""Describe what was inherited and how much of it was frozen; the two may differ."""

from __future__ import annotations

from daskevo.freeze_policy import FreezePolicy
from daskevo.types import JSON
from daskevo_plugins.formatting import say_share
from daskevo_workflows.reports.series import RunSeries


def say_frozen(run: RunSeries) -> str:
    """Return how many evaluations inherited, the share of frozen vertices, and the policy's rule."""
    match run.identity.get("policy"):
        case {"transfer": False}:
            return "nothing: this run is without transfer"
    counted = f"{len(run.transferred)} of {len(run.finished)} evaluations inherited a prefix"
    if not run.transferred:
        return counted
    rule = say_rule(run.identity.get("policy"))
    return f"{counted}; {say_share(run.mean_frozen_share)} of all vertices were frozen" + (rule and f" ({rule})")


def say_rule(policy: JSON) -> str:
    """Return what a recorded policy freezes of an inherited prefix, as a sentence; empty if that needs no explanation.

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
        case {"freeze": rule} if (steps := FreezePolicy.recorded(rule).steps) is not None:
            return f"a layer is frozen once it has had {steps} steps; until then what is inherited trains on"
    return ""
