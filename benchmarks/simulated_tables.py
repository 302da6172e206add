"""Tables of docs/simulation.md, made of the figures that `simulated` leaves."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from daskevo_plugins.formatting import say_bytes
from daskevo_workflows.measurements.tables import FigureTable, figure

Row = Mapping[str, Any]


def kept(file: Path) -> tuple[str, list[Row]]:
    """Return machine and rows of a file of figures."""
    found = json.loads(file.read_text())
    return found["machine"], found["rows"]


def error(real: float, told: float) -> str:
    """Return how far what was told is from what was found.

    >>> error(50.0, 55.0), error(50.0, 45.0), error(0.0, 0.0)
    ('+10 %', '-10 %', '0 %')
    """
    if not real:
        return "0 %" if not told else "–"
    return f"{100 * (told / real - 1):+.0f} %"


def _of(rows: Sequence[Row], part: str) -> list[Row]:
    return [row for row in rows if row["part"] == part]


def recorded(rows: Sequence[Row]) -> FigureTable:
    words = {
        "runtime_s": "runtime (s)",
        "frozen_share": "mean frozen share",
        "stored_share": "stored, of full copies",
    }
    found = _of(rows, "recorded")
    cells = [
        (
            f"{'nothing inherited' if row['arm'] == 'none' else 'prefix inherited'}: {words[row['figure']]}",
            figure(row["real"]),
            figure(row["told"]),
            error(row["real"], row["told"]),
        )
        for row in found
    ]
    if not found:
        return FigureTable("Recorded searches", ("",), ())
    by = {(row["arm"], row["figure"]): row for row in found}
    real, told = (by["prefix", "runtime_s"][which] / by["none", "runtime_s"][which] for which in ("real", "told"))
    cells.append(("runtime with a prefix, of that without", figure(real), figure(told), error(real, told)))
    return FigureTable(
        "Recorded searches of flights: 60 evaluations, 2 trainers",
        ("", "real", "simulated", "error"),
        cells,
        ["Medians of three seeds; evaluations' costs are those of two others."],
    )


def asked(rows: Sequence[Row]) -> FigureTable:
    return FigureTable(
        "Queries over a cluster on two cores",
        ("providers, questions in a message", "real, per s", "simulated", "error", "real, ms", "simulated", "error"),
        [
            (
                f"{row['providers']}, {row['batch']}",
                figure(row["real_per_s"]),
                figure(row["told_per_s"]),
                error(row["real_per_s"], row["told_per_s"]),
                figure(row["real_ms"]),
                figure(row["told_ms"]),
                error(row["real_ms"], row["told_ms"]),
            )
            for row in _of(rows, "queries")
        ],
    )


def sleeping(rows: Sequence[Row]) -> FigureTable:
    return FigureTable(
        "Sleeping evaluations, trainers that are threads of one process",
        ("trainers", "evaluations", "real (s)", "simulated", "error", "sleep alone"),
        [
            (
                str(row["trainers"]),
                str(row["evaluations"]),
                figure(row["real_s"]),
                figure(row["told_s"]),
                error(row["real_s"], row["told_s"]),
                figure(row["sleep_s"] * -(-row["evaluations"] // row["trainers"])),
            )
            for row in _of(rows, "sleeping")
        ],
    )


def figure_5(rows: Sequence[Row]) -> FigureTable:
    return FigureTable(
        "10,000 queries against 60,000 models (figure 5)",
        ("workers", "providers", "daskevo, per s", "ms", "busiest provider", "one server, per s", "times"),
        [
            (
                str(row["workers"]),
                str(row["providers"]),
                figure(row["per_s"]),
                figure(row["mean_ms"]),
                f"{100 * row['busy_share']:.0f} %",
                figure(row["central_per_s"]),
                figure(row["per_s"] / row["central_per_s"]),
            )
            for row in _of(rows, "figure 5")
        ],
    )


def _searches(rows: Sequence[Row], length: str) -> list[Row]:
    return [row for row in _of(rows, "figures 8 and 9") if row["length"] == length]


def figure_8(rows: Sequence[Row], length: str) -> FigureTable:
    found = _searches(rows, length)
    alone = {row["trainers"]: row["runtime_s"] for row in found if row["arm"] == "no transfer"}
    said = "evaluations as measured" if length == "as measured" else "evaluations of a minute"
    return FigureTable(
        f"1,000 candidates, {said} (figures 8 and 9)",
        ("trainers", "", "runtime (s)", "of no transfer", "trainers busy", "repository", "deviation (s)", "waves"),
        [
            (
                str(row["trainers"]),
                row["arm"],
                figure(row["runtime_s"]),
                f"{100 * row['runtime_s'] / alone[row['trainers']]:.0f} %",
                f"{100 * row['busy_share']:.0f} %",
                f"{100 * row['repository_share']:.1f} %",
                figure(row["deviation_s"]),
                f"{row['waves']:.2f}",
            )
            for row in found
        ],
    )


def limits(rows: Sequence[Row], length: str) -> FigureTable:
    said = "evaluations as measured" if length == "as measured" else "evaluations of a minute"
    cells = []
    for row in _searches(rows, length):
        if row["arm"] != "daskevo":
            continue
        for load in row["loads"]:
            cells.append(
                (
                    f"{row['trainers']}: {load['name']}",
                    f"{100 * load['share']:.1f} %",
                    figure(load["most_per_s"]),
                    figure(row["trainers"] / load["most_per_s"]),
                )
            )
    return FigureTable(
        f"What is busy, {said}",
        ("trainers", "busy", "evaluations per s at most", "shortest evaluation (s) that keeps all trainers busy"),
        cells,
    )


def storage(rows: Sequence[Row]) -> FigureTable:
    found = [row for row in _searches(rows, "as measured") if row["arm"] != "no transfer"]
    return FigureTable(
        "What is stored after 1,000 candidates",
        ("trainers", "", "at the end", "at most", "full copies", "busiest shard, times the mean"),
        [
            (
                str(row["trainers"]),
                row["arm"],
                say_bytes(int(row["stored_bytes"])),
                say_bytes(int(row["peak_bytes"])),
                say_bytes(int(row["full_copy_bytes"])),
                figure(row["hottest_shard"]) if row["hottest_shard"] else "–",
            )
            for row in found
        ],
    )


TABLES: Sequence[Callable[[Sequence[Row]], FigureTable]] = (
    recorded,
    asked,
    sleeping,
    figure_5,
    lambda rows: figure_8(rows, "as measured"),
    lambda rows: figure_8(rows, "a minute"),
    lambda rows: limits(rows, "as measured"),
    lambda rows: limits(rows, "a minute"),
    storage,
)


def median_error(rows: Sequence[Row], part: str, real: str, told: str) -> float:
    """Return the median of how far a part's figures are off, as a share."""
    return statistics.median(abs(row[told] / row[real] - 1) for row in _of(rows, part))


def main() -> None:
    import sys

    for make in TABLES:
        print(make(kept(Path(sys.argv[1]))[1]), "\n")


if __name__ == "__main__":
    main()
