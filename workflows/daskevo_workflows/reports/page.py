"""Render the report of one or several runs as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from daskevo_plugins.dashboard.templates import render as filled
from daskevo_plugins.formatting import plain, sentence
from daskevo_workflows.reports import figures, tables
from daskevo_workflows.reports.arms import arms_of, each_an_arm
from daskevo_workflows.reports.comparison import comparison
from daskevo_workflows.reports.series import RunSeries, say_other_data


def render(runs: Sequence[RunSeries], *, version: str) -> str:
    """Return the report as HTML; a pure function, which gives the same text each time.

    The template escapes all text from users or exceptions. Only drawings are not escaped by it, but by matplotlib.

    Raises
    ------
    InvalidInput
        If there is no run, objectives differ (they can't share an axis), or there are more than six arms.
    """
    # Of two runs somebody wants to see both, also if they are of one arm.
    arms = each_an_arm(runs) if len(runs) <= 2 else arms_of(runs)
    page = filled(
        "page.html.j2",
        "daskevo_workflows.reports",
        title=_title(runs),
        subtitle=_subtitle(runs),
        version=version,
        # With many runs each has a table row only; its details are in its own report.
        runs=[_run_parts(run) for run in runs] if len(runs) <= 2 else [],
        many=tables.run_rows(arms) if len(runs) > 2 else None,
        comparison=comparison(arms),
        last_arm=plain(arms[1].label, 60) if len(arms) == 2 else "",
        figures=figures.all_figures(arms),
        facts=tables.facts(runs) if len(runs) <= 2 else tables.facts([arm.typical for arm in arms]),
    )
    return f"{page}\n"


def _run_parts(run: RunSeries) -> dict[str, Any]:
    return {
        "name": plain(run.label, 60),
        "cards": tables.cards(run),
        "notice": _notice(run),
        "front": tables.front_models(run),
        "more_on_front": max(0, len(run.front) - tables.FRONT_SHOWN),
        "best": tables.best_models(run),
        "retired": tables.RETIRED.strip() if run.retired else "",
        "summary": tables.ReportTable(("", ""), tuple(tables.transfer_summary(run))),
        "transfers": tables.transfers(run),
        "failures": tables.failures(run),
        "rejected": run.rejected,
        "happenings": tables.happenings(run),
    }


def _notice(run: RunSeries) -> str:
    if not run.evaluations:
        return "No evaluation has ended yet: there is nothing to draw."
    if not run.finished:
        return "No evaluation finished: the reasons are below."
    if not run.scored:
        return "No evaluation has a quality: the metric was never a finite number."
    return sentence(say_other_data(run.happenings))


def _title(runs: Sequence[RunSeries]) -> str:
    problem = plain(runs[0].facts.get("problem", runs[0].label), 80)
    if len(runs) == 2:
        return f"{problem}: {plain(runs[0].label, 60)} and {plain(runs[1].label, 60)}"
    if len(runs) > 2:
        return f"{problem}: {len(runs)} runs"
    label = plain(runs[0].label, 60)
    # A run is often named after its problem: don't say it twice.
    return label if label.startswith(problem) else f"{problem}: {label}"


def _subtitle(runs: Sequence[RunSeries]) -> str:
    if len(runs) > 2:
        return (
            "Runs that differ by their seed only are drawn as their median, with the range from the least to the most."
        )
    return " · ".join(plain(f"{run.run_id}{', ' + run.state if run.state else ''}", 200) for run in runs)
