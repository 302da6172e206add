"""Read the measurements for a forecast from a run's record."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from daskevo.errors import InvalidInput
from daskevo.runs import Event, RunView, SessionRow
from daskevo.search import Report
from daskevo.types import JSON
from daskevo_workflows.execution.event_kinds import RECYCLED, SESSION, STORAGE
from daskevo_workflows.execution.machine_load import LOAD, load_of
from daskevo_workflows.results.forecast import Measured, Sample

KEEP_BEST = 5
"""Number of best models that a search keeps by default, for records that don't say it."""


def measure(folder: Path, first: int | None = None) -> Measured:
    """Read the measurements of a run.

    Parameters
    ----------
    folder:
        Folder of a run that is running, stopped or finished.
    first:
        Use only the first evaluations, as if the run had stopped then; None: all.

    Raises
    ------
    RunFolderUnusable, CorruptRecord
        If its record can't be read.
    InvalidInput
        If it is a study, or a search in parts: how many of these go on, and how far, follows from their qualities.
    """
    with RunView(folder) as view:
        identity, sessions, times = view.info.identity, view.sessions(), view.report_times()
        reports = [report for report in view.reports() if report.status == "finished"]
        storage, recycled, begun = view.events(STORAGE), view.events(RECYCLED), view.events(SESSION)
        loads = view.events(LOAD)
    strategy = identity.get("strategy")
    if isinstance(strategy, Mapping) and strategy.get("name") == "a study":
        raise InvalidInput(
            f"{folder} holds a study, whose steps are known before it is trained: Study.forecast of "
            "daskevo_workflows.tune foretells them"
        )
    if "unit" in identity:
        raise InvalidInput(
            f"{folder} holds a search that trains candidates in parts of different lengths: how many of them are "
            "trained how far follows from their qualities, so the first ones foretell neither seconds nor bytes"
        )
    timed = [report for report in reports if report.started is not None and report.ended is not None][:first]
    until = max((times.get(report.number, 0.0) for report in timed), default=0.0)
    # With `first`, only what was known then: the estimate is compared with the run's real end.
    lasts = [event for event in storage if first is None or event.time <= until]
    workers = _by_worker(timed)
    firsts, gaps, restarts = _between(workers, sessions, recycled)
    return Measured(
        samples=[
            Sample(_seconds(report), report.number in firsts, report.own_bytes, report.full_bytes) for report in timed
        ],
        trainers=max(1, len(workers)),
        start_s=_start_s(sessions, timed),
        gap_s=statistics.fmean(gaps) if gaps else 0.0,
        kept=_kept(strategy, begun),
        living_share=_share(lasts[-1:] if lasts else ()),
        recycle_after=_recycle_after(begun),
        restart_s=statistics.fmean(restarts) if restarts else 0.0,
        load=load_of([event.facts for event in loads if event.time <= until or first is None]),
    )


def _seconds(report: Report) -> float:
    assert report.ended is not None
    assert report.started is not None
    return max(0.0, report.ended - report.started)


def _by_worker(reports: Sequence[Report]) -> dict[str, list[Report]]:
    """Return the evaluations of each trainer in order."""
    found: dict[str, list[Report]] = defaultdict(list)
    for report in sorted(reports, key=lambda report: report.started or 0.0):
        found[str(report.worker)].append(report)
    return found


def _between(
    workers: Mapping[str, Sequence[Report]], sessions: Sequence[SessionRow], recycled: Sequence[Event]
) -> tuple[set[int], list[float], list[float]]:
    """Return the numbers of each process' first evaluations, and mean gaps with and without a restart in between.

    Each session has new processes; evaluations are timed by their trainer's clock.
    """
    begun = [session.opened for session in sessions]
    firsts, gaps, restarts = {group[0].number for group in workers.values()}, [], []
    for name, group in workers.items():
        ends = [event.time for event in recycled if _fact(event, "worker") == name]
        for before, after in pairwise(group):
            assert before.ended is not None
            assert after.started is not None
            seconds = max(0.0, after.started - before.ended)
            if any(before.ended < time <= after.started for time in begun):
                firsts.add(after.number)
            elif any(before.ended <= time <= after.started for time in ends):
                firsts.add(after.number)
                restarts.append(seconds)
            else:
                gaps.append(seconds)
    return firsts, gaps, restarts


def _start_s(sessions: Sequence[SessionRow], reports: Sequence[Report]) -> float:
    if not sessions or not reports:
        return 0.0
    return max(0.0, min(report.started or 0.0 for report in reports) - sessions[0].opened)


def _recycle_after(begun: Sequence[Event]) -> int | None:
    """Return the number of evaluations after which the last session restarts a trainer; None: never or not known."""
    return _whole(begun, "recycle_after")


def _whole(begun: Sequence[Event], name: str) -> int | None:
    """Return a number that the last session was begun with (each may have another one); None: not known."""
    value = _fact(begun[-1], name) if begun else None
    return value if type(value) is int and value > 0 else None


def _kept(strategy: JSON, begun: Sequence[Event]) -> int | None:
    """Return the number of models that a search keeps; None: all."""
    settings = strategy.get("settings") if isinstance(strategy, Mapping) else None
    population = settings.get("population") if isinstance(settings, Mapping) else None
    return population + (_whole(begun, "keep_best") or KEEP_BEST) if type(population) is int else None


def _share(samples: Sequence[Event]) -> float | None:
    for sample in samples:
        stored, full = _fact(sample, "stored_bytes"), _fact(sample, "full_copy_bytes")
        if isinstance(stored, (int, float)) and isinstance(full, (int, float)) and full > 0:
            return float(stored) / float(full)
    return None


def _fact(event: Event, name: str) -> JSON:
    return event.facts.get(name) if isinstance(event.facts, Mapping) else None
