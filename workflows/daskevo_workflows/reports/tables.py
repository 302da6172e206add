"""The tables of a report as rows of words, ready to be put on the page: no HTML in here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from daskevo_plugins.dashboard.news import CardNews
from daskevo_plugins.formatting import (
    plain,
    say_bytes,
    say_count,
    say_qualities,
    say_quality,
    say_seconds,
    say_share,
    say_times,
)
from daskevo_workflows.reports.arms import Arm
from daskevo_workflows.reports.freeze_summary import say_rule
from daskevo_workflows.reports.series import (
    EvaluationRow,
    RunSeries,
    early,
    founders,
    late,
    mean,
    median,
)

BEST_SHOWN = 10
FRONT_SHOWN = 30
TRANSFERS_SHOWN = 20
REASONS_SHOWN = 30
HAPPENINGS_SHOWN = 30

RETIRED = " †"
"""After the name of a model whose weights are gone."""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Column heads and rows of words; `numeric` are the columns that are aligned to the right.

    A cell that is a tuple of words is a chain: each inherited from the next.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str | tuple[str, ...], ...], ...]
    numeric: frozenset[int] = frozenset()


def cards(run: RunSeries) -> list[CardNews]:
    """Return what a reader wants to know first."""
    best = next(iter(run.best(1)), None)
    asked = f" of {run.asked}" if run.asked else ""
    failed = f"{len(run.failed) - run.rejected} failed" if len(run.failed) > run.rejected else ""
    rejected = f"{run.rejected} rejected" if run.rejected else ""
    duplicates = say_count(run.duplicates, "duplicate") if run.duplicates else ""
    front = f"; {say_count(len(run.front), 'model')} on the front" if run.front else ""
    stored = run.storage[-1] if run.storage else None
    spent = f"repository {say_share(ratio(run.repository_s, run.evaluation_s))} of evaluation time"
    return [
        CardNews("evaluations", f"{len(run.finished)}{asked}", ", ".join(filter(None, (failed, rejected, duplicates)))),
        CardNews(
            f"best {plain(run.objective.metric, 40)}",
            say_quality(best.quality if best else None),
            plain(best.model_id, 40) + front if best else "",
        ),
        CardNews("mean share of frozen vertices", say_share(run.mean_frozen_share), _inherited(run)),
        CardNews(
            "less space than full copies",
            say_times(ratio(stored.full_bytes, stored.stored_bytes) if stored else None),
            f"{say_bytes(stored.stored_bytes)} for {say_count(stored.live_models, 'living model')}" if stored else "",
        ),
        CardNews("running time", say_seconds(run.runtime_s), spent if run.evaluation_s else ""),
    ]


def _inherited(run: RunSeries) -> str:
    match run.identity.get("policy"):
        case {"transfer": False}:
            return "without transfer"
    return "; ".join(filter(None, (f"{len(run.transferred)} inherited a prefix", _rule(run))))


def _rule(run: RunSeries) -> str:
    """Say what is frozen of what is inherited, where something was: it need not be all of it."""
    return say_rule(run.identity.get("policy")) if run.transferred else ""


def ratio(part: float | None, whole: float | None) -> float | None:
    """Return part / whole, or None where that says nothing."""
    return part / whole if part is not None and whole else None


def best_models(run: RunSeries) -> ReportTable | None:
    """Return the best models with the chain of models they inherited from."""
    best = run.best(BEST_SHOWN)
    if not best:
        return None
    quality = plain(run.objective.metric, 40)
    heads = (
        "",
        "model",
        quality,
        *(["after step"] if run.in_parts else []),
        "evaluation",
        "parameters",
        "frozen",
        "seconds",
        "lineage (inherited from)",
        "choices",
    )
    return ReportTable(
        heads,
        tuple(
            (
                str(place),
                (_named(run, e),),
                said,
                *([f"{e.step:,}"] if run.in_parts else []),
                str(e.number),
                f"{e.parameters:,}" if e.parameters is not None else "–",
                say_share(e.frozen_share),
                say_seconds(e.cost_s) if e.seconds else "–",
                _chain(run, e),
                _choices(e),
            )
            for place, (e, said) in enumerate(zip(best, say_qualities([e.quality for e in best]), strict=True), start=1)
        ),
        frozenset({0, *range(2, len(heads) - 2)}),
    )


def front_models(run: RunSeries) -> ReportTable | None:
    """Return the models of a front, the best by the first objective first."""
    if not run.front:
        return None
    goals = [plain(f"{goal.metric} ({goal.direction})", 60) for goal in (run.objective, *run.others)]
    heads = ("", "model", *goals, "evaluation", "frozen", "seconds", "choices")
    # A front of thousands would be the longest part of the page; how many more there are is said below.
    shown = run.front[:FRONT_SHOWN]
    others = [say_qualities([e.metrics[goal.metric] for e in shown]) for goal in run.others]
    figures = zip(say_qualities([e.quality for e in shown]), *others, strict=True)
    rows: list[tuple[str | tuple[str, ...], ...]] = [
        (
            str(place),
            (_named(run, e),),
            *said,
            str(e.number),
            say_share(e.frozen_share),
            say_seconds(e.cost_s) if e.seconds else "–",
            _choices(e),
        )
        for place, (e, said) in enumerate(zip(shown, figures, strict=True), start=1)
    ]
    return ReportTable(heads, tuple(rows), frozenset({0, *range(2, len(heads) - 1)}))


def transfer_summary(run: RunSeries) -> list[tuple[str, str]]:
    """Return the figures that prove, or disprove, that inheritance happened."""
    moved = run.transferred
    able = [e for e in run.finished if e.asked_transfer]
    shares = [e.prefix / e.vertices for e in moved if e.vertices]
    saved = [e.full_bytes - e.own_bytes for e in moved if e.full_bytes is not None and e.own_bytes is not None]
    roots = founders(run)
    depths = [len(run.lineage(e.model_id)) - 1 for e in run.finished]
    first, last = mean([e.cost_s for e in early(run) if e.seconds]), mean([e.cost_s for e in late(run) if e.seconds])
    return [
        ("inherited a prefix", f"{len(moved)} of {len(able)} evaluations that were allowed to"),
        ("frozen, share of all vertices", ": ".join(filter(None, (say_share(run.mean_frozen_share), _rule(run))))),
        (
            "prefix, share of vertices",
            f"median {say_share(median(shares))}, longest {say_share(max(shares, default=None))}",
        ),
        ("tensor bytes not stored again", f"{say_bytes(sum(saved))} in {len(saved)} puts" if saved else "–"),
        (
            "inherited from parent / from another model",
            f"{sum(e.ancestor == e.parent for e in moved)} / {sum(e.ancestor != e.parent for e in moved)}",
        ),
        *([("why no more was inherited", reasons)] if (reasons := _reasons(able)) else []),
        ("lineages (models that all others go back to)", f"{len(roots)}, deepest chain {max(depths, default=0)} steps"),
        ("seconds of an evaluation, first / last quarter", f"{say_seconds(first)} / {say_seconds(last)}"),
    ]


def transfers(run: RunSeries) -> ReportTable | None:
    """Return the last evaluations that inherited: from whom, how much, and what was left to store."""
    moved = run.transferred[-TRANSFERS_SHOWN:][::-1]
    if not moved:
        return None
    said = say_qualities([e.quality for e in moved] + [_quality_of(run, e.ancestor) for e in moved])
    return ReportTable(
        (
            "model",
            "inherited from",
            "prefix",
            "frozen",
            "stored",
            "full copy",
            "quality",
            "ancestor's",
            "why no more",
        ),
        tuple(
            (
                # A tuple of one, because the template shortens ids of the run itself only in chains.
                (plain(e.model_id, 100),),
                (plain(e.ancestor, 100),),
                f"{e.prefix} of {e.vertices}" if e.vertices else str(e.prefix),
                say_share(e.frozen_share),
                say_bytes(e.own_bytes),
                say_bytes(e.full_bytes),
                own,
                ancestors,
                plain(e.no_more_words, 240) or "–",
            )
            for e, own, ancestors in zip(moved, said[: len(moved)], said[len(moved) :], strict=True)
        ),
        frozenset({2, 3, 4, 5, 6, 7}),
    )


def failures(run: RunSeries) -> ReportTable | None:
    """Return the reasons of failed evaluations, the most frequent first."""
    return failure_reasons(
        "evaluations", ((str(e.number), e.reason) for e in sorted(run.failed, key=lambda e: e.number))
    )


def failure_reasons(what: str, failed: Iterable[tuple[str, str]]) -> ReportTable | None:
    """Return the reasons of failures, the most frequent first; of each failure there are its name and its reason."""
    names: dict[str, list[str]] = {}
    for name, why in failed:
        names.setdefault(plain(why, 300) or "no reason recorded", []).append(name)
    # Stable: of reasons that are equally frequent the first one comes first.
    groups = sorted(names.items(), key=lambda group: -len(group[1]))
    rows = [(str(len(who)), why, plain(", ".join(who), 200)) for why, who in groups[:REASONS_SHOWN]]
    if rest := groups[REASONS_SHOWN:]:
        rows.append((str(sum(len(who) for _, who in rest)), say_count(len(rest), "further reason"), ""))
    return ReportTable(("times", "reason", what), tuple(rows), frozenset({0})) if rows else None


def happenings(run: RunSeries) -> ReportTable | None:
    """Return the last things that the run noted besides its evaluations."""
    if not run.happenings:
        return None
    shown = run.happenings[-HAPPENINGS_SHOWN:]
    return ReportTable(
        ("at", "what", "evaluation", "words"),
        tuple(
            (
                say_seconds(what.at_s),
                plain(what.kind, 40),
                "" if what.number is None else str(what.number),
                plain(what.message, 300),
            )
            for what in shown
        ),
        frozenset({0, 2}),
    )


def run_rows(arms: Sequence[Arm]) -> ReportTable:
    """Return a row per run, arm by arm: what it came to."""
    metric = plain(arms[0].runs[0].objective.metric, 40)
    heads = ("arm", "run", "seed", "trainers", "evaluations", "failed", f"best {metric}", "running time", "state")
    runs = [(arm, run) for arm in arms for run in arm.runs]
    said = say_qualities([best[0].quality if (best := run.best(1)) else None for _, run in runs])
    rows = tuple(
        (
            plain(arm.label, 60),
            name_of(run),
            plain(run.facts.get("seed", "–"), 20),
            str(arm.trainers),
            str(len(run.finished)),
            str(len(run.failed) - run.rejected),
            best,
            say_seconds(run.runtime_s),
            plain(run.state, 120),
        )
        for (arm, run), best in zip(runs, said, strict=True)
    )
    return ReportTable(heads, rows, frozenset(range(2, 8)))


def facts(runs: Sequence[RunSeries]) -> ReportTable:
    """Return what the runs were, a column per run."""
    names = list(dict.fromkeys(name for run in runs for name in run.facts))
    rows = tuple((plain(name, 80), *(plain(run.facts.get(name, "–"), 400) for run in runs)) for name in names)
    return ReportTable(("", *(name_of(run) for run in runs)), rows)


def name_of(run: RunSeries) -> str:
    """Return the run's label as it stands in headings."""
    return plain(run.label, 60)


