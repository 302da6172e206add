"""Render the report of a study: steps saved, best configurations, stage tree, failures."""

from __future__ import annotations

from typing import Any

from daskevo.tuning import StepSequence
from daskevo.tuning.tree_layout import TreeLayout, tree_layout
from daskevo.tuning.tree_svg import describe, say_row, tree_svg
from daskevo_plugins.dashboard.colours import style_variables
from daskevo_plugins.formatting import plain, say_count, say_quality, say_seconds, say_times
from daskevo_workflows.reports.page import fill
from daskevo_workflows.reports.sparkline import sparkline
from daskevo_workflows.reports.study_reader import BestTrial, StudySeries
from daskevo_workflows.reports.tables import HAPPENINGS_SHOWN, REASONS_SHOWN, FigureCard, ReportTable


def render_study(study: StudySeries, *, version: str) -> str:
    """Return the report of a study as HTML; a pure function."""
    label, problem = plain(study.label, 60), plain(study.facts.get("problem", study.label), 80)
    layout = tree_layout(study.tree)
    metric = plain(study.objective.metric, 40)
    return fill(
        "study.html.j2",
        title=label if label.startswith(problem) else f"{problem}: {label}",
        subtitle=plain(f"{study.run_id}, {study.state}", 200),
        version=version,
        colours=style_variables(),
        cards=_cards(study),
        notice="" if study.asked else "No trial has been asked for yet.",
        metric=metric,
        smaller=study.objective.direction == "min",
        best=[_best(place, trial, study) for place, trial in enumerate(study.best, start=1)],
        accounts=_accounts(study),
        tree=tree_svg(layout, name="stages", title="The stage tree", quality=metric),
        described=describe(layout),
        rows=_rows(layout),
        failures=_failures(study),
        happenings=_happenings(study),
        facts=ReportTable(("", ""), tuple((plain(name, 80), plain(words, 400)) for name, words in study.facts.items())),
    )


def _cards(study: StudySeries) -> list[FigureCard]:
    figures = study.figures
    best = study.best[0] if study.best else None
    failed = say_count(len(study.failures), "request") + " failed" if study.failures else ""
    pending = f"{say_count(study.pending, 'request')} without an answer" if study.pending else ""
    return [
        FigureCard(str(figures.trials), "trials", ", ".join(filter(None, (failed, pending)))),
        FigureCard(
            say_quality(None if best is None else best.quality),
            f"best {plain(study.objective.metric, 40)}",
            "" if best is None else plain(f"{_names(best)}, step {best.step}", 60),
        ),
        FigureCard(
            f"{figures.trained_steps:,}",
            "steps trained",
            f"of {figures.total_steps:,} if each trial were trained by itself",
        ),
        FigureCard(say_times(figures.saving), "saving", "steps of all trials / steps trained"),
        FigureCard(
            say_seconds(study.runtime_s),
            "running time",
            f"{say_seconds(figures.training_s)} of training on all trainers" if figures.training_s else "",
        ),
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
    first, last = sequence(0), sequence(steps - 1)
    values = sequence.values(0, steps)
    is_constant = bool((values == first).all())
    return {
        "name": plain(name, 40),
        "words": f"{first:.4g}" if is_constant else f"{first:.4g} → {last:.4g}",
        "svg": "" if is_constant else sparkline(sequence, steps),
        "title": plain(repr(sequence), 300),
    }


def _rows(layout: TreeLayout) -> ReportTable:
    """Return the drawing as a table, for users who can't see it."""
    rows = []
    for number, row in enumerate(layout.rows, start=1):
        spans = ", ".join(f"{span.start}–{span.stop} {span.progress}" for span in row.spans)
        parent = "" if row.parent is None else str(row.parent + 1)
        rows.append((str(number), parent, plain(spans, 200), plain(say_row(row), 200)))
    return ReportTable(("row", "parts from", "steps", "what"), tuple(rows), frozenset({0, 1}))


def _failures(study: StudySeries) -> ReportTable | None:
    if not study.failures:
        return None
    trials: dict[str, list[str]] = {}
    for trial, why in study.failures:
        trials.setdefault(plain(why, 300), []).append(trial)
    groups = sorted(trials.items(), key=lambda group: -len(group[1]))
    rows = [(str(len(who)), why, plain(", ".join(who), 200)) for why, who in groups[:REASONS_SHOWN]]
    if rest := groups[REASONS_SHOWN:]:
        rows.append((str(sum(len(who) for _, who in rest)), say_count(len(rest), "further reason"), ""))
    return ReportTable(("times", "reason", "trials"), tuple(rows), frozenset({0}))


def _happenings(study: StudySeries) -> ReportTable | None:
    if not study.happenings:
        return None
    shown = study.happenings[-HAPPENINGS_SHOWN:]
    rows = tuple((say_seconds(what.at_s), plain(what.kind, 40), plain(what.message, 300)) for what in shown)
    return ReportTable(("at", "what", "words"), rows, frozenset({0}))
