"""Names of segment files: told apart where case doesn't count; foreign ones are nobody's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.store.segment_names import parse_segment_name, segment_name
from daskevo.types import ModelId, Tick

IDS = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
COUNTERS = st.integers(0, 2**63 - 1)


@settings(max_examples=300, deadline=None)
@given(IDS, IDS, COUNTERS, COUNTERS)
def test_names_are_told_apart_where_case_does_not_count(one: str, other: str, generation: int, counter: int) -> None:
    attempt = Tick(generation, counter)
    name = segment_name(ModelId(one), attempt)
    assert len(name) + len(".01234567.tmp") <= 255
    assert name == name.lower()
    assert parse_segment_name(name) == (one, attempt, False)
    assert parse_segment_name(name + ".0123abcd.tmp") == (one, attempt, True)
    for variant in (other, one.upper(), one.lower(), one.swapcase(), one + ".1-1", one + "-1"):
        if variant != one and len(variant) <= 100:
            assert segment_name(ModelId(variant), attempt) != name


@pytest.mark.parametrize(
    "name",
    [
        "m.1-1",
        "m.1-1.seg.tmp",
        "m.1-1.seg.0123abc.tmp",
        "M.1-1.seg",
        "m~0.1-1.seg",
        "m~01.1-1.seg",
        "m~ff.1-1.seg",
        "m~.1-1.seg",
        "1~1.1-1.seg",
        ".1-1.seg",
        "m.01-1.seg",
        "m.1-1-1.seg",
        "m.9999999999999999999-1.seg",
        "m\n.1-1.seg",
        "é.1-1.seg",
    ],
)
def test_foreign_names_are_nobody_s_segments(name: str) -> None:
    assert parse_segment_name(name) is None
