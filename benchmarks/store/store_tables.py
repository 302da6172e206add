"""How the figures of `python -m benchmarks.store` are shown: one table per model and place, one plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.shared.timing import median, quantile
from benchmarks.store.tasks import Shape
from daskevo_workflows.measurements.tables import FigureTable, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LEFT_OUT = ("read 1 layer", "inherit all")
"""Not drawn: not a matter of bandwidth, and without rivals."""
ORDER = ("daskevo", "safetensors", "raw files", "h5py", ".weights.h5", ".keras", "memcpy")


class Row(NamedTuple):
    """One figure: the median of some times."""

    shape: Shape
    case: str
    place: str
    synced: bool
    writers: int
    writer: str
    seconds: float

    @property
    def name(self) -> str:
        """What was done, for the machine-readable list."""
        words = [self.shape.name, self.case, self.place]
        words += ["fsync"] * self.synced + [f"{self.writers} at a time"] * (self.writers > 1)
        return ", ".join(words)

    @property
    def gb_per_s(self) -> float:
        return self.writers * self.shape.nbytes / self.seconds / 1e9


def tables(rows: Sequence[Row], lags: Sequence[float], loop: Shape) -> list[FigureTable]:
    """Return the tables: milliseconds by case and writer, and the provider's event loop."""
    found = []
    writers = [name for name in ORDER if any(row.writer == name for row in rows)]
    absent = [name for name in ORDER if name not in writers]
    for shape in dict.fromkeys(row.shape for row in rows):
        for place in dict.fromkeys(row.place for row in rows):
            cases: dict[str, dict[str, float]] = {}
            for row in rows:
                if (row.shape, row.place) == (shape, place):
                    name = row.case + ", fsync" * row.synced + f", {row.writers} at a time" * (row.writers > 1)
                    cases.setdefault(name, {})[row.writer] = row.seconds
            body = [
                [name, *(figure(None if writer not in cells else cells[writer] * 1e3) for writer in writers)]
                for name, cells in cases.items()
            ]
            title = f"{shape.name}: {shape.layers} layers, {shape.nbytes / 1e6:,.1f} MB, on {place} (ms, median)"
            found.append(FigureTable(title, ["", *writers], body))
    notes = [
        "Others write whole models, except raw files (one per tensor, only what changed: the floor). Keras' files "
        "can't be read in part. memcpy copies the whole model to memory that was used before: the limit.",
    ]
    if absent:
        notes.append(f"Not installed or left out: {', '.join(absent)}.")
    found.append(
        FigureTable(
            f"Queries while {loop.nbytes / 1e6:,.0f} MB are put into a provider that has to spill them (ms)",
            ["", "queries", "median", "p99", "longest"],
            [
                [
                    "match",
                    str(len(lags)),
                    figure(median(lags) * 1e3),
                    figure(quantile(lags, 0.99) * 1e3),
                    figure(max(lags) * 1e3),
                ]
            ],
            notes,
        )
    )
    return found


def draw(into: Figure, rows: Sequence[Row]) -> None:
    """Draw the bandwidth by share that changed, and of reads, for the first model on each place."""
    from daskevo_workflows.reports.svg import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, SKY, VERMILION, logarithmic

    colours = dict(zip(ORDER, (BLUE, ORANGE, FAINT, GREEN, VERMILION, PURPLE, SKY), strict=True))
    shape = rows[0].shape
    places = list(dict.fromkeys(row.place for row in rows))
    axes = into.subplots(1, len(places), sharey=True, squeeze=False)[0]
    for axis, place in zip(axes, places, strict=True):
        here = [
            row for row in rows if row.shape == shape and row.place == place and row.writers == 1 and not row.synced
        ]
        cases = [case for case in dict.fromkeys(row.case for row in here) if case not in LEFT_OUT]
        writers = [name for name in ORDER if any(row.writer == name for row in here)]
        width = 0.8 / len(writers)
        for index, writer in enumerate(writers):
            found = {row.case: row.gb_per_s for row in here if row.writer == writer}
            places_of = [number + width * (index - len(writers) / 2 + 0.5) for number in range(len(cases))]
            axis.bar(places_of, [found.get(case, 0.0) for case in cases], width, color=colours[writer], label=writer)
        axis.set_xticks(range(len(cases)), [_in_lines(case) for case in cases])
        logarithmic(axis.yaxis)
        axis.set_title(f"{shape.name} on {place}", color=INK)
    axes[0].set_ylabel("GB/s, by the model's size")
    handles, labels = axes[0].get_legend_handles_labels()
    into.legend(handles, labels, loc="outside lower center", ncols=len(ORDER))


def _in_lines(case: str) -> str:
    return case.replace(", ", "\n").replace(" changed", "").replace("read ", "read\n")
