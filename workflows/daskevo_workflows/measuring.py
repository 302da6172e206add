"""What a run's record says for a forecast."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from daskevo.errors import InvalidInput
from daskevo.runs import Event, RunView, Session
from daskevo.search import Report
from daskevo.types import JSON
from daskevo_workflows.forecasting import Measured, Sample

KEEP_BEST = 5
"""Of the best that a search keeps, unless it is told another number."""

STORAGE = "storage"


def measure(folder: Path, first: int | None = None) -> Measured:
    """Read what a run has measured.

    Parameters
    ----------
    folder:
        Of a run that goes on, was stopped, or has ended.
    first:
        Only so many of its finished evaluations, as if it had been stopped then; None: all.

    Raises
    ------
    RunFolderUnusable, CorruptRecord
        If its record can't be read.
    InvalidInput
        If it is no search's.
    """
    with RunView(folder) as view:
        identity, sessions, times = view.info.identity, view.sessions(), view.report_times()
        reports = [report for report in view.reports() if report.status == "finished"]
        storage = view.events(STORAGE)
    strategy = identity.get("strategy")
    if isinstance(strategy, Mapping) and strategy.get("name") == "a study":
        raise InvalidInput(
            f"{folder} holds a study, whose steps are known before it is trained: Study.forecast of "
            "daskevo_workflows.tune foretells them"
        )
    timed = [report for report in reports if report.started is not None and report.ended is not None][:first]
    until = max((times.get(report.number, 0.0) for report in timed), default=0.0)
    lasts = [event for event in storage if first is None or event.time <= until]
    workers = _by_worker(timed)
    firsts = {group[0].number for group in workers.values()}
    return Measured(
        samples=[
            Sample(_seconds(report), report.number in firsts, report.own_bytes, report.full_bytes) for report in timed
        ],
        trainers=max(1, len(workers)),
        start_s=_start_s(sessions, timed),
        gap_s=_gap_s(workers, sessions),
        kept=_kept(strategy),
        living_share=_share(lasts[-1:] if lasts else ()),
    )


def _seconds(report: Report) -> float:
    assert report.ended is not None
    assert report.started is not None
    return max(0.0, report.ended - report.started)


def _by_worker(reports: Sequence[Report]) -> dict[str, list[Report]]:
    """Return the evaluations of each trainer, in their order."""
    found: dict[str, list[Report]] = defaultdict(list)
    for report in sorted(reports, key=lambda report: report.started or 0.0):
        found[str(report.worker)].append(report)
    return found


def _gap_s(workers: Mapping[str, Sequence[Report]], sessions: Sequence[Session]) -> float:
    """Return the mean time between two evaluations of a trainer within a session; the clock is the trainer's own."""
    gaps = []
    for group in workers.values():
        for before, after in pairwise(group):
            assert before.ended is not None
            assert after.started is not None
            if not any(before.ended < session.opened <= after.started for session in sessions):
                gaps.append(max(0.0, after.started - before.ended))
    return statistics.fmean(gaps) if gaps else 0.0


def _start_s(sessions: Sequence[Session], reports: Sequence[Report]) -> float:
    if not sessions or not reports:
        return 0.0
    return max(0.0, min(report.started or 0.0 for report in reports) - sessions[0].opened)


def _kept(strategy: JSON) -> int | None:
    """Return how many models a search keeps alive; None: all."""
    settings = strategy.get("settings") if isinstance(strategy, Mapping) else None
    population = settings.get("population") if isinstance(settings, Mapping) else None
    return population + KEEP_BEST if type(population) is int else None


def _share(samples: Sequence[Event]) -> float | None:
    for sample in samples:
        facts = sample.facts if isinstance(sample.facts, Mapping) else {}
        stored, full = facts.get("stored_bytes"), facts.get("full_copy_bytes")
        if isinstance(stored, (int, float)) and isinstance(full, (int, float)) and full > 0:
            return float(stored) / float(full)
    return None
