"""Time to a target quality, by target and arm: Figure 7 of paper 000."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from daskevo_plugins.formatting import plain, say_qualities, say_seconds, time_unit
from daskevo_workflows.reports import svg as d
from daskevo_workflows.reports.arms import Arm, Spread, say_range, targets_of, times_to
from daskevo_workflows.reports.figures.chart import (
    HATCHES,
    RUN_COLOURS,
    Drawing,
    Sheet,
    legend_bar,
    legend_below,
    panels_of,
    say_above,
)

NOT_IN_MOST = "not in more than half of the runs"
"""What a star says where an arm has several runs: their median is that they don't get there."""


def time_to_target(arms: Sequence[Arm], sheet: Sheet, targets: Sequence[float] | None = None) -> Drawing | None:
    """Draw the running time until some quality was reached, a group of bars per quality; a star: never reached.

    Of several runs in an arm the bar is the median, and the line from the least to the most; a star stands where not
    more than half of them got there, so that there is no median. Beside it, and over a bar: how many did, if not all.

    Parameters
    ----------
    targets:
        Qualities; some round ones if None.
    """
    goals = list(targets_of(arms) if targets is None else targets)
    hits = {(arm.label, goal): times_to(arm, goal) for arm in arms for goal in goals}
    reached = [hit for hit in hits.values() if hit is not None and math.isfinite(hit.middle)]
    if not reached:
        return None
    scale, unit = time_unit(max(hit.high for hit in reached))
    objective = arms[0].runs[0].objective
    figure, (panel,) = panels_of(sheet.width_in, 0.3 * sheet.width_in + 1.2)
    # 0.2 between the groups of two targets.
    width = 0.8 / len(arms)
    for place, (arm, (colour, _, _), hatch) in enumerate(zip(arms, RUN_COLOURS, HATCHES, strict=False)):
        for i, goal in enumerate(goals):
            at = i + (place - (len(arms) - 1) / 2) * width
            _draw_bar(panel, at, width, hits[arm.label, goal], scale, colour, hatch, font=sheet.font)
        legend_bar(panel, arm.label, colour, hatch)
    if any(hit is None or not math.isfinite(hit.middle) for hit in hits.values()):
        panel.plot([], [], "*", color=d.INK, ms=6, ls="none", label=_star(arms))
    said = say_qualities(goals)
    panel.set_xticks(range(len(goals)), said)
    panel.set_xlim(-0.6, len(goals) - 0.4)
    panel.set_ylim(0, 1.15 * max(hit.high for hit in reached) / scale)
    panel.grid(visible=False, axis="x")
    sign = "≥" if objective.direction == "max" else "≤"
    panel.set_xlabel(f"{plain(objective.metric, 60)} reached ({sign})")
    panel.set_ylabel(f"running time ({unit})")
    legend_below(figure, [panel])
    return Drawing(
        "time-to-target",
        "Time to a quality",
        f"Running time until an evaluation had so good a quality; a star: {_star(arms)}"
        f"{'' if _one_each(arms) else ' (beside it: in how many)'}{say_range(arms, 'bars')}.",
        " ".join(_words(arm, [hits[arm.label, goal] for goal in goals], said) for arm in arms),
        figure,
    )


def _one_each(arms: Sequence[Arm]) -> bool:
    return all(len(arm.runs) == 1 for arm in arms)


def _star(arms: Sequence[Arm]) -> str:
    return "never" if _one_each(arms) else NOT_IN_MOST


def _draw_bar(
    panel: Any, at: float, width: float, hit: Spread | None, scale: float, colour: str, hatch: str, *, font: float
) -> None:
    if hit is None or not math.isfinite(hit.middle):
        # On the axis, where half of it would be cut off.
        panel.plot([at], [0], "*", color=colour, ms=0.8 * font, clip_on=False, zorder=5)
        if hit is not None:
            _say_how_many(panel, at, 0.0, hit, font, above=0.5 * font)
        return
    panel.bar([at], [hit.middle / scale], width * 0.94, color=colour, hatch=hatch, edgecolor=d.PAPER, lw=0.5)
    if hit.runs > 1:
        panel.vlines(at, hit.low / scale, hit.high / scale, color=d.INK, lw=1.0)
    if hit.reached < hit.runs:
        _say_how_many(panel, at, hit.high / scale, hit, font, above=2.0)


def _say_how_many(panel: Any, at: float, height: float, hit: Spread, font: float, *, above: float) -> None:
    say_above(panel, f"{hit.reached}/{hit.runs}", at, height, 0.75 * font, above)


def _words(arm: Arm, hits: Sequence[Spread | None], goals: Sequence[str]) -> str:
    said = []
    for hit, goal in zip(hits, goals, strict=True):
        if hit is None:
            said.append(f"{goal} never")
        elif not math.isfinite(hit.middle):
            said.append(f"{goal} in {hit.reached} of {hit.runs} runs only")
        else:
            share = f" (in {hit.reached} of {hit.runs} runs)" if hit.reached < hit.runs else ""
            said.append(f"{goal} {say_seconds(hit.middle)}{share}")
    return f"{arm.label}: {', '.join(said)}."
