"""What is counted from a run's series."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from daskevo.types import Objective
from daskevo_workflows.reports.series import (
    EvaluationRow,
    RunSeries,
    cumulative_bytes,
    first_reaching,
    founders,
    high_quality,
    late,
    median,
    phase_means,
    quantile,
    running_best,
)
from daskevo_workflows.reports.tables import best_models

MAX, MIN = Objective.parse("max accuracy"), Objective.parse("min loss")


def run(objective: Objective, qualities: list[float | None], **fields: Any) -> RunSeries:
    return RunSeries(
        label="run",
        run_id="id",
        objective=objective,
        evaluations=tuple(
            EvaluationRow(number=i, model_id=f"m{i}", status="finished", ended_s=10.0 * (i + 1), quality=quality)
            for i, quality in enumerate(qualities)
        ),
        **fields,
    )


def test_best_follows_the_objectives_direction() -> None:
    assert running_best([2.0, 3.0, 1.0], MIN) == [2.0, 2.0, 1.0]
    assert [e.model_id for e in run(MIN, [2.0, 3.0, 1.0]).best(2)] == ["m2", "m0"]
    assert [e.model_id for e in run(MAX, [2.0, None, 3.0, 3.0]).best(3)] == ["m2", "m3", "m0"]


def test_of_a_candidate_in_parts_the_best_part_is_among_the_best() -> None:
    whole = run(MAX, [0.5, 0.7, 0.9, 0.8, 0.6])
    goes_on = {2: "m0", 3: "m2"}
    rows = tuple(replace(e, continues=goes_on.get(e.number)) for e in whole.evaluations)
    parts = replace(whole, evaluations=rows, identity={"unit": "epoch"})
    assert [e.model_id for e in parts.best(9)] == ["m2", "m1", "m4"]
    table = best_models(parts)
    assert table is not None
    assert table.heads[3] == "after step"
    assert [row[7 + 1] for row in table.rows] == ["none: from scratch, in parts", *["none: from scratch"] * 2]
    plain = best_models(whole)
    assert plain is not None
    assert "after step" not in plain.heads
    assert len(plain.rows) == 5


def test_a_target_is_reached_in_the_objectives_direction() -> None:
    assert first_reaching(run(MAX, [0.1, None, 0.5, 0.9]), 0.5) == (2, 30.0)
    assert first_reaching(run(MIN, [0.9, 0.5]), 0.6) == (2, 20.0)
    assert first_reaching(run(MAX, [0.1]), 0.5) is None
    qualities = [i / 100 for i in range(101)]
    assert high_quality(run(MAX, list(qualities))) == pytest.approx(0.9)
    assert high_quality(run(MIN, list(qualities))) == pytest.approx(0.1)


def test_lineage_is_the_chain_of_ancestors_and_ends_even_in_a_circle() -> None:
    chain = run(MAX, [0.1, 0.2, 0.3])
    linked = replace(
        chain,
        evaluations=tuple(
            replace(e, ancestor=a) for e, a in zip(chain.evaluations, ["elsewhere", "m0", "m1"], strict=True)
        ),
    )
    assert linked.lineage("m2") == ["m2", "m1", "m0", "elsewhere"]
    assert founders(linked) == {"elsewhere": 3}
    circle = replace(linked, evaluations=tuple(replace(e, ancestor="m0") for e in linked.evaluations))
    assert circle.lineage("m0") == ["m0"]


def test_bytes_add_up_as_if_nothing_were_retired() -> None:
    made = run(MAX, [0.1, 0.2])
    sized = replace(made, evaluations=tuple(replace(e, own_bytes=3, full_bytes=10) for e in made.evaluations))
    assert cumulative_bytes(sized) == [(10.0, 3, 10), (20.0, 6, 20)]


def test_repository_time_is_a_part_of_evaluation_time() -> None:
    made = run(MAX, [0.1])
    timed = replace(
        made, evaluations=(replace(made.evaluations[0], seconds={"query": 1, "inherit": 2, "training": 10, "put": 4}),)
    )
    assert (timed.repository_s, timed.evaluation_s) == (7.0, 17.0)


def test_phases_keep_their_order_and_unknown_ones_come_last() -> None:
    rows = [
        EvaluationRow(number=0, model_id="a", status="finished", seconds={"put": 1.0, "polish": 4.0, "build": 2.0}),
        EvaluationRow(number=1, model_id="b", status="finished", seconds={"put": 3.0}),
        EvaluationRow(number=2, model_id="c", status="finished"),
    ]
    assert list(phase_means(rows).items()) == [("build", 1.0), ("put", 2.0), ("polish", 2.0)]


def test_nothing_has_no_middle() -> None:
    assert quantile([], 0.5) is None
    assert median([]) is None
    assert median([3.0, 1.0, 2.0, 10.0]) == 2.5
    assert late(run(MAX, [])) == []
    assert [e.number for e in late(run(MAX, [0.1] * 5))] == [3, 4]


def test_the_frozen_share_counts_what_inherited_nothing() -> None:
    made = run(MAX, [0.1, 0.2])
    first, second = made.evaluations
    assert replace(made, evaluations=(replace(first, frozen_share=0.6), second)).mean_frozen_share == pytest.approx(0.3)
