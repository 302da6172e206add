"""The progress line: what it says, and how it is shown on a terminal and in a log."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from daskevo_workflows.cli.progress import PLAIN_EVERY_S, ProgressLine, say_progress
from daskevo_workflows.execution.progress import Progress

HALF = Progress(
    finished=5,
    evaluations=10,
    failures=1,
    duplicates=0,
    best_quality=0.93456,
    mean_frozen_share=0.42,
    stored_bytes=2_000_000,
    full_copy_bytes=7_000_000,
    left_s=75.0,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_says_evaluations_quality_share_bytes_and_time_left() -> None:
    assert say_progress(HALF, "val_auc") == (
        " 5/10 evaluations · best val_auc 0.9346 · 42 % frozen · 1.91 MiB stored, full copies 6.68 MiB (3.5×) · "
        "1 failed · 75.00 s left"
    )


def test_it_says_what_it_does_not_know_yet() -> None:
    line = say_progress(
        replace(HALF, finished=0, failures=0, best_quality=None, stored_bytes=None, left_s=None), "val_auc"
    )
    assert line == " 0/10 evaluations · best val_auc – · 42 % frozen · time left unknown yet"
    assert "0 B stored, full copies 0 B (–)" in say_progress(replace(HALF, stored_bytes=0, full_copy_bytes=0), "x")


def test_what_is_rejected_has_not_failed() -> None:
    line = say_progress(replace(HALF, failures=0, rejected=7), "val_auc")
    assert " · 7 rejected · " in line
    assert "failed" not in line


def test_a_metric_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in say_progress(HALF, "\x1b[2Jval")


def test_a_terminal_has_one_updating_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    stream = Terminal()
    line = ProgressLine("val_auc", stream)
    line(HALF)
    line(replace(HALF, finished=6))
    assert "\n" not in stream.getvalue()
    shown = stream.getvalue().split("\r\x1b[K")[1:]
    assert [text[:5] for text in shown] == [" 5/10", " 6/10"]
    assert all(len(text) < 60 for text in shown)
    line.close()
    line.close()
    assert stream.getvalue().count("\n") == 1


def test_a_log_has_a_line_every_so_often_and_the_last_one() -> None:
    now = 0.0
    stream = io.StringIO()
    line = ProgressLine("val_auc", stream, clock=lambda: now)
    for second in range(int(2 * PLAIN_EVERY_S) + 1):
        now = float(second)
        line(replace(HALF, finished=second % 10))
    line(replace(HALF, finished=10))
    now += PLAIN_EVERY_S
    line(replace(HALF, finished=10, stored_bytes=1_000_000))  # what is stored is counted once more at the end
    line.close()
    line.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[-1].startswith("10/10")
    assert "0.95 MiB stored" in lines[-1]
    assert "left" not in lines[-1]


def test_a_log_of_a_search_that_was_stopped_ends_with_where_it_was() -> None:
    stream = io.StringIO()
    line = ProgressLine("val_auc", stream, clock=lambda: 0.0)
    line(replace(HALF, finished=6))
    line(replace(HALF, finished=7))
    line(replace(HALF, finished=7, left_s=60))
    line.close()
    assert [text[:5] for text in stream.getvalue().splitlines()] == [" 6/10", " 7/10"]
    line(replace(HALF, finished=7, left_s=50))
    line.close()
    assert len(stream.getvalue().splitlines()) == 2


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["terminal", "log"])
def test_the_first_failure_is_said_at_once_and_once(stream: io.StringIO) -> None:
    line = ProgressLine("val_auc", stream, clock=lambda: 0.0)
    line(replace(HALF, failures=0))
    failed = replace(HALF, first_failure="evaluation 3 failed: ValueError: \x1b[2Jno such column\n(line 7 of my.py)")
    for finished in (6, 7):
        line(replace(failed, finished=finished))
    line.close()
    said = [text.rpartition("\r\x1b[K")[2] for text in stream.getvalue().strip("\n").split("\n")]
    words = [text for text in said if "failed:" in text]
    assert len(words) == 1
    assert words[0].startswith("evaluation 3 failed: ValueError: ")
    assert words[0].endswith("(line 7 of my.py)")
    assert "\x1b" not in words[0]
    assert said[-1].startswith(" 7/10")


def test_a_stream_without_utf8_gets_the_line_in_ascii() -> None:
    raw = io.BytesIO()
    stream: Any = io.TextIOWrapper(raw, encoding="ascii")
    ProgressLine("val_auc", stream)(HALF)
    assert raw.getvalue().startswith(b" 5/10 evaluations ? best")
