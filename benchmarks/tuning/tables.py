"""Figures of studies in words: Markdown tables, made of rows alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from benchmarks.tuning.aims import aims
from benchmarks.tuning.arms import Row
from benchmarks.tuning.problem import LONGER
from daskevo_workflows.measurements.tables import ABSENT, FigureTable


def summary(rows: Sequence[Row]) -> str:
    """Return all tables that there are rows for.

    Parameters
    ----------
    rows:
        One for each arm; ``part`` says of which script.
    """
    return "\n\n".join(str(table) for make in TABLES for table in make(rows))


def _of(rows: Iterable[Row], part: str) -> list[Row]:
    return [row for row in rows if row["part"] == part]


def _s(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def grids(rows: Sequence[Row]) -> list[FigureTable]:
    """Return what grids saved, and what their seconds were spent on."""
    own = _of(rows, "grids")
    by_grid = {
        name: {row["arm"]: row for row in own if row["grid"] == name} for name in dict.fromkeys(r["grid"] for r in own)
    }
    savings, times = [], []
    for found in by_grid.values():
        shared, alone, optuna = found["shared"], found["alone"], found.get("optuna")
        rate, saved = shared["merge_rate"], alone["training_s"] / shared["training_s"]
        savings.append(
            [
                _name(shared),
                str(shared["trials"]),
                str(alone["trained_steps"]),
                f"{shared['trained_steps']} of {shared['unique_steps']}",
                *(_s(alone["training_s"]), _s(shared["training_s"])),
                f"{saved:.2f}",
                f"{saved / rate:.2f}",
                *(_s(alone["wall_s"]), _s(shared["wall_s"])),
                f"{alone['wall_s'] / shared['wall_s']:.2f}",
                *((_s(optuna["wall_s"]), f"{optuna['wall_s'] / shared['wall_s']:.2f}") if optuna else (ABSENT, ABSENT)),
                f"{shared['identical']} of {shared['trials']}",
            ]
        )
        times += [_spent(row) for arm, row in found.items() if arm != "optuna"]
    if not own:
        return []
    head = [
        *("merge rate", "trials", "epochs, alone", "trained, of those that differ"),
        *("training s, alone", "shared", "saving", "of the merge rate"),
        *("end to end s, alone", "shared", "saving", "Optuna", "Optuna's, of shared", "equal bits"),
    ]
    return [
        FigureTable("Grids: shared, and each trial alone", head, savings),
        FigureTable(
            "What trainers' seconds go by for",
            [
                *("merge rate, arm", "epochs", "s per epoch", "works", "cluster, imports", "training"),
                *("building, loading, first steps", "scoring", "rest of works", "no work"),
                *("all", "end to end s", "simulated, of measured"),
            ],
            times,
        ),
    ]


def _name(row: Row) -> str:
    return f"{row['merge_rate']:.2f}{', longer epochs' if row['grid'] == LONGER else ''}"


def _spent(row: Row) -> list[str]:
    trainers = row["trainers"]
    known = row["training_s"] + row["start_s"] + row["scoring_s"]
    before = trainers * (row["wall_s"] - row["ran_s"])
    return [
        f"{_name(row)}, {row['arm']}",
        *(str(row["trained_steps"]), f"{row['training_s'] / row['trained_steps']:.3f}", str(row["works"])),
        _s(before),
        *map(_s, (row["training_s"], row["start_s"], row["scoring_s"])),
        _s(row["work_s"] - known),
        _s(trainers * row["ran_s"] - row["work_s"]),
        _s(trainers * row["wall_s"]),
        _s(row["wall_s"]),
        f"{row['simulated_s'] / row['ran_s']:.2f}",
    ]


def rungs(rows: Sequence[Row]) -> list[FigureTable]:
    """Return what halving saved."""
    own = _of(rows, "rungs")
    lines = []
    for strategy in dict.fromkeys(row["strategy"] for row in own):
        found = {row["arm"]: row for row in own if row["strategy"] == strategy}
        shared, alone = found["shared"], found["alone"]

        def ratio(name: str, shared: Row = shared, alone: Row = alone) -> str:
            return f"{alone[name] / shared[name]:.2f}" if name in shared else ABSENT

        lines.append(
            [
                strategy,
                *(str(alone["trained_steps"]), str(shared["total_steps"]), str(shared["trained_steps"])),
                f"{alone['trained_steps'] / shared['trained_steps']:.2f}",
                *(_s(alone.get("training_s")), _s(shared.get("training_s"))),
                *map(ratio, ("training_s", "busy_s", "ran_s", "wall_s")),
                *(f"{row['best']:.5f}" if "best" in row else ABSENT for row in (alone, shared)),
            ]
        )
    if not own:
        return []
    head = [
        *("strategy", "epochs, alone", "asked for, shared", "trained, shared", "saving"),
        *("training s, alone", "shared", "saving in training s", "in trainers' s", "in s of the study", "end to end"),
        *("best loss, alone", "shared"),
    ]
    about = own[0]
    note = f"{about['candidates']} trials, rungs at {about['rungs']} epochs; merge rate {about['merge_rate']:.2f}."
    return [FigureTable("Halving: shared, and each trial alone", head, lines, [note])]


def studies(rows: Sequence[Row]) -> list[FigureTable]:
    """Return what several studies saved together."""
    own = _of(rows, "studies")
    lines = []
    for row in own:
        training = row["alone_training_s"] / row["training_s"] if "training_s" in row else None
        busy = row["alone_busy_s"] / row["busy_s"]
        lines.append(
            [
                f"{row['set']}, {row['how']}",
                *map(str, (row["studies"], row["trials"], row["epochs"], row["trainers"])),
                *(str(row["total_steps"]), str(row["trained_steps"])),
                f"{row['merge_rate']:.2f}",
                ABSENT if training is None else f"{training:.2f}",
                f"{busy:.2f}",
                f"{busy / row['merge_rate']:.2f}",
                f"{row['alone_ran_s'] / row['ran_s']:.2f}",
                f"{row['identical']} of {row['trials']}" if "identical" in row else ABSENT,
            ]
        )
    head = [
        *("set", "studies", "trials", "epochs", "trainers", "epochs, alone", "trained", "k-wise merge rate"),
        *("saving in training s", "in trainers' s", "of the merge rate", "in s of the studies", "equal bits"),
    ]
    return [FigureTable("Several studies at once", head, lines)] if own else []


def policies(rows: Sequence[Row]) -> list[FigureTable]:
    """Return how long the policies took."""
    own = _of(rows, "policies")
    paths = {_which(row): row["ran_s"] for row in own if row["given"] == "paths"}
    lines = []
    for row in (row for row in own if row["given"] == "stages"):
        ends, by_path = row["ran_s"], paths[_which(row)]
        best = ends["critical path"]
        lines.append(
            [
                f"{row['space']} ({row['merge_rate']:.2f}), {row['strategy']}",
                str(row["trainers"]),
                _s(best),
                *(f"{ends[policy] / best:.2f}" for policy in ends if policy != "critical path"),
                f"{best / by_path['critical path']:.2f}",
                *(
                    f"{by_path[policy] / by_path['critical path']:.2f}"
                    for policy in by_path
                    if policy != "critical path"
                ),
            ]
        )
    head = [
        *("space (merge rate), strategy", "trainers", "critical path, s", "breadth first", "most children"),
        *("critical path, queued", "breadth first, queued"),
        *("critical path by paths is sooner", "breadth first by paths", "most children by paths"),
    ]
    notes = [
        "Simulated seconds until the last answer, stage by stage; other policies as multiples of the critical path, "
        "stage by stage and by paths. *Queued*: a stage keeps the place in the queue that it got when first seen."
    ]
    return [FigureTable("Policies", head, lines, notes)] if own else []


def promotions(rows: Sequence[Row]) -> list[FigureTable]:
    """Return how long asynchronous halving took with each policy, over seeds."""
    own = _of(rows, "promotions")
    if not own:
        return []
    arms = [arm for arm in own[0]["ratios"] if arm != "critical path"]
    lines = [
        [
            row["space"],
            str(row["trainers"]),
            str(row["at_once"] or "all"),
            *("{1:.2f} ({0:.2f} to {2:.2f})".format(*row["ratios"][arm]) for arm in arms),
        ]
        for row in own
    ]
    title = f"Asynchronous halving, {own[0]['seeds']} seeds"
    notes = ["Median (least to most) of the simulated seconds, of critical path's with the same seed; stage by stage."]
    return [FigureTable(title, ["space", "trainers", "trials at once", *arms], lines, notes)]


def _which(row: Row) -> tuple[object, ...]:
    return row["space"], row["strategy"], row["trainers"]


TABLES: tuple[Callable[[Sequence[Row]], list[FigureTable]], ...] = (
    aims,
    grids,
    rungs,
    studies,
    policies,
    promotions,
)
