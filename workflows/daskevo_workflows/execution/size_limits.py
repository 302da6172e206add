"""Limits on model size, checked on a model's graph before training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from daskevo.errors import InvalidInput
from daskevo.graph import ArchitectureGraph
from daskevo_workflows.evaluation.offered_metrics import OF_GRAPHS, of_graph

SizeLimits = Mapping[str, tuple[float | None, float | None]]
"""Metric -> (minimum, maximum); None means no limit."""


def check_size_limits(limits: Any) -> dict[str, tuple[float | None, float | None]]:
    """Check limits and return them.

    Raises
    ------
    InvalidInput
        If a metric can't be computed from a graph, or its limits are not two numbers with the smaller one first.
    """
    if not isinstance(limits, Mapping | None):
        raise InvalidInput(f"limits={limits!r:.80}: give a dict, such as {{'parameters': (None, 1e6)}}")
    found: dict[str, tuple[float | None, float | None]] = {}
    for name, bounds in (limits or {}).items():
        if name not in OF_GRAPHS:
            raise InvalidInput(f"there is no limit of {name!r:.40} before training; there are {', '.join(OF_GRAPHS)}")
        match bounds:
            case [least, most] if all(bound is None or _is_number(bound) for bound in (least, most)):
                if least is not None and most is not None and least > most:
                    raise InvalidInput(
                        f"limits[{name!r}] is {bounds!r}: nothing is at least {least} and at most {most}"
                    )
                found[name] = (least, most)
            case _:
                raise InvalidInput(
                    f"limits[{name!r}] is {bounds!r:.80}: give the least and the most, (None, 1e6) for no more than a "
                    "million"
                )
    return found


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def outside(limits: SizeLimits, graph: ArchitectureGraph) -> str | None:
    """Return a sentence about the limit that a model violates; None if it violates none."""
    for name, (least, most) in limits.items():
        value = of_graph(name, graph)
        if least is not None and value < least:
            return f"its {name} would be {value:,}, and the search's limit is at least {least:,}"
        if most is not None and value > most:
            return f"its {name} would be {value:,}, and the search's limit is at most {most:,}"
    return None
