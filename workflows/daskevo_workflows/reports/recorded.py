"""All that results, reports and frames need of a run's record, read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daskevo.runs import Event, RunInfo, RunView, SessionRow, UnitRow
from daskevo.search import Report, Request


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a run's record holds.

    Parameters
    ----------
    times:
        When each report came, by number, in seconds since the epoch.
    runtime_s:
        As `RunView.runtime_s`.
    """

    info: RunInfo
    sessions: Sequence[SessionRow]
    requests: Sequence[Request]
    reports: Sequence[Report]
    times: Mapping[int, float]
    units: Sequence[UnitRow]
    events: Sequence[Event]
    runtime_s: float

    @classmethod
    def of(cls, view: RunView) -> Recorded:
        """Read a record, within `RunView.still`; raises CorruptRecord if a row is not what was written."""
        return cls(
            view.info,
            view.sessions(),
            view.requests(),
            view.reports(),
            view.report_times(),
            view.units(),
            view.events(),
            view.runtime_s,
        )

    def of_kind(self, kind: str) -> list[Event]:
        """Return the events of a kind, oldest first."""
        return [event for event in self.events if event.kind == kind]
