"""The comparison in words: one arm beside its baseline, and Markdown tables over all seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Row = dict[str, Any]
Say = Callable[[float], str]
Columns = dict[str, tuple[Callable[[Row], float | None], Say]]


def show(row: Row, baseline: Row) -> None:
    """Print one arm beside the arm without transfer."""

    def ratio(name: str) -> str:
        return f"{row[name]:.1f} s ({row[name] / baseline[name]:.2f}x)"

    def reached(name: str) -> str:
        return "never" if row[name] is None else f"{row[name][0]} evaluations, {row[name][1]:.0f} s"

    def bytes_of(stored: str, full: str) -> str:
        return f"{row[stored] / 1e6:.1f} of {row[full] / 1e6:.1f} MB ({row[full] / max(1, row[stored]):.1f}x less)"

    print(f"## {row['problem']}, seed {row['seed']}, {row['arm']}")
    print(
        f"runtime {ratio('runtime_s')}; late evaluations {ratio('late_evaluation_s')}; "
        f"an evaluation {row['evaluation_mean_s']:.2f} +- {row['evaluation_deviation_s']:.2f} s"
    )
    print(
        f"best {row['best']:.4f}, mean {row['mean']:.4f}; to the baseline's 90th percentile: {reached('to_p90')}; "
        f"to its best: {reached('to_best')}"
    )
    print("best after evaluations: " + "; ".join(f"{n}: {q:.4f}" for n, q in row["best_by_evaluations"].items()))
    print("best after seconds: " + "; ".join(f"{t}: {_quality(q)}" for t, q in row["best_by_seconds"].items()))
    print(
        "top 3 in search / from scratch / from scratch 3x longer: "
        + "; ".join(f"{r['in_search']:.4f} / {r['once']:.4f} / {r['longer']:.4f}" for r in row["retrained"])
    )
    if row["stored_bytes"] is not None:
        print(
            f"frozen {row['mean_frozen_share']:.0%} of vertices on average; {row['transferred']} inherited; repository "
            f"{row['repository_share']:.1%} of evaluation time"
        )
        print(
            f"not retired {bytes_of('not_retired_stored_bytes', 'not_retired_full_bytes')}; living "
            f"{bytes_of('stored_bytes', 'full_copy_bytes')}"
        )
    phases = ", ".join(f"{phase} {seconds:.3f} s" for phase, seconds in row["phases_s"].items())
    print(f"phases: {phases}\n", flush=True)


def summary(rows: Sequence[Row]) -> str:
    """Return Markdown: per problem a table of its arms over all seeds, and what was best when.

    Parameters
    ----------
    rows:
        Figures of one problem, seed and arm each, with the ``baseline`` arm's name.
    """
    parts = [
        "Medians over the seeds, and the range. Ratios, and the targets (the 90th percentile and the best of its "
        "qualities), are those of the arm without transfer of the same seed; a quality never reached is later than "
        "all others.",
    ]
    for problem in dict.fromkeys(row["problem"] for row in rows):
        own = [row for row in rows if row["problem"] == problem]
        parts += [f"## {problem}"]
        parts += [part for words, columns in _columns(own).items() for part in (words, _arms(own, columns))]
        parts += ["Best quality after so many evaluations:", _curve(own, "best_by_evaluations")]
        parts += ["After so many seconds:", _curve(own, "best_by_seconds")]
    return "\n\n".join(parts)


def _columns(rows: Sequence[Row]) -> dict[str, Columns]:
    """Return title of a table -> title of a column -> what it shows of a row, and how that is said."""
    baselines = {(row["seed"], row["arm"]): row for row in rows}

    def baseline(row: Row) -> Row:
        return baselines[row["seed"], row["baseline"]]

    def ratio(name: str) -> Callable[[Row], float]:
        return lambda row: row[name] / baseline(row)[name]

    whole, two, four, signed, percent = (
        "{:.0f}".format,
        "{:.2f}".format,
        "{:.4f}".format,
        "{:+.4f}".format,
        "{:.0%}".format,
    )
    return {
        "Time:": {
            "runtime, s": (lambda row: row["runtime_s"], whole),
            "runtime, ratio": (ratio("runtime_s"), two),
            "evaluation, s": (lambda row: row["evaluation_mean_s"], two),
            "late evaluation, ratio": (ratio("late_evaluation_s"), two),
            "evaluations to p90": (lambda row: _reached(row["to_p90"], 0), whole),
            "s to p90": (lambda row: _reached(row["to_p90"], 1), whole),
            "evaluations to best": (lambda row: _reached(row["to_best"], 0), whole),
            "s to best": (lambda row: _reached(row["to_best"], 1), whole),
        },
        "Quality:": {
            "best": (lambda row: row["best"], four),
            "best, difference": (lambda row: row["best"] - baseline(row)["best"], signed),
            "mean": (lambda row: row["mean"], four),
            "top 3 from scratch": (lambda row: _again(row, "once"), four),
            "difference": (lambda row: _less(_again(row, "once"), _again(baseline(row), "once")), signed),
            "3x longer": (lambda row: _again(row, "longer"), four),
            "difference of these": (lambda row: _less(_again(row, "longer"), _again(baseline(row), "longer")), signed),
        },
        "Stored, in MB:": {
            "living": (lambda row: _megabytes(row["stored_bytes"]), "{:.1f}".format),
            "full copies": (lambda row: _megabytes(row["full_copy_bytes"]), "{:.1f}".format),
            "nothing retired": (lambda row: _megabytes(row["not_retired_stored_bytes"]), "{:.1f}".format),
            "full copies of all": (lambda row: _megabytes(row["not_retired_full_bytes"]), "{:.1f}".format),
            "vertices frozen": (lambda row: row["mean_frozen_share"] if row["transferred"] else None, percent),
            "repository's share of time": (
                lambda row: None if row["stored_bytes"] is None else row["repository_share"],
                "{:.1%}".format,
            ),
        },
    }


def _arms(rows: Sequence[Row], columns: Columns) -> str:
    lines = []
    for arm, own in _by_arm(rows):
        cells = [over_seeds([value(row) for row in own], say) for value, say in columns.values()]
        if any(cell != "–" for cell in cells):
            lines.append([f"*{arm}*", str(len(own)), *cells])
    return markdown(["arm", "seeds", *columns], lines)


def _curve(rows: Sequence[Row], name: str) -> str:
    # A summary that was read from its file has texts for numbers.
    points = sorted({int(point) for row in rows for point in row[name]})
    lines = []
    for arm, own in _by_arm(rows):
        curves = [{int(point): quality for point, quality in row[name].items()} for row in own]
        cells = []
        for point in points:
            # Of a run that has ended by then, what it ended with.
            values = [curve[max((p for p in curve if p <= point), default=min(curve))] for curve in curves]
            known = [value for value in values if value is not None]
            cells.append(_quality(statistics.median(known)) if len(known) == len(values) else "–")
        lines.append([f"*{arm}*", *cells])
    return markdown(["arm", *map(str, points)], lines)


def over_seeds(values: Sequence[float | None], say: Say) -> str:
    """Return median and range; infinite is never.

    >>> over_seeds([1.0, 3.0, 2.0], "{:.1f}".format), over_seeds([4.0, math.inf, math.inf], "{:.0f}".format)
    ('2.0 (1.0 to 3.0)', 'never (4 to never)')
    >>> over_seeds([None, None], str), over_seeds([0.5], str)
    ('–', '0.5')
    """
    known = sorted(value for value in values if value is not None)
    if not known:
        return "–"
    # Of an even number the upper one of the two in the middle, where there is no mean of them.
    middle = statistics.median(known) if known[-1] < math.inf else statistics.median_high(known)
    median, low, high = ("never" if value == math.inf else say(value) for value in (middle, known[0], known[-1]))
    return median if low == high else f"{median} ({low} to {high})"


def markdown(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table.

    >>> print(markdown(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    rows = [heads, *lines]
    text = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([text[0], "|" + "---|" * len(heads), *text[1:]])


def _by_arm(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    return [(arm, [row for row in rows if row["arm"] == arm]) for arm in dict.fromkeys(row["arm"] for row in rows)]


def _reached(found: Sequence[float] | None, index: int) -> float:
    return math.inf if found is None else found[index]


def _again(row: Row, name: str) -> float | None:
    return statistics.mean(one[name] for one in row["retrained"]) if row["retrained"] else None


def _less(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def _megabytes(count: int | None) -> float | None:
    return None if count is None else count / 1e6


def _quality(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
