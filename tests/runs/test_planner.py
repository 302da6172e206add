"""From requests to units: what is shared, what depends on what."""

from __future__ import annotations

from dataclasses import replace

from daskevo.runs import identity, plan, share
from daskevo.search import Request
from daskevo.space import Candidate
from daskevo.types import ModelId, VertexId


def requests(count: int, **fields: object) -> list[Request]:
    return [Request(n, ModelId(f"m{n}"), Candidate((n,)), **fields) for n in range(count)]  # type: ignore[arg-type]


def test_identity_is_the_graph_the_sequence_and_the_end() -> None:
    ids = (VertexId(b"a" * 16), VertexId(b"b" * 16))
    one, other = requests(2)
    assert identity(one, ids) == identity(other, ids)
    assert identity(one, ids) == identity(replace(one, transfer=False, ancestor=None, parent=ModelId("p")), ids)
    assert identity(one, ids) != identity(replace(one, repeat=1), ids)
    assert identity(one, ids) != identity(one, ids[::-1])
    assert identity(one, ids) != identity(replace(one, until_step=5), ids)
    assert identity(one, ids) != identity(replace(one, sequence=[0.1]), ids)


def test_known_waiting_fresh() -> None:
    names = {0: "a", 1: "b", 2: "a", 3: "c", 4: "d", 5: "d"}
    asked = requests(6)
    sharing = share(asked, names, done={"b": 90}, under_way={"c": 91})
    assert [request.number for request in sharing.fresh] == [0, 4]
    assert sharing.known == {1: 90}
    assert sharing.waiting == {2: 0, 3: 91, 5: 4}


def test_a_request_under_way_does_not_wait_for_itself() -> None:
    sharing = share(requests(1), {0: "a"}, done={}, under_way={"a": 0})
    assert [request.number for request in sharing.fresh] == [0]


def test_one_match_for_the_batch_and_an_evaluation_each() -> None:
    first, second, control = requests(3)
    control = replace(control, transfer=False)
    units = plan([first, control, second], {2: 1}, seconds=3.0)
    match, *evaluations = units
    assert (match.kind, match.numbers, match.inputs) == ("match", (0, 1), ())
    assert [(unit.numbers, unit.inputs) for unit in evaluations] == [
        ((0,), (match.key,)),
        ((2,), ()),
        ((1,), (match.key,)),
    ]
    assert [unit.estimated_s for unit in evaluations] == [3.0] * 3
    assert len({unit.key for unit in units}) == 4


def test_nothing_to_match_no_match() -> None:
    for fields in ({"transfer": False}, {"ancestor": None}, {"ancestor": "m9"}):
        assert [unit.kind for unit in plan(requests(2, **fields))] == ["evaluate", "evaluate"]


def test_submitted_again_is_another_key() -> None:
    once, again = plan(requests(1)), plan(requests(1), {0: 1})
    assert {unit.key for unit in once}.isdisjoint(unit.key for unit in again)