def _reasons(evaluations: Sequence[EvaluationRow]) -> str:
    """Return why prefixes ended or there were none, the most frequent reason first."""
    counts = Counter(e.no_more for e in evaluations if e.no_more)
    return ", ".join(f"{plain(reason, 40)} {times}" for reason, times in counts.most_common())


def shown_models(run: RunSeries) -> list[str]:
    """Return the models that the tables of the best name."""
    return list(dict.fromkeys(e.model_id for e in [*run.best(BEST_SHOWN), *run.front[:FRONT_SHOWN]]))


def _named(run: RunSeries, evaluation: EvaluationRow) -> str:
    return plain(evaluation.model_id, 100) + (RETIRED if evaluation.model_id in run.retired else "")


def _chain(run: RunSeries, evaluation: EvaluationRow) -> str | tuple[str, ...]:
    chain = run.lineage(evaluation.model_id)[1:]
    if not chain:
        return "none: from scratch" + (", in parts" if evaluation.continues else "")
    # Both ends say most: whom it inherited from directly, and the root of its lineage.
    shown = chain if len(chain) <= 6 else [*chain[:4], f"… {len(chain) - 5} more …", chain[-1]]
    return tuple(plain(model_id, 100) for model_id in shown)


def _choices(evaluation: EvaluationRow) -> str:
    return ", ".join(f"{plain(name, 60)} = {plain(value, 60)}" for name, value in evaluation.choices.items())


def _quality_of(run: RunSeries, model_id: str | None) -> float | None:
    return next((e.quality for e in run.evaluations if e.model_id == model_id and e.quality is not None), None)
