"""The progress line of a search or a study: one updating line on a terminal, plain lines every so often elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from daskevo_plugins.formatting import plain, say_bytes, say_quality, say_seconds, say_share, say_times

if TYPE_CHECKING:
    from daskevo_workflows.execution.progress import Progress
    from daskevo_workflows.studies.strategy_driver import StudyProgress

PLAIN_EVERY_S = 15.0
"""Seconds between lines where there is no terminal: a log of a thousand evaluations stays readable."""

CLEAR = "\r\x1b[K"
"""Control sequence after which a terminal overwrites the line."""

WORDS = 500
"""Maximum length of the reason for a failed evaluation, in characters."""


def say_study(progress: StudyProgress, metric: str) -> str:
    """Return the line of a study: answers, best quality, steps trained against steps asked for, what is under way."""
    figures = progress.figures
    wanted = "" if progress.evaluations is None else f" of {progress.evaluations}"
    parts = [
        f"{progress.finished}{wanted} evaluated",
        f"best {plain(metric, 30)} {say_quality(progress.best_quality)}",
        f"{figures.trained_steps:,} steps trained for {figures.total_steps:,} ({say_times(figures.saving)})",
        f"{progress.pending} waiting",
    ]
    if progress.failures:
        parts.append(f"{progress.failures} failed")
    return " · ".join(parts)


def say_progress(progress: Progress, metric: str) -> str:
    """Return the line: evaluations, best quality, share of frozen vertices, bytes against full copies, time left."""
    width = len(str(progress.evaluations))
    parts = [
        f"{progress.finished:>{width}}/{progress.evaluations} evaluations",
        f"best {plain(metric, 30)} {say_quality(progress.best_quality)}",
        f"{say_share(progress.mean_frozen_share)} frozen",
    ]
    if progress.stored_bytes is not None and progress.full_copy_bytes is not None:
        saved = progress.full_copy_bytes / progress.stored_bytes if progress.stored_bytes else None
        parts.append(
            f"{say_bytes(progress.stored_bytes)} stored, full copies {say_bytes(progress.full_copy_bytes)} "
            f"({say_times(saved)})"
        )
    if progress.failures:
        parts.append(f"{progress.failures} failed")
    if progress.rejected:
        parts.append(f"{progress.rejected} rejected")
    if progress.finished < progress.evaluations:
        parts.append(f"{say_seconds(progress.left_s)} left" if progress.left_s is not None else "time left unknown yet")
    return " · ".join(parts)


class ProgressLine:
    """Shows progress on a stream.

    click's and rich's progress bars say nothing on the way where there is no terminal, as in a job's log.

    Parameters
    ----------
    metric:
        Name of the quality.
    stream:
        Where to; stderr, so that stdout stays for results.
    clock:
        Seconds, for the pace of plain lines.
    say:
        Makes the line of a progress and the metric's name: :func:`say_progress` or :func:`say_study`.
    """

    def __init__(
        self,
        metric: str,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        say: Callable[[Any, str], str] = say_progress,
    ) -> None:
        self._metric = metric
        self._say = say
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._clock = clock
        self._shown_at: float | None = None
        self._shown = ""
        self._shown_counts: tuple[int, ...] | None = None
        self._last: Progress | StudyProgress | None = None
        self._has_said_failure = False

    def __call__(self, progress: Progress | StudyProgress) -> None:
        self._last = progress
        if progress.first_failure and not self._has_said_failure:
            # At once: who made a mistake in the problem wants to know before all evaluations have failed of it.
            self._has_said_failure = True
            self._write(f"{CLEAR if self._terminal else ''}{plain(progress.first_failure, WORDS)}\n")
        if self._terminal:
            line = self._say(progress, self._metric)
            # One column less: some terminals break a line that fills them, and \r goes back to the last part only.
            width = shutil.get_terminal_size().columns - 1
            self._write(f"{CLEAR}{line if len(line) <= width else line[: width - 1] + '…'}")
        elif not progress.is_over and self._due():
            self._write_line(progress)

    def _due(self) -> bool:
        return self._shown_at is None or self._clock() - self._shown_at >= PLAIN_EVERY_S

    def _write_line(self, progress: Progress | StudyProgress) -> None:
        line = self._say(progress, self._metric)
        # A log doesn't get the same line twice where nothing has happened for a while.
        if line != self._shown:
            self._write(line + "\n")
        self._shown, self._shown_at = line, self._clock()
        self._shown_counts = progress.counts

    def close(self) -> None:
        """Leave the last line standing.

        Where there is no terminal it is written now: what is stored is known only when the search has ended, and the
        line would stand there twice.
        """
        last, self._last = self._last, None
        if last is None:
            return
        if self._terminal:
            self._write("\n")
        elif self._shown_counts != last.counts:
            self._write_line(last)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except UnicodeEncodeError:
            # A terminal without UTF-8 shows the line in ASCII rather than ending the search.
            self._stream.write(text.encode("ascii", "replace").decode())
            self._stream.flush()
