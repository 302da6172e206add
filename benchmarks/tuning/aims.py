"""Aims, and what was found: one line for each, made of the rows of all scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.tuning.arms import Row
from daskevo_workflows.measurements.tables import FigureTable

OF_MERGE_RATE = 0.95


def aims(rows: Sequence[Row]) -> list[FigureTable]:
    """Return the table of aims, of the parts that there are rows for."""
    lines = [*_grids(rows), *_rungs(rows), *_studies(rows), *_policies(rows)]
    return [FigureTable("Aims and what was found", ["what", "aim", "found", ""], lines)] if lines else []


def _grids(rows: Sequence[Row]) -> list[list[str]]:
    own = [row for row in rows if row["part"] == "grids"]
    if not own:
        return []
    names = dict.fromkeys(row["grid"] for row in own)
    found = {name: {row["arm"]: row for row in own if row["grid"] == name} for name in names}
    shared = [arms["shared"] for arms in found.values()]
    rates = ", ".join(f"{row['merge_rate']:.2f}" for row in shared)
    exact = all(row["trained_steps"] == row["unique_steps"] for row in shared)
    saved = [
        arms["alone"]["training_s"] / arms["shared"]["training_s"] / arms["shared"]["merge_rate"]
        for arms in found.values()
    ]
    equal = [sum(row["identical"] for row in shared), sum(row["trials"] for row in shared)]
    ends = [arms["alone"]["wall_s"] / arms["shared"]["wall_s"] for arms in found.values()]
    rivals = [arms["optuna"]["wall_s"] / arms["shared"]["wall_s"] for arms in found.values() if "optuna" in arms]
    return [
        [f"grids of merge rates {rates}: epochs trained", "total / merge rate, exactly", _exactly(shared), _met(exact)],
        [
            "training seconds saved, of the merge rate",
            f"{OF_MERGE_RATE}",
            _say(saved),
            _met(min(saved) >= OF_MERGE_RATE),
        ],
        ["end to end, times as fast as each trial alone", "–", _say(ends), ""],
        ["the same, as Optuna's grid sampler", "–", _say(rivals), ""],
        [
            "trials with the bits and the loss of unshared training",
            "all",
            f"{equal[0]} of {equal[1]}",
            _met(equal[0] == equal[1]),
        ],
    ]


def _exactly(shared: Iterable[Row]) -> str:
    return ", ".join(f"{row['trained_steps']} of {row['total_steps']}" for row in shared)


def _rungs(rows: Sequence[Row]) -> list[list[str]]:
    papers = {"halving": "4.81", "asynchronous halving": "3.92", "asynchronous halving, replayed": "3.92"}
    lines = []
    for strategy, paper in papers.items():
        found = {row["arm"]: row for row in rows if row["part"] == "rungs" and row["strategy"] == strategy}
        if found:
            steps, busy = (found["alone"][key] / found["shared"][key] for key in ("trained_steps", "busy_s"))
            rate = found["shared"]["merge_rate"]
            lines.append(
                [
                    f"{strategy}, merge rate {rate:.2f}: saved, of epochs and of trainers' seconds",
                    f"the paper: {paper} times the GPU-hours at 2.45",
                    f"{steps:.2f}, {busy:.2f}",
                    "",
                ]
            )
    return lines


def _studies(rows: Sequence[Row]) -> list[list[str]]:
    lines = []
    for how in ("real", "simulated"):
        own = [row for row in rows if row["part"] == "studies" and row["how"] == how]
        if own:
            saved = [row["alone_busy_s"] / row["busy_s"] / row["merge_rate"] for row in own]
            several = sorted({row["studies"] for row in own})
            words = f"{', '.join(map(str, several))} studies at once, {how}: trainers' seconds saved, of the merge rate"
            lines.append([words, f"{OF_MERGE_RATE}", _range(saved), _met(min(saved) >= OF_MERGE_RATE)])
    return lines


def _policies(rows: Sequence[Row]) -> list[list[str]]:
    lines = []
    for strategy, paper in (("grid", "most children is alike"), ("asynchronous halving", "1.27 times as fast")):
        own = [row["ran_s"] for row in rows if row["part"] == "policies" and row["strategy"] == strategy]
        ends = [row for row in own if row]
        if ends:
            # Rivals of the paper: with a queue they are its own scheduler, and have rows of their own.
            others = {
                policy: [row[policy] / row["critical path"] for row in ends]
                for policy in ("breadth first", "most children")
            }
            found = "; ".join(f"{policy} {_range(ratios)}" for policy, ratios in others.items())
            words = f"critical path, {strategy}: others take, of its seconds"
            lines.append([words, f"1 or more (the paper: {paper})", found, _met(_least(others.values()) >= 0.995)])
    return lines


def _least(several: Iterable[Sequence[float]]) -> float:
    return min(min(each) for each in several)


def _say(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def _met(is_met: bool) -> str:
    return "met" if is_met else "missed"
