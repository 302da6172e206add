"""Where the time of an evaluation goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from daskevo_plugins.formatting import plain, say_count, say_seconds
from daskevo_workflows.reports import svg as d
from daskevo_workflows.reports.figures.chart import (
    WIDTH_IN,
    Drawing,
    legend_below,
    panels_of,
    suffix_of,
)
from daskevo_workflows.reports.series import (
    RunSeries,
    late,
    mean,
    phase_means,
)

PREPARE = "prepare"
PREPARED_S = 0.1
"""A process that is prepared already spends less than this on it."""

PHASE_INKS = {
    "query": (d.BLUE, "||"),
    "build": (d.SKY, ""),
    "inherit": (d.BLUE, ""),
    "compile": (d.SKY, "\\\\\\\\"),
    "first_step": (d.ORANGE, "////"),
    "training": (d.GREEN, ""),
    "scoring": (d.PURPLE, "\\\\\\\\"),
    "put": (d.VERMILION, "xxxx"),
}
"""Phase -> colour and hatch: told apart in grey too."""


@d.settings()
def phases(runs: Sequence[RunSeries]) -> Drawing | None:
    """Draw where the time of an evaluation goes: mean seconds per phase, from scratch and with an inherited prefix."""
    groups = [
        (f"{name}{suffix_of(run, runs)}", chosen)
        for run in runs
        for name, chosen in (
            ("from scratch", [e for e in run.finished if not e.transferred and e.seconds]),
            ("prefix inherited", [e for e in run.transferred if e.seconds]),
            # Of fewer than 8 evaluations a quarter is one or two.
            ("the last quarter", [e for e in late(run) if e.seconds and len(run.finished) >= 8]),
        )
        if chosen
    ]
    if not groups:
        return None
    # What a process does once falls on whatever it evaluates first, mostly from scratch: no cost of that arm.
    means = [without(PREPARE, phase_means(chosen)) for _, chosen in groups]
    # The order of phases over all evaluations: a group may lack some, and bars have to be stacked alike.
    names = list(without(PREPARE, phase_means([e for _, chosen in groups for e in chosen])))
    inks = [PHASE_INKS.get(phase, (d.FAINT, "++")) for phase in names]
    figure, (panel,) = panels_of(WIDTH_IN, 0.5 * len(groups) + 1.3)
    left = [0.0] * len(groups)
    for phase, (colour, hatch) in zip(names, inks, strict=True):
        widths = [row.get(phase, 0.0) for row in means]
        panel.barh(
            range(len(groups)),
            widths,
            left=left,
            height=0.62,
            color=colour,
            hatch=hatch,
            edgecolor=d.PAPER,
            lw=0.6,
            label=say_phase(phase),
        )
        left = [a + b for a, b in zip(left, widths, strict=True)]
    for i, total in enumerate(left):
        panel.text(total, i, f"  {say_seconds(total)}", va="center", fontsize=9)
    panel.set_yticks(range(len(groups)), [f"{name} ({len(chosen)})" for name, chosen in groups])
    # The first group on top.
    panel.invert_yaxis()
    panel.set_xlim(0, max(left) * 1.12 or 1.0)
    panel.grid(visible=False, axis="y")
    panel.set_xlabel("mean time per evaluation (s)")
    legend_below(figure, [panel])
    words = " ".join(
        f"{name}: " + ", ".join(f"{say_phase(phase)} {say_seconds(seconds)}" for phase, seconds in row.items()) + "."
        for (name, _), row in zip(groups, means, strict=True)
    )
    return Drawing(
        "phases",
        "Where the time of an evaluation goes",
        "Mean seconds per phase on the trainer; in brackets the number of evaluations. " + say_preparation(runs),
        words,
        figure,
        is_said=False,
    )


def say_preparation(runs: Sequence[RunSeries]) -> str:
    """Say what the bars leave out: the time to import Keras and load the data, once per process."""
    spent = [e.seconds.get(PREPARE, 0.0) for run in runs for e in run.finished]
    once = [seconds for seconds in spent if seconds >= PREPARED_S]
    took = f"on average {say_seconds(mean(once))}, {say_count(len(once), 'time')}" if once else "no time to speak of"
    return f"Left out: to import Keras and load the data, once per process, took {took}."


def without(name: str, seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the phases but one."""
    return {phase: spent for phase, spent in seconds.items() if phase != name}


def say_phase(phase: str) -> str:
    """Return a phase's name as people read it."""
    return plain(phase, 40).replace("_", " ")
