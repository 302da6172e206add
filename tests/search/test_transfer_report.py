"""What a report keeps of an inheritance: bounded, in JSON and back, and nothing else is taken for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from daskevo.errors import CorruptRecord
from daskevo.search import Report, TransferReport
from daskevo.types import ModelId

FOUND = TransferReport("other settings", "d: units 8, the ancestor's 4", 2, 4, 1, 1200, tried=1, silent=2)


def test_a_report_keeps_it() -> None:
    report = Report(0, ModelId("m0"), "finished", quality=0.5, transfer=FOUND)
    assert Report.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_reports_without_it_are_older_ones() -> None:
    value = Report(0, ModelId("m0"), "finished", quality=0.5).to_json()
    del value["transfer"]
    assert Report.from_json(value).transfer is None


def test_it_takes_few_bytes_whatever_is_said() -> None:
    report = TransferReport("another layer", "x" * 10_000, 10**9, 10**9, 10**9, 10**15, 10**6, 10**6)
    assert report.words.endswith("x…")
    value = Report(0, ModelId("m0"), "finished", transfer=report).to_json()["transfer"]
    assert len(json.dumps(value)) < 450
    assert TransferReport.from_json(value) == report


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        "none",
        [],
        {},
        {"reason": "gone"},
        {"reason": 1, "words": ""},
        {"reason": "gone", "words": "", "layers": -1},
        {"reason": "gone", "words": "", "layers": True},
        {"reason": "gone", "words": "", "colour": 3},
    ],
)
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(CorruptRecord, match="what an evaluation inherited"):
        TransferReport.from_json(value)
    if value is not None:
        with pytest.raises(CorruptRecord):
            Report.from_json(Report(0, ModelId("m0"), "failed").to_json() | {"transfer": value})


@pytest.mark.parametrize(
    "odd",
    [
        *({"model_id": "../x"}, {"model_id": None}, {"number": "first"}, {"quality": "good"}, {"quality": 10**400}),
        *({"metrics": [1]}, {"seconds": 5}, {"status": "begun"}, {"colour": "red"}),
    ],
)
def test_a_report_of_other_values_is_refused(odd: dict[str, Any]) -> None:
    with pytest.raises(CorruptRecord):
        Report.from_json(Report(0, ModelId("m0"), "finished", quality=0.5).to_json() | odd)
