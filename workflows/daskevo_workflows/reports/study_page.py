"""Render the report of a study: steps saved, best configurations, stage tree, failures."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskevo.tuning import StepSequence
from daskevo.tuning.tree_layout import TreeLayout, tree_layout
from daskevo_plugins.dashboard.news import CardNews
from daskevo_plugins.dashboard.stage_tree import describe, say_row, tree_svg
from daskevo_plugins.dashboard.svg import drawing, shape, step_path
from daskevo_plugins.dashboard.templates import render
from daskevo_plugins.formatting import plain, say_count, say_quality, say_seconds, say_times
from daskevo_workflows.reports.study_reader import BestTrial, StudySeries
from daskevo_workflows.reports.tables import HAPPENINGS_SHOWN, ReportTable, failure_reasons

SPARK_WIDTH, SPARK_HEIGHT, SPARK_POINTS = 120, 22, 240


def render_study(study: StudySeries, *, version: str) -> str:
    """Return the report of a study as HTML; a pure function."""
    label, problem = plain(study.label, 60), plain(study.facts.get("problem", study.label), 80)
    layout = tree_layout(study.tree)
    metric = plain(study.objective.metric, 40)
    page = render(
        "study_report.html.j2",
        "daskevo_workflows.reports",
        title=label if label.startswith(problem) else f"{problem}: {label}",
        subtitle=plain(f"{study.run_id}, {study.state}", 200),
        version=version,
        figures=_cards(study),
        notice="" if study.asked else "No trial has been asked for yet.",
        metric=metric,
        smaller=study.objective.direction == "min",
        best=[_best(place, trial, study) for place, trial in enumerate(study.best, start=1)],
        accounts=_accounts(study),
        tree=tree_svg(layout, name="stages", title="The stage tree", quality=metric),
        described=describe(layout),
        rows=_rows(layout),
        failures=failure_reasons("trials", study.failures),
        happenings=_happenings(study),
        facts=ReportTable(("", ""), tuple((plain(name, 80), plain(words, 400)) for name, words in study.facts.items())),
    )
    return f"{page}\n"


def _cards(study: StudySeries) -> list[CardNews]:
    figures = study.figures
    best = study.best[0] if study.best else None
    failed = say_count(len(study.failures), "request") + " failed" if study.failures else ""
    pending = f"{say_count(study.pending, 'request')} without an answer" if study.pending else ""
    trained = f"{say_seconds(figures.training_s)} of training on all trainers" if figures.training_s else ""
    return [
        CardNews("trials", str(figures.trials), ", ".join(filter(None, (failed, pending)))),
        CardNews(
            f"best {plain(study.objective.metric, 40)}",
            say_quality(None if best is None else best.quality),
            "" if best is None else plain(f"{_names(best)}, step {best.step}", 60),
        ),
        CardNews(
            "steps trained",
            f"{figures.trained_steps:,}",
            f"of {figures.total_steps:,} if each trial were trained by itself",
        ),
        CardNews("saving", say_times(figures.saving), "steps of all trials / steps trained"),
        CardNews("running time", say_seconds(study.runtime_s), trained),
    ]


def _accounts(study: StudySeries) -> ReportTable:
    figures, steps = study.figures, study.tree.steps()
    left = ", ".join(f"{count:,} {word}" for word, count in steps.items() if count)
    return ReportTable(
        ("", ""),
        (
            ("trials that were answered", str(figures.trials)),
            ("their steps in all", f"{figures.total_steps:,}"),
            ("their steps, equal ones counted once", f"{figures.unique_steps:,}"),
            ("merge rate (all / unique)", f"{figures.merge_rate:.3g}"),
            ("steps trained by this study", f"{figures.trained_steps:,}"),
            ("saving (all / trained)", "–" if figures.saving is None else f"{figures.saving:.3g}"),
            ("states that another study stored, too", f"{figures.duplicates:,}"),
            ("steps of the stage tree", left or "none"),
            ("seconds of steps, all trainers", say_seconds(figures.training_s)),
            ("… of starts: building, loading, first steps", say_seconds(figures.start_s)),
            ("… of scoring", say_seconds(figures.scoring_s)),
        ),
    )


def _names(trial: BestTrial) -> str:
    more = len(trial.trials) - 3
    return ", ".join(trial.trials[:3]) + (f" and {more} more" if more > 0 else "")


def _best(place: int, trial: BestTrial, study: StudySeries) -> dict[str, Any]:
    configuration = trial.configuration
    others = {name: value for name, value in trial.metrics.items() if name != study.objective.metric}
    return {
        "place": place,
        "trials": plain(_names(trial), 120),
        "quality": say_quality(trial.quality),
        "others": [f"{plain(name, 40)} {say_quality(value)}" for name, value in others.items()],
        "step": f"{trial.step:,}",
        "sequences": [_sequence(name, one, trial.step) for name, one in configuration.sequences.items()],
        "constants": [f"{plain(name, 40)} {plain(value, 60)}" for name, value in configuration.constants.items()],
    }


def _sequence(name: str, sequence: StepSequence, steps: int) -> dict[str, str]:
    values = sequence.values(0, steps)
    first, last = values[0], values[-1]
    # All values of all steps, not the first and the last: a schedule may come back to where it began.
    is_constant = bool((values == first).all())
    return {
        "name": plain(name, 40),
        "words": f"{first:.4g}" if is_constant else f"{first:.4g} → {last:.4g}",
        "svg": "" if is_constant else _spark(values, repr(sequence)),
        "title": plain(repr(sequence), 300),
    }


def _spark(values: np.ndarray, title: str) -> str:
    """Return a drawing of a word's size, of at most so many evenly spaced steps; a value holds until the next one."""
    low, high, steps = values.min(), values.max(), len(values)
    # A drawing of 120 units can't show more points; a schedule of a million steps would be megabytes.
    places = np.linspace(0, steps - 1, min(steps, SPARK_POINTS)).astype(int)
    # 3 units above and below, so that the line's width is not cut off.
    heights = 3 + (high - values[places]) * (SPARK_HEIGHT - 6) / (high - low)
    path = step_path(list(zip(SPARK_WIDTH * places / steps, heights, strict=True)), SPARK_WIDTH)
    line = shape("path", d=path, style="fill: none; stroke: var(--blue); stroke-width: 1.6")
    return drawing(SPARK_WIDTH, SPARK_HEIGHT, shape("title", title), line, class_="spark")


def _rows(layout: TreeLayout) -> ReportTable:
    """Return the drawing as a table, for users who can't see it."""
    rows = []
    for number, row in enumerate(layout.rows, start=1):
        spans = ", ".join(f"{span.start}–{span.stop} {span.progress}" for span in row.spans)
        parent = "" if row.parent is None else str(row.parent + 1)
        rows.append((str(number), parent, plain(spans, 200), plain(say_row(row), 200)))
    return ReportTable(("row", "parts from", "steps", "what"), tuple(rows), frozenset({0, 1}))


def _happenings(study: StudySeries) -> ReportTable | None:
    if not study.happenings:
        return None
    shown = study.happenings[-HAPPENINGS_SHOWN:]
    rows = tuple((say_seconds(what.at_s), plain(what.kind, 40), plain(what.message, 300)) for what in shown)
    return ReportTable(("at", "what", "words"), rows, frozenset({0}))
