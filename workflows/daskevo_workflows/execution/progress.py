"""The progress of a run, as shown in a progress line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from daskevo.runs import RunState
from daskevo.search import Report


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run at one time.

    Parameters
    ----------
    finished, evaluations:
        Finished evaluations, and how many are wanted.
    failures, duplicates:
        Numbers of both; they are not part of `finished`.
    best_quality:
        In the objective's own direction; None before the first finished evaluation.
    mean_frozen_share:
        Mean over the finished evaluations, 0 to 1.
    stored_bytes, full_copy_bytes:
        Bytes of the published models' tensors, and of full copies; None before the first sample.
    left_s:
        Estimated remaining seconds, from recent evaluations and present trainers; None = no estimate.
    rejected:
        Candidates rejected before training; they are not failures.
    first_failure:
        The first failed evaluation and its failure; empty if there is none.
    """

    finished: int
    evaluations: int
    failures: int
    duplicates: int
    best_quality: float | None
    mean_frozen_share: float
    stored_bytes: int | None
    full_copy_bytes: int | None
    left_s: float | None
    rejected: int = 0
    first_failure: str = ""

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers whose change makes a new progress line worthwhile."""
        return self.finished, self.failures, self.rejected

    @property
    def is_over(self) -> bool:
        return self.finished >= self.evaluations

    @classmethod
    def of(cls, run_state: RunState, storage: Mapping[str, int], slots: int) -> Progress:
        """Make it from a run's state, the last sample of the repository and the number of slots."""
        best = run_state.best(1)
        seconds = run_state.recent_seconds()
        left = max(0, run_state.evaluations - run_state.counts["finished"])
        return cls(
            finished=run_state.counts["finished"],
            evaluations=run_state.evaluations,
            failures=run_state.failures,
            duplicates=run_state.counts["duplicate"],
            best_quality=best[0].quality if best else None,
            mean_frozen_share=run_state.mean_frozen_share,
            stored_bytes=storage.get("stored_bytes"),
            full_copy_bytes=storage.get("full_copy_bytes"),
            left_s=None if seconds is None or not slots else left * seconds / slots,
            rejected=run_state.rejected,
            first_failure=say_failure("evaluation", run_state.first_failure),
        )


def say_failure(what: str, report: Report | None) -> str:
    """Return a sentence about a failed report; empty if there is none."""
    return (
        "" if report is None or report.failure is None else f"{what} {report.number} failed: {report.failure.message}"
    )
