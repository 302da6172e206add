"""From a run's reports to what its evaluations cost: phases by parameters and frozen share, fitted by least squares."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.runs import RunView
from daskevo.search import Report
from daskevo_workflows.simulate.costs import MeasuredCosts, Phase

FEWEST = 8
"""Evaluations that a fit needs: of fewer the medians are taken."""
MOST_SAVING = 0.95
FRESH_S = 0.01
"""A trainer that took less to prepare had done so before: to import Keras alone takes longer."""


def settled(reports: Sequence[Report]) -> list[Report]:
    """Return the finished evaluations without the first of each trainer, which also loads libraries and data.

    Raises
    ------
    InvalidInput
        If there is none.
    """
    seen: set[str | None] = set()
    found = []
    for report in sorted(reports, key=lambda report: report.started or 0.0):
        if report.status == "finished":
            if report.worker in seen:
                found.append(report)
            seen.add(report.worker)
    if not found:
        raise InvalidInput("a run with fewer than two finished evaluations on a trainer says nothing of their costs")
    return found


def prepared_s(reports: Sequence[Report]) -> float:
    """Return the median of what the first evaluation of each trainer took to import Keras and prepare the data.

    Raises
    ------
    InvalidInput
        As :func:`settled`.
    """
    later = settled(reports)
    first = [report for report in reports if report.status == "finished" and report not in later]
    return statistics.median(report.seconds.get("prepare", 0.0) for report in first)


def phase(reports: Sequence[Report], name: str) -> Phase:
    """Fit a phase of evaluations, and how much they vary around it."""
    seconds = np.array([report.seconds.get(name, 0.0) for report in reports])
    parameters = np.array([report.parameters for report in reports], float)
    frozen = np.array([report.frozen_share for report in reports])
    if not seconds.any():
        return Phase(0.0)
    fixed, slope, saving = float(np.median(seconds)), 0.0, 0.0
    if len(reports) >= FEWEST:
        columns: list[Any] = [np.ones(len(reports))]
        names = ["fixed"]
        for word, column in (("slope", parameters), ("saving", frozen)):
            if np.ptp(column) > 0:
                columns.append(column / np.abs(column).max())
                names.append(word)
        while True:
            found = np.linalg.lstsq(np.stack(columns, 1), seconds, rcond=None)[0]
            fit = dict(zip(names, map(float, found), strict=True))
            # A model that costs less the larger it is, or more the more is frozen, is chance: fitted without.
            wrong = [word for word in names[1:] if (fit[word] < 0) != (word == "saving")]
            if not wrong or fit[wrong[0]] == 0:
                break
            place = names.index(wrong[0])
            del names[place], columns[place]
        if fit["fixed"] > 0:
            fixed = fit["fixed"]
            slope = fit.get("slope", 0.0) / max(1.0, parameters.max())
            mean = fixed + slope * parameters.mean()
            saving = min(MOST_SAVING, -fit.get("saving", 0.0) / max(frozen.max(), 1e-9) / mean)
    model = Phase(fixed, slope, max(0.0, saving))
    told = [model.seconds(report.parameters, report.frozen_share) for report in reports]
    ratios = [np.log(max(own, 1e-9) / max(said, 1e-9)) for own, said in zip(seconds, told, strict=True)]
    spread = statistics.pstdev(ratios) if len(ratios) > 1 else 0.0
    # The fit is of means: a draw around it must not change them.
    scale = float(seconds.sum() / max(sum(told), 1e-9))
    return Phase(fixed * scale, slope * scale, model.saving, min(spread, 1.0))


def reports_of(run: str | Path) -> list[Report]:
    """Return the reports of a run's folder."""
    with RunView(run) as view:
        return view.reports()


def fitted(costs: MeasuredCosts, reports: Sequence[Report], source: str) -> MeasuredCosts:
    """Return costs with the evaluations of a run, and all else as it was; what trainers prepare, too, if they had
    prepared before it.

    Parameters
    ----------
    source:
        Says which run.
    """
    found = settled(reports)
    changes: dict[str, Any] = {name: phase(found, name) for name in ("build", "first_step", "training", "scoring")}
    # Trainers of an earlier run, or of another search, say nothing of what they prepare once.
    if (prepared := prepared_s(reports)) >= FRESH_S:
        changes["prepare_s"] = prepared
    changes["compile_s"] = statistics.median(report.seconds.get("compile", 0.0) for report in found)
    changes["inherit_s"] = statistics.median(report.seconds.get("inherit", 0.0) for report in found)
    put = statistics.median(report.seconds.get("put", 0.0) for report in found)
    waited = 4 * costs.latency_s + costs.coordinator_s + costs.put_message_s + costs.flush_s
    changes["put_s"] = max(0.0, put - waited)
    changes["steps"] = int(statistics.median(report.step for report in found))
    return costs.but(source, **changes)
